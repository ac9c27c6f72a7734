"""Copies of long objects: left to a worker, joined, told once, taken over."""

from contextlib import suppress
from itertools import count

import pytest

from graveler.core import limits
from graveler.core.errors import Conflict, Gone, NotFound, OutcomeUnknown, Unavailable
from graveler.core.ids import JobId, parse_branch_id
from graveler.core.records import Entry, Job, JobState
from graveler.engine.commits import heads, reset, seal
from graveler.engine.jobs import record
from graveler.engine.objects import copies, read, write
from graveler.jobs import copy
from graveler.jobs.handover import AT_ONCE, TimeLimits
from graveler.jobs.queue import JobMessage
from graveler.jobs.task import Task, beating
from tests.jobs.world import (
    Killed,
    World,
    begin_copy,
    calls_of,
    copy_of,
    new_world,
    put_long,
    replaced,
)

SHORT = TimeLimits(20.0, 27.0)


def run_or_enqueue(world: World, path: str = "copied") -> Entry:
    due = SHORT.since(world.lake.ports.clock.steady_seconds())
    return copy.run_or_enqueue(world.scheduler, "main", copy_of(world, path), due)


def left_to_a_worker(world: World, path: str = "copied") -> JobId:
    with pytest.raises(OutcomeUnknown, match="joins it; outcome unknown: job=copy-"):
        run_or_enqueue(world, path)
    [message] = world.queue.messages
    assert isinstance(message, JobMessage)
    world.queue.messages.clear()
    return JobId(message.job)


def stat(world: World, path: str = "copied") -> Entry:
    return read.stat(world.lake.opened, "main", path)


def content(world: World, path: str = "copied") -> bytes:
    where = read.physical_address(world.lake.repo, stat(world, path))
    return world.lake.ports.blocks.read(where, 0, 100)


def object_count(world: World) -> int:
    stem = f"{world.lake.repo.namespace}/data/"
    return len(world.lake.ports.blocks.list(stem, "", 1_000).lines)


def test_only_what_is_long_is_left_to_a_worker_and_only_where_requests_end() -> None:
    world = new_world()
    put_long(world)
    there = copy_of(world).there
    at_most = there._replace(size=limits.copy_in_request_bytes_max)
    assert copy.is_too_long(there, SHORT.since(0.0))
    assert not copy.is_too_long(there, AT_ONCE.since(0.0))
    assert not copy.is_too_long(at_most, SHORT.since(0.0))


def test_the_same_request_joins_the_running_copy_and_is_told_its_result() -> None:
    world = new_world()
    put_long(world)
    job = left_to_a_worker(world)
    with pytest.raises(OutcomeUnknown, match=job):
        run_or_enqueue(world)
    assert world.queue.messages == []
    with pytest.raises(NotFound):
        stat(world)
    world.work(job)
    made = run_or_enqueue(world)
    assert made == stat(world) and content(world) == b"long"
    assert made.address != copy_of(world).there.address
    assert left_to_a_worker(world) != job  # somebody was told: a new request


def test_a_copy_that_is_done_in_time_is_the_answer() -> None:
    world = new_world()
    put_long(world)
    lake, script = world.lake.interposed()

    def work() -> None:
        [message] = world.queue.messages
        assert isinstance(message, JobMessage)
        world.work(JobId(message.job))

    script.before("get", work, 8)  # while the request waits
    assert run_or_enqueue(World(lake, world.queue)) == stat(world)
    assert script.finished


def test_a_failure_is_told_once_to_the_same_request() -> None:
    world = new_world()
    put_long(world)
    job = left_to_a_worker(world)
    where = read.physical_address(world.lake.repo, copy_of(world).there)
    world.lake.ports.blocks.delete(where)
    world.work(job)
    with pytest.raises(Gone, match="path=c"):
        run_or_enqueue(world)
    assert left_to_a_worker(world) != job


def refuse() -> None:
    raise Unavailable("no answer")


def test_a_store_that_does_not_answer_while_a_copy_runs_makes_its_outcome_unknown() -> None:
    """Another answer would say that nothing is changed."""
    world = new_world()
    put_long(world)
    lake, script = world.lake.interposed()
    script.before("get", refuse, 8)  # while the request waits
    with pytest.raises(OutcomeUnknown, match="outcome unknown: job=copy-"):
        run_or_enqueue(World(lake, world.queue))
    assert script.finished and len(world.queue.messages) == 1


def test_a_result_that_could_not_be_read_is_told_to_the_same_request() -> None:
    for number in count(1):
        world = new_world()
        put_long(world)
        world.work(left_to_a_worker(world))
        lake, script = world.lake.interposed()
        script.before("get", refuse, number)
        with suppress(Unavailable, OutcomeUnknown):
            run_or_enqueue(World(lake, world.queue))
        if not script.finished:  # no request is left to be refused
            break
        assert run_or_enqueue(world) == stat(world) and world.queue.messages == []
    assert number > 3


def test_what_was_at_the_source_first_is_copied() -> None:
    world = new_world()
    put_long(world)
    job = left_to_a_worker(world)
    put_long(world, b"newer")
    world.work(job)
    assert content(world) == b"long"
    again = left_to_a_worker(world)  # what it would be told is not what is there now
    world.work(again)
    assert run_or_enqueue(world) == stat(world) and content(world) == b"newer"


@pytest.mark.parametrize("replace", [True, False])
def test_a_copy_that_somebody_has_replaced_is_made_again(replace: bool) -> None:
    world = new_world()
    put_long(world)
    job = left_to_a_worker(world)
    world.work(job)
    if replace:
        world.lake.put("copied", "other")
    else:
        world.lake.delete("copied")
    world.work(left_to_a_worker(world))
    assert content(world) == b"long"


def test_a_copy_onto_its_source_is_told_too() -> None:
    world = new_world()
    put_long(world)
    order = copy_of(world, "c")._replace(source=copies.Source("main", "c"))
    repo = world.lake.opened
    write.stage(repo, "main", "c", order.there)

    def ask() -> Entry:
        there = copies.to_be_copied(repo, "main", "c", order.source)
        due = SHORT.since(repo.clock.steady_seconds())
        return copy.run_or_enqueue(world.scheduler, "main", order._replace(there=there), due)

    with pytest.raises(OutcomeUnknown):
        ask()
    [message] = world.queue.messages
    assert isinstance(message, JobMessage)
    world.work(JobId(message.job))
    assert ask() == stat(world, "c") and len(world.queue.messages) == 1


def _calls() -> list[tuple[str, int]]:
    world = new_world()
    job = begin_copy(world)
    return calls_of(world, lambda lake: world.work(job.id, lake))


@pytest.mark.parametrize("stalls", [False, True])
@pytest.mark.parametrize("call", _calls())
def test_another_worker_takes_over_at_any_request(call: tuple[str, int], stalls: bool) -> None:
    world = new_world()
    job = begin_copy(world)
    replaced(world, job.id, call, stalls=stalls)
    ended = world.status(job.id)
    assert ended.state is JobState.DONE and content(world) == b"long"
    assert run_or_enqueue(world) == stat(world)


def _write(world: World) -> None:
    world.lake.put("copied", "newer")


def _write_and_commit(world: World) -> None:
    _write(world)
    world.lake.commit()


def _die() -> None:
    raise Killed


def _commit_and_write(world: World) -> None:
    world.lake.commit()
    _write(world)


def _commit_twice(world: World) -> None:
    world.lake.commit()
    _write_and_commit(world)
    world.lake.commit_of(e="1")


def _delete(world: World) -> None:
    world.lake.delete("copied")


def _delete_and_commit(world: World) -> None:
    _delete(world)
    world.lake.commit_of(e="1")


def _commit(world: World) -> None:
    world.lake.commit()


def _write_and_seal(world: World) -> None:
    _write(world)
    _seal(world)


def _delete_and_seal(world: World) -> None:
    _delete(world)
    _seal(world)


def _seal(world: World) -> None:
    """As a commit does that dies behind its first swap, or whose rows wait for a cluster."""
    repo, name = world.lake.opened, parse_branch_id("main")
    seal.seal(repo, name, heads.fresh(repo, name), own=True)


def _write_and_reset_another(world: World) -> None:
    _write(world)
    world.lake.put("other", "1")
    reset.reset_path(world.lake.opened, "main", "other")


def _reset(world: World) -> None:
    reset.reset_path(world.lake.opened, "main", "copied")


LATER = {
    "write, seal": _write_and_seal,
    "delete, seal": _delete_and_seal,
    "write, reset of another": _write_and_reset_another,
    "reset": _reset,
    "write": _write,
    "write, commit": _write_and_commit,
    "commit, write": _commit_and_write,
    "commits": _commit_twice,
    "delete": _delete,
    "delete, commit": _delete_and_commit,
    "commit": _commit,
}


@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("call", _calls())
def test_a_worker_that_stalls_anywhere_puts_its_copy_over_nothing(
    call: tuple[str, int], later: str
) -> None:
    """Another one has done the job, its result was told, and somebody went on from there."""
    world = new_world()
    job = begin_copy(world)
    lake, script = world.lake.interposed()
    seen = []

    def look() -> tuple[object, ...]:
        repo = world.lake.opened
        query = read.ListQuery()
        shown = read.list_objects(repo, "main", query)
        return shown, world.lake.uncommitted(), world.lake.head()

    def strike() -> None:
        world.pass_lease()
        world.work(job.id)
        assert run_or_enqueue(world) == stat(world)
        LATER[later](world)
        seen.append(look())

    verb, nth = call
    script.before(verb, strike, nth)
    world.work(job.id, lake)
    assert [look()] == seen


@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("call", _calls())
def test_a_worker_that_takes_over_undoes_no_write_over_the_copy(
    call: tuple[str, int], later: str
) -> None:
    """Somebody saw the copy, and went on from there, before its first worker died."""
    world = new_world()
    job = begin_copy(world)
    lake, script = world.lake.interposed()
    written = []

    def strike() -> None:
        if "copied" in world.lake.tree():
            LATER[later](world)
            written.append(world.lake.tree())
        raise Killed

    verb, nth = call
    script.before(verb, strike, nth)
    with pytest.raises(Killed):
        world.work(job.id, lake)
    world.pass_lease()
    world.work(job.id)
    assert world.status(job.id).state is JobState.DONE
    assert not written or [world.lake.tree()] == written


def test_a_worker_looks_again_if_a_commit_takes_in_what_it_has_seen() -> None:
    """A row counts for sure only if its token is still open after it was seen."""
    world = new_world()
    job = begin_copy(world)
    lake, script = world.lake.interposed()
    script.before("get_many", _die)  # what is to be staged is noted
    with pytest.raises(Killed):
        world.work(job.id, lake)
    world.pass_lease()
    _write(world)
    lake, script = world.lake.interposed()
    script.after("get_many", lambda: world.lake.commit_of(e="1"))
    world.work(job.id, lake)
    assert script.finished and world.status(job.id).state is JobState.DONE
    assert world.lake.tree()["copied"] == "newer" and not world.lake.uncommitted()


def test_what_was_copied_is_not_copied_again() -> None:
    world = new_world()
    job = begin_copy(world)
    lake, script = world.lake.interposed()
    script.before("get_many", _die)
    with pytest.raises(Killed):
        world.work(job.id, lake)
    copied = object_count(world)
    world.pass_lease()
    world.work(job.id)
    assert object_count(world) == copied
    assert run_or_enqueue(world) == stat(world)


def test_a_worker_that_was_taken_over_while_it_copied_stages_nothing() -> None:
    """Its copy is finished long after another one's was told, and replaced."""
    world = new_world()
    job = begin_copy(world)
    repo = world.lake.opened
    owner = repo.ids.stamp()
    record.claim(repo, job.id, owner)
    world.pass_lease()
    world.work(job.id)
    run_or_enqueue(world)
    world.lake.put("copied", "newer")
    order, pulse = record.ordered(repo, job.id), record.Heartbeat(repo, job.id, owner)
    copy.work(Task(repo, job, order, pulse))
    assert world.lake.tree()["copied"] == "newer"


def test_a_copy_that_nobody_did_in_time_is_given_up() -> None:
    world = new_world()
    job: Job = begin_copy(world)
    world.lake.ports.clock.sleep(limits.job_seconds_max)
    world.work(job.id)
    with pytest.raises(Conflict, match="given up"):
        run_or_enqueue(world)


def test_a_copy_beats_before_and_within() -> None:
    world = new_world()
    put_long(world)
    where = read.physical_address(world.lake.repo, copy_of(world).there)
    beats, others = list[int](), list[int]()
    blocks = beating(world.lake.ports, lambda: beats.append(1)).blocks
    blocks.copy(where, f"{where}-copy", lambda: others.append(1))
    assert (len(beats), len(others)) == (2, 1)
