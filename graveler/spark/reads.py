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
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructField, StructType

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
from graveler.spark.tasks import each_row, in_tasks, parallel_tasks, row_of

_SPLITS: Final = "address string, size bigint, start bigint, stop bigint, partition array<string>"
_SPLIT_BYTES: Final = 128 << 20
_OPENING_BYTES: Final = 4 << 20  # bytes that a task reads in the time of opening a file
_LISTED: Final = ("path", "address", "size", "mtime")
_READERS: Final = 16
_BUCKETS_MAX: Final = 100
SchemasOf = Callable[[Place, Format, Sequence[File]], list[FileSchema]]


@dataclass(frozen=True, slots=True)
class Loading:
    """The instructions of a read, equal for every task.  They go to the executors, so they hold no
    secret.  `data`: the columns of the files; `folders`: the columns of the paths, in the order of
    the values of a split; `columns`: the columns of the result."""

    place: Place
    format: str
    data: pa.Schema
    folders: pa.Schema
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableRequest:
    """The arguments of `read` as one record."""

    format: str = "parquet"
    columns: Sequence[str] = ()
    partitions: Mapping[str, Any] = field(default_factory=dict)
    schema: StructType | None = None


class Split(NamedTuple):
    """A stretch of bytes of a file (or the whole file), whose groups of rows one task reads, and
    the partition values in the file's path."""

    address: str
    size: int
    start: int
    stop: int
    partition: list[str | None]


class Plan(NamedTuple):
    """The columns of a table, its splits, and the function that reads one split."""

    schema: StructType
    splits: Sequence[Split]
    run: Any


def read(
    lake: Lake,
    where: str,
    format: str = "parquet",
    *,
    columns: str | Sequence[str] = (),
    partitions: Mapping[str, Any] | None = None,
    schema: StructType | str | None = None,
) -> DataFrame:
    """The table at "repository/ref/folder", which is a folder or a single file, at the commit of
    the ref.

    `ref`: a branch (its last commit), a tag, a commit, or one of these with `~n`.  `format`:
    parquet, orc, csv or json, as in `SaveOptions`.  `columns`: read only these, in this order.
    `partitions`: open only files under these values, each a value or a list of them; None means
    null.  The result has the columns of all files that are opened; columns that a file lacks are
    null.  `schema`, also as text ("id bigint"): use it instead; a partition column in it gets its
    type.  For csv and json the types are inferred from the first block of each file, and a later
    value of another type is an error; pass a schema to avoid this.

    Errors: `Invalid` (also if two files have types of a column that do not fit), `NotFound` (also
    if there is no file), `Corrupt`, `Unsupported`; in tasks `Corrupt` or `Unavailable`, wrapped by
    Spark.  Cost: 2 requests to the API; tasks read the ranges that hold the prefix and, without a
    schema, the end or the first block of each file; the driver holds a row for each file.
    """
    if isinstance(schema, str):
        schema = lake.spark.createDataFrame([], schema).schema
    reading = TableRequest(format, parse_names(columns), partitions or {}, schema)
    format_of(format)
    at, spark = pinned(lake, where), lake.spark
    listed = entries_of(spark, at.place, at.metarange, _stem(at), _LISTED).collect()
    plan = _planned(at, map(tuple, listed), reading, partial(schemas_in_tasks, spark))
    tasks = max(parallel_tasks(spark), len(shared(plan.splits)))
    rows = [each._asdict() for each in plan.splits]
    return in_tasks(spark, rows, _SPLITS, plan.run, plan.schema, tasks)


def shared(splits: Iterable[Split]) -> list[list[Split]]:
    """The splits in groups, one group for each task: a large split alone, small ones together."""
    groups: list[list[Split]] = []
    room = 0
    for piece in splits:
        weight = min(piece.stop, piece.size) - piece.start + _OPENING_BYTES
        if weight > room:
            groups.append([])
            room = _SPLIT_BYTES
        groups[-1].append(piece)
        room -= weight
    return groups


def planned(at: Pin, reading: TableRequest) -> Plan:
    """The part of `read` that needs no Spark session: this process lists the files."""
    prefix = parse_prefix(_stem(at))
    refs = [row_of(ref) for ref in meeting(at.ranges(), prefix)]
    listing = scanning(Reading(at.place, prefix, _LISTED))
    batches = listing(iter([pa.RecordBatch.from_pylist(refs)] if refs else []))
    rows = (tuple(row.values()) for batch in batches for row in batch.to_pylist())
    return _planned(at, rows, reading, _schemas_here)


def _planned(
    at: Pin, listed: Iterable[tuple[Any, ...]], reading: TableRequest, schemas_of: SchemasOf
) -> Plan:
    form = format_of(reading.format)
    whole = _table(at, sorted(File(*row) for row in listed))
    table = _pruned(whole, reading.partitions)
    known = table if table.files else whole
    place = with_buckets(at.place, known.files)
    data, kinds = _schemas(place, form, known, reading.schema, schemas_of)
    every = [*data.names, *kinds.names]
    unknown = [name for name in reading.columns if name not in every]
    if unknown:
        raise Invalid(f"unknown columns: {','.join(unknown)} of={','.join(every) or 'none'}")
    if not every and any(file.size for file in known.files):
        raise Invalid("the files have no columns")
    order = tuple(reading.columns) or tuple(every)
    stored = pa.schema([field for field in data if field.name in order])
    check_types(form, stored)
    both = from_arrow_schema(pa.schema([*data, *kinds]), prefer_timestamp_ntz=True)
    types = {field.name: field for field in both}
    result = StructType([StructField(name, types[name].dataType) for name in order])
    splits = [
        Split(file.address, file.size, begin, begin + span, list(file.values))
        for file in table.files
        for span in [_SPLIT_BYTES if form.is_typed else max(1, file.size)]
        for begin in range(0, max(1, file.size), span)
    ]
    return Plan(result, splits, loading(Loading(place, form.name, stored, kinds, order)))


def layout_at(spark: SparkSession, place: Place, metarange: MetarangeId, prefix: str) -> Layout:
    """The files of the table below `prefix`, perhaps none."""
    rows = entries_of(spark, place, metarange, prefix, _LISTED).collect()
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
    spark: SparkSession, place: Place, form: Format, files: Sequence[File]
) -> list[FileSchema]:
    """The different schemas of these files."""
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


def _schemas(
    place: Place,
    form: Format,
    table: Layout,
    declared: StructType | None,
    schemas_of: SchemasOf,
) -> tuple[pa.Schema, pa.Schema]:
    """The columns of the files, without the partition columns; and the partition columns."""
    kinds = dict(table.columns)
    if declared is not None:
        arrow = to_arrow_schema(declared)
        kinds |= {field.name: field.type for field in arrow if field.name in kinds}
        _check_values(table, list(kinds.values()))
    else:
        arrow = to_arrow_schema(united(schemas_of(place, form, table.files), form))
        if not form.is_typed:  # a column without a value in the first blocks is text
            texts = {field.name: pa.string() for field in arrow if pa.types.is_null(field.type)}
            arrow = pa.schema([(field.name, texts.get(field.name, field.type)) for field in arrow])
    data = [field.with_nullable(True) for field in arrow if field.name not in kinds]
    return pa.schema(data), pa.schema(list(kinds.items()))


def _check_values(table: Layout, kinds: Sequence[pa.DataType]) -> None:
    """Raise `Invalid` if a value in a path is not of the type that the given schema has."""
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
    stretch = Stretch(*(row[name] for name in Stretch._fields))
    blocks = opened(order.place).blocks
    for batch in format_of(order.format).rows(blocks, stretch, order.data):
        arrays = [
            pa.repeat(constants[name], batch.num_rows) if name in constants else batch.column(name)
            for name in order.columns
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=list(order.columns))
