"""The reference store in memory: a dictionary and a sorted list of keys per partition.

Thread-safe: each request holds one lock, so even a batch is atomic.  Nothing survives the object.
"""

import threading
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from typing import Literal

from graveler.core.errors import Unavailable
from graveler.core.records import Absent
from graveler.kv.store import (
    ABSENT,
    WRITTEN,
    Condition,
    Declined,
    Moved,
    Newer,
    Outcome,
    Paired,
    Place,
    Row,
    ScanPage,
    Write,
    check_conditional,
    check_place,
    check_removal,
    check_scan,
    check_write,
    holds,
    newer_one_by_one,
    other_places,
)


class _Partition:
    """The rows of one partition, and their keys in order."""

    __slots__ = ("keys", "rows")

    def __init__(self) -> None:
        self.rows: dict[bytes, Row] = {}
        self.keys: list[bytes] = []

    def put(self, key: bytes, row: Row) -> None:
        if key not in self.rows:
            insort(self.keys, key)
        self.rows[key] = row

    def remove(self, doomed: Sequence[bytes]) -> None:
        present = {key for key in doomed if key in self.rows}
        for key in present:
            del self.rows[key]
        if len(present) <= 4:
            for key in present:
                del self.keys[bisect_left(self.keys, key)]
        else:  # each single removal would move half of the list on average
            self.keys = [key for key in self.keys if key not in present]


class MemoryStore:
    """`Store` in memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._partitions: dict[bytes, _Partition] = {}

    def get(self, partition: bytes, key: bytes) -> Row | Literal[Absent.ABSENT]:
        check_place(partition, key)
        with self._lock:
            return self._find(partition, key)

    def get_many(self, places: Sequence[Place]) -> Mapping[Place, Row]:
        for partition, key in places:
            check_place(partition, key)
        rows: dict[Place, Row] = {}
        with self._lock:
            for place in places:
                row = self._find(*place)
                if row is not ABSENT:
                    rows[place] = row
        return rows

    def scan(self, partition: bytes, start: bytes, end: bytes, limit: int) -> ScanPage:
        check_scan(partition, limit)
        with self._lock:
            stored = self._partitions.get(partition)
            if stored is None:
                return ScanPage((), False)
            keys, rows = stored.keys, stored.rows
            low = bisect_left(keys, start)
            high = bisect_left(keys, end) if end else len(keys)
            page = tuple([(key, rows[key]) for key in keys[low : min(high, low + limit)]])
            return ScanPage(page, low + limit < high)

    def set(self, partition: bytes, key: bytes, value: bytes, version: bytes) -> None:
        check_write(partition, key, value)
        with self._lock:
            self._put(partition, key, Row(value, version))

    def set_many(self, writes: Sequence[Write]) -> None:
        for write in writes:
            check_write(write.partition, write.key, write.value)
        with self._lock:
            for partition, key, value, version in writes:
                self._put(partition, key, Row(value, version))

    def set_if(
        self,
        partition: bytes,
        key: bytes,
        value: bytes,
        version: bytes,
        condition: Condition,
        order: int = 0,
    ) -> Outcome:
        check_conditional(partition, key, value, condition)
        with self._lock:
            current = self._find(partition, key)
            others = [self._find(*place) for place in other_places(condition)]
            if not holds(condition, current, *others):
                return Declined(current)
            self._put(partition, key, Row(value, version, order))
            if isinstance(condition, Paired):
                also = condition.write
                self._put(also.partition, also.key, Row(also.value, also.version))
            if isinstance(condition, Moved):
                self._remove(condition.place[0], [condition.place[1]])
            return WRITTEN

    def set_newer(
        self, partition: bytes, key: bytes, value: bytes, version: bytes, order: int
    ) -> Outcome:
        assert order > 0, "order 0 belongs to rows that set_newer did not write"
        check_write(partition, key, value)
        with self._lock:
            current = self._find(partition, key)
            if current is not ABSENT and current.order >= order:
                return Declined(current)
            self._put(partition, key, Row(value, version, order))
            return WRITTEN

    def set_newer_many(self, rows: Sequence[Newer]) -> Sequence[Outcome | Unavailable]:
        return newer_one_by_one(self, rows)

    def delete(
        self, partition: bytes, keys: Sequence[bytes], versions: Sequence[bytes] = ()
    ) -> None:
        check_removal(partition, keys, versions)
        with self._lock:
            stored = self._partitions.get(partition)
            if stored is None:
                return
            if versions:
                pairs = zip(keys, versions, strict=True)
                rows = stored.rows
                keys = [
                    key for key, version in pairs if key in rows and rows[key].version == version
                ]
            self._remove(partition, keys)

    def close(self) -> None:
        """Does nothing.  The method exists because drivers with files or connections have it."""

    def _find(self, partition: bytes, key: bytes) -> Row | Literal[Absent.ABSENT]:
        stored = self._partitions.get(partition)
        return ABSENT if stored is None else stored.rows.get(key, ABSENT)

    def _remove(self, partition: bytes, keys: Sequence[bytes]) -> None:
        stored = self._partitions[partition]
        stored.remove(keys)
        if not stored.rows:
            del self._partitions[partition]

    def _put(self, partition: bytes, key: bytes, row: Row) -> None:
        stored = self._partitions.get(partition)
        if stored is None:
            stored = self._partitions[partition] = _Partition()
        stored.put(key, row)
