"""Jobs whose commit landed, was seen, and was taken away by a hard reset before they were repeated.

The idempotency key is in no history then.  The noted swap tells that something may have landed, so
the job is not done a second time, and nobody is told that it was refused.
"""

from collections.abc import Callable
from typing import Any

import pytest

from graveler.engine.bulk.job import Mode
from graveler.engine.commits import reset
from graveler.errors import OutcomeUnknown
from graveler.records import JobState
from graveler.refs.names import branches
from tests.engine import bulk_world
from tests.engine.lake import Lake, new_lake
from tests.jobs.world import BEGUN, Killed, World, new_world

Act = Callable[[], object]


class FirstSwap:
    """The first swap of a head away from `before` is applied; `act` happens, and `end` is raised.

    With `is_lost` it is not applied.
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
        whole = branches.attempt

        def attempt(*arguments: Any) -> Any:
            new = arguments[4]
            if self.is_over or new.commit == before:
                return whole(*arguments)
            self.is_over = True
            if not is_lost:
                whole(*arguments)
            act()
            raise end

        patch.setattr(branches, "attempt", attempt)


def work_twice(world: World, job: Any, end: BaseException) -> None:
    if isinstance(end, Killed):
        with pytest.raises(Killed):
            world.work(job.id)
        world.pass_lease()
    world.work(job.id)


@pytest.mark.parametrize("end", [OutcomeUnknown("no answer"), Killed()])
@pytest.mark.parametrize("is_dirty", [True, False])
@pytest.mark.parametrize("kind", BEGUN)
def test_a_job_undoes_no_rollback(
    monkeypatch: pytest.MonkeyPatch, kind: str, is_dirty: bool, end: BaseException
) -> None:
    world = new_world()
    begin, tree = BEGUN[kind]
    job, before, rival = begin(world), world.lake.head(), world.lake.another_process()

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


@pytest.mark.parametrize("end", [OutcomeUnknown("no answer"), Killed()])
@pytest.mark.parametrize("is_lost", [True, False])
@pytest.mark.parametrize("kind", BEGUN)
def test_a_job_whose_swap_is_noted_is_done_once(
    monkeypatch: pytest.MonkeyPatch, kind: str, is_lost: bool, end: BaseException
) -> None:
    world = new_world()
    begin, tree = BEGUN[kind]
    job, before = begin(world), world.lake.head()
    swap = FirstSwap(monkeypatch, before, lambda: None, end, is_lost=is_lost)
    work_twice(world, job, end)
    assert swap.is_over and world.status(job.id).state is JobState.DONE
    assert len(world.marked(job.id)) == 1
    assert tree.items() <= world.lake.tree("main@").items()


def test_a_commit_whose_rows_are_still_sealed_is_made_however_the_branch_moved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = new_world()
    begin, tree = BEGUN["commit"]
    job, before, rival = begin(world), world.lake.head(), world.lake.another_process()

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
