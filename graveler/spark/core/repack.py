"""Writes the records of some ranges again, into ranges that end by other break parameters.

    base      ├r│r│r│r┤├r│r│r│r┤├r│r│r┤      stretches of whole ranges, a task each
    tasks     ├── r ──┤├── r ──┤├─ r ─┤      the same records, new ends
    seams     where a stretch does not end at a new end, a task reads the range before the end and
              the ranges after it again until an end agrees (`join.py`)

Nothing is shuffled: the ranges are in order already.  A task that runs twice writes the same files.
For `pack.py`.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession

from graveler.committed.ranges import totals
from graveler.committed.reader import range_columns
from graveler.committed.split import Splitter
from graveler.committed.tiers import file_address
from graveler.committed.writer import Assembler
from graveler.errors import Corrupt
from graveler.ids import MetarangeId, RangeId
from graveler.records import BreakParameters, RangeRef
from graveler.spark.cluster.parallel import Task, in_tasks, parallel_tasks
from graveler.spark.cluster.places import Place, opened
from graveler.spark.cluster.results import SCHEMA, Part, parts_of, rows_of
from graveler.spark.core.join import by_tasks, joined_over, sewing
from graveler.spark.core.range_rows import row_of

_BYTES_WANTED: Final = 256 << 20  # of keys and values in a stretch
_JOINED_MAX: Final = 16  # at least so many new ranges a stretch: the last may be read again
_LOOKED_AT: Final = 100
_READERS: Final = 8
_STRETCHES: Final = (
    "bucket int, ranges array<struct<id:string,min_key:binary,max_key:binary,size:bigint,"
    "count:bigint>>"
)


class PackedTable(NamedTuple):
    """A metarange and its ranges."""

    metarange: MetarangeId
    ranges: tuple[RangeRef, ...]


def ranges_of(place: Place, metarange: str) -> tuple[RangeRef, ...]:
    """All ranges of a metarange.  One request."""
    return opened(place).space.metarange(MetarangeId(metarange)).ranges


def stored_share(place: Place, refs: Sequence[RangeRef]) -> float:
    """The bytes of the files of ranges for each byte of their keys and values, from an evenly
    spread sample.  One request for each sampled range, at most 100."""
    looked_at = refs[:: max(1, -(-len(refs) // _LOOKED_AT))]
    if not looked_at:
        return 1.0
    blocks = opened(place).blocks

    def length(ref: RangeRef) -> int:
        return blocks.head(file_address(place.namespace, ref.id)).size

    with ThreadPoolExecutor(_READERS, "lengths") as pool:
        lengths = list(pool.map(length, looked_at))
    return sum(lengths) / sum(ref.size for ref in looked_at)


def repacked(
    spark: SparkSession, place: Place, refs: Sequence[RangeRef], expected: int, tasks: int = 0
) -> PackedTable:
    """The records of `refs` in ranges that end by `place.breaks`.  `expected`: the approximate
    number of new ranges.

    The ranges are those that a single writer of all the records makes.  Raises `Corrupt` if the
    result has other records than `refs`.  Cost: every range is read, one put for each new range;
    the records near the ends of stretches are read and written again.
    """
    count = tasks or parallel_tasks(spark)
    stretches = list(stretches_of(refs, place.breaks, expected, count))
    rows = [
        {"bucket": bucket, "ranges": list(map(row_of, held))}
        for bucket, held in enumerate(stretches)
    ]
    results = in_tasks(spark, rows, _STRETCHES, _repacking(place), SCHEMA, len(rows))
    parts = parts_of(results.collect())
    refs_of = {part.bucket: part.ranges for part in parts}
    cuts = [held[-1].max_key for held in stretches[:-1]]
    space = opened(place).space
    joined = joined_over(by_tasks(spark, sewing(place)), place.breaks, (), cuts, refs_of)
    if totals(joined) != totals(refs):
        raise Corrupt(f"packed ranges differ from their records: {totals(refs)=} {totals(joined)=}")
    return PackedTable(space.store.write_metarange(space.namespace, joined), joined)


def stretches_of(
    refs: Sequence[RangeRef], breaks: BreakParameters, expected: int, tasks: int
) -> Iterator[list[RangeRef]]:
    """The ranges in stretches of about equal size: `tasks` stretches if they are large enough.  If
    possible, a stretch ends at a key that may also be an end by the new parameters."""
    total = sum(ref.size for ref in refs)
    count = min(max(tasks, total // _BYTES_WANTED), max(1, expected // _JOINED_MAX))
    splitter, step = Splitter(breaks), total / max(1, count)
    held: list[RangeRef] = []
    size = 0
    for ref in refs:
        held.append(ref)
        size += ref.size
        if size >= 1.5 * step or (size >= step and splitter.is_hash_break(ref.max_key)):
            yield held
            held, size = [], 0
    if held:
        yield held


def _repacking(place: Place) -> Task:
    """The function for `mapInArrow`: it takes stretches and returns the rows of their parts."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                yield rows_of(_written(row["bucket"], [_ref(each) for each in row["ranges"]]))

    def _written(bucket: int, refs: Sequence[RangeRef]) -> Part:
        space = opened(place).space
        assembler = Assembler(space)
        for ref in refs:
            for columns in range_columns(space, ref):
                assembler.add_columns(columns)
        return Part(bucket, assembler.finish(), sum(ref.count for ref in refs), {}, ())

    return run


def _ref(row: dict[str, Any]) -> RangeRef:
    return RangeRef(RangeId(row["id"]), row["min_key"], row["max_key"], row["size"], row["count"])
