"""The threads that rewrite ranges of a store that is far away."""

import itertools
import random
import threading
from typing import Any

import pytest

from graveler.assembly import drivers
from graveler.assembly.drivers import RewriterThreads, WriteThreads
from graveler.block.memory import MemoryBlocks
from graveler.committed import apply, reader, writer
from graveler.committed.apply import ApplyResult
from graveler.committed.memory import MemoryRangeStore
from graveler.committed.ranges import Keyspace
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import StoredFiles
from graveler.core.clock import SystemClock
from graveler.core.errors import Unavailable
from graveler.core.records import TOMBSTONE, BreakParameters, Change, Record
from tests.committed.stores import NAMESPACE, value
from tests.waiting import PATIENCE_SECONDS

BREAKS = BreakParameters(raggedness=100, salt=b"s")
RECORDS: list[Record] = [(b"k%05d" % number, value(number % 7)) for number in range(5_000)]
CHANGES: list[Change] = [(key, value(8)) for key, _ in RECORDS[::50]]


def space_of(blocks: MemoryBlocks) -> Keyspace:
    """A keyspace with caches of its own."""
    store: SstRangeStore = SstRangeStore(
        StoredFiles(blocks), rewriters=RewriterThreads(lambda: store, 4), waiters=WriteThreads(4)
    )
    return Keyspace(store, NAMESPACE, BREAKS)


def expected(changes: list[Change]) -> ApplyResult:
    """What one thread makes of it."""
    alone = Keyspace(MemoryRangeStore(), NAMESPACE, BREAKS)
    return apply.apply(alone, writer.write(alone, RECORDS), changes)


def test_the_result_is_that_of_one_thread() -> None:
    seed = random.randrange(1 << 30)
    print(f"{seed=}")
    chance = random.Random(seed)
    blocks = MemoryBlocks(SystemClock())
    base = writer.write(space_of(blocks), RECORDS)
    for _ in range(8):
        keys = sorted(chance.sample([key for key, _ in RECORDS], chance.choice((40, 400, 2_000))))
        kinds = TOMBSTONE, value(8), value(9)
        changes: list[Change] = [(key, chance.choice(kinds)) for key in keys]
        done = apply.apply(space_of(blocks), base, changes)
        assert done == expected(changes)
        found = [record for record in reader.scan(space_of(blocks), done.metarange_id)]
        kept = dict(RECORDS) | dict(changes)
        assert found == [(key, new) for key, new in sorted(kept.items()) if new is not TOMBSTONE]


def test_ranges_are_read_at_a_time() -> None:
    numbers, both = itertools.count(1), threading.Barrier(2)

    class Far(MemoryBlocks):
        def read(self, *arguments: Any, **named: Any) -> bytes:
            if threading.current_thread().name.startswith("rewrites") and next(numbers) <= 2:
                both.wait(PATIENCE_SECONDS)
            return super().read(*arguments, **named)

    blocks = Far(SystemClock())
    base = writer.write(space_of(blocks), RECORDS)
    assert apply.apply(space_of(blocks), base, CHANGES) == expected(CHANGES)
    assert next(numbers) > 2


def test_what_fails_in_a_thread_is_done_again() -> None:
    class Failing(MemoryBlocks):
        def read(self, *arguments: Any, **named: Any) -> bytes:
            if threading.current_thread().name.startswith("rewrites"):
                raise Unavailable("no answer")
            return super().read(*arguments, **named)

    blocks = Failing(SystemClock())
    base = writer.write(space_of(blocks), RECORDS)
    assert apply.apply(space_of(blocks), base, CHANGES) == expected(CHANGES)


def test_who_waits_for_a_thread_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivers, "_LOOK_SECONDS", 0.01)
    ended, begun = threading.Event(), threading.Event()

    class Hanging(MemoryBlocks):
        def read(self, *arguments: Any, **named: Any) -> bytes:
            if threading.current_thread().name.startswith("rewrites"):
                begun.set()
                assert ended.wait(PATIENCE_SECONDS)
            return super().read(*arguments, **named)

    def check() -> None:
        if begun.is_set():
            raise Unavailable("the time is over")

    blocks = Hanging(SystemClock())
    base = writer.write(space_of(blocks), RECORDS)
    with pytest.raises(Unavailable, match="the time is over"):
        apply.apply(space_of(blocks)._replace(check=check), base, CHANGES)
    ended.set()


def test_long_ranges_are_rewritten_by_the_commit_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivers, "REWRITE_BYTES_MAX", 1)

    class Near(MemoryBlocks):
        def read(self, *arguments: Any, **named: Any) -> bytes:
            assert not threading.current_thread().name.startswith("rewrites")
            return super().read(*arguments, **named)

    blocks = Near(SystemClock())
    base = writer.write(space_of(blocks), RECORDS)
    assert apply.apply(space_of(blocks), base, CHANGES) == expected(CHANGES)
