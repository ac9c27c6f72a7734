"""Every broken variant of the protocol is caught: the checks have teeth.

`witnesses.txt` records by which seed.  If that seed catches a variant no more, because its family
or the protocol changed, others are searched; record the one that is printed.
"""

import re

import pytest

from simulator.invariants import check_seed
from simulator.stage import Stage, build_stage
from tests.simulation.arrival_mutants import ARRIVAL_MUTANTS
from tests.simulation.batch_mutants import BATCH_MUTANTS
from tests.simulation.edits import patched
from tests.simulation.gate_mutants import GATE_MUTANTS
from tests.simulation.lane_mutants import LANE_MUTANTS
from tests.simulation.later_mutants import LATER_MUTANTS
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.name_mutants import NAME_MUTANTS
from tests.simulation.upload_mutants import UPLOAD_MUTANTS
from tests.simulation.witnesses import seeds

ALL = (
    *MUTANTS,
    *LATER_MUTANTS,
    *NAME_MUTANTS,
    *ARRIVAL_MUTANTS,
    *GATE_MUTANTS,
    *UPLOAD_MUTANTS,
    *LANE_MUTANTS,
    *BATCH_MUTANTS,
)
SEEDS_MAX = 10_000
NO_VARIANT = re.compile(r"\b(Name|Attribute|Type)Error\b")


@pytest.fixture(scope="module")
def stage() -> Stage:
    return build_stage()


@pytest.mark.parametrize("mutant", ALL, ids=[mutant.name for mutant in ALL])
def test_a_broken_protocol_is_caught(stage: Stage, mutant: Mutant) -> None:
    with patched(mutant.edits):
        for seed in seeds(mutant.name, SEEDS_MAX):
            wrong = check_seed(stage, *mutant.cell, seed).wrong
            if wrong:
                assert not NO_VARIANT.search(wrong[0]), f"{mutant.name} is no variant: {wrong[0]}"
                print(f"{mutant.name} {mutant.cell} {seed}: {wrong[0]}")
                return
    pytest.fail(f"{mutant.name} survived {SEEDS_MAX} seeds: {mutant.breach}")
