"""What the HTTP service is given, and what an endpoint is given.

Whoever assembles the product fills `Service`; it never changes.  A `Call` is one request that has
passed validation and authentication.  For api/ and whoever starts the service.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeVar

from graveler import limits
from graveler.api.answers import Answer
from graveler.api.deadlines import expiring
from graveler.api.feed import Receive
from graveler.api.front import DIRECT, Front, Origin
from graveler.api.pools import Pools
from graveler.api.table import Route
from graveler.auth.accounts import Account
from graveler.auth.attempts import DEFAULT_RATES, Rates
from graveler.auth.authenticator import Authenticator
from graveler.block.signature import Grant
from graveler.engine.ports import Ports, within
from graveler.jobs.handover import AT_ONCE, Desk, Due, Patience
from graveler.jobs.queue import Queue
from graveler.records import ABSENT, Absent, Repository

T = TypeVar("T")


class GrantCheck(Protocol):
    """Who says what a presigned URL permits: the block store's signer."""

    def verify(self, method: str, name: str, query: Mapping[str, str], content_type: str) -> Grant:
        """Raises `Unauthenticated`."""
        ...


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """What a deployment may choose about the service."""

    blockstore_type: str = "local"
    writer_threads: int = 24
    stream_threads: int = 16
    import_threads: int = 2
    walker_threads: int = 4
    requests_waiting_max: int = 512
    access_log: bool = False
    presigns: bool = False  # clients may move bytes by URLs that the block store signs
    presigns_parts: bool = False  # the same of the parts of an upload
    inline_bytes_max: int = 0  # what is larger goes by such a URL alone; 0: no bound
    patience: Patience = AT_ONCE  # with requests that take long
    front: Front = DIRECT  # what stands between clients and the service
    failed_logins: Rates = DEFAULT_RATES  # how many are looked at
    setup_token: str = ""  # what the set-up call must carry; empty: a fresh one


@dataclass(frozen=True, slots=True)
class Service:
    """The ports of the engine, and what the service adds."""

    ports: Ports
    auth: Authenticator
    grants: GrantCheck
    settings: ServiceSettings
    pools: Pools
    queue: Queue  # of jobs

    def within(self, seconds: float) -> "Service":
        """The same service for one request of which `seconds` are left."""
        return replace(self, ports=within(self.ports, seconds))

    def expiring(self) -> "Service":
        """The same service for one walk that begins now."""
        return replace(self, ports=expiring(self.ports))


@dataclass(slots=True)
class Call:
    """One request.  `account` and `repository` are there whenever the route asks for them.

    `arrived_seconds`: when it arrived, by the steady clock of the ports."""

    service: Service
    route: Route
    arguments: Mapping[str, str]
    query: Mapping[str, Any]
    headers: Mapping[bytes, bytes]
    body: Any
    receive: Receive
    scope: Mapping[str, Any]
    arrived_seconds: float = 0.0
    account: Account | Literal[Absent.ABSENT] = ABSENT
    repository: Repository | Literal[Absent.ABSENT] = ABSENT

    @property
    def ports(self) -> Ports:
        return self.service.ports

    @property
    def repo(self) -> Repository:
        """The repository that the path names."""
        assert self.repository is not ABSENT, "the route has no {repository}"
        return self.repository

    @property
    def desk(self) -> Desk:
        """Where jobs of the repository are handed in."""
        return Desk(self.ports, self.repo, self.service.queue)

    @property
    def due(self) -> Due:
        """When it is handed to the worker, and answered at any rate.  Counted from its arrival:
        whoever waits has waited since then, also while it was read and its sender identified."""
        return self.service.settings.patience.since(self.arrived_seconds)

    @property
    def committer(self) -> str:
        """Who makes a commit: the account's e-mail address if it has one, else its name."""
        assert self.account is not ABSENT, "the route needs no credentials"
        return self.account.email or self.account.user

    @property
    def walks(self) -> bool:
        """Whether a ref of the path has modifiers, which are walked step by step."""
        return any("~" in text or "^" in text for text in self.arguments.values())

    async def found(self, look_up: Callable[["Call"], T]) -> T:
        """What `look_up` finds, without holding up the event loop."""
        pools = self.service.pools
        if self.walks:
            self.service = self.service.expiring()
            return await pools.walkers.start(look_up, self)
        return await pools.point(look_up, self)

    @property
    def amount(self) -> int:
        """How many lines a page may have."""
        amount: int = self.query["amount"]
        return amount if amount > 0 else limits.page_count_default

    def header(self, name: bytes) -> str:
        """A header's text; empty if it is not there."""
        return self.headers.get(name, b"").decode("latin-1")

    @property
    def origin(self) -> Origin:
        """How the sender reaches the service, and the sender's address."""
        return self.service.settings.front.origin(self.scope)

    def absolute(self, url: str) -> str:
        """A URL of this service as the caller can use it."""
        if not url.startswith("/"):
            return url
        origin = self.origin
        return origin.url + url if origin.host else url


Endpoint = Callable[[Call], Answer] | Callable[[Call], Awaitable[Answer]]
