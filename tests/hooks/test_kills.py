"""A process with hooks is killed at each request to a port: no half-made change, no lost event.

After the kill the branch shows what it showed before, or the whole change; then all jobs that are
on record run, and the post-event has been sent if, and only if, the change is there.
"""

import contextlib

import pytest

from graveler.core.errors import HookFailed
from graveler.engine import hooks as events
from graveler.jobs.queue import announcing
from tests.engine.lake import Lake
from tests.hooks.test_faults import REQUEST_COUNT_MAX, _call, _ground, _run_all_jobs
from tests.hooks.test_gate import CALLS, _shown
from tests.hooks.world import World
from tests.simulation.failing import Killed, Kind, Turn, failing

KILLS = (Kind.KILLED, Kind.KILLED_AFTER)


def _doomed(world: World, turn: Turn) -> Lake:
    """The lake as a process sees it that will be killed."""
    return Lake(announcing(failing(world.lake.ports, turn), world.queue), world.lake.repo)


@pytest.mark.parametrize("death", KILLS, ids=lambda death: death.value)
@pytest.mark.parametrize("kind", CALLS)
def test_a_process_with_hooks_is_killed(kind: str, death: Kind) -> None:
    for number in range(1, REQUEST_COUNT_MAX):
        world, turn = _ground(kind), Turn(number, death)
        before = _shown(world.lake)
        with contextlib.suppress(Killed):
            _call(kind, _doomed(world, turn))
        is_made = _shown(world.lake) != before
        assert is_made or turn.reached, (number, "answered, and not made")
        _run_all_jobs(world)
        assert (f"post-{kind}" in world.side.events) == is_made, number
        if not is_made:
            _call(kind, world.lake)  # somebody else does it
            assert _shown(world.lake) != before
        if not turn.reached:
            return
    pytest.fail(f"more than {REQUEST_COUNT_MAX} requests")


@pytest.mark.parametrize("death", KILLS, ids=lambda death: death.value)
@pytest.mark.parametrize("kind", [events.COMMIT, events.MERGE])
def test_a_process_is_killed_while_a_hook_vetoes(kind: str, death: Kind) -> None:
    for number in range(1, REQUEST_COUNT_MAX):
        world, turn = _ground(kind), Turn(number, death)
        before = _shown(world.lake)
        world.side.answer = lambda told: 403
        with pytest.raises((HookFailed, Killed)):
            _call(kind, _doomed(world, turn))
        assert _shown(world.lake) == before, number
        _run_all_jobs(world)
        assert f"post-{kind}" not in world.side.events
        if not turn.reached:
            return
    pytest.fail(f"more than {REQUEST_COUNT_MAX} requests")
