"""Dumps as jobs: one at a time, replaced wherever their worker dies, given up at last."""

import json
from pathlib import Path

import pytest

from graveler.committed import reader, verify
from graveler.committed.dumps import DumpTables
from graveler.committed.ranges import Keyspace
from graveler.core.ids import JobId, MetarangeId
from graveler.core.records import Job, JobState
from graveler.engine import dump
from graveler.engine.jobs import record
from graveler.jobs.requests import ask_dump
from tests.engine.lake import Lake
from tests.engine.storage import Storage, new_storage
from tests.jobs.world import World, calls_of, replaced


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
        assert not list(verify.metarange_damages(space, id)), told
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
