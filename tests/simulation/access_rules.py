"""What holds of each family of access control: its rules, and that their breaches are caught."""

from collections.abc import Callable

import pytest

from simulator.access import AccessRun
from tests.simulation.access_mutants import AccessMutant
from tests.simulation.edits import patched
from tests.simulation.witnesses import seeds

PROFILES = ("clean", "crash", "amb", "delay", "all")
SEEDS_PER_PROFILE = 100
SEEDS_MAX = 10_000
Check = Callable[[str, int], AccessRun]


def check_rules(check: Check, profile: str) -> None:
    """Fail if a run breaks a rule."""
    for seed in range(SEEDS_PER_PROFILE):
        wrong = check(profile, seed).wrong
        assert not wrong, f"{profile} {seed}: {wrong}"


def check_caught(mutant: AccessMutant, check: Check) -> None:
    """Fail if no run of the broken variant breaks the rule that its name begins with."""
    with patched(mutant.edits):
        for seed in seeds(mutant.name, SEEDS_MAX):
            found = check(mutant.profile, seed).wrong
            wrong = [each for each in found if each.startswith(mutant.name[:2])]
            if wrong:
                print(f"{mutant.name} {mutant.profile} {seed}: {wrong[0]}")
                return
    pytest.fail(f"{mutant.name} survived {SEEDS_MAX} seeds: {mutant.breach}")
