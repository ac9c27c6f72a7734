"""The process of every route that writes is killed before each of its port calls.

Killed before a call is killed after the call before it.  Then a new process knows only rows and
objects, and nothing of what the dead one knew:

    at once      the world is as before the request, or as after a success
    repeated     the same request ends well, and the world is as after a success

A verb that changes several rows one by one, as its contract says, may show a part at once.  Hooks
and the jobs behind an answer are killed in tests of their own (tests/hooks/, tests/jobs/).
"""

import contextlib
from dataclasses import dataclass
from typing import Any

import pytest

from simulator.service.described import by_name
from tests.api.fault_cases import CASES, Case
from tests.api.fault_lake import LAKE
from tests.api.fault_picture import picture
from tests.api.fault_world import Running, State, Strikes, Surroundings, World, sound
from tests.simulation.failing import Killed
from tests.support.faults import Fault

pytestmark = pytest.mark.slow
CALLS_MAX = 120
_METHODS = {name: one.method for name, one in by_name().items()}
WRITING = [
    case for case in CASES if _METHODS[case.operation] not in ("GET", "HEAD") and not case.goes_on
]


@dataclass
class Death(Strikes):
    """The process is gone before its call `at`: it makes no further one."""

    def _next(self, verb: str) -> Fault:
        self.seen.append(verb)
        if len(self.seen) >= self.at:
            raise Killed
        return Fault.NONE


def _served_anew(world: World) -> Running:
    """A process that draws other ids than the one that died."""
    world.blocks._serial += 1_000
    return world.serve(sound())


def _shown(world: World, case: Case, before: dict[str, Any], begun: State) -> dict[str, Any]:
    touched = world.touched(begun)
    if not touched:
        return before
    return picture(world.serve(sound()).door, case.also(world), before, touched)


def _left_by_the_dead(case: Case, template: World, at: int) -> tuple[World, bool]:
    """The world that a process leaves that dies before its call `at`; whether it died."""
    world = template.copy()
    with contextlib.suppress(Killed):
        world.serve(Death(at)).send(case.ask(world))
        return world, False
    return world, True


def _problems(case: Case, template: World) -> list[str]:
    """What is wrong, one line for each call before which the process died."""
    begun = template.state
    before = picture(template.copy().serve(sound()).door, case.also(template))
    well = template.copy()
    heard = _served_anew(well).send(case.ask(well))
    assert heard.status == case.status, heard
    after = _shown(well, case, before, begun)
    problems = []
    for at in range(1, CALLS_MAX):
        world, died = _left_by_the_dead(case, template, at)
        if not died:
            return problems
        shown = _shown(world, case, before, begun)
        if shown not in (before, after) and not case.parts:
            problems.append(f"{case}: killed before call {at}: a part is shown")
        world.clock.sleep(case.patience)
        again = _served_anew(world).send(case.ask(world))
        expected = (case.status, *case.again) if shown == after else (case.status,)
        if again.status not in expected:
            problems.append(f"{case}: killed before call {at}, and sent again: {again}")
        elif _shown(world, case, before, begun) != after and not (case.adds and shown == after):
            problems.append(f"{case}: killed before call {at}, and sent again: another world")
    pytest.fail(f"{case}: more than {CALLS_MAX} calls")


@pytest.mark.parametrize("case", WRITING, ids=str)
def test_a_process_is_killed_before_each_call(
    case: Case, template: World, around: Surroundings
) -> None:
    problems = _problems(case, World(around) if case.empty else template)
    assert not problems, "\n".join(problems)


def _check_closed(template: World) -> None:
    """A branch is deleted by a process that dies: whoever deletes it again closes its requests."""
    case = _case("deleteBranch")
    for at in range(1, CALLS_MAX):
        world, died = _left_by_the_dead(case, template, at)
        if not died:
            return
        running = _served_anew(world)
        assert running.send(case.ask(world)).status in (case.status, *case.again), at
        pull = running.door.get(f"{LAKE}/pulls/{world.names['pull']}")
        assert pull["status"] == "closed", at
    pytest.fail(f"more than {CALLS_MAX} calls")


def _case(operation: str) -> Case:
    return next(case for case in CASES if case.operation == operation)


def test_a_deletion_that_is_repeated_closes_the_requests_of_its_branch(template: World) -> None:
    _check_closed(template)
