"""Simulates many clients on one branch, in virtual time, against DynamoDB's limits.

The verbs are the real ones (writes.stage, reads.stat, commit.commit, take_in.take_in).  Each
client has its own cache and the retries of production; only the store and the time are simulated.
A client sends its next call as soon as it has its answer.  After a 503 it waits one to two seconds,
because Retry-After asks for one.  A run with the same arguments gives the same results.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from statistics import median, quantiles
from typing import NamedTuple

from benchmarks.partitions import Limits, PartitionedStore
from benchmarks.timeline import Timeline, TimelineClock, TimelineFanout
from graveler.assembly.drivers import Drivers, ports_of
from graveler.block.memory import MemoryBlocks
from graveler.committed.memory import MemoryRangeStore
from graveler.core import limits, wire
from graveler.core.errors import Conflict, NoChanges, Unavailable
from graveler.core.ids import BranchId, MetarangeId
from graveler.core.records import BreakParameters, Entry, RangeRef, Repository
from graveler.core.requests import THROTTLED_STORE
from graveler.engine import names
from graveler.engine.commits import commit
from graveler.engine.events import batches, take_in
from graveler.engine.objects import read as reads
from graveler.engine.objects import write as writes
from graveler.engine.ports import EngineSettings, Ports, open_repository
from graveler.engine.repositories import repository
from graveler.kv.memory import MemoryStore
from graveler.kv.retry import retrying_store
from graveler.kv.store import Store
from graveler.refs.event_rules import EventRule
from graveler.staging.area import shard_count
from tests.support.clockwork import SeededIds

WARM_SECONDS = 1.5  # until the units that full buckets start with are spent
COMMIT_SECONDS = 5.0
EVENTS = 100
_RETRY_AFTER_SECONDS = 1.0
_PUT_SECONDS = 0.04
FIXED = EngineSettings(signing_key=bytes(32))  # the number of shards never changes


class Outcome(NamedTuple):
    """The results of a run.  Rates are of acknowledged calls; `answers_503` per 1,000 calls."""

    per_second: float
    p50_ms: float
    p99_ms: float
    answers_503: float
    throttled: float  # share of the store requests that were refused
    commits: int
    failed: int  # commits
    lost: int  # acknowledged changes that the last commit does not have


@dataclass
class Tally:
    """The measurements of all clients."""

    timeline: Timeline
    delays: list[float] = field(default_factory=list)
    done: int = 0
    refused: int = 0
    commits: int = 0
    failed: int = 0
    acknowledged: set[str] = field(default_factory=set)

    def note(self, begun: float, count: int) -> None:
        if begun >= WARM_SECONDS:
            self.done += count
            self.delays.append(self.timeline.now - begun)


class SlowRanges(MemoryRangeStore):
    """A range store whose writes take as long as a PUT to S3."""

    def __init__(self, timeline: Timeline) -> None:
        super().__init__()
        self._timeline = timeline

    def splice_range(self, *arguments: object) -> RangeRef:
        self._timeline.sleep(_PUT_SECONDS)
        return super().splice_range(*arguments)  # type: ignore[arg-type]

    def write_metarange(self, *arguments: object) -> MetarangeId:
        self._timeline.sleep(_PUT_SECONDS)
        return super().write_metarange(*arguments)  # type: ignore[arg-type]


class Stage:
    """A simulation: one repository with one branch, and its clients."""

    def __init__(self, shards: int, settings: EngineSettings = FIXED, seed: int = 1) -> None:
        self._settings = settings
        self.timeline = Timeline()
        self.limits = Limits(self.timeline)
        self.random = Random(seed)
        self._clock = TimelineClock(self.timeline)
        self._ids = SeededIds(seed)
        self._rows = MemoryStore()
        self._blocks = MemoryBlocks(self._clock)
        self._ranges = SlowRanges(self.timeline)
        self.tally = Tally(self.timeline)
        new = repository.NewRepository(
            "lake",
            "mem://bucket/lake",
            breaks=BreakParameters(salt=b"scale"),
            staging_shards=shards,
        )
        self.repo: Repository = repository.create(self._ports(self._rows), new)

    def client(self) -> Ports:
        """The ports of a new client."""
        limited = PartitionedStore(self._rows, self.limits, self.random)
        return self._ports(retrying_store(limited, self._clock, THROTTLED_STORE))

    def unlimited(self) -> Ports:
        """Ports without limits and delays, for set-up and checks."""
        return self._ports(self._rows)

    def _ports(self, kv: Store) -> Ports:
        fanout = TimelineFanout(self.timeline)
        drivers = Drivers(kv, self._blocks, self._ranges, self._clock, self._ids, fanout)
        return replace(ports_of(drivers, FIXED.signing_key), settings=self._settings)

    def keep_calling(self, ports: Ports, call: Callable[[Ports, int], int], until: float) -> None:
        """Run a client until `until`: call, wait for the answer, call again."""

        def live() -> None:
            number = 0
            while self.timeline.now < until:
                begun = self.timeline.now
                try:
                    count = call(ports, number)
                    self.tally.note(begun, count)
                    number += 1
                except Unavailable:
                    self.tally.refused += begun >= WARM_SECONDS
                    self.timeline.sleep(_RETRY_AFTER_SECONDS * (1 + self.random.random()))

        self.timeline.spawn(live, self.random.random() * 0.5)

    def keep_committing(self, every: float, until: float) -> None:
        """Run a committer that commits about `every` seconds until `until`."""
        ports = self.client()

        def live() -> None:
            while self.timeline.now < until:
                self.timeline.sleep(every * (0.5 + self.random.random()))
                self.tally.commits += 1
                try:
                    commit.commit(
                        open_repository(ports, self.repo), "main", commit.CommitRequest("m", "c")
                    )
                except NoChanges:
                    self.tally.commits -= 1
                except (Conflict, Unavailable):
                    self.tally.failed += 1

        self.timeline.spawn(live)

    def outcome(self, seconds: float) -> Outcome:
        """The results of the run, after a last commit without limits."""
        ports, tally = self.unlimited(), self.tally
        self.timeline.run(1e9)  # clients that still wait get their answers
        if tally.acknowledged:
            done: list[object] = []

            def last() -> None:
                with suppress(NoChanges):
                    commit.commit(
                        open_repository(ports, self.repo), "main", commit.CommitRequest("last", "c")
                    )
                done.append(self._lost(ports))

            self.timeline.spawn(last)
            self.timeline.run(2e9)
            lost = done[0]
            assert isinstance(lost, int)
        else:
            lost = 0
        delays = sorted(tally.delays) or [0.0]
        p99 = quantiles(delays, n=100)[98] if len(delays) > 1 else delays[0]
        calls = len(tally.delays) + tally.refused
        sent = self.limits.taken + self.limits.refused
        return Outcome(
            tally.done / seconds,
            1_000 * median(delays),
            1_000 * p99,
            1_000 * tally.refused / max(1, calls),
            self.limits.refused / max(1, sent),
            tally.commits,
            tally.failed,
            lost,
        )

    def _lost(self, ports: Ports) -> int:
        found: set[str] = set()
        after, more = "", True
        while more:
            query = reads.ListQuery(after=after, amount=1_000)
            page = reads.list_objects(open_repository(ports, self.repo), "main@", query)
            found.update(path for path, _ in page.lines)
            after, more = (page.lines[-1][0] if page.lines else ""), page.more
        return len(self.tally.acknowledged - found)


def entry_of(path: str) -> Entry:
    """An entry of an object outside the repository."""
    return Entry(f"mem://landing/{path}", 64, f"{len(path):032x}", 1_760_000_000_000_000_000)


def _path(client: int, number: int) -> str:
    return f"tables/events/client={client:05}/part-{number:06}.snappy.parquet"


def writers(shards: int, clients: int, seconds: float, committers: tuple[int, float]) -> Outcome:
    """Clients that stage one path after another, beside committers.

    `committers`: their number, and the seconds between two commits of one.
    """
    stage = Stage(shards)
    until = WARM_SECONDS + seconds
    _keep_writing(stage, clients, until)
    count, every = committers
    for _ in range(count):
        stage.keep_committing(every, until)
    stage.timeline.run(until)
    return stage.outcome(seconds)


def _keep_writing(stage: Stage, clients: int, until: float) -> None:
    for client in range(clients):

        def write(ports: Ports, number: int, client: int = client) -> int:
            path = _path(client, number)
            writes.stage(open_repository(ports, stage.repo), "main", path, entry_of(path))
            stage.tally.acknowledged.add(path)
            return 1

        stage.keep_calling(stage.client(), write, until)


class Grown(NamedTuple):
    """The interval between two commits of a branch.

    `shards` of its open token, acknowledged `rows`, and rows per second.
    """

    shards: int
    rows: int
    per_second: float


def growth(
    clients: int, commits: int, every: float, rows: int = limits.staging_shard_rows_count
) -> tuple[list[Grown], int]:
    """Writers on a branch that begins with one shard and grows.

    The branch is committed every `every` seconds; its next token then gets one shard for every
    `rows` rows.  Returns the intervals and the number of lost changes.
    """
    settings = FIXED._replace(
        staging_shards_max=limits.staging_shard_count_max, staging_shard_rows=rows
    )
    stage = Stage(1, settings)
    until = commits * every
    _keep_writing(stage, clients, until)
    found: list[Grown] = []

    def live() -> None:
        ports, looks = stage.client(), stage.unlimited()
        for _ in range(commits):
            begun, before = stage.timeline.now, len(stage.tally.acknowledged)
            token = names.get_branch(open_repository(looks, stage.repo), "main").branch.staging
            stage.timeline.sleep(every)
            count = len(stage.tally.acknowledged) - before
            found.append(Grown(shard_count(token), count, count / (stage.timeline.now - begun)))
            stage.tally.commits += 1
            commit.commit(
                open_repository(ports, stage.repo), "main", commit.CommitRequest("m", "c")
            )

    stage.timeline.spawn(live)
    stage.timeline.run(until)
    return found, stage.outcome(until).lost


def readers(clients: int, seconds: float) -> Outcome:
    """Clients that read a path of one branch by the branch's name."""
    stage = Stage(1)
    until = WARM_SECONDS + seconds
    path = _path(0, 0)
    writes.stage(open_repository(stage.unlimited(), stage.repo), "main", path, entry_of(path))
    for client in range(clients):

        def read(ports: Ports, number: int, client: int = client) -> int:
            reads.stat(open_repository(ports, stage.repo), "main", path)
            return 1

        stage.keep_calling(stage.client(), read, until)
    stage.timeline.run(until)
    return stage.outcome(seconds)


def events(shards: int, functions: int, seconds: float) -> Outcome:
    """Functions that take in one delivery of 100 events after another."""
    stage = Stage(shards)
    until = WARM_SECONDS + seconds
    rule = EventRule("rule", stage.repo.id, stage.repo.uid, BranchId("main"), "landing")
    for client in range(functions):

        def deliver(ports: Ports, number: int, client: int = client) -> int:
            paths = [_path(client, number * EVENTS + each) for each in range(EVENTS)]
            told = [
                take_in.ArrivedObject(
                    path.encode(),
                    f"{number:016X}",
                    path.encode(),
                    wire.encode_entry(entry_of(path)),
                )
                for path in paths
            ]
            take_in.take_in(open_repository(ports, stage.repo), rule, told)
            batches.note(open_repository(ports, stage.repo), rule, batches.Delivery(EVENTS))
            stage.tally.acknowledged.update(paths)
            return EVENTS

        stage.keep_calling(stage.client(), deliver, until)
    stage.keep_committing(COMMIT_SECONDS, until)
    stage.timeline.run(until)
    return stage.outcome(seconds)
