"""Restores as jobs: joined while they run, replaced wherever their worker dies, done once."""

from pathlib import Path

import pytest

from graveler.core import limits
from graveler.core.errors import Invalid
from graveler.core.ids import JobId
from graveler.core.records import Job, JobState
from graveler.engine import dump, names
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from graveler.engine.repositories.repository import NewRepository
from graveler.jobs.schedule import ask_restore
from graveler.refs import commits
from graveler.refs.lifecycle import DumpIds
from tests.engine.lake import Lake
from tests.engine.storage import Storage, new_storage
from tests.jobs.world import Killed, World, calls_of, replaced

COMMITS = 7


def new_world(scratch: Path) -> tuple[World, DumpIds]:
    """A bare repository, and a dump on its namespace, which is restored in small batches."""
    storage = new_storage(scratch)
    storage.change_settings(restore_batch_count=2)
    for number in range(COMMITS):
        storage.commit(a=f"{number}")
    names.create_branch(storage.opened, "side", "main~2")
    names.create_tag(storage.opened, "v1", "main~3")
    ids = DumpIds(*dump.dump(storage.opened)[:3])
    copied(storage)
    new = NewRepository("copy", "mem://bucket/copy", bare=True)
    return World(Lake(storage.ports, repository.create(storage.ports, new))), ids


def copied(storage: Storage) -> None:
    for line in storage.blocks.list("mem://bucket/lake/", "", 10_000).lines:
        name = line.address.removeprefix("mem://bucket/lake/")
        if name != "_lakefs/dummy":
            storage.blocks.copy(line.address, f"mem://bucket/copy/{name}")


def submit(world: World, ids: DumpIds) -> Job:
    return ask_restore(world.scheduler, ids, force=False)


def check(world: World, job: JobId, told: object) -> None:
    """Everything is there, and the job says so."""
    ended = world.status(job)
    assert ended.state is JobState.DONE, (told, ended)
    repo = open_repository(world.lake.ports, world.lake.repo)
    stored = {entry.id for entry in commits.list_all(repo.kv, repo.record)}
    assert len(stored) == COMMITS + 1, told
    views, _ = names.list_branches(repo, names.PageQuery())
    assert [view.id for view in views] == ["main", "side"], told
    assert names.get_tag(repo, "v1") in stored, told
    world.lake.another_process().tree("main")


def test_a_restore_is_joined_while_it_runs_and_refused_afterwards(tmp_path: Path) -> None:
    world, ids = new_world(tmp_path)
    job = submit(world, ids)
    assert submit(world, ids).id == job.id
    world.work(job.id)
    check(world, job.id, "once")
    with pytest.raises(Invalid, match="bare"):
        submit(world, ids)
    world.work(job.id)  # its message once more
    check(world, job.id, "twice")


def test_a_dump_that_does_not_verify_ends_the_job(tmp_path: Path) -> None:
    world, ids = new_world(tmp_path)
    wrong = submit(world, ids._replace(tags=ids.branches))
    world.work(wrong.id)
    ended = world.status(wrong.id)
    assert ended.state is JobState.FAILED and "does not verify" in ended.error
    job = submit(world, ids)
    world.work(job.id)
    check(world, job.id, "the right one")


@pytest.mark.parametrize("stalls", [False, True])
def test_a_worker_that_dies_or_stalls_anywhere_is_replaced(tmp_path: Path, stalls: bool) -> None:
    undisturbed, ids = new_world(tmp_path)
    first = submit(undisturbed, ids).id
    calls = calls_of(undisturbed, lambda lake: undisturbed.work(first, lake))
    for call in calls:
        world, ids = new_world(tmp_path)
        job = submit(world, ids).id
        replaced(world, job, call, stalls=stalls)
        check(world, job, call)


def test_a_worker_without_time_hands_on_what_is_stored(tmp_path: Path) -> None:
    """Each worker stores two batches; what was on record is not stored again."""
    world, ids = new_world(tmp_path)
    job, clock = submit(world, ids).id, world.lake.ports.clock
    for number in range(1, 4):
        lake, script = world.lake.interposed()
        script.after("set_many", lambda: clock.sleep(2))
        script.after("set_many", lambda: clock.sleep(15 * 60), 2)
        world.work(job, lake, seconds=14 * 60)
        assert world.status(job).progress == 2 * number
    world.work(job)
    check(world, job, "handed on")


def test_what_the_last_worker_restored_before_it_died_is_done(tmp_path: Path) -> None:
    undisturbed, ids = new_world(tmp_path)
    first = submit(undisturbed, ids).id
    calls = calls_of(undisturbed, lambda lake: undisturbed.work(first, lake))
    end = max(nth for verb, nth in calls if verb == "set_if")
    world, ids = new_world(tmp_path)
    job = submit(world, ids).id
    lake, script = world.lake.interposed()
    script.before("set_if", strike_dead, end)
    with pytest.raises(Killed):
        world.work(job, lake)
    for _ in range(limits.job_restart_count_max + 1):
        world.pass_lease()
        lake, script = world.lake.interposed()
        script.before("get", strike_dead, 6)
        with pytest.raises(Killed):
            world.work(job, lake)
    world.pass_lease()
    world.work(job)
    check(world, job, "given up after its end")


def test_a_restore_that_ends_nowhere_is_given_up(tmp_path: Path) -> None:
    world, ids = new_world(tmp_path)
    job = submit(world, ids).id
    for _ in range(limits.job_restart_count_max):
        lake, script = world.lake.interposed()
        script.before("set_many", strike_dead)
        with pytest.raises(Killed):
            world.work(job, lake)
        world.pass_lease()
    world.work(job)
    ended = world.status(job)
    assert ended.state is JobState.FAILED and "restore given up" in ended.error


def strike_dead() -> None:
    raise Killed
