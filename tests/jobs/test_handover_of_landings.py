"""Landings of bulk jobs that take longer than a request: the worker goes on, and it lands once."""

import pytest

from graveler.core.errors import Conflict, Invalid, OutcomeUnknown
from graveler.core.ids import JobId
from graveler.core.records import CommitEntry, JobState
from graveler.engine.bulk import job as bulk
from graveler.engine.bulk import land
from graveler.engine.bulk.job import Bulk, Mode, NewBulk
from graveler.engine.bulk.land import Finish
from graveler.engine.ports import Ports, open_repository
from graveler.jobs import handover, orders
from graveler.jobs.handover import TimeLimits
from graveler.jobs.queue import JobMessage
from tests.engine import bulk_world
from tests.engine.lake import COMMITTER
from tests.jobs.world import World, new_world

SHORT = TimeLimits(20.0, 27.0)


@pytest.fixture
def world() -> World:
    return new_world()


def begun(world: World) -> tuple[Bulk, Finish]:
    new = NewBulk(Mode.REPLACE, "in/")
    job = bulk.begin(world.lake.opened, "main", new)
    written = bulk_world.write(world.lake, {"in/a": "9"})
    return job, Finish(written, "r", "landed", COMMITTER, {"k": "v"})


def run_or_enqueue(world: World, job: Bulk, request: Finish) -> CommitEntry:
    def direct(ports: Ports) -> CommitEntry:
        return land.finish(open_repository(ports, world.lake.repo), "main", job.job.id, request)

    due = SHORT.since(world.lake.ports.clock.steady_seconds())
    return handover.run_or_enqueue(
        world.scheduler, orders.land_asked("main", job.job.id, request), due, direct
    )


def handed_over(world: World, job: Bulk, asked: Finish) -> JobId:
    """Its scan takes so long that the worker is to go on."""
    lake, script = world.lake.interposed()
    script.after("scan", lambda: world.lake.ports.clock.sleep(21.0), 2)
    with pytest.raises(OutcomeUnknown, match="joins it"):
        run_or_enqueue(World(lake, world.queue), job, asked)
    assert script.finished
    message = world.queue.messages.pop()
    assert isinstance(message, JobMessage)
    return JobId(message.job)


def test_a_landing_that_takes_long_is_handed_over_and_joined(world: World) -> None:
    job, asked = begun(world)
    handed = handed_over(world, job, asked)
    with pytest.raises(OutcomeUnknown):
        run_or_enqueue(world, job, asked)
    assert world.queue.messages == []
    world.work(handed)
    made = run_or_enqueue(world, job, asked)
    assert [each.id for each in world.marked(job.job.id)] == [made.id]
    assert made.commit.metadata["k"] == "v" and world.lake.tree()["in/a"] == "9"
    assert run_or_enqueue(world, job, asked).id == made.id
    found = bulk.status(world.lake.opened, "main", job.job.id)
    assert (found.job.state, found.job.commit) == (JobState.DONE, made.id)


def test_a_splice_that_is_handed_over_keeps_its_lists(world: World) -> None:
    world.lake.commit_of(**{f"t/{at}/a": "1" for at in range(3)})
    job = bulk.begin(world.lake.opened, "main", NewBulk(Mode.SPLICE, "t/"))
    written = bulk_world.write(world.lake, {"t/0/b": "2"})
    lists = [f"t/{at}/" for at in range(10_000)]
    asked = Finish(written, "r", "landed", COMMITTER, {}, lists[:2], lists)
    handed = handed_over(world, job, asked)
    world.lake.commit_of(other="1")
    world.work(handed)
    assert run_or_enqueue(world, job, asked).id == world.lake.head()
    assert world.lake.tree() == {
        "a": "1", "b": "1", "other": "1", "t/0/b": "2", "t/2/a": "1",
    }  # fmt: skip
    late = bulk.begin(world.lake.opened, "main", NewBulk(Mode.SPLICE, "t/"))
    handed = handed_over(world, late, asked)
    world.lake.commit_of(**{"t/2/a": "2"})
    world.work(handed)
    with pytest.raises(Conflict, match="guard broken"):
        run_or_enqueue(world, late, asked)


def test_lists_that_no_record_can_hold_are_refused() -> None:
    lists = [f"t/{number**40}/" for number in range(3, 10_003)]
    with pytest.raises(Invalid, match="too long together"):
        orders.land_asked("main", "j", Finish("m", "r", "t", COMMITTER, {}, lists))


def test_what_the_worker_is_refused_is_told_and_may_be_asked_again(world: World) -> None:
    job, asked = begun(world)
    handed = handed_over(world, job, asked)
    world.lake.put("in/a", "1")
    world.work(handed)
    with pytest.raises(Conflict, match="uncommitted changes"):
        run_or_enqueue(world, job, asked)
    world.lake.commit()
    assert run_or_enqueue(world, job, asked).id == world.lake.head()
    assert world.lake.tree()["in/a"] == "9"


def test_one_that_is_done_in_time_is_no_job_of_the_worker(world: World) -> None:
    job, asked = begun(world)
    assert run_or_enqueue(world, job, asked).id == world.lake.head()
    assert world.queue.messages == []
