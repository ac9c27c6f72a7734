"""Rounds of clean-up: every repository once, from a place that chance draws, within the time."""

import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from graveler import assembly
from graveler.core import limits
from graveler.core.errors import Unavailable
from graveler.core.ids import BranchId
from graveler.engine import janitor
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from graveler.kv.memory import MemoryStore
from graveler.kv.store import ScanPage
from graveler.refs import cleanups
from graveler.refs.keys import CLEANUPS, space
from graveler.staging import area
from tests.engine.lake import Lake
from tests.engine.overridden import Overridden
from tests.support.clockwork import SeededIds, TickingClock

NAMES = ("aaa", "fff", "mmm", "vvv", "zzz")
HOUR = 3600


class Round:
    """Five repositories with something to clean up; which of them the janitor came to."""

    def __init__(self, seed: int) -> None:
        self.clock = TickingClock()
        ports = assembly.open_memory(self.clock, SeededIds(seed))
        self.seen: list[str] = []
        self.down: set[str] = set()
        self._names: dict[bytes, str] = {}
        self._kv = ports.kv
        for name in NAMES:
            new = repository.NewRepository(name, f"mem://bucket/{name}")
            lake = Lake(ports, repository.create(ports, new))
            self._names[space(lake.repo)] = name
            lake.commit_of(a="1")
        kv: Any = Overridden(ports.kv, scan=self._scan)
        self.ports = replace(ports, kv=kv)

    def _scan(self, partition: bytes, start: bytes, end: bytes, limit: int) -> ScanPage:
        """A sweep begins with the clean-up records; each takes a second."""
        name = self._names.get(partition, "")
        if name and start.startswith(CLEANUPS):
            self.seen.append(name)
            self.clock.sleep(1)
            if name in self.down:
                raise Unavailable("down")
        return self._kv.scan(partition, start, end, limit)


class LastIds(SeededIds):
    """Chance that draws the last place of all."""

    def unique(self, length: int) -> str:
        return "~" * length


@pytest.mark.parametrize("seed", range(8))
def test_each_repository_has_its_turn_once(seed: int) -> None:
    world = Round(seed)
    found = janitor.tend_all(world.ports, HOUR)
    assert sorted(world.seen) == list(NAMES)
    assert (found.repositories, found.failed, found.whole) == (len(NAMES), 0, True)
    assert found.tokens_waiting == len(NAMES) and found.rows == 0
    rows = 0
    for _ in range(4):  # a token is condemned first, and deleted by a later round
        world.clock.sleep(40 * HOUR)
        rows += janitor.tend_all(world.ports, HOUR).rows
    assert rows >= len(NAMES)


def test_a_token_that_is_condemned_waits_before_its_rows_go() -> None:
    world = Round(1)
    world.clock.sleep(40 * HOUR)
    found = [janitor.tend_all(world.ports, HOUR) for _ in range(2)]
    assert [each.rows for each in found] == [0, 0]
    assert [each.tokens_waiting for each in found] == [len(NAMES)] * 2
    world.clock.sleep(40 * HOUR)
    assert janitor.tend_all(world.ports, HOUR).rows == len(NAMES)


def test_rounds_begin_at_different_repositories() -> None:
    world = Round(1)
    for _ in range(40):
        janitor.tend_all(world.ports, HOUR)
    assert len(set(world.seen[:: len(NAMES)])) > 1


def test_a_round_ends_when_its_time_is_over() -> None:
    world = Round(1)
    found = janitor.tend_all(world.ports, 2.5)
    assert (found.repositories, found.whole) == (3, False) and len(world.seen) == 3


def test_a_repository_whose_store_is_down_is_passed_over() -> None:
    world = Round(1)
    world.down = {"mmm", "zzz"}
    found = janitor.tend_all(world.ports, HOUR)
    assert sorted(world.seen) == list(NAMES)
    assert (found.repositories, found.failed, found.whole) == (3, 2, True)


def test_a_round_that_begins_behind_the_last_repository_has_them_all() -> None:
    world = Round(1)
    world.ports = replace(world.ports, ids=LastIds(1))
    assert janitor.tend_all(world.ports, HOUR).whole and world.seen == list(NAMES)


ROWS = 3_500


class Slow(MemoryStore):
    """Takes a second for each batch that it deletes."""

    def __init__(self, clock: TickingClock) -> None:
        super().__init__()
        self.clock = clock

    def delete(
        self, partition: bytes, keys: Sequence[bytes], versions: Sequence[bytes] = ()
    ) -> None:
        self.clock.sleep(1)
        super().delete(partition, keys, versions)


def _lake_of_many_rows() -> tuple[Lake, TickingClock]:
    """Two tokens whose rows are due; the younger has one."""
    clock = TickingClock()
    ports = replace(assembly.open_memory(clock, SeededIds(1)), kv=Slow(clock))
    lake = Lake(ports, repository.create(ports, repository.NewRepository("lake", "mem://b/lake")))
    for number in range(ROWS):
        lake.put(f"{number:05}", "1")
    lake.commit()
    lake.commit_of(last="2")
    clock.sleep(40 * HOUR)
    assert janitor.tend_all(ports, HOUR).rows == 0  # condemned
    clock.sleep(40 * HOUR)
    return lake, clock


def test_a_round_ends_in_the_middle_of_a_repository_and_the_next_goes_on() -> None:
    lake, clock = _lake_of_many_rows()
    found = []
    while not found or not found[-1].whole:
        begun = clock.steady_seconds()
        found.append(janitor.tend_all(lake.ports, 2))
        assert clock.steady_seconds() - begun < 3
    assert [each.rows for each in found] == [2_000, 1_500, 1, 0]
    assert [each.tokens_waiting for each in found] == [1, 1, 1, 0]


def test_a_round_forgets_so_many_records_of_a_kind() -> None:
    clock = TickingClock()
    ports = assembly.open_memory(clock, SeededIds(1))
    repo = repository.create(ports, repository.NewRepository("lake", "mem://b/lake"))
    lake = Lake(ports, repo).with_settings(sweep_records_count_max=2)
    for number in range(5):
        lake.commit_of(a=f"{number}")
    clock.sleep(40 * HOUR)
    assert [janitor.sweep(lake.opened).folds for _ in range(4)] == [2, 2, 1, 0]


def test_a_sweep_holds_a_page_of_records_however_many_wait() -> None:
    clock = TickingClock()
    ports = assembly.open_memory(clock, SeededIds(3))
    repo = repository.create(ports, repository.NewRepository("lake", "mem://bucket/lake"))
    due_ns = clock.now_ns() + HOUR * limits.SECOND_NS
    count = 20_000
    for _ in range(0, count, 1_000):
        tokens = [area.new_token(clock, ports.ids, 1) for _ in range(1_000)]
        writes = cleanups.cleanup_writes(repo, BranchId("main"), tokens, due_ns, ports.ids)
        ports.kv.set_many(writes)
    tracemalloc.start()
    try:
        assert janitor.sweep(open_repository(ports, repo)).waiting == count
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200 * count, "all records were held at once"
