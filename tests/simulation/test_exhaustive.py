"""Every schedule of some small programs: two preemptions without a fault, one with one fault.

A failure prints the path of choices: `run_path(stage, program, Enumerated(bound, path))` repeats
it.
"""

import pytest

from simulator.exhaustive import MORE_PROGRAMS, PROGRAMS, Bound, search
from simulator.stage import Stage, build_stage
from tests import draws

pytestmark = pytest.mark.slow
ALL = (*PROGRAMS, *MORE_PROGRAMS)
PREEMPTIONS, FAULT = Bound(preemptions=2, faults=0), Bound(preemptions=1, faults=1)
# With a fault these have most of all schedules: the soak's track searches them, with greater bounds
# than here; here their first clients and the fault.
SMALLER = {
    "e|e|w c": "e|w c",
    "w c|d c|l": "w c|d c",
    "w w|c|c": "w w|c",
    "w|d|c c": "w|d|c",
    "p|p c|c": "p|p c",
    "b|w c|c": "b|w c",
    "b|w|c c": "b|w|c",
}


def with_fault(program: str) -> str:
    """The program that meets a fault: that of three clients is made by two, the second of which
    goes on with the calls of the third (unless all that can be drawn is wanted)."""
    smaller = SMALLER.get(program, program)
    first, *others = smaller.split("|")
    return smaller if draws.ALL else "|".join([first, " ".join(others)])


CASES = [
    *(pytest.param(each, PREEMPTIONS, id=f"{each}-2 preemptions") for each in ALL),
    *(
        pytest.param(each, FAULT, id=f"{each}-1 preemption, 1 fault")
        for each in dict.fromkeys(map(with_fault, ALL))
    ),
]


@pytest.fixture(scope="module")
def stage() -> Stage:
    return build_stage()


@pytest.mark.parametrize(("program", "bound"), CASES)
def test_no_schedule_loses_anything(stage: Stage, program: str, bound: Bound) -> None:
    found = search(stage, program, bound)
    assert not found.wrong, f"{program} {bound} {found.path}: {found.wrong}"
    assert found.schedules > 10
