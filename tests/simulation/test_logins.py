"""Logins by an external principal under random schedules, kills and faults, and broken variants."""

import pytest

from simulator.logins import check_logins
from tests.simulation.access_mutants import AccessMutant
from tests.simulation.access_rules import PROFILES, SEEDS_PER_PROFILE, check_caught, check_rules
from tests.simulation.login_mutants import LOGIN_MUTANTS


@pytest.mark.parametrize("profile", PROFILES)
def test_who_was_ended_is_not_let_in(profile: str) -> None:
    check_rules(check_logins, profile)


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
    check_caught(mutant, check_logins)
