"""Merges of pull requests that a worker makes: once, whatever becomes of the worker; and jobs that
were ordered before a branch was protected."""

import pytest

from graveler.core import limits
from graveler.core.records import ABSENT, Job, JobState, PullState
from graveler.engine import protection
from graveler.engine.jobs import record as jobs
from graveler.jobs import orders, schedule
from tests.engine.lake import COMMITTER
from tests.engine.pulls.world import merged, merges, opened, seen, update
from tests.jobs.world import (
    World,
    begin_commit,
    begin_import,
    begin_merge,
    calls_of,
    new_world,
    replaced,
)


def begin(world: World) -> tuple[str, Job]:
    """A pull request, and the job that merges it."""
    pull = opened(world.lake, "other", "main")
    order = orders.pull_asked("main", pull, 1, COMMITTER)
    return pull, schedule.submit(world.scheduler, order, ABSENT)


def test_a_worker_merges_a_request() -> None:
    world = new_world()
    pull, job = begin(world)
    world.work(job.id)
    ended = world.status(job.id)
    assert ended.state is JobState.DONE
    assert seen(world.lake, pull).merged == ended.commit == world.lake.head()


def _calls() -> list[tuple[str, int]]:
    world = new_world()
    _, job = begin(world)
    return calls_of(world, lambda lake: world.work(job.id, lake))


@pytest.mark.parametrize("stalls", [False, True])
@pytest.mark.parametrize("call", _calls(), ids=str)
def test_two_workers_make_one_merge(call: tuple[str, int], stalls: bool) -> None:
    world = new_world()
    pull, job = begin(world)
    replaced(world, job.id, call, stalls=stalls)
    assert merges(world.lake) == [f"pull/{pull}/1"]
    assert seen(world.lake, pull).state is PullState.MERGED
    ended = world.status(job.id)
    assert (ended.state, ended.commit) == (JobState.DONE, world.lake.head())


@pytest.mark.parametrize("runs", [0, limits.job_restart_count_max])
def test_a_job_does_not_merge_a_later_opening(runs: int) -> None:
    """Nor does it say for certain that it failed, also if it is given up."""
    world = new_world()
    pull, job = begin(world)
    merged(world.lake, pull)
    update(world.lake, pull, state=PullState.OPEN)
    world.lake.commit_of("other", more="1")
    for _ in range(runs):
        jobs.note_run(world.lake.opened, job, jobs.ordered(world.lake.opened, job.id))
    world.work(job.id)
    assert "opened again since" in world.status(job.id).error
    assert merges(world.lake) == [f"pull/{pull}/1"]


def test_a_request_that_was_closed_before_its_worker_came_is_not_merged() -> None:
    world = new_world()
    pull, job = begin(world)
    update(world.lake, pull, state=PullState.CLOSED)
    world.work(job.id)
    assert world.status(job.id).state is JobState.FAILED
    assert merges(world.lake) == []


# ---- jobs that were ordered before a rule --------------------------------------------------------


def protect(world: World) -> None:
    """Somebody protects `main`, and the caches of records expire."""
    protection.set_rules(world.lake.another_process().opened, ["main"])
    world.lake.ports.clock.sleep(limits.repository_cache_seconds_max)


@pytest.mark.parametrize("begin_job", [begin_commit, begin_import])
def test_a_job_does_not_land_on_a_branch_that_was_protected_since(begin_job: object) -> None:
    world = new_world()
    job = begin_job(world)  # type: ignore[operator]
    head = world.lake.head()
    protect(world)
    world.work(job.id)
    assert world.status(job.id).state is JobState.FAILED
    assert world.lake.head() == head


def test_a_merge_lands_on_a_branch_that_was_protected_since() -> None:
    world = new_world()
    job = begin_merge(world)
    protect(world)
    world.work(job.id)
    assert world.status(job.id).state is JobState.DONE
