"""The inputs of the HTTP service (`Service`) and of one request (`Call`)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeVar

from graveler.audit.trail import LoggedTrail, Trail
from graveler.auth.access import Caller
from graveler.auth.authenticator import Authenticator
from graveler.auth.permissions import Permission
from graveler.auth.principals import Change
from graveler.auth.throttling import DEFAULT_RATES, NO_RATES, Rates, RequestRates
from graveler.block.signature import Grant
from graveler.core import limits
from graveler.core.ids import RepositoryId
from graveler.core.records import ABSENT, Absent, Repository, without
from graveler.core.requests import preceded
from graveler.engine.ports import (
    OpenRepository,
    P,
    Ports,
    open_repository,
    operation_deadline,
    within,
)
from graveler.http.answers import Receive
from graveler.http.front import DIRECT, Front, Origin
from graveler.http.metrics import Metrics
from graveler.http.pools import Pools
from graveler.jobs.handover import AT_ONCE, Deadlines, TimeLimits
from graveler.jobs.queue import Queue
from graveler.jobs.schedule import Scheduler

# ---- deadlines -----------------------------------------------------------------------------------

_STORE_READS: Final = ("get", "get_many", "scan")
_RANGE_READS: Final = ("open_range", "read_metarange", "find_range")


def expiring(ports: P) -> P:
    """The same ports for one operation that begins now: reads raise `Unavailable` after its
    deadline.

    A listing over deleted rows, or a diff of two large tables, may read for minutes within one step
    of a verb.
    """
    deadline = operation_deadline(ports)

    def check(*_arguments: object, **_named: object) -> None:
        deadline.check("the request")

    kv = preceded(ports.kv, dict.fromkeys(_STORE_READS, check))
    ranges = preceded(ports.ranges, dict.fromkeys(_RANGE_READS, check))
    return replace(ports, kv=kv, ranges=ranges)


# ---- the service ---------------------------------------------------------------------------------

T = TypeVar("T")
_OPENED_MAX: Final = 1_024


class GrantCheck(Protocol):
    """Verifies presigned URLs: the signer of the block store."""

    def verify(self, method: str, name: str, query: Mapping[str, str], content_type: str) -> Grant:
        """The permission that the URL carries.  Raises `Unauthenticated` if its signature is not
        valid."""
        ...


class PageDollars(NamedTuple):
    """What the page costs its owner: a request of the API that reads, one that writes, and a byte
    that leaves the storage.  The page names no cost if all is zero."""

    read: float = 0
    write: float = 0
    byte: float = 0

    @property
    def text(self) -> str:
        """The numbers for the page; empty if all is free."""
        return " ".join(f"{each:g}" for each in self) if any(self) else ""


FREE: Final = PageDollars()
# List prices of us-east-1, November 2026, with the gateway, the functions and their logs: the means
# of a `stat`, a page of a list and a diff, and of an upload, a deletion, a new branch, a commit and
# a merge, as `benchmarks.cost` counts them.  A byte is one that leaves the region.
ON_AWS: Final = PageDollars(read=3.5e-6, write=11e-6, byte=0.09e-9)


class ServiceSettings(NamedTuple):
    """The settings of the service that a deployment chooses."""

    blockstore_type: str = "local"
    writer_threads: int = 24  # as many for look-ups that may wait, and for copies
    body_threads: int = 16  # of bodies that arrive
    stream_threads: int = 16  # of bodies that are read
    import_threads: int = 2
    walker_threads: int = 4
    requests_waiting_max: int = 512
    is_remote: bool = False  # many requests at once, and a network before the store (pools.py)
    access_log: bool = False
    presigns: bool = False  # clients may read and write bytes by presigned URLs
    presigns_parts: bool = False  # the same for the parts of a multipart upload
    inline_bytes_max: int = 0  # larger bodies need a presigned URL; 0: no limit
    time_limits: TimeLimits = AT_ONCE  # time limits of long requests
    front: Front = DIRECT  # proxies between clients and the service
    failed_logins: Rates = DEFAULT_RATES  # more attempts are refused unchecked
    user_requests_per_second: float = 0  # of one user, in this process; 0: no limit
    unknown_lines_max: int = limits.audit_unknown_lines_max  # a minute, in the audit trail
    ready_writes: bool = False  # readiness writes a row; not where each write is paid for
    denied_lines_max: int = limits.audit_denied_lines_max  # of one caller
    blank_seconds: float = 10  # between two blanks that keep a long answer of S3 alive
    storage_origins: tuple[str, ...] = ()  # where signed URLs lead, if not to the service
    page_dollars: PageDollars = FREE  # what the page says of its cost
    setup_token: str = ""  # required by the set-up call; empty: a generated one

    def __repr__(self) -> str:
        return without(self, "setup_token")


@dataclass(frozen=True, slots=True)
class Service:
    """The ports of the engine, and the services that the HTTP layer adds."""

    ports: Ports
    auth: Authenticator
    grants: GrantCheck
    settings: ServiceSettings
    pools: Pools
    queue: Queue  # the job queue
    metrics: Metrics = field(default_factory=Metrics)
    trail: Trail = field(default_factory=LoggedTrail)  # who changed what
    rates: RequestRates = NO_RATES  # of each user
    _opened: dict[RepositoryId, OpenRepository] = field(default_factory=dict, init=False)

    def opened(self, record: Repository) -> OpenRepository:
        """The repository of a record, reached through `ports`: the same for requests that found
        the same record.  Makes no request."""
        known = self._opened.get(record.id)
        if known is not None and known.record is record:
            return known
        if len(self._opened) >= _OPENED_MAX:
            self._opened.clear()
        opened = self._opened[record.id] = open_repository(self.ports, record)
        return opened

    def within(self, seconds: float) -> "Service":
        """The same service for one request with `seconds` left: no verb begins a step after that
        time."""
        return replace(self, ports=within(self.ports, seconds))

    def expiring(self) -> "Service":
        """The same service for one walk whose deadline starts now."""
        return replace(self, ports=expiring(self.ports))


@dataclass(slots=True)
class Call:
    """One request.

    `arguments`: the parameters of the path.  `inputs`: query, headers and body as the operation
    declares them, which the endpoint gets as its own parameters.  `headers`: all, by name in lower
    case.
    `account` is set if the operation needs credentials; `repository` is set if its path names one.
    `acting`: the user that an operation without credentials has found out, for the audit trail.
    `refused`, `granted`: items of a batch that the caller may not touch, and may touch.
    `changes`: what the service has changed itself to identify the caller, for the audit trail.
    `arrived_seconds`: time of arrival, on the steady clock of the ports.
    """

    service: Service
    arguments: Mapping[str, str]
    headers: Mapping[bytes, bytes]
    receive: Receive
    scope: Mapping[str, Any]
    inputs: Mapping[str, Any] = field(default_factory=dict)
    arrived_seconds: float = 0.0
    account: Caller | Literal[Absent.ABSENT] = ABSENT
    repository: Repository | Literal[Absent.ABSENT] = ABSENT
    acting: str = ""
    refused: list[Permission] = field(default_factory=list)
    granted: list[Permission] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    _open: OpenRepository | Literal[Absent.ABSENT] = ABSENT

    @property
    def query(self) -> Any:
        """The query in its declared type, or `ABSENT`."""
        return self.inputs.get("query", ABSENT)

    @property
    def body(self) -> Any:
        """The JSON body in its declared type, or `ABSENT`."""
        return self.inputs.get("body", ABSENT)

    @property
    def ports(self) -> Ports:
        return self.service.ports

    @property
    def repo(self) -> OpenRepository:
        """The repository named by the path, reached through `ports`."""
        if self._open is ABSENT:
            assert self.repository is not ABSENT, "the route has no {repository}"
            self._open = self.service.opened(self.repository)
        return self._open

    def begin_walk(self) -> None:
        """Start the deadline of a walk: `ports` and `repo` expire from now on."""
        self.service = self.service.expiring()
        self._open = ABSENT

    @property
    def scheduler(self) -> Scheduler:
        """The place where requests of this repository hand jobs to the worker."""
        return Scheduler(self.repo, self.service.queue)

    @property
    def due(self) -> Deadlines:
        """When this request is handed to the worker, and when it is answered at the latest.

        Both times count from the arrival of the request, because the client has waited since then,
        also while the service read the request and identified its sender.
        """
        return self.service.settings.time_limits.since(self.arrived_seconds)

    @property
    def committer(self) -> str:
        """The committer of a new commit: the account's e-mail address, or its name if it has
        none."""
        assert self.account is not ABSENT, "the route needs no credentials"
        return self.account.email or self.account.user

    def require(self, *permissions: Permission) -> None:
        """Check permissions that depend on more than the request itself: those that its operation
        declares are checked already.  Raises as `Authenticator.authorize` does."""
        assert self.account is not ABSENT, "the operation needs no credentials"
        self.service.auth.authorize(self.account, permissions)

    @property
    def walks(self) -> bool:
        """Whether a path parameter contains `~` or `^`: such a ref is resolved by walking the
        history."""
        text = "/".join(self.arguments.values())
        return "~" in text or "^" in text

    async def found(self, look_up: Callable[["Call"], T]) -> T:
        """The result of `look_up`, computed without blocking the event loop.

        A look-up that walks runs in the pool for walks, with a deadline that starts now.
        """
        pools = self.service.pools
        if self.walks:
            self.begin_walk()
            return await pools.walkers.start(look_up, self)
        return await pools.point(look_up, self)

    def header(self, name: bytes) -> str:
        """The text of a header; empty if the request does not have it."""
        return self.headers.get(name, b"").decode("latin-1")

    @property
    def origin(self) -> Origin:
        """The URL by which the sender reaches the service, and the sender's address."""
        return self.service.settings.front.origin(self.scope)

    def absolute(self, url: str) -> str:
        """A URL that the caller can use: a path of this service gets the caller's scheme and host,
        and the place where the application is mounted."""
        if not url.startswith("/"):
            return url
        origin, url = self.origin, self.scope.get("root_path", "") + url
        return origin.url + url if origin.host else url
