"""A range store in memory: the reference implementation of the contract, and the fake for tests.

Safe for any number of threads, because stored ranges never change.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from graveler.committed import seal
from graveler.committed.columns import Columns
from graveler.committed.ranges import (
    EMPTY_METARANGE,
    METARANGE_PROPERTIES,
    NO_RANGES,
    RANGE_PROPERTIES,
    Metarange,
    Rewrite,
    Rewriting,
    check_ranges,
    check_run,
    ref_of,
)
from graveler.core import wire
from graveler.core.errors import NotFound
from graveler.core.ids import MetarangeId, RangeId
from graveler.core.records import ABSENT, Absent, BreakParameters, RangeRef, Record

_CHUNK = 32  # records


class MemoryChunk:
    """Some adjacent records."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records
        self.bound = records[-1][0]
        self.stored = seal.file_id(records, {}).encode()

    def records(self) -> list[Record]:
        return list(self._records)

    def columns(self) -> Columns:
        keys, values = zip(*self._records, strict=True)
        return Columns(keys, values, self)


class MemoryTable:
    """A range as a list."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = tuple(records)
        self._keys = [key for key, _ in records]
        self.count = len(records)
        self.marks: Mapping[str, str] = {}

    def get(self, key: bytes) -> bytes | Absent:
        at = bisect_left(self._keys, key)
        is_stored = at < self.count and self._keys[at] == key
        return self._records[at][1] if is_stored else ABSENT

    def walk(self, *, first: int, ahead: int) -> "MemoryWalk":
        return MemoryWalk(self._keys, self._records)

    def chunks(self, start: bytes = b"", *, streaming: bool = True) -> Iterator[MemoryChunk]:
        first = bisect_left(self._keys, start)
        if first == self.count:
            return
        for at in range(first // _CHUNK * _CHUNK, self.count, _CHUNK):
            yield MemoryChunk(self._records[at : at + _CHUNK])


class MemoryWalk:
    """See `Walk`."""

    def __init__(self, keys: Sequence[bytes], records: Sequence[Record]) -> None:
        self._keys = keys
        self._records = records
        self._at = 0

    def seek(self, key: bytes) -> None:
        first = bisect_left(self._keys, key)
        self._at = max(self._at, first // _CHUNK * _CHUNK)

    def records(self) -> list[Record]:
        begin, self._at = self._at, self._at + _CHUNK
        return list(self._records[begin : self._at])


class MemoryRangeStore:
    """See `ranges.py`.  Tests may read and damage `ranges` and `metaranges`."""

    def __init__(self) -> None:
        self.ranges: dict[tuple[str, RangeId], MemoryTable] = {}
        self.metaranges: dict[tuple[str, MetarangeId], Metarange] = {}

    def open_range(self, namespace: str, range_id: RangeId) -> MemoryTable:
        try:
            return self.ranges[namespace, range_id]
        except KeyError:
            raise NotFound(f"range not found: range={range_id}") from None

    def expect(self, namespace: str, refs: Iterable[RangeRef]) -> None:
        """Nothing is far."""

    def read_metarange(self, namespace: str, metarange_id: MetarangeId) -> Metarange:
        if metarange_id == EMPTY_METARANGE:
            return NO_RANGES
        try:
            return self.metaranges[namespace, metarange_id]
        except KeyError:
            raise NotFound(f"metarange not found: metarange={metarange_id}") from None

    def find_range(
        self, namespace: str, metarange_id: MetarangeId, key: bytes
    ) -> RangeRef | Absent:
        return self.read_metarange(namespace, metarange_id).first_from(key)

    def write_range(self, namespace: str, records: Sequence[Record]) -> RangeRef:
        return self.splice_range(namespace, [Columns.of(records)])

    def splice_range(self, namespace: str, run: Sequence[Columns]) -> RangeRef:
        check_run(run)
        records = [record for columns in run for record in columns.records]
        range_id = RangeId(seal.file_id(records, RANGE_PROPERTIES))
        self.ranges[namespace, range_id] = MemoryTable(records)
        return ref_of(range_id, run)

    def write_behind(self, namespace: str, run: Sequence[Columns]) -> Literal[Absent.ABSENT]:
        return ABSENT

    def begin_rewrite(
        self, namespace: str, breaks: BreakParameters, rewrite: Rewrite
    ) -> Rewriting | Absent:
        return ABSENT

    def write_metarange(self, namespace: str, ranges: Sequence[RangeRef]) -> MetarangeId:
        check_ranges(ranges)
        records = [wire.encode_range(ref) for ref in ranges]
        metarange_id = MetarangeId(seal.file_id(records, METARANGE_PROPERTIES))
        self.metaranges[namespace, metarange_id] = Metarange.of(ranges)
        return metarange_id
