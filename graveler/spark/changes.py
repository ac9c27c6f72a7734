"""Streams of changes: `spark.readStream.format("graveler")`.

    offset = a commit of the branch
    start ──► commit ──► commit ──► end      along first parents; each commit is compared with its
      └─ diff ─┘└── diff ──┘└─ diff ─┘       parent, and its rows have its id
A start that is no ancestor of the end means that the branch was reset: an error, or one diff.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from graveler.arrow.decode import COLUMNS, schema_of
from graveler.core.errors import Conflict, Invalid
from graveler.lake.dataset import is_data
from graveler.lake.folders import File
from graveler.spark.diffs import DIFF_COLUMNS, compared
from graveler.spark.lake import Lake, Pin, commit_at, commits_page, parse_ref, pinned
from graveler.spark.planner import OwnPlanner, Planner
from graveler.spark.reads import TableRequest, loading, planned_of, shared
from graveler.spark.table_schema import stored_at

LATEST: Final = "latest"
BETWEEN: Final = "between"
CHANGING: Final = ("since", "on_rewrite", "on_removed")
_COMMITS_MAX: Final = 10_000
_PAGE: Final = 1_000
_COLUMNS: Final = ("_change_type", "_commit", "_commit_time")
_LISTED: Final = ("address", "size", "mtime")
Rows = Iterator[pa.RecordBatch]
Run = Callable[[Rows], Rows]


class Step(NamedTuple):
    """Rows of one commit: the input rows of a function, and the values of the added columns."""

    rows: Sequence[Mapping[str, Any]]
    run: Run
    commit: str
    time: datetime


class ChangeReader(DataSourceStreamReader):  # type: ignore[misc]
    """Of `readStream`.  It lives in a process of Spark, and asks the driver."""

    def __init__(
        self,
        planner: Planner | OwnPlanner,
        answering: Callable[[Lake, Mapping[str, Any]], Any],
        options: Mapping[str, str],
        schema: Mapping[str, Any],
    ) -> None:
        self.planner, self.answering = planner, answering
        self.options, self.names = options, StructType.fromJson(dict(schema)).names
        self.schema = schema

    def initialOffset(self) -> dict[str, str]:
        """The commit of the option `since`, or the one that the ref has now."""
        return self._latest(self.options.get("since", ""))

    def latestOffset(self) -> dict[str, str]:
        """The commit of the ref.  One request."""
        return self._latest("")

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
        question = {"call": BETWEEN, "options": self.options, "schema": self.schema}
        steps = self.planner.ask({**question, "start": start, "end": end}, self.answering)
        # Spark makes a partition itself if there is none.
        return [InputPartition(step) for step in steps] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Rows:
        step = partition.value
        if step is None:
            return
        for batch in step.run(iter([pa.RecordBatch.from_pylist(list(step.rows))])):
            yield _with_commit(batch, step, self.names)

    def commit(self, end: dict[str, str]) -> None:
        """Nothing: Spark keeps the offset."""

    def _latest(self, ref: str) -> dict[str, str]:
        question = {"call": LATEST, "options": self.options, "ref": ref}
        commit: str = self.planner.ask(question, self.answering)
        return {"commit": commit}


def _with_commit(batch: pa.RecordBatch, step: Step, names: Sequence[str]) -> pa.RecordBatch:
    values = {
        "_commit": pa.repeat(step.commit, batch.num_rows),
        "_commit_time": pa.repeat(pa.scalar(step.time, pa.timestamp("us", "UTC")), batch.num_rows),
    }
    columns = {name: batch.column(name) for name in batch.schema.names}
    if "type" in columns and "_change_type" in names:
        columns["_change_type"] = columns["type"]
    every = columns | values
    return pa.RecordBatch.from_arrays([every[name] for name in names], names=list(names))


# ---- in the driver -------------------------------------------------------------------------------


def schema_of_changes(columns: Sequence[str]) -> str:
    """The columns of `table="changes"`, in Spark's notation.  `columns`: of entries."""
    names = tuple(columns) or DIFF_COLUMNS
    unknown = [name for name in names if name not in COLUMNS or name == "path"]
    if unknown:
        raise Invalid(f"unknown columns of an entry: {','.join(unknown)}")
    sides = [f"{side}_{schema_of([name])}" for side in ("left", "right") for name in names]
    first, last = (
        ("_change_type string", "path string"),
        ("_commit string", "_commit_time timestamp"),
    )
    return ", ".join([*first, *sides, *last])


def answered_changes(lake: Lake, question: Mapping[str, Any]) -> Any:
    """The newest commit, or the rows between two."""
    options = question["options"]
    target = parse_ref(options["path"])
    if question["call"] == LATEST:
        return commit_at(lake, target.repository, question["ref"] or target.branch)["id"]
    start, end = question["start"]["commit"], question["end"]["commit"]
    pairs = _pairs(lake, target.repository, start, end, options.get("on_rewrite", "fail"))
    schema = StructType.fromJson(dict(question["schema"]))
    make = _files if options.get("table", "files") == "files" else _changes
    return [step for pair in pairs for step in make(lake, target, pair, schema, options)]


class _Pair(NamedTuple):
    """Two commits to compare: what the later one made of the other."""

    before: str
    after: str
    time: datetime


def _pairs(lake: Lake, repository: str, start: str, end: str, on_rewrite: str) -> list[_Pair]:
    """The commits after `start` up to `end`, oldest first, each with its first parent."""
    if on_rewrite not in ("fail", "diff"):
        raise Invalid(f"on_rewrite must be fail or diff: {on_rewrite!r:.100}")
    if start == end:
        return []
    found: list[_Pair] = []
    for commit in _first_parents(lake, repository, end):
        if commit["id"] == start:
            return found[::-1]
        parents = commit["parents"]
        found.append(_Pair(parents[0] if parents else "", commit["id"], _time_of(commit)))
        if len(found) > _COMMITS_MAX:
            break
    if on_rewrite == "diff":
        return [_Pair(start, end, _time_of(commit_at(lake, repository, end)))]
    raise Conflict(
        "the last commit that was read is no ancestor of the branch's along first parents, or is "
        f"more than {_COMMITS_MAX} commits ago: the branch was reset. Read what differs with "
        f'option("on_rewrite", "diff"), or begin with a new checkpoint: {start=} {end=}'
    )


def _first_parents(lake: Lake, repository: str, end: str) -> Iterator[Any]:
    """The commits from `end` on, newest first.  A request for each 1,000."""
    after, has_more = "", True
    while has_more:
        query = f"?amount={_PAGE}&first_parent=true&after={after}"
        page = commits_page(lake, repository, end, query)
        yield from page["results"]
        after, has_more = page["pagination"]["next_offset"], page["pagination"]["has_more"]


def _time_of(commit: Any) -> datetime:
    return datetime.fromtimestamp(commit["creation_date"], UTC)


def _compared(lake: Lake, target: Any, pair: _Pair, columns: Sequence[str]) -> Any:
    left = pair.before or pair.after  # the first commit of a repository is empty
    before, after = (f"{target.repository}/{each}" for each in (left, pair.after))
    return compared(lake, before, after, target.prefix, tuple(columns))


def _changes(
    lake: Lake, target: Any, pair: _Pair, schema: StructType, options: Mapping[str, str]
) -> Iterator[Step]:
    wanted = [name.removeprefix("left_") for name in schema.names if name.startswith("left_")]
    comparison = _compared(lake, target, pair, wanted or DIFF_COLUMNS)
    for stretch in comparison.stretches:
        yield Step([stretch.row()], comparison.run, pair.after, pair.time)


def _files(
    lake: Lake, target: Any, pair: _Pair, schema: StructType, options: Mapping[str, str]
) -> Iterator[Step]:
    """The rows of the files that a commit adds."""
    on_removed = options.get("on_removed", "fail")
    if on_removed not in ("fail", "ignore"):
        raise Invalid(f"on_removed must be fail or ignore: {on_removed!r:.100}")
    at = pinned(lake, f"{target.repository}/{pair.after}/{target.prefix}")
    added = _added_files(lake, target, pair, at, on_removed == "ignore")
    if not added:
        return
    table = StructType([each for each in schema if each.name not in _COLUMNS])
    stored = stored_at(lake, at)
    form = options.get("format", "parquet" if stored is None else stored.format)
    reading = TableRequest(form, schema=table, columns=table.names)
    plan = planned_of(at, added, reading)
    for group in shared(plan.splits):
        rows = [each._asdict() for each in group]
        yield Step(rows, loading(plan.loading), pair.after, pair.time)


def _added_files(lake: Lake, target: Any, pair: _Pair, at: Pin, ignores: bool) -> list[File]:
    comparison = _compared(lake, target, pair, _LISTED)
    rows = [
        row
        for stretch in comparison.stretches
        for batch in comparison.run(iter([pa.RecordBatch.from_pylist([stretch.row()])]))
        for row in batch.to_pylist()
        if is_data(row["path"][len(at.prefix) :])
    ]
    gone = [row["path"] for row in rows if row["type"] != "added"]
    if gone and not ignores:
        raise Conflict(
            "a commit removes or replaces files of the table, so rows are not only added: follow "
            'table="changes", or pass option("on_removed", "ignore"): '
            f"commit={pair.after} path={gone[0]!r:.200}"
        )
    names = [f"right_{name}" for name in _LISTED]
    return [
        File(row["path"], *(row[name] for name in names))
        for row in rows
        if row["type"] != "removed"
    ]
