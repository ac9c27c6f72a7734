"""Writing by `format("graveler")`: batches and streams of Spark 4.

    writer ──plan──► driver: does the table take these rows?
    tasks ──► files at fresh addresses ──message──► commit ──► driver: one commit names these files
Spark hands exactly one message of each task to the commit; what other attempts stored is garbage.
"""

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from graveler.core.errors import Conflict, GravelerError, Invalid, Unsupported
from graveler.lake import bulk
from graveler.refs.stream_marks import batch_in
from graveler.spark import writes
from graveler.spark.bulk_jobs import JobTerms, cancelled_on_error, check_nothing_staged
from graveler.spark.lake import Lake, Pin, Target, commits_page, parse_target, pinned
from graveler.spark.landing import Landed, StoredFile, begun
from graveler.spark.planner import OwnPlanner, Planner
from graveler.spark.store import Storing, storing
from graveler.spark.streams import BATCH, QUERY, stream_name
from graveler.spark.table_state import state_at
from graveler.spark.writes import ROWS_MAX, StoredRows

WRITE: Final = "write"
LAND: Final = "land"
WRITING: Final = (
    *("format", "job", "maxRecordsPerFile", "mergeSchema", "message", "metadata", "on_rewind"),
    *("partitionBy", "partitionOverwriteMode"),
)
_ALLOWED: Final = {
    *("path", "checkpointlocation", "url", "profile", "store"),
    *(name.lower() for name in WRITING),
}
_MARKS_AMONG: Final = 20  # commits: a batch that Spark repeats has landed just before
_SORTED_BYTES: Final = 128 << 20  # of rows that a task sorts by their partitions at a time
_is = pa.types


class WriteRequest(NamedTuple):
    """A save, as the driver is asked for it.  `options`: by their names in lower case."""

    options: Mapping[str, str]
    schema: Mapping[str, Any]
    overwrite: bool


class WritePlan(NamedTuple):
    """The instructions of the tasks.  `marks`: the last batches of streams that the branch has, of
    those that landed lately; `commit`: of the save, if a job of its name has landed."""

    order: Storing
    marks: Mapping[str, int]
    commit: str = ""


class Writing(NamedTuple):
    """What a writer needs, without a secret: whom to ask, the request, and the plan, which only
    tasks need."""

    planner: Planner | OwnPlanner
    answering: Callable[[Lake, Mapping[str, Any]], Any]
    request: WriteRequest
    is_stream: bool
    known_plan: WritePlan | None = None

    @property
    def plan(self) -> WritePlan:
        """The plan of `planned`."""
        assert self.known_plan is not None, "a writer in a task is planned"
        return self.known_plan

    def planned(self) -> "Writing":
        """With a plan."""
        if self.known_plan is not None:
            return self
        asked = {"call": WRITE, "request": self.request._asdict(), "is_stream": self.is_stream}
        return self._replace(known_plan=self.planner.ask(asked, self.answering))

    def land(self, files: Sequence[StoredFile], stream: str = "", batch: int = 0) -> Landed:
        """One commit of these files; of a batch that has landed, its commit."""
        question = {
            "call": LAND,
            "request": self.request._asdict(),
            "files": files,
            "stream": stream,
            "batch": batch,
        }
        landed: Landed = self.planner.ask(question, self.answering)
        return landed


class Stored(WriterCommitMessage):  # type: ignore[misc]
    """The files of one task, and the streaming query that it belongs to.  `is_known`: the batch has
    landed, so the task has stored nothing."""

    def __init__(
        self, files: Sequence[tuple[Any, ...]], query: str, is_known: bool = False
    ) -> None:
        self.files = files
        self.query = query
        self.is_known = is_known


def _files_of(messages: Iterable[Stored | None]) -> list[StoredFile]:
    return [StoredFile(*row) for each in messages if each is not None for row in each.files]


class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Of `df.write.format("graveler")`."""

    def __init__(self, writing: Writing) -> None:
        self.writing = writing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Stored:
        if self.writing.plan.commit:
            return _known(iterator, "")
        return _stored(self.writing.plan.order, iterator)

    def commit(self, messages: list[Stored | None]) -> None:
        if not self.writing.plan.commit:
            self.writing.land(_files_of(messages))

    def abort(self, messages: list[Stored | None]) -> None:
        """Nothing was begun: the files of the tasks are garbage, which a collection removes."""


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Of `df.writeStream.format("graveler")`.  The query's id is in its checkpoint, so a restarted
    query is the same stream; a batch without rows lands nothing."""

    def __init__(self, writing: Writing) -> None:
        self.writing = writing

    def planned(self) -> "StreamWriter":
        """With a plan, for tasks."""
        return StreamWriter(self.writing.planned())

    def __getstate__(self) -> dict[str, Any]:
        return {"writing": self.writing.planned()}

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Stored:
        query, batch = _property(QUERY), _property(BATCH)
        if query and batch.isdecimal():
            where = parse_target(self.writing.request.options["path"])
            last = self.writing.plan.marks.get(stream_name(query, where.prefix), -1)
            if int(batch) <= last:
                return _known(iterator, query)
        return _stored(self.writing.plan.order, iterator)

    def commit(self, messages: list[Stored | None], batchId: int) -> None:
        if any(each.is_known for each in messages if each is not None):
            return
        queries = {each.query for each in messages if each is not None}
        files = _files_of(messages)
        if queries and (files or self.writing.request.overwrite):
            if len(queries) != 1 or "" in queries:
                raise Unsupported(
                    "Spark does not tell tasks the id of the query; use write_stream with stream="
                )
            where = parse_target(self.writing.request.options["path"])
            self.writing.land(files, stream_name(queries.pop(), where.prefix), batchId)

    def abort(self, messages: list[Stored | None], batchId: int) -> None:
        """As of a batch."""


# ---- in tasks ------------------------------------------------------------------------------------


def _stored(order: Storing, batches: Iterator[pa.RecordBatch]) -> Stored:
    rows = (_arranged(order, batch) for batch in batches if batch.num_rows)
    tables = _by_folder(rows, len(order.folders)) if order.folders else rows
    found = [tuple(row.values()) for batch in storing(order)(tables) for row in batch.to_pylist()]
    return Stored(found, _property(QUERY))


def _known(batches: Iterator[pa.RecordBatch], query: str) -> Stored:
    """Of rows that have landed.  They are read to their end, where a query saves its state."""
    deque(batches, maxlen=0)
    return Stored((), query, is_known=True)


def _property(name: str) -> str:
    context = TaskContext.get()
    return (context.getLocalProperty(name) or "") if context is not None else ""


def _arranged(order: Storing, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of the files in their order, and after them the texts of the folders."""
    data = [batch.column(name) for name in order.schema.names]
    folders = [_spelled(batch.column(name)) for name in order.folders]
    names = [f"c{at}" for at in range(len(data) + len(folders))]
    return pa.RecordBatch.from_arrays([*data, *folders], names=names)


def _by_folder(batches: Iterable[pa.RecordBatch], count: int) -> Iterator[pa.RecordBatch]:
    """The rows sorted by their folders, which are the last `count` columns; some at a time."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(each.nbytes for each in held) >= _SORTED_BYTES:
            yield from _sorted(held, count)
            held = []
    if held:
        yield from _sorted(held, count)


def _sorted(batches: Sequence[pa.RecordBatch], count: int) -> Iterator[pa.RecordBatch]:
    table = pa.Table.from_batches(batches)
    keys = [(name, "ascending") for name in table.column_names[-count:]]
    yield from table.take(pc.sort_indices(table, sort_keys=keys)).combine_chunks().to_batches()


def _check_spelled(schema: pa.Schema, names: Sequence[str]) -> None:
    """Raise `Unsupported` unless tasks can spell values of these columns as Spark does."""
    for name in names:
        kind = schema.field(name).type
        plain = _is.is_string(kind) or _is.is_integer(kind) or _is.is_boolean(kind)
        if not (plain or _is.is_date(kind) or (_is.is_timestamp(kind) and kind.tz)):
            raise Unsupported(
                "a column of this type cannot be a partition column here: cast it to a string, or "
                f"use table.append: column={name} type={kind}"
            )


def _spelled(column: pa.Array) -> pa.Array:
    """The texts of values in folders' names, as Spark spells them; a time is in UTC."""
    if not _is.is_timestamp(column.type):
        return column.cast(pa.string())
    text = column.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us")).cast(pa.string())
    return pc.replace_substring_regex(text, r"\.?0*$", "") if len(text) else text


# ---- in the driver -------------------------------------------------------------------------------


def answered_writing(lake: Lake, question: Mapping[str, Any]) -> Any:
    """Plan a save: the instructions of its tasks; or land it."""
    request = WriteRequest(**question["request"])
    if question["call"] == WRITE:
        return planned_write(lake, request, is_stream=question["is_stream"])
    files = [StoredFile(*each) for each in question["files"]]
    return landed_write(lake, request, files, question["stream"], question["batch"])


class _Options(NamedTuple):
    where: Target
    how: writes.Writing
    is_dynamic: bool


def _parsed(request: WriteRequest, stream: str = "", batch: int = 0) -> _Options:
    options = request.options
    if unknown := [name for name in options if name not in _ALLOWED]:
        raise Invalid(f"options of reads, or unknown: {','.join(unknown)} of={','.join(WRITING)}")
    where = parse_target(options.get("path", ""))
    partitions = options.get("partitionoverwritemode", "static").lower()
    rewind = options.get("on_rewind", "fail")
    if partitions not in ("static", "dynamic"):
        raise Invalid(f"partitionOverwriteMode must be static or dynamic: {partitions!r:.100}")
    if rewind not in ("fail", "accept"):
        raise Invalid(f"on_rewind must be fail or accept: {rewind!r:.100}")
    if request.overwrite and not where.prefix:
        raise Invalid(
            "an overwrite without a folder replaces everything on the branch: name a folder: "
            f"branch={where.branch}"
        )
    named = options.get("partitionby", "")
    by = [each.strip() for each in named.split(",") if each.strip()]
    rows_max = options.get("maxrecordsperfile", str(ROWS_MAX))
    if not rows_max.isdecimal() or not int(rows_max):
        raise Invalid(f"maxRecordsPerFile must be a number from 1: {rows_max!r:.100}")
    terms = JobTerms(
        options.get("message", "") or f"Write {where.prefix.rstrip('/') or where.branch}",
        _metadata(options.get("metadata", "")),
        options.get("job", ""),
        stream,
        batch,
        cast(Literal["fail", "accept"], rewind),
    )
    merges = options.get("mergeschema", "false").lower() == "true"
    form = options.get("format", "")
    how = writes.Writing(terms, form, tuple(by) if named else None, merges, int(rows_max))
    return _Options(where, how, request.overwrite and partitions == "dynamic")


def _metadata(text: str) -> Mapping[str, str]:
    try:
        values = json.loads(text or "{}")
    except ValueError as error:
        raise Invalid(f"metadata must be a JSON object of texts: {error}") from error
    if not isinstance(values, dict) or not all(isinstance(each, str) for each in values.values()):
        raise Invalid("metadata must be a JSON object of texts")
    return values


def planned_write(lake: Lake, request: WriteRequest, *, is_stream: bool) -> WritePlan:
    """The plan of a save or of a batch.  Raises what the landing would raise now: `NotFound` for a
    branch, `Invalid` if the rows do not fit, `Unsupported`; of a save also `Refused`, and
    `Conflict` for uncommitted changes in the folder."""
    where, how, is_dynamic = _parsed(request)
    commit = "" if is_stream else _check_landing(lake, where, _verb(request, how, is_dynamic), how)
    rows = StoredRows(StructType.fromJson(dict(request.schema)), ())
    writes.check_columns(rows)
    pin = pinned(lake, request.options["path"])
    known = state_at(lake, pin, how.format)
    if request.overwrite and not is_dynamic:
        definition = writes.new_definition(rows, writes.kept_layout(how, known.definition, rows))
    else:
        definition = writes.joined(known, rows, how)
    order = writes.ordered(pin.place, definition, rows.columns, how.rows_max)
    _check_spelled(to_arrow_schema(rows.schema), definition.partition_by)
    if is_stream:
        return WritePlan(order, _marks(lake, pin))
    return WritePlan(order, {}, commit)


def _marks(lake: Lake, pin: Pin) -> dict[str, int]:
    """The last batch of each stream in the newest commits.  One request."""
    query = f"?first_parent=true&amount={_MARKS_AMONG}"
    marks: dict[str, int] = {}
    for commit in commits_page(lake, pin.repository, pin.commit, query)["results"]:
        stream, batch = batch_in(commit["metadata"] or {})
        if stream:
            marks.setdefault(stream, batch)
    return marks


def _verb(request: WriteRequest, how: writes.Writing, is_dynamic: bool) -> str:
    if not request.overwrite:
        return writes.verb(how, "append")
    return writes.verb(how, "overwrite touched" if is_dynamic else "overwrite")


def _check_landing(lake: Lake, where: Target, verb: str, how: writes.Writing) -> str:
    """The commit of a job with a name that has landed.  Else begin a job and cancel it: the begin
    refuses what the landing would."""
    prefix = where.prefix
    if how.terms.id:
        with suppress(Conflict):  # the landing says what is wrong, or begins another round
            named = begun(lake, where, verb, how.terms, 1)
            if named.commit:
                return named.commit
    job = bulk.begin(lake.session, where.repository, where.branch, "splice", prefix=prefix)
    with cancelled_on_error(lake.session, where.repository, job, is_named=False):
        check_nothing_staged(lake, where, job)
    with suppress(GravelerError):  # it would expire
        bulk.cancel(lake.session, where.repository, job)
    return ""


def landed_write(
    lake: Lake, request: WriteRequest, files: Sequence[StoredFile], stream: str, batch: int
) -> Landed:
    """Land these files in one commit."""
    where, how, is_dynamic = _parsed(request, stream, batch)
    rows = StoredRows(StructType.fromJson(dict(request.schema)), files)
    if not request.overwrite:
        return writes.append(lake, where, rows, how)
    write = writes.overwrite_touched if is_dynamic else writes.overwrite
    return write(lake, where, rows, how)
