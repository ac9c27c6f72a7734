"""Entries at a ref as a DataFrame: every range is read by a task, straight from the object store.

    ref ──API──► commit ──► metarange ──driver──► its ranges ──► tasks: blocks → entries → Arrow

Ranges that cannot hold a path of the prefix are not read.  What a task reads of a range is compared
with what the metarange says of it, so damage raises and never shortens the result.  Only committed
entries are seen.  Memory: of the driver the metarange, of a task 2 MiB of records.  For whoever
uses the package.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from graveler.errors import Corrupt, Invalid
from graveler.ids import MetarangeId, RangeId, parse_prefix
from graveler.records import RangeRef
from graveler.spark.cluster.parallel import parallel_tasks
from graveler.spark.cluster.pins import pinned
from graveler.spark.cluster.places import Place, opened
from graveler.spark.core.decode import COLUMNS, decoded, schema_of
from graveler.spark.core.scan import Records, range_records
from graveler.spark.lake import Lake
from graveler.streams import successor

_RANGES: Final = "id string, min_key binary, max_key binary, size bigint, count bigint"
_ROWS_WANTED: Final = 1_000_000  # in a task


@dataclass(frozen=True, slots=True)
class Reading:
    """What every task of a scan is to do; goes to the executors, so it holds no secret."""

    place: Place
    prefix: bytes
    columns: tuple[str, ...]


def entries(
    lake: Lake, where: str, columns: Sequence[str] = COLUMNS, *, prefix: str = ""
) -> DataFrame:
    """The entries at "repository/ref/folder" with these columns of `decoding.SCHEMA`.

    `ref`: a branch (its last commit), a tag, a commit, or one of these with `~n`.  The folder is
    that of `import_`: "in" means "in/".  `prefix`: only paths that go on so, cut anywhere.  The
    commit is looked up now; the ranges are read whenever the DataFrame is.

    Errors: `Invalid`, `NotFound`; in tasks `Corrupt` or `Unavailable`, wrapped by Spark.  Cost: 2
    requests to the API, one to the object store for the metarange; one or a few for each range when
    it is evaluated.
    """
    at = pinned(lake, where)
    return entries_of(lake.spark, at.place, at.metarange, at.prefix + prefix, columns)


def entries_of(
    spark: SparkSession,
    place: Place,
    metarange: MetarangeId,
    prefix: str = "",
    columns: Sequence[str] = COLUMNS,
) -> DataFrame:
    """As `entries`, of a metarange that is known."""
    wanted = [name for name in columns if name not in COLUMNS]
    if wanted or not columns:
        raise Invalid(f"columns must be some of {','.join(COLUMNS)}: unknown={','.join(wanted)}")
    start = parse_prefix(prefix)
    refs = meeting(opened(place).space.metarange(metarange).ranges, start)
    reading = Reading(place, start, tuple(columns))
    return rows_of(spark, refs).mapInArrow(scanning(reading), schema_of(columns))


def meeting(refs: Sequence[RangeRef], prefix: bytes) -> Sequence[RangeRef]:
    """The ranges, of some in key order, that may hold a key with `prefix`."""
    beyond = successor(prefix)
    first = bisect_left(refs, prefix, key=lambda ref: ref.max_key)
    last = bisect_left(refs, beyond, key=lambda ref: ref.min_key) if beyond else len(refs)
    return refs[first:last]


def rows_of(spark: SparkSession, refs: Sequence[RangeRef]) -> DataFrame:
    """Ranges as a DataFrame of `_RANGES`, a task for about a million entries."""
    rows = [tuple(row_of(ref).values()) for ref in refs]
    tasks = tasks_for(spark, sum(ref.count for ref in refs))
    return spark.createDataFrame(rows, _RANGES).repartition(max(1, min(tasks, len(rows))))


def row_of(ref: RangeRef) -> dict[str, Any]:
    """A range as a row of `_RANGES`."""
    names = ("id", "min_key", "max_key", "size", "count")
    return {name: getattr(ref, name) for name in names}


def tasks_for(spark: SparkSession, count: int) -> int:
    """How many tasks read so many entries: one for about a million, and enough for the cluster."""
    return max(parallel_tasks(spark), count // _ROWS_WANTED)


def refs_in(batch: pa.RecordBatch) -> Iterator[RangeRef]:
    """The ranges of a batch of rows of `rows_of`."""
    for row in batch.to_pylist():
        yield RangeRef(
            RangeId(row["id"]), row["min_key"], row["max_key"], row["size"], row["count"]
        )


def scanning(reading: Reading) -> Any:
    """The function for `mapInArrow`: rows of ranges in, their entries out."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        space = opened(reading.place).space
        for batch in batches:
            for ref in refs_in(batch):
                for records in range_records(space, ref):
                    part = _below(records, reading.prefix)
                    if len(part):
                        yield _decoded(part, reading, ref)

    return run


def _below(records: Records, prefix: bytes) -> Records:
    """The records with `prefix`."""
    paths, beyond = records.paths, successor(prefix)
    begin = pc.sum(pc.less(paths, prefix)).as_py() if prefix else 0
    end = pc.sum(pc.less(paths, beyond)).as_py() if beyond else len(records)
    return records if end - begin == len(records) else records.part(begin, end)


def _decoded(records: Records, reading: Reading, ref: RangeRef) -> pa.RecordBatch:
    try:
        return decoded(records, reading.place.namespace, reading.columns)
    except Corrupt as error:
        raise Corrupt(f"{error}: range={ref.id}") from error
