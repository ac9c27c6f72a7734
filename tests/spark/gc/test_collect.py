"""Collections on Spark delete every file that nothing uses, and none that something does."""

import os
import random
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from graveler.assembly.embedded import open_embedded
from graveler.block import address
from graveler.block.adapter import Blocks
from graveler.committed import writer
from graveler.core.clock import SystemClock, descending_partition
from graveler.core.errors import Conflict, Gone, Invalid, NotFound, Refused
from graveler.core.records import BreakParameters, Entry
from graveler.core.wire import decode_entry, encode_entry
from graveler.engine import names as branching
from graveler.engine import names as tags
from graveler.engine.commits import reset
from graveler.engine.gc.collect import CollectSettings
from graveler.engine.objects import write
from graveler.engine.ports import Ports, keyspace, open_repository
from graveler.engine.repositories import repository
from graveler.lake import bulk, turns
from graveler.lake.session import Answer, Session
from graveler.refs import cleanups, commits
from graveler.spark import Lake as Connected
from graveler.spark import connect
from graveler.spark.bulk_jobs import turns_held
from graveler.spark.gc import collect as collecting
from graveler.spark.gc import scopes, uses
from graveler.spark.gc.collect import CollectionLimits, collect
from graveler.spark.gc.scopes import CollectedRepository, hashed, slices_of
from graveler.spark.places import Place, opened
from graveler.spark.tasks import frame_of_pieces
from graveler.staging import area
from tests.client.scripted import Said, scripted
from tests.engine.lake import Lake
from tests.spark.lakes import KEYS, lake_with
from tests.waiting import until

DAY_NS = 24 * 3600 * 10**9
HISTORIES = 6


class LaterClock(SystemClock):
    """So many days on."""

    def __init__(self, days: float) -> None:
        self._later_ns = int(days * DAY_NS)

    def now_ns(self) -> int:
        return super().now_ns() + self._later_ns


@dataclass
class World:
    """A store in a folder, and what is in use of each repository in it."""

    store: Path
    used: dict[str, set[str]]

    def stored(self) -> dict[str, set[str]]:
        """What is there, but for what runs keep."""
        place = Place(f"local:{self.store}/objects", "")
        found: dict[str, set[str]] = {name: set() for name in self.used}
        for name, names in found.items():
            after, more = "", True
            while more:
                page = opened(place).blocks.list(f"local://lake/{name}/", after, 1_000)
                more = page.more
                for line in page.lines:
                    after = line.address
                    names.add(after.removeprefix(f"local://lake/{name}/"))
        return {
            name: {each for each in names if not each.startswith("_graveler/")}
            for name, names in found.items()
        }

    def age(self) -> None:
        """Everything was written three days ago."""
        old_ns = SystemClock().now_ns() - 3 * DAY_NS
        for path in self.store.glob("objects/**/*"):
            os.utime(path, ns=(old_ns, old_ns), follow_symlinks=False)


def upload(lake: Lake, path: str, branch: str = "main") -> None:
    """Bytes at an address of our own shape, staged."""
    ports = lake.ports
    where = address.new_data_address(ports.clock.now_ns(), ports.ids, lake.repo.uid.encode())
    ports.blocks.put(f"{lake.repo.namespace}/{where}", [path.encode()])
    entry = Entry(where, len(path), ports.ids.unique(20), 1)
    write.stage(open_repository(ports, lake.repo), branch, path, entry)


def live(lake: Lake) -> set[str]:
    """The names of all files that some commit or some uncommitted row needs."""
    repo = lake.opened
    space, names = keyspace(repo), {"_lakefs/dummy"}
    for made in commits.list_all(repo.kv, repo.record):
        if made.commit.metarange:
            names.add(f"_lakefs/{made.commit.metarange}")
        for ref in space.metarange(made.commit.metarange).ranges:
            names.add(f"_lakefs/{ref.id}")
            for chunk in space.open(ref).chunks():
                names |= {decode_entry(value).address for value in chunk.columns().values}
    tokens = {pending.token for pending in cleanups.list_cleanups(repo.kv, repo.record)}
    for branch in ("main", "side"):
        try:
            tokens |= set(lake.record(branch).tokens_newest_first)
        except NotFound:
            continue
    for token in tokens:
        for _, row in area.scan(repo.kv, token):
            if isinstance(row.value, bytes):
                names.add(decode_entry(row.value).address)
    return names


def test_lists_are_not_sent_whole_to_every_executor(spark: SparkSession) -> None:
    """Spark would: both sides are as short as it can see."""
    rows = spark.createDataFrame([(0, 1), (0, 2), (1, 2)], "repo int, hash bigint")
    others = spark.createDataFrame([(0, 2), (1, 1)], "repo int, hash bigint")
    short = rows.join(F.broadcast(others), ["repo", "hash"], "left_anti")
    left = collecting.without(rows, others, ["repo", "hash"])
    assert sorted(map(tuple, left.collect())) == sorted(map(tuple, short.collect()))
    assert left.columns == ["repo", "hash"]
    assert "Broadcast" in plan_of(short) and "Broadcast" not in plan_of(left)
    assert "SortMergeJoin" in plan_of(left)


def plan_of(df: DataFrame) -> str:
    told = StringIO()
    with redirect_stdout(told):
        df.explain()
    return told.getvalue()


def some_history(ports: Ports, name: str, seed: int) -> set[str]:
    """A repository with a random history; the names of what it uses."""
    chance = random.Random(seed)
    breaks = BreakParameters(raggedness=3, salt=name.encode())
    new = repository.NewRepository(name, f"local://lake/{name}", breaks=breaks)
    lake = Lake(ports, repository.create(ports, new))
    upload(lake, "first")
    lake.commit()
    lake.branch("side")
    branches = ["main", "side"]
    for step in range(chance.randrange(4, 12)):
        branch, kind = chance.choice(branches), chance.choice("uuuudcctrbo")
        path = f"t{chance.randrange(3)}/{chance.randrange(4)}"
        if kind == "u":
            upload(lake, path, branch)
        elif kind == "d":
            lake.delete(path, branch)
        elif kind == "c" and lake.uncommitted():
            lake.commit(f"{step}")
        elif kind == "t":
            tags.create_tag(open_repository(ports, lake.repo), f"tag{step}", branch)
        elif kind == "r":
            reset.reset(open_repository(ports, lake.repo), branch)
        elif kind == "b" and "side" in branches:
            branching.delete_branch(open_repository(ports, lake.repo), "side")
            branches.remove("side")
        elif kind == "o":
            orphan(lake, f"{step}")
    if seed % 2:
        orphan(lake, "last")
    return live(lake)


def orphan(lake: Lake, what: str) -> None:
    """What a job leaves that died: objects, ranges, a metarange, none of them in a commit."""
    where = address.new_data_address(lake.ports.clock.now_ns(), lake.ports.ids, b"orphan")
    lake.ports.blocks.put(f"{lake.repo.namespace}/{where}", [b"x"])
    value = encode_entry(Entry(where, 1, f"{what}{lake.repo.id}", 1))
    writer.write(keyspace(lake.opened), [(b"a", value), (b"b", value)])


@contextmanager
def world_of(count: int, seed: int) -> Iterator[World]:
    """Repositories with random histories, three days old, in memory where that can be."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        store = Path(folder) / "lake"
        embedded = open_embedded(store)
        used = {
            f"repo-{number:03}": some_history(embedded.ports, f"repo-{number:03}", seed + number)
            for number in range(count)
        }
        embedded.close()
        world = World(store, used)
        world.age()
        yield world
        opened.cache_clear()


def days_on(lake: Connected, days: float) -> Connected:
    return lake_with(lake, session=replace(lake.session, clock=LaterClock(days)))


def everywhere(world: World) -> Place:
    return Place(f"local:{world.store}/objects", "")


ALL = CollectionLimits(share_max=1.0)


def garbage_in(world: World) -> set[tuple[str, str]]:
    """What is stored and used by nothing."""
    stored = world.stored()
    assert all(world.used[name] <= names for name, names in stored.items())
    return {(name, each) for name, names in stored.items() for each in names - world.used[name]}


class SlowClock(LaterClock):
    """A clock on which everything behind the first look takes half a day."""

    def __init__(self) -> None:
        super().__init__(0)
        self._looks = 0

    def now_ns(self) -> int:
        self._looks += 1
        return super().now_ns() + (self._looks > 1) * DAY_NS // 2


def test_a_run_deletes_what_one_a_day_before_condemned_and_nothing_else(
    spark: SparkSession,
) -> None:
    """Of six histories, in one job.  Not what a dry run found, and nothing within a day of the end
    of the run that condemned it, which takes half a day; a run after that finds nothing."""
    print(f"{HISTORIES=}")
    with world_of(HISTORIES, 1_000) as world, connect(spark, world.store, KEYS) as lake:
        before, names, garbage = world.stored(), list(world.used), garbage_in(world)
        assert len(garbage) > HISTORIES
        slow = lake_with(lake, session=replace(lake.session, clock=SlowClock()))
        for run, dry_run in ((lake, True), (slow, False), (days_on(lake, 1.2), False)):
            found = collect(run, names, ALL, dry_run=dry_run)
            rows = found.report.collect()
            assert {(row["repository"], row["name"]) for row in rows} == garbage
            assert {row["state"] for row in rows} == {"condemned"}
            assert found.deleted.files == 0 and found.condemned.files == len(garbage)
            assert found.condemned.size_bytes == sum(row["size"] for row in rows)
            assert world.stored() == before
        swept = collect(days_on(lake, 1.7), names, ALL, dry_run=False)
        states = {row["state"] for row in swept.report.collect()}
        assert (swept.deleted.files, states) == (len(garbage), {"condemned", "deleted"})
        assert world.stored() == world.used
        again = collect(days_on(lake, 2.8), names, ALL, dry_run=False)
        assert (again.condemned.files, again.deleted.files) == (0, 0)
        assert world.stored() == world.used


@pytest.mark.one_version
def test_a_small_collection_takes_few_tasks(spark: SparkSession) -> None:
    """In a session that nobody has configured, which has 200 partitions after a shuffle."""
    with world_of(1, 5_009) as world, connect(spark, world.store, KEYS) as lake:
        (name,) = world.used
        collect(lake, [name], ALL, dry_run=False)
        with tasks_counted(spark) as stages:
            swept = collect(days_on(lake, 1.1), [name], ALL, dry_run=False)
        notes = list(world.store.glob("objects/**/deleted-*"))
    assert swept.deleted.files > 2 and 1 <= len(notes) <= 2  # metaranges first
    assert len(stages) > 10 and sum(stages) < 100, stages


@contextmanager
def tasks_counted(spark: SparkSession) -> Iterator[list[int]]:
    """How many tasks each stage has run meanwhile, known at the end."""
    group, context, stages = "tasks-counted", spark.sparkContext, list[int]()
    context.setJobGroup(group, group)
    try:
        yield stages
    finally:
        for name in ("spark.jobGroup.id", "spark.job.description"):
            context.setLocalProperty(name, None)  # type: ignore[arg-type]
    told = context.statusTracker()
    jobs = [told.getJobInfo(job) for job in told.getJobIdsForGroup(group)]
    for stage in {stage for job in jobs if job is not None for stage in job.stageIds}:
        run = told.getStageInfo(stage)
        if run is not None and run.numCompletedTasks:
            stages.append(run.numCompletedTasks)


@pytest.mark.one_version
def test_a_metarange_that_no_commit_has_is_refused_from_then_on(spark: SparkSession) -> None:
    """Its files go a day later, whoever would commit it then."""
    with world_of(1, 5_007) as world, connect(spark, world.store, KEYS) as lake:
        (name,) = world.used
        tables = {each for _, each in garbage_in(world) if each.startswith("_lakefs/")}
        where = f"/repositories/{name}/branches/main/commits?source_metarange="
        collect(lake, [name], ALL, dry_run=False)
        refused = 0
        for table in sorted(tables):
            with pytest.raises((Gone, Invalid)) as error:
                lake.session.call(
                    "POST", where + table.removeprefix("_lakefs/"), {"message": "late"}
                )
            refused += isinstance(error.value, Gone)
        assert 0 < refused < len(tables)  # metaranges, and not ranges
        assert world.used[name] <= world.stored()[name]


_NONE: Mapping[str, str] = {}


class Losing(Session):
    """Whose turns are taken away once it has condemned."""

    def answer(self, method: str, path: str, body: Any = None, headers: Any = _NONE) -> Answer:
        said = super().answer(method, path, body, headers)
        if path.endswith("/condemned"):
            assert body is not None
            repository, turn = path.split("/")[-5], str(body["turn"])
            turns.end(self, repository, turn)
        return said


@pytest.mark.one_version
def test_a_collection_has_the_turn_of_each_repository(spark: SparkSession) -> None:
    with world_of(2, 5_003) as world, connect(spark, world.store, KEYS) as lake:
        before, names, session = world.stored(), sorted(world.used), lake.session
        with turns_held(session, names, "A") as check:
            check()
            with pytest.raises(Conflict, match="turn=A"):
                turns.begin(session, names[1], "B")
            with pytest.raises(Conflict, match="turn=A"):
                collect(lake, names[1:], ALL, dry_run=False)
            collect(lake, names[1:], ALL)
        turns.begin(session, names[1], "B")
        with pytest.raises(Conflict, match="turn=B"):
            collect(lake, names, ALL, dry_run=False)
        turns.begin(session, names[0], "C")  # given back, for it could not have both
        for name, turn in zip(names, "CB", strict=True):
            turns.end(session, name, turn)
        collect(lake, names, ALL, dry_run=False)
        losing = Losing(lake.session.url, *KEYS, LaterClock(1.1))
        with pytest.raises(Conflict, match="delete nothing"):
            collect(lake_with(lake, session=losing), names, ALL, dry_run=False)
        assert world.stored() == before


@pytest.mark.one_version
def test_a_turn_beats_while_it_is_held() -> None:
    with scripted([Said(201), Said(503), *[Said(200)] * 100_000]) as server:
        session = Session(server.url, *KEYS)
        with turns_held(session, ["lake"], "A", 0.01):
            until(lambda: len(server.asked) > 4, "beats have arrived")
        asked = [(each.method, each.path.removeprefix("/api/v1")) for each in server.asked]
    where = "/repositories/lake/gc/turns"
    assert (asked[0], asked[-1]) == (("POST", where), ("DELETE", f"{where}/A"))
    assert set(asked[1:-1]) == {("PUT", f"{where}/A")}


@pytest.mark.one_version
def test_what_only_saved_work_for_what_is_gone_goes_too(spark: SparkSession) -> None:
    """Names that were kept of ranges that are gone, and what ended jobs have left."""
    with world_of(2, 5_001) as world, connect(spark, world.store, KEYS) as lake:
        names, blocks = sorted(world.used), opened(everywhere(world)).blocks
        alive = bulk.begin(lake.session, names[0], "main", "replace", prefix="x/", id="alive")
        folders = [f"local://lake/{name}/_graveler/" for name in names]
        stale = [f"{folder}gc/hashes/{digit * 64}" for folder in folders for digit in "0f"]
        marks = [
            f"{folder}jobs/ended/{name}" for folder in folders for name in ("part-0", "x.arrow")
        ]
        mine = f"{folders[0]}jobs/{alive.id}/part-0"
        for where in (*stale, *marks, mine):
            blocks.put(where, [b"x"])
        world.age()
        young = f"{folders[1]}jobs/begun-just-now/part-0"
        blocks.put(young, [b"x"])
        collect(lake, names, ALL, dry_run=True)
        assert set(scan(blocks, f"{folders[0]}jobs/")) == {*marks[:2], mine}
        hashes = [set(scan(blocks, f"{folder}gc/hashes/")) - set(stale) for folder in folders]
        assert all(hashes)
        collect(lake, names, ALL, dry_run=False)
        assert [set(scan(blocks, f"{folder}gc/hashes/")) for folder in folders] == hashes
        assert scan(blocks, f"{folders[0]}jobs/") == [mine]
        assert scan(blocks, f"{folders[1]}jobs/") == [young]


@pytest.mark.one_version
def test_the_driver_holds_no_addresses(spark: SparkSession) -> None:
    """Its list is of pieces; a dry run's go a day later, with a list that each run takes once."""
    with world_of(1, 6_001) as world, connect(spark, world.store, KEYS) as lake:
        (name,) = world.used
        for number in range(7):
            where = f"/repositories/{name}/branches/main/objects?path=staged/{number}"
            lake.session.call("POST", where, {"staged": number})
        names = {each.name for each in bulk.roots(lake.session, name) if each.kind == "address"}
        scope = scopes.scope_of(lake, [name], "a-run", 0)
        found = scopes.roots(lake, scope, "roots", addresses_each=3).addresses
        assert len(found) == -(-len(names) // 3) and len(names) >= 7
        rows = frame_of_pieces(spark, scope.place, found, uses.USED).collect()
        assert {(row["repo"], row["hash"]) for row in rows} == {(0, hashed(each)) for each in names}
        blocks = opened(scope.place).blocks
        blocks.put(f"{scope.folder(0)}x", [b"a run that failed"])
        blocks.put(f"local://lake/{name}/_graveler/gc/cluster/judged/{'0' * 64}", [b"a snapshot"])
        collect(lake, [name], ALL)
        runs = Path(world.store, "objects", "lake", name, "_graveler", "gc", "cluster")
        assert len(list(runs.iterdir())) == 3
        garbage = garbage_in(world)  # and the seven, which the world does not know of
        world.age()
        assert collect(lake, [name], ALL, dry_run=False).condemned.files == len(garbage) - 7
        assert len([run for run in runs.iterdir() if any(run.iterdir())]) == 1


# ---- what must not go, and what is not believed --------------------------------------------------


@pytest.fixture(scope="module")
def grown(spark: SparkSession) -> Iterator[tuple[World, Connected]]:
    """Four repositories; what is in the first three is condemned already."""
    with world_of(4, 77) as world, connect(spark, world.store, KEYS) as lake:
        collect(lake, sorted(world.used)[:3], ALL, dry_run=False)
        yield world, lake


@pytest.mark.one_version
def test_what_is_written_again_stays(grown: tuple[World, Connected]) -> None:
    world, lake = grown
    blocks = opened(everywhere(world)).blocks
    name = "repo-000"  # of an odd seed: it has garbage of every kind
    garbage = sorted(world.stored()[name] - world.used[name])
    files = [each for each in garbage if each.startswith("_lakefs/")]
    data = [each for each in garbage if each.startswith("data/")]
    for each in (files[0], data[0]):
        where = f"local://lake/{name}/{each}"
        blocks.put(where, [b"".join(blocks.get(where).chunks)])
    collect(days_on(lake, 1.1), [name], ALL, dry_run=False)
    left = world.stored()[name] - world.used[name]
    assert left == {files[0], data[0]}


@pytest.mark.one_version
def test_a_range_that_cannot_be_read_ends_the_run(grown: tuple[World, Connected]) -> None:
    world, lake = grown
    name, blocks = "repo-003", opened(everywhere(world)).blocks
    before = world.stored()[name]
    sizes = {
        line.address: line.head.size
        for line in blocks.list(f"local://lake/{name}/_lakefs/", "", 1_000).lines
        if line.address.rpartition(name)[2][1:] in world.used[name]
    }
    for where in sizes:
        if not where.endswith("/dummy"):
            body = bytearray(b"".join(blocks.get(where).chunks))
            body[20] ^= 0xFF
            blocks.put(where, [bytes(body)])
    with pytest.raises(PythonException, match=r"(?s)Corrupt"):
        collect(days_on(lake, 1.1), [name], ALL, dry_run=False)
    assert world.stored()[name] == before


@pytest.mark.one_version
def test_what_is_kept_of_a_range_is_checked(grown: tuple[World, Connected]) -> None:
    """A list of hashes that was cut short would doom what it lacks."""
    world, lake = grown
    name, blocks = "repo-001", opened(everywhere(world)).blocks
    for where in scan(blocks, f"local://lake/{name}/_graveler/gc/hashes/"):
        body = b"".join(blocks.get(where).chunks)
        blocks.put(where, [body[:-8]])
    collect(days_on(lake, 1.1), [name], ALL, dry_run=False)
    assert world.stored()[name] == world.used[name]


def scan(blocks: Blocks, prefix: str) -> list[str]:
    return [line.address for line in blocks.list(prefix, "", 1_000).lines]


@pytest.mark.one_version
def test_too_much_garbage_and_short_waits_are_refused(grown: tuple[World, Connected]) -> None:
    _, lake = grown
    with pytest.raises(Invalid, match="must wait"):
        collect(lake, ["repo-002"], CollectionLimits(CollectSettings(undo_seconds=60)))
    with pytest.raises(NotFound, match="nowhere"):
        collect(lake, ["nowhere"])
    with pytest.raises(Invalid, match="no repositories"):
        collect(lake, [])


@pytest.mark.one_version
def test_files_of_somebody_else_are_refused(grown: tuple[World, Connected]) -> None:
    world, lake = grown
    marker = "local://lake/repo-002/_lakefs/dummy"
    blocks = opened(everywhere(world)).blocks
    body = b"".join(blocks.get(marker).chunks)
    blocks.put(marker, [b"other " + body])
    with pytest.raises(Refused, match=r"not its own: .*; import its objects"):
        collect(lake, ["repo-002"])
    blocks.put(marker, [body])


@pytest.mark.parametrize("count", [1, 2, 7, 128])
@pytest.mark.one_version
def test_slices_hold_every_name_once(count: int) -> None:
    now_ns = SystemClock().now_ns()
    found = slices_of(CollectedRepository(0, "r", "local://r", now_ns - 40 * DAY_NS), now_ns, count)
    chance = random.Random(count)
    names = [f"_lakefs/{chance.getrandbits(256):064x}" for _ in range(200)]
    times = [now_ns - chance.randrange(41 * DAY_NS) for _ in range(200)]
    names += [f"data/{descending_partition(each, b'seed')}/x" for each in times]
    for name in names:
        holding = [
            (folder, after, upto)
            for folder, after, upto in found
            if name.startswith(folder) and after < name.removeprefix(folder) <= upto
        ]
        assert len(holding) == 1
