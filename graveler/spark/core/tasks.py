"""One task of an import: the rows of one bucket become ranges in the object store.

    batches of rows ──► checked ──► sorted ──► each path once ──► framed ──► ranges ──► result rows
                                                  with a base: put onto it ──┘

The bytes go directly to the object store, with names that follow from the records, put if absent.
So a task that runs twice, even at the same time, changes nothing that a reader sees.  An error of
the store raises, and Spark runs the task again.  A bad row is reported in the result
(`results.py`).  For this package.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from graveler.committed.writer import Assembler
from graveler.ids import NO_METARANGE, MetarangeId
from graveler.records import ABSENT, Absent, RangeRef
from graveler.spark.cluster.checkpoints import JobCheckpoints, leave
from graveler.spark.cluster.parallel import Task
from graveler.spark.cluster.places import Place, opened
from graveler.spark.cluster.results import BAD, DUPLICATE, Part, RejectedRow, rows_of
from graveler.spark.core.build import ArrowColumns, Texts
from graveler.spark.core.check import REASONS, Addresses, CheckedTable, Rules, check, completed
from graveler.spark.core.cuts import ENDS, HASH, content_of
from graveler.spark.core.encode import encoded, one_array
from graveler.spark.core.merge import END, bounds_of
from graveler.spark.core.merge_columns import put_onto

DUPLICATE_PATH: Final = "another row has this path"
_RECORDS: Final = 8_192  # passed to the writer of ranges at a time
_ORDER: Final = ("mtime", "address", "checksum", "size", "content_type")
_PAIRS: Final = "pairs"


@dataclass(frozen=True, slots=True)
class TaskOrder:
    """The instructions of a job, equal for every task.  They go to the executors, so they hold no
    secret."""

    place: Place
    addresses: Addresses
    cuts: tuple[bytes, ...]
    samples_max: int
    base: MetarangeId = NO_METARANGE  # the rows are put onto it, if there is one
    checkpoints: JobCheckpoints | Literal[Absent.ABSENT] = ABSENT


def importing(order: TaskOrder) -> Task:
    """The function for `mapInArrow`: it takes the rows of one bucket and returns the rows of its
    part."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = list(batches)
        if any(batch.num_rows for batch in held):
            part = written(pa.Table.from_batches(held), order)
            if order.checkpoints is not ABSENT:
                leave(opened(order.place).blocks, order.checkpoints, part)
            yield rows_of(part)

    return run


def written(table: pa.Table, order: TaskOrder) -> Part:
    """Store the good rows of one bucket; return the part, which says what was stored and what was
    not."""
    known = table.column("path").drop_null()
    first = known[0].as_py() if len(known) else b""
    content = content_of(one_array(table.column(HASH)).to_numpy(zero_copy_only=False))
    rows = completed(table.drop_columns([HASH]))
    judged = check(rows, Rules(order.place.namespace, order.addresses))
    rejected: Counter[tuple[str, str]] = Counter()
    samples: list[RejectedRow] = []
    for number in np.unique(judged.reasons):
        if number:
            at = np.flatnonzero(judged.reasons == number)
            rejected[BAD, REASONS[number]] += len(at)
            samples += _samples(judged, at, REASONS[number], order.samples_max - len(samples))
    rows_sorted, twins = _sorted_once(judged.good)
    if twins.num_rows:
        rejected[DUPLICATE, DUPLICATE_PATH] += twins.num_rows
        for row in twins.slice(0, order.samples_max - len(samples)).to_pylist():
            path = row["path"].decode()
            samples.append(RejectedRow(DUPLICATE, DUPLICATE_PATH, path, row["address"]))
    bucket = bisect_left(order.cuts, first)
    refs = _stored(rows_sorted, order, bucket) if rows_sorted.num_rows else ()
    return Part(bucket, refs, rows_sorted.num_rows, rejected, tuple(samples), content)


def _samples(judged: CheckedTable, rows: Any, reason: str, most: int) -> list[RejectedRow]:
    taken = judged.table.take(pa.array(rows[: max(0, most)])).select(["path", "address"])
    return [
        RejectedRow(
            BAD, reason, (row["path"] or b"").decode(errors="replace"), row["address"] or ""
        )
        for row in taken.to_pylist()
    ]


def _sorted_once(table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows by path with each path once, and the duplicates.

    Of rows with one path, the row with the latest `mtime` counts; of those, the row with the
    greatest values in the other columns.  So the choice does not depend on the order of the rows.
    """
    ordered = table.take(pc.sort_indices(table.column("path")))
    is_twin = _equals_before(ordered.column("path"))
    if not is_twin.any():
        return ordered, ordered.slice(0, 0)
    ordered = ordered.append_column(_PAIRS, _pairs_of_twins(ordered, is_twin))
    keys = [("path", "ascending"), *((name, "descending") for name in (*_ORDER, _PAIRS))]
    ordered = ordered.take(pc.sort_indices(ordered, sort_keys=keys)).drop_columns([_PAIRS])
    return ordered.filter(pa.array(~is_twin)), ordered.filter(pa.array(is_twin))


def _equals_before(path: Any) -> Any:
    """Whether each path is equal to the one before it, as a numpy array."""
    is_equal = np.zeros(len(path), dtype=bool)
    if len(path) > 1:
        is_equal[1:] = pc.equal(path.slice(1), path.slice(0, len(path) - 1)).to_numpy()
    return is_equal


def _pairs_of_twins(ordered: pa.Table, is_twin: Any) -> Any:
    """The metadata of rows whose path comes more than once, as texts, because Arrow sorts no maps;
    empty texts for all other rows."""
    is_one_of_many = is_twin.copy()
    is_one_of_many[:-1] |= is_twin[1:]
    texts = [""] * len(is_twin)
    metadata = ordered.column("metadata")
    for row in np.flatnonzero(is_one_of_many).tolist():
        texts[row] = repr(sorted(metadata[row].as_py() or ()))
    return pa.array(texts, pa.string())


def _stored(table: pa.Table, order: TaskOrder, bucket: int) -> tuple[RangeRef, ...]:
    space = opened(order.place).space
    if order.base != NO_METARANGE:
        base = space.metarange(order.base).ranges
        rows = SortedRows(table, order)
        return put_onto(space, base, bounds_of(order.cuts, bucket, bucket), rows.upto)
    assembler = Assembler(space)
    for columns in _records(table, order):
        assembler.add_columns(columns)
    return assembler.finish()


class SortedRows:
    """The rows of one bucket, taken from the front."""

    def __init__(self, table: pa.Table, order: TaskOrder) -> None:
        """`table`: sorted by path, with each path once."""
        self._table = table
        self._order = order
        self._paths = Texts(one_array(table.column("path")))
        self._at = 0

    def upto(self, bound: bytes) -> Iterator[ArrowColumns]:
        """See `merge_columns.Rows`."""
        begin, paths = self._at, self._paths
        self._at = len(paths) if bound == END else bisect_right(paths, bound, begin)
        return _records(self._table.slice(begin, self._at - begin), self._order)


def _records(table: pa.Table, order: TaskOrder) -> Iterator[ArrowColumns]:
    for at in range(0, table.num_rows, _RECORDS):
        piece = table.slice(at, _RECORDS)
        keys = Texts(one_array(piece.column("path")))
        ends = np.flatnonzero(one_array(piece.column(ENDS)).to_numpy(zero_copy_only=False))
        yield ArrowColumns(keys, Texts(encoded(piece, order.addresses)), ends.tolist())
