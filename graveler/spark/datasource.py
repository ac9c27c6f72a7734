"""The data source of Spark 4, `spark.read.format("graveler")`; import it only where Spark has them.

    planning worker ── question: options ──► socket in a private folder ──► driver: asks the API
                    ◄── answer: names and pieces of work ──────────────────┘
Spark sends the class and the instance to executors, so both hold only names: the driver plans.
"""

import atexit
import json
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer
from threading import Thread
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from graveler.arrow.decode import COLUMNS, schema_of
from graveler.arrow.scan import meeting
from graveler.core import errors
from graveler.core.errors import GravelerError, Internal, Invalid, Unsupported
from graveler.core.ids import parse_prefix
from graveler.core.settings import KEY_VARIABLE, SECRET_VARIABLE, environment
from graveler.lake.session import Session, connect
from graveler.spark.diffs import DIFF_COLUMNS, compared
from graveler.spark.lake import Lake, at_commit, parse_ref, pinned
from graveler.spark.reads import TableRequest, loading, planned, shared
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

Question = Mapping[str, Any]


Answering = Callable[[Lake, Question], Any]


_LENGTH: Final = 8  # bytes before an answer: its length, so that a truncated one is noticed
Rows = Iterator[pa.RecordBatch]
PIN: Final = "pin"
PLAN: Final = "plan"
ROWS_EACH: Final = 10_000  # in a piece of a table whose rows the driver makes
_ADDED: Final = ("path", "paths", "checkpointlocation")  # by Spark
OPTIONS: Final = (
    "columns",
    "format",
    "left",
    "limit",
    "partitions",
    "prefix",
    "ref",
    "table",
    "where",
)
_NO_TABLES: Final = (
    "Spark hands the options of a CREATE TABLE to no reader: use CREATE TEMPORARY VIEW v USING "
    "graveler OPTIONS (path 'repository/ref/folder')"
)


@dataclass(frozen=True, slots=True)
class Planner:
    """Where plans are made.  It goes to the executors, so it holds no secret.  `socket`: of the
    driver; `url`, `store`: of the lake, as in `Lake`."""

    socket: str
    url: str
    store: str

    def ask(self, question: Question, answering: Answering) -> Any:
        """The driver's answer.  On another machine than the driver's, `answering` is called here,
        with the credentials of the environment.  Errors: those of the answer; `Invalid` if there
        are no credentials; `Internal` if the driver fails (its traceback is on its standard
        error)."""
        with socket.socket(socket.AF_UNIX) as way:
            try:
                way.connect(self.socket)
            except (FileNotFoundError, ConnectionRefusedError):
                return answering(self._elsewhere(), question)
            way.sendall(json.dumps(question).encode())
            way.shutdown(socket.SHUT_WR)
            with way.makefile("rb") as answer:
                length = int.from_bytes(answer.read(_LENGTH), "big")
                body = answer.read()
        if not length or len(body) != length:
            raise Internal("the driver could not plan this read: see its standard error")
        kind, value = CloudPickleSerializer().loads(body)
        if kind:
            raise getattr(errors, kind)(value)
        return value

    def _elsewhere(self) -> Lake:
        variables = environment()
        key, secret = variables.get(KEY_VARIABLE, ""), variables.get(SECRET_VARIABLE, "")
        if not key or not secret:
            raise Invalid(
                "the driver is on another machine, and it never sends credentials: set "
                f"{KEY_VARIABLE} and {SECRET_VARIABLE} for the server of Spark Connect"
            )
        return Lake(None, connect(self.url, key, secret), self.store)


@lru_cache(maxsize=64)
def planner_of(session: Session, store: str, answering: Answering) -> Planner:
    """Answer questions about a lake in this process until it ends.  Only the user of this process
    may open the socket."""
    folder = Path(tempfile.mkdtemp(prefix="graveler-plans-"))  # mode 0700
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    where = str(folder / "socket")
    server = _Server(where, Lake(None, session, store), answering)
    Thread(target=server.serve_forever, name="graveler-plans", daemon=True).start()
    return Planner(where, session.url, store)


class _Server(ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, where: str, lake: Lake, answering: Answering) -> None:
        super().__init__(where, _Handler)
        self.lake = lake
        self.answering = answering


class _Handler(StreamRequestHandler):
    """One question and its answer.  An error that is not a `GravelerError` closes the
    connection."""

    server: _Server

    def handle(self) -> None:
        question = json.loads(self.rfile.read())
        try:
            answer = "", self.server.answering(self.server.lake, question)
        except GravelerError as error:
            answer = type(error).__name__, str(error)
        body = CloudPickleSerializer().dumps(answer)
        self.wfile.write(len(body).to_bytes(_LENGTH, "big") + body)


class Piece(NamedTuple):
    """The work of one task: the input rows of its function."""

    rows: Sequence[Mapping[str, Any]]


class ReadPlan(NamedTuple):
    """The columns of a table, the pieces of work, and the function that does one piece."""

    schema: Any
    pieces: Sequence[Piece]
    run: Callable[[Rows], Rows]


def source_of(planner: Planner) -> type[DataSource]:
    """The data source class of one lake."""

    class Graveler(DataSource):  # type: ignore[misc]
        """The data source (see the module).  Spark makes one for each `load`, and then pickles
        it."""

        def __init__(self, options: Mapping[str, str]) -> None:
            super().__init__(planner.ask({"call": PIN, "options": dict(options)}, answered))

        @classmethod
        def name(cls) -> str:
            return "graveler"

        def _planned(self, schema: StructType | None) -> ReadPlan:
            fields = None if schema is None else schema.jsonValue()
            question = {"call": PLAN, "options": dict(self.options), "schema": fields}
            answer: ReadPlan = planner.ask(question, answered)
            return answer

        def schema(self) -> Any:
            return self._planned(None).schema

        def reader(self, schema: StructType) -> DataSourceReader:
            return Reader(self._planned(schema))

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
            raise Unsupported("this format is read-only: write with graveler.spark.write")

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:
            raise Unsupported(
                'this format reads no streams: load what two commits differ in, with table="diff" '
                "and the last commit that you have read as left"
            )

        def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
            raise Unsupported(
                "this format writes no streams: call graveler.spark.write in foreachBatch, with "
                'SaveOptions(id=f"NAME-{batch_id}")'
            )

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
    if question["call"] == PIN:
        return pin(lake, question["options"])
    fields = question["schema"]
    return plan(lake, question["options"], None if fields is None else StructType.fromJson(fields))


def pin(lake: Lake, options: Mapping[str, str]) -> dict[str, str]:
    """Replace the refs in the options by commits, so that the schema and the rows that are read
    later belong to one commit.  The option `ref` replaces the ref in the path.  Errors: `Invalid`,
    `NotFound`.  Cost: one request to the API for each ref."""
    named = {name.lower(): value for name, value in options.items()}
    if "provider" in named:
        raise Invalid(_NO_TABLES)
    unknown = [
        name for name in named if name not in (*OPTIONS, *_ADDED) and not name.startswith("__")
    ]
    if unknown:
        raise Invalid(f"unknown options: {','.join(unknown)} of={','.join(OPTIONS)}")
    where = named.get("path", "")
    if not where:
        raise Invalid(
            "several paths: load one at a time, and unite the DataFrames"
            if named.get("paths")
            else f'no path: name the table, as load("repository/ref/folder"); {_NO_TABLES}'
        )
    if ref := named.pop("ref", ""):
        target = parse_ref(where)
        where = f"{target.repository}/{ref}/{target.prefix}"
    named["path"] = at_commit(lake, where)
    if named.get("left"):
        named["left"] = at_commit(lake, named["left"])
    return named


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
    columns = request.columns if request.schema is None else request.schema.names
    stored = stored_at(lake, at) if request.schema is None else None
    schema = request.schema if stored is None else stored.struct
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
    "log": _log,
    "ranges": _ranges,
}
