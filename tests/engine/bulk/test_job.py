"""Bulk jobs: what a cluster wrote lands once, whole or not at all, whoever else commits."""

from dataclasses import replace
from typing import Any

import pytest

from graveler.committed.ranges import EMPTY_METARANGE
from graveler.core import limits
from graveler.core.errors import (
    Conflict,
    Contended,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Refused,
    Unavailable,
)
from graveler.core.records import JobState
from graveler.engine import janitor
from graveler.engine.bulk import job as bulk
from graveler.engine.bulk.job import Bulk, Mode, NewBulk
from graveler.engine.commits import log, reset
from graveler.engine.jobs import record
from graveler.engine.ports import open_repository
from graveler.kv.store import Store
from tests.engine.bulk_world import MAIN, begin, change, finish, landings, status, write
from tests.engine.lake import COMMITTER, Lake, new_lake
from tests.support.clockwork import SeededIds, TickingClock
from tests.support.faults import Fault, FaultyStore, nth
from tests.support.interposer import Script


@pytest.fixture
def timed() -> Lake:
    """A lake whose time goes on when it is told to."""
    lake = new_lake()
    return Lake(replace(lake.ports, clock=TickingClock(), ids=SeededIds(1)), lake.repo)


# ---- landing -------------------------------------------------------------------------------------


def test_a_prefix_is_replaced_by_what_the_job_wrote(lake: Lake) -> None:
    lake.commit_of(**{"a": "1", "in/a": "1", "in/b": "1", "z": "1"})
    job = begin(lake, prefix="in/")
    assert (job.base.id, job.mode, job.prefix) == (lake.head(), Mode.REPLACE, "in/")
    made = finish(lake, job, write(lake, {"in/b": "2", "in/c": "2"}))
    assert lake.tree() == {"a": "1", "in/b": "2", "in/c": "2", "z": "1"}
    assert made == lake.head()
    landed = log.get_commit(lake.opened, made).commit
    assert (landed.message, landed.committer) == ("landed", COMMITTER)
    assert landed.metadata == {"k": "v", record.MARK_KEY: job.job.id}
    assert landed.parents == (job.base.id,)
    assert (status(lake, job).job.state, status(lake, job).job.commit) == (JobState.DONE, made)


def test_what_others_commit_meanwhile_stays(lake: Lake) -> None:
    lake.commit_of(**{"a": "1", "in/a": "1", "m": "1"})
    one, two = begin(lake, prefix="in/"), begin(lake, Mode.MERGE)
    changed = change(lake, two, {"a": "2", "new": "2", "in/a": ""})
    theirs = lake.commit_of(**{"a": "9", "m": "", "in/late": "9", "o": "9"})
    finish(lake, one, write(lake, {"in/x": "2"}))
    assert lake.tree() == {"a": "9", "in/x": "2", "o": "9"}
    made = finish(lake, two, changed)
    assert lake.tree() == {"a": "2", "in/x": "2", "new": "2", "o": "9"}
    walked, _ = log.log(lake.opened, made, log.LogRequest())
    assert theirs in [each.id for each in walked]


def test_an_empty_job_empties_its_prefix(lake: Lake) -> None:
    lake.commit_of(**{"a": "1", "in/a": "1"})
    finish(lake, begin(lake, prefix="in/"), write(lake, {}))
    assert lake.tree() == {"a": "1"}
    finish(lake, begin(lake), EMPTY_METARANGE)
    assert lake.tree() == {}


def test_a_commit_that_lands_first_is_built_on(
    lake: Lake, rival: Lake, scripted: tuple[Lake, Script]
) -> None:
    lake.commit_of(**{"a": "1", "in/a": "1"})
    seen, script = scripted
    job = begin(seen, prefix="in/")
    metarange = write(lake, {"in/b": "2"})
    script.before("set_many", lambda: rival.commit_of(z="9"))
    made = finish(seen, job, metarange)
    assert script.finished
    assert lake.tree() == {"a": "1", "in/b": "2", "z": "9"}
    assert lake.head() == made


# ---- once ----------------------------------------------------------------------------------------


def test_the_same_request_is_answered_with_the_same_commit(lake: Lake, rival: Lake) -> None:
    job, metarange = begin(lake), write(lake, {"a": "1"})
    made = finish(lake, job, metarange)
    rival.commit_of(b="2")
    assert finish(rival, job, metarange) == made
    with pytest.raises(Conflict, match="another request has finished"):
        finish(lake, job, metarange, "other")
    assert lake.tree() == {"a": "1", "b": "2"}


@pytest.mark.parametrize("verb", ["set_if", "set_many", "get", "scan"])
@pytest.mark.parametrize("fault", [Fault.LOST, Fault.DROPPED, Fault.REFUSED])
def test_whichever_call_fails_the_same_request_lands_it_once(verb: str, fault: Fault) -> None:
    for number in range(1, 12):
        lake = new_lake()
        lake.commit_of(a="1")
        job, metarange = begin(lake, prefix="in/"), write(lake, {"in/a": "2"})
        calls = iter(range(1, 1_000))

        def plan(_: int, name: str, calls: Any = calls, number: int = number) -> Fault:
            return fault if name == verb and next(calls) == number else Fault.NONE

        with_fault = lake.with_kv(lambda kv, plan=plan: FaultyStore(kv, plan))  # type: ignore[misc]
        made = ""
        try:
            made = finish(with_fault, job, metarange)
        except Unavailable as error:
            if not isinstance(error, OutcomeUnknown):
                assert lake.tree() == {"a": "1"}
        other = lake.another_process()
        other.commit_of(b="3")
        again = finish(other, job, metarange)
        assert made in ("", again)
        assert landings(other) == 1
        assert other.tree() == {"a": "1", "b": "3", "in/a": "2"}


def test_a_twin_that_landed_it_meanwhile_is_found(timed: Lake) -> None:
    rival, (seen, script) = timed.another_process(), timed.interposed()
    job, metarange = begin(timed), write(timed, {"a": "1"})
    landed: list[str] = []
    script.before("set_many", lambda: landed.append(finish(rival, job, metarange)))
    assert [finish(seen, job, metarange)] == landed
    assert landings(timed) == 1


def test_a_twin_that_landed_it_in_another_second_is_found_by_the_next_request(timed: Lake) -> None:
    """Its commit has another id."""
    rival, (seen, script) = timed.another_process(), timed.interposed()
    job, metarange = begin(timed), write(timed, {"a": "1"})
    landed: list[str] = []

    def land_later() -> None:
        timed.ports.clock.sleep(1)
        landed.append(finish(rival, job, metarange))

    script.before("set_many", land_later)
    with pytest.raises(Contended, match="try again"):
        finish(seen, job, metarange)
    assert [finish(seen, job, metarange)] == landed
    assert landings(timed) == 1


def test_two_requests_cannot_both_land_it(
    lake: Lake, rival: Lake, scripted: tuple[Lake, Script]
) -> None:
    seen, script = scripted
    job, metarange = begin(lake), write(lake, {"a": "1"})
    script.before("scan", lambda: finish(rival, job, metarange, "other"))
    with pytest.raises(Conflict, match="another request has finished"):
        finish(seen, job, metarange)
    assert script.finished and landings(lake) == 1


# ---- what cannot land ----------------------------------------------------------------------------


def test_uncommitted_changes_are_a_conflict_and_the_job_goes_on(lake: Lake) -> None:
    job, metarange = begin(lake), write(lake, {"a": "1"})
    lake.put("b", "2")
    with pytest.raises(Conflict, match="uncommitted changes"):
        finish(lake, job, metarange)
    assert lake.tree() == {"b": "2"} and status(lake, job).job.state is JobState.RUNNING
    reset.reset(lake.opened, MAIN)
    finish(lake, job, metarange)
    assert lake.tree() == {"a": "1"}


def test_what_refuses_an_attempt_lets_the_one_before_land_no_more(lake: Lake) -> None:
    job, metarange = begin(lake), write(lake, {"a": "1"})
    swaps = iter([Fault.NONE, Fault.NONE, Fault.LATE])  # landing, its note, and the branch
    late: list[FaultyStore] = []

    def plan(_: int, verb: str) -> Fault:
        return next(swaps, Fault.REFUSED) if verb == "set_if" else Fault.NONE

    def wrapped(kv: Store) -> Store:
        late.append(FaultyStore(kv, plan))
        return late[0]

    with pytest.raises(OutcomeUnknown):
        finish(lake.with_kv(wrapped), job, metarange)
    lake.put("b", "2")
    with pytest.raises(Conflict, match="uncommitted changes"):
        finish(lake, job, metarange)
    late[0].land()
    assert lake.tree() == {"b": "2"}
    reset.reset(lake.opened, MAIN)
    assert finish(lake, job, metarange) == lake.head()


def test_a_refusal_does_not_hide_an_attempt_that_may_still_land(timed: Lake) -> None:
    """Whatever request fails meanwhile: only the same request, repeated, finds the outcome."""
    job, metarange = begin(timed), write(timed, {"a": "1"})
    swaps = iter([Fault.NONE, Fault.NONE, Fault.LATE])  # landing, its note, and the branch
    late: list[FaultyStore] = []

    def plan(_: int, verb: str) -> Fault:
        return next(swaps, Fault.REFUSED) if verb == "set_if" else Fault.NONE

    def wrapped(kv: Store) -> Store:
        late.append(FaultyStore(kv, plan))
        return late[0]

    with pytest.raises(OutcomeUnknown):
        finish(timed.with_kv(wrapped), job, metarange)
    for number in range(1, 100):
        failing: list[FaultyStore] = []

        def failed(kv: Store, number: int = number, failing: list[FaultyStore] = failing) -> Store:
            failing.append(FaultyStore(kv, nth({number: Fault.REFUSED})))
            return failing[0]

        with pytest.raises(Unavailable) as refused:
            finish(timed.with_kv(failed), job, "f" * 64)
        if failing[0].requests < number:  # none failed: no such metarange is what refuses
            assert isinstance(refused.value, OutcomeUnknown)
            assert "an earlier attempt may still land" in str(refused.value)
            break
    late[0].land()
    assert finish(timed, job, metarange) == timed.head() and timed.tree() == {"a": "1"}


def test_a_cancelled_job_never_lands(
    lake: Lake, rival: Lake, scripted: tuple[Lake, Script]
) -> None:
    job, metarange = begin(lake), write(lake, {"a": "1"})
    for _ in range(2):
        bulk.cancel(lake.opened, MAIN, job.job.id)
    for refused in (
        lambda: finish(lake, job, metarange),
        lambda: bulk.heartbeat(lake.opened, MAIN, job.job.id),
    ):
        with pytest.raises(Conflict, match="has ended"):
            refused()
    seen, script = scripted
    job = begin(lake)
    script.before("scan", lambda: bulk.cancel(rival.opened, MAIN, job.job.id))
    with pytest.raises(Conflict, match="has ended"):
        finish(seen, job, metarange)
    assert script.finished and lake.tree() == {}


def test_a_job_that_lands_cannot_be_cancelled(
    lake: Lake, rival: Lake, scripted: tuple[Lake, Script]
) -> None:
    seen, script = scripted
    job = begin(lake)
    refused: list[str] = []

    def cancel() -> None:
        with pytest.raises(Conflict) as caught:
            bulk.cancel(rival.opened, MAIN, job.job.id)
        refused.append(str(caught.value))

    script.before("set_many", cancel)
    finish(seen, job, write(lake, {"a": "1"}))
    cancel()
    assert "it is landing" in refused[0] and "already completed" in refused[1]
    beaten = bulk.heartbeat(lake.opened, MAIN, job.job.id, 9)
    assert beaten.job.state is JobState.DONE


def test_a_job_that_lasted_too_long_never_lands(timed: Lake) -> None:
    job, metarange = begin(timed), write(timed, {"a": "1"})
    timed.ports.clock.sleep(limits.import_seconds_max)
    for refused in (
        lambda: finish(timed, job, metarange),
        lambda: bulk.heartbeat(timed.opened, MAIN, job.job.id),
    ):
        with pytest.raises(Conflict, match="has expired"):
            refused()
    assert bulk.is_expired(timed.ports, status(timed, job)) and timed.tree() == {}


def cut_off(lake: Lake, swap: Fault) -> Lake:
    """A process that finishes a job: the swap of the branch goes so wrong, and then its store is
    down."""
    swaps = iter([Fault.NONE, Fault.NONE, swap])  # landing, its note, and the branch
    down: list[bool] = []

    def plan(_: int, verb: str) -> Fault:
        if down:
            return Fault.REFUSED
        fault = next(swaps) if verb == "set_if" else Fault.NONE
        down.extend([True] if fault is swap else [])
        return fault

    return lake.with_kv(lambda kv: FaultyStore(kv, plan))


@pytest.mark.parametrize("swap", [Fault.LOST, Fault.DROPPED])
def test_what_landed_in_time_is_found_when_the_time_is_over(timed: Lake, swap: Fault) -> None:
    job, metarange = begin(timed), write(timed, {"a": "1"})
    with pytest.raises(OutcomeUnknown):
        finish(cut_off(timed, swap), job, metarange)
    assert status(timed, job).job.state is JobState.LANDING
    beaten = bulk.heartbeat(timed.opened, MAIN, job.job.id, 9)
    assert beaten.job.progress == 0
    timed.ports.clock.sleep(limits.import_seconds_max)
    fresh = timed.another_process()
    if swap is Fault.LOST:
        assert finish(fresh, job, metarange) == fresh.head()
        return
    with pytest.raises(OutcomeUnknown):  # the swap may have been sent in the last moment
        finish(fresh, job, metarange)
    timed.ports.clock.sleep(timed.ports.settings.token_grace_seconds)
    with pytest.raises(Conflict, match="has expired"):
        finish(fresh, job, metarange)


def test_what_landed_on_an_older_head_is_found_when_the_time_is_over(timed: Lake) -> None:
    """A hard reset had put the branch on a commit from before the job."""
    old = timed.commit_of(z="0")
    timed.commit_of(z="1")
    timed.commit_of(z="2")
    job, metarange = begin(timed), write(timed, {"a": "1"})
    reset.hard_reset(timed.opened, MAIN, old)
    with pytest.raises(OutcomeUnknown):
        finish(cut_off(timed, Fault.LOST), job, metarange)
    timed.ports.clock.sleep(2 * limits.import_seconds_max)
    assert finish(timed.another_process(), job, metarange) == timed.head() != old


def test_what_was_taken_away_again_in_time_is_unknown_when_the_time_is_over(timed: Lake) -> None:
    before = timed.commit_of(z="0")
    job, metarange = begin(timed), write(timed, {"a": "1"})
    with pytest.raises(OutcomeUnknown):
        finish(cut_off(timed, Fault.LOST), job, metarange)
    assert timed.tree("main@") == {"a": "1"}
    reset.hard_reset(timed.opened, MAIN, before)
    timed.ports.clock.sleep(2 * limits.import_seconds_max)
    with pytest.raises(OutcomeUnknown):
        finish(timed.another_process(), job, metarange)
    assert timed.head() == before


def test_a_read_only_repository_begins_none(lake: Lake) -> None:
    closed = replace(lake.repo, read_only=True)
    with pytest.raises(Refused):
        bulk.begin(open_repository(lake.ports, closed), MAIN, NewBulk(Mode.MERGE))
    assert bulk.begin(
        open_repository(lake.ports, closed), MAIN, NewBulk(Mode.MERGE), force=True
    ).base.id


# ---- records -------------------------------------------------------------------------------------


def test_a_job_is_begun_again_by_its_id(lake: Lake, rival: Lake) -> None:
    lake.put("staged", "1")
    job = begin(lake, prefix="in/", id="load-1")
    rival.commit_of(b="1")
    again = begin(rival, prefix="in/", id="load-1")
    assert (again.base, again.job, again.tokens) == (job.base, job.job, job.tokens)
    assert [token.sealed for token in job.tokens] == [False]
    for other in (NewBulk(Mode.MERGE, "", "load-1"), NewBulk(Mode.REPLACE, "o", "load-1")):
        with pytest.raises(Conflict, match="has this id"):
            bulk.begin(lake.opened, MAIN, other)
    bulk.cancel(lake.opened, MAIN, "load-1")
    assert begin(lake, prefix="in/", id="load-1").job.state is JobState.CANCELLED


def test_a_name_that_is_used_again_for_something_else_is_refused(lake: Lake, rival: Lake) -> None:
    """Of a merge nothing but its purpose says where it is to land."""
    orders = NewBulk(Mode.MERGE, "", "nightly", purpose="import below 'orders/'")
    users = replace(orders, purpose="import below 'users/'")
    job = bulk.begin(lake.opened, MAIN, orders)
    assert bulk.begin(rival.opened, MAIN, orders).job == job.job
    assert bulk.status(rival.opened, MAIN, "nightly").new == orders
    for other in (users, replace(orders, purpose="")):
        with pytest.raises(Conflict, match="has this id") as refused:
            bulk.begin(rival.opened, MAIN, other)
        assert str(orders) in str(refused.value) and str(other) in str(refused.value)
    bulk.cancel(lake.opened, MAIN, "nightly")
    with pytest.raises(Conflict, match=r"users/.*orders/"):
        bulk.begin(lake.opened, MAIN, users)


def test_a_job_that_did_not_say_its_purpose_is_begun_again_by_one_that_does(lake: Lake) -> None:
    """As of an older release, or a commit that was handed over."""
    silent = NewBulk(Mode.MERGE, "", "nightly")
    job = bulk.begin(lake.opened, MAIN, silent)
    saying = replace(silent, purpose="import below 'in/'")
    assert bulk.begin(lake.opened, MAIN, saying) == job


@pytest.mark.parametrize("late", [False, True])
def test_a_name_of_another_branch_is_refused(
    lake: Lake, scripted: tuple[Lake, Script], late: bool
) -> None:
    lake.branch("dev")
    seen, script = scripted
    new = NewBulk(Mode.MERGE, "", "nightly")

    def take() -> None:
        bulk.begin(lake.opened, "dev", new)

    if late:
        script.before("set_if", take)
    else:
        take()
    with pytest.raises(Conflict, match="asked: branch=main begun: branch=dev"):
        bulk.begin(seen.opened, MAIN, new)
    assert script.finished


def test_two_who_begin_the_same_job_share_it(
    lake: Lake, rival: Lake, scripted: tuple[Lake, Script]
) -> None:
    seen, script = scripted
    others: list[Bulk] = []
    script.before("set_if", lambda: others.append(begin(rival, id="load-1")))
    assert begin(seen, id="load-1") == others[0]
    assert script.finished


@pytest.mark.parametrize(
    "new",
    [
        NewBulk(Mode.MERGE, "in/"),
        NewBulk(Mode.REPLACE, "in\0"),
        NewBulk(Mode.REPLACE, "", "a/b"),
        NewBulk(Mode.REPLACE, "", "x" * 65),
    ],
)
def test_what_no_job_can_be_is_refused(lake: Lake, new: NewBulk) -> None:
    with pytest.raises(Invalid):
        bulk.begin(lake.opened, MAIN, new)


def test_jobs_are_known_on_their_branch_alone(lake: Lake) -> None:
    job = begin(lake)
    lake.branch("dev")
    for branch, id in (("dev", job.job.id), (MAIN, "none"), (MAIN, "\0"), (MAIN, "x" * 2_000)):
        with pytest.raises(NotFound, match="bulk job not found"):
            bulk.status(lake.opened, branch, id)
    with pytest.raises(NotFound, match="branch"):
        bulk.begin(lake.opened, "none", NewBulk(Mode.MERGE))


def test_a_heartbeat_shows_progress(timed: Lake) -> None:
    job = begin(timed)
    timed.ports.clock.sleep(100)
    beaten = bulk.heartbeat(timed.opened, MAIN, job.job.id, 7)
    assert beaten.job.updated_ns > job.job.updated_ns
    assert bulk.heartbeat(timed.opened, MAIN, job.job.id).job.progress == 7
    assert status(timed, job).job.progress == 7


def test_no_worker_takes_a_bulk_job_however_silent_it_is(timed: Lake) -> None:
    job = begin(timed)
    timed.ports.clock.sleep(10 * limits.job_lease_seconds)
    repo = timed.opened
    assert not record.is_silent(repo, status(timed, job).job)
    assert record.claim(repo, job.job.id, b"worker") is record.Claim.OVER
    assert record.free_all(repo) == []
    finish(timed, job, write(timed, {"a": "1"}))
    assert timed.tree() == {"a": "1"}


def test_records_of_jobs_that_are_over_are_forgotten(timed: Lake) -> None:
    done, left = begin(timed), begin(timed)
    finish(timed, done, write(timed, {"a": "1"}))
    assert janitor.sweep(timed.opened).jobs == 0
    timed.ports.clock.sleep(limits.job_record_keep_seconds + 60)
    assert janitor.sweep(timed.opened).jobs == 1
    assert status(timed, left).job.state is JobState.RUNNING  # over for less than a day
    timed.ports.clock.sleep(limits.import_seconds_max)
    assert janitor.sweep(timed.opened).jobs == 1
    with pytest.raises(NotFound):
        status(timed, left)


# ---- stores that do not answer -------------------------------------------------------------------


def never_swaps(_: int, verb: str) -> Fault:
    return Fault.DROPPED if verb == "set_if" else Fault.NONE


def test_a_record_that_cannot_be_stored_is_said(lake: Lake) -> None:
    job, metarange = begin(lake), write(lake, {"a": "1"})
    broken = lake.with_kv(lambda kv: FaultyStore(kv, never_swaps))
    with pytest.raises(Unavailable, match="heartbeat not recorded"):
        bulk.heartbeat(broken.opened, MAIN, job.job.id)
    with pytest.raises(Unavailable, match="not landed"):
        finish(broken, job, metarange)
    assert lake.tree() == {} and status(lake, job).job.state is JobState.RUNNING


def test_what_landed_and_is_not_noted_is_told_so(lake: Lake) -> None:
    job, metarange = begin(lake), write(lake, {"a": "1"})
    swaps = iter([Fault.NONE] * 3)  # landing, its note, and the branch

    def plan(_: int, verb: str) -> Fault:
        return next(swaps, Fault.DROPPED) if verb == "set_if" else Fault.NONE

    with pytest.raises(OutcomeUnknown, match="landed, and is not noted"):
        finish(lake.with_kv(lambda kv: FaultyStore(kv, plan)), job, metarange)
    assert lake.tree() == {"a": "1"} and status(lake, job).job.state is JobState.LANDING
    assert finish(lake, job, metarange) == lake.head()
    assert status(lake, job).job.state is JobState.DONE
