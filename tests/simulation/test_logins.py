"""Logins by an external principal under random schedules, kills and faults, and broken variants."""

import pytest

from simulator.logins import check_logins
from tests.simulation.access_mutants import AccessMutant
from tests.simulation.edits import patched
from tests.simulation.login_mutants import LOGIN_MUTANTS
from tests.simulation.witnesses import seeds

PROFILES = ("clean", "crash", "amb", "delay", "all")
SEEDS_PER_PROFILE = 100
SEEDS_MAX = 10_000


@pytest.mark.parametrize("profile", PROFILES)
def test_who_was_ended_is_not_let_in(profile: str) -> None:
    for seed in range(SEEDS_PER_PROFILE):
        wrong = check_logins(profile, seed).wrong
        assert not wrong, f"{profile} {seed}: {wrong}"


def test_the_seeds_reach_what_matters() -> None:
    """Sessions let in, and are refused after their principal has ended."""
    rides = [
        moment.call.answer.is_in
        for seed in range(SEEDS_PER_PROFILE)
        for moment in check_logins("clean", seed).moments
        if moment.call.verb == "ride" and moment.call.acknowledged and moment.call.answer.place >= 0
    ]
    assert min(rides.count(True), rides.count(False)) > 20


@pytest.mark.parametrize("mutant", LOGIN_MUTANTS, ids=[each.name for each in LOGIN_MUTANTS])
def test_broken_logins_are_caught(mutant: AccessMutant) -> None:
    with patched(mutant.edits):
        for seed in seeds(mutant.name, SEEDS_MAX):
            found = check_logins(mutant.profile, seed).wrong
            wrong = [each for each in found if each.startswith(mutant.name[:2])]
            if wrong:
                print(f"{mutant.name} {mutant.profile} {seed}: {wrong[0]}")
                return
    pytest.fail(f"{mutant.name} survived {SEEDS_MAX} seeds: {mutant.breach}")
