"""The data source of Spark 4, `format("graveler")`; import it only where Spark has them.

Spark sends the instance to executors, so it holds only names: the driver plans (`planner.py`).
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from graveler.arrow.decode import COLUMNS, schema_of
from graveler.arrow.scan import meeting
from graveler.core.errors import Invalid
from graveler.core.ids import parse_prefix
from graveler.spark.changes import (
    BETWEEN,
    CHANGING,
    LATEST,
    ChangeReader,
    answered_changes,
    schema_of_changes,
)
from graveler.spark.diffs import DIFF_COLUMNS, compared
from graveler.spark.lake import Lake, at_commit, parse_ref, pinned
from graveler.spark.planner import OwnPlanner, Planner, Question
from graveler.spark.reads import TableRequest, loading, planned, shared
from graveler.spark.sink import (
    LAND,
    WRITE,
    WRITING,
    BatchWriter,
    StreamWriter,
    WriteRequest,
    Writing,
    answered_writing,
)
from graveler.spark.table_schema import stored_at
from graveler.spark.tables import (
    LIMIT,
    LOG,
    RANGES,
    Reading,
    history,
    ranges_at,
    scanning,
)
from graveler.spark.tasks import row_of, to_stream
from pyspark_graveler import DefaultSource

Rows = Iterator[pa.RecordBatch]
PIN: Final = "pin"
PLAN: Final = "plan"
ROWS_EACH: Final = 10_000  # in a piece of a table whose rows the driver makes
_ADDED: Final = ("path", "paths", "checkpointlocation")  # by Spark
CONNECTION: Final = ("url", "profile", "store")
_READING: Final = (
    *("columns", "format", "left", "limit", "partitions", "prefix", "ref", "table", "where"),
)
OPTIONS: Final = tuple(sorted({*_READING, *WRITING, *CHANGING, *CONNECTION}))
_NO_TABLES: Final = (
    "Spark hands the options of a CREATE TABLE to no reader: use CREATE TEMPORARY VIEW v USING "
    "graveler OPTIONS (path 'repository/ref/folder')"
)


class Piece(NamedTuple):
    """The work of one task: the input rows of its function."""

    rows: Sequence[Mapping[str, Any]]


class ReadPlan(NamedTuple):
    """The columns of a table, the pieces of work, and the function that does one piece."""

    schema: Any
    pieces: Sequence[Piece]
    run: Callable[[Rows], Rows]


@dataclass(frozen=True, slots=True)
class Source:
    """One use of the format.  `options`: as they were given, by their names in lower case; `pins`:
    options with commits in place of refs, which reads use; empty before `pinned`."""

    planner: Planner | OwnPlanner
    options: Mapping[str, str]
    pins: Mapping[str, str]

    def pinned(self) -> "Source":
        """With `pins`."""
        if self.pins:
            return self
        return replace(self, pins=self._ask({"call": PIN, "options": self.options}))

    def schema(self) -> Any:
        """The columns of a load."""
        return self._ask({"call": PLAN, "options": self._reading, "schema": None}).schema

    def reader(self, schema: StructType) -> "Reader":
        """Of a load."""
        fields = schema.jsonValue()
        return Reader(self._ask({"call": PLAN, "options": self._reading, "schema": fields}))

    def stream_reader(self, schema: StructType) -> ChangeReader:
        """Of a stream of changes."""
        fields = schema.jsonValue()
        return ChangeReader(self.planner, answered, self.options, fields)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Of a save.  Raises what the landing would: wrong options, columns that do not fit."""
        return BatchWriter(self._writing(schema, overwrite, is_stream=False).planned())

    def stream_writer(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """Of a stream, without a plan.  Spark makes two for each batch."""
        return StreamWriter(self._writing(schema, overwrite, is_stream=True))

    def _writing(self, schema: StructType, overwrite: bool, *, is_stream: bool) -> Writing:
        request = WriteRequest(dict(self.options), schema.jsonValue(), overwrite)
        return Writing(self.planner, answered, request, is_stream)

    @property
    def _reading(self) -> dict[str, str]:
        return {**self.options, **self.pins}

    def _ask(self, question: Question) -> Any:
        return self.planner.ask(question, answered)


def source(planner: Planner | None, options: Mapping[str, str]) -> Source:
    """The use of the format with these options.  `planner`: of a registered lake."""
    named = {name.lower(): value for name, value in options.items()}
    own = [named.get(name, "") for name in CONNECTION]
    check_options(named)
    asked = planner if planner is not None and not any(own) else OwnPlanner(*own)
    return Source(asked, named, {})


def source_of(planner: Planner) -> type[DataSource]:
    """The data source class of one lake."""

    class Graveler(DefaultSource):
        """Spark pickles the class too: the planner has no secret."""

    Graveler.planner = planner
    return Graveler


class Reader(DataSourceReader):  # type: ignore[misc]
    """A reader with one partition for each piece of work.

    It takes no filters from Spark (`pushFilters`): Spark 4.1 gives every later use of the DataFrame
    what was left after the filters of the first one, so `df.where(…)` and then `df.count()` would
    lack rows.  The option `where` leaves out instead.
    """

    def __init__(self, plan: ReadPlan) -> None:
        self.plan = plan

    def __getstate__(self) -> Mapping[str, Any]:
        # Spark sends the reader to executors with every task.  Each task gets its own piece
        # separately.
        return {"plan": ReadPlan(None, (), self.plan.run)}

    def partitions(self) -> Sequence[InputPartition]:
        # If there are no partitions, Spark makes one itself, so `read` accepts a partition without
        # work.
        return [InputPartition(each.rows) for each in self.plan.pieces] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Rows:
        if partition.value is not None:
            yield from self.plan.run(iter([pa.RecordBatch.from_pylist(partition.value)]))


# ---- planning ------------------------------------------------------------------------------------


def answered(lake: Lake, question: Mapping[str, Any]) -> Any:
    """Answer a planning worker's question: with options that have commits in place of refs, or with
    a plan."""
    call = question["call"]
    if call == PIN:
        return pin(lake, question["options"])
    if call in (WRITE, LAND):
        return answered_writing(lake, question)
    if call in (LATEST, BETWEEN):
        return answered_changes(lake, question)
    fields = question["schema"]
    return plan(lake, question["options"], None if fields is None else StructType.fromJson(fields))


def check_options(options: Mapping[str, str]) -> None:
    """Raise `Invalid` for unknown options, by their names in lower case, and without one path."""
    if "provider" in options:
        raise Invalid(_NO_TABLES)
    known = {name.lower() for name in OPTIONS}
    unknown = [
        name for name in options if name not in (*known, *_ADDED) and not name.startswith("__")
    ]
    if unknown:
        raise Invalid(f"unknown options: {','.join(unknown)} of={','.join(OPTIONS)}")
    if not options.get("path"):
        raise Invalid(
            "several paths: load one at a time, and unite the DataFrames"
            if options.get("paths")
            else f'no path: name the table, as load("repository/ref/folder"); {_NO_TABLES}'
        )


def pin(lake: Lake, options: Mapping[str, str]) -> dict[str, str]:
    """The options that name refs, with commits in place of these, so that the schema and the rows
    that are read later belong to one commit.  The option `ref` replaces the ref in the path.
    Errors: `Invalid`, `NotFound`.  Cost: one request for each ref."""
    where = options["path"]
    if ref := options.get("ref", ""):
        target = parse_ref(where)
        where = f"{target.repository}/{ref}/{target.prefix}"
    pins = {"path": at_commit(lake, where), "ref": ""}
    if options.get("left"):
        pins["left"] = at_commit(lake, options["left"])
    return pins


class ReadRequest(NamedTuple):
    """The arguments of a read.  `schema`: of the files, if it is known or given.  `rows_each`: rows
    in a piece of a table whose rows the driver makes."""

    where: str
    columns: Sequence[str]
    options: Mapping[str, str]
    schema: StructType | None
    rows_each: int


def plan(
    lake: Lake,
    options: Mapping[str, str],
    schema: StructType | None = None,
    rows_each: int = ROWS_EACH,
) -> ReadPlan:
    """The plan of a read with these options.  Raises `Invalid`, and the errors of the functions
    `entries`, `diff`, `read`, `log` and `ranges`."""
    where, table = options.get("path", ""), options.get("table", "files")
    if table not in _PLANS:
        raise Invalid(f"unknown table: {table!r:.100} of={','.join(_PLANS)}")
    columns = [each.strip() for each in options.get("columns", "").split(",") if each.strip()]
    return _PLANS[table](lake, ReadRequest(where, columns, options, schema, rows_each))


def _entries(lake: Lake, request: ReadRequest) -> ReadPlan:
    columns = tuple(request.columns) or COLUMNS
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown:
        raise Invalid(f"unknown columns: {','.join(unknown)} of={','.join(COLUMNS)}")
    at = pinned(lake, request.where)
    prefix = parse_prefix(at.prefix + request.options.get("prefix", ""))
    pieces = [Piece([row_of(ref)]) for ref in meeting(at.ranges(), prefix)]
    return ReadPlan(schema_of(columns), pieces, scanning(Reading(at.place, prefix, columns)))


def _diff(lake: Lake, request: ReadRequest) -> ReadPlan:
    if not request.options.get("left"):
        raise Invalid("a diff needs the option left: the ref to compare with, as repository/ref")
    columns = tuple(request.columns) or DIFF_COLUMNS
    prefix = request.options.get("prefix", "")
    comparison = compared(lake, request.options["left"], request.where, prefix, columns)
    pieces = [Piece([stretch.row()]) for stretch in comparison.stretches]
    return ReadPlan(comparison.schema, pieces, comparison.run)


def _files(lake: Lake, request: ReadRequest) -> ReadPlan:
    try:
        values = json.loads(request.options.get("partitions", "{}"))
    except ValueError as error:
        raise Invalid(f"partitions must be a JSON object of values: {error}") from error
    if not isinstance(values, dict):
        raise Invalid("partitions must be a JSON object of values")
    at = pinned(lake, request.where)
    stored = stored_at(lake, at)
    columns, schema = request.columns, request.schema
    if schema is not None:
        columns = schema.names
    elif stored is not None:
        schema = stored.struct
    form = request.options.get("format", "parquet" if stored is None else stored.format)
    where = request.options.get("where", "")
    plan = planned(at, TableRequest(form, columns, values, schema, where))
    if plan.remaining:
        raise Invalid(
            "the option where must be conditions of this form, on columns of the table with values "
            "of their types: a >= 1 AND b IN ('x', 'y') AND c IS NOT NULL; filter by others after "
            f"the load: {where=!r:.200}"
        )
    pieces = [Piece([each._asdict() for each in group]) for group in shared(plan.splits)]
    return ReadPlan(plan.schema, pieces, loading(plan.loading))


def _changes(lake: Lake, request: ReadRequest) -> ReadPlan:
    """The columns of a stream."""
    if request.schema is not None:
        raise Invalid(
            'table="changes" is a stream: use readStream; or load table="diff" with the option left'
        )
    return ReadPlan(schema_of_changes(request.columns), [], _handed_over)


def _log(lake: Lake, request: ReadRequest) -> ReadPlan:
    limit = request.options.get("limit", str(LIMIT))
    if not limit.isdecimal():
        raise Invalid(f"limit must be a number of commits: {limit=!r:.100}")
    return _made(LOG, history(lake, request.where, int(limit)), request)


def _ranges(lake: Lake, request: ReadRequest) -> ReadPlan:
    return _made(RANGES, ranges_at(lake, request.where), request)


def _made(schema: StructType, rows: Sequence[tuple[Any, ...]], request: ReadRequest) -> ReadPlan:
    """The plan of a table whose rows this process makes; tasks only return them."""
    unknown = [name for name in request.columns if name not in schema.names]
    if unknown:
        raise Invalid(f"unknown columns: {','.join(unknown)} of={','.join(schema.names)}")
    kinds = to_arrow_schema(schema)
    names, size = tuple(request.columns) or tuple(schema.names), request.rows_each
    pieces = []
    for at in range(0, len(rows), size):
        values = list(zip(*rows[at : at + size], strict=True))
        arrays = [pa.array(each, field.type) for each, field in zip(values, kinds, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=kinds).select(list(names))
        pieces.append(Piece([{"rows": to_stream(batch)}]))
    return ReadPlan(StructType([schema[name] for name in names]), pieces, _handed_over)


def _handed_over(batches: Rows) -> Rows:
    for batch in batches:
        for row in batch.to_pylist():
            with pa.ipc.open_stream(row["rows"]) as stream:
                yield from stream


_PLANS: Mapping[str, Callable[..., ReadPlan]] = {
    "files": _files,
    "entries": _entries,
    "diff": _diff,
    "changes": _changes,
    "log": _log,
    "ranges": _ranges,
}
