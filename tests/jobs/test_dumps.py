"""Dumps as jobs: one at a time, replaced wherever their worker dies, given up at last."""

import json
from pathlib import Path

import pytest

from graveler.committed import reader
from graveler.committed.dumps import DumpTables
from graveler.committed.ranges import Keyspace
from graveler.core import limits
from graveler.core.identity import identity_of
from graveler.core.ids import JobId, MetarangeId
from graveler.core.records import Job, JobState
from graveler.engine import dump
from graveler.engine.jobs import record
from graveler.jobs.queue import JobMessage
from graveler.jobs.schedule import ask_dump
from tests.engine.lake import Lake
from tests.engine.storage import Storage, new_storage
from tests.jobs.world import Killed, World, calls_of, replaced


def new_world(scratch: Path) -> tuple[Storage, World]:
    storage = new_storage(scratch)
    storage.commit(a="1")
    storage.commit(a="2")
    return storage, World(Lake(storage.ports, storage.repo))


def submit(world: World) -> Job:
    return ask_dump(world.scheduler)


def check(storage: Storage, world: World, job: JobId, told: object) -> None:
    """What the job says is there, whole, and in use."""
    ended = world.status(job)
    assert ended.state is JobState.DONE, (told, ended)
    made = json.loads(record.ordered(world.lake.opened, job).result)
    space = Keyspace(DumpTables(storage.blocks, {}), storage.repo.namespace, storage.repo.breaks)
    for kind, count in (("branches", 1), ("tags", 0), ("commits", 3)):
        id = MetarangeId(made[kind])
        assert not list(reader.metarange_damages(space, id)), told
        assert len(list(reader.scan(space, id))) == count, told
    assert storage.blocks.head(made["manifest"])
    files = dump.files_in_use(storage.opened)
    assert {made["branches"], made["tags"], made["commits"]} <= files, told


def test_one_dump_at_a_time(tmp_path: Path) -> None:
    storage, world = new_world(tmp_path)
    job = submit(world)
    assert submit(world).id == job.id
    world.work(job.id)
    check(storage, world, job.id, "once")
    again = submit(world)
    assert again.id != job.id
    world.work(again.id)
    check(storage, world, again.id, "again")


def test_what_was_committed_before_the_order_is_in_the_dump(tmp_path: Path) -> None:
    """Also if another dump runs, and has read the branches already."""
    storage, world = new_world(tmp_path)
    first = submit(world)
    lake, script = world.lake.interposed()
    ordered: list[JobId] = []

    def commit_and_order() -> None:
        storage.commit(a="3")
        ordered.append(submit(world).id)

    script.after("scan", commit_and_order)
    world.work(first.id, lake)
    assert ordered and ordered[0] != first.id
    world.work(ordered[0])
    found = {id: dumped_heads(storage, world, id) for id in (first.id, ordered[0])}
    assert found[ordered[0]] == {world.lake.head()} != found[first.id]


def dumped_heads(storage: Storage, world: World, job: JobId) -> set[str]:
    """What the branches of a dump name."""
    made = json.loads(record.ordered(world.lake.opened, job).result)
    space = Keyspace(DumpTables(storage.blocks, {}), storage.repo.namespace, storage.repo.breaks)
    rows = reader.scan(space, MetarangeId(made["branches"]))
    return {identity_of(value).decode() for _, value in rows}


@pytest.mark.parametrize("stalls", [False, True])
def test_a_worker_that_dies_or_stalls_anywhere_is_replaced(tmp_path: Path, stalls: bool) -> None:
    _, undisturbed = new_world(tmp_path)
    first = submit(undisturbed).id
    calls = calls_of(undisturbed, lambda lake: undisturbed.work(first, lake))
    for call in calls:
        storage, world = new_world(tmp_path)
        job = submit(world).id
        replaced(world, job, call, stalls=stalls)
        check(storage, world, job, call)


def test_a_worker_without_time_hands_on_and_the_last_gives_up(tmp_path: Path) -> None:
    _, world = new_world(tmp_path)
    job, clock = submit(world).id, world.lake.ports.clock
    for _ in range(limits.job_run_count_max):
        lake, script = world.lake.interposed()
        script.after("scan", lambda: clock.sleep(15 * 60))
        world.queue.messages.clear()
        world.work(job, lake, seconds=14 * 60)
        assert world.queue.messages == [JobMessage("lake", job)]
    world.work(job)
    ended = world.status(job)
    assert ended.state is JobState.FAILED and "dump given up" in ended.error


def test_what_the_last_worker_dumped_before_it_died_is_done(tmp_path: Path) -> None:
    """Its result is noted, and a job's end is the last that is written."""
    _, undisturbed, first = last_run(tmp_path)
    calls = calls_of(undisturbed, lambda lake: undisturbed.work(first, lake))
    end = max(nth for verb, nth in calls if verb == "set_if")
    storage, world, job = last_run(tmp_path)
    lake, script = world.lake.interposed()
    script.before("set_if", strike_dead, end)
    with pytest.raises(Killed):
        world.work(job, lake)
    result = record.ordered(world.lake.opened, job).result
    assert result and not world.status(job).ended
    world.pass_lease()
    world.work(job)
    assert world.status(job).state is JobState.DONE
    assert record.ordered(world.lake.opened, job).result == result
    assert dumped_heads(storage, world, job) == {world.lake.head()}


def strike_dead() -> None:
    raise Killed


def last_run(tmp_path: Path) -> tuple[Storage, World, JobId]:
    """A dump of which one run is left."""
    storage, world = new_world(tmp_path)
    job, clock = submit(world).id, world.lake.ports.clock
    for _ in range(limits.job_run_count_max - 1):
        lake, script = world.lake.interposed()
        script.after("scan", lambda: clock.sleep(15 * 60))
        world.work(job, lake, seconds=14 * 60)
    return storage, world, job
