"""The production verbs under random schedules: every family of programs, every profile of faults.

A failure prints family, profile and seed.  Put them on a line of `seeds/<what>.txt` and they are
replayed for ever.
"""

import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

from graveler.core.errors import Unavailable
from simulator.families import FAMILIES, PROFILES
from simulator.invariants import check_seed
from simulator.schedule import without_frames
from simulator.stage import Stage, build_stage

pytestmark = pytest.mark.slow

SEEDS = Path(__file__).parent / "seeds"
# The same for every change; `make soak` draws fresh ones.
SEEDS_PER_CELL = int(os.environ.get("GRAVELER_SCHEDULES", "40"))


@pytest.fixture(scope="module")
def stage() -> Stage:
    return build_stage()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("profile", PROFILES)
def test_nothing_acknowledged_is_lost(stage: Stage, family: str, profile: str) -> None:
    for seed in range(SEEDS_PER_CELL):
        wrong = check_seed(stage, family, profile, seed).wrong
        assert not wrong, f"{family} {profile} {seed}: {wrong}"


def _kept() -> list[tuple[str, str, int]]:
    texts = [file.read_text() for file in sorted(SEEDS.glob("*.txt"))]
    lines = [line.split() for text in texts for line in text.splitlines()]
    return [(line[0], line[1], int(line[2])) for line in lines if line and line[0] != "#"]


def test_seeds_that_once_failed(stage: Stage) -> None:
    for family, profile, seed in _kept():
        wrong = check_seed(stage, family, profile, seed).wrong
        assert not wrong, f"{family} {profile} {seed}: {wrong}"


_PRINTED = """
from simulator.invariants import check_seed
from simulator.stage import build_stage
verdict = check_seed(build_stage(), "merge", "all", 7)
calls = [(call.start, call.end, call.answer) for calls in verdict.clients for call in calls]
print(verdict.run.world.trace, calls)
"""


def test_a_run_is_determined_by_its_seed_in_every_process() -> None:
    once, again = (
        subprocess.run(
            [sys.executable, "-c", _PRINTED],
            env={**os.environ, "PYTHONHASHSEED": number},
            capture_output=True,
            check=True,
        ).stdout
        for number in ("1", "2")
    )
    assert once and once == again


@pytest.mark.parametrize("family", FAMILIES)
def test_a_run_leaves_nothing_to_the_collector(stage: Stage, family: str) -> None:
    """A few hundred objects a run cost more than a tenth of its time once they are looked for."""
    gc.disable()
    try:
        run = weakref.ref(check_seed(stage, family, "clean", 1).run)
        assert run() is None
    finally:
        gc.enable()


def test_an_error_that_leads_back_to_itself_loses_its_frames() -> None:
    first, second = Unavailable("first"), Unavailable("second")
    for error, cause in ((first, second), (second, first)):
        try:
            raise error from cause
        except Unavailable:
            assert error.__traceback__ is not None
    assert without_frames(first) is first
    assert first.__traceback__ is None and second.__traceback__ is None
