"""Collections and dumps outlast an outage of the stores, however often it stops a worker, but not
for ever.  Other jobs fail: a copy or reset that runs late could undo what was written since."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from graveler.core import limits
from graveler.core.errors import Contended, Unavailable
from graveler.core.records import Job, JobState
from graveler.engine.jobs import record
from graveler.jobs import orders, rounds, worker
from graveler.jobs.kinds import KINDS
from graveler.jobs.queue import JobMessage, LocalQueue, Message, Queue
from graveler.jobs.rounds import revive_everywhere
from graveler.refs import job_records
from tests.engine.lake import Lake
from tests.jobs.test_worker_restarts import RESTARTED, made
from tests.jobs.world import Killed, World, new_world
from tests.support.faults import Fault, FaultPlan, FaultyStore

BEGUN: dict[str, Callable[[World], Job]] = {
    orders.COLLECT: lambda world: rounds.order(world.scheduler),
}


class Inline(Executor):
    """Runs what it is given at once."""

    def submit(self, fn: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        fn(*arguments, **named)
        return Future()


def silent(world: World, after: int, seconds: float) -> Lake:
    """A store that answers `after` requests, and then none for some time."""
    clock = world.lake.ports.clock
    end: list[float] = []

    def plan(number: int, verb: str) -> Fault:
        if number <= after:
            return Fault.NONE
        if not end:
            end.append(clock.steady_seconds() + seconds)
        return Fault.REFUSED if clock.steady_seconds() < end[0] else Fault.NONE

    return world.lake.with_kv(lambda kv: FaultyStore(kv, plan))


def to_the_end(world: World, job: Job) -> Job:
    """What rounds and workers make of the job."""
    for _ in range(3):
        if not world.status(job.id).ended:
            world.pass_lease()
            revive_everywhere(world.lake.ports, world.queue, 100.0)
            assert JobMessage("lake", job.id) in world.queue.messages
            world.work(job.id)
    return world.status(job.id)


class _Down:
    """A driver that answers nothing."""

    def __getattr__(self, verb: str) -> Any:
        def refused(*arguments: Any, **named: Any) -> None:
            raise Unavailable(f"injected: {verb=}")

        return refused


def only_records(world: World, fault: Fault = Fault.REFUSED) -> Lake:
    """Stores that answer for records of jobs, but not for lists of rows or for files."""
    plan: FaultPlan = lambda _, verb: fault if verb == "scan" else Fault.NONE  # noqa: E731
    lake = world.lake.with_kv(lambda kv: FaultyStore(kv, plan))
    down: Any = _Down()
    return Lake(replace(lake.ports, blocks=down, ranges=down), lake.repo)


@pytest.mark.parametrize("seconds", [12.0, 60.0])
@pytest.mark.parametrize("after", [7, 9, 12])
@pytest.mark.parametrize("kind", BEGUN)
def test_an_outage_ends_no_job(kind: str, after: int, seconds: float) -> None:
    world = new_world()
    job = BEGUN[kind](world)
    lake = silent(world, after, seconds)

    def run(queue: Queue, message: Message) -> None:
        worker.run(lake.ports, queue, message)

    LocalQueue(Inline(), world.lake.ports.clock, run).enqueue(JobMessage("lake", job.id))
    ended = to_the_end(world, job)
    assert ended.state is JobState.DONE, ended.error
    assert len(made(world)) <= 2


@pytest.mark.parametrize("kind", BEGUN)
def test_runs_that_an_outage_stops_do_not_count(kind: str) -> None:
    world = new_world()
    job = BEGUN[kind](world)
    for _ in range(2 * limits.job_run_count_max):
        with pytest.raises(Unavailable):
            world.work(job.id, only_records(world))
        assert world.status(job.id).owner == b""
    world.work(job.id)  # the claim is free: no lease has to run out
    ended = world.status(job.id)
    assert ended.state is JobState.DONE, ended.error


@pytest.mark.parametrize("kind", BEGUN)
def test_a_run_that_an_outage_stops_forgets_those_before_the_last_checkpoint(kind: str) -> None:
    world = new_world()
    job = BEGUN[kind](world)
    repo = world.lake.opened
    runs = {"runs": str(limits.job_run_count_max - 1)}
    job_records.amend(repo.kv, repo.record, job.id, runs, repo.ids)
    record.Heartbeat(repo, job.id).beat(1, always=True)  # a checkpoint
    with pytest.raises(Unavailable):
        world.work(job.id, only_records(world))
    for _ in range(limits.job_run_count_max - 1):
        die(world, job)
    world.work(job.id)
    ended = world.status(job.id)
    assert ended.state is JobState.DONE, ended.error


@pytest.mark.parametrize("kind", BEGUN)
def test_workers_that_die_between_outages_count(kind: str) -> None:
    world = new_world()
    job = BEGUN[kind](world)
    for _ in range(limits.job_run_count_max):
        with pytest.raises(Unavailable):
            world.work(job.id, only_records(world))
        die(world, job)
    world.work(job.id)
    assert "given up" in world.status(job.id).error


def die(world: World, job: Job) -> None:
    """A worker is killed."""
    lake, script = world.lake.interposed()

    def strike() -> None:
        raise Killed

    script.before("set_if", strike, 3)  # it has claimed the job, and counted its run
    with pytest.raises(Killed):
        world.work(job.id, lake)
    world.pass_lease()


@pytest.mark.parametrize("kind", BEGUN)
def test_no_job_waits_for_ever(kind: str) -> None:
    world = new_world()
    job = BEGUN[kind](world)
    clock = world.lake.ports.clock
    begun = clock.steady_seconds()
    while not world.status(job.id).ended:
        assert clock.steady_seconds() - begun < limits.job_seconds_max + 1_000
        with suppress(Unavailable):
            world.work(job.id, only_records(world))
        clock.sleep(900.0)
    assert world.status(job.id).state is JobState.FAILED
    assert clock.steady_seconds() - begun > limits.job_seconds_max


def test_a_full_disk_ends_a_job_and_says_so() -> None:
    """Somebody must act first, and learns it from the job."""
    world = new_world()
    job = RESTARTED[orders.COMMIT](world)
    world.work(job.id, only_records(world, Fault.FULL))
    order = record.ordered(world.lake.opened, job.id)
    assert world.status(job.id).state is JobState.FAILED and order.error_kind == "StorageFull"


@pytest.mark.parametrize("kind", RESTARTED)
def test_other_jobs_say_that_the_stores_did_not_answer(kind: str) -> None:
    world = new_world()
    job = RESTARTED[kind](world)
    with suppress(Unavailable):  # what may have landed cannot be found out
        world.work(job.id, only_records(world))
    ended = world.status(job.id)
    assert ended.state is JobState.FAILED and "injected" in ended.error


def test_a_branch_that_others_keep_changing_ends_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    world = new_world()
    job = RESTARTED[orders.COMMIT](world)

    def contended(task: object) -> None:
        raise Contended("commit kept losing; try again")

    monkeypatch.setitem(KINDS, orders.COMMIT, KINDS[orders.COMMIT]._replace(work=contended))  # type: ignore[arg-type]
    world.work(job.id)
    assert "kept losing" in world.status(job.id).error
