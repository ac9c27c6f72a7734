"""Diffs, history and ranges of a repository as DataFrames.

Each function looks its refs up when it is called, so every evaluation of its DataFrame gives the
same rows.  The results have committed entries only (`entries.py` has the entries themselves).  The
functions `compared`, `history` and `ranges_at` do the part that needs no Spark session, because the
data source plans in a process without one.  For users of the package.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from graveler.arrow.decode import COLUMNS, schema_of
from graveler.arrow.scan import meeting
from graveler.errors import Invalid
from graveler.ids import parse_prefix
from graveler.spark.cluster.parallel import in_tasks
from graveler.spark.cluster.pins import Pin, commits_page, pinned
from graveler.spark.core.compare import STRETCHES, Comparison, Stretch, comparing, stretches
from graveler.spark.lake import Lake, parse_names, parse_ref
from graveler.spark.verbs.entries import tasks_for

DIFF_COLUMNS: Final = ("address", "size", "checksum", "mtime")
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


def diff(
    lake: Lake,
    left: str,
    right: str,
    prefix: str = "",
    columns: str | Sequence[str] = DIFF_COLUMNS,
) -> DataFrame:
    """The paths with `prefix` on which two refs of one repository differ; both are
    "repository/ref".

    Columns: `type` (added, removed, changed), `path`, and for each of `columns` (those of `entries`
    without the path) its value at the left ref, `left_…`, and at the right ref, `right_…`; null
    where there is no entry.  Only content counts: the same bytes at another address are no change.

    Errors: `Invalid`, `NotFound`; in tasks `Corrupt` or `Unavailable`, wrapped by Spark.  Cost: 4
    requests to the API and one metarange for each side; each evaluation reads the ranges that only
    one side has and that may hold the prefix.
    """
    comparison = compared(lake, left, right, prefix, parse_names(columns))
    tasks = tasks_for(lake.spark, sum(each.records for each in comparison.stretches))
    rows = [each.row() for each in comparison.stretches]
    return in_tasks(lake.spark, rows, STRETCHES, comparison.run, comparison.schema, tasks)


class DiffPlan(NamedTuple):
    """The columns of a diff, the stretches to compare, and the function that compares one
    stretch."""

    schema: str
    stretches: Sequence[Stretch]
    run: Any


def compared(lake: Lake, left: str, right: str, prefix: str, columns: Sequence[str]) -> DiffPlan:
    """The part of `diff` that needs no Spark session."""
    unknown = [name for name in columns if name not in COLUMNS or name == "path"]
    if unknown:
        raise Invalid(f"unknown columns of an entry: {','.join(unknown)}")
    start = parse_prefix(prefix)
    pins = _whole(lake, left), _whole(lake, right)
    if pins[0].repository != pins[1].repository:
        raise Invalid(f"refs must be of one repository: {left=} {right=}")
    before, after = (meeting(side.ranges(), start) for side in pins)
    order = Comparison(pins[0].place, start, tuple(columns))
    schema = ", ".join(
        ["type string", "path string", *_renamed("left", columns), *_renamed("right", columns)]
    )
    return DiffPlan(schema, stretches(before, after), comparing(order))


def _renamed(side: str, columns: Sequence[str]) -> list[str]:
    return [f"{side}_{schema_of([name])}" for name in columns]


def _whole(lake: Lake, where: str) -> Pin:
    at = pinned(lake, where)
    if at.prefix:
        raise Invalid(
            f"a ref of a diff must be repository/ref; give the prefix separately: {where!r:.200}"
        )
    return at


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
