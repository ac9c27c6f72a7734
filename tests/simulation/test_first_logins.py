"""First logins by tokens under random schedules, kills and faults, and broken variants."""

import pytest

from simulator.first_logins import check_first_logins
from tests.simulation.access_mutants import AccessMutant
from tests.simulation.edits import patched
from tests.simulation.first_login_mutants import FIRST_LOGIN_MUTANTS
from tests.simulation.witnesses import seeds

PROFILES = ("clean", "crash", "amb", "delay", "all")
SEEDS_PER_PROFILE = 400
SEEDS_MAX = 10_000


@pytest.mark.parametrize("profile", PROFILES)
def test_a_subject_has_one_user_with_the_groups_of_its_newest_token(profile: str) -> None:
    for seed in range(SEEDS_PER_PROFILE):
        wrong = check_first_logins(profile, seed).wrong
        assert not wrong, f"{profile} {seed}: {wrong}"


def test_seeds_that_once_failed() -> None:
    """A user was made without an answer and deleted, and the retry made it again."""
    assert not check_first_logins("all", 1520000004084).wrong


def test_the_seeds_reach_what_matters() -> None:
    """Logins of two processes overlap, older tokens come later, users are deleted."""
    runs = [check_first_logins("clean", seed) for seed in range(100)]
    together = [
        run
        for run in runs
        if any(
            one.process != two.process and two.start_ns < one.end_ns
            for one, two in zip(run.moments, run.moments[1:], strict=False)
        )
    ]
    drops = [run for run in runs if any(each.call.verb == "drop" for each in run.moments)]
    assert len(together) > 50 and len(drops) > 10


@pytest.mark.parametrize(
    "mutant", FIRST_LOGIN_MUTANTS, ids=[each.name for each in FIRST_LOGIN_MUTANTS]
)
def test_broken_first_logins_are_caught(mutant: AccessMutant) -> None:
    with patched(mutant.edits):
        for seed in seeds(mutant.name, SEEDS_MAX):
            found = check_first_logins(mutant.profile, seed).wrong
            wrong = [each for each in found if each.startswith(mutant.name[:2])]
            if wrong:
                print(f"{mutant.name} {mutant.profile} {seed}: {wrong[0]}")
                return
    pytest.fail(f"{mutant.name} survived {SEEDS_MAX} seeds: {mutant.breach}")
