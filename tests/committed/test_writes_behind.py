"""Many ranges are written while their writer goes on; it ends when all are stored."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from graveler.assembly.drivers import WriteThreads
from graveler.assembly.memory import open_memory
from graveler.block.adapter import ObjectHead
from graveler.block.memory import MemoryBlocks
from graveler.committed import reader, writer
from graveler.committed.memory import MemoryRangeStore
from graveler.committed.ranges import Keyspace
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import StoredFiles
from graveler.core import identity
from graveler.core.clock import SystemClock
from graveler.core.errors import StorageFull, Unavailable
from graveler.core.ids import MetarangeId
from graveler.core.records import BreakParameters, Record
from graveler.jobs.task import beating
from tests.committed.stores import NAMESPACE, value
from tests.waiting import until

RECORDS: list[Record] = [(b"%06d" % at, value(at)) for at in range(3_000)]
BREAKS = BreakParameters(raggedness=100, salt=b"behind")


class Gate(MemoryBlocks):
    """Lets the first puts through, and holds the others until it is opened."""

    def __init__(self, free: int) -> None:
        super().__init__(SystemClock())
        self.opened = threading.Event()
        self.names: list[str] = []
        self._free = threading.Semaphore(free)

    def put(self, address: str, body: Iterable[bytes], *more: Any, **named: Any) -> ObjectHead:
        if not self._free.acquire(blocking=False):
            assert self.opened.wait(60)
        head = super().put(address, body, *more, **named)
        self.names.append(address.rpartition("/")[2])
        return head


def space_of(blocks: MemoryBlocks) -> Keyspace:
    store = SstRangeStore(StoredFiles(blocks), is_near=True, waiters=WriteThreads(4))
    return Keyspace(store, NAMESPACE, BREAKS)


def test_the_metarange_comes_after_all_of_its_ranges() -> None:
    blocks = Gate(free=2)
    space = space_of(blocks)
    made: list[MetarangeId] = []
    writing = threading.Thread(target=lambda: made.append(writer.write(space, iter(RECORDS))))
    writing.start()
    until(lambda: len(blocks.names) == 2, "the first ranges are stored")
    assert not made
    blocks.opened.set()
    writing.join(60)
    expected = writer.write(space._replace(store=MemoryRangeStore()), RECORDS)
    assert made == [expected]
    refs = reader.ranges(space, expected)
    assert len(refs) > 12
    assert blocks.names[-1] == expected
    assert set(blocks.names[:-1]) == {ref.id for ref in refs}
    assert list(reader.scan(space_of(blocks), expected)) == RECORDS


@pytest.mark.parametrize("at", [1, 5, 20])
def test_a_range_that_is_not_stored_ends_the_write(at: int) -> None:
    class Full(MemoryBlocks):
        puts = 0

        def put(self, *arguments: Any, **named: Any) -> ObjectHead:
            self.puts += 1
            if self.puts == at:
                raise StorageFull("no room is left")
            return super().put(*arguments, **named)

    blocks = Full(SystemClock())
    with pytest.raises(StorageFull):
        writer.write(space_of(blocks), iter(RECORDS))
    again = writer.write(space_of(blocks), iter(RECORDS))
    assert list(reader.scan(space_of(blocks), again)) == RECORDS


@pytest.mark.parametrize(("length", "most"), [(100, 8), (6 << 20, 2), (20 << 20, 0)])
def test_few_long_ranges_wait_in_memory(length: int, most: int) -> None:
    """Nothing is stored before the writer waits for it.  It begins one range more than may wait."""
    blocks = Gate(free=2)
    begun: list[Callable[[], object]] = []
    seen: list[int] = []

    class Watched(WriteThreads):
        def begin(self, write: Callable[[], object]) -> Callable[[], object]:
            end = super().begin(write)
            begun.append(end)

            def awaited() -> object:
                seen.append(len(begun))
                blocks.opened.set()
                return end()

            return awaited

    store = SstRangeStore(StoredFiles(blocks), is_near=True, waiters=Watched(4))
    breaks = BreakParameters(max_size=1, raggedness=1, salt=b"behind")
    framed = identity.frame(bytes(32), bytes(length))
    records = [(b"%06d" % at, framed) for at in range(most + 4)]
    writer.write(Keyspace(store, NAMESPACE, breaks), records)
    assert seen[0] == most + 1


def test_who_times_a_write_is_asked_before_each_range() -> None:
    """Also before those that are stored behind: a deadline ends the write among its ranges."""
    space, asked = space_of(MemoryBlocks(SystemClock())), list[int]()

    def check() -> None:
        asked.append(1)
        if len(asked) > 10:
            raise Unavailable("the time is over")

    timed = beating(replace(open_memory(), ranges=space.store), check).ranges
    with pytest.raises(Unavailable):
        writer.write(space._replace(store=timed), iter(RECORDS))
    assert len(asked) == 11
