"""Entries at a ref as a DataFrame: tasks read the ranges directly from the object store.

    ref ──API──► commit ──► metarange ──driver──► its ranges ──► tasks: blocks → entries → Arrow

Tasks skip ranges that cannot hold a path of the prefix.  A task compares what it reads of a range
with the range's line in the metarange, so damage raises and never shortens the result.  The result
has committed entries only.  Memory: the driver holds the metarange, a task 2 MiB of records.  For
users of the package.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from graveler.arrow.decode import COLUMNS, schema_of
from graveler.arrow.entries import range_batches
from graveler.arrow.scan import meeting
from graveler.errors import Invalid
from graveler.ids import MetarangeId, parse_prefix
from graveler.records import RangeRef
from graveler.spark.cluster.parallel import Task, in_tasks, parallel_tasks
from graveler.spark.cluster.pins import pinned
from graveler.spark.cluster.places import Place, opened
from graveler.spark.core.range_rows import RANGE_ROWS, refs_in, row_of
from graveler.spark.lake import Lake, parse_names

_ROWS_WANTED: Final = 1_000_000  # in a task


@dataclass(frozen=True, slots=True)
class Reading:
    """The instructions of a scan, equal for every task.  They go to the executors, so they hold no
    secret."""

    place: Place
    prefix: bytes
    columns: tuple[str, ...]


def entries(
    lake: Lake, where: str, columns: str | Sequence[str] = COLUMNS, *, prefix: str = ""
) -> DataFrame:
    """The entries at "repository/ref/folder" with the given columns of `decode.COLUMNS`.

    `ref`: a branch (its last commit), a tag, a commit, or one of these with `~n`.  The folder is
    read as in `import_`: "in" means "in/".  `prefix`: only paths that continue with it; it need not
    end at a slash.  The call looks the commit up.  Each evaluation of the DataFrame reads the
    ranges.

    Errors: `Invalid`, `NotFound`; in tasks `Corrupt` or `Unavailable`, wrapped by Spark.  Cost: 2
    requests to the API and one to the object store for the metarange; each evaluation makes one or
    a few requests for each range.
    """
    at = pinned(lake, where)
    names = parse_names(columns)
    return entries_of(lake.spark, at.place, at.metarange, at.prefix + prefix, names)


def entries_of(
    spark: SparkSession,
    place: Place,
    metarange: MetarangeId,
    prefix: str = "",
    columns: Sequence[str] = COLUMNS,
) -> DataFrame:
    """As `entries`, for a known metarange."""
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown or not columns:
        raise Invalid(f"columns must be some of {','.join(COLUMNS)}: unknown={','.join(unknown)}")
    start = parse_prefix(prefix)
    refs = meeting(opened(place).space.metarange(metarange).ranges, start)
    reading = Reading(place, start, tuple(columns))
    return over_ranges(spark, refs, scanning(reading), schema_of(columns))


def over_ranges(spark: SparkSession, refs: Sequence[RangeRef], run: Task, result: str) -> DataFrame:
    """What `run` makes of rows of `RANGE_ROWS`, with one task for about a million entries."""
    tasks = tasks_for(spark, sum(ref.count for ref in refs))
    return in_tasks(spark, list(map(row_of, refs)), RANGE_ROWS, run, result, tasks)


def tasks_for(spark: SparkSession, count: int) -> int:
    """How many tasks read `count` entries: one for about a million, and at least
    `parallel_tasks`."""
    return max(parallel_tasks(spark), count // _ROWS_WANTED)


def scanning(reading: Reading) -> Any:
    """The function for `mapInArrow`: it takes rows of ranges and returns their entries."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        space = opened(reading.place).space
        for batch in batches:
            for ref in refs_in(batch):
                yield from range_batches(space, ref, reading.prefix, reading.columns)

    return run
