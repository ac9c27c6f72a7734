"""Batches of streams land once: beside other drivers, after lost answers, and when the records of
jobs are long gone."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from graveler.core import limits
from graveler.core.errors import Conflict, GravelerError, Invalid, NotFound
from graveler.core.ids import BranchId
from graveler.core.records import JobState
from graveler.engine import janitor, names
from graveler.engine.bulk import job as bulk
from graveler.engine.bulk.job import Bulk, Mode, NewBulk
from graveler.engine.bulk.streams import Batch
from graveler.engine.commits import commit, log, reset
from graveler.kv.store import Store
from graveler.refs.cache import RefCache
from graveler.refs.stream_marks import STREAM_KEY
from tests.engine.bulk_world import MAIN, finish, landings, status, write
from tests.engine.lake import Lake, new_lake
from tests.support.clockwork import TickingClock
from tests.support.faults import Fault, FaultyStore

DAY = 24 * 3_600


@pytest.fixture
def clock() -> TickingClock:
    return TickingClock()


@pytest.fixture
def lake(lake: Lake, clock: TickingClock) -> Lake:
    repo = replace(lake.repo, default_branch=BranchId("none"))  # `main` can then be deleted
    return Lake(replace(lake.ports, clock=clock, cache=RefCache(clock)), repo)


def begin(
    lake: Lake, number: int, *, stream: str = "s", accept: bool = False, id: str = ""
) -> Bulk:
    batch = Batch(stream, number, accept)
    return bulk.begin(lake.opened, MAIN, NewBulk(Mode.SPLICE, "t/", id, batch=batch))


def land(lake: Lake, number: int, **more: bool) -> str:
    job = begin(lake, number, **more)
    return finish(lake, job, write(lake, {f"t/{number}": "1"}))


def marks(lake: Lake) -> list[str]:
    """The batches in the history, oldest first."""
    found, _ = log.log(lake.opened, MAIN, log.LogRequest(amount=1_000))
    texts = [each.commit.metadata.get(STREAM_KEY, "") for each in found]
    return [text for text in reversed(texts) if text]


def wait_for_a_week(lake: Lake) -> None:
    """The janitor forgets the records of jobs."""
    for _ in range(7):
        lake.ports.clock.sleep(DAY)
        janitor.sweep(lake.opened)


def test_batches_land_in_order_and_name_themselves(lake: Lake) -> None:
    made = [land(lake, number) for number in (0, 1, 4)]
    assert marks(lake) == ["s:0", "s:1", "s:4"] and lake.head() == made[-1]
    assert set(lake.tree()) == {"t/0", "t/1", "t/4"}
    assert log.get_commit(lake.opened, made[0]).commit.metadata["k"] == "v"


def test_a_batch_that_has_landed_is_done_at_its_begin(lake: Lake) -> None:
    first, second = land(lake, 0), land(lake, 7)
    lake.commit_of(other="1")
    for number, made in ((7, second), (3, second), (0, second)):
        again = begin(lake.another_process(), number)
        assert (again.job.state, again.job.commit) == (JobState.DONE, made), first
        with pytest.raises(NotFound):
            status(lake, again)
    assert begin(lake, 8, id="named").job.state is JobState.RUNNING
    third = land(lake, 8)
    again = begin(lake, 8, id="named")
    assert (again.job.state, again.job.commit) == (JobState.DONE, third)


def test_a_batch_is_known_when_the_records_of_jobs_are_gone(lake: Lake) -> None:
    made = land(lake, 3)
    wait_for_a_week(lake)
    lake.commit_of(other="1")
    again = begin(lake, 3)
    assert (again.job.state, again.job.commit) == (JobState.DONE, made)
    land(lake, 4)
    assert marks(lake) == ["s:3", "s:4"]


def test_many_commits_since_do_not_matter(lake: Lake) -> None:
    narrow = lake.with_settings(walk_count_max=3)
    made = land(narrow, 3)
    for number in range(10):
        narrow.commit_of(other=str(number))
    assert begin(narrow, 3).job.commit == made
    land(narrow, 4)
    assert marks(lake) == ["s:3", "s:4"]


def test_of_two_drivers_one_lands_and_the_other_gets_its_commit(lake: Lake) -> None:
    jobs = [begin(lake, 5), begin(lake.another_process(), 5, id="named")]
    written = [write(lake, {f"t/{at}": "1"}) for at in range(2)]
    made = [finish(lake, job, metarange) for job, metarange in zip(jobs, written, strict=True)]
    assert made == [lake.head()] * 2 and set(lake.tree()) == {"t/0"}
    assert {status(lake, job).job.commit for job in jobs} == set(made)
    again = [finish(lake, job, metarange) for job, metarange in zip(jobs, written, strict=True)]
    assert again == made
    with pytest.raises(Conflict, match="another request"):
        finish(lake, jobs[1], written[1], "other")
    assert marks(lake) == ["s:5"]


@pytest.mark.parametrize("moment", [("set_many", 1), *[("set_if", nth) for nth in (1, 2, 3)]])
def test_another_driver_lands_the_batch_meanwhile(moment: tuple[str, int]) -> None:
    lake = new_lake()
    lake.put("staged", "9")
    job, other = begin(lake, 5), begin(lake, 5)
    written = [write(lake, {f"t/{at}": "1"}) for at in range(2)]
    mine, script = lake.interposed()
    rival = lake.another_process()
    theirs: list[str] = []
    script.before(moment[0], lambda: theirs.append(finish(rival, other, written[1])), moment[1])
    assert [finish(mine, job, written[0])] == theirs == [lake.head()]
    assert script.finished and set(lake.tree()) == {"staged", "t/1"}
    assert marks(lake) == ["s:5"]


def test_a_driver_that_was_overtaken_lands_nothing(lake: Lake) -> None:
    late, written = begin(lake, 5), write(lake, {"t/late": "1"})
    made = land(lake, 6)
    assert finish(lake, late, written) == made
    assert "t/late" not in lake.tree() and marks(lake) == ["s:6"]


def test_streams_and_branches_have_their_own_batches(lake: Lake) -> None:
    land(lake, 5)
    assert begin(lake, 5, stream="other").job.state is JobState.RUNNING
    names.create_branch(lake.opened, "dev", MAIN)
    batch = NewBulk(Mode.SPLICE, "t/", batch=Batch("s", 5))
    assert bulk.begin(lake.opened, "dev", batch).job.state is JobState.RUNNING


# ---- lost answers --------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.LATE, Fault.REFUSED])
@pytest.mark.parametrize("nth", [0, 1, 2, 3, 4])
def test_any_write_without_an_answer_lands_the_batch_once(nth: int, fault: Fault) -> None:
    lake = new_lake()
    job, written = begin(lake, 5), write(lake, {"t/0": "1"})
    planned = iter([*[Fault.NONE] * nth, fault])
    stores: list[FaultyStore] = []

    def plan(_: int, verb: str) -> Fault:
        return next(planned, Fault.NONE) if verb == "set_if" else Fault.NONE

    def wrapped(kv: Store) -> Store:
        stores.append(FaultyStore(kv, plan))
        return stores[0]

    with suppress(GravelerError):  # the driver dies
        finish(lake.with_kv(wrapped), job, written)
    again = begin(lake, 5)
    made = again.job.commit or finish(lake, again, write(lake, {"t/1": "1"}))
    stores[0].land()
    assert marks(lake) == ["s:5"] and made == lake.head()
    assert begin(lake, 5).job.commit == made
    assert len([path for path in lake.tree() if path.startswith("t/")]) == 1
    assert finish(lake, job, written) == made


# ---- branches that were moved --------------------------------------------------------------------


def rewound(lake: Lake) -> None:
    """To the commit of batch 1 of 0 to 3."""
    commits = [land(lake, number) for number in range(4)]
    reset.hard_reset(lake.opened, MAIN, commits[1])


def made_again(lake: Lake) -> None:
    """The branch has the commit of batch 1 and is another one."""
    commits = [land(lake, number) for number in range(4)]
    names.create_branch(lake.opened, "keep", commits[1])
    names.delete_branch(lake.opened, MAIN)
    names.create_branch(lake.opened, MAIN, "keep")


@pytest.mark.parametrize("move", [rewound, made_again])
def test_a_branch_behind_the_last_batch_is_refused_unless_accepted(
    lake: Lake, move: Callable[[Lake], None]
) -> None:
    move(lake)
    for number in (1, 3, 4):
        with pytest.raises(Conflict, match=r"reset behind the last batch.*last=3"):
            begin(lake, number)
    assert begin(lake, 1, accept=True).job.state is JobState.DONE
    assert begin(lake, 3, accept=True).job.state is JobState.RUNNING
    made = land(lake, 4, accept=True)
    assert marks(lake) == ["s:0", "s:1", "s:4"]
    assert begin(lake, 4).job.commit == begin(lake, 4, accept=True).job.commit == made
    land(lake, 5)


def test_a_number_that_no_batch_has_is_passed_over(lake: Lake) -> None:
    """Everybody may write such metadata into a commit."""
    made = land(lake, 1)
    lake.put("other", "1")
    request = commit.CommitRequest("other", "me", {STREAM_KEY: "s:" + "9" * 5_000})
    forged = commit.commit(lake.opened, MAIN, request)
    land(lake, 2)
    reset.hard_reset(lake.opened, MAIN, forged.id)
    again = begin(lake, 1, accept=True)
    assert (again.job.state, again.job.commit) == (JobState.DONE, made)
    assert begin(lake, 2, accept=True).job.state is JobState.RUNNING


def test_a_reset_between_begin_and_finish_refuses_the_batch(lake: Lake) -> None:
    first = land(lake, 0)
    land(lake, 1)
    job, written = begin(lake, 2), write(lake, {"t/2": "1"})
    reset.hard_reset(lake.opened, MAIN, first)
    with pytest.raises(Conflict, match="reset behind the last batch"):
        finish(lake, job, written)
    finish(lake, begin(lake, 2, accept=True), written)
    assert marks(lake) == ["s:0", "s:2"]


def test_a_reset_that_keeps_the_last_batch_does_not_matter(lake: Lake) -> None:
    made = land(lake, 0)
    lake.commit_of(bad="1")
    reset.hard_reset(lake.opened, MAIN, made)
    assert begin(lake, 0).job.commit == made
    land(lake, 1)
    assert marks(lake) == ["s:0", "s:1"]


# ---- what is refused and forgotten ---------------------------------------------------------------


@pytest.mark.parametrize(
    "batch",
    [Batch("", 1), Batch("s" * 257, 1), Batch("a\nb", 1), Batch("s", -1), Batch("s", 1 << 63)],
)
def test_impossible_batches_are_refused(lake: Lake, batch: Batch) -> None:
    with pytest.raises(Invalid, match=r"^stream|^batch"):
        bulk.begin(lake.opened, MAIN, NewBulk(Mode.SPLICE, batch=batch))


def test_modes_that_land_no_batches_are_refused(lake: Lake) -> None:
    lake.put("a", "1")
    with pytest.raises(Invalid, match="lands no batches"):
        bulk.begin(lake.opened, MAIN, NewBulk(Mode.COMMIT, batch=Batch("s", 1)))


def test_an_id_is_for_one_batch(lake: Lake) -> None:
    job = begin(lake, 1, id="named")
    assert begin(lake, 1, id="named") == job
    for other in (
        lambda: begin(lake, 2, id="named"),
        lambda: begin(lake, 1, stream="x", id="named"),
    ):
        with pytest.raises(Conflict, match="another bulk job"):
            other()
    made = finish(lake, job, write(lake, {"t/1": "1"}))
    assert begin(lake, 1, id="named").job.commit == made


def test_the_janitor_forgets_a_stream_that_ended_long_ago(lake: Lake) -> None:
    land(lake, 1)
    lake.ports.clock.sleep(limits.stream_mark_keep_seconds - DAY)
    land(lake, 2)
    lake.ports.clock.sleep(2 * DAY)
    assert janitor.sweep(lake.opened).streams == 0
    lake.ports.clock.sleep(limits.stream_mark_keep_seconds)
    assert janitor.sweep(lake.opened).streams == 1 and landings(lake) == 2
