"""Random programs: the engine against the dictionary model, in lock step.

A change must not fail for what another one left, so each run takes the same seeds.
`GRAVELER_SEED=n` starts them at n, `GRAVELER_SEED=fresh` somewhere new; `GRAVELER_PROGRAMS=n` sets
their number.  A failure prints its seed and the verbs that are left of it after shrinking.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from graveler import assembly
from graveler.engine.ports import Ports
from simulator.programs import checks, programs
from simulator.programs.model import Blob, stage
from simulator.programs.world import Mismatch
from tests.support.clockwork import SeededIds, TickingClock

COUNT = int(os.environ.get("GRAVELER_PROGRAMS", "200"))
_SEED = os.environ.get("GRAVELER_SEED", "1")
FIRST = time.time_ns() // 1_000_000 % 10**9 * 10_000 if _SEED == "fresh" else int(_SEED)
VERBS = range(40)

# Seeds that told something; each stays until the drawing of verbs changes, and then as a test.  A
# soak adds files by itself.
_KEPT = sorted((Path(__file__).parent / "seeds").glob("*.txt"))
FOUND = [int(line) for file in _KEPT for line in file.read_text().split()]


def _fresh_memory() -> Ports:
    """Nothing of chance: what is imported carries addresses and times."""
    return assembly.open_memory(TickingClock(), SeededIds(0))


def _run_all(make_ports: Callable[[], Ports], seeds: list[int]) -> Counter[str]:
    print(f"programs: seeds {seeds[0]} to {seeds[-1]}")
    outcomes: Counter[str] = Counter()
    for seed in seeds:
        try:
            outcomes.update(programs.run(make_ports, seed, VERBS).outcomes)
        except Mismatch as mismatch:
            short = programs.shrink(make_ports, seed, VERBS)
            raise AssertionError(str(short)) from mismatch
    return outcomes


@pytest.mark.slow
def test_programs_agree_with_the_model() -> None:
    outcomes = _run_all(_fresh_memory, [*FOUND, *range(FIRST, FIRST + COUNT)])
    print(*(f"{outcome} {times}" for outcome, times in sorted(outcomes.items())), sep="\n")
    wanted = ("merge: done", "merge: MergeConflict", "commit: done", "revert: done", "log: done")
    assert COUNT < 200 or all(outcomes[it] for it in wanted), "the programs must reach these"


def test_programs_agree_with_the_model_on_the_embedded_store(fast_folder: Path) -> None:
    store = assembly.open_embedded(fast_folder / "store")
    try:
        _run_all(lambda: store.ports, list(range(FIRST, FIRST + min(COUNT, 60))))
    finally:
        store.close()


def test_a_program_is_a_function_of_its_seed() -> None:
    one, other = (programs.run(_fresh_memory, FIRST, VERBS) for _ in range(2))
    assert one.trace == other.trace
    assert one.model.ids == other.model.ids


def test_a_model_that_differs_is_noticed() -> None:
    """The canary: a comparison that compares nothing would pass all else."""
    world = programs.begin(assembly.open_memory(), FIRST)
    checks.check_all(world, random.Random(FIRST))
    stage(world.model, "main", "never/written", Blob("0", 0))
    with pytest.raises(Mismatch, match="never/written"):
        checks.check_all(world, random.Random(FIRST))
