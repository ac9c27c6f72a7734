"""A small world behind the whole API, on the memory drivers, that is copied for each case.

    template = lake()                       made once, through the API itself
    world = template.copy()
    running = world.serve(strikes)          a process over it, whose requests may go wrong
    picture(running.door)                   all that GETs show

Range files are the real ones, in the memory block store, so that reads and commits make block
requests too.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from graveler.api.app import Graveler
from graveler.api.local import local_queue
from graveler.assembly.drivers import Drivers, ports_of
from graveler.auth.accounts import keeper
from graveler.auth.authenticator import Authenticator, Identities
from graveler.auth.jwks import GivenKeys
from graveler.auth.oidc import CodeLogin, OidcClient, OidcIssuer
from graveler.auth.sts import AwsLogin
from graveler.block.adapter import Blocks
from graveler.block.memory import MemoryBlocks
from graveler.block.retry import retrying_blocks
from graveler.block.signature import Signer
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import StoredFiles
from graveler.core.errors import GravelerError, Unavailable
from graveler.core.requests import RetryPolicy
from graveler.engine.ports import Sequential
from graveler.http.answers import Receive, Scope, Send
from graveler.http.dispatch import Application
from graveler.http.front import Front
from graveler.http.pools import BoundedPool, Pools
from graveler.http.service import Service, ServiceSettings
from graveler.kv.memory import MemoryStore, _Partition
from graveler.kv.retry import retrying_store
from graveler.kv.store import Place, Row, Store
from graveler.refs import keys
from simulator.service.process import basic
from tests.asgi import Ask, Door, Heard
from tests.auth.fake_sts import ACCOUNT, accepting
from tests.auth.provider import (
    AUDIENCE,
    CLIENT,
    CLIENT_SECRET,
    ISSUER,
    REDIRECT,
    FakeProvider,
    key_set,
    token,
)
from tests.support.clockwork import SeededIds, TickingClock
from tests.support.faults import Fault, FaultPlan, FaultyBlocks, FaultyStore

T = TypeVar("T")

SECRET = bytes(range(32))
SETUP_TOKEN = "the token of tests"
AWS = AwsLogin(accepting(), frozenset(("lake",)), frozenset((ACCOUNT,)))
# The code is the time at which the provider issues the token.
PROVIDER = FakeProvider(lambda code: token(aud=CLIENT, iat=int(code), exp=int(code) + 600))
CODES = CodeLogin(
    OidcIssuer(ISSUER, AUDIENCE, GivenKeys(key_set())),
    OidcClient(CLIENT, CLIENT_SECRET, frozenset((REDIRECT,))),
    PROVIDER,
    TickingClock(),
)
KEY, SECRET_KEY = "AKIAIOSFDNN7EXAMPLEQ", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
State = tuple[Mapping[Place, Row], Mapping[str, bytes]]
# Kinds of rows that no branch shows; and those that it shows once its head has them behind it.
_BESIDE = (
    *(keys.TAGS, keys.METADATA, keys.SETTINGS, keys.PULLS, keys.OPEN_PULLS, keys.CLEANUPS),
    *(keys.FOLDS, keys.JOBS, keys.JOB_ORDERS, keys.JOB_STEPS, keys.RUNS, keys.UPLOADS),
    *(keys.MULTIPART_UPLOADS, keys.PART_CHECKSUMS, keys.COMMENTS),
)
_OF_COMMITS = (keys.COMMITS, keys.GRAPH)
_OF_ALL = (b"repos", b"deleted", b"watch")  # partitions; keys begin with a repository
POLICY = RetryPolicy(attempts=3, deadline_seconds=5.0, backoff_seconds=0.01)


@dataclass
class Strikes:
    """Numbers the requests to both ports together, and says which goes wrong: number `at` by
    `fault`, and all after it as well if it is `lasting`.  Nothing while not `armed`."""

    at: int = 0
    fault: Fault = Fault.NONE
    lasting: bool = False
    armed: bool = True
    seen: list[str] = field(default_factory=list)

    def of(self, port: str) -> FaultPlan:
        """The plan of one port."""
        return lambda _number, verb: self._next(f"{port}.{verb}")

    def _next(self, verb: str) -> Fault:
        if not self.armed:
            return Fault.NONE
        self.seen.append(verb)
        number = len(self.seen)
        if number == self.at:
            return self.fault
        return Fault.REFUSED if self.lasting and number > self.at > 0 else Fault.NONE


class Later(Executor):
    """Runs what was submitted when it is told to, in the caller's thread."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], object]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        self.waiting.append(lambda: fn(*args, **kwargs))
        return Future()

    def run(self) -> None:
        """All of it; an error of the ports ends a piece, as it would end a thread's work."""
        while self.waiting:
            with suppress(Unavailable):
                self.waiting.pop(0)()


class AtOnce(BoundedPool):
    """Runs what was submitted at once, in the caller's thread: no request waits for another."""

    def __init__(self) -> None:
        super().__init__(0, 0, "")

    def proceed(self, function: Callable[..., T], *arguments: object) -> "asyncio.Future[T]":
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future

    start = proceed


class Surroundings(NamedTuple):
    """What all worlds share: a loop, threads, a folder for tables that are being built."""

    loop: asyncio.AbstractEventLoop
    pools: Pools
    later: Later
    scratch: Path


@contextmanager
def surroundings(scratch: Path) -> Iterator[Surroundings]:
    """For one module of tests."""
    loop, later = asyncio.new_event_loop(), Later()
    pools = Pools(
        AtOnce(), AtOnce(), BoundedPool(2, 64, "stream"), later, *(AtOnce() for _ in range(3))
    )
    try:
        yield Surroundings(loop, pools, later, scratch)
    finally:
        pools.close()
        loop.close()


class Running(NamedTuple):
    """A process over a world."""

    door: Door
    later: Later
    kv: FaultyStore
    blocks: FaultyBlocks
    service: Service

    def send(self, ask: Ask) -> Heard:
        """The answer; what the request left to do in the background is done too."""
        heard = self.door.send(ask)
        self.later.run()
        return heard

    def land(self) -> None:
        """Apply what is still on its way."""
        self.kv.land()
        while self.blocks.late:
            with suppress(GravelerError):  # of its condition: nobody hears it
                self.blocks.late.pop(0)()


class World:
    """What outlives a process: rows and objects, and the time."""

    def __init__(self, around: Surroundings) -> None:
        self.around = around
        self.clock = TickingClock()
        self.kv = MemoryStore()
        self.blocks = MemoryBlocks(self.clock)
        self.names: dict[str, str] = {}  # of commits, addresses, jobs, for requests

    def copy(self) -> "World":
        """The same world once more."""
        twin = World(self.around)
        twin.clock.sleep(self.clock.steady_seconds())
        for partition, stored in self.kv._partitions.items():
            fresh = twin.kv._partitions[partition] = _Partition()
            fresh.rows, fresh.keys = dict(stored.rows), list(stored.keys)
        twin.blocks._objects = dict(self.blocks._objects)
        twin.blocks._addresses = list(self.blocks._addresses)
        twin.blocks._serial = self.blocks._serial
        for name, upload in self.blocks._uploads.items():
            twin.blocks._uploads[name] = upload._replace(parts=dict(upload.parts))
        twin.names = self.names
        return twin

    @property
    def state(self) -> State:
        """Every row and every object, to compare."""
        rows = {
            (partition, key): row
            for partition, stored in self.kv._partitions.items()
            for key, row in stored.rows.items()
        }
        return rows, {at: stored.content for at, stored in self.blocks._objects.items()}

    def touched(self, begun: State) -> set[str]:
        """Names of the repositories with other rows or objects than in `begun`; "auth" if accounts
        differ, "" if anything else does.  Where the rows say which part of a repository they
        concern, the name goes on with it, as fault_picture.py says."""
        (rows, objects), (old_rows, old_objects) = self.state, begun
        paths = {at for at in {*objects, *old_objects} if objects.get(at) != old_objects.get(at)}
        places = {at for at in {*rows, *old_rows} if rows.get(at) != old_rows.get(at)}
        spaces = {at: row.value for at, row in {**old_rows, **rows}.items() if at[0][:2] == b"r/"}
        names = {
            at.removeprefix("mem://").split("/")[0] + ("" if at in old_objects else "/objects")
            for at in paths  # a new object is shown once rows name it
        }
        for partition, key in places:
            kind, *parts = partition.split(b"/")
            if kind in (b"s", b"e"):
                names |= _owners(spaces, parts[0])
            elif kind == b"r":
                is_new = (partition, key) not in old_rows
                names.add(parts[0].decode() + _part(key, is_new))
            elif kind in _OF_ALL:
                names.add(key.split(b"/")[0].decode())
            elif kind == keys.NAMESPACES:
                names.add(key.split(b"/")[-2].decode())
            else:
                names.add("auth" if kind == b"auth" else "")
        return names

    def kept(self, begun: State) -> dict[str, bytes]:
        """The objects that are as in `begun`: their bytes need not be asked for again."""
        old = begun[1]
        return {at: content for at, content in self.state[1].items() if old.get(at) == content}

    def serve(self, strikes: Strikes, *, retrying: bool = False, **settings: float) -> Running:
        """A process that knows nothing yet.  `settings`: of the engine."""
        ids = SeededIds(self.blocks._serial)
        faulty_kv = FaultyStore(self.kv, strikes.of("kv"))
        faulty_blocks = FaultyBlocks(self.blocks, strikes.of("block"))
        kv: Store = retrying_store(faulty_kv, self.clock, POLICY) if retrying else faulty_kv
        blocks: Blocks = (
            retrying_blocks(faulty_blocks, self.clock, POLICY) if retrying else faulty_blocks
        )
        ranges = SstRangeStore(StoredFiles(blocks))
        ports = ports_of(Drivers(kv, blocks, ranges, self.clock, ids, Sequential()), SECRET)
        changed = ports.settings._replace(**settings)  # type: ignore[arg-type]
        ports = replace(ports, settings=changed)
        service = Service(
            ports,
            Authenticator(
                keeper(kv, self.clock, ids, SECRET),
                setup_token=SETUP_TOKEN,
                identities=Identities(AWS, codes=CODES),
            ),
            Signer(SECRET, "", self.clock),
            ServiceSettings(
                blockstore_type="mem", presigns_parts=True, front=Front(hosts=("lake",))
            ),
            self.around.pools,
            local_queue(ports, self.around.pools),
        )
        headers = {"Authorization": basic(KEY, SECRET_KEY), "Host": "lake"}
        headers["X-Graveler-Setup-Token"] = SETUP_TOKEN
        door = Door(_application(service), self.around.loop, headers)
        return Running(door, self.around.later, faulty_kv, faulty_blocks, service)


def _owners(spaces: Mapping[Place, bytes], mark: bytes) -> set[str]:
    """The repositories with this uid, and what has a record that names this token, as `touched`
    names them; "" if there are none."""
    found = {
        partition.split(b"/")[1].decode() + _part(key, is_new=True)
        for (partition, key), value in spaces.items()
        if mark in value
    }
    whole = {partition for partition, _ in spaces if partition.endswith(b"/" + mark)}
    return found | {partition.split(b"/")[1].decode() for partition in whole} or {""}


def _part(key: bytes, is_new: bool) -> str:
    """What of its repository a row concerns, as the end of a name of `touched`: nothing for all."""
    if key.startswith(keys.BRANCHES):
        return "/" + key.decode()
    if key.startswith(keys.DELETED_BRANCHES):
        return "/" + (keys.BRANCHES + key.removeprefix(keys.DELETED_BRANCHES)).decode()
    is_beside = key.startswith(_BESIDE) or (is_new and key.startswith(_OF_COMMITS))
    return "/" + key[:2].decode() if is_beside else ""


def _application(service: Service) -> Application:
    """All operations over a service.  They are the same for all and compiled once:
    that takes longer than a case."""
    compiled = _compiled()  # a request keeps the service with which it began

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if getattr(compiled.state, "used", None) is not service:
            compiled.use(service).state.used = service
        await compiled(scope, receive, send)

    return application


@cache
def _compiled() -> Graveler:
    return Graveler()


def sound() -> Strikes:
    """Nothing goes wrong."""
    return Strikes(armed=False)
