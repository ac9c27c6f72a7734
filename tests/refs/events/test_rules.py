"""Rules of event ingestion: what is refused, what they take, how they are stored and ended."""

from dataclasses import replace
from typing import Any

import pytest

from graveler.core import limits
from graveler.core.errors import AlreadyExists, Invalid, NotFound, OutcomeUnknown
from graveler.core.ids import BranchId
from graveler.kv.memory import MemoryStore
from graveler.refs import event_rules
from graveler.refs.event_rules import EventRule
from tests.refs.stores import IDS, repository
from tests.support.faults import Fault, FaultyStore

REPO = repository()
RULE = EventRule("rule1", REPO.id, REPO.uid, BranchId("main"), "landing", "in/", ".csv")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"bucket": "No"}, "bucket"),
        ({"bucket": "a/b"}, "bucket"),
        ({"prefix": "p" * (limits.path_length_bytes_max + 1)}, "prefix"),
        ({"suffix": "a\0b"}, "suffix"),
        ({"marker": "a/b"}, "slash"),
        ({"path": "{key}/{day}"}, "unknown placeholder"),
        ({"path": "one"}, "all objects"),
        ({"path": "a\0{key}"}, "path is too long or has a NUL"),
        ({"path": "{key}" * 300}, "path is too long"),
        ({"objects_max": -1}, "objects"),
        ({"objects_max": limits.event_batch_objects_max + 1}, "objects"),
        ({"seconds_max": 0}, "seconds"),
        ({"seconds_max": limits.event_batch_seconds_max + 1}, "seconds"),
    ],
)
def test_a_rule_that_cannot_be_followed_is_refused(wrong: dict[str, Any], said: str) -> None:
    event_rules.check(RULE)
    with pytest.raises(Invalid, match=said):
        event_rules.check(replace(RULE, **wrong))


def test_a_rule_takes_the_objects_of_its_bucket_prefix_and_suffix_and_its_marker() -> None:
    rule = replace(RULE, marker="_SUCCESS", path="raw/{bucket}/{rest}")
    assert rule.takes("landing", "in/a.csv") and rule.takes("landing", "in/x/_SUCCESS")
    assert not rule.takes("other", "in/a.csv")
    assert not rule.takes("landing", "a.csv") and not rule.takes("landing", "in/a.txt")
    assert rule.marks("in/_SUCCESS") and not rule.marks("in/a.csv") and not RULE.marks("in/")
    assert rule.path_of("in/x/a.csv") == "raw/landing/x/a.csv"


def test_rules_are_stored_found_listed_and_ended_once() -> None:
    kv = MemoryStore()
    other, elsewhere = replace(RULE, id="rule2", objects_max=7), repository("other", "u2")
    foreign = replace(RULE, repository=elsewhere.id, uid=elsewhere.uid)
    event_rules.put(kv, REPO, RULE, IDS)
    event_rules.put(kv, REPO, other, IDS)
    event_rules.put(kv, elsewhere, foreign, IDS)
    with pytest.raises(AlreadyExists):
        event_rules.put(kv, REPO, RULE, IDS)
    assert event_rules.get(kv, REPO, "rule2") == other
    assert event_rules.of_repository(kv, REPO) == (RULE, other)
    event_rules.delete(kv, REPO, "rule1", IDS)
    assert event_rules.of_repository(kv, REPO) == (other,)
    assert set(event_rules.every(kv)) == {other, foreign}
    event_rules.put(kv, REPO, RULE, IDS)
    assert event_rules.get(kv, REPO, "rule1") == RULE


@pytest.mark.parametrize("name", ["none", "No rule!", ""])
def test_a_rule_that_is_not_there_is_not_found(name: str) -> None:
    kv = MemoryStore()
    with pytest.raises(NotFound):
        event_rules.get(kv, REPO, name)
    with pytest.raises(NotFound):
        event_rules.delete(kv, REPO, name, IDS)


def test_a_rule_that_was_ended_is_not_found() -> None:
    kv = MemoryStore()
    event_rules.put(kv, REPO, RULE, IDS)
    event_rules.delete(kv, REPO, RULE.id, IDS)
    with pytest.raises(NotFound):
        event_rules.get(kv, REPO, RULE.id)
    with pytest.raises(NotFound):
        event_rules.delete(kv, REPO, RULE.id, IDS)


def rivalled(kv: MemoryStore, fault: Fault, acts: list[str]) -> FaultyStore:
    """The first swap goes wrong; then somebody else does what `acts` says."""
    swaps: list[str] = []

    def plan(_: int, verb: str) -> Fault:
        if verb == "get" and swaps:
            while acts:
                if acts.pop(0) == "put":
                    event_rules.put(kv, REPO, RULE, IDS)
                else:
                    event_rules.delete(kv, REPO, RULE.id, IDS)
        if verb != "set_if" or swaps:
            return Fault.NONE
        swaps.append(verb)
        return fault

    return FaultyStore(kv, plan)


def test_a_rule_that_somebody_else_ended_meanwhile_may_have_been_made() -> None:
    kv = MemoryStore()
    with pytest.raises(OutcomeUnknown):
        event_rules.put(rivalled(kv, Fault.LOST, ["delete"]), REPO, RULE, IDS)
    assert event_rules.of_repository(kv, REPO) == ()


def test_an_end_whose_answer_is_lost_has_happened_whoever_else_ends_the_rule() -> None:
    kv = MemoryStore()
    event_rules.put(kv, REPO, RULE, IDS)
    event_rules.delete(rivalled(kv, Fault.DROPPED, ["delete"]), REPO, RULE.id, IDS)
    assert event_rules.of_repository(kv, REPO) == ()
