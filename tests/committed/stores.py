"""Stores for the tests of this folder, and records to put into them."""

import random
from collections.abc import Sequence
from pathlib import Path

from graveler.block.memory import MemoryBlocks
from graveler.committed.columns import Columns
from graveler.committed.memory import MemoryRangeStore, MemoryTable
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import StoredFiles
from graveler.core import identity
from graveler.core.clock import SystemClock
from graveler.core.ids import RangeId
from graveler.core.records import RangeRef, Record

NAMESPACE = "mem://tests/repository"


def memory_blocks() -> MemoryBlocks:
    """Fresh block storage."""
    return MemoryBlocks(SystemClock())


def sst_store(scratch: Path, blocks: MemoryBlocks | None = None) -> SstRangeStore:
    """A store of tables in block storage in memory."""
    return SstRangeStore(StoredFiles(blocks or memory_blocks()))


class CountingStore(MemoryRangeStore):
    """Remembers which ranges were opened and written."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[RangeId] = []
        self.written: list[RangeId] = []

    def open_range(self, namespace: str, range_id: RangeId) -> MemoryTable:
        self.opened.append(range_id)
        return super().open_range(namespace, range_id)

    def splice_range(self, namespace: str, run: Sequence[Columns]) -> RangeRef:
        ref = super().splice_range(namespace, run)
        self.written.append(ref.id)
        return ref

    def forget(self) -> None:
        """Count from here."""
        self.opened.clear()
        self.written.clear()


def value(content: int, address: int = 0) -> bytes:
    """A framed value whose identity is `content`'s."""
    return identity.frame(b"%032d" % content, b"at %d" % address)


def some_records(generator: random.Random, count: int, space: int = 400) -> dict[bytes, bytes]:
    """Keys of a small key space, few different contents."""
    return {key(generator, space): value(generator.randrange(4)) for _ in range(count)}


def key(generator: random.Random, space: int = 400) -> bytes:
    """One of `space` keys."""
    return b"k%04d" % generator.randrange(space)


def sorted_records(records: dict[bytes, bytes]) -> list[Record]:
    """In key order."""
    return sorted(records.items())
