"""Each request to the store goes wrong in turn while hooks run: no half-made change, no lost event.

After a failure the branch shows what it showed before, or what the verb was to bring about.  Then
all jobs that are on record run: the post-event has been sent if, and only if, the change is there.
"""

import contextlib
from dataclasses import replace

import pytest

from graveler.core import limits
from graveler.core.clock import SystemClock
from graveler.core.errors import GravelerError, HookFailed, OutcomeUnknown, Unavailable
from graveler.core.records import JobState
from graveler.engine import hooks as events
from graveler.jobs.queue import announcing
from graveler.refs import job_records as job_records
from tests.engine.lake import Lake
from tests.hooks.test_gate import CALLS, _prepared, _shown
from tests.hooks.world import OtherSide, World
from tests.support.faults import Fault, FaultyStore, nth

KINDS = (Fault.REFUSED, Fault.DROPPED, Fault.LOST)
REQUEST_COUNT_MAX = 40


class Sleepless(SystemClock):
    """Nobody acts while a worker pauses, so it goes on at once."""

    def sleep(self, seconds: float) -> None:
        pass


def _ground(kind: str) -> World:
    world = _prepared(OtherSide(), f"pre-{kind}", f"post-{kind}")
    if kind == events.COMMIT:
        world.lake.put("new", "1")
    return world


def _call(kind: str, lake: Lake) -> None:
    if kind == events.COMMIT:
        lake.commit("m")
    else:
        CALLS[kind](lake)


def _faulty(world: World, number: int, fault: Fault) -> tuple[Lake, FaultyStore]:
    stores: list[FaultyStore] = []

    def wrap(kv: object) -> FaultyStore:
        stores.append(FaultyStore(kv, nth({number: fault})))  # type: ignore[arg-type]
        return stores[0]

    lake = world.lake.with_kv(wrap)
    ports = replace(announcing(lake.ports, world.queue), clock=Sleepless())
    return Lake(ports, lake.repo), stores[0]


def _end_leases(world: World) -> None:
    ports = world.lake.ports
    past_ns = ports.clock.now_ns() - 2 * limits.job_lease_seconds * limits.SECOND_NS
    for seen in list(job_records.list_all(ports.kv, world.lake.repo)):
        if not seen.job.ended:
            job = seen.job._replace(updated_ns=past_ns)
            job_records.put(ports.kv, world.lake.repo, job, seen, ports.ids.stamp())


def _run_all_jobs(world: World) -> None:
    """Every job that is on record, announced or not."""
    world.queue.messages.clear()
    for seen in list(job_records.list_all(world.lake.ports.kv, world.lake.repo)):
        if not seen.job.ended:
            world.run_job(seen.job.id)


@pytest.mark.parametrize("fault", KINDS, ids=lambda fault: fault.name)
@pytest.mark.parametrize("kind", CALLS)
def test_one_request_goes_wrong(kind: str, fault: Fault) -> None:
    for number in range(1, REQUEST_COUNT_MAX):
        world = _ground(kind)
        before = _shown(world.lake)
        lake, store = _faulty(world, number, fault)
        error: GravelerError | None = None
        try:
            _call(kind, lake)
        except Unavailable as caught:
            error = caught
        is_made = _shown(world.lake) != before
        if error is None:
            assert is_made, (number, "answered, and not made")
        elif not isinstance(error, OutcomeUnknown):
            assert not is_made, (number, "refused, and made")
        _run_all_jobs(world)
        assert (f"post-{kind}" in world.side.events) == is_made, number
        if not is_made:
            _call(kind, world.lake)  # a repetition does no harm
            assert _shown(world.lake) != before
        if store.requests < number:
            return
    raise AssertionError(f"more than {REQUEST_COUNT_MAX} requests")


@pytest.mark.parametrize("fault", KINDS, ids=lambda fault: fault.name)
@pytest.mark.parametrize("kind", [events.COMMIT, events.MERGE, events.DELETE_BRANCH])
def test_one_request_goes_wrong_while_a_hook_vetoes(kind: str, fault: Fault) -> None:
    for number in range(1, REQUEST_COUNT_MAX):
        world = _ground(kind)
        before = _shown(world.lake)
        world.side.answer = lambda told: 403
        lake, store = _faulty(world, number, fault)
        with pytest.raises((HookFailed, Unavailable)):
            _call(kind, lake)
        assert _shown(world.lake) == before, number
        _run_all_jobs(world)
        assert f"post-{kind}" not in world.side.events
        if store.requests < number:
            return
    raise AssertionError(f"more than {REQUEST_COUNT_MAX} requests")


@pytest.mark.parametrize("fault", KINDS, ids=lambda fault: fault.name)
def test_one_request_of_a_worker_goes_wrong(fault: Fault) -> None:
    """The job is delivered again, and ends."""
    for number in range(1, REQUEST_COUNT_MAX):
        world = _ground(events.CREATE_TAG)
        _call(events.CREATE_TAG, world.lake)
        (message,) = world.queue.messages
        lake, store = _faulty(world, number, fault)
        with contextlib.suppress(GravelerError):
            World(lake, world.side, world.queue).run_job_here(message)
        _end_leases(world)
        _run_all_jobs(world)
        assert "post-create-tag" in world.side.events, number
        jobs = [each.job for each in job_records.list_all(world.lake.ports.kv, world.lake.repo)]
        assert all(job.ended for job in jobs)
        if store.requests < number:
            return
    raise AssertionError(f"more than {REQUEST_COUNT_MAX} requests")


class Killed(BaseException):
    """The worker's process is gone."""


def test_a_post_event_that_kills_its_worker_each_time_is_given_up() -> None:
    world = _ground(events.CREATE_TAG)
    _call(events.CREATE_TAG, world.lake)
    (message,) = world.queue.messages

    def strike() -> None:
        raise Killed

    for _ in range(limits.job_restart_count_max + 1):  # the first one made progress
        lake, script = world.lake.interposed()
        script.before("set_many", strike)  # the outcome of the run
        with pytest.raises(Killed):
            World(lake, world.side, world.queue).run_job_here(message)
        _end_leases(world)
    sent = len(world.side.requests)
    world.run_job_here(message)
    known = job_records.list_all(world.lake.ports.kv, world.lake.repo)
    (job,) = [seen.job for seen in known if seen.job.id == message.job]
    assert job.state is JobState.FAILED and "hooks given up" in job.error
    assert len(world.side.requests) == sent
    assert world.side.events.count("post-create-tag") == 1  # its answer was noted
    assert [run.event for run in world.runs].count("post-create-tag") == 2  # and of the tag before
