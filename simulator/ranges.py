"""Ranges in memory that are cached over runs.

Simulated runs write the same files again and again.  For tests only.
"""

from collections.abc import Iterator, Sequence

from graveler.committed.columns import Columns
from graveler.committed.memory import MemoryChunk, MemoryRangeStore, MemoryTable
from graveler.ids import MetarangeId
from graveler.records import RangeRef, Record

_FILES_KEPT = 50_000


class RememberedTable(MemoryTable):
    """A range that makes its chunks once."""

    def __init__(self, records: Sequence[Record]) -> None:
        super().__init__(records)
        self._chunks = list(super().chunks())

    def chunks(self, start: bytes = b"", *, streaming: bool = True) -> Iterator[MemoryChunk]:
        return iter([chunk for chunk in self._chunks if chunk.bound >= start])


class RememberedRanges(MemoryRangeStore):
    """Files in memory; a file that an earlier run wrote is not made again."""

    def __init__(self) -> None:
        super().__init__()
        self._written: dict[tuple[Record, ...], RangeRef] = {}
        self._described: dict[tuple[RangeRef, ...], MetarangeId] = {}

    def splice_range(self, namespace: str, run: Sequence[Columns]) -> RangeRef:
        records = tuple(record for columns in run for record in columns.records)
        known = self._written.get(records)
        if known is None:
            if len(self._written) > _FILES_KEPT:
                self._written.clear()
            known = self._written[records] = super().splice_range(namespace, run)
            self.ranges[namespace, known.id] = RememberedTable(records)
        return known

    def write_metarange(self, namespace: str, ranges: Sequence[RangeRef]) -> MetarangeId:
        key = tuple(ranges)
        known = self._described.get(key)
        if known is None:
            if len(self._described) > _FILES_KEPT:
                self._described.clear()
            known = self._described[key] = super().write_metarange(namespace, ranges)
        return known
