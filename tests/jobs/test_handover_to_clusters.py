"""Requests for commits that a cluster makes: told so at once, and later of the result."""

from math import inf

import pytest

from graveler.core import limits
from graveler.core.errors import Conflict, HandedOver, HistoryTooLong, NoChanges, Unavailable
from graveler.core.ids import JobId
from graveler.core.records import CommitEntry, Job, JobState
from graveler.engine.bulk import job as bulk
from graveler.engine.bulk.job import Bulk
from graveler.engine.commits import commit as committing
from graveler.engine.commits import reset
from graveler.engine.ports import Ports, open_repository
from graveler.jobs import handover, orders, schedule
from graveler.jobs.handover import AT_ONCE, TimeLimits
from tests.engine.bulk.test_rows import scanned
from tests.engine.bulk_world import MAIN, finish
from tests.jobs.world import COMMIT, Held, World, new_world
from tests.support.faults import Fault, FaultyStore, nth

ROWS_MAX = 3
ASKED = orders.commit_asked(MAIN, COMMIT, force=False)
MANY = {f"p/{number}": "1" for number in range(ROWS_MAX + 1)}


@pytest.fixture
def world() -> World:
    """One row too many is staged."""
    found = bounded(new_world(), ROWS_MAX)
    for path, identity in MANY.items():
        found.lake.put(path, identity)
    return found


def bounded(world: World, rows_max: float) -> World:
    return World(world.lake.with_settings(commit_rows_max=rows_max), world.queue)


def run_or_enqueue(world: World, time_limits: TimeLimits = AT_ONCE) -> CommitEntry:
    def direct(ports: Ports) -> CommitEntry:
        return committing.commit(open_repository(ports, world.lake.repo), MAIN, COMMIT)

    due = time_limits.since(world.lake.ports.clock.steady_seconds())
    return handover.run_or_enqueue(world.scheduler, ASKED, due, direct)


def refused(world: World, time_limits: TimeLimits = AT_ONCE) -> Bulk:
    """The job that a request is told of."""
    with pytest.raises(HandedOver) as caught:
        run_or_enqueue(world, time_limits)
    return bulk.status(world.lake.opened, MAIN, caught.value.job)


def asked(world: World) -> Job:
    """A commit whose caller does not wait; a worker has found that it is too much for one."""
    job = schedule.ask(world.scheduler, ASKED)
    world.work(job.id)
    return job


def waits_for(world: World, job: Job) -> Bulk:
    found = schedule.standing(world.scheduler, orders.COMMIT, job.id, MAIN)
    assert not found.job.ended and found.waits_for
    return bulk.status(world.lake.opened, MAIN, found.waits_for)


def landed(world: World, job: Bulk) -> str:
    """As a cluster makes it."""
    return finish(world.lake, job, scanned(world.lake, job))


def ended(world: World, job: JobId) -> Job:
    return schedule.status(world.scheduler, orders.COMMIT, job, MAIN)


@pytest.mark.parametrize("time_limits", [AT_ONCE, TimeLimits(20.0, 27.0)])
def test_the_same_request_is_told_of_the_job_and_then_of_its_commit(
    world: World, time_limits: TimeLimits
) -> None:
    job = refused(world, time_limits)
    sealed = world.lake.record().sealed
    assert refused(world, time_limits).job == job.job
    assert world.lake.record().sealed == sealed and world.queue.messages == []
    made = landed(world, job)
    assert run_or_enqueue(world, time_limits).id == made
    with pytest.raises(NoChanges):
        run_or_enqueue(world, time_limits)
    world.lake.put("later", "2")
    assert run_or_enqueue(world, time_limits).id == world.lake.head() != made


def test_what_was_staged_meanwhile_is_committed_by_the_next_request(world: World) -> None:
    job = refused(world)
    world.lake.put("later", "2")
    made = landed(world, job)
    assert run_or_enqueue(world).commit.parents == (made,)
    assert world.lake.uncommitted() == []


def test_a_commit_that_nobody_waits_for_ends_when_the_cluster_has_made_it(world: World) -> None:
    job = asked(world)
    cluster = waits_for(world, job)
    assert (cluster.new.message, cluster.new.metadata["key"]) == ("job", "value")
    assert schedule.ask(world.scheduler, ASKED).id == job.id  # the same request joins it
    made = landed(world, cluster)
    found = ended(world, job.id)
    assert (found.state, found.commit) == (JobState.DONE, made)


def test_one_whose_cluster_takes_in_less_commits_the_rest_itself(world: World) -> None:
    cluster = refused(world)
    world.lake.put("later", "2")
    job = asked(world)
    made = landed(world, cluster)
    assert waits_for(world, job).job.id == cluster.job.id  # what came later is staged still
    world.pass_lease()
    world.queue.messages.clear()
    schedule.status(world.scheduler, orders.COMMIT, job.id, MAIN)
    assert len(world.queue.messages) == 1
    world.work(job.id)
    (marked,) = world.marked(job.id)
    assert marked.commit.parents == (made,) and world.lake.uncommitted() == []
    assert ended(world, job.id).commit == marked.id


def test_it_does_not_matter_who_makes_the_commit(world: World) -> None:
    job, other = asked(world), orders.commit_asked(MAIN, COMMIT, force=True)
    waits_for(world, job)
    second = schedule.ask(world.scheduler, other)
    world.work(second.id)
    made = bounded(world, inf).lake.commit("somebody else's")
    for each in (job, second):
        assert ended(world, each.id).commit == made.id


def test_a_worker_that_is_given_it_again_waits_on_or_ends_it(world: World) -> None:
    job = asked(world)
    cluster = waits_for(world, job)
    world.pass_lease()
    world.work(job.id)
    assert waits_for(world, job).job == cluster.job
    made = landed(world, cluster)
    world.pass_lease()
    world.work(job.id)
    found = world.status(job.id)
    assert (found.state, found.commit) == (JobState.DONE, made)


def test_a_reset_ends_what_waits(world: World) -> None:
    job = asked(world)
    reset.reset(world.lake.opened, MAIN)
    found = ended(world, job.id)
    assert found.state is JobState.FAILED
    assert isinstance(schedule.failure(world.scheduler, found), Conflict)


def test_a_job_for_which_no_cluster_comes_is_given_up(world: World) -> None:
    job = asked(world)
    first = waits_for(world, job)
    bulk.cancel(world.lake.opened, MAIN, first.job.id)
    world.pass_lease()
    world.work(job.id)
    assert waits_for(world, job).job.id != first.job.id
    world.lake.ports.clock.sleep(limits.import_seconds_max)
    world.work(job.id)
    found = ended(world, job.id)
    assert found.state is JobState.FAILED and "no cluster" in found.error
    assert len(world.lake.uncommitted()) == len(MANY)


def test_one_who_waits_for_a_worker_is_told_when_it_hands_over(world: World) -> None:
    job = schedule.ask(world.scheduler, ASKED)
    lake, script = world.lake.interposed()
    script.after("get", lambda: world.work(job.id), 6)  # while it waits
    refused(World(lake, world.queue), TimeLimits(20.0, 27.0))
    assert script.finished and waits_for(world, job)


def test_whichever_call_fails_the_caller_is_told_in_the_end() -> None:
    for number in range(1, 14):
        for fault in (Fault.LOST, Fault.REFUSED):
            world = bounded(new_world(), ROWS_MAX)
            for path, identity in MANY.items():
                world.lake.put(path, identity)
            plan = nth({number: fault})
            lake = world.lake.with_kv(lambda kv, plan=plan: FaultyStore(kv, plan))  # type: ignore[misc]
            with pytest.raises(Unavailable):
                run_or_enqueue(World(lake, Held()))
            made = landed(world, refused(world))
            assert run_or_enqueue(world).id == made, (number, fault)


def test_a_job_whose_commit_nobody_can_find_any_more_ends(world: World) -> None:
    job = asked(world)
    for _ in range(3):
        bounded(world, inf).lake.commit("somebody else's", allow_empty=True)
    world.lake = world.lake.with_settings(walk_count_max=2)
    found = ended(world, job.id)
    assert found.state is JobState.FAILED and "outcome unknown" in found.error
    assert isinstance(schedule.failure(world.scheduler, found), HistoryTooLong)
