"""Ports with a deadline, for requests that scan or walk.

Each read of the KV store or of a range checks the deadline.  A listing over deleted rows, or a diff
of two large tables, may read for minutes before its first line.  The verbs check the deadline
between their steps; these ports check it within the steps.  Used by service.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from graveler.committed.columns import Columns
from graveler.committed.ranges import Metarange, RangeStore, Rewrite, Rewriting, Table
from graveler.engine.ports import Deadline, P, operation_deadline
from graveler.errors import Unavailable
from graveler.ids import MetarangeId, RangeId
from graveler.kv.store import Condition, Newer, Outcome, Place, Row, ScanPage, Store, Write
from graveler.records import Absent, BreakParameters, RangeRef, Record

_WHAT = "the request"


def expiring(ports: P) -> P:
    """The same ports for one operation that begins now.  They raise `Unavailable` after its
    deadline."""
    deadline = operation_deadline(ports)
    return replace(
        ports,
        kv=ExpiringStore(ports.kv, deadline),
        ranges=ExpiringRanges(ports.ranges, deadline),
    )


class ExpiringStore:
    """A `Store` whose reads raise `Unavailable` after `deadline`.  Writes do not check it."""

    def __init__(self, store: Store, deadline: Deadline) -> None:
        self._store = store
        self._deadline = deadline

    def get(self, partition: bytes, key: bytes) -> Row | Literal[Absent.ABSENT]:
        self._deadline.check(_WHAT)
        return self._store.get(partition, key)

    def get_many(self, places: Sequence[Place]) -> Mapping[Place, Row]:
        self._deadline.check(_WHAT)
        return self._store.get_many(places)

    def scan(self, partition: bytes, start: bytes, end: bytes, limit: int) -> ScanPage:
        self._deadline.check(_WHAT)
        return self._store.scan(partition, start, end, limit)

    def set(self, partition: bytes, key: bytes, value: bytes, version: bytes) -> None:
        self._store.set(partition, key, value, version)

    def set_many(self, writes: Sequence[Write]) -> None:
        self._store.set_many(writes)

    def set_if(
        self,
        partition: bytes,
        key: bytes,
        value: bytes,
        version: bytes,
        condition: Condition,
        order: int = 0,
    ) -> Outcome:
        return self._store.set_if(partition, key, value, version, condition, order)

    def set_newer(
        self, partition: bytes, key: bytes, value: bytes, version: bytes, order: int
    ) -> Outcome:
        return self._store.set_newer(partition, key, value, version, order)

    def set_newer_many(self, rows: Sequence[Newer]) -> Sequence[Outcome | Unavailable]:
        return self._store.set_newer_many(rows)

    def delete(
        self, partition: bytes, keys: Sequence[bytes], versions: Sequence[bytes] = ()
    ) -> None:
        self._store.delete(partition, keys, versions)


class ExpiringRanges:
    """A `RangeStore` whose reads raise `Unavailable` after `deadline`.  Writes do not check it."""

    def __init__(self, ranges: RangeStore, deadline: Deadline) -> None:
        self._ranges = ranges
        self._deadline = deadline

    def open_range(self, namespace: str, range_id: RangeId) -> Table:
        self._deadline.check(_WHAT)
        return self._ranges.open_range(namespace, range_id)

    def read_metarange(self, namespace: str, metarange_id: MetarangeId) -> Metarange:
        self._deadline.check(_WHAT)
        return self._ranges.read_metarange(namespace, metarange_id)

    def find_range(
        self, namespace: str, metarange_id: MetarangeId, key: bytes
    ) -> RangeRef | Absent:
        self._deadline.check(_WHAT)
        return self._ranges.find_range(namespace, metarange_id, key)

    def write_range(self, namespace: str, records: Sequence[Record]) -> RangeRef:
        return self._ranges.write_range(namespace, records)

    def splice_range(self, namespace: str, run: Sequence[Columns]) -> RangeRef:
        return self._ranges.splice_range(namespace, run)

    def begin_rewrite(
        self, namespace: str, breaks: BreakParameters, rewrite: Rewrite
    ) -> Rewriting | Absent:
        return self._ranges.begin_rewrite(namespace, breaks, rewrite)

    def write_metarange(self, namespace: str, ranges: Sequence[RangeRef]) -> MetarangeId:
        return self._ranges.write_metarange(namespace, ranges)
