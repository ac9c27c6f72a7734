"""Ports that call a function before each slow request: it sends a heartbeat or checks a deadline.

The function stops the work by raising.  Only scans, batches, tables, and lists, copies and
deletions of files call it.  Every flow that can take long makes such requests again and again.
The compare-and-swaps that decide an outcome never call it, so they are not delayed.  The search
after a swap without an answer does: it scans fold records.  Used by this package.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from graveler.block.adapter import (
    ANY_VERSION,
    Beat,
    Blocks,
    ObjectHead,
    ObjectPage,
    Target,
    unwatched,
)
from graveler.committed.columns import Columns
from graveler.committed.ranges import Metarange, RangeStore, Rewrite, Rewriting, Table
from graveler.engine.ports import P
from graveler.ids import MetarangeId, RangeId
from graveler.kv.store import Place, Row, ScanPage, Store, Write
from graveler.records import Absent, BreakParameters, RangeRef, Record


def beating(ports: P, beat: Beat) -> P:
    """The same ports, with `beat` called before each slow request.  Makes no request."""
    return replace(
        ports,
        kv=_HeartbeatStore(ports.kv, beat),
        blocks=_HeartbeatBlocks(ports.blocks, beat),
        ranges=_HeartbeatRanges(ports.ranges, beat),
    )


class _HeartbeatStore:
    """`Store` that calls `beat`."""

    def __init__(self, store: Store, beat: Beat) -> None:
        self._beat = beat
        self._store = store
        self.get = store.get
        self.set = store.set
        self.set_if = store.set_if
        self.set_newer = store.set_newer
        self.set_newer_many = store.set_newer_many
        self.delete = store.delete

    def get_many(self, places: Sequence[Place]) -> Mapping[Place, Row]:
        self._beat()
        return self._store.get_many(places)

    def scan(self, partition: bytes, start: bytes, end: bytes, limit: int) -> ScanPage:
        self._beat()
        return self._store.scan(partition, start, end, limit)

    def set_many(self, writes: Sequence[Write]) -> None:
        self._beat()
        self._store.set_many(writes)


class _HeartbeatBlocks:
    """`Blocks` that calls `beat`."""

    def __init__(self, blocks: Blocks, beat: Beat) -> None:
        self._beat = beat
        self._blocks = blocks
        self.get = blocks.get
        self.read = blocks.read
        self.put = blocks.put
        self.spool = blocks.spool
        self.create_many = blocks.create_many
        self.head = blocks.head
        self.check_versions = blocks.check_versions
        self.presign = blocks.presign
        self.create_upload = blocks.create_upload
        self.put_part = blocks.put_part
        self.copy_part = blocks.copy_part
        self.list_parts = blocks.list_parts
        self.complete_upload = blocks.complete_upload
        self.abort_upload = blocks.abort_upload

    def copy(self, source: str, destination: str, beat: Beat = unwatched) -> ObjectHead:
        def both() -> None:
            self._beat()
            beat()

        self._beat()
        return self._blocks.copy(source, destination, both)

    def list(self, prefix: str, after: str, limit: int) -> ObjectPage:
        self._beat()
        return self._blocks.list(prefix, after, limit)

    def delete(self, address: str, version: str = ANY_VERSION) -> None:
        self._beat()
        self._blocks.delete(address, version)

    def delete_all(self, targets: Sequence[Target]) -> None:
        self._beat()
        self._blocks.delete_all(targets)


class _HeartbeatRanges:
    """`RangeStore` that calls `beat`."""

    def __init__(self, ranges: RangeStore, beat: Beat) -> None:
        self._beat = beat
        self._ranges = ranges

    def open_range(self, namespace: str, range_id: RangeId) -> Table:
        self._beat()
        return self._ranges.open_range(namespace, range_id)

    def read_metarange(self, namespace: str, metarange_id: MetarangeId) -> Metarange:
        self._beat()
        return self._ranges.read_metarange(namespace, metarange_id)

    def find_range(
        self, namespace: str, metarange_id: MetarangeId, key: bytes
    ) -> RangeRef | Absent:
        self._beat()
        return self._ranges.find_range(namespace, metarange_id, key)

    def write_range(self, namespace: str, records: Sequence[Record]) -> RangeRef:
        self._beat()
        return self._ranges.write_range(namespace, records)

    def splice_range(self, namespace: str, run: Sequence[Columns]) -> RangeRef:
        self._beat()
        return self._ranges.splice_range(namespace, run)

    def begin_rewrite(
        self, namespace: str, breaks: BreakParameters, rewrite: Rewrite
    ) -> Rewriting | Absent:
        self._beat()
        return self._ranges.begin_rewrite(namespace, breaks, rewrite)

    def write_metarange(self, namespace: str, ranges: Sequence[RangeRef]) -> MetarangeId:
        self._beat()
        return self._ranges.write_metarange(namespace, ranges)
