"""Reading a table at a ref: its files at one commit become a DataFrame.

    ref ──► commit ──► entries below the prefix ──► files, partition columns from their paths
        ──► splits of about 128 MiB ──► tasks: object ──► pyarrow ──► Arrow batches
Executors open objects at their addresses, under any name, with the role of the job.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructField, StructType

from graveler.arrow.conditions import (
    Condition,
    fitted,
    holds,
    kept,
    parse_conditions,
    parse_sql,
)
from graveler.arrow.scan import meeting
from graveler.block.address import split
from graveler.core.errors import Invalid, NotFound, Unsupported
from graveler.core.ids import MetarangeId, parse_prefix
from graveler.lake.folders import File, Layout, is_value, layout, value_of
from graveler.spark.formats import Format, Stretch, check_types, format_of
from graveler.spark.lake import Lake, Pin, parse_names, pinned
from graveler.spark.places import Place, opened
from graveler.spark.schemas import FILES, SCHEMAS, FileSchema, reading_schemas, united
from graveler.spark.tables import Reading, entries_of, scanning
from graveler.spark.tasks import each_row, in_tasks, row_of, tasks_at_once

_SPLITS: Final = "address string, size bigint, start bigint, stop bigint, partition array<string>"
_SPLIT_BYTES: Final = 128 << 20
_OPENING_BYTES: Final = 4 << 20  # bytes that a task reads in the time of opening a file
_LISTED: Final = ("path", "address", "size", "mtime")
_READERS: Final = 16
_LISTED_MAX: Final = 20_000  # entries that this process lists sooner than a job of Spark begins
_BUCKETS_MAX: Final = 100
Where = str | Iterable[Sequence[Any]]
SchemasOf = Callable[[Place, Format, Sequence[File]], list[FileSchema]]


@dataclass(frozen=True, slots=True)
class Loading:
    """The instructions of a read, equal for every task.  They go to the executors, so they hold no
    secret.  `data`: the columns of the files that are read; `folders`: the columns of the paths, in
    the order of the values of a split; `columns`: the columns of the result; `where`: fitted
    conditions on columns of the files."""

    place: Place
    format: str
    data: pa.Schema
    folders: pa.Schema
    columns: tuple[str, ...]
    where: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class TableRequest:
    """The arguments of `read` as one record."""

    format: str = "parquet"
    columns: Sequence[str] = ()
    partitions: Mapping[str, Any] = field(default_factory=dict)
    schema: StructType | None = None
    where: str | Sequence[Condition] = ()


class Split(NamedTuple):
    """A stretch of bytes of a file (or the whole file), whose groups of rows one task reads, and
    the partition values in the file's path."""

    address: str
    size: int
    start: int
    stop: int
    partition: list[str | None]


class Plan(NamedTuple):
    """The columns of a table, its splits, and the instructions of the tasks.  `remaining`: SQL that
    the rows must be filtered by, because tasks cannot; `columns`: those to select after that."""

    schema: StructType
    splits: Sequence[Split]
    loading: Loading
    remaining: str = ""
    columns: tuple[str, ...] = ()


def read(
    lake: Lake,
    at: str,
    format: str = "parquet",
    *,
    columns: str | Sequence[str] = (),
    where: Where = (),
    partitions: Mapping[str, Any] | None = None,
    schema: StructType | str | None = None,
) -> DataFrame:
    """The table at "repository/ref/folder", which is a folder or a single file, at the commit of
    the ref.

    `ref`: a branch (its last commit), a tag, a commit, or one of these with `~n`.  `format`:
    parquet, orc, csv or json, as in `SaveOptions`.  `columns`: read only these, in this order.

    `where`: only rows for which all these conditions hold: tuples such as ("day", ">=", date(2026,
    11, 1)), ("city", "in", ["Oslo"]), ("note", "is", None), with =, !=, <, <=, >, >=, in, not in,
    is, is not; or SQL.  Values compare as in Spark; a time without a zone means UTC.  Conditions on
    partition columns leave files out before a task starts.  Conditions on other columns leave out
    row groups of Parquet by their footers, and rows before they leave the task.  SQL of another
    form than "a >= 1 AND b IN ('x', 'y') AND c IS NOT NULL AND d BETWEEN 1 AND 2" is applied by
    Spark, and leaves nothing out before.

    `partitions`: open only files under these values, each a value or a list of them; None means
    null.  The result has the columns of all files that are opened; columns that a file lacks are
    null.  `schema`, also as text ("id bigint"): use it instead; a partition column in it gets its
    type.  For csv and json the types are inferred from the first block of each file, and a later
    value of another type is an error; pass a schema to avoid this.

    Errors: `Invalid` (also if two files have types of a column that do not fit, or a condition has
    a value of another type than its column), `NotFound` (also if there is no file), `Corrupt`,
    `Unsupported`; in tasks `Corrupt` or `Unavailable`, wrapped by Spark.  Cost: 2 requests to the
    API; tasks read the ranges that hold the prefix and, without a schema, the end or the first
    block of each file; the driver holds a row for each file.
    """
    reading = parse_request(lake, format, partitions, schema, where)
    return rows_at(lake, pinned(lake, at), replace(reading, columns=parse_names(columns)))


def count(
    lake: Lake,
    at: str,
    format: str = "parquet",
    *,
    where: Where = (),
    partitions: Mapping[str, Any] | None = None,
    schema: StructType | str | None = None,
) -> int:
    """The number of rows that `read` with these arguments has.  Tasks read only the columns that
    the conditions name: of Parquet without conditions, or with conditions on partition columns,
    only the ends of the files.  Errors and other cost: as `read`."""
    reading = parse_request(lake, format, partitions, schema, where)
    return count_at(lake, pinned(lake, at), reading)


def rows_at(lake: Lake, at: Pin, reading: TableRequest) -> DataFrame:
    """As `read`, at a commit."""
    return _rows_of(lake.spark, _plan(lake.spark, at, reading))


def _rows_of(spark: SparkSession, plan: Plan) -> DataFrame:
    frame = _frame(spark, plan, loading(plan.loading), plan.schema)
    if not plan.remaining:
        return frame
    return frame.where(plan.remaining).select(*map(column_of, plan.columns))


def count_at(lake: Lake, at: Pin, reading: TableRequest) -> int:
    """As `count`, at a commit."""
    plan = _plan(lake.spark, at, reading)
    if plan.remaining:
        return int(_rows_of(lake.spark, plan).count())
    order = plan.loading
    named = {each.column for each in order.where}
    few = replace(order, data=pa.schema([each for each in order.data if each.name in named]))
    counts = _frame(lake.spark, plan, each_row(partial(_counted, few)), "rows bigint")
    return sum(int(row["rows"]) for row in counts.collect())


def parse_request(
    lake: Lake,
    format: str,
    partitions: Mapping[str, Any] | None = None,
    schema: StructType | str | None = None,
    where: Where = (),
) -> TableRequest:
    """The arguments of `read`, checked.  Raises `Invalid`."""
    format_of(format)
    if isinstance(schema, str):
        schema = lake.spark.createDataFrame([], schema).schema
    wanted = where if isinstance(where, str) else parse_conditions(where)
    return TableRequest(format, (), partitions or {}, schema, wanted)


def _plan(spark: SparkSession, at: Pin, reading: TableRequest) -> Plan:
    """The plan of a read whose files tasks list."""
    rows = listed(spark, at.place, at.metarange, _stem(at))
    return _planned(at, rows, reading, partial(schemas_in_tasks, spark))


def _frame(spark: SparkSession, plan: Plan, run: Any, schema: StructType | str) -> DataFrame:
    tasks = reading_tasks(spark, plan.splits)
    rows = [each._asdict() for each in plan.splits]
    return in_tasks(spark, rows, _SPLITS, run, schema, tasks)


def reading_tasks(spark: SparkSession, splits: Sequence[Split]) -> int:
    """In how many tasks splits are read: one for each core, as far as each has something to do, and
    more of much.  Spark decides so for its own files.  A task begins with a Python process, so one
    for each small file would take three times as long."""
    some = sum(map(_weight, splits)) // _OPENING_BYTES
    return max(len(shared(splits)), min(tasks_at_once(spark), some))


def _weight(piece: Split) -> int:
    return min(piece.stop, piece.size) - piece.start + _OPENING_BYTES


def shared(splits: Iterable[Split]) -> list[list[Split]]:
    """The splits in groups, one group for each task: a large split alone, small ones together."""
    groups: list[list[Split]] = []
    room = 0
    for piece in splits:
        weight = _weight(piece)
        if weight > room:
            groups.append([])
            room = _SPLIT_BYTES
        groups[-1].append(piece)
        room -= weight
    return groups


def planned(at: Pin, reading: TableRequest) -> Plan:
    """The part of `read` that needs no Spark session: this process lists the files."""
    rows = listed(None, at.place, at.metarange, _stem(at))
    return _planned(at, rows, reading, _schemas_here)


def planned_of(at: Pin, files: Sequence[File], reading: TableRequest) -> Plan:
    """As `planned`, of these files of the table alone."""
    return _planned(at, (file[:4] for file in files), reading, _schemas_here)


def listed(
    spark: SparkSession | None, place: Place, metarange: MetarangeId, prefix: str
) -> Iterator[tuple[Any, ...]]:
    """The path, address, size and time of each entry below the prefix.  This process lists few of
    them, and all if there is no session; else tasks do."""
    start = parse_prefix(prefix)
    refs = meeting(opened(place).space.metarange(metarange).ranges, start)
    if spark is not None and sum(ref.count for ref in refs) > _LISTED_MAX:
        return map(tuple, entries_of(spark, place, metarange, prefix, _LISTED).collect())
    rows = list(map(row_of, refs))
    listing = scanning(Reading(place, start, _LISTED))
    batches = listing(iter([pa.RecordBatch.from_pylist(rows)] if rows else []))
    return (tuple(row.values()) for batch in batches for row in batch.to_pylist())


def _planned(
    at: Pin, listed: Iterable[tuple[Any, ...]], reading: TableRequest, schemas_of: SchemasOf
) -> Plan:
    form, is_sql = format_of(reading.format), isinstance(reading.where, str)
    whole = _table(at, sorted(File(*row) for row in listed))
    folders = pa.schema(list(_folder_kinds(whole, reading.schema).items()))
    conditions = _conditions(reading.where)
    on_folders, others = _fit(conditions or (), folders, is_sql=is_sql)
    table = _pruned(whole, reading.partitions)
    files = [each for each in table.files if _is_below(each.values, folders, on_folders)]
    table = replace(table, files=tuple(files))
    known = table if table.files else whole
    place = with_buckets(at.place, known.files)
    data = _schema(place, form, known, reading.schema, schemas_of)
    named = {*reading.columns, *(each.column for each in others)}
    if (
        reading.schema is None
        and len(known.files) < len(whole.files)
        and named.difference(data.names, folders.names)
    ):  # a file that is not opened may have the column
        place = with_buckets(at.place, whole.files)
        data = _schema(place, form, whole, None, schemas_of)
    every = [*data.names, *folders.names]
    on_rows, rest = _fit(others, data, is_sql=is_sql)
    remaining = str(reading.where) if is_sql and (conditions is None or rest) else ""
    unknown = [name for name in reading.columns if name not in every]
    unknown += [] if is_sql else [each.column for each in rest]
    if unknown:
        raise Invalid(f"unknown columns: {','.join(unknown)} of={','.join(every) or 'none'}")
    if not every and any(file.size for file in known.files):
        raise Invalid("the files have no columns")
    chosen = tuple(reading.columns) or tuple(every)
    order = (*chosen, *_mentioned(remaining, every, chosen))
    tested = {each.column for each in on_rows}
    stored = pa.schema([each for each in data if each.name in order or each.name in tested])
    check_types(form, stored)
    both = from_arrow_schema(pa.schema([*data, *folders]), prefer_timestamp_ntz=True)
    types = {field.name: field for field in both}
    result = StructType([StructField(name, types[name].dataType) for name in order])
    splits = [
        Split(file.address, file.size, begin, begin + span, list(file.values))
        for file in table.files
        for span in [_SPLIT_BYTES if form.is_typed else max(1, file.size)]
        for begin in range(0, max(1, file.size), span)
    ]
    order_of_tasks = Loading(place, form.name, stored, folders, order, tuple(on_rows))
    return Plan(result, splits, order_of_tasks, remaining, chosen)


def _conditions(where: str | Sequence[Condition]) -> Sequence[Condition] | None:
    """The conditions; None if only Spark understands the SQL."""
    if isinstance(where, str):
        return parse_sql(where) if where.strip() else ()
    return where


def _fit(
    conditions: Iterable[Condition], schema: pa.Schema, *, is_sql: bool
) -> tuple[list[Condition], list[Condition]]:
    """The conditions on columns of the schema, with values of their types, and the others.  Names
    in SQL are not case-sensitive, and a value of another type is left to Spark; in tuples it is
    `Invalid`."""
    fit, others = [], []
    for condition in conditions:
        names = [each for each in schema.names if each == condition.column]
        if is_sql and not names:
            names = [each for each in schema.names if each.lower() == condition.column.lower()]
        if len(names) != 1:
            others.append(condition)
            continue
        try:
            named = condition._replace(column=names[0])
            fit.append(fitted(named, schema.field(names[0]).type))
        except Invalid:
            if not is_sql:
                raise
            others.append(condition)
    return fit, others


def _is_below(
    values: Sequence[str | None], folders: pa.Schema, conditions: Iterable[Condition]
) -> bool:
    """Whether conditions on partition columns hold for the values in a path."""
    for condition in conditions:
        at = folders.names.index(condition.column)
        if not holds(condition, value_of(values[at], folders.field(at).type)):
            return False
    return True


def _mentioned(sql: str, every: Sequence[str], chosen: Sequence[str]) -> list[str]:
    """The columns that SQL may use, beside those that are chosen.  A name in it is a column's if
    it is a part of the text: too many rather than too few."""
    text = sql.lower().replace("``", "`")
    others = [name for name in every if name not in chosen] if sql else []
    return [name for name in others if name.lower() in text or "*" in text]


def column_of(name: str) -> Column:
    """The column of this name, whatever characters it has."""
    return F.col("`" + name.replace("`", "``") + "`")


def layout_at(
    spark: SparkSession | None, place: Place, metarange: MetarangeId, prefix: str
) -> Layout:
    """The files of the table below `prefix`, perhaps none; see `listed`."""
    rows = listed(spark, place, metarange, prefix)
    return layout(sorted(File(*row) for row in rows), prefix)


def _stem(at: Pin) -> str:
    return at.prefix.rstrip("/")


def _table(at: Pin, files: Sequence[File]) -> Layout:
    """The files below the prefix; the prefix is a folder or the path of one file."""
    stem = _stem(at)
    prefix = f"{stem}/" if stem else ""
    if single := [each for each in files if each.path == stem and stem]:
        return Layout({}, tuple(single))
    below = [each for each in files if each.path.startswith(prefix) and each.path != prefix]
    table = layout(below, prefix)
    if not table.files:
        raise NotFound(f"no data files at the ref: prefix={prefix!r} commit={at.commit}")
    return table


def _pruned(table: Layout, values: Mapping[str, Any]) -> Layout:
    names = list(table.columns)
    unknown = [name for name in values if name not in table.columns]
    if unknown:
        raise Invalid(
            f"unknown partition columns: {','.join(unknown)} of={','.join(names) or 'none'}"
        )
    numbers = {
        names.index(name): value if isinstance(value, list | tuple | set | frozenset) else [value]
        for name, value in values.items()
    }
    kinds = list(table.columns.values())
    files = tuple(
        file
        for file in table.files
        if all(
            any(is_value(file.values[at], kinds[at], each) for each in several)
            for at, several in numbers.items()
        )
    )
    return replace(table, files=files)


def with_buckets(place: Place, files: Sequence[File]) -> Place:
    """The place, with all buckets that the entries name.  Raises `Unsupported` for other
    storage."""
    parts = [split(each.address) for each in files]
    scheme, _, known = place.storage.partition(":")
    for part in parts:
        if part.scheme != scheme or not part.bucket:
            raise Unsupported(
                f"executors cannot open files in another store: address={part.address} "
                f"storage={scheme}"
            )
    if scheme != "s3":
        return place
    buckets = sorted({*known.split(","), *(each.bucket for each in parts)})
    if len(buckets) > _BUCKETS_MAX:
        raise Unsupported(f"files lie in too many buckets: {len(buckets)} > {_BUCKETS_MAX}")
    return replace(place, storage=f"s3:{','.join(buckets)}")


def schemas_in_tasks(
    spark: SparkSession | None, place: Place, form: Format, files: Sequence[File]
) -> list[FileSchema]:
    """The different schemas of these files.  Without a session, this process reads them."""
    if spark is None:
        return _schemas_here(place, form, files)
    rows = _numbered(files)
    schemas = in_tasks(spark, rows, FILES, reading_schemas(place, form.name), SCHEMAS)
    return [FileSchema(*row) for row in schemas.collect()]


def _schemas_here(place: Place, form: Format, files: Sequence[File]) -> list[FileSchema]:
    """As `schemas_in_tasks`, in this process."""
    run = reading_schemas(place, form.name)

    def one(row: Mapping[str, Any]) -> list[FileSchema]:
        batches = run(iter([pa.RecordBatch.from_pylist([row])]))
        return [FileSchema(**schema) for batch in batches for schema in batch.to_pylist()]

    with ThreadPoolExecutor(_READERS, "schemas") as pool:
        return [each for schemas in pool.map(one, _numbered(files)) for each in schemas]


def _numbered(files: Sequence[File]) -> list[dict[str, Any]]:
    """Rows of `FILES`, oldest file first."""
    return [
        {"number": number, "path": file.path, "address": file.address, "size": file.size}
        for number, file in enumerate(sorted(files, key=lambda file: (file.mtime, file.path)))
    ]


def _folder_kinds(table: Layout, declared: StructType | None) -> dict[str, pa.DataType]:
    """The types of the partition columns.  Raises `Invalid` if a value in a path is not of the type
    that the given schema has."""
    kinds = dict(table.columns)
    if declared is None:
        return kinds
    kinds |= {each.name: each.type for each in to_arrow_schema(declared) if each.name in kinds}
    _check_values(table, list(kinds.values()))
    return kinds


def _schema(
    place: Place,
    form: Format,
    table: Layout,
    declared: StructType | None,
    schemas_of: SchemasOf,
) -> pa.Schema:
    """The columns of the files, without the partition columns."""
    if declared is not None:
        arrow = to_arrow_schema(declared)
    else:
        arrow = to_arrow_schema(united(schemas_of(place, form, table.files), form))
        if not form.is_typed:  # a column without a value in the first blocks is text
            texts = {field.name: pa.string() for field in arrow if pa.types.is_null(field.type)}
            arrow = pa.schema([(field.name, texts.get(field.name, field.type)) for field in arrow])
    return pa.schema([each.with_nullable(True) for each in arrow if each.name not in table.columns])


def _check_values(table: Layout, kinds: Sequence[pa.DataType]) -> None:
    for file in table.files:
        for text, kind in zip(file.values, kinds, strict=True):
            value_of(text, kind)


# ---- in tasks ------------------------------------------------------------------------------------


def loading(order: Loading) -> Any:
    """The function for `mapInArrow`: it takes rows of splits and returns rows of the table."""
    return each_row(partial(_loaded, order))


def _loaded(order: Loading, row: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    constants = {
        field.name: pa.scalar(value_of(value, field.type), field.type)
        for field, value in zip(order.folders, row["partition"], strict=True)
    }
    for batch in _rows(order, row):
        arrays = [
            pa.repeat(constants[name], batch.num_rows) if name in constants else batch.column(name)
            for name in order.columns
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=list(order.columns))


def _counted(order: Loading, row: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    count = sum(batch.num_rows for batch in _rows(order, row))
    yield pa.RecordBatch.from_pydict({"rows": pa.array([count], pa.int64())})


def _rows(order: Loading, row: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """The rows of a split for which the conditions hold, with the columns of `order.data`."""
    stretch = Stretch(row["address"], row["size"], row["start"], row["stop"], order.where)
    blocks = opened(order.place).blocks
    for batch in format_of(order.format).rows(blocks, stretch, order.data):
        rows = kept(batch, order.where)
        if rows.num_rows:
            yield rows
