"""Canaries: stores with one fault each, which the contract suite has to notice."""

import inspect
import threading
from collections.abc import Callable, Sequence

import pytest

from graveler.kv.memory import MemoryStore
from graveler.kv.store import (
    ABSENT,
    WRITTEN,
    Condition,
    Declined,
    Matches,
    Outcome,
    ScanPage,
    Write,
    check_write,
)
from tests.support.kv_oracle import compare_at_random
from tests.support.kv_suite import KvSuite


class PageRepeatsItsLastKey(MemoryStore):
    def scan(self, partition: bytes, start: bytes, end: bytes, limit: int) -> ScanPage:
        if start.endswith(b"\0") and limit > 1:  # with pages of one row it would never end
            start = start[:-1]
        return super().scan(partition, start, end, limit)


class EndIsIncluded(MemoryStore):
    def scan(self, partition: bytes, start: bytes, end: bytes, limit: int) -> ScanPage:
        return super().scan(partition, start, end + b"\0" if end else end, limit)


class MoreIsForgotten(MemoryStore):
    def scan(self, partition: bytes, start: bytes, end: bytes, limit: int) -> ScanPage:
        return super().scan(partition, start, end, limit)._replace(more=False)


class EqualOrderWins(MemoryStore):
    def set_newer(
        self, partition: bytes, key: bytes, value: bytes, version: bytes, order: int
    ) -> Outcome:
        row = self.get(partition, key)
        if row is not ABSENT and row.order == order:
            return self.set_if(partition, key, value, version, Matches(row.version), order)
        return super().set_newer(partition, key, value, version, order)


class SpoiledCondition(MemoryStore):
    """What the faults of `set_if` share."""

    def set_if(
        self,
        partition: bytes,
        key: bytes,
        value: bytes,
        version: bytes,
        condition: Condition,
        order: int = 0,
    ) -> Outcome:
        outcome = super().set_if(partition, key, value, version, condition, order)
        return self.spoil(outcome, Write(partition, key, value, version))

    def spoil(self, outcome: Outcome, write: Write) -> Outcome:
        return outcome


class RefusalShowsNothing(SpoiledCondition):
    def spoil(self, outcome: Outcome, write: Write) -> Outcome:
        return outcome if outcome is WRITTEN else Declined(ABSENT)


class RefusalLeavesATrace(SpoiledCondition):
    def spoil(self, outcome: Outcome, write: Write) -> Outcome:
        if outcome is not WRITTEN:
            self.set(*write)
        return outcome


class OrderIsForgotten(SpoiledCondition):
    def spoil(self, outcome: Outcome, write: Write) -> Outcome:
        if outcome is WRITTEN:
            self.set(*write)
        return outcome


class CheckedThenSet(MemoryStore):
    def set_if(
        self,
        partition: bytes,
        key: bytes,
        value: bytes,
        version: bytes,
        condition: Condition,
        order: int = 0,
    ) -> Outcome:
        check_write(partition, key, value)
        row = self.get(partition, key)
        if (row if row is ABSENT else Matches(row.version)) != condition:
            return Declined(row)
        threading.Event().wait(0.0001)  # somebody else has a turn
        self.set(partition, key, value, version)
        return WRITTEN


class PartitionsMix(MemoryStore):
    def set(self, partition: bytes, key: bytes, value: bytes, version: bytes) -> None:
        super().set(partition, key, value, version)
        if partition == b"p\0":
            super().set(b"p", b"\0" + key, value, version)


class DeleteStopsAtAnAbsentRow(MemoryStore):
    def delete(
        self, partition: bytes, keys: Sequence[bytes], versions: Sequence[bytes] = ()
    ) -> None:
        for number, key in enumerate(keys):
            if self.get(partition, key) is ABSENT:
                return
            super().delete(partition, [key], versions[number : number + 1])


class VersionsAreIgnored(MemoryStore):
    def delete(
        self, partition: bytes, keys: Sequence[bytes], versions: Sequence[bytes] = ()
    ) -> None:
        super().delete(partition, keys)


class LimitsAreIgnored(MemoryStore):
    def get(self, partition, key):  # type: ignore[no-untyped-def]
        return super().get(partition or b"-", key[:1_000] or b"-")


FAULTS = [
    PageRepeatsItsLastKey,
    EndIsIncluded,
    MoreIsForgotten,
    EqualOrderWins,
    RefusalShowsNothing,
    RefusalLeavesATrace,
    OrderIsForgotten,
    CheckedThenSet,
    PartitionsMix,
    DeleteStopsAtAnAbsentRow,
    VersionsAreIgnored,
    LimitsAreIgnored,
]


def _plain_tests() -> list[Callable[[KvSuite, MemoryStore], None]]:
    """The tests of the suite that need nothing but a store."""
    tests = inspect.getmembers(KvSuite, inspect.isfunction)
    return [
        test
        for name, test in tests
        if name.startswith("test_")
        and len(inspect.signature(test).parameters) == 2
        and "sorted_dictionary" not in name
    ]


def _noticed(make: type[MemoryStore]) -> bool:
    tests = _plain_tests()
    assert len(tests) > 10
    for test in tests:
        try:
            test(KvSuite(), make())
        except (AssertionError, pytest.fail.Exception):
            return True
    return False


@pytest.mark.parametrize("fault", FAULTS)
def test_the_suite_notices(fault: type[MemoryStore]) -> None:
    assert _noticed(fault)


def test_the_suite_accepts_the_reference() -> None:
    assert not _noticed(MemoryStore)


@pytest.mark.parametrize(
    "fault", [f for f in FAULTS if f not in (LimitsAreIgnored, CheckedThenSet)]
)
def test_random_programs_notice_and_name_the_seed(fault: type[MemoryStore]) -> None:
    with pytest.raises(AssertionError) as raised:
        compare_at_random(fault(), seed=1, steps=20_000)
    assert "seed=1" in raised.value.__notes__[0]


def test_a_seed_replays() -> None:
    stores = [MemoryStore(), MemoryStore()]
    for store in stores:
        compare_at_random(store, seed=11, steps=500)
    pages = [store.scan(b"p", b"", b"", 1_000) for store in stores]
    assert pages[0] == pages[1]
    assert pages[0].rows
