"""Resets of prefixes that are too long for a request: left to a worker, joined, made once."""

import pytest

from graveler.core.errors import Conflict, OutcomeUnknown, Unavailable
from graveler.core.ids import JobId
from graveler.core.records import Job, JobState
from graveler.engine.commits import reset as resets
from graveler.engine.jobs import record
from graveler.jobs import reset, schedule
from graveler.jobs.handover import AT_ONCE, TimeLimits
from graveler.jobs.queue import JobMessage
from tests.engine.lake import Lake
from tests.jobs.world import Killed, World, begin_reset, calls_of, new_world

SHORT = TimeLimits(20.0, 27.0)


def run_or_enqueue(world: World, lake: Lake | None = None, time_limits: TimeLimits = SHORT) -> None:
    scheduler = world.scheduler._replace(repo=(lake or world.lake).opened)
    due = time_limits.since(world.lake.ports.clock.steady_seconds())
    reset.run_or_enqueue(scheduler, "main", "r/", due, force=False)


def staged() -> World:
    world = new_world()
    for name in ("r/a", "r/b", "s"):
        world.lake.put(name, "9")
    return world


def slowed(world: World, seconds: float, verb: str = "scan") -> Lake:
    """The store, of which a request that the reset makes takes long."""
    lake, script = world.lake.interposed()
    script.after(verb, lambda: world.lake.ports.clock.sleep(seconds))
    return lake


def left_to_a_worker(world: World) -> JobId:
    with pytest.raises(OutcomeUnknown, match="joins it; outcome unknown: job=reset-"):
        run_or_enqueue(world, slowed(world, 20.0))
    [message] = world.queue.messages
    assert isinstance(message, JobMessage)
    return JobId(message.job)


@pytest.mark.parametrize("time_limits", [SHORT, AT_ONCE])
def test_what_is_done_in_time_is_no_job(time_limits: TimeLimits) -> None:
    world = staged()
    run_or_enqueue(world, slowed(world, 19.0), time_limits)
    assert world.lake.uncommitted() == [("added", "s")] and world.queue.messages == []


def test_without_a_time_limit_of_requests_a_reset_may_take_minutes() -> None:
    world = staged()
    run_or_enqueue(world, slowed(world, 10 * 60.0), AT_ONCE)
    assert world.lake.uncommitted() == [("added", "s")]


def test_what_is_too_long_for_a_request_is_done_by_a_worker() -> None:
    world = staged()
    job = left_to_a_worker(world)
    assert len(world.lake.uncommitted()) == 3  # nothing was dropped yet
    world.work(job, slowed(world, 10 * 60.0))  # longer than any request
    assert world.lake.uncommitted() == [("added", "s")]
    assert world.status(job).state is JobState.DONE


def test_a_request_waits_for_its_job() -> None:
    world = staged()
    lake, script = world.lake.interposed()
    script.after("scan", lambda: world.lake.ports.clock.sleep(20.0))
    script.before("set_if", lambda: None)

    class Works:
        """A queue whose worker is quick."""

        def enqueue(self, message: object) -> None:
            assert isinstance(message, JobMessage)
            world.work(JobId(message.job))

    due = SHORT.since(lake.ports.clock.steady_seconds())
    reset.run_or_enqueue(schedule.Scheduler(lake.opened, Works()), "main", "r/", due, force=False)
    assert world.lake.uncommitted() == [("added", "s")]


def test_the_same_request_joins_the_job_and_then_drops_what_came_meanwhile() -> None:
    world = staged()
    job = left_to_a_worker(world)
    lake, script = world.lake.interposed()
    seen: list[int] = []

    def work() -> None:
        world.work(job)
        world.lake.put("r/late", "1")  # after the swap of the job, before this request is answered
        seen.append(len(world.lake.uncommitted()))

    script.before("get", work, 2)  # its first look at the job
    run_or_enqueue(world, lake)
    assert seen == [2] and world.lake.uncommitted() == [("added", "s")]
    assert len(world.queue.messages) == 1  # one job


def test_the_failure_of_the_job_is_told() -> None:
    world = staged()
    job = left_to_a_worker(world)
    lake, script = world.lake.interposed()
    script.before(
        "get", lambda: record.fail(world.lake.opened, job, Conflict("too many resets"), b""), 2
    )
    with pytest.raises(Conflict, match="too many resets"):
        run_or_enqueue(world, lake)


def test_a_store_that_does_not_answer_while_a_reset_runs_makes_its_outcome_unknown() -> None:
    world = staged()
    job = left_to_a_worker(world)
    lake, script = world.lake.interposed()

    def refuse() -> None:
        raise Unavailable("no answer")

    script.before("get", refuse, 2)  # its first look at the job
    with pytest.raises(OutcomeUnknown, match=f"outcome unknown: job={job}"):
        run_or_enqueue(world, lake)
    assert script.finished


# ---- workers that die ----------------------------------------------------------------------------


def _dies(world: World, job: Job, call: tuple[str, int], *, after: bool) -> None:
    lake, script = world.lake.interposed()

    def strike() -> None:
        raise Killed

    (script.after if after else script.before)(call[0], strike, call[1])
    with pytest.raises(Killed):
        world.work(job.id, lake)
    world.pass_lease()


@pytest.mark.parametrize("after", [False, True])
def test_a_reset_that_was_made_is_not_made_again(after: bool) -> None:
    """What a client stages after it has seen the reset stays."""
    undisturbed = new_world()
    job = begin_reset(undisturbed)
    calls = calls_of(undisturbed, lambda lake: undisturbed.work(job.id, lake))
    made = []
    for call in calls:
        world = new_world()
        job = begin_reset(world)
        _dies(world, job, call, after=after)
        is_made = not world.lake.uncommitted()
        if is_made:
            world.lake.put("r/new", "1")
        world.work(job.id)
        assert world.status(job.id).state is JobState.DONE
        assert world.lake.uncommitted() == ([("added", "r/new")] if is_made else []), call
        made.append(is_made)
    assert {True, False} == set(made)


def test_a_reset_whose_swap_lost_against_one_other_change_is_made() -> None:
    """The worker dies before any of its swaps; somebody resets elsewhere."""
    undisturbed = new_world()
    job = begin_reset(undisturbed)
    calls = calls_of(undisturbed, lambda lake: undisturbed.work(job.id, lake))
    swaps = [call for call in calls if call[0] == "set_if"]
    for call in swaps:
        world = new_world()
        job = begin_reset(world)
        _dies(world, job, call, after=False)
        if not world.lake.uncommitted():
            continue  # made before
        world.lake.put("other/x", "1")
        resets.reset_prefix(world.lake.opened, "main", "other/")
        world.work(job.id)
        assert world.status(job.id).state is JobState.DONE, call
        assert world.lake.uncommitted() == [], call
    assert swaps


def _made_and_died(world: World) -> Job:
    """The reset is made; its worker died before it could say so."""
    job = begin_reset(world)
    lake, script = world.lake.interposed()

    def strike() -> None:
        if not world.lake.uncommitted():
            raise Killed
        script.after("set_if", strike)

    script.after("set_if", strike)
    with pytest.raises(Killed):
        world.work(job.id, lake)
    world.pass_lease()
    return job


def test_a_reset_that_a_commit_has_taken_in_is_done() -> None:
    world = new_world()
    job = _made_and_died(world)
    world.lake.commit_of(d="1")
    world.lake.put("r/new", "1")
    world.work(job.id)
    assert world.status(job.id).state is JobState.DONE
    assert world.lake.uncommitted() == [("added", "r/new")]


def test_a_reset_of_which_nobody_knows_is_not_made_again() -> None:
    world = new_world()
    job = _made_and_died(world)
    resets.reset(world.lake.opened, "main")
    world.lake.put("r/new", "1")
    world.work(job.id)
    ended = world.status(job.id)
    assert ended.state is JobState.FAILED and "reset not repeated" in ended.error
    assert world.lake.uncommitted() == [("added", "r/new")]


def test_a_reset_of_everything_is_never_a_job() -> None:
    world = staged()
    due = TimeLimits(0.0, 0.0).since(world.lake.ports.clock.steady_seconds())
    reset.run_or_enqueue(world.scheduler, "main", "", due, force=False)
    assert world.lake.uncommitted() == [] and world.queue.messages == []
