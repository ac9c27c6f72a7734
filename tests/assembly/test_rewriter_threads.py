"""The threads that rewrite ranges of a store that is far away."""

import itertools
import random
import statistics
import threading
from dataclasses import replace
from typing import Any

import pytest

from graveler.assembly import drivers
from graveler.assembly.drivers import RewriterThreads, WriteThreads
from graveler.assembly.memory import open_memory
from graveler.block.adapter import ObjectHead
from graveler.block.address import range_file
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
from graveler.jobs.task import beating
from tests.committed.stores import NAMESPACE, value
from tests.waiting import PATIENCE_SECONDS

BREAKS = BreakParameters(raggedness=100, salt=b"s")
RECORDS: list[Record] = [(b"k%05d" % number, value(number % 7)) for number in range(5_000)]
CHANGES: list[Change] = [(key, value(8)) for key, _ in RECORDS[::50]]


def space_of(blocks: MemoryBlocks, size_max: int = 1 << 30) -> Keyspace:
    """A keyspace with caches of its own."""
    rewriters = RewriterThreads(lambda: store, size_max, threads=4)
    store: SstRangeStore = SstRangeStore(
        StoredFiles(blocks), rewriters=rewriters, waiters=WriteThreads(4)
    )
    return Keyspace(store, NAMESPACE, BREAKS)


def alone(blocks: MemoryBlocks) -> Keyspace:
    """A keyspace whose commits have one thread."""
    return Keyspace(SstRangeStore(StoredFiles(blocks)), NAMESPACE, BREAKS)


def is_a_thread() -> bool:
    """Whether this is one of the threads."""
    return threading.current_thread().name.startswith("rewrites")


class Counting(MemoryBlocks):
    """Counts puts, and the ranges that threads open."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.puts, self.opened = 0, set[str]()

    def put(self, *arguments: Any, **named: Any) -> ObjectHead:
        self.puts += 1
        return super().put(*arguments, **named)

    def read(self, address: str, *arguments: Any, **named: Any) -> bytes:
        if is_a_thread():
            self.opened.add(address)
        return super().read(address, *arguments, **named)


def expected(changes: list[Change]) -> ApplyResult:
    """What one thread makes of it."""
    space = Keyspace(MemoryRangeStore(), NAMESPACE, BREAKS)
    return apply.apply(space, writer.write(space, RECORDS), changes)


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
        found = list(reader.scan(space_of(blocks), done.metarange_id))
        kept = dict(RECORDS) | dict(changes)
        assert found == [(key, new) for key, new in sorted(kept.items()) if new is not TOMBSTONE]


def test_ranges_are_read_at_a_time() -> None:
    numbers, both = itertools.count(1), threading.Barrier(2)

    class Far(MemoryBlocks):
        def read(self, *arguments: Any, **named: Any) -> bytes:
            if is_a_thread() and next(numbers) <= 2:
                both.wait(PATIENCE_SECONDS)
            return super().read(*arguments, **named)

    blocks = Far(SystemClock())
    base = writer.write(space_of(blocks), RECORDS)
    assert apply.apply(space_of(blocks), base, CHANGES) == expected(CHANGES)
    assert next(numbers) > 2


def test_what_fails_in_a_thread_is_done_again() -> None:
    failed: list[int] = []

    class Failing(MemoryBlocks):
        def read(self, *arguments: Any, **named: Any) -> bytes:
            if is_a_thread():
                failed.append(1)
                raise Unavailable("no answer")
            return super().read(*arguments, **named)

    blocks = Failing(SystemClock())
    base = writer.write(space_of(blocks), RECORDS)
    assert apply.apply(space_of(blocks), base, CHANGES) == expected(CHANGES)
    assert failed


@pytest.mark.parametrize("is_beating", [False, True])
def test_who_waits_for_a_thread_can_be_stopped(
    monkeypatch: pytest.MonkeyPatch, is_beating: bool
) -> None:
    """By the keyspace's own check, and by who times the ports."""
    monkeypatch.setattr(drivers, "_LOOK_SECONDS", 0.01)
    ended, begun, looks = threading.Event(), threading.Event(), list[int]()

    class Hanging(MemoryBlocks):
        def read(self, *arguments: Any, **named: Any) -> bytes:
            if is_a_thread():
                begun.set()
                assert ended.wait(PATIENCE_SECONDS)
            return super().read(*arguments, **named)

    def check() -> None:
        if begun.is_set():
            looks.append(1)
            if len(looks) > 100:  # more than there are ranges
                raise Unavailable("the time is over")

    blocks = Hanging(SystemClock())
    base = writer.write(space_of(blocks), RECORDS)
    space = space_of(blocks)
    if is_beating:
        timed = beating(replace(open_memory(), ranges=space.store), check).ranges
        space = space._replace(store=timed)
    else:
        space = space._replace(check=check)
    try:
        with pytest.raises(Unavailable, match="the time is over"):
            apply.apply(space, base, CHANGES)
    finally:
        ended.set()


def test_long_ranges_are_left_to_the_commit_and_the_others_to_threads() -> None:
    blocks = Counting()
    base = writer.write(space_of(blocks), RECORDS)
    refs = reader.ranges(space_of(blocks), base)
    size_max = statistics.median(ref.size for ref in refs)
    space = space_of(blocks, int(size_max))
    assert apply.apply(space, base, CHANGES) == expected(CHANGES)
    long = {range_file(NAMESPACE, ref.id) for ref in refs if ref.size > size_max}
    assert len(blocks.opened) > 5
    assert not blocks.opened & long


def test_no_range_is_written_twice_because_records_were_deleted() -> None:
    """A range that loses its last record joins the next one."""
    deleted: list[Change] = [(key, TOMBSTONE) for key, _ in RECORDS[1::2]]
    puts: list[int] = []
    for space in (space_of, alone):
        blocks = Counting()
        base = writer.write(space(blocks), RECORDS)
        blocks.puts = 0
        assert apply.apply(space(blocks), base, deleted) == expected(deleted)
        puts.append(blocks.puts)
    assert puts[0] == puts[1]
