"""Entries, history and ranges of a repository as DataFrames; committed entries only.

    ref ──API──► commit ──► metarange ──driver──► its ranges ──► tasks: blocks → entries → Arrow
A ref is resolved when the function is called, so every evaluation gives the same rows.  Damage of a
range raises and never shortens a result.  Memory: the metarange; 2 MiB of records in a task.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from graveler.arrow.decode import COLUMNS, schema_of
from graveler.arrow.entries import range_batches
from graveler.arrow.scan import meeting
from graveler.core.errors import Invalid
from graveler.core.ids import MetarangeId, parse_prefix
from graveler.core.records import RangeRef
from graveler.spark.lake import Lake, commits_page, parse_names, parse_ref, pinned
from graveler.spark.places import Place, opened
from graveler.spark.tasks import (
    RANGE_ROWS,
    Task,
    in_tasks,
    ref_of,
    row_of,
    tasks_for,
)

LOG: Final = (
    T.StructType()
    .add("id", "string")
    .add("parents", T.ArrayType(T.StringType()))
    .add("committer", "string")
    .add("message", "string")
    .add("created", "timestamp")
    .add("metarange", "string")
    .add("metadata", T.MapType(T.StringType(), T.StringType()))
    .add("generation", "long")
)
RANGES: Final = (
    T.StructType()
    .add("id", "string")
    .add("min_path", "string")
    .add("max_path", "string")
    .add("size", "long")
    .add("count", "long")
)
LIMIT: Final = 1_000  # commits in a history, by default
_PAGE: Final = 1_000
_COMMITS_MAX: Final = 1_000_000


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
    """What `run` makes of rows of `RANGE_ROWS`."""
    tasks = tasks_for(spark, sum(ref.count for ref in refs), len(refs))
    return in_tasks(spark, list(map(row_of, refs)), RANGE_ROWS, run, result, tasks)


def scanning(reading: Reading) -> Any:
    """The function for `mapInArrow`: it takes rows of ranges and returns their entries."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        refs = (ref_of(row) for batch in batches for row in batch.to_pylist())
        return range_batches(opened(reading.place).space, refs, reading.prefix, reading.columns)

    return run


def log(lake: Lake, where: str, limit: int = LIMIT) -> DataFrame:
    """The history of "repository/ref", newest first, at most `limit` commits.

    The column `created` has whole seconds.  The driver holds all rows.  Errors: `Invalid`,
    `NotFound`.  Cost: one request to the API for each 1,000 commits.
    """
    return lake.spark.createDataFrame(history(lake, where, limit), LOG)


def history(lake: Lake, where: str, limit: int) -> list[tuple[Any, ...]]:
    """The rows of `log`, in the columns of `LOG`."""
    if not 1 <= limit <= _COMMITS_MAX:
        raise Invalid(f"limit must be 1 to {_COMMITS_MAX}: {limit=}")
    target = parse_ref(where)
    if target.prefix:
        raise Invalid(f"a history needs a whole ref, repository/ref: {where!r:.200}")
    ref, after = target.branch, ""
    rows: list[tuple[Any, ...]] = []
    while len(rows) < limit:
        query = urlencode({"amount": min(_PAGE, limit - len(rows)), "after": after})
        page = commits_page(lake, target.repository, ref, f"?{query}")
        rows += [
            (
                *(commit["id"], commit["parents"], commit["committer"], commit["message"]),
                datetime.fromtimestamp(commit["creation_date"], UTC),
                *(commit["meta_range_id"], commit["metadata"], commit["generation"]),
            )
            for commit in page["results"]
        ]
        after = page["pagination"]["next_offset"]
        if not page["pagination"]["has_more"] or not rows:
            break
        ref = rows[0][0]  # read on at a commit: the branch may have moved
    return rows


def ranges(lake: Lake, where: str) -> DataFrame:
    """The ranges at "repository/ref/folder" that may hold a path of the folder, in key order.

    Columns: `id`, `min_path`, `max_path`, `size` (in bytes of keys and values) and `count`.
    Errors: `Invalid`, `NotFound`.  Cost: 2 requests to the API, one metarange, no range.
    """
    return lake.spark.createDataFrame(ranges_at(lake, where), RANGES)


def ranges_at(lake: Lake, where: str) -> list[tuple[Any, ...]]:
    """The rows of `ranges`, in the columns of `RANGES`."""
    at = pinned(lake, where)
    return [
        (ref.id, _text(ref.min_key), _text(ref.max_key), ref.size, ref.count)
        for ref in meeting(at.ranges(), parse_prefix(at.prefix))
    ]


def _text(key: bytes) -> str:
    return key.decode(errors="replace")
