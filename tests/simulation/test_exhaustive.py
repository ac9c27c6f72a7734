"""Every schedule of some small programs: two preemptions without a fault, one with one fault.

A failure prints the path of choices: `run_path(stage, program, Enumerated(bound, path))` repeats
it.
"""

import pytest

from simulator.exhaustive import MORE_PROGRAMS, PROGRAMS, Bound, search
from simulator.stage import Stage, build_stage

BOUNDS = (Bound(preemptions=2, faults=0), Bound(preemptions=1, faults=1))


@pytest.fixture(scope="module")
def stage() -> Stage:
    return build_stage()


@pytest.mark.parametrize("bound", BOUNDS, ids=("2 preemptions", "1 preemption, 1 fault"))
@pytest.mark.parametrize("program", (*PROGRAMS, *MORE_PROGRAMS))
def test_no_schedule_loses_anything(stage: Stage, program: str, bound: Bound) -> None:
    found = search(stage, program, bound)
    assert not found.wrong, f"{program} {bound} {found.path}: {found.wrong}"
    assert found.schedules > 10
