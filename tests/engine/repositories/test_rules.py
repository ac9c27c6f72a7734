"""Branch protection rules: what is stored, under which conditions, and with which failures."""

from collections.abc import Callable

import pytest

from graveler.core import limits
from graveler.core.errors import (
    AlreadyExists,
    Invalid,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    Unavailable,
)
from graveler.core.requests import Counts, counted_store
from graveler.engine import protection
from graveler.engine.repositories import repository
from tests.engine.lake import Lake, new_lake
from tests.support.faults import Fault, FaultyStore, nth
from tests.support.interposer import InterposedStore, Script


def shown(lake: Lake) -> tuple[str, ...]:
    return protection.get_rules(lake.opened).patterns


def test_rules_are_kept_in_order_and_once(lake: Lake) -> None:
    assert protection.get_rules(lake.opened) == protection.StoredRules((), "")
    protection.set_rules(lake.opened, ["main", "release-*", "main"])
    stored = protection.get_rules(lake.another_process().opened)
    assert stored.patterns == ("main", "release-*")
    assert len(bytes.fromhex(stored.tag)) == 32
    protection.set_rules(lake.opened, [])
    assert protection.get_rules(lake.opened) == protection.StoredRules((), "")


def test_a_tag_belongs_to_the_rules(lake: Lake) -> None:
    tags = set()
    for patterns in (["a"], ["b"], ["a", "b"], ["b", "a"], ["ab"]):
        protection.set_rules(lake.opened, patterns)
        tags.add(protection.get_rules(lake.opened).tag)
    assert len(tags) == 5
    protection.set_rules(lake.opened, ["a"])
    assert protection.get_rules(lake.opened).tag in tags


def test_rules_are_replaced_only_if_they_are_those_that_the_caller_saw(lake: Lake) -> None:
    protection.set_rules(lake.opened, ["main"], if_match="")
    tag = protection.get_rules(lake.opened).tag
    for stale in ("", "0" * 64, tag.upper()):
        with pytest.raises(PreconditionFailed):
            protection.set_rules(lake.opened, ["other"], if_match=stale)
    assert shown(lake) == ("main",)
    protection.set_rules(lake.opened, ["other"], if_match=tag)
    with pytest.raises(PreconditionFailed):  # also if the rules would not change
        protection.set_rules(lake.opened, ["other"], if_match=tag)


def test_of_two_callers_that_saw_the_same_rules_one_replaces_them(
    lake: Lake, scripted: tuple[Lake, Script]
) -> None:
    slow, script = scripted
    script.before("set_if", lambda: protection.set_rules(lake.opened, ["theirs"], if_match=""))
    with pytest.raises(PreconditionFailed):
        protection.set_rules(slow.opened, ["ours"], if_match="")
    assert shown(lake) == ("theirs",)


def test_single_rules_are_added_and_removed(lake: Lake) -> None:
    protection.add_rule(lake.opened, "main")
    protection.add_rule(lake.opened, "dev*")
    with pytest.raises(AlreadyExists):
        protection.add_rule(lake.opened, "main")
    protection.remove_rule(lake.opened, "main")
    with pytest.raises(NotFound):
        protection.remove_rule(lake.opened, "main")
    assert shown(lake) == ("dev*",)


@pytest.mark.parametrize("pattern", ["", "[a", "{a,b}", "a b", "a/b", "ü", "a" * 256, "a\n", "\\*"])
def test_a_pattern_that_can_match_no_branch_is_refused(lake: Lake, pattern: str) -> None:
    with pytest.raises(Invalid):
        protection.set_rules(lake.opened, ["main", pattern])
    with pytest.raises(Invalid):
        protection.add_rule(lake.opened, pattern)
    assert shown(lake) == ()


def test_a_repository_has_a_bounded_number_of_rules(lake: Lake) -> None:
    most = [f"b{number}" for number in range(limits.protection_rules_max)]
    protection.set_rules(lake.opened, most)
    with pytest.raises(Invalid, match="too many rules"):
        protection.set_rules(lake.opened, [*most, "one-more"])
    with pytest.raises(Invalid, match="too many rules"):
        protection.add_rule(lake.opened, "one-more")
    assert shown(lake) == tuple(most)


def test_rules_of_a_deleted_repository_and_of_its_successor(lake: Lake) -> None:
    protection.set_rules(lake.opened, ["main"])
    repository.delete(lake.opened)
    with pytest.raises(NotFound):
        protection.get_rules(lake.opened)
    with pytest.raises(NotFound):
        protection.set_rules(lake.opened, [])
    new = repository.NewRepository("lake", "mem://bucket/later")
    later = Lake(lake.ports, repository.create(lake.ports, new))
    with pytest.raises(NotFound):
        protection.set_rules(lake.opened, ["x"])
    assert shown(later) == ()


def test_what_the_calls_cost(lake: Lake) -> None:
    counts = Counts()
    counted = lake.with_kv(lambda kv: counted_store(kv, counts))

    def cost(call: Callable[[], object]) -> dict[str, int]:
        before = counts.snapshot()
        call()
        return dict(counts.since(before))

    twice = {"get": 1, "set_if": 1}
    assert cost(lambda: protection.get_rules(counted.opened)) == {"get": 1}
    assert cost(lambda: protection.set_rules(counted.opened, ["main"])) == twice
    assert cost(lambda: protection.set_rules(counted.opened, ["main"])) == {"get": 1}
    assert cost(lambda: protection.add_rule(counted.opened, "x")) == twice
    assert cost(lambda: protection.remove_rule(counted.opened, "x")) == twice


@pytest.mark.parametrize("fault", [each for each in Fault if each is not Fault.NONE])
def test_nothing_is_half_set_and_a_retry_is_harmless(fault: Fault) -> None:
    for number in range(1, 6):
        lake = new_lake()
        protection.set_rules(lake.opened, ["before"])
        store = FaultyStore(lake.ports.kv, nth({number: fault}))
        broken, answered = _through(lake, store), True
        try:
            protection.set_rules(broken.opened, ["after"])
        except Unavailable:
            answered = False
        assert shown(lake) in ([("after",)] if answered else [("before",), ("after",)])
        store.land()
        protection.set_rules(lake.another_process().opened, ["after"])
        assert shown(lake) == ("after",)


def _through(lake: Lake, store: FaultyStore) -> Lake:
    return lake.with_kv(lambda _: store)


def test_a_change_that_is_not_confirmed_is_unknown(lake: Lake) -> None:
    store = FaultyStore(lake.ports.kv, nth({2: Fault.LOST, 3: Fault.REFUSED}))
    with pytest.raises(OutcomeUnknown):
        protection.set_rules(_through(lake, store).opened, ["ours"])
    assert shown(lake) == ("ours",)


def test_a_change_that_is_not_confirmed_and_replaced_since_is_unknown(lake: Lake) -> None:
    script = Script()
    store = FaultyStore(lake.ports.kv, nth({2: Fault.LOST}))
    slow = lake.with_kv(lambda _: InterposedStore(store, script))
    script.before("get", lambda: protection.set_rules(lake.opened, ["theirs"]), nth=2)
    with pytest.raises(OutcomeUnknown):
        protection.set_rules(slow.opened, ["mine"])
    assert shown(lake) == ("theirs",)
