"""Folders of new objects: renewed by the hour and by count, for each owner on its own."""

from collections import Counter

from graveler.block.address import Partitions
from graveler.core.clock import SystemClock
from tests.support.clockwork import SeededIds

HOUR_NS = 3_600 * 1_000_000_000


class Clock(SystemClock):
    """Time as a test sets it."""

    def __init__(self) -> None:
        self.now = 500_000 * HOUR_NS

    def now_ns(self) -> int:
        return self.now


def folders(partitions: Partitions, clock: Clock, count: int, owner: str = "uid") -> list[str]:
    """The folders of some new objects."""
    ids = SeededIds(len(owner))
    names = [partitions.new_address(clock, ids, owner) for _ in range(count)]
    assert len(set(names)) == count
    return [name.rsplit("/", 1)[0] for name in names]


def test_no_folder_has_more_objects_than_it_may() -> None:
    found = folders(Partitions(10), Clock(), 95)
    assert sorted(Counter(found).values()) == [5] + [10] * 9
    assert found == sorted(found, key=found.index)  # one after the other


def test_processes_share_the_first_folder_of_an_hour() -> None:
    clock = Clock()
    assert folders(Partitions(10), clock, 9) == folders(Partitions(10), clock, 9)


def test_a_new_hour_has_folders_of_its_own_before_those_of_older_ones() -> None:
    clock, partitions = Clock(), Partitions(10)
    older = folders(partitions, clock, 15)
    clock.now += HOUR_NS
    newer = folders(partitions, clock, 15)
    assert max(newer) < min(older)
    assert len(set(newer)) == 2


def test_owners_are_counted_apart() -> None:
    clock, partitions = Clock(), Partitions(10)
    for owner in map(str, range(2_000)):
        assert len(set(folders(partitions, clock, 3, owner))) == 1
    assert len(set(folders(partitions, clock, 11))) == 2
