"""Requests that join the job of an equal request: what they are answered, and what they commit."""

from dataclasses import dataclass
from functools import partial
from itertools import count

import pytest

from graveler.core.errors import (
    Conflict,
    HookFailed,
    MergeConflict,
    NoChanges,
    OutcomeUnknown,
    Unsupported,
)
from graveler.core.ids import JobId
from graveler.core.records import Job, JobState
from graveler.engine import names
from graveler.engine.commits import reset
from graveler.engine.commits.merge import MergeRequest
from graveler.engine.jobs import record
from graveler.jobs import orders, schedule
from graveler.jobs.handover import TimeLimits
from graveler.jobs.queue import JobMessage
from tests.engine.lake import COMMITTER
from tests.jobs.joins import NO_TIME, RESOLVED, SCANNED, SHORT, commit, merged, paused, waiting
from tests.jobs.world import COMMIT, Killed, World, begin_commit, new_world
from tests.support.faults import Fault, FaultyStore

ASKED = orders.commit_asked("main", COMMIT, force=False)
EMPTY = COMMIT._replace(allow_empty=True)
MERGE = MergeRequest(COMMITTER, "merge")


@pytest.fixture
def world() -> World:
    return new_world()


def _begun_merge(world: World, request: MergeRequest = MERGE) -> Job:
    """The job of a merge that was handed over."""
    asked = orders.merge_asked("other", "main", request, force=False)
    return schedule.submit(world.scheduler, asked, schedule.newest(world.scheduler, asked))


def _failed(world: World, job: Job, kind: type[Exception]) -> None:
    ended = world.status(job.id)
    assert ended.state is JobState.FAILED
    assert isinstance(schedule.failure(world.scheduler, ended), kind)


# ---- jobs that fail ------------------------------------------------------------------------------


def test_joining_a_commit_without_changes_commits_what_was_staged_since(world: World) -> None:
    world.lake.put("a", "1")
    job = schedule.ask(world.scheduler, ASKED)
    with paused(world, job.id, SCANNED) as finish:
        world.lake.put("late", "5")
        made = commit(waiting(world, finish))
    _failed(world, job, NoChanges)
    assert world.lake.head() == made.id and world.lake.tree()["late"] == "5"
    assert world.lake.uncommitted() == []


def test_joining_a_commit_that_a_reset_hits_commits_what_was_staged_after_it(
    world: World,
) -> None:
    job = begin_commit(world)
    with paused(world, job.id, SCANNED) as finish:
        reset.reset(world.lake.opened, "main")
        world.lake.put("late", "5")
        made = commit(waiting(world, finish))
    _failed(world, job, Conflict)
    assert world.lake.head() == made.id and world.lake.tree()["late"] == "5"


def test_joining_a_commit_whose_rows_a_reset_drops_is_answered_a_conflict(world: World) -> None:
    job = begin_commit(world)

    def act() -> None:
        reset.reset(world.lake.opened, "main")
        world.lake.put("later", "6")  # of a request that comes later
        finish()

    with (
        paused(world, job.id, SCANNED) as finish,
        pytest.raises(Conflict, match="lost its changes"),
    ):
        commit(waiting(world, act))
    assert world.lake.uncommitted() == [("added", "later")]


def test_joining_a_commit_with_nothing_staged_is_answered_its_error(world: World) -> None:
    job = begin_commit(world)
    with paused(world, job.id, SCANNED) as finish:
        reset.reset(world.lake.opened, "main")
        with pytest.raises(Conflict, match="lost its changes"):
            commit(waiting(world, finish))
    assert world.queue.messages == [JobMessage("lake", job.id)]


def test_joining_a_failing_commit_that_needs_no_rows_makes_it(world: World) -> None:
    job = schedule.ask(world.scheduler, orders.commit_asked("main", EMPTY, force=False))
    refused = HookFailed("vetoed")
    made = commit(
        waiting(world, lambda: record.fail(world.lake.opened, job.id, refused, b"")), EMPTY
    )
    assert made.id == world.lake.head() and made.commit.message == "job"


def test_joining_a_failing_commit_with_allow_empty_makes_it_after_a_reset_too(
    world: World,
) -> None:
    world.lake.put("d", "3")
    job = schedule.ask(world.scheduler, orders.commit_asked("main", EMPTY, force=False))

    def act() -> None:
        record.fail(world.lake.opened, job.id, HookFailed("vetoed"), b"")
        reset.reset(world.lake.opened, "main")

    made = commit(waiting(world, act), EMPTY)
    assert made.id == world.lake.head() and made.commit.message == "job"


def test_joining_a_failing_commit_is_answered_the_commit_that_has_the_rows(world: World) -> None:
    job = begin_commit(world)

    def act() -> None:
        record.fail(world.lake.opened, job.id, Conflict("not this one"), b"")
        world.lake.commit("somebody else's")

    made = commit(waiting(world, act))
    assert made.id == world.lake.head() and made.commit.message == "somebody else's"


@pytest.mark.parametrize("error", [OutcomeUnknown("not confirmed"), Unsupported("given up")])
def test_an_outcome_that_nobody_knows_and_a_job_that_was_given_up_are_answered(
    world: World, error: Exception
) -> None:
    job = begin_commit(world)
    with pytest.raises(type(error), match=str(error)):
        commit(waiting(world, lambda: record.fail(world.lake.opened, job.id, error, b"")))  # type: ignore[arg-type]
    assert world.lake.uncommitted() != []


def test_joining_a_job_that_is_cancelled_does_no_other_work(world: World) -> None:
    job = begin_commit(world)
    with pytest.raises(Conflict, match="Canceled"):
        commit(waiting(world, lambda: record.cancel_any(world.lake.opened, job.id)))
    assert world.lake.uncommitted() != []


def test_a_joined_request_without_time_hands_its_own_work_to_another_job(world: World) -> None:
    job = begin_commit(world)

    def act() -> None:
        record.fail(world.lake.opened, job.id, Conflict("not this one"), b"")
        world.lake.ports.clock.sleep(25.0)

    lake, script = world.lake.interposed()
    script.after("scan", lambda: world.lake.ports.clock.sleep(5.0), 3)  # 1: newest, 2: staged
    with pytest.raises(OutcomeUnknown, match="joins it"):
        commit(waiting(world, act, lake))
    first, second = world.queue.messages
    assert isinstance(first, JobMessage) and isinstance(second, JobMessage)
    assert first.job == job.id != second.job and script.finished
    world.work(world.status(second.job).id)  # type: ignore[arg-type]
    assert world.lake.uncommitted() == []


def test_joining_a_merge_that_conflicts_merges_the_source_as_it_is_by_now(world: World) -> None:
    world.lake.commit_of("other", a="2")
    world.lake.commit_of(a="3")
    job = _begun_merge(world)
    with paused(world, job.id, RESOLVED) as finish:
        world.lake.commit_of("other", a="1")
        made = merged(waiting(world, finish), MERGE)
    _failed(world, job, MergeConflict)
    assert made.id == world.lake.head() and world.lake.tree()["a"] == "3"


# ---- jobs that are done --------------------------------------------------------------------------


def test_joining_a_commit_is_answered_the_commit_of_another_that_has_its_rows(
    world: World,
) -> None:
    job = begin_commit(world)

    def act() -> None:
        finish()
        world.lake.commit("somebody else's")

    with paused(world, job.id, SCANNED) as finish:
        world.lake.put("late", "5")
        made = commit(waiting(world, act))
    assert made.commit.message == "somebody else's" and world.lake.tree(made.id)["late"] == "5"
    assert len(world.marked(job.id)) == 1


def test_joining_a_commit_is_not_answered_success_for_rows_that_a_reset_dropped(
    world: World,
) -> None:
    job = begin_commit(world)

    def act() -> None:
        finish()
        reset.reset(world.lake.opened, "main")

    with paused(world, job.id, SCANNED) as finish:
        world.lake.put("late", "5")
        with pytest.raises(Conflict, match="lost its changes"):
            commit(waiting(world, act))
    assert len(world.marked(job.id)) == 1


def test_joining_a_commit_is_answered_that_commit_if_it_came_later(world: World) -> None:
    world.lake.put("d", "3")
    job = schedule.ask(world.scheduler, orders.commit_asked("main", EMPTY, force=False))

    def act() -> None:
        world.lake.commit("somebody else's")
        world.work(job.id)

    made = commit(waiting(world, act), EMPTY)
    assert [each.id for each in world.marked(job.id)] == [made.id]
    assert made.id == world.lake.head() and world.lake.tree()["d"] == "3"


@pytest.mark.parametrize("is_hard", [False, True])
def test_joining_a_commit_with_allow_empty_is_a_success_though_a_reset_drops_its_rows(
    world: World, is_hard: bool
) -> None:
    before = world.lake.head()
    world.lake.put("d", "3")
    job = schedule.ask(world.scheduler, orders.commit_asked("main", EMPTY, force=False))

    def act() -> None:
        finish()
        reset.reset(world.lake.opened, "main")
        if is_hard:
            reset.hard_reset(world.lake.opened, "main", before)

    with paused(world, job.id, SCANNED) as finish:
        world.lake.put("late", "5")
        made = commit(waiting(world, act), EMPTY)
    assert made.id == world.lake.head()
    assert [made.id] == [each.id for each in world.marked(job.id)] or is_hard


def test_a_commit_that_a_reset_takes_away_is_not_the_answer(world: World) -> None:
    world.lake.put("d", "3")
    job = schedule.ask(world.scheduler, orders.commit_asked("main", EMPTY, force=False))

    def act() -> None:
        held = world.lake.commit("somebody else's").id
        world.work(job.id)
        reset.hard_reset(world.lake.opened, "main", held)

    made = commit(waiting(world, act), EMPTY)
    assert made.id == world.lake.head() and made.commit.message == "somebody else's"


@pytest.mark.parametrize("is_reset", [False, True])
def test_joining_a_landed_commit_and_changes_nothing_is_answered_what_has_its_rows(
    world: World, is_reset: bool
) -> None:
    job, before = begin_commit(world), world.lake.head()
    lake, script = world.lake.interposed()
    script.after("set_if", _die, 7)  # of the branch: the job has landed, and does not say so
    with pytest.raises(Killed):
        world.work(job.id, lake)
    landed = world.lake.head()
    assert landed != before
    world.lake.put("d", "3")

    def act() -> None:
        record.free_all(world.lake.opened)
        world.work(job.id)
        if is_reset:
            reset.reset(world.lake.opened, "main")
            reset.hard_reset(world.lake.opened, "main", before)
            world.lake.put("a", "1")

    caller = waiting(world, act)
    if is_reset:
        with pytest.raises(Conflict):
            commit(caller)
    else:
        assert commit(caller).id == landed
    assert world.lake.head() == (before if is_reset else landed)


MERGES = [
    MERGE._replace(squash=squash, allow_empty=allow_empty)
    for squash in (False, True)
    for allow_empty in (False, True)
]


@pytest.mark.parametrize("terms", MERGES)
def test_joining_a_merge_whose_source_has_not_moved_makes_no_other_commit(
    world: World, terms: MergeRequest
) -> None:
    job = _begun_merge(world, terms)
    made = merged(waiting(world, lambda: world.work(job.id)), terms)
    assert [each.id for each in world.marked(job.id)] == [made.id] == [world.lake.head()]


@pytest.mark.parametrize("terms", MERGES)
def test_joining_a_merge_whose_source_has_moved_merges_it(
    world: World, terms: MergeRequest
) -> None:
    job = _begun_merge(world, terms)
    with paused(world, job.id, RESOLVED) as finish:
        world.lake.commit_of("other", new="2")
        made = merged(waiting(world, finish), terms)
    assert world.lake.tree(made.id)["new"] == "2" and made.id == world.lake.head()
    assert [made.commit.parents[0]] == [each.id for each in world.marked(job.id)]


def test_joining_a_merge_that_takes_the_source_as_it_is_makes_no_other_commit(
    world: World,
) -> None:
    request = MERGE._replace(allow_empty=True)
    job = _begun_merge(world, request)

    def act() -> None:
        world.lake.commit_of("other", new="2")
        world.work(job.id)

    made = merged(waiting(world, act), request)
    assert [each.id for each in world.marked(job.id)] == [made.id] == [world.lake.head()]


@pytest.mark.parametrize("terms", MERGES)
def test_joining_a_merge_whose_source_is_deleted_then_is_answered_its_commit(
    world: World, terms: MergeRequest
) -> None:
    job = _begun_merge(world, terms)

    def act() -> None:
        world.work(job.id)
        names.delete_branch(world.lake.opened, "other")

    assert merged(waiting(world, act), terms).id == world.lake.head()
    assert len(world.marked(job.id)) == 1


def test_joining_a_merge_with_nothing_new_is_answered_what_has_its_source(world: World) -> None:
    job = _begun_merge(world)

    def act() -> None:
        finish()
        world.lake.merge("other")

    with paused(world, job.id, RESOLVED) as finish:
        world.lake.commit_of("other", new="2")
        made = merged(waiting(world, act), MERGE)
    assert made.id == world.lake.head() and world.lake.tree(made.id)["new"] == "2"
    assert len(world.marked(job.id)) == 1


def test_joining_a_merge_that_a_reset_takes_away_is_not_answered_its_commit(world: World) -> None:
    world.lake.branch("third")
    job = _begun_merge(world)

    def act() -> None:
        finish()
        third = world.lake.merge("other", "third")
        reset.hard_reset(world.lake.opened, "main", third)

    with paused(world, job.id, RESOLVED) as finish:
        world.lake.commit_of("other", new="2")
        with pytest.raises(NoChanges):
            merged(waiting(world, act), MERGE)


def test_joining_a_merge_whose_source_is_gone_is_answered_its_commit(world: World) -> None:
    job = _begun_merge(world)
    with paused(world, job.id, RESOLVED) as finish:
        names.delete_branch(world.lake.opened, "other")
        made = merged(waiting(world, finish), MERGE)
    assert [each.id for each in world.marked(job.id)] == [made.id]


def _die() -> None:
    raise Killed


# ---- results that no client has received ---------------------------------------------------------


def test_a_commit_that_a_hard_reset_took_away_is_told_to_nobody(world: World) -> None:
    before = world.lake.head()
    job = begin_commit(world)
    world.work(job.id)
    reset.hard_reset(world.lake.opened, "main", before)
    with pytest.raises(NoChanges):
        commit(world)
    assert world.lake.head() == before


@pytest.mark.parametrize("commit_count", [0, 1, 5])
def test_a_commit_with_others_on_top_is_told_also_if_it_is_too_far_back_to_look_for(
    world: World, commit_count: int
) -> None:
    job = begin_commit(world)
    world.work(job.id)
    for _ in range(commit_count):
        world.lake.commit("somebody else's", allow_empty=True)
    short = World(world.lake.with_settings(walk_count_max=3), world.queue)
    assert [commit(short).id] == [each.id for each in world.marked(job.id)]
    with pytest.raises(NoChanges):
        commit(short)


# ---- stores that do not answer -------------------------------------------------------------------


@dataclass
class Outage:
    """Once it has begun, the request of that number is refused.  `seen`: how many came since."""

    number: int
    seen: int = -1

    def begin(self) -> None:
        self.seen = 0

    def plan(self, _: int, __: str) -> Fault:
        if self.seen >= 0:
            self.seen += 1
        return Fault.REFUSED if self.seen == self.number else Fault.NONE


@pytest.mark.parametrize(("time_limits", "count_min"), [(NO_TIME, 4), (SHORT, 5)])
def test_after_a_job_has_landed_its_result_is_told_or_unknown(
    time_limits: TimeLimits, count_min: int
) -> None:
    """`SHORT`: the request joins a job that is there; `NO_TIME`: it begins the job."""
    for number in count(1):
        world, outage = new_world(), Outage(number)
        world.lake.put("d", "3")
        if time_limits is SHORT:
            schedule.ask(world.scheduler, ASKED)

        def act(world: World = world, outage: Outage = outage) -> None:
            [message] = world.queue.messages
            assert isinstance(message, JobMessage)
            world.work(JobId(message.job))
            outage.begin()

        lake = world.lake.with_kv(partial(FaultyStore, plan=outage.plan))
        try:
            made = commit(waiting(world, act, lake), time_limits=time_limits)
        except OutcomeUnknown as error:
            [message] = world.queue.messages
            assert isinstance(message, JobMessage) and message.job in str(error)
            made = commit(world)  # the same request again
        assert made.id == world.lake.head() and made.commit.message == "job", number
        if outage.seen < number:
            break
    assert number > count_min  # of status, order, commit, note; of a joined one also the holder


def test_a_note_that_cannot_be_stored_fails_no_answer(world: World) -> None:
    job = begin_commit(world)
    outage = Outage(0)

    def refuse_swaps(_: int, verb: str) -> Fault:
        return Fault.REFUSED if outage.seen == 0 and verb == "set_if" else Fault.NONE

    def act() -> None:
        world.work(job.id)
        outage.begin()

    lake = world.lake.with_kv(partial(FaultyStore, plan=refuse_swaps))
    made = commit(waiting(world, act, lake))
    assert commit(world).id == made.id  # as if nobody had been told
    with pytest.raises(NoChanges):
        commit(world)


def test_own_work_that_a_store_refuses_after_the_job_has_landed_is_unknown(world: World) -> None:
    job = begin_commit(world)
    outage = Outage(0)

    def refuse_batches(_: int, verb: str) -> Fault:
        return Fault.REFUSED if outage.seen == 0 and verb == "set_many" else Fault.NONE

    def act() -> None:
        finish()
        outage.begin()

    lake = world.lake.with_kv(partial(FaultyStore, plan=refuse_batches))
    with paused(world, job.id, SCANNED) as finish:
        world.lake.put("late", "5")
        with pytest.raises(OutcomeUnknown, match=job.id):
            commit(waiting(world, act, lake))
    assert len(world.marked(job.id)) == 1 and world.lake.uncommitted() == [("added", "late")]
