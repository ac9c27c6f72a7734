"""The rule of retention, as a pure function and as a record."""

from collections.abc import Mapping

import pytest

from graveler.core.errors import Invalid
from graveler.core.ids import BranchId, CommitId
from graveler.core.records import Commit
from graveler.engine.gc import retention
from graveler.engine.gc.retention import Heads
from graveler.engine.ports import open_repository
from graveler.refs.garbage import FOREVER, Retention
from tests.engine.lake import Lake

DAY_NS = 24 * 3600 * 1_000_000_000
NOW_NS = 1_000 * DAY_NS


def _history(*lines: tuple[str, float, str]) -> Mapping[CommitId, Commit]:
    """name, age in days, parents"""
    return {
        CommitId(name): Commit(
            "me", "m", int(NOW_NS - age * DAY_NS), parents=tuple(map(CommitId, parents.split()))
        )
        for name, age, parents in lines
    }


HISTORY = _history(
    ("root", 50, ""),
    ("m1", 40, "root"),
    ("m2", 20, "m1"),
    ("m3", 5, "m2 s1"),
    ("s1", 30, "m1"),
    ("s2", 10, "s1"),
    ("lost", 300, "m1"),
    ("dead", -50, "lost"),
)
HEADS = Heads(((BranchId("main"), CommitId("m3")), (BranchId("side"), CommitId("s2"))), ())
LED_TO = {"root", "m1", "m2", "m3", "s1", "s2"}
# When runs first found these so; their own dates, of which any may be wrong, do not count.
UNREACHED = {CommitId("lost"): NOW_NS - 3 * DAY_NS, CommitId("dead"): NOW_NS - 9 * DAY_NS}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (Retention(), LED_TO | {"lost"}),
        (Retention(unreachable_days=10), LED_TO | {"lost", "dead"}),
        (Retention(default_days=1), {"m3", "s2", "lost"}),
        (Retention(default_days=6), {"m3", "m2", "s1", "s2", "lost"}),
        (Retention(default_days=25), {"m3", "m2", "s1", "m1", "s2", "lost"}),
        (Retention(6, branches={BranchId("side"): 35}), {"m3", "m2", "s1", "s2", "m1", "lost"}),
        (Retention(1, branches={BranchId("side"): FOREVER}), LED_TO - {"m2"} | {"lost"}),
        (Retention(FOREVER, branches={BranchId("main"): 1}), LED_TO - {"m2"} | {"lost"}),
    ],
)
def test_what_is_kept(rule: Retention, expected: set[str]) -> None:
    found = retention.kept(rule, HISTORY, HEADS, UNREACHED, NOW_NS)
    assert (found.commits, found.led_to) == (expected, LED_TO)


def test_commits_with_dates_long_ago_let_no_history_expire() -> None:
    """Clients choose dates.  What lies below was there until these commits came."""
    history = _history(
        ("root", 50, ""),
        ("m1", 9, "root"),
        ("m2", 5, "m1"),
        ("late", -400, "m2"),  # a date in the future
        ("old", 999, "late"),
        ("older", 1_000, "old"),
    )
    heads = Heads(((BranchId("main"), CommitId("older")),), ())
    for days, expected in (
        (1, {"older"}),
        (6, {"older", "old", "late", "m2", "m1"}),
        (10, {"older", "old", "late", "m2", "m1", "root"}),
    ):
        found = retention.kept(Retention(days), history, heads, {}, NOW_NS)
        assert found.commits == expected, days


def test_what_is_found_unreachable_just_now_has_all_its_days() -> None:
    found = retention.kept(Retention(1, unreachable_days=1), HISTORY, HEADS, {}, NOW_NS)
    assert found.commits >= {"lost", "dead"}


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        (1, {"m3", "s2", "lost", "dead"}),
        (305, LED_TO | {"lost", "dead"}),
        (FOREVER, LED_TO | {"lost", "dead"}),
    ],
)
def test_the_default_rule_keeps_the_ancestors_of_a_commit_that_was_lost_lately(
    days: int, expected: set[str]
) -> None:
    """Though a run found them lost long before."""
    unreached = {CommitId("lost"): NOW_NS - 9 * DAY_NS, CommitId("dead"): NOW_NS - 3 * DAY_NS}
    rule = Retention(days, unreachable_days=5)
    assert retention.kept(rule, HISTORY, HEADS, unreached, NOW_NS).commits == expected


def test_old_ancestors_of_a_commit_that_was_lost_lately_expire() -> None:
    history = _history(*((f"n{age}", age, f"n{age + 1}") for age in range(300)))
    unreached = {id: 0 for id in history if id != "n0"}
    found = retention.kept(Retention(10), history, Heads((), ()), unreached, NOW_NS)
    assert found.commits == {f"n{age}" for age in range(11)}


def test_a_tag_is_kept_and_what_it_leads_to_follows_the_default() -> None:
    heads, long_ago = Heads((), (CommitId("s2"),)), dict.fromkeys(HISTORY, 0)
    longer, shorter = (
        retention.kept(Retention(default_days=days), HISTORY, heads, long_ago, NOW_NS)
        for days in (11, 9)
    )
    assert longer.commits >= {"s2", "s1"} and "s1" not in shorter.commits


def test_the_record(lake: Lake) -> None:
    assert retention.get_rule(lake.opened) == Retention()
    rule = Retention(30, 3, {BranchId("main"): 90, BranchId("dev"): FOREVER})
    retention.set_rule(lake.opened, rule)
    assert retention.get_rule(open_repository(lake.another_process().ports, lake.repo)) == rule


@pytest.mark.parametrize(
    "rule",
    [
        Retention(default_days=-1),
        Retention(default_days=40_000),
        Retention(unreachable_days=0),
        Retention(branches={BranchId("main"): -5}),
    ],
)
def test_rules_that_make_no_sense_are_refused(lake: Lake, rule: Retention) -> None:
    with pytest.raises(Invalid):
        retention.set_rule(lake.opened, rule)
