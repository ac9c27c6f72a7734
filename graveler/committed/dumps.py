"""Tables of dumped refs: ranges and a metarange as all others, with properties that say of what.

The properties count in the ids (docs/format.md), so a dump's table is never taken for one of
entries.  Such tables are written whole and read seldom: they pass by every cache, straight to block
storage.  For the engine.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from graveler import wire
from graveler.block.adapter import BlockStore
from graveler.committed import hash, splice, writer
from graveler.committed.ranges import (
    METARANGE_PROPERTIES,
    RANGE_PROPERTIES,
    Columns,
    Keyspace,
    check_ranges,
    check_run,
    ref_of,
)
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import StoredFiles
from graveler.ids import MetarangeId, RangeId
from graveler.records import BreakParameters, RangeRef, Record

_CACHE_BYTES = 4 << 20


class Written(NamedTuple):
    """A metarange, and the ids of all files that it needs, its own the last."""

    id: MetarangeId
    files: tuple[str, ...]


class Begun(NamedTuple):
    """Where a table goes on: ranges that stand already, in order, each ended by a break; `told` of
    each further one of that kind."""

    ranges: Sequence[RangeRef]
    told: Callable[[RangeRef], None]


FROM_START: Final = Begun((), lambda ref: None)


class DumpTables(SstRangeStore):
    """A `RangeStore` whose tables bear `marks`; `files`: the ids of what was written, `ranges`
    those that are ranges."""

    def __init__(self, blocks: BlockStore, marks: Mapping[str, str]) -> None:
        files = StoredFiles(blocks, Path())  # builds nothing on a disk
        super().__init__(files, _CACHE_BYTES, _CACHE_BYTES)
        self._marks = marks
        self._stored = files
        self.files: list[str] = []
        self.ranges: list[RangeRef] = []

    def splice_range(self, namespace: str, run: Sequence[Columns]) -> RangeRef:
        check_run(run)
        turned = ((columns.keys, columns.values) for columns in run)
        range_id = hash.columns_id(turned, {**RANGE_PROPERTIES, **self._marks})
        ref = ref_of(RangeId(range_id), run)
        self._stored.put(namespace, ref.id, splice.spliced(run, self._marks))
        self.files.append(ref.id)
        self.ranges.append(ref)
        return ref

    def write_metarange(self, namespace: str, ranges: Sequence[RangeRef]) -> MetarangeId:
        check_ranges(ranges)
        records = [wire.encode_range(ref) for ref in ranges]
        name = hash.file_id(records, {**METARANGE_PROPERTIES, **self._marks})
        self._stored.put(namespace, name, splice.table(records, self._marks))
        self.files.append(name)
        return MetarangeId(name)


def write(
    blocks: BlockStore,
    namespace: str,
    breaks: BreakParameters,
    marks: Mapping[str, str],
    records: Iterable[Record],
    begun: Begun = FROM_START,
) -> Written:
    """Store sorted records, all behind what has `begun`, as ranges and a metarange over all.

    Raises `Invalid` at a key that is not greater than the one before it.  Cost: one put a range,
    one for the metarange; memory: a range."""
    tables = DumpTables(blocks, marks)
    assembler = writer.Assembler(Keyspace(tables, namespace, breaks))
    for ref in begun.ranges:
        assembler.add_range(ref, is_last=False)
    for batch in writer.batches(records):
        told = len(tables.ranges)
        assembler.add(batch)
        for ref in tables.ranges[told:]:
            begun.told(ref)
    metarange = tables.write_metarange(namespace, assembler.finish())
    return Written(metarange, (*(ref.id for ref in begun.ranges), *tables.files))
