"""Writes that are made once: answers that are lost, and refusals."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from graveler.core import limits
from graveler.core.errors import OutcomeUnknown, Refused
from graveler.core.ids import BranchId
from graveler.core.records import ABSENT, Entry
from graveler.engine import janitor
from graveler.engine.commits.heads import fresh
from graveler.engine.commits.seal import seal
from graveler.engine.objects import read, rows
from graveler.engine.objects import write as writes
from graveler.engine.objects.write import Upload
from graveler.staging import area
from tests.engine.lake import Lake, new_lake
from tests.support.clockwork import SeededIds, TickingClock
from tests.support.faults import Fault, FaultPlan, FaultyStore


def stored(lake: Lake) -> Entry:
    return writes.stored(lake.opened, Upload([b"bytes"]))


def write(lake: Lake, entry: Entry, intent: rows.Intent, *, force: bool = False) -> None:
    rows.write_once(lake.opened, "main", "p", entry, intent, lambda: None, force=force)


def losing(faults: Iterator[Fault]) -> FaultPlan:
    def plan(_: int, verb: str) -> Fault:
        return next(faults, Fault.NONE) if verb == "set_if" else Fault.NONE

    return plan


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.DROPPED])
def test_an_answer_that_is_lost_is_looked_for(fault: Fault) -> None:
    lake = new_lake()
    entry = stored(lake)
    intent = rows.intend(lake.opened, "main", "p")
    faulty = lake.with_kv(lambda kv: FaultyStore(kv, losing(iter([fault]))))
    write(faulty, entry, intent)
    lake.put("p", "later")
    write(lake, entry, intent)
    assert lake.tree() == {"p": "later"}


def test_a_write_whose_answers_are_all_lost_may_have_been_made() -> None:
    lake = new_lake()
    intent = rows.intend(lake.opened, "main", "p")
    always = (Fault.DROPPED for _ in range(10_000))
    faulty = lake.with_kv(lambda kv: FaultyStore(kv, losing(always)))
    with pytest.raises(OutcomeUnknown):
        write(faulty, stored(lake), intent)


def test_a_write_that_is_committed_is_known_when_its_row_is_gone() -> None:
    lake = new_lake()
    lake = Lake(replace(lake.ports, clock=TickingClock(), ids=SeededIds(1)), lake.repo)
    entry = stored(lake)
    intent = rows.intend(lake.opened, "main", "p")
    write(lake, entry, intent)
    lake.commit()
    lake.delete("p")
    lake.commit()
    lake.commit_of(q="1")
    for _ in range(4):
        lake.ports.clock.sleep(limits.token_grace_seconds + 1)
        janitor.sweep(lake.opened)
    assert area.lookup(lake.ports.kv, (intent.token,), b"p") is ABSENT
    write(lake, entry, intent)
    assert lake.tree() == {"q": "1"} and not lake.uncommitted()


def test_commits_since_that_do_not_hold_it_leave_it_to_be_made() -> None:
    lake = new_lake()
    entry = stored(lake)
    intent = rows.intend(lake.opened, "main", "p")
    lake.commit_of(q="1")
    lake.commit_of(q="2")

    def is_written() -> bool:
        return rows.is_written(lake.opened, "main", "p", entry, intent)

    assert not is_written()
    write(lake, entry, intent)
    assert is_written() and read.stat(lake.opened, "main", "p") == entry


def test_what_was_there_when_it_was_intended_is_replaced() -> None:
    lake = new_lake()
    lake.put("p", "before")
    entry = stored(lake)
    intent = rows.intend(lake.opened, "main", "p")
    write(lake, entry, intent)
    assert read.stat(lake.opened, "main", "p") == entry


def test_an_intent_is_read_as_it_was_written() -> None:
    lake = new_lake()
    intent = rows.intend(lake.opened, "main", "p")
    assert rows.decoded(rows.encoded(intent)) == intent


def test_a_read_only_repository_is_not_written_to() -> None:
    lake = new_lake()
    intent = rows.intend(lake.opened, "main", "p")
    closed = Lake(lake.ports, replace(lake.repo, read_only=True))
    entry = stored(lake)
    with pytest.raises(Refused):
        write(closed, entry, intent)
    write(closed, entry, intent, force=True)
    assert read.stat(lake.opened, "main", "p") == entry


def test_a_write_that_was_only_intended_is_made_on_a_branch_that_has_moved_on() -> None:
    lake = new_lake()
    lake.commit_of(p="before")
    entry = stored(lake)
    intent = rows.intend(lake.opened, "main", "p")
    lake.commit_of(q="1")
    assert not rows.is_written(lake.opened, "main", "p", entry, intent)
    write(lake, entry, intent)
    assert read.stat(lake.opened, "main", "p") == entry
    assert rows.is_written(lake.opened, "main", "p", entry, intent)


@pytest.mark.parametrize("seals", [1, 2])
def test_a_row_of_another_write_in_a_sealed_token_goes_before_the_intent(seals: int) -> None:
    """A commit may or may not take it in, so its value goes into the open token."""
    lake = new_lake()
    entry = stored(lake)
    intent = rows.intend(lake.opened, "main", "p")
    for _ in range(seals - 1):
        sealed(lake)
    lake.put("p", "later")
    sealed(lake)
    write(lake, entry, intent)
    assert lake.tree() == {"p": "later"}
    assert area.lookup(lake.ports.kv, (lake.record().staging,), b"p") is not ABSENT


def sealed(lake: Lake) -> None:
    """The beginning of a commit that goes no further."""
    branch = BranchId("main")
    seal(lake.opened, branch, fresh(lake.opened, branch))
