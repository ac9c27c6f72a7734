"""The ports of a simulated client: a store, a clock, ids and a cache over one `World`.

Each call of the store is one step.  Writes can fail in every way in which a remote store fails.  A
scan of staged rows returns short pages, so other clients can step in between.  The cache returns
records of any age, like a cache in another process.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Literal, NamedTuple

from graveler.block.adapter import Blocks
from graveler.committed.ranges import RangeStore
from graveler.core.errors import HookFailed, OutcomeUnknown, Unavailable
from graveler.core.ids import BranchId, CommitId
from graveler.core.records import ABSENT, Absent, Commit, Repository, Versioned
from graveler.core.requests import RetryPolicy
from graveler.core.turns import FREE, ThreadTurns, Turns
from graveler.engine.commits.heads import commit_of
from graveler.engine.hooks import COMMIT, NO_HOOKS, HookEvent, Hooks, NoHooks, Pending
from graveler.engine.ports import Deadline, EngineSettings, OpenRepository, Ports, Sequential
from graveler.kv.retry import retrying_store
from graveler.kv.store import (
    WRITTEN,
    Condition,
    Declined,
    Moved,
    Newer,
    Outcome,
    Paired,
    Place,
    Row,
    ScanPage,
    Store,
    Write,
    holds,
    newer_one_by_one,
    other_places,
)
from graveler.refs.cache import Moment
from simulator.schedule import Fault, World

_START_NS = 1_700_000_000 * 1_000_000_000
_STAGED_PAGE = 2
_POLICY = RetryPolicy(attempts=3, deadline_seconds=10.0, backoff_seconds=0.001)
SETTLED = EngineSettings(signing_key=bytes(32))
GROWING = SETTLED._replace(staging_shards_max=3, staging_shard_rows=1)  # like the last commits
_SEQUENTIAL = Sequential()


class SimulatedClock:
    """Steps as time, with a skew for each client."""

    def __init__(self, world: World, skew_ns: int) -> None:
        self._world = world
        self._start_ns = _START_NS + skew_ns

    def now_ns(self) -> int:
        return self._start_ns + self._world.step * self._world.step_ns + self._world.jumped_ns

    def steady_seconds(self) -> float:
        return (self._world.step * self._world.step_ns + self._world.jumped_ns) / 1e9

    def sleep(self, seconds: float) -> None:
        self._world.pause()


class SimulatedIds:
    """Ids in the order of the calls."""

    def __init__(self, world: World) -> None:
        self._world = world

    def stamp(self) -> bytes:
        self._world.serial += 1
        return self._world.serial.to_bytes(16, "big")

    def unique(self, length: int) -> str:
        self._world.serial += 1
        return str(self._world.serial).zfill(length)


class StaleCache:
    """A cache that may return any of the last branch records, or none."""

    def __init__(
        self,
        world: World,
        commits: Mapping[CommitId, Commit],
        repository: Repository | Literal[Absent.ABSENT],
    ) -> None:
        self._world = world
        self._commits = dict(commits)
        self._repository = repository

    def repository(self, id: object) -> Repository | Literal[Absent.ABSENT]:
        return self._repository

    def now(self) -> Moment:
        return Moment(0.0, 0)

    def put_repository(self, repository: Repository, read_at: Moment) -> None:
        return None

    def forget_repository(self, id: object) -> None:
        return None

    def branch(
        self, repository: Repository, branch: BranchId
    ) -> Versioned | Literal[Absent.ABSENT]:
        past = self._world.past.get(branch)
        if not past:
            return ABSENT
        age = self._world.choices.age(len(past))
        return past[-age] if age else ABSENT

    def put_branch(self, repository: Repository, branch: BranchId, record: Versioned) -> None:
        past = self._world.past.setdefault(branch, [])
        if not past or past[-1].version != record.version:
            past.append(record)

    def forget_branch(self, repository: Repository, branch: BranchId) -> None:
        return None

    def commit(self, repository: Repository, id: CommitId) -> Commit | Literal[Absent.ABSENT]:
        return self._commits.get(id, ABSENT)

    def put_commit(self, repository: Repository, id: CommitId, commit: Commit) -> None:
        self._commits[id] = commit

    def base(self, repository: Repository, *commits: CommitId) -> Literal[Absent.ABSENT]:
        return ABSENT

    def put_base(self, repository: Repository, *commits: CommitId) -> None:
        return None


class SimulatedStore:
    """`Store` over the world's rows; each call is one step."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rows = world.rows
        self._pause = world.pause

    def get(self, partition: bytes, key: bytes) -> Row | Literal[Absent.ABSENT]:
        self._pause()
        held = self._rows.get(partition)
        return ABSENT if held is None else held.get(key, ABSENT)

    def get_many(self, places: Sequence[Place]) -> Mapping[Place, Row]:
        self._pause()
        found = {}
        for place in places:
            row = self._find(*place)
            if row is not None:
                found[place] = row
        return found

    def scan(self, partition: bytes, start: bytes, end: bytes, limit: int) -> ScanPage:
        self._pause()
        held = self._rows.get(partition)
        if not held:
            return _NO_ROWS
        keys = self._world.keys(partition)
        first = bisect_left(keys, start) if start else 0
        last = bisect_left(keys, end, first) if end else len(keys)
        if first == last:
            return _NO_ROWS
        size = min(limit, _STAGED_PAGE) if partition.startswith(b"s/") else limit
        found = keys[first : min(last, first + size)]
        return ScanPage(tuple([(key, held[key]) for key in found]), last - first > size)

    def set(self, partition: bytes, key: bytes, value: bytes, version: bytes) -> None:
        self._write(lambda: self._world.put(partition, key, Row(value, version)))

    def set_many(self, writes: Sequence[Write]) -> None:
        def part() -> None:
            chosen = self._world.choices.portion(len(writes))
            self._put_all([write for write, is_in in zip(writes, chosen, strict=True) if is_in])

        self._write(lambda: self._put_all(writes), part)

    def set_if(
        self,
        partition: bytes,
        key: bytes,
        value: bytes,
        version: bytes,
        condition: Condition,
        order: int = 0,
    ) -> Outcome:
        def apply() -> Outcome:
            there = self._find(partition, key) or ABSENT
            others = [self._find(*place) or ABSENT for place in other_places(condition)]
            if not holds(condition, there, *others):
                return Declined(there)
            self._world.put(partition, key, Row(value, version, order))
            if isinstance(condition, Paired):
                also = condition.write
                self._world.put(also.partition, also.key, Row(also.value, also.version))
            if isinstance(condition, Moved):
                self._world.drop(*condition.place)
            return WRITTEN

        return self._conditional((partition, key), apply)

    def set_newer(
        self, partition: bytes, key: bytes, value: bytes, version: bytes, order: int
    ) -> Outcome:
        def apply() -> Outcome:
            there = self._find(partition, key)
            if there is not None and there.order >= order:
                return Declined(there)
            self._world.put(partition, key, Row(value, version, order))
            return WRITTEN

        return self._conditional((partition, key), apply)

    def set_newer_many(self, rows: Sequence[Newer]) -> Sequence[Outcome | Unavailable]:
        return newer_one_by_one(self, rows)

    def delete(
        self, partition: bytes, keys: Sequence[bytes], versions: Sequence[bytes] = ()
    ) -> None:
        def apply() -> None:
            for number, key in enumerate(keys):
                there = self._find(partition, key)
                if not versions or (there is not None and there.version == versions[number]):
                    self._world.drop(partition, key)

        self._write(apply)

    def _find(self, partition: bytes, key: bytes) -> Row | None:
        held = self._rows.get(partition)
        return None if held is None else held.get(key)

    def _put_all(self, writes: Sequence[Write]) -> None:
        for write in writes:
            self._world.put(write.partition, write.key, Row(write.value, write.version))

    def _fault(self) -> Fault:
        self._pause()
        if self._world.alone:
            return Fault.NONE
        fault = self._world.choices.fault()
        self._world.faults += fault is not Fault.NONE
        return fault

    def _write(self, apply: Callable[[], None], part: Callable[[], None] | None = None) -> None:
        fault = self._fault()
        if fault is Fault.NONE:
            apply()
            return
        if fault is Fault.LATE:
            self._world.late.append(apply)
        elif fault is Fault.DECLINED:
            (part or apply)()
        elif fault is Fault.APPLIED:
            apply()
        raise OutcomeUnknown("no answer")

    def _conditional(self, place: Place, apply: Callable[[], Outcome]) -> Outcome:
        fault = self._fault()
        if fault is Fault.NONE:
            return apply()
        if fault is Fault.LATE:
            self._world.late.append(apply)
        elif fault is not Fault.LOST:
            outcome = apply()
            if fault is Fault.DECLINED and outcome is WRITTEN:
                there = self._find(*place)
                return Declined(ABSENT if there is None else there)
        raise OutcomeUnknown("no answer")


_NO_ROWS = ScanPage((), False)


class Deployment(NamedTuple):
    """What all clients of a run share besides the world, and their settings."""

    ranges: RangeStore
    blocks: Blocks
    commits: Mapping[CommitId, Commit]  # in every cache
    retrying: bool = False
    settings: EngineSettings = SETTLED
    repository: Repository | Literal[Absent.ABSENT] = ABSENT  # in every cache
    hooks: Hooks = NO_HOOKS


def client_ports(
    world: World, deployment: Deployment, skew_steps: int = 0, turns: Turns = FREE
) -> Ports:
    """The ports of one more client of the world.  `turns`: those of its process."""
    clock = world.port("clock", SimulatedClock(world, skew_steps * world.step_ns))
    store: Store = world.port("kv", SimulatedStore(world))
    if deployment.retrying:
        store = retrying_store(store, clock, _POLICY)
    return Ports(
        kv=store,
        blocks=world.port("blocks", deployment.blocks),
        ranges=world.port("ranges", deployment.ranges),
        clock=clock,
        ids=world.port("ids", SimulatedIds(world)),
        fanout=_SEQUENTIAL,
        cache=StaleCache(world, deployment.commits, deployment.repository),  # type: ignore[arg-type]
        settings=deployment.settings,
        hooks=world.port("hooks", deployment.hooks),
        turns=world.port("turns", turns),
    )


VETOED = "vetoed"  # in the message of the commits that hooks veto
_STEPS = 24  # of one wait


class SteppedGate:
    """A `Gate` at which a client makes steps."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._is_open = False

    def wait(self, timeout: float) -> None:
        for _ in range(_STEPS):
            if self._is_open:
                return
            self._world.pause()

    def set(self) -> None:
        self._is_open = True


def stepped_turns(world: World) -> ThreadTurns:
    """The turns of one process of the world."""
    return ThreadTurns(nullcontext(), lambda: SteppedGate(world))


class VetoingHooks(NoHooks):
    """Hooks of a repository that refuses the commits whose message has the word `VETOED`."""

    def before(self, repo: OpenRepository, event: HookEvent, deadline: Deadline) -> Pending:
        if event.kind == COMMIT and VETOED in commit_of(repo, event.commit).message:
            raise HookFailed("vetoed")
        return Pending()
