"""Requests that become jobs: handed over in time, joined, told once, resumed where they were."""

from contextlib import suppress
from functools import partial

import pytest

from graveler.committed import reader
from graveler.core.errors import (
    Code,
    Invalid,
    MergeConflict,
    NoChanges,
    NotFound,
    OutcomeUnknown,
    Unavailable,
)
from graveler.core.ids import JobId
from graveler.core.records import CommitEntry, JobState
from graveler.engine import imports
from graveler.engine.commits import commit as committing
from graveler.engine.commits.heads import head_of
from graveler.engine.imports import ImportPath, ImportRequest
from graveler.engine.jobs import record
from graveler.engine.jobs.record import Heartbeat, NewJob, Stopped
from graveler.engine.ports import Ports, keyspace, open_repository
from graveler.engine.repositories import repository
from graveler.events.intake import BatchJob
from graveler.jobs import handover, orders, schedule, worker
from graveler.jobs.handover import TimeLimits
from graveler.jobs.orders import MERGE
from graveler.jobs.queue import JobMessage, Message, PurgeMessage, decode, encode
from graveler.jobs.rounds import revive_everywhere
from graveler.refs import job_records as records
from tests.engine.lake import COMMITTER, Lake
from tests.jobs.world import BEGUN, COMMIT, SOURCE, Held, World, begin_commit, new_world
from tests.support.faults import Fault, FaultyStore, nth
from tests.support.interposer import Script

SHORT = TimeLimits(20.0, 27.0)
ASKED = orders.commit_asked("main", COMMIT, force=False)


def run_or_enqueue(world: World, time_limits: TimeLimits = SHORT) -> CommitEntry:
    def direct(ports: Ports) -> CommitEntry:
        return committing.commit(open_repository(ports, world.lake.repo), "main", COMMIT)

    due = time_limits.since(world.lake.ports.clock.steady_seconds())
    return handover.run_or_enqueue(world.scheduler, ASKED, due, direct)


def slow(world: World, seconds: float, verb: str = "scan") -> tuple[World, Script]:
    """The same store; one of its requests takes long."""
    lake, script = world.lake.interposed()
    script.after(verb, lambda: world.lake.ports.clock.sleep(seconds), 2)
    return World(lake, world.queue), script


def test_what_is_done_in_time_is_no_job() -> None:
    world = new_world()
    world.lake.put("d", "3")
    assert run_or_enqueue(world).id == world.lake.head()
    assert world.queue.messages == []


def test_a_job_may_date_its_commit_to_the_epoch() -> None:
    world = new_world()
    world.lake.put("d", "3")
    asked = orders.commit_asked("main", COMMIT._replace(created_ns=0), force=False)
    assert asked.stem != ASKED.stem
    job = schedule.ask(world.scheduler, asked)
    world.work(job.id)
    [made] = world.marked(job.id)
    assert made.commit.created_ns == 0


def test_what_takes_long_is_handed_over_and_joined_by_the_same_request() -> None:
    world = new_world()
    world.lake.put("d", "3")
    with pytest.raises(OutcomeUnknown, match="joins it"):
        run_or_enqueue(slow(world, 21.0)[0])
    message = world.queue.messages.pop()
    assert isinstance(message, JobMessage)
    with pytest.raises(OutcomeUnknown):
        run_or_enqueue(world)
    assert world.queue.messages == []  # joined, not begun again
    world.work(JobId(message.job))
    made = run_or_enqueue(world)  # nobody was told yet
    assert [each.id for each in world.marked(JobId(message.job))] == [made.id]
    with pytest.raises(NoChanges):
        run_or_enqueue(world)
    world.lake.put("e", "4")
    again = run_or_enqueue(world)
    assert again.id != made.id and world.lake.tree()["e"] == "4"


def test_a_second_equal_request_makes_a_second_job_once_the_first_has_ended() -> None:
    world = new_world()
    first = begin_commit(world)
    world.work(first.id)
    world.lake.put("e", "4")
    second = schedule.ask(world.scheduler, ASKED)
    assert second.id != first.id
    world.work(second.id)
    assert len(world.marked(second.id)) == 1 and world.lake.uncommitted() == []


def test_whoever_asked_after_a_commit_has_been_told() -> None:
    world = new_world()
    job = begin_commit(world)
    world.work(job.id)
    assert schedule.status(world.scheduler, orders.COMMIT, job.id, "main").state is JobState.DONE
    with pytest.raises(NoChanges):
        run_or_enqueue(world)


def test_a_store_that_does_not_answer_once_ends_no_job() -> None:
    for number in range(1, 40):
        world = new_world()
        job = begin_commit(world)
        plan = nth({number: Fault.REFUSED})
        with suppress(Unavailable):
            world.work(job.id, world.lake.with_kv(partial(FaultyStore, plan=plan)))
        if not world.status(job.id).ended:
            world.pass_lease()
            world.work(job.id)
        assert world.status(job.id).state is JobState.DONE, number


def test_the_result_comes_while_the_request_waits() -> None:
    world = new_world()
    world.lake.put("d", "3")
    seen, script = slow(world, 21.0)

    class AtOnce(Held):
        def enqueue(self, message: Message) -> None:
            assert isinstance(message, JobMessage)
            world.work(JobId(message.job))

    made = run_or_enqueue(World(seen.lake, AtOnce()))
    assert script.finished and made.id == world.lake.head()


@pytest.mark.parametrize("nth", range(1, 7))
def test_whoever_joins_a_commit_gets_what_was_staged_after_it_began(nth: int) -> None:
    """The first worker stops after its nth swap, perhaps when it has sealed what it will fold."""
    world = new_world()
    job = begin_commit(world)
    lake, script = world.lake.interposed()

    def stop() -> None:
        raise Stopped(record.StopReason.OUT_OF_TIME)

    script.after("set_if", stop, nth)
    with suppress(Stopped):
        world.work(job.id, lake)
    assert script.finished
    world.lake.put("late", "5")
    waiting, its = world.lake.interposed()

    def go_on() -> None:
        world.pass_lease()
        world.work(job.id)

    its.before("get", go_on, 3)
    time_limits = TimeLimits(1_000.0, 1_000.0)
    run_or_enqueue(World(waiting, world.queue), time_limits)
    assert world.lake.tree()["late"] == "5" and world.lake.uncommitted() == []
    assert len(world.marked(job.id)) == 1


def test_an_order_that_fails_says_why() -> None:
    world = new_world()
    world.lake.commit_of("staged", c="9")
    world.lake.merge("staged")
    job = BEGUN["merge"][0](world)
    world.work(job.id)
    ended = world.status(job.id)
    assert ended.state is JobState.FAILED
    assert isinstance(schedule.failure(world.scheduler, ended), MergeConflict)


@pytest.mark.parametrize("code", [Code.REF_NOT_FOUND, Code.NOT_FOUND])
def test_the_failure_of_a_job_keeps_its_code_and_its_fields(code: Code) -> None:
    world = new_world()
    lake, job = world.lake, JobId("failed")
    record.begin(lake.opened, NewJob(job, MERGE, "main"))
    fields = {"ref": "dev"} if code is Code.REF_NOT_FOUND else {}
    record.fail(lake.opened, job, NotFound("none", code, **fields), b"")
    found = schedule.failure(world.scheduler, record.status(lake.opened, job))
    assert (type(found), str(found), found.code) == (NotFound, "none", code)
    assert found.fields == fields


def test_a_code_of_a_newer_version_leaves_the_code_of_the_kind() -> None:
    world = new_world()
    lake, job = world.lake, JobId("failed")
    record.begin(lake.opened, NewJob(job, MERGE, "main"))
    record.fail(lake.opened, job, NotFound("none", Code.REF_NOT_FOUND), b"")
    newer = {"error_code": "of_a_newer_version", "error_fields": "not JSON"}
    records.amend(lake.ports.kv, lake.repo, job, newer, lake.ports.ids)
    found = schedule.failure(world.scheduler, record.status(lake.opened, job))
    assert (type(found), found.code) == (NotFound, Code.NOT_FOUND)


def test_a_silent_job_is_handed_on_by_whoever_asks_after_it() -> None:
    world = new_world()
    job = begin_commit(world)
    world.queue.messages.clear()
    schedule.status(world.scheduler, "commit", job.id, "main")
    assert world.queue.messages == []
    world.pass_lease()
    for _ in range(2):
        schedule.status(world.scheduler, "commit", job.id, "main")
    assert world.queue.messages == [JobMessage("lake", job.id)]


def test_a_round_hands_on_what_nobody_asks_after() -> None:
    world = new_world()
    job = begin_commit(world)
    ports = world.lake.ports
    assert revive_everywhere(ports, world.queue, 100.0) == 0
    world.pass_lease()
    world.queue.messages.clear()
    assert revive_everywhere(ports, world.queue, 0.0) == 0
    assert revive_everywhere(ports, world.queue, 100.0) == 1
    assert world.queue.messages == [JobMessage("lake", job.id)]
    world.work(job.id)
    world.pass_lease()
    assert revive_everywhere(ports, world.queue, 100.0) == 0


def test_rounds_that_end_early_come_to_every_repository_in_time() -> None:
    """Each has time for one repository, and a silent job is in the last of them."""
    world = new_world()
    ports = world.lake.ports
    for name in ("aaa", "bbb", "zzz"):
        repository.create(ports, repository.NewRepository(name, f"mem://bucket/{name}"))
    last = repository.get(ports, "zzz")
    request = ImportRequest([ImportPath("object", SOURCE + "x", "x")], "import", COMMITTER)
    job = imports.submit(open_repository(ports, last), "main", request, owner=b"")
    world.pass_lease()
    lake, script = world.lake.interposed()
    for _ in range(100):
        script.before("scan", lambda: ports.clock.sleep(1.0), 2)  # the first is of the names
        revive_everywhere(lake.ports, world.queue, 0.5)
    assert JobMessage("zzz", job.id) in world.queue.messages


def test_a_job_whose_message_was_not_sent_is_only_late() -> None:
    class Closed(Held):
        def enqueue(self, message: Message) -> None:
            raise Unavailable("no queue")

    world = new_world()
    world.lake.put("d", "3")
    job = schedule.ask(World(world.lake, Closed()).scheduler, ASKED)
    world.pass_lease()
    assert (
        schedule.ask(world.scheduler, ASKED).id != job.id
    )  # something is staged that it may not hold
    schedule.status(world.scheduler, "commit", job.id, "main")
    assert JobMessage("lake", job.id) in world.queue.messages


def test_a_batch_of_a_rule_that_is_gone_is_no_work() -> None:
    world = new_world()
    for name in ("lake", "gone"):
        worker.run(world.lake.ports, world.queue, BatchJob(name, "rule", "batch"))


def test_a_job_is_run_by_one_worker_at_a_time() -> None:
    world = new_world()
    job = begin_commit(world)
    lake = world.lake
    assert record.claim(lake.opened, job.id, b"first") is record.Claim.OURS
    world.work(job.id)
    assert world.status(job.id).state is JobState.RUNNING
    record.release(lake.opened, job.id, b"somebody else")
    assert record.claim(lake.opened, job.id, b"third") is record.Claim.RUNNING
    world.pass_lease()
    world.work(job.id)
    world.work(job.id)
    assert len(world.marked(job.id)) == 1


def test_jobs_of_a_dead_process_go_on_in_the_next_one() -> None:
    world = new_world()
    job = begin_commit(world)
    record.claim(world.lake.opened, job.id, b"dead")
    world.queue.messages.clear()
    assert schedule.revive_all(world.scheduler) == 1
    world.work(job.id)
    assert world.status(job.id).state is JobState.DONE


@pytest.mark.parametrize("kind", BEGUN)
def test_a_worker_without_time_hands_on_until_it_is_done(kind: str) -> None:
    world = new_world()
    job = BEGUN[kind][0](world)
    world.queue.messages.clear()
    world.work(job.id, seconds=0.0)
    assert world.queue.messages == [JobMessage("lake", job.id)]
    world.work(job.id)  # at once: it was released
    assert world.status(job.id).state is JobState.DONE and len(world.marked(job.id)) == 1


def test_an_import_goes_on_where_another_runner_was() -> None:
    """Listed so far stands in ranges: it is not listed again, and comes from the first listing."""
    world = new_world()
    lake, paths = world.lake, [f"n{number:04}" for number in range(2_500)]
    for path in paths:
        lake.ports.blocks.put(SOURCE + path, [b"bytes"])
    sources = [
        ImportPath("object", SOURCE + "y", "in/z"),
        ImportPath("common_prefix", SOURCE, "in/"),
        ImportPath("object", SOURCE + "x", "in/n0000"),
    ]
    request = ImportRequest(sources, "import", COMMITTER)
    job = imports.submit(lake.opened, "main", request, owner=b"")
    mark = record.once(job.id, record.ordered(lake.opened, job.id))
    resumed = imports.ImportState(mark, spill_count=1_000)
    stopping = _StopsAt(Heartbeat(lake.opened, job.id), 2_100)
    with pytest.raises(Stopped):
        imports.work(lake.opened, "main", request, stopping, resumed)
    for path in paths[:1_500]:  # of the first step, and half of the second
        lake.ports.blocks.delete(SOURCE + path)
    pulse = Heartbeat(lake.opened, job.id)
    imports.work(lake.opened, "main", request, pulse, resumed)
    found = lake_paths(lake)
    assert set(paths[:1_000]) <= found and set(paths[2_000:]) <= found
    assert {"x", "y", "z"} <= found and len(found) >= 2_000
    assert len(world.marked(job.id)) == 1


class _StopsAt(Heartbeat):
    """Stops a runner that has listed so many."""

    def __init__(self, pulse: Heartbeat, progress: int) -> None:
        self.__dict__.update(pulse.__dict__)
        self._stop = progress

    def beat(self, progress: int = -1, *, always: bool = False) -> None:
        if progress >= self._stop:
            raise Stopped(record.StopReason.OUT_OF_TIME)
        super().beat(progress, always=always)


def lake_paths(lake: Lake) -> set[str]:
    head = head_of(lake.opened, "main")
    space = keyspace(lake.opened)
    return {key.decode()[3:] for key, _ in reader.scan(space, head.commit.metarange, b"", b"in/")}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"kind": "job"}', '{"kind": "other"}', "1"])
def test_what_is_no_job_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        decode(text)


@pytest.mark.parametrize(
    "message",
    [JobMessage("lake", "job"), BatchJob("lake", "rule", "batch"), PurgeMessage("lake", "uid")],
)
def test_messages_are_read_as_written(message: Message) -> None:
    assert decode(encode(message)) == message
