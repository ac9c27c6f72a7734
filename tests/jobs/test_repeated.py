"""Jobs whose commit landed, was seen, and was taken away by a hard reset before they were repeated.

The idempotency key is in no history then.  The noted swap tells that something may have landed, so
the job is not done a second time, and nobody is told that it was refused.
"""

from collections.abc import Callable
from typing import Any

import pytest

from graveler.core import limits
from graveler.core.errors import NoChanges, NotFound, OutcomeUnknown, Unavailable
from graveler.core.records import Job, JobState, PullState
from graveler.engine import imports, protection, pulls
from graveler.engine.bulk import land
from graveler.engine.bulk.job import Mode
from graveler.engine.commits import reset, search
from graveler.engine.jobs import record as jobs
from graveler.engine.pulls import merge as merge_pull
from graveler.jobs import orders, schedule, worker
from graveler.refs import branches, job_records
from tests.engine import bulk_world
from tests.engine.lake import COMMITTER, Lake, new_lake
from tests.jobs.world import BEGUN, Killed, World, new_world

Act = Callable[[], object]
ENDS = [OutcomeUnknown("no answer"), Killed()]


class FirstSwap:
    """The first swap of a head away from `before` is applied; `act` happens, and `end` is raised.

    With `is_lost` it is not applied, unless the test calls `deliver` later.
    """

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        before: str,
        act: Act,
        end: BaseException,
        *,
        is_lost: bool = False,
    ) -> None:
        self.is_over = False
        self.deliver: Act = lambda: None
        whole = branches.attempt

        def attempt(*arguments: Any) -> Any:
            new = arguments[4]
            if self.is_over or new.commit == before:
                return whole(*arguments)
            self.is_over = True
            self.deliver = lambda: whole(*arguments)
            if not is_lost:
                self.deliver()
            act()
            raise end

        patch.setattr(branches, "attempt", attempt)


def begun(kind: str) -> tuple[World, Job, str, Lake, dict[str, str]]:
    """A world, a job of the kind that has begun, the head before it, another process, and what the
    job lands."""
    world = new_world()
    begin, tree = BEGUN[kind]
    return world, begin(world), world.lake.head(), world.lake.another_process(), tree


def die(world: World, job: Job) -> None:
    """The worker of the job dies, and its lease runs out."""
    with pytest.raises(Killed):
        world.work(job.id)
    world.pass_lease()


def work_twice(world: World, job: Job, end: BaseException) -> None:
    if isinstance(end, Killed):
        die(world, job)
    world.work(job.id)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("is_dirty", [True, False])
@pytest.mark.parametrize("kind", BEGUN)
def test_a_job_undoes_no_rollback(
    monkeypatch: pytest.MonkeyPatch, kind: str, is_dirty: bool, end: BaseException
) -> None:
    world, job, before, rival, tree = begun(kind)

    def act() -> None:
        assert tree.items() <= rival.tree("main@").items()
        reset.hard_reset(rival.opened, "main", before)
        if is_dirty:
            rival.put("later", "5")

    swap = FirstSwap(monkeypatch, before, act, end)
    work_twice(world, job, end)
    ended = world.status(job.id)
    assert swap.is_over and world.lake.head() == before and not world.marked(job.id)
    assert ended.state is JobState.FAILED and "outcome unknown" in ended.error


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("is_lost", [True, False])
@pytest.mark.parametrize("kind", BEGUN)
def test_a_job_whose_swap_is_noted_is_done_once(
    monkeypatch: pytest.MonkeyPatch, kind: str, is_lost: bool, end: BaseException
) -> None:
    world, job, before, _, tree = begun(kind)
    swap = FirstSwap(monkeypatch, before, lambda: None, end, is_lost=is_lost)
    work_twice(world, job, end)
    assert swap.is_over and world.status(job.id).state is JobState.DONE
    assert len(world.marked(job.id)) == 1
    assert tree.items() <= world.lake.tree("main@").items()


def test_a_commit_whose_rows_are_still_sealed_is_made_however_the_branch_moved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, job, before, rival, tree = begun("commit")

    def act() -> None:
        for _ in range(2):
            rival.put("other/x", "rival")
            reset.reset_prefix(rival.opened, "main", "other/")

    swap = FirstSwap(monkeypatch, before, act, Killed(), is_lost=True)
    work_twice(world, job, Killed())
    assert swap.is_over and world.status(job.id).state is JobState.DONE
    assert world.lake.tree("main@") == tree


@pytest.mark.parametrize("mode", [Mode.REPLACE, Mode.MERGE, Mode.COMMIT])
def test_a_bulk_job_that_is_finished_again_undoes_no_rollback(
    monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    lake: Lake = new_lake()
    before, rival = lake.commit_of(a="1"), lake.another_process()
    lake.put("b", "2") if mode is Mode.COMMIT else None
    job = bulk_world.begin(lake, mode)
    written = bulk_world.change(lake, job, {"b": "2"})

    def act() -> None:
        assert rival.tree("main@")["b"] == "2"
        reset.hard_reset(rival.opened, "main", before)

    swap = FirstSwap(monkeypatch, before, act, OutcomeUnknown("no answer"))
    for _ in range(2):
        with pytest.raises(OutcomeUnknown):
            bulk_world.finish(lake, job, written)
    assert swap.is_over and lake.head() == before and bulk_world.landings(lake) == 0


def begin_pull(world: World) -> Job:
    pull = pulls.create(world.lake.opened, pulls.NewPull("t", "other", "main", COMMITTER))
    asked = orders.pull_asked("main", pull.id, 1, COMMITTER)
    return schedule.submit(world.scheduler, asked, schedule.newest(world.scheduler, asked))


@pytest.mark.parametrize("end", ENDS)
def test_the_job_of_a_pull_request_undoes_no_rollback(
    monkeypatch: pytest.MonkeyPatch, end: BaseException
) -> None:
    world = new_world()
    job, before, rival = begin_pull(world), world.lake.head(), world.lake.another_process()
    back = lambda: reset.hard_reset(rival.opened, "main", before)  # noqa: E731
    swap = FirstSwap(monkeypatch, before, back, end)
    work_twice(world, job, end)
    assert swap.is_over and world.lake.head() == before
    assert "outcome unknown" in world.status(job.id).error
    pull = orders.pull_request(jobs.ordered(rival.opened, job.id)).pull
    with pytest.raises(OutcomeUnknown):
        merge_pull(rival.opened, pull, COMMITTER)
    assert world.lake.head() == before


@pytest.mark.parametrize("is_killed", [True, False])
@pytest.mark.parametrize("kind", ["merge", "import"])
def test_a_job_whose_swap_lost_against_commits_goes_on(
    monkeypatch: pytest.MonkeyPatch, kind: str, is_killed: bool
) -> None:
    """Its note stays, and the worker dies, or its time is over, before the next swap."""
    world, job, before, rival, tree = begun(kind)
    whole = branches.attempt

    def attempt(*arguments: Any) -> Any:
        if arguments[4].commit == before:
            return whole(*arguments)
        monkeypatch.setattr(branches, "attempt", whole)
        for name in ("one", "two"):
            rival.commit_of(**{name: "9"})
        answer = whole(*arguments)
        if is_killed:
            raise Killed
        world.lake.ports.clock.sleep(60)
        return answer

    monkeypatch.setattr(branches, "attempt", attempt)
    try:
        world.work(job.id, seconds=50)
    except Killed:
        world.pass_lease()
    world.work(job.id)
    assert world.status(job.id).state is JobState.DONE, world.status(job.id).error
    assert tree.items() <= world.lake.tree("main@").items()


@pytest.mark.parametrize("kind", BEGUN)
def test_a_branch_that_is_protected_after_the_rollback_refuses_nothing_for_certain(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    world, job, before, rival, _ = begun(kind)

    def act() -> None:
        reset.hard_reset(rival.opened, "main", before)
        protection.add_rule(rival.opened, "main")

    swap = FirstSwap(monkeypatch, before, act, Killed())
    work_twice(world, job, Killed())
    assert swap.is_over and "outcome unknown" in world.status(job.id).error


def _protected_meanwhile(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> tuple[Job, Lake, str, dict[str, str]]:
    """The branch is protected while the swap of the first worker is on its way; then it arrives.
    The job as its second worker ended it, and the lake; the head before, and what was to land."""
    world, job, before, rival, tree = begun(kind)
    swap = FirstSwap(monkeypatch, before, lambda: None, Killed(), is_lost=True)
    die(world, job)
    protection.add_rule(rival.opened, "main")
    world.work(job.id)
    ended = world.status(job.id)
    swap.deliver()
    return ended, rival, before, tree


def test_an_import_that_is_refused_lands_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    ended, rival, before, _ = _protected_meanwhile(monkeypatch, "import")
    assert rival.head() == before
    assert ended.state is JobState.FAILED and "unknown" not in ended.error


def test_a_commit_that_is_refused_while_its_swap_may_land_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended, rival, _, tree = _protected_meanwhile(monkeypatch, "commit")
    assert tree.items() <= rival.tree("main@").items()
    assert ended.state is JobState.FAILED and "outcome unknown" in ended.error


def test_an_import_that_landed_is_done_though_its_source_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, job, before, _, _ = begun("import")
    swap = FirstSwap(monkeypatch, before, lambda: None, Killed())
    die(world, job)

    def gone(*_: Any) -> None:
        raise NotFound("source gone")

    monkeypatch.setattr(imports.SourceRecords, "take", gone)
    world.work(job.id)
    assert swap.is_over and world.status(job.id).state is JobState.DONE
    assert len(world.marked(job.id)) == 1


@pytest.mark.parametrize("kind", BEGUN)
@pytest.mark.parametrize("is_shallow", [True, False])
def test_one_of_two_swaps_of_a_record_that_lands_is_found(
    monkeypatch: pytest.MonkeyPatch, kind: str, is_shallow: bool
) -> None:
    """The first swap is under way while a second attempt notes its own, and dies when the first one
    has landed.  `is_shallow`: on less history than when the job began, where no key is found."""
    world = new_world()
    begin, tree = BEGUN[kind]
    shallow, rival = world.lake.head(), world.lake.another_process()
    for number in range(5 if is_shallow else 0):
        world.lake.commit(f"{number}", allow_empty=True)
    job = begin(world)
    if is_shallow:
        if kind == "commit":
            reset.reset(rival.opened, "main")
        reset.hard_reset(rival.opened, "main", shallow)
        if kind == "commit":
            rival.put("d", "3")
            rival.delete("b")
    before = world.lake.head()
    first = FirstSwap(monkeypatch, before, lambda: None, Killed(), is_lost=True)
    die(world, job)
    world.lake.ports.clock.sleep(2)  # so the second attempt makes another commit
    second = FirstSwap(monkeypatch, before, first.deliver, Killed(), is_lost=True)
    die(world, job)
    world.work(job.id)
    assert second.is_over and world.status(job.id).state is JobState.DONE
    assert len(world.marked(job.id)) == 1 and tree.items() <= world.lake.tree("main@").items()


def test_a_pull_request_that_was_closed_meanwhile_says_that_it_is_merged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = new_world()
    job, before, rival = begin_pull(world), world.lake.head(), world.lake.another_process()
    pull = orders.pull_request(jobs.ordered(rival.opened, job.id)).pull
    FirstSwap(monkeypatch, before, lambda: None, Killed())
    with pytest.raises(Killed):
        world.work(job.id)
    pulls.update(rival.opened, pull, pulls.PullChanges(state=PullState.CLOSED))
    world.pass_lease()
    world.work(job.id)
    assert world.status(job.id).state is JobState.DONE
    assert pulls.get(rival.opened, pull).state is PullState.MERGED


def test_a_note_of_another_attempt_is_no_refusal_while_a_swap_may_land(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = new_lake()
    before, other = lake.commit_of(a="1"), lake.another_process()
    lake.put("b", "2")
    job = bulk_world.begin(lake, Mode.COMMIT)
    written = bulk_world.change(lake, job, {"b": "2"})

    def act() -> None:
        FirstSwap(monkeypatch, before, lambda: None, Killed(), is_lost=True)
        other.ports.clock.sleep(2)
        with pytest.raises(Killed):
            bulk_world.finish(other, job, written)

    swap = FirstSwap(monkeypatch, before, act, OutcomeUnknown("no answer"), is_lost=True)
    with pytest.raises(OutcomeUnknown):
        bulk_world.finish(lake, job, written)
    swap.deliver()
    assert lake.tree("main@") == {"a": "1", "b": "2"}


def test_a_job_that_is_given_up_after_the_rollback_is_no_certain_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, job, before, rival, _ = begun("merge")
    runs = {"runs": str(limits.job_restart_count_max - 1)}
    job_records.amend(rival.ports.kv, rival.repo, job.id, runs, rival.ports.ids)
    back = lambda: reset.hard_reset(rival.opened, "main", before)  # noqa: E731
    swap = FirstSwap(monkeypatch, before, back, Killed())
    work_twice(world, job, Killed())
    assert swap.is_over and "outcome unknown" in world.status(job.id).error


def test_an_outage_of_a_repeated_attempt_does_not_say_that_nothing_landed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, job, before, _, _ = begun("merge")
    FirstSwap(monkeypatch, before, lambda: None, Killed())
    die(world, job)

    def refused(*_: Any) -> Any:
        raise Unavailable("outage")

    with monkeypatch.context() as outage:
        outage.setattr(branches, "find", refused)
        outage.setattr(branches, "find_live", refused)
        world.work(job.id)
    assert len(world.marked(job.id)) == 1
    assert "outcome unknown" in world.status(job.id).error


def test_a_worker_that_stalls_before_its_note_undoes_no_rollback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, job, before, rival, _ = begun("merge")
    back = lambda: reset.hard_reset(rival.opened, "main", before)  # noqa: E731
    FirstSwap(monkeypatch, before, back, Killed())
    whole = search.SwapJournal.note

    def note(self: Any, swap: Any) -> None:
        monkeypatch.setattr(search.SwapJournal, "note", whole)
        world.pass_lease()
        with pytest.raises(Killed):
            world.work(job.id)
        whole(self, swap)

    monkeypatch.setattr(search.SwapJournal, "note", note)
    for _ in range(2):
        world.work(job.id)
        world.pass_lease()
    assert not world.marked(job.id) and world.lake.head() == before


@pytest.mark.parametrize("later", [True, False])
def test_a_commit_on_less_history_than_when_its_job_began_is_found(
    monkeypatch: pytest.MonkeyPatch, later: bool
) -> None:
    """The search for the key ends at the head from when the job began, which is not there."""
    world = new_world()
    begin, _ = BEGUN["commit"]
    shallow = world.lake.head()
    for number in range(5):
        world.lake.commit(f"{number}", allow_empty=True)
    job, rival = begin(world), world.lake.another_process()
    reset.reset(rival.opened, "main")
    reset.hard_reset(rival.opened, "main", shallow)
    rival.put("x", "5")
    act: Act = (lambda: rival.put("y", "6")) if later else (lambda: None)
    swap = FirstSwap(monkeypatch, shallow, act, Killed())
    work_twice(world, job, Killed())
    assert swap.is_over and world.status(job.id).state is JobState.DONE
    assert len(world.marked(job.id)) == 1


def test_a_swap_that_lands_while_its_job_fails_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    world, job, before, rival, _ = begun("commit")
    swap = FirstSwap(monkeypatch, before, lambda: None, Killed(), is_lost=True)
    die(world, job)
    protection.add_rule(rival.opened, "main")
    whole = worker.settle

    def settle(*arguments: Any) -> Any:
        swap.deliver()
        return whole(*arguments)

    monkeypatch.setattr(worker, "settle", settle)
    world.work(job.id)
    assert world.status(job.id).state is JobState.DONE
    assert len(world.marked(job.id)) == 1


@pytest.mark.parametrize("is_lost", [True, False])
def test_the_landing_of_a_bulk_job_that_is_given_up_is_no_certain_failure(
    monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    world = new_world()
    lake, rival = world.lake, world.lake.another_process()
    bulk = bulk_world.begin(lake, Mode.MERGE)
    written = bulk_world.change(lake, bulk, {"q": "2"})
    before = lake.head()
    finish = land.Finish(written, "r", "landed", COMMITTER, {})
    asked = orders.land_asked("main", bulk.job.id, finish)
    job = schedule.submit(world.scheduler, asked, schedule.newest(world.scheduler, asked))
    runs = {"runs": str(limits.job_restart_count_max - 1)}
    job_records.amend(rival.ports.kv, rival.repo, job.id, runs, rival.ports.ids)
    back = lambda: reset.hard_reset(rival.opened, "main", before)  # noqa: E731
    act: Act = (lambda: None) if is_lost else back
    swap = FirstSwap(monkeypatch, before, act, Killed(), is_lost=is_lost)
    work_twice(world, job, Killed())
    assert swap.is_over and "outcome unknown" in world.status(job.id).error


def test_a_bulk_job_without_changes_says_so_though_an_attempt_died(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = new_lake()
    lake.commit_of(a="1")
    lake.put("a", "1")
    job = bulk_world.begin(lake, Mode.COMMIT)
    written = bulk_world.change(lake, job, {})
    whole = branches.attempt

    def attempt(*arguments: Any) -> Any:
        monkeypatch.setattr(branches, "attempt", whole)
        whole(*arguments)
        raise Killed

    monkeypatch.setattr(branches, "attempt", attempt)
    with pytest.raises(Killed):
        bulk_world.finish(lake, job, written)
    with pytest.raises(NoChanges):
        bulk_world.finish(lake, job, written)
