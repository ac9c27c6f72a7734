"""Garbage collection beside everybody else, under random schedules.

A failure prints profile and seed.
"""

import pytest

from simulator.gc.run import PROFILES
from simulator.gc.run import check_collect_seed as check
from simulator.gc.stage import CollectStage, build_collect_stage

SEEDS = 60


@pytest.fixture(scope="module")
def stage() -> CollectStage:
    return build_collect_stage()


@pytest.mark.parametrize("profile", PROFILES)
def test_nothing_in_use_is_deleted_and_nothing_else_stays(
    stage: CollectStage, profile: str
) -> None:
    deleted = 0
    for seed in range(SEEDS):
        run = check(stage, profile, seed)
        assert not run.wrong, f"{profile} {seed}: {run.wrong}"
        deleted += run.deleted
    assert deleted > SEEDS  # it does delete
