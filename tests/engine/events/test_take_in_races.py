"""Arrived objects where others win, or answers are lost: what is known, staged again, counted."""

from collections.abc import Callable

import pytest

from graveler.core import limits
from graveler.core.errors import Invalid, OutcomeUnknown
from graveler.core.ids import BranchId
from graveler.core.records import ABSENT, Entry
from graveler.core.wire import encode_entry
from graveler.engine.commits import heads
from graveler.engine.events import batches as batching
from graveler.engine.events import rules, take_in
from graveler.engine.events.batches import Delivery
from graveler.engine.events.rules import NewRule
from graveler.engine.events.take_in import ArrivedObject
from graveler.kv.memory import MemoryStore
from graveler.kv.store import Store
from graveler.refs import arrivals
from graveler.refs.arrivals import BatchCount, ClosingBatch
from graveler.refs.event_rules import EventRule
from tests.engine.lake import Lake
from tests.support.faults import Fault, FaultyStore
from tests.support.interposer import Script

EVENT = ArrivedObject(b"a", "1", b"a", encode_entry(Entry("mem://landing/a", 1, "arrived", 1)))


def rule_of(lake: Lake, objects_max: int = 0) -> EventRule:
    return EventRule(
        "rule", lake.repo.id, lake.repo.uid, BranchId("main"), "landing", objects_max=objects_max
    )


def deliver(lake: Lake) -> list[str]:
    taken = take_in.take_in(lake.opened, rule_of(lake), [EVENT])
    return [each.value for each in taken]


def lost() -> None:
    raise OutcomeUnknown("no answer")


# ---- events --------------------------------------------------------------------------------------


def test_an_event_whose_token_is_sealed_each_time_is_of_unknown_outcome(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    mine, script = scripted
    for number in range(1, 3 * limits.write_attempt_count_max):
        script.after("set_if", lambda: rival.commit("rival", allow_empty=True), number)
    with pytest.raises(OutcomeUnknown):
        deliver(mine)
    assert deliver(rival) == ["staged"] and lake.tree() == {"a": "arrived"}


@pytest.mark.parametrize("nth", [2, 3], ids=["the row", "the record"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_event_that_is_staged_again_counts_though_an_answer_is_lost(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake, moment: str, nth: int
) -> None:
    lake.put("b", "1")
    mine, script = scripted
    heads.fresh(mine.opened, BranchId("main"))
    script.before("set_if", rival.commit)  # its row lands in a token that is closed
    getattr(script, moment)("set_if", lost, nth)
    assert set(deliver(mine)) <= {"staged", "known"} and script.finished
    assert deliver(rival) == ["known"]
    lake.commit()
    assert lake.tree("main@") == {"a": "arrived", "b": "1"}


# ---- counts --------------------------------------------------------------------------------------


def note(lake: Lake, objects: int, objects_max: int) -> ClosingBatch | object:
    return batching.note(lake.opened, rule_of(lake, objects_max), Delivery(objects))


def counted(lake: Lake) -> int:
    number = arrivals.get_batches(lake.ports.kv, lake.repo, "rule").batches.number
    return arrivals.count_of(lake.ports.kv, lake.repo, "rule", number)


def count_at_all(lake: Lake) -> None:
    """Somebody changes every counter there is."""
    number = arrivals.get_batches(lake.ports.kv, lake.repo, "rule").batches.number
    for counter in range(arrivals.COUNTERS):
        each = BatchCount(number, counter, 1)
        assert arrivals.add_count(lake.ports.kv, lake.repo, "rule", each, lake.ports.ids.stamp())


def test_a_delivery_counts_though_others_count_at_the_same_time(
    scripted: tuple[Lake, Script], rival: Lake
) -> None:
    mine, script = scripted
    note(rival, 1, 1_000)
    script.before("set_if", lambda: count_at_all(rival))
    assert note(mine, 5, 1_000) is ABSENT and script.finished
    assert counted(rival) == 1 + arrivals.COUNTERS + 5


def test_a_delivery_that_cannot_be_counted_is_left_to_the_time_of_its_batch(
    scripted: tuple[Lake, Script], rival: Lake
) -> None:
    mine, script = scripted
    note(rival, 1, 1_000)

    def again() -> None:
        count_at_all(rival)
        script.before("set_if", again)

    script.before("set_if", again)
    assert note(mine, 999, 1_000) is ABSENT
    assert counted(rival) == 1 + arrivals.COUNTERS * limits.conditional_round_count_max


@pytest.mark.parametrize(("fault", "more"), [(Fault.DROPPED, 0), (Fault.LOST, 5)])
def test_a_count_without_an_answer_is_not_repeated(lake: Lake, fault: Fault, more: int) -> None:
    note(lake, 1, 1_000)

    def wrap(kv: Store) -> Store:
        return FaultyStore(kv, lambda _, verb: fault if verb == "set_if" else Fault.NONE)

    assert note(lake.with_kv(wrap), 5, 1_000) is ABSENT
    assert counted(lake) == 1 + more


def test_a_delivery_closes_a_batch_whose_time_is_over(lake: Lake) -> None:
    note(lake, 1, 0)
    before: Callable[[], int] = lake.ports.clock.now_ns
    lake.ports.clock.now_ns = lambda: before() + 301 * limits.SECOND_NS  # type: ignore[method-assign]
    assert isinstance(note(lake, 1, 0), ClosingBatch)


def test_a_late_count_of_an_earlier_batch_changes_nothing(lake: Lake) -> None:
    kv = MemoryStore()
    assert arrivals.add_count(kv, lake.repo, "rule", BatchCount(2, 0, 5), b"s1")
    assert arrivals.add_count(kv, lake.repo, "rule", BatchCount(1, 0, 7), b"s2")
    assert arrivals.count_of(kv, lake.repo, "rule", 2) == 5
    assert arrivals.count_of(kv, lake.repo, "rule", 1) == 0


def test_a_deployment_has_so_many_rules_and_no_more(lake: Lake) -> None:
    lake = lake.with_settings(event_rules_max=1)
    first = rules.create(lake.opened, NewRule("main", "landing"))
    with pytest.raises(Invalid, match="too many"):
        rules.create(lake.opened, NewRule("main", "landing", "in/"))
    rules.delete(lake.opened, first.id)
    assert rules.list_all(lake.opened) == ()
