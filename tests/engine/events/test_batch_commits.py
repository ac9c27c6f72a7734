"""Batches of arrived objects: opened, closed and committed, each once."""

import pytest

from graveler.core.records import ABSENT
from graveler.engine.commits import log as history
from graveler.engine.events import batches
from graveler.engine.events.batches import Delivery
from tests.engine.events.test_take_in import deliver, rule_of, told
from tests.engine.lake import Lake
from tests.support.interposer import Script


def batch_commits(lake: Lake) -> list[str]:
    log, _ = history.log(lake.opened, "main", history.LogRequest(amount=100))
    marks = [line.commit.metadata.get(batches.BATCH_KEY, "") for line in log]
    return [mark for mark in marks if mark]


def test_a_batch_closes_when_it_is_full_overdue_or_marked(lake: Lake) -> None:
    rule = rule_of(lake, objects_max=3, seconds_max=60, marker="_SUCCESS")
    assert batches.note(lake.opened, rule, Delivery(2)) is ABSENT
    full = batches.note(lake.opened, rule, Delivery(1))
    marked = batches.note(lake.opened, rule, Delivery(1, marked=True))
    assert full is not ABSENT and marked is not ABSENT and full.batch != marked.batch
    assert set(batches.tick(lake.opened, rule)) == {full, marked}
    batches.note(lake.opened, rule, Delivery(1))
    before = lake.ports.clock.now_ns
    lake.ports.clock.now_ns = lambda: before() + 61_000_000_000  # type: ignore[method-assign]
    assert len(batches.tick(lake.opened, rule)) == 3


def test_a_batch_is_committed_once_however_often_it_is_told(lake: Lake, rival: Lake) -> None:
    rule = rule_of(lake)
    deliver(lake, told("a", "1", "1"))
    closing = batches.note(lake.opened, rule, Delivery(1, marked=True))
    assert closing is not ABSENT
    first = batches.commit_batch(lake.opened, rule, closing.batch)
    assert first is not ABSENT and lake.head() == first
    deliver(lake, told("b", "1", "1"))
    assert batches.commit_batch(rival.opened, rule, closing.batch) is ABSENT
    assert batch_commits(lake) == [closing.batch]
    assert lake.tree("main@") == {"a": "1"}


@pytest.mark.parametrize("verb", ["set_if", "set_many", "get"])
@pytest.mark.parametrize("nth", range(1, 6))
def test_two_who_commit_a_batch_at_once_make_one_commit(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake, verb: str, nth: int
) -> None:
    mine, script = scripted
    rule = rule_of(lake)
    deliver(lake, told("a", "1", "1"))
    closing = batches.note(lake.opened, rule, Delivery(1, marked=True))
    assert closing is not ABSENT

    def other() -> None:
        batches.commit_batch(rival.opened, rule, closing.batch)
        deliver(rival, told("b", "1", "1"))  # what comes later is no reason for a second commit

    script.before(verb, other, nth)
    batches.commit_batch(mine.opened, rule, closing.batch)
    assert batch_commits(lake) == [closing.batch]


@pytest.mark.parametrize("nth", range(1, 12))
@pytest.mark.parametrize("verb", ["set_if", "set_many", "get", "delete"])
def test_a_worker_that_dies_in_a_batch_leaves_it_to_the_next(
    lake: Lake, scripted: tuple[Lake, Script], verb: str, nth: int
) -> None:
    mine, script = scripted
    rule = rule_of(lake)

    def die() -> None:
        raise KeyboardInterrupt

    script.before(verb, die, nth)
    for process in (mine, lake):
        try:
            deliver(process, told("a", "1", "1"))
            batches.note(process.opened, rule, Delivery(1, marked=True))
            for each in batches.tick(process.opened, rule):
                batches.commit_batch(process.opened, rule, each.batch)
        except KeyboardInterrupt:
            continue
    assert lake.tree("main@") == {"a": "1"}
    assert len(batch_commits(lake)) == len(set(batch_commits(lake))) == 1
