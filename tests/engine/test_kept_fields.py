"""Whoever changes a record keeps what it does not own: later releases' fields, others' changes."""

from dataclasses import replace

import pytest

from graveler.core import limits
from graveler.core.ids import BranchId, JobId, TagId
from graveler.core.records import ABSENT, JobState
from graveler.engine import janitor, names
from graveler.engine.commits import reset
from graveler.engine.jobs import record
from graveler.engine.jobs.record import Ending, NewJob
from graveler.engine.repositories import repository
from graveler.kv.store import Place, Row
from graveler.refs import branches, cleanups
from graveler.refs.keys import REPOSITORIES, cleanup_key, job_key, space, tag_key
from tests.engine.lake import Lake
from tests.support.clockwork import TickingClock
from tests.support.faults import Fault, FaultyStore

UNKNOWN = b"\x98\x06\x2a\xa2\x06\x03new"  # fields 99 and 100
MAIN, DEV = BranchId("main"), BranchId("dev")


def _add(lake: Lake, place: Place) -> None:
    """As a later release would have written the record."""
    row = _row(lake, place)
    lake.ports.kv.set(*place, row.value + UNKNOWN, lake.ports.ids.stamp())


def _row(lake: Lake, place: Place) -> Row:
    row = lake.ports.kv.get(*place)
    assert row is not ABSENT
    return row


def _has(lake: Lake, place: Place) -> bool:
    return _row(lake, place).value.endswith(UNKNOWN)


def _place(lake: Lake, branch: BranchId) -> Place:
    return branches.place(lake.repo, branch)


def test_every_verb_on_a_branch_keeps_unknown_fields(lake: Lake) -> None:
    lake.branch("dev")
    place = _place(lake, DEV)
    _add(lake, place)
    other = lake.another_process()
    other.put("a", "1", "dev")
    other.commit(branch="dev")
    assert _has(lake, place)
    other.put("b", "1", "dev")
    reset.reset_path(other.opened, "dev", "b")
    reset.reset(other.opened, "dev")
    reset.hard_reset(other.opened, "dev", "main")
    assert _has(lake, place)
    names.delete_branch(other.opened, "dev")
    assert _has(lake, branches.deleted_place(lake.repo, DEV))
    other.branch("dev")
    assert _has(lake, place) and other.record("dev").live
    other.commit_of("dev", a="1")
    lake.commit_of(b="1")
    other.merge("main", "dev")
    assert _has(lake, place)


def test_a_branch_made_anew_has_nothing_of_the_deleted_one_but_what_nobody_knows(
    lake: Lake,
) -> None:
    names.create_branch(lake.opened, "dev", "main", hidden=True)
    lake.commit_of("dev", a="1")
    lake.put("b", "1", "dev")
    old = lake.record("dev")
    assert old.recent_rows
    names.delete_branch(lake.opened, "dev")
    lake.branch("dev")
    new = lake.record("dev")
    assert (new.hidden, new.recent_rows, new.sealed, new.commit) == (False, 0, (), lake.head())
    assert new.staging != old.staging and new.rev == old.rev + 2


def test_a_tag_keeps_unknown_fields(lake: Lake) -> None:
    names.create_tag(lake.opened, "v1", "main")
    place = space(lake.repo), tag_key(TagId("v1"))
    _add(lake, place)
    names.delete_tag(lake.opened, "v1")
    names.create_tag(lake.opened, "v1", "main")
    assert _has(lake, place) and names.get_tag(lake.opened, "v1") == lake.head()


def test_a_job_keeps_unknown_fields(lake: Lake) -> None:
    job = JobId("one")
    record.begin(lake.opened, NewJob(job, "commit"))
    place = space(lake.repo), job_key(job)
    _add(lake, place)
    record.claim(lake.opened, job, b"me")
    record.finish(lake.opened, job, Ending(JobState.DONE))
    assert _has(lake, place) and record.status(lake.opened, job).ended


def test_a_repository_keeps_unknown_fields(lake: Lake) -> None:
    place = REPOSITORIES, lake.repo.id.encode()
    _add(lake, place)
    breaks = replace(lake.repo.breaks, min_size=7)
    repository.swap_breaks(lake.opened, lake.repo.breaks, breaks)
    assert _has(lake, place)


# ---- the janitor ---------------------------------------------------------------------------------


def _waiting(lake: Lake) -> tuple[Lake, TickingClock, Place]:
    """A lake whose time passes when it is asked to, and a clean-up record that is due."""
    clock = TickingClock()
    clock.sleep(lake.ports.clock.now_ns() / limits.SECOND_NS)
    lake = Lake(replace(lake.ports, clock=clock), lake.repo)
    lake.put("a", "1")
    (token,) = lake.record().tokens_newest_first
    reset.reset(lake.opened, "main")
    clock.sleep(limits.token_grace_seconds + 1)
    return lake, clock, (space(lake.repo), cleanup_key(token))


def test_the_janitor_keeps_unknown_fields(lake: Lake) -> None:
    lake, clock, place = _waiting(lake)
    _add(lake, place)
    assert janitor.sweep(lake.opened).marked == 1
    assert _has(lake, place)
    clock.sleep(limits.token_grace_seconds + 1)
    assert janitor.sweep(lake.opened).rows == 1
    assert _has(lake, place)


@pytest.mark.parametrize("passes", [0, 1])
def test_what_others_have_noted_meanwhile_is_not_overwritten(lake: Lake, passes: int) -> None:
    """Another operation takes the token off a record again, and wants its own grace."""
    lake, clock, _ = _waiting(lake)
    if passes:
        janitor.sweep(lake.opened)
        clock.sleep(limits.token_grace_seconds + 1)
    later = clock.now_ns() + 10**15
    (pending,) = cleanups.list_cleanups(lake.ports.kv, lake.repo)

    def note_again() -> None:
        writes = cleanups.cleanup_writes(lake.repo, MAIN, [pending.token], later, lake.ports.ids)
        lake.ports.kv.set_many(writes)

    mine, script = lake.interposed()
    script.before("set_if", note_again)
    swept = janitor.sweep(mine.opened)
    assert script.finished and swept.marked == 0
    (left,) = cleanups.list_cleanups(lake.ports.kv, lake.repo)
    assert (left.cleanup.not_before_ns, left.cleanup.marked_ns) == (later, 0)


def test_a_mark_without_an_answer_is_found_by_the_next_round(lake: Lake) -> None:
    lake, _, _ = _waiting(lake)
    lossy = lake.with_kv(
        lambda kv: FaultyStore(kv, lambda _, verb: Fault.LOST if verb == "set_if" else Fault.NONE)
    )
    assert janitor.sweep(lossy.opened).marked == 0
    (left,) = cleanups.list_cleanups(lake.ports.kv, lake.repo)
    assert left.cleanup.marked_ns
