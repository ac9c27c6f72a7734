"""The verbs that cost.py prices, run on metered memory drivers.

There is one repository with one shard for each token, and the caches are warm: an answer from a
cache needs no request (credentials and the repository record stay for seconds, commits and tables
forever).  The clock advances by explicit calls and ids come from a seed, so the figures are the
same on every machine.
"""

import base64
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.metering import Meter, MeteredStore, Spent, Till
from graveler.assembly.drivers import Drivers, ports_of
from graveler.auth import accounts, credentials, directory
from graveler.auth.authenticator import Authenticator
from graveler.auth.permissions import Permission
from graveler.block.memory import MemoryBlocks
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import TieredFiles
from graveler.core import limits, wire
from graveler.core.clock import SystemIds
from graveler.core.errors import Unauthenticated
from graveler.core.ids import BranchId
from graveler.core.records import BreakParameters, Entry, Repository
from graveler.core.requests import Counts, counted_blocks
from graveler.engine import imports, janitor, names
from graveler.engine.commits import commit, merge
from graveler.engine.commits import diff as compare
from graveler.engine.events import batches, take_in
from graveler.engine.gc import collect
from graveler.engine.objects import addresses, read, write
from graveler.engine.ports import OpenRepository, Ports, Sequential, open_repository
from graveler.engine.repositories import repository
from graveler.kv.memory import MemoryStore
from graveler.refs.event_rules import EventRule
from graveler.staging import area
from tests.support.clockwork import SeededIds, TickingClock

OBJECTS = 400  # already committed
EVENTS = 100  # in one delivery of the queue
IMPORTED = (1_000, 3_000)  # objects; the difference is the cost of 2,000
_COMMITTER = "ops@example.org"
_READ = Permission("fs:ReadObject", "arn:lakefs:fs:::repository/r7/object/a/b/c")
_GRACE_SECONDS = 3_700
_DAY_SECONDS = 25 * 3_600


@dataclass(frozen=True)
class MeteredLake:
    """A repository whose requests are metered.  `objects` holds the objects that imports read."""

    ports: Ports
    repo: Repository
    till: Till
    clock: TickingClock
    objects: MemoryBlocks

    @property
    def opened(self) -> OpenRepository:
        return open_repository(self.ports, self.repo)

    def path(self, number: int) -> str:
        """A path with the shape of table files in data lakes."""
        return (
            f"tables/events/date=2026-{number // 3000 % 12 + 1:02}-{number // 100 % 30 + 1:02}/"
            f"hour={number // 10 % 24:02}/part-{number:05}-c000.snappy.parquet"
        )

    def stage(self, number: int, edition: int = 0, branch: str = "main") -> None:
        """Stage a linked object; no bytes are written."""
        digest = _digest(number, edition)
        modified = 1_760_000_000_000_000_000 + number
        entry = Entry(
            _address(digest),
            number * 7_919 % 10_000_000,
            digest,
            modified,
            metadata={"owner": "etl"},
            content_type="application/octet-stream",
        )
        write.stage(self.opened, branch, self.path(number), entry)

    def stage_all(self, count: int, edition: int, branch: str = "main") -> None:
        for number in range(count):
            self.stage(number, edition, branch)

    def commit(self, branch: str = "main") -> str:
        request = commit.CommitRequest("nightly load", _COMMITTER)
        return commit.commit(self.opened, branch, request).id

    def spent(self, call: Callable[[], object]) -> Spent:
        """The cost of one call."""
        self.till.spent()
        call()
        return self.till.spent()


@contextmanager
def metered_lake(shards: int = 1) -> Iterator[MeteredLake]:
    """A repository with committed objects, nothing staged, and warm caches."""
    clock, ids = TickingClock(), SeededIds(1)
    meter, requests = Meter(), Counts()
    bodies = MemoryBlocks(clock)
    blocks = counted_blocks(bodies, requests)
    with tempfile.TemporaryDirectory() as folder:
        kv = MeteredStore(MemoryStore(), meter)
        ranges = SstRangeStore(TieredFiles(blocks, Path(folder), 1 << 30))
        ports = ports_of(Drivers(kv, blocks, ranges, clock, ids, Sequential()), bytes(32))
        breaks = BreakParameters(salt=b"cost")
        new = repository.NewRepository(
            "lake", "mem://bucket/lake", breaks=breaks, staging_shards=shards
        )
        repo = repository.create(ports, new)
        lake = MeteredLake(ports, repo, Till(meter, requests), clock, bodies)
        lake.stage_all(OBJECTS, 0)
        lake.commit()
        clean_up(lake)
        yield lake


def _digest(number: int, edition: int) -> str:
    return f"{number * 1_000_003 + edition:032x}"


def _address(digest: str) -> str:
    return f"data/gqssm3rnkg5iv0eakp3g/{digest[-20:]}"


def clean_up(lake: MeteredLake) -> None:
    """Run the janitor until nothing is left to clean up."""
    for seconds in (_GRACE_SECONDS, _GRACE_SECONDS, 2 * _GRACE_SECONDS, _DAY_SECONDS):
        lake.clock.sleep(seconds)
        janitor.sweep(lake.opened)
    lake.stage(0)  # puts the branch's record into the cache again
    lake.ports.kv.delete(*_open_row(lake))


def _open_row(lake: MeteredLake) -> tuple[bytes, list[bytes]]:
    record = names.get_branch(lake.opened, "main").branch
    partition, key = area.place_of(record.staging, lake.path(0).encode())
    return partition, [key]


# ---- one operation each --------------------------------------------------------------------------


def _upload(lake: MeteredLake) -> Spent:
    body = write.Upload([b"x" * 64])
    return lake.spent(lambda: write.upload(lake.opened, "main", lake.path(7_000), body))


def _stage(lake: MeteredLake) -> Spent:
    return lake.spent(lambda: lake.stage(7_001))


def _written_address(lake: MeteredLake, number: int) -> addresses.Link:
    """An upload address for a path, with the bytes already written."""
    address = addresses.hand_out(lake.opened, "main", lake.path(number))
    lake.ports.blocks.put(address, [b"x" * 64])
    return addresses.Link(address, _digest(number, 0), 64)


def _hand_out(lake: MeteredLake) -> Spent:
    path = lake.path(7_005)
    return lake.spent(lambda: addresses.hand_out(lake.opened, "main", path))


def _link(lake: MeteredLake) -> Spent:
    path, link = lake.path(7_006), _written_address(lake, 7_006)
    return lake.spent(lambda: addresses.link(lake.opened, "main", path, link))


def _stat_staged(lake: MeteredLake) -> Spent:
    lake.stage(7_002)
    return lake.spent(lambda: read.stat(lake.opened, "main", lake.path(7_002)))


def _stat(lake: MeteredLake) -> Spent:
    def stat() -> object:
        return read.stat(lake.opened, "main", lake.path(17))

    stat()
    return lake.spent(stat)


def _delete(lake: MeteredLake) -> Spent:
    lake.stage(7_003)
    return lake.spent(lambda: write.delete(lake.opened, "main", lake.path(7_003)))


def _list_page(lake: MeteredLake) -> Spent:
    query = read.ListQuery(prefix="tables/events/", amount=100)

    def page() -> object:
        return read.list_objects(lake.opened, "main", query)

    lake.stage(7_004)
    page()
    return lake.spent(page)


def _create_branch(lake: MeteredLake) -> Spent:
    return lake.spent(lambda: names.create_branch(lake.opened, "dev", "main"))


def _commit_of(count: int) -> Callable[[MeteredLake], Spent]:
    def run(lake: MeteredLake) -> Spent:
        lake.stage_all(count, 5)
        return lake.spent(lake.commit)

    return run


def _clean_up_of(count: int) -> Callable[[MeteredLake], Spent]:
    """The cost of the janitor for one commit of `count`, without its rounds over nothing."""

    def run(lake: MeteredLake) -> Spent:
        idle = lake.spent(lambda: janitor.sweep(lake.opened))
        lake.stage_all(count, 5)
        lake.commit()
        total = Spent()
        for seconds in (_GRACE_SECONDS, _GRACE_SECONDS, 2 * _GRACE_SECONDS, _DAY_SECONDS):
            lake.clock.sleep(seconds)
            total += lake.spent(lambda: janitor.sweep(lake.opened))
        requests = dict(total.requests)
        requests["Query"] -= 4 * idle.requests["Query"]
        reads = total.reads - 4 * idle.reads
        return Spent({k: n for k, n in requests.items() if n}, reads, total.writes)

    return run


def _diff(lake: MeteredLake) -> Spent:
    before = names.get_branch(lake.opened, "main").branch.commit
    lake.stage(1, 6)
    lake.commit()
    names.create_branch(lake.opened, "old", before)
    query = compare.DiffQuery()

    def diff() -> object:
        return compare.diff_refs(lake.opened, "old", "main", query)

    diff()
    return lake.spent(diff)


def _merge(lake: MeteredLake) -> Spent:
    names.create_branch(lake.opened, "dev", "main")
    lake.stage(3, 7, "dev")
    lake.commit("dev")
    lake.stage(9, 7)
    lake.commit()  # both branches moved, so the merge writes something
    request = merge.MergeRequest(_COMMITTER, "merge")
    return lake.spent(lambda: merge.merge(lake.opened, "dev", "main", request))


def _events(lake: MeteredLake) -> Spent:
    rule = EventRule("rule", lake.repo.id, lake.repo.uid, BranchId("main"), "landing")
    told = [_told(lake, number) for number in range(2 * EVENTS)]

    def deliver(events: list[take_in.ArrivedObject]) -> None:
        take_in.take_in(lake.opened, rule, events)
        batches.note(lake.opened, rule, batches.Delivery(len(events)))

    deliver(told[:EVENTS])  # begins the batch
    return lake.spent(lambda: deliver(told[EVENTS:]))


def _told(lake: MeteredLake, number: int) -> take_in.ArrivedObject:
    path = lake.path(9_000 + number)
    entry = Entry(f"mem://landing/{path}", 64, f"{number:032x}", 1_760_000_000_000_000_000)
    return take_in.ArrivedObject(
        path.encode(), f"{number:016X}", path.encode(), wire.encode_entry(entry)
    )


def _import(lake: MeteredLake) -> Spent:
    """The cost of an import.  S3 writes are only those of the difference of `IMPORTED` objects."""
    few, many = (_imported(lake, count) for count in IMPORTED)
    grown = many.s3_writes - few.s3_writes
    return Spent(few.requests, few.reads, few.writes, grown)


def _imported(lake: MeteredLake, count: int) -> Spent:
    source = f"mem://landing/{count}/"
    for number in range(count):
        lake.objects.put(f"{source}{lake.path(number)}", [b"x"])
    path = imports.ImportPath("common_prefix", source, f"in/{count}")
    request = imports.ImportRequest([path], "import", _COMMITTER)

    def run() -> None:
        job = imports.submit(lake.opened, "main", request, owner=b"worker")
        imports.run(lake.opened, BranchId("main"), request, job.id)

    return lake.spent(run)


def _collect(lake: MeteredLake) -> Spent:
    """A run of garbage collection that finds nothing to delete, in a repository with two
    commits."""
    for number in range(OBJECTS):
        lake.objects.put(f"{lake.repo.namespace}/{_address(_digest(number, 0))}", [b"x"])
    lake.clock.sleep(3 * _DAY_SECONDS)
    return lake.spent(lambda: collect.collect(lake.opened, delete=True))


def _idle_sweep(lake: MeteredLake) -> Spent:
    return lake.spent(lambda: janitor.sweep(lake.opened))


class Member:
    """A process that has just begun to serve a lake, and a user of it whose group has ten
    policies."""

    def __init__(self, lake: MeteredLake) -> None:
        keeper = accounts.keeper(lake.ports.kv, lake.clock, SystemIds(), bytes(range(32)))
        directory.create_user(keeper, "ann")
        directory.create_group(keeper, "team")
        directory.add(keeper, directory.MEMBER, "ann", "team")
        for number in range(10):
            resource = f"arn:lakefs:fs:::repository/r{number}/*"
            reads = {"effect": "allow", "action": ["fs:Read*", "fs:List*"], "resource": resource}
            directory.create_policy(keeper, f"policy{number}", [reads])
            directory.add(keeper, directory.OF_GROUP, "team", f"policy{number}")
        self.key, _ = credentials.create(keeper, "ann")
        self._auth = Authenticator(keeper)

    def authorize(self, key_id: str = "") -> None:
        """Let a request to read an object in.  `key_id`: of another key than its own."""
        pair = f"{key_id or self.key.access_key_id}:{self.key.secret_access_key}".encode()
        caller = self._auth.identify(b"Basic " + base64.b64encode(pair), "")
        self._auth.authorize(caller, (_READ,), "r7")


def _old_rights(lake: MeteredLake) -> Spent:
    """What a request costs beside its operation if the rights of its caller are too old."""
    member = Member(lake)
    member.authorize()
    lake.clock.sleep(limits.access_seconds_max)
    return lake.spent(member.authorize)


def _stranger(lake: MeteredLake) -> Spent:
    """A request with a key that nobody has."""
    member = Member(lake)

    def refused() -> None:
        with suppress(Unauthenticated):
            member.authorize("GRVL" + 16 * "a")

    return lake.spent(refused)


OPERATIONS: dict[str, Callable[[MeteredLake], Spent]] = {
    "upload": _upload,
    "stage": _stage,
    "upload address": _hand_out,
    "link": _link,
    "stat, staged": _stat_staged,
    "stat, committed": _stat,
    "delete": _delete,
    "list page": _list_page,
    "create branch": _create_branch,
    "commit of 1": _commit_of(1),
    "commit of 100": _commit_of(100),
    "commit of 1,000": _commit_of(1_000),
    "clean-up after a commit of 100": _clean_up_of(100),
    "clean-up after a commit of 1,000": _clean_up_of(1_000),
    "diff of 1": _diff,
    "merge of 1": _merge,
    "delivery of 100 events": _events,
    "import": _import,
    "garbage collection": _collect,
    "round of clean-up over nothing": _idle_sweep,
    "authorization, rights too old": _old_rights,
    "a stranger's request": _stranger,
}


def measured() -> dict[str, Spent]:
    """The cost of every operation, each in its own repository."""
    found = {}
    for name, operation in OPERATIONS.items():
        with metered_lake() as lake:
            found[name] = operation(lake)
    return found
