"""Tables of a refs dump: ranges and a metarange in the usual format, with properties of their own.

The properties name the kind of records.  They are hashed into the ids (docs/reference/format.md),
so a table of a dump is never confused with a table of entries.  These tables are written whole and
rarely read, so they bypass all caches of files and go straight to block storage.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from graveler.block.adapter import BlockStore
from graveler.committed import reader, seal, splice, writer
from graveler.committed.columns import Columns, Run
from graveler.committed.ranges import (
    METARANGE_PROPERTIES,
    RANGE_PROPERTIES,
    Keyspace,
    check_ranges,
    check_run,
    ref_of,
)
from graveler.committed.sstable import SstRangeStore
from graveler.committed.table import SortedTable
from graveler.committed.tiers import StoredFiles
from graveler.core import limits, wire
from graveler.core.errors import Corrupt, Unsupported
from graveler.core.ids import MetarangeId, RangeId
from graveler.core.records import BreakParameters, RangeRef, Record

_CACHE_BYTES = 4 << 20


class StoredTable(NamedTuple):
    """A metarange, and the ids of all files that it needs; its own is the last."""

    id: MetarangeId
    files: tuple[str, ...]


class Resumption(NamedTuple):
    """The state from which an interrupted dump of one table continues.

    `ranges`: the ranges that are stored already, in order; each ends at a break.
    `shown`: a callback that is called with each further range that ends at a break."""

    ranges: Sequence[RangeRef]
    shown: Callable[[RangeRef], None]


FROM_START: Final = Resumption((), lambda ref: None)


class DumpTables(SstRangeStore):
    """A `RangeStore` whose tables have the properties `marks`.  `files`: the ids of all files that
    were written; `ranges`: the references of the ranges among them."""

    def __init__(self, blocks: BlockStore, marks: Mapping[str, str]) -> None:
        files = StoredFiles(blocks)
        super().__init__(files, _CACHE_BYTES, _CACHE_BYTES)
        self._marks = marks
        self._stored = files
        self.files: list[str] = []
        self.ranges: list[RangeRef] = []

    def splice_range(self, namespace: str, run: Sequence[Columns]) -> RangeRef:
        check_run(run)
        run = run if isinstance(run, Run) else Run(run)
        range_id = run.id({**RANGE_PROPERTIES, **self._marks})
        ref = ref_of(RangeId(range_id), run)
        self._stored.put(namespace, ref.id, splice.spliced(run, self._marks).content)
        self.files.append(ref.id)
        self.ranges.append(ref)
        return ref

    def write_metarange(self, namespace: str, ranges: Sequence[RangeRef]) -> MetarangeId:
        check_ranges(ranges)
        records = [wire.encode_range(ref) for ref in ranges]
        name = seal.file_id(records, {**METARANGE_PROPERTIES, **self._marks})
        self._stored.put(namespace, name, splice.table(records, self._marks))
        self.files.append(name)
        return MetarangeId(name)


def write(
    blocks: BlockStore,
    namespace: str,
    breaks: BreakParameters,
    marks: Mapping[str, str],
    records: Iterable[Record],
    begun: Resumption = FROM_START,
) -> StoredTable:
    """Store sorted records as ranges, and a metarange over all ranges.  The keys must be greater
    than those of the ranges in `begun`.

    Raises `Invalid` at a key that is not greater than the one before it.  Cost: one put per range,
    one for the metarange.  Memory: one range."""
    tables = DumpTables(blocks, marks)
    assembler = writer.Assembler(Keyspace(tables, namespace, breaks))
    for ref in begun.ranges:
        assembler.add_range(ref, is_last=False)
    for batch in writer.batches(records):
        count = len(tables.ranges)
        assembler.add(batch)
        for ref in tables.ranges[count:]:
            begun.shown(ref)
    metarange = tables.write_metarange(namespace, assembler.finish())
    return StoredTable(metarange, (*(ref.id for ref in begun.ranges), *tables.files))


class ReadLimits(NamedTuple):
    """What one table of a dump may hold, whatever its files claim.  `bytes_max`: of the files, and
    again of the records in them."""

    records_max: int = limits.restore_records_max
    bytes_max: int = limits.restore_bytes_max


READ_LIMITS: Final = ReadLimits()


def read(
    blocks: BlockStore,
    namespace: str,
    metarange: MetarangeId,
    marks: Mapping[str, str],
    bounds: ReadLimits = READ_LIMITS,
) -> Iterator[Record]:
    """All records of a table that another process or lakeFS wrote, in key order; verified.

    The files are looked up in `namespace` only.  Every id is computed again from the records, and
    the tables must have the properties `marks`.

    Errors: `Gone` if a file is not there; `Corrupt`; `Unsupported` beyond the `bounds`.  Cost: 1 or
    2 requests for each file.  Memory: one range.
    """
    tables = DumpTables(blocks, marks)
    space = Keyspace(tables, namespace, BreakParameters())
    budget = _Budget(bounds)
    if metarange:
        budget.spend(0, _opened(space, metarange, marks).length)
    for ref in space.metarange(metarange).ranges:
        budget.spend(0, _opened(space, ref.id, marks).length)
        records: list[Record] = []
        for columns in reader.range_columns(space, ref):
            budget.spend(columns.count, columns.size)
            records += columns.records
        if seal.file_id(records, {**RANGE_PROPERTIES, **marks}) != ref.id:
            raise Corrupt(f"range does not hash to its id: range={ref.id}")
        yield from records


def _opened(space: Keyspace, name: str, marks: Mapping[str, str]) -> SortedTable:
    """An open file of a dump.  Raises `Gone`; `Corrupt` if it has other properties."""
    table = space.open(RangeRef(RangeId(name), b"", b"", 0, 0))
    assert isinstance(table, SortedTable), "the tables of a dump are files"
    if table.marks != marks:
        raise Corrupt(f"table of a dump holds records of another kind: table={name}")
    return table


class _Budget:
    """Counts what was read of one table."""

    def __init__(self, bounds: ReadLimits) -> None:
        self._bounds = bounds
        self._records = 0
        self._bytes = 0

    def spend(self, records: int, size: int) -> None:
        """Count what was read.  Raises `Unsupported` if it is too much."""
        self._records += records
        self._bytes += size
        records_max, bytes_max = self._bounds
        if self._records > records_max or self._bytes > bytes_max:
            raise Unsupported(
                f"dump too large to restore: at most {records_max} records and {bytes_max} bytes "
                "in the table of one kind"
            )
