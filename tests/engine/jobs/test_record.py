"""Jobs that one process runs at a time and any can finish: claims, beats, steps, ends."""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from graveler import assembly
from graveler.block.adapter import CREATE
from graveler.core import limits
from graveler.core.errors import (
    Code,
    Conflict,
    Contended,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Unavailable,
)
from graveler.core.ids import JobId
from graveler.core.records import JobState
from graveler.engine import import_sources, imports
from graveler.engine.commits import log as history
from graveler.engine.imports import ImportPath, ImportRequest, ImportState
from graveler.engine.jobs import record
from graveler.engine.jobs.record import Claim, Ending, Heartbeat, NewJob, Stopped, StopReason
from graveler.engine.ports import keyspace
from graveler.engine.repositories import repository
from graveler.kv.store import Store
from graveler.refs import job_records as stored
from tests.engine.lake import COMMITTER, Lake
from tests.support.clockwork import SeededIds, TickingClock
from tests.support.faults import Fault, FaultyStore, nth
from tests.support.interposer import Script

SOURCE = "mem://bucket/source/"
FOLDER = ImportPath("common_prefix", SOURCE, "in/")
SILENT = limits.job_lease_seconds + 1
JOB = JobId("job1")


@pytest.fixture
def clock() -> TickingClock:
    return TickingClock()


@pytest.fixture
def lake(clock: TickingClock) -> Lake:
    ports = assembly.open_memory(clock, SeededIds(1))
    repo = repository.create(ports, repository.NewRepository("lake", "mem://bucket/lake"))
    return Lake(ports, repo)


def begun(lake: Lake, kind: str = "merge", body: str = "as asked") -> JobId:
    record.begin(lake.opened, NewJob(JOB, kind, "main", body, lake.head()))
    return JOB


def claim(lake: Lake, owner: bytes, job: JobId = JOB) -> Claim:
    return record.claim(lake.opened, job, owner)


def state(lake: Lake) -> JobState:
    return record.status(lake.opened, JOB).state


def end(lake: Lake, by: bytes = b"") -> bool:
    return record.finish(lake.opened, JOB, Ending(JobState.DONE, by=by))


def pulse(lake: Lake, owner: bytes, until: float = 1e9) -> Heartbeat:
    return Heartbeat(lake.opened, JOB, owner, until)


def never_swaps(kv: Store) -> Store:
    return FaultyStore(kv, lambda _, verb: Fault.DROPPED if verb == "set_if" else Fault.NONE)


# ---- begin, cancel -------------------------------------------------------------------------------


def test_a_job_that_is_begun_twice_is_one_job_with_its_first_order(lake: Lake) -> None:
    begun(lake)
    assert claim(lake, b"me") is Claim.OURS
    again = record.begin(lake.opened, NewJob(JOB, "merge", body="another"))
    assert again.owner == b"me"
    order = record.ordered(lake.opened, JOB)
    assert (order.body, order.since, order.delivered) == ("as asked", lake.head(), False)
    assert record.once(JOB, order).value == JOB


def test_a_job_whose_beginning_is_sent_twice_below_is_begun(lake: Lake) -> None:
    faults: Iterator[Fault] = iter([Fault.REPEATED])
    mine = lake.with_kv(lambda kv: FaultyStore(kv, lambda *_: next(faults, Fault.NONE)))
    job = record.begin(mine.opened, NewJob(JOB, "merge"))
    assert job == record.status(lake.opened, JOB)


def test_a_delivered_result_is_noted_with_the_order(lake: Lake) -> None:
    begun(lake)
    record.note_delivered(lake.opened, JOB)
    order = record.ordered(lake.opened, JOB)
    assert (order.delivered, order.body) == (True, "as asked")
    record.note_delivered(lake.opened, JobId("none"))
    assert record.ordered(lake.opened, JobId("none")).delivered is False


@pytest.mark.parametrize("moment", [1, 2])
def test_what_two_add_to_an_order_at_once_stays_both(lake: Lake, moment: int) -> None:
    """One is told the result while a late runner notes its error."""
    begun(lake)
    seen, script = lake.interposed()

    def fail() -> None:
        record.fail(lake.opened, JOB, Invalid("no"), b"")

    script.before("get" if moment == 1 else "set_if", fail)
    record.note_delivered(seen.opened, JOB)
    order = record.ordered(lake.opened, JOB)
    assert script.finished
    assert (order.delivered, order.error_kind, order.body) == (True, "Invalid", "as asked")


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_late_twin_of_an_addition_takes_nothing_back(lake: Lake, forgotten: bool) -> None:
    begun(lake)
    late = FaultyStore(lake.ports.kv, nth({2: Fault.LATE}))
    mine = lake.with_kv(lambda _: late)
    with suppress(OutcomeUnknown):
        record.note_delivered(mine.opened, JOB)
    record.fail(lake.opened, JOB, Invalid("no"), b"")
    if forgotten:
        stored.forget(lake.ports.kv, lake.repo, [JOB])
    late.land()
    order = record.ordered(lake.opened, JOB)
    found = (order.delivered, order.error_kind, order.body)
    assert found == ((False, "", "") if forgotten else (True, "Invalid", "as asked"))


def test_jobs_are_cancelled_by_their_kind(lake: Lake) -> None:
    begun(lake)
    with pytest.raises(NotFound):
        record.cancel(lake.opened, JOB, "import", "main")
    with pytest.raises(NotFound):
        record.cancel(lake.opened, JOB, "merge", "dev")
    with pytest.raises(NotFound):
        imports.status(lake.opened, JOB)
    for _ in range(2):
        record.cancel(lake.opened, JOB, "merge", "main")
    assert state(lake) is JobState.CANCELLED
    assert not end(lake)


def test_a_job_that_lands_or_has_ended_is_cancelled_no_more(lake: Lake) -> None:
    begun(lake)
    claim(lake, b"me")
    pulse(lake, b"me").land(3)
    pulse(lake, b"me").land(3)
    with pytest.raises(Conflict, match="landing"):
        record.cancel(lake.opened, JOB, "merge", "main")
    assert end(lake, by=b"me")
    with pytest.raises(Conflict, match="completed"):
        record.cancel(lake.opened, JOB, "merge", "main")


# ---- whose it is ---------------------------------------------------------------------------------


def test_a_job_has_one_runner_until_that_is_silent(lake: Lake, clock: TickingClock) -> None:
    assert claim(lake, b"a") is Claim.OVER
    begun(lake)
    assert claim(lake, b"a") is Claim.OURS
    assert claim(lake, b"b") is Claim.RUNNING
    clock.sleep(SILENT)
    assert claim(lake, b"b") is Claim.OURS
    with pytest.raises(Stopped) as stopped:
        pulse(lake, b"a").beat()
    assert stopped.value.why is StopReason.TAKEN_OVER
    assert not end(lake, by=b"a") and end(lake, by=b"b")
    assert claim(lake, b"b") is Claim.OVER
    with pytest.raises(Stopped) as stopped:
        pulse(lake, b"b").beat()
    assert stopped.value.why is StopReason.ENDED


def test_a_beat_shows_progress_and_keeps_the_lease(lake: Lake, clock: TickingClock) -> None:
    begun(lake)
    claim(lake, b"a")
    beats = pulse(lake, b"a")
    for number in range(3):
        clock.sleep(SILENT / 2)
        beats.beat(number if number < 2 else -1)
        assert claim(lake, b"b") is Claim.RUNNING
    assert record.status(lake.opened, JOB).progress == 1


def test_a_runner_stops_when_its_time_is_over_and_lets_another_go_on(
    lake: Lake, clock: TickingClock
) -> None:
    begun(lake)
    claim(lake, b"a")
    clock.sleep(10)
    with pytest.raises(Stopped) as stopped:
        pulse(lake, b"a", until=5).beat(always=True)
    assert stopped.value.why is StopReason.OUT_OF_TIME
    record.release(lake.opened, JOB, b"b")
    assert claim(lake, b"b") is Claim.RUNNING
    record.release(lake.opened, JOB, b"a")
    assert claim(lake, b"b") is Claim.OURS


def test_of_two_who_claim_at_once_one_runs(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    begun(lake)
    mine, script = scripted
    script.before("set_if", lambda: claim(rival, b"b"))
    assert claim(mine, b"a") is Claim.RUNNING and script.finished


def test_a_heartbeat_that_must_count_meets_another_claim(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake, clock: TickingClock
) -> None:
    begun(lake)
    claim(lake, b"a")
    clock.sleep(SILENT)
    mine, script = scripted
    script.before("set_if", lambda: claim(rival, b"b"))
    with pytest.raises(Stopped) as stopped:
        pulse(mine, b"a").beat(always=True)
    assert stopped.value.why is StopReason.TAKEN_OVER and script.finished


def test_a_release_that_meets_a_beat_is_repeated(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    begun(lake)
    claim(lake, b"a")
    mine, script = scripted
    script.before("set_if", lambda: pulse(rival, b"a").beat(7))
    record.release(mine.opened, JOB, b"a")
    assert script.finished and claim(lake, b"b") is Claim.OURS


def test_a_record_that_cannot_be_written_is_neither_claimed_nor_landed(lake: Lake) -> None:
    begun(lake)
    broken = lake.with_kv(never_swaps)
    with pytest.raises(Unavailable):
        claim(broken, b"a")
    with pytest.raises(Unavailable):
        pulse(broken, b"").land(1)
    with pytest.raises(Unavailable):
        pulse(broken, b"").beat(always=True)
    record.release(broken.opened, JOB, b"")
    assert not end(broken) and state(lake) is JobState.RUNNING


def test_a_store_that_is_opened_again_frees_what_was_running(lake: Lake) -> None:
    begun(lake)
    claim(lake, b"dead")
    ended = JobId("job2")
    record.begin(lake.opened, NewJob(ended, "merge"))
    record.finish(lake.opened, ended, Ending(JobState.DONE))
    assert [job.id for job in record.free_all(lake.opened)] == [JOB]
    assert claim(lake, b"me") is Claim.OURS


def test_a_failure_is_kept_with_its_kind(lake: Lake) -> None:
    begun(lake)
    claim(lake, b"me")
    record.fail(lake.opened, JOB, Invalid("no such thing"), b"me")
    found = record.status(lake.opened, JOB)
    assert (found.state, found.error) == (JobState.FAILED, "no such thing")
    order = record.ordered(lake.opened, JOB)
    assert (order.error_kind, order.error_code, order.error_fields) == ("Invalid", "", "")


def test_a_failure_is_kept_with_its_code_and_fields(lake: Lake) -> None:
    begun(lake)
    claim(lake, b"me")
    record.fail(lake.opened, JOB, NotFound("x", Code.REF_NOT_FOUND, ref="dev"), b"me")
    order = record.ordered(lake.opened, JOB)
    assert (order.error_kind, order.error_code) == ("NotFound", "ref_not_found")
    assert order.error_fields == '{"ref": "dev"}'


# ---- imports in steps ----------------------------------------------------------------------------


def sources(lake: Lake, count: int) -> None:
    for number in range(count):
        lake.ports.blocks.put(f"{SOURCE}{number:03}", [b"x" * number], CREATE)


def work(lake: Lake, request: ImportRequest, beats: Heartbeat, spill: int = 4) -> None:
    order = record.ordered(lake.opened, JOB)
    resumed = ImportState(record.once(JOB, order), spill_count=spill)
    imports.work(lake.opened, "main", request, beats, resumed)


def an_import(*more: ImportPath) -> ImportRequest:
    return ImportRequest([FOLDER, *more], "import", COMMITTER)


def test_an_import_is_taken_up_where_its_runner_stopped(lake: Lake) -> None:
    """The first runner dies when it has listed two pages of five; the later source wins."""
    lake = lake.with_short_lists(4)
    sources(lake, 18)
    lake.ports.blocks.put("mem://bucket/one", [b"one more"], CREATE)
    request = an_import(ImportPath("object", "mem://bucket/one", "in/003"))
    lake.put("in/old", "gone")
    lake.put("kept", "kept")
    lake.commit()
    begun(lake, "import", imports.encode(request))
    mine, script = lake.interposed()

    def dies() -> None:
        raise KeyboardInterrupt

    script.after("set_if", dies, 4)  # two of beats, two of steps
    with pytest.raises(KeyboardInterrupt):
        work(mine, request, pulse(mine, b""))
    listed = len(stored.steps(lake.ports.kv, lake.repo, JOB))
    assert listed > 0
    for _ in range(2):  # once to the end, and by somebody who does not know that it is done
        again = imports.decode(record.ordered(lake.opened, JOB).body)
        work(lake, again, pulse(lake, b""))
    assert len(stored.steps(lake.ports.kv, lake.repo, JOB)) > listed
    assert set(lake.tree("main@")) == {"kept", *(f"in/{number:03}" for number in range(18))}
    one = lake.ports.blocks.head("mem://bucket/one").etag
    assert lake.tree("main@")["in/003"] == one
    marks = [entry for entry in _marks(lake) if entry]
    assert marks == [JOB]
    stored.forget(lake.ports.kv, lake.repo, [JOB])
    assert stored.steps(lake.ports.kv, lake.repo, JOB) == []
    assert claim(lake, b"me") is Claim.OVER
    stored.forget(lake.ports.kv, lake.repo, [])


def test_a_step_that_another_runner_stored_first_is_the_one_that_counts(lake: Lake) -> None:
    lake = lake.with_short_lists(4)
    sources(lake, 10)
    request = an_import()
    begun(lake, "import")
    mine, script = lake.interposed()
    other = lake.another_process()
    script.before("set_if", lambda: work(other, request, pulse(other, b""), 8), 2)
    work(mine, request, pulse(mine, b""))
    assert script.finished
    assert set(lake.tree("main@")) == {f"in/{number:03}" for number in range(10)}
    assert _marks(lake).count(JOB) == 1


def test_a_step_of_another_source_that_was_stored_first_ends_the_attempt(lake: Lake) -> None:
    """An attempt that was overtaken was one source ahead.  The next attempt goes on behind its
    step."""
    lake = lake.with_short_lists(4)
    sources(lake, 10)
    again = ImportPath("common_prefix", SOURCE, "again/")
    request = an_import(again)
    begun(lake, "import", imports.encode(request))
    space = keyspace(lake.opened)
    page = next(import_sources.pages(lake.ports, again, ""))
    ahead = stored.Step(1, page.last, space.store.write_range(space.namespace, page.records))
    mine, script = lake.interposed()
    stamp = lake.ports.ids.stamp()
    script.before(
        "set_if",
        lambda: stored.add_step(lake.ports.kv, lake.repo, JOB, 0, ahead, stamp),
        2,
    )
    with pytest.raises(Contended):
        work(mine, request, pulse(mine, b""))
    assert script.finished
    work(lake, request, pulse(lake, b""))
    names = {f"{number:03}" for number in range(10)}
    assert set(lake.tree("main@")) == {f"{to}/{name}" for to in ("in", "again") for name in names}


def test_what_is_left_of_many_sources_is_stored_too(lake: Lake) -> None:
    """Not only what is listed of one source has to fit into memory."""
    lake = lake.with_short_lists(4)
    sources(lake, 3)
    request = an_import(
        *(ImportPath("common_prefix", SOURCE, f"to{number}/") for number in range(9))
    )
    begun(lake, "import", imports.encode(request))
    work(lake, request, pulse(lake, b""), spill=8)
    steps = stored.steps(lake.ports.kv, lake.repo, JOB)
    assert [step.found.count for step in steps] == [3] * 8  # the first two sources fit
    folders = ["in", *(f"to{number}" for number in range(9))]
    expected = {f"{folder}/{number:03}" for folder in folders for number in range(3)}
    assert set(lake.tree("main@")) == expected


def test_steps_are_taken_up_by_the_source_that_they_are_of(lake: Lake) -> None:
    lake = lake.with_short_lists(4)
    sources(lake, 9)
    request = an_import(ImportPath("common_prefix", SOURCE, "again/"))
    begun(lake, "import")
    broken = lake.with_kv(lambda kv: FaultyStore(kv, _until_the_branch))
    with pytest.raises(Unavailable):
        work(broken, request, pulse(broken, b""))
    assert {step.source for step in stored.steps(lake.ports.kv, lake.repo, JOB)} == {0, 1}
    work(lake, request, pulse(lake, b""))
    names = {f"{number:03}" for number in range(9)}
    assert set(lake.tree("main@")) == {f"{to}/{name}" for to in ("in", "again") for name in names}


def test_of_destinations_inside_one_another_each_has_what_its_source_holds(lake: Lake) -> None:
    sources(lake, 2)
    lake.put("in/old", "gone")
    lake.commit()
    begun(lake, "import")
    inner = ImportPath("common_prefix", SOURCE, "in/sub/")
    work(lake, an_import(inner), pulse(lake, b""))
    assert set(lake.tree("main@")) == {"in/000", "in/001", "in/sub/000", "in/sub/001"}


def _until_the_branch(_: int, verb: str) -> Fault:
    return Fault.REFUSED if verb == "set_many" else Fault.NONE


def _marks(lake: Lake) -> list[str]:
    log, _ = history.log(lake.opened, "main", history.LogRequest(amount=100))
    return [entry.commit.metadata.get(record.MARK_KEY, "") for entry in log]
