"""A worker dies in the middle of a post-event: the next one goes on, and calls the rest alone."""

import contextlib
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from graveler.core import limits
from graveler.core.records import JobState
from graveler.engine import names
from graveler.engine.jobs import record as jobs
from graveler.hooks import run_pages
from graveler.hooks.calls import DELIVERY_HEADER
from graveler.jobs import worker
from graveler.jobs.queue import JobMessage
from tests.engine.lake import Lake, new_lake
from tests.hooks.test_faults import REQUEST_COUNT_MAX, _end_leases, _faulty, _run_all_jobs
from tests.hooks.world import URL, Held, OtherSide, World, hooked, new_world
from tests.simulation.failing import Killed, Kind, Turn, failing
from tests.support.clockwork import TickingClock
from tests.support.faults import Fault

HOOKS = ("a1", "a2", "a3", "b1", "b2")
DEATHS = (Kind.KILLED, Kind.KILLED_AFTER)


def _text(name: str, event: str, hooks: list[str]) -> str:
    lines = [f"name: {name}", "on:", f"  {event}:", "hooks:"]
    for hook in hooks:
        lines += [f"  - id: {hook}", "    type: webhook", "    properties:", f"      url: {URL}"]
    return "\n".join(lines) + "\n"


def _ground(event: str = "post-create-tag") -> tuple[World, JobMessage]:
    """Two actions with five hooks; the job of their event is on record."""
    lake = new_lake()
    clock = TickingClock(lake.ports.clock.now_ns())  # 50 seconds pass at once
    lake = Lake(replace(lake.ports, clock=clock), lake.repo).another_process()
    world = hooked(lake, OtherSide(), Held())
    world.action("a.yaml", _text("a", event, ["a1", "a2", "a3"]))
    world.action("b.yaml", _text("b", event, ["b1", "b2"]))
    world.lake.commit("actions")
    if event == "post-create-tag":
        names.create_tag(world.lake.opened, "v1", "main")
    else:
        names.create_branch(world.lake.opened, "dev", "main")
    (message,) = world.queue.messages
    assert isinstance(message, JobMessage)
    world.queue.messages.clear()
    return world, message


def _calls(world: World) -> Counter[str]:
    return Counter(told["hook_id"] for told in world.side.told)


def _check_ended(world: World, message: JobMessage) -> None:
    """The event is told to each hook, and one run says so."""
    assert jobs.status(world.lake.opened, message.job).state is JobState.DONE
    (run,) = world.runs
    assert [(hook.hook, hook.passed) for hook in run.hooks] == [(hook, True) for hook in HOOKS]
    assert run.passed and run.started_ns <= run.ended_ns
    assert set(_calls(world)) == set(HOOKS)


@pytest.mark.parametrize("death", DEATHS, ids=lambda death: death.value)
def test_a_worker_is_killed_at_each_request(death: Kind) -> None:
    """At most the hook whose answer no row holds yet is called again."""
    repeated = set[str]()
    for number in range(1, 2 * REQUEST_COUNT_MAX):
        (world, message), turn = _ground(), Turn(number, death)
        ports = failing(world.lake.ports, turn)
        with contextlib.suppress(Killed):
            worker.run(ports, world.queue, message)
        _end_leases(world)
        _run_all_jobs(world)
        _check_ended(world, message)
        twice = [hook for hook, count in _calls(world).items() if count > 1]
        assert len(twice) <= 1 and sum(_calls(world).values()) == len(HOOKS) + len(twice), number
        repeated.update(twice)
        if not turn.reached:
            assert repeated == set(HOOKS)
            return
    pytest.fail("too many requests")


def _struck_at(world: World, call: int) -> None:
    """From now on the worker dies while the hook of this call is under way."""

    def answer(_: dict[str, Any]) -> int:
        if len(world.side.requests) == call:
            raise Killed
        return 200

    world.side.answer = answer


@pytest.mark.parametrize("call", range(1, len(HOOKS) + 1))
def test_a_worker_is_killed_while_a_hook_runs(call: int) -> None:
    world, message = _ground()
    _struck_at(world, call)
    with pytest.raises(Killed):
        world.run_job_here(message)
    assert world.runs == []
    _end_leases(world)
    world.run_job_here(message)
    _check_ended(world, message)
    assert _calls(world) == Counter([*HOOKS, HOOKS[call - 1]])
    first, again = world.side.requests[call - 1], world.side.requests[call]
    assert first.headers[DELIVERY_HEADER] == again.headers[DELIVERY_HEADER]
    assert len({request.headers[DELIVERY_HEADER] for request in world.side.requests}) == len(HOOKS)


def test_the_outcome_before_the_crash_counts() -> None:
    """A hook that failed has failed, also for the attempt that follows."""
    world, message = _ground()

    def answer(told: dict[str, Any]) -> int:
        if told["hook_id"] == "b1" and len(world.side.requests) == 2:
            raise Killed
        return 403 if told["hook_id"] == "a1" else 200

    world.side.answer = answer
    with pytest.raises(Killed):
        world.run_job_here(message)
    _end_leases(world)
    world.run_job_here(message)
    (run,) = world.runs
    assert [(hook.hook, hook.passed) for hook in run.hooks] == [
        ("a1", False),
        ("b1", True),
        ("b2", True),
    ]
    assert not run.passed
    assert _calls(world) == Counter(["a1", "b1", "b1", "b2"])


@pytest.mark.parametrize("event", ["post-create-tag", "post-create-branch"])
def test_a_name_that_is_deleted_meanwhile_does_not_end_the_run(event: str) -> None:
    world, message = _ground(event)
    _struck_at(world, 2)
    with pytest.raises(Killed):
        world.run_job_here(message)
    if event == "post-create-tag":
        names.delete_tag(world.lake.opened, "v1")
    else:
        names.delete_branch(world.lake.opened, "dev")
    _end_leases(world)
    world.run_job_here(message)
    _check_ended(world, message)


@pytest.mark.parametrize("kind", ["tag", "branch", "commit"])
def test_what_is_gone_before_a_worker_looks_is_told(kind: str) -> None:
    """It was visible, and the request that made it said so."""
    world = new_world(OtherSide())
    lake = world.lake
    event = "post-commit" if kind == "commit" else f"post-create-{kind}"
    world.action("a.yaml", _text("a", event, ["only"]))
    lake.branch("dev")
    lake.commit("actions", "main")
    if kind == "tag":
        names.create_tag(lake.opened, "v1", "main")
        names.delete_tag(lake.opened, "v1")
    else:
        names.create_branch(lake.opened, "side", "main")
        if kind == "commit":
            lake.commit_of("side", x="1")
        names.delete_branch(lake.opened, "side")
    (message,) = world.queue.messages[-1:]
    world.run_job_here(message)
    assert world.side.events[-1:] == [event]


def test_a_run_that_is_given_up_says_what_was_interrupted() -> None:
    world, message = _ground()

    def answer(told: dict[str, Any]) -> int:
        if told["hook_id"] == "a2":
            raise Killed
        return 200

    world.side.answer = answer
    for _ in range(limits.job_restart_count_max):
        with pytest.raises(Killed):
            world.run_job_here(message)
        _end_leases(world)
    # a1 has answered: that was progress
    with pytest.raises(Killed):
        world.run_job_here(message)
    _end_leases(world)
    assert world.runs == []
    sent = len(world.side.requests)
    worker.run(world.lake.ports, world.queue, message, seconds=0.0)  # no time even to give up
    assert not jobs.status(world.lake.opened, message.job).ended and world.runs == []
    world.run_job_here(message)
    job = jobs.status(world.lake.opened, message.job)
    assert job.state is JobState.FAILED and "hooks given up" in job.error
    assert len(world.side.requests) == sent
    (run,) = world.runs
    assert not run.passed
    assert [(hook.hook, hook.passed) for hook in run.hooks] == [
        ("a1", True),
        ("a2", False),
        ("b1", False),
    ]
    log = run_pages.output(world.lake.opened, run.id, run.hooks[1].id)
    assert b"interrupted" in log
    assert b"heard" in run_pages.output(world.lake.opened, run.id, run.hooks[0].id)


def test_a_worker_without_time_leaves_the_rest_to_the_next() -> None:
    world, message = _ground()
    clock = world.lake.ports.clock

    def answer(_: dict[str, Any]) -> int:
        clock.sleep(50.0)
        return 200

    world.side.answer = answer
    worker.run(world.lake.ports, world.queue, message, seconds=120.0)
    assert sum(_calls(world).values()) == 3
    while world.queue.messages:
        again = world.queue.messages.pop(0)
        worker.run(world.lake.ports, world.queue, again, seconds=120.0)
    _check_ended(world, message)
    assert _calls(world) == Counter(HOOKS)


def test_slow_hooks_keep_the_lease() -> None:
    """No second worker begins while the first one still calls hooks."""
    world, message = _ground()
    clock = world.lake.ports.clock

    def answer(_: dict[str, Any]) -> int:
        clock.sleep(50.0)
        worker.run(world.lake.another_process().ports, world.queue, message)
        return 200

    world.side.answer = answer
    world.run_job_here(message)
    _check_ended(world, message)
    assert _calls(world) == Counter(HOOKS)


def test_a_hook_costs_four_requests() -> None:
    counts = []
    for hooks in (1, 4):
        world = new_world(OtherSide())
        world.action(
            "a.yaml", _text("a", "post-create-tag", [f"h{number}" for number in range(hooks)])
        )
        world.lake.commit("actions")
        names.create_tag(world.lake.opened, "v1", "main")
        (message,) = world.queue.messages
        lake, store = _faulty(world, 0, Fault.REFUSED)  # none goes wrong
        World(lake, world.side, world.queue).run_job_here(message)
        counts.append(store.requests)
    assert counts[1] - counts[0] == 3 * 4


def test_a_worker_has_time_to_note_the_longest_hook() -> None:
    around = 10  # the look-ups and the notes before and after a call, with their retries
    assert limits.hook_seconds_max + around < limits.job_step_seconds_max < limits.job_lease_seconds
