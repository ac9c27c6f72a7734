"""Rounds of clean-up: every repository once, from a place that chance draws, within the time."""

from dataclasses import replace

import pytest

from graveler import assembly
from graveler.engine import janitor, repository, rounds
from graveler.engine.ports import Ports
from graveler.errors import Unavailable
from graveler.records import Repository
from graveler.testing.clockwork import SeededIds, TickingClock
from tests.engine.lake import Lake

NAMES = ("aaa", "fff", "mmm", "vvv", "zzz")
HOUR = 3600


class Round:
    """Five repositories with something to clean up; which of them the janitor came to."""

    def __init__(self, patch: pytest.MonkeyPatch, seed: int) -> None:
        self.clock = TickingClock()
        self.ports = assembly.open_memory(self.clock, SeededIds(seed))
        self.seen: list[str] = []
        self.down: set[str] = set()
        for name in NAMES:
            new = repository.NewRepository(name, f"mem://bucket/{name}")
            lake = Lake(self.ports, repository.create(self.ports, new))
            lake.commit_of(a="1")
        sweep = janitor.sweep

        def noted(ports: Ports, repo: Repository) -> janitor.Swept:
            self.seen.append(repo.id)
            self.clock.sleep(1)
            if repo.id in self.down:
                raise Unavailable("down")
            return sweep(ports, repo)

        patch.setattr(janitor, "sweep", noted)


class LastIds(SeededIds):
    """Chance that draws the last place of all."""

    def unique(self, length: int) -> str:
        return "~" * length


@pytest.mark.parametrize("seed", range(8))
def test_each_repository_has_its_turn_once(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    world = Round(monkeypatch, seed)
    found = rounds.tend_all(world.ports, HOUR)
    assert sorted(world.seen) == list(NAMES)
    assert (found.repositories, found.failed, found.whole) == (len(NAMES), 0, True)
    assert found.tokens_waiting == len(NAMES) and found.rows == 0
    rows = 0
    for _ in range(4):  # a token is condemned first, and deleted by a later round
        world.clock.sleep(40 * HOUR)
        rows += rounds.tend_all(world.ports, HOUR).rows
    assert rows >= len(NAMES)


def test_a_token_that_is_condemned_waits_before_its_rows_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = Round(monkeypatch, 1)
    world.clock.sleep(40 * HOUR)
    found = [rounds.tend_all(world.ports, HOUR) for _ in range(2)]
    assert [each.rows for each in found] == [0, 0]
    assert [each.tokens_waiting for each in found] == [len(NAMES)] * 2
    world.clock.sleep(40 * HOUR)
    assert rounds.tend_all(world.ports, HOUR).rows == len(NAMES)


def test_rounds_begin_at_different_repositories(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Round(monkeypatch, 1)
    for _ in range(40):
        rounds.tend_all(world.ports, HOUR)
    assert len(set(world.seen[:: len(NAMES)])) > 1


def test_a_round_ends_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Round(monkeypatch, 1)
    found = rounds.tend_all(world.ports, 2.5)
    assert (found.repositories, found.whole) == (3, False) and len(world.seen) == 3


def test_a_repository_whose_store_is_down_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Round(monkeypatch, 1)
    world.down = {"mmm", "zzz"}
    found = rounds.tend_all(world.ports, HOUR)
    assert sorted(world.seen) == list(NAMES)
    assert (found.repositories, found.failed, found.whole) == (3, 2, True)


def test_a_round_that_begins_behind_the_last_repository_has_them_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = Round(monkeypatch, 1)
    world.ports = replace(world.ports, ids=LastIds(1))
    assert rounds.tend_all(world.ports, HOUR).whole and world.seen == list(NAMES)
