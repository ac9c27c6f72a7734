"""Jobs of all kinds in one shape, newest first; and the end of those that are cancelled."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from graveler.core import limits
from graveler.core.errors import Conflict, GravelerError, NotFound, Unavailable
from graveler.core.ids import BranchId, JobId
from graveler.core.records import JobState
from graveler.engine.bulk import job as bulk
from graveler.engine.events import batches
from graveler.engine.events.batches import Delivery
from graveler.engine.jobs import overview, record
from graveler.engine.jobs.overview import FIRST, JobQuery, JobView, State
from graveler.engine.jobs.record import Claim, Ending, HandedCommit, Heartbeat, NewJob, Stopped
from graveler.refs import event_rules
from graveler.refs.event_rules import EventRule
from tests.engine.lake import Lake
from tests.engine.test_requests import Counted
from tests.support.clockwork import TickingClock
from tests.support.faults import Fault, FaultyStore, nth

OWNER = b"worker"


@pytest.fixture
def timed(lake: Lake) -> Lake:
    """A lake whose clock can be moved."""
    return Lake(replace(lake.ports, clock=TickingClock()), lake.repo)


def _begin(lake: Lake, id: str, kind: str, **more: object) -> JobId:
    new = NewJob(JobId(id), kind, BranchId("main"), "{}", **more)  # type: ignore[arg-type]
    return record.begin(lake.opened, new).id


def _states(lake: Lake, **more: object) -> dict[str, str]:
    page = overview.list_jobs(lake.opened, JobQuery(**more))  # type: ignore[arg-type]
    assert not page.more
    return {view.job.id: str(view.state) for view in page.jobs}


@pytest.fixture
def busy(timed: Lake) -> Lake:
    """A job in each state, the later the newer."""
    repo, clock = timed.opened, timed.ports.clock
    endings = {"d": JobState.DONE, "e": JobState.FAILED}
    for id, kind in (("z", "commit"), ("b", "import"), ("c", "merge"), ("d", "gc"), ("e", "dump")):
        _begin(timed, id, kind)
        clock.sleep(1)
    assert record.claim(repo, JobId("b"), OWNER) is Claim.OURS
    assert record.claim(repo, JobId("c"), OWNER) is Claim.OURS
    Heartbeat(repo, JobId("c"), OWNER).land(0)
    for id, state in endings.items():
        record.finish(repo, JobId(id), Ending(state, "why"))
    _begin(timed, "f", "copy")
    record.cancel_any(repo, "f")
    clock.sleep(1)
    bulk.begin(repo, "main", bulk.NewBulk(bulk.Mode.MERGE, id="g"))
    return timed


def test_all_kinds_newest_first(busy: Lake) -> None:
    assert list(_states(busy).items()) == [
        ("g", "running"),
        ("f", "cancelled"),
        ("e", "failed"),
        ("d", "done"),
        ("c", "landing"),
        ("b", "running"),
        ("z", "queued"),
    ]
    busy.ports.clock.sleep(limits.import_seconds_max)
    assert _states(busy)["g"] == "expired"


@pytest.mark.parametrize(
    ("body", "name"),
    [('{"committer": "ann"}', "ann"), ("{}", ""), ("", ""), ("[1]", ""), ('{"committer": 1}', "")],
)
def test_who_ordered_the_commit_of_a_job(timed: Lake, body: str, name: str) -> None:
    record.begin(timed.opened, NewJob(JobId("a"), "commit", BranchId("main"), body))
    (found,) = overview.list_jobs(timed.opened, JobQuery()).jobs
    assert found.committer == name


def test_by_kind_and_by_state(busy: Lake) -> None:
    assert _states(busy, kind="import") == {"b": "running"}
    assert _states(busy, state="running") == {"g": "running", "b": "running"}
    assert _states(busy, kind="merge", state="queued") == {}
    assert list(_states(busy, state=State.DONE)) == ["d"]


@pytest.mark.parametrize("amount", [1, 2, 3, 100])
def test_pages_follow_one_another(busy: Lake, amount: int) -> None:
    found, after, more = list[str](), FIRST, True
    while more:
        query = JobQuery(after=after, amount=amount)
        jobs, more = overview.list_jobs(busy.opened, query)
        found += [view.job.id for view in jobs]
        after = overview.place_of(jobs[-1].job)
        if len(found) == amount:
            _begin(busy, f"new{amount}", "commit")  # newer than the page before: not on the next
    assert found == ["g", "f", "e", "d", "c", "b", "z"]


def test_jobs_of_one_moment_are_in_the_order_of_their_ids(lake: Lake) -> None:
    stopped = Lake(replace(lake.ports, clock=_Stopped()), lake.repo)
    for id in ("b", "c", "a"):
        _begin(stopped, id, "commit")
    assert list(_states(stopped)) == ["a", "b", "c"]


class _Stopped(TickingClock):
    """A clock that stands still."""

    def now_ns(self) -> int:
        return 1_700_000_000_000_000_000


def test_dumps_and_collections_run_while_their_records_land(timed: Lake) -> None:
    for kind in ("gc", "dump"):
        job = _begin(timed, kind, kind)
        record.claim(timed.opened, job, OWNER)
        Heartbeat(timed.opened, job, OWNER).land(3)
    views = overview.list_jobs(timed.opened, JobQuery()).jobs
    assert [(view.state, view.is_cancellable, view.progress) for view in views] == [
        (State.RUNNING, False, None)
    ] * 2


def test_progress_with_its_rate(timed: Lake) -> None:
    repo = timed.opened
    job = _begin(timed, "i", "import")
    assert _view(timed, job).progress == (0, "objects", 0.0)
    timed.ports.clock.sleep(4)
    Heartbeat(repo, job).beat(1_000)
    progress = _view(timed, job).progress
    assert progress is not None
    done, unit, rate = progress
    assert (done, unit) == (1_000, "objects") and rate == pytest.approx(250, rel=0.01)
    bulk.begin(repo, "main", bulk.NewBulk(bulk.Mode.MERGE, id="g"))
    bulk.heartbeat(repo, "main", "g", 7)
    shown = _view(timed, JobId("g")).progress
    assert shown is not None and shown[:2] == (7, "rows")
    assert _view(timed, _begin(timed, "c", "commit")).progress is None
    restore = _begin(timed, "r", "restore")
    Heartbeat(repo, restore).land(5)
    shown = _view(timed, restore).progress
    assert shown is not None and shown[:2] == (5, "commits")
    assert _view(timed, restore).state is State.RUNNING


def _view(lake: Lake, job: JobId) -> JobView:
    return overview.view(lake.opened, record.status(lake.opened, job))


# ---- batches of events ---------------------------------------------------------------------------


@pytest.fixture
def batched(timed: Lake) -> tuple[Lake, str]:
    """A batch that waits for its commit, beside a rule without any."""
    repo = timed.opened
    for name in ("full", "idle"):
        rule = EventRule(
            name, repo.id, repo.record.uid, BranchId("main"), "bucket", f"{name}/", objects_max=1
        )
        event_rules.put(repo.kv, repo.record, rule, repo.ids)
    full = event_rules.get(repo.kv, repo.record, "full")
    closed = batches.note(repo, full, Delivery(1))
    assert isinstance(closed, tuple)
    return timed, closed.batch


def test_a_batch_that_waits_for_its_commit_is_a_job(batched: tuple[Lake, str]) -> None:
    lake, batch = batched
    repo = lake.opened
    assert _states(lake) == {batch: "queued"} == _states(lake, kind="batch")
    job = overview.find_batch(repo, batch)
    view = overview.view(repo, job)
    assert (view.job.branch, view.is_cancellable, view.progress) == ("main", False, None)
    with pytest.raises(NotFound):
        overview.find_batch(repo, "none")
    full = event_rules.get(repo.kv, repo.record, "full")
    batches.note_run(repo, full, batch)
    assert _states(lake) == {batch: "running"}
    batches.commit_batch(repo, full, batch)
    assert _states(lake) == {}
    with pytest.raises(NotFound):
        overview.find_batch(repo, batch)


# ---- cancel --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["commit", "merge", "import", "copy", "bulk-finish", "dump", "gc"])
def test_a_job_that_has_not_begun_to_land_is_cancelled(timed: Lake, kind: str) -> None:
    repo = timed.opened
    job = _begin(timed, "j", kind)
    assert _view(timed, job).is_cancellable
    record.claim(repo, job, OWNER)
    record.cancel_any(repo, job)
    record.cancel_any(repo, job)
    view = _view(timed, job)
    assert view.state is State.CANCELLED and not view.is_cancellable
    assert view.order.error_kind == "Conflict"
    with pytest.raises(Stopped):
        Heartbeat(repo, job, OWNER).land(0)
    assert record.claim(repo, job, b"other") is Claim.OVER


def test_a_job_that_lands_or_has_ended_is_not_cancelled(busy: Lake) -> None:
    for id in ("c", "d", "e"):
        before = record.status(busy.opened, id)
        with pytest.raises(Conflict):
            record.cancel_any(busy.opened, id)
        assert record.status(busy.opened, id) == before
    with pytest.raises(NotFound):
        record.cancel_any(busy.opened, "none")


def test_hooks_are_not_cancelled(timed: Lake) -> None:
    job = _begin(timed, "h", "hooks")
    assert not _view(timed, job).is_cancellable
    with pytest.raises(Conflict, match="hooks"):
        record.cancel_any(timed.opened, job)
    assert record.status(timed.opened, job).state is JobState.RUNNING


def test_a_commit_that_waits_for_a_bulk_job_is_not_cancelled(timed: Lake) -> None:
    job = _begin(timed, "w", "commit", handed=HandedCommit("token", "bulk-1"))
    assert not _view(timed, job).is_cancellable
    with pytest.raises(Conflict, match="bulk-1"):
        record.cancel_any(timed.opened, job)
    assert record.status(timed.opened, job).state is JobState.RUNNING


def _through(lake: Lake, store: FaultyStore) -> Lake:
    return lake.with_kv(lambda _: store)


def _attempts(fault: Fault) -> Iterator[tuple[Lake, FaultyStore, bool]]:
    for number in range(1, 20):
        lake = Counted().lake
        _begin(lake, "j", "merge")

        store = FaultyStore(lake.ports.kv, nth({number: fault}))
        broken, answered = _through(lake, store), True
        try:
            record.cancel_any(broken.opened, "j")
        except GravelerError as error:
            assert isinstance(error, Unavailable)
            answered = False
        if store.requests < number:
            return
        yield lake, store, answered
    raise AssertionError("a verb of that many requests is none of ours")


@pytest.mark.parametrize(
    "fault", [Fault.REFUSED, Fault.DROPPED, Fault.LOST, Fault.REPEATED, Fault.LATE]
)
def test_a_cancellation_that_was_answered_holds_whatever_failed(fault: Fault) -> None:
    for lake, store, answered in _attempts(fault):
        state = record.status(lake.opened, "j").state
        assert state is JobState.CANCELLED or not answered
        store.land()
        record.cancel_any(lake.opened, "j")
        assert record.status(lake.opened, "j").state is JobState.CANCELLED


def test_requests() -> None:
    counted = Counted()
    lake = counted.lake
    for number in range(5):
        _begin(lake, f"{number}", "commit")

    def spent(call: object) -> Mapping[str, int]:
        return counted.of(call)  # type: ignore[arg-type]

    query = JobQuery(amount=2)
    listed = spent(lambda: overview.list_jobs(lake.opened, query))
    assert listed == {"scan": 2, "get_many": 1}  # jobs, rules, orders of the page
    assert sum(spent(lambda: record.cancel_any(lake.opened, "0")).values()) == 6
