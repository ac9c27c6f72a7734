"""Batches of arrived objects whose record others change, or whose answers are lost."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from graveler.core import limits
from graveler.core.errors import Contended, OutcomeUnknown, Unsupported
from graveler.core.ids import BranchId
from graveler.core.records import ABSENT
from graveler.engine import names as branches
from graveler.engine.commits import reset
from graveler.engine.events import batches
from graveler.engine.events.batches import Delivery
from graveler.engine.ports import open_repository
from graveler.kv.store import Store
from graveler.refs.arrivals import ClosingBatch
from graveler.refs.event_rules import EventRule
from tests.engine.lake import Lake
from tests.support.clockwork import TickingClock
from tests.support.faults import Fault, FaultyStore
from tests.support.interposer import Script

MARKED = Delivery(1, marked=True)


def rule_of(lake: Lake) -> EventRule:
    return EventRule("rule", lake.repo.id, lake.repo.uid, BranchId("main"), "landing")


def note(lake: Lake, delivery: Delivery = MARKED) -> ClosingBatch | object:
    return batches.note(lake.opened, rule_of(lake), delivery)


def closed(lake: Lake) -> str:
    """The name of a batch that waits for its commit, with a staged object in it."""
    lake.put("a", "1")
    found = note(lake)
    assert isinstance(found, ClosingBatch)
    return found.batch


def waiting(lake: Lake) -> list[str]:
    return [each.batch for each in batches.tick(lake.opened, rule_of(lake))]


def commit(lake: Lake, batch: str) -> object:
    return batches.commit_batch(lake.opened, rule_of(lake), batch)


def losing(faults: Iterator[Fault]) -> Callable[[Store], Store]:
    """A store whose conditional writes go wrong, one after the other."""

    def plan(_: int, verb: str) -> Fault:
        return next(faults, Fault.NONE) if verb == "set_if" else Fault.NONE

    return lambda kv: FaultyStore(kv, plan)


def never() -> Iterator[Fault]:
    while True:
        yield Fault.DROPPED


def test_a_batch_is_opened_and_closed_though_answers_are_lost(lake: Lake) -> None:
    faults = iter([Fault.DROPPED, Fault.LOST, Fault.DROPPED])
    batch = closed(lake.with_kv(losing(faults)))
    assert waiting(lake) == [batch]


def test_a_record_that_cannot_be_written_is_contended(lake: Lake) -> None:
    with pytest.raises(Contended):
        note(lake.with_kv(losing(never())))
    note(lake, Delivery(1))
    with pytest.raises(Contended):
        note(lake.with_kv(losing(never())))
    assert waiting(lake) == []


def test_a_batch_that_another_closes_at_once_is_the_others(
    scripted: tuple[Lake, Script], rival: Lake
) -> None:
    mine, script = scripted
    others: list[str] = []
    script.after("set_if", lambda: others.append(closed(rival)))
    assert note(mine) is ABSENT
    assert script.finished and waiting(rival) == others


def test_a_batch_that_another_closes_just_before_is_the_others(
    scripted: tuple[Lake, Script], rival: Lake
) -> None:
    mine, script = scripted
    others: list[str] = []
    note(mine, Delivery(1))
    script.before("set_if", lambda: others.append(closed(rival)))
    assert note(mine) is ABSENT
    assert script.finished and waiting(rival) == others


def test_no_batch_is_closed_while_many_wait(lake: Lake) -> None:
    names = [closed(lake) for _ in range(limits.event_batches_closing_max)]
    lake.put("late", "1")
    assert note(lake) is ABSENT and sorted(waiting(lake)) == sorted(names)
    assert commit(lake, names[0]) is not ABSENT
    assert isinstance(note(lake), ClosingBatch)


def test_a_batch_that_was_forgotten_is_committed_no_more(lake: Lake) -> None:
    batch = closed(lake)
    assert commit(lake, batch) == lake.head()
    head = lake.head()
    lake.put("b", "2")
    assert commit(lake, batch) is ABSENT and lake.head() == head


def test_a_batch_without_changes_is_forgotten(lake: Lake) -> None:
    batch = closed(lake)
    lake.commit("somebody else's")
    head = lake.head()
    assert commit(lake, batch) is ABSENT
    assert lake.head() == head and waiting(lake) == []


def test_a_batch_whose_branch_is_reset_meanwhile_is_forgotten(
    scripted: tuple[Lake, Script], rival: Lake
) -> None:
    mine, script = scripted
    batch = closed(rival)
    script.before("set_if", lambda: reset.reset(rival.opened, "main"), 2)
    assert commit(mine, batch) is ABSENT
    assert script.finished and waiting(rival) == [] and rival.tree() == {}


def test_a_batch_whose_commit_keeps_losing_stays(
    scripted: tuple[Lake, Script], rival: Lake
) -> None:
    mine, script = scripted
    batch = closed(rival)

    def act() -> None:
        rival.put("other/x", "rival")
        reset.reset_prefix(rival.opened, "main", "other/")
        script.before("set_if", act)

    script.after("set_if", lambda: script.before("set_if", act))
    with pytest.raises((Contended, OutcomeUnknown)):
        commit(mine, batch)
    assert waiting(rival) == [batch]


def test_a_batch_that_cannot_be_forgotten_is_committed_once_all_the_same(lake: Lake) -> None:
    batch = closed(lake)
    record: list[bool] = []

    def plan(_: int, verb: str) -> Fault:
        record.append(verb == "set_if")
        # The first two swap the branch: a token sealed, the commit in place.
        return Fault.DROPPED if verb == "set_if" and sum(record) > 2 else Fault.NONE

    made = commit(lake.with_kv(lambda kv: FaultyStore(kv, plan)), batch)
    assert made == lake.head() and waiting(lake) == [batch]
    lake.put("b", "2")
    assert commit(lake, batch) == made
    assert lake.head() == made and waiting(lake) == []


# ---- runs of workers -----------------------------------------------------------------------------


def note_run(lake: Lake, batch: str) -> None:
    batches.note_run(lake.opened, rule_of(lake), batch)


def runs(lake: Lake) -> list[int]:
    return [each.runs for each in batches.tick(lake.opened, rule_of(lake))]


def test_runs_are_counted_though_answers_are_lost(lake: Lake) -> None:
    batch, other = closed(lake), closed(lake)
    note_run(lake.with_kv(losing(iter([Fault.DROPPED, Fault.LOST]))), batch)
    assert sorted(runs(lake)) == [0, 1] or sorted(runs(lake)) == [0, 2]
    batches.forget_runs(lake.opened, rule_of(lake), batch)
    assert runs(lake) == [0, 0]
    commit(lake, batch)
    commit(lake, other)
    note_run(lake, batch)  # it is over
    batches.forget_runs(lake.opened, rule_of(lake), batch)
    assert waiting(lake) == []


def test_runs_that_cannot_be_counted_are_contended(lake: Lake) -> None:
    batch = closed(lake)
    with pytest.raises(Contended):
        note_run(lake.with_kv(losing(never())), batch)
    assert runs(lake) == [0]


def test_a_batch_that_is_given_up_leaves_its_objects_staged(lake: Lake) -> None:
    batch = closed(lake)
    for _ in range(limits.job_restart_count_max):
        note_run(lake, batch)
    with pytest.raises(Unsupported, match="its objects stay staged"):
        note_run(a_day_later(lake), batch)
    assert waiting(lake) == [] and lake.uncommitted()
    note_run(lake, batch)


def a_day_later(lake: Lake) -> Lake:
    clock = TickingClock()
    clock.sleep(lake.ports.clock.now_ns() / limits.SECOND_NS)
    clock.sleep(limits.batch_restart_seconds)
    return Lake(replace(lake.ports, clock=clock), lake.repo)


def test_a_batch_is_given_up_by_its_runs_and_by_its_time(lake: Lake) -> None:
    batch = closed(lake)
    note_run(lake, batch)
    note_run(a_day_later(lake), batch)  # too few
    for _ in range(limits.job_restart_count_max):
        note_run(lake, batch)  # too early
    assert runs(lake) == [limits.job_restart_count_max + 2]


def test_runs_that_are_forgotten_begin_anew(lake: Lake) -> None:
    batch = closed(lake)
    for _ in range(limits.job_restart_count_max):
        note_run(lake, batch)
    batches.forget_runs(lake.opened, rule_of(lake), batch)
    late = a_day_later(lake)
    for _ in range(limits.job_restart_count_max + 1):
        note_run(late, batch)
    assert waiting(late) == [batch]


def test_a_batch_of_a_branch_that_is_gone_is_not_said_to_be_given_up(lake: Lake) -> None:
    batch = closed(lake)
    for _ in range(limits.job_restart_count_max):
        note_run(lake, batch)
    lake.branch("new")
    renamed = replace(lake.repo, default_branch=BranchId("new"))
    branches.delete_branch(open_repository(lake.ports, renamed), "main")
    note_run(a_day_later(lake), batch)
    assert commit(lake, batch) is ABSENT and waiting(lake) == []
