"""Writing a DataFrame to a table: append, and overwrite of all of it, of partitions, of rows.

    rows, cast to the table's types ──► tasks: files at fresh addresses ──► `landing.py`: one commit
An append puts files; an overwrite also empties folders.  Both land only if the schema is still the
one that the rows were made to fit.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from graveler.committed.reader import scan
from graveler.core.errors import AlreadyExists, Conflict, Invalid
from graveler.core.ids import parse_prefix
from graveler.lake.errors import advising
from graveler.lake.folders import File, column_type, folder, layout, value_of
from graveler.spark.bulk_jobs import JobTerms
from graveler.spark.formats import check_types, format_of
from graveler.spark.lake import Lake, Pin, Target
from graveler.spark.landing import Base, Landed, Patch, StoredFile, land_patch
from graveler.spark.places import Place, opened
from graveler.spark.reads import column_of, layout_at
from graveler.spark.schemas import check_fits, check_folders
from graveler.spark.store import STORED, Storing, storing, without_rows
from graveler.spark.table_schema import FILE, Definition, defined, store
from graveler.spark.table_state import TableState, state_at

ROWS_MAX: Final = 5_000_000
_OVERWRITE_MODE: Final = "spark.sql.sources.partitionOverwriteMode"
_STATIC: Final = (
    "to replace the whole table, and not partitions as the session's setting says: "
    f'partitions="static" ({_OVERWRITE_MODE}=dynamic)'
)
_EPOCH: Final = "1970-01-01 00:00:00"
_MODES: Final = ("append", "overwrite", "errorifexists", "ignore")
_SPARK_NAMES: Final = {"error": "errorifexists", "default": "errorifexists"}
SaveMode = Literal["append", "overwrite", "error", "errorifexists", "ignore"]


@dataclass(frozen=True, slots=True)
class Writing:
    """How to write.  `format`, `partition_by`: of a new table; "" and None: those of the table, or
    parquet and none.  `merges`: new columns may join the table.  `rows_max`: in one file."""

    terms: JobTerms = field(default_factory=JobTerms)
    format: str = ""
    partition_by: Sequence[str] | None = None
    merges: bool = False
    rows_max: int = ROWS_MAX


class StoredRows(NamedTuple):
    """Rows that tasks have stored as files: their columns and the files.  They are written as a
    DataFrame is."""

    schema: T.StructType
    stored: Sequence[StoredFile]

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)


Rows: TypeAlias = DataFrame | StoredRows


def mode_of(mode: str) -> str:
    """The mode as this module calls it; Spark's spellings count.  Raises `Invalid`."""
    plain = str(mode).lower()
    plain = _SPARK_NAMES.get(plain, plain)
    if plain not in _MODES:
        raise Invalid(f"mode must be one of {','.join(_MODES)}: {mode=}")
    return plain


def write(lake: Lake, where: Target, df: DataFrame, mode: str, how: Writing) -> Landed:
    """Write by one of Spark's modes.  See `Table.write`."""
    chosen = mode_of(mode)
    if chosen == "append":
        return append(lake, where, df, how)
    if chosen == "overwrite":
        return overwrite(lake, where, df, how, is_dynamic=is_dynamic(df))
    check_columns(df)
    once = _Once(lake, df, how)

    def make(base: Base) -> Patch | None:
        path = first_path(base.pin)
        if path and chosen == "ignore":
            return None
        if path:
            raise AlreadyExists(
                'the path is not empty; write with mode "append" or "overwrite": '
                f"path={path.decode(errors='replace')!r:.200}"
            )
        definition = new_definition(df, how)
        return Patch([*once.files(base, definition), store(base.pin.place, definition)], guard=[""])

    return _land(lake, where, df, chosen, how, make)


def append(lake: Lake, where: Target, df: Rows, how: Writing) -> Landed:
    """Add the rows to a table, or make the table.  See `Table.append`."""
    check_columns(df)
    once = _Once(lake, df, how)

    def make(base: Base) -> Patch | None:
        known = state_at(lake, base.pin, how.format)
        definition = joined(known, df, how)
        check_folders(known.layout, definition.folders, ())
        files = once.files(base, definition, is_empty=known.definition is None)
        check_folders(known.layout, definition.folders, _placed(files))
        more = schema_file(base, known, definition, files)
        if not files and not more:
            return None
        return Patch([*files, *more], guard=[guard_of(known)])

    return _land(lake, where, df, "append", how, make)


def is_dynamic(df: DataFrame) -> bool:
    """Whether the session of the rows has Spark's setting for overwrites of partitions."""
    return str(df.sparkSession.conf.get(_OVERWRITE_MODE, "static")).lower() == "dynamic"


def overwrite(
    lake: Lake, where: Target, df: Rows, how: Writing, *, is_dynamic: bool = False
) -> Landed:
    """Replace the whole table, its schema too; `is_dynamic`: of a table with partitions, those that
    the rows fall into.  See `Table.overwrite`."""
    check_columns(df)
    once = _Once(lake, df, how)

    def make(base: Base) -> Patch | None:
        chosen = how
        if how.partition_by is None or not how.format or is_dynamic:
            state = state_at(lake, base.pin, how.format)
            known = state.definition
            if is_dynamic and (known.partition_by if known else how.partition_by):
                with advising(Invalid, _STATIC):
                    return _touched(lake, where, df, how, base, state, once)
            chosen = kept_layout(how, known, df)
        definition = new_definition(df, chosen)
        return Patch(
            [*once.files(base, definition), store(base.pin.place, definition)], replace=[""]
        )

    return _land(lake, where, df, "overwrite", how, make)


def overwrite_touched(lake: Lake, where: Target, df: Rows, how: Writing) -> Landed:
    """Replace the partitions that the rows fall into.  See `Table.overwrite`."""
    check_columns(df)
    once = _Once(lake, df, how)

    def make(base: Base) -> Patch | None:
        return _touched(lake, where, df, how, base, state_at(lake, base.pin, how.format), once)

    return _land(lake, where, df, "overwrite touched", how, make)


def _touched(
    lake: Lake,
    where: Target,
    df: Rows,
    how: Writing,
    base: Base,
    known: TableState,
    once: "_Once",
) -> Patch | None:
    definition = joined(known, df, how)
    if not definition.partition_by:
        raise Invalid(
            'partitions="touched" needs a table with partitions: give partition_by=, or '
            f"overwrite all of it: prefix={where.prefix!r}"
        )
    files = once.files(base, definition, is_empty=False)
    if not files:
        return None
    folders = {file.path.rpartition("/")[0] + "/" for file in files}
    folders |= _spelled_otherwise(lake, base.pin, definition, folders)
    check_folders(known.layout, definition.folders, _placed(files))
    more = schema_file(base, known, definition, files)
    return Patch([*files, *more], replace=sorted(folders), guard=[guard_of(known)])


def _land(
    lake: Lake,
    where: Target,
    df: Rows,
    name: str,
    how: Writing,
    make: Callable[[Base], Patch | None],
) -> Landed:
    is_stored = isinstance(df, StoredRows)
    return land_patch(lake, where, verb(how, name), how.terms, make, is_stored=is_stored)


def _spelled_otherwise(
    lake: Lake, pin: Pin, definition: Definition, folders: Collection[str]
) -> set[str]:
    """The table's other folders of the same partitions: other writers spell `month=1` as
    `month=01`, or escape other letters."""
    table = layout_at(lake.spark, pin.place, pin.metarange, pin.prefix)
    if tuple(table.columns) != definition.partition_by:
        return set()
    found = in_partitions(definition, folders, table.files)
    paths = {file.path[len(pin.prefix) :].rpartition("/")[0] + "/" for file in found}
    return {path for path in paths if not path.startswith(tuple(folders))}


def in_partitions(
    definition: Definition, folders: Collection[str], files: Sequence[File]
) -> list[File]:
    """Those of a table's files that lie in the partitions of these folders, however the names of
    the folders spell the values."""
    kinds = [field.type for field in to_arrow_schema(definition.folders)]

    def key(texts: Sequence[str | None]) -> tuple[Any, ...]:
        return tuple(value_of(text, kind) for text, kind in zip(texts, kinds, strict=True))

    files_there = [File(f"{each}-", "", 0) for each in folders]
    texts = {each.values for each in layout(files_there, "").files}
    wanted = set(map(key, texts))
    return [each for each in files if each.values in texts or key(each.values) in wanted]


def verb(how: Writing, name: str) -> str:
    """What a job does, in its purpose."""
    return f"write {how.format or 'table'}, {name}"


def guard_of(known: TableState) -> str:
    """What must not change while rows that fit the table are written: the stored schema; without
    one, everything that says what the table is."""
    is_stored = known.definition is not None and known.definition.is_stored
    return FILE if is_stored else ""


def schema_file(
    base: Base, known: TableState, definition: Definition, files: Sequence[StoredFile]
) -> list[StoredFile]:
    """The file of a schema that the folder does not have yet.  Text of others has no types, and
    what is guessed from some of its values is not stored."""
    table = known.definition
    if table is None or (table.is_stored and definition.struct != table.struct):
        return [store(base.pin.place, definition)]
    if table.is_stored or not format_of(table.format).is_typed:
        return []
    every = [*known.layout.files, *_placed(files)]
    kinds = {
        name: column_type([file.values[at] for file in every])
        for at, name in enumerate(table.partition_by)
    }
    folders = from_arrow_schema(pa.schema(list(kinds.items())), prefer_timestamp_ntz=True)
    struct = T.StructType([*definition.data.fields, *folders.fields])
    return [store(base.pin.place, definition._replace(struct=struct))]


def kept_layout(how: Writing, known: Definition | None, df: Rows) -> Writing:
    """How to write with the format and the partition columns that the table has, if the rows have
    such columns."""
    if known is None:
        return how
    names = known.partition_by if set(known.partition_by) <= set(df.columns) else ()
    by = names if how.partition_by is None else how.partition_by
    return Writing(how.terms, how.format or known.format, by, how.merges, how.rows_max)


# ---- whether rows fit ----------------------------------------------------------------------------


def check_columns(df: Rows) -> None:
    """Raise `Invalid` unless the columns have different names."""
    if len(set(df.columns)) != len(df.columns):
        raise Invalid(f"columns must have different names: {df.columns}")


def new_definition(df: Rows, how: Writing) -> Definition:
    """The table that these rows make.  Raises `Invalid`, `Unsupported`."""
    by = tuple(how.partition_by or ())
    unknown = [name for name in by if name not in df.columns]
    if unknown or len(set(by)) != len(by):
        raise Invalid(
            "partition_by has an unknown or repeated column: "
            f"partition_by={list(by)} of={df.columns}"
        )
    definition = defined(df.schema, by, how.format or "parquet")
    if not definition.data.fields:
        raise Invalid("no column is left for the files: partition by fewer columns")
    return definition


def joined(known: TableState, df: Rows, how: Writing) -> Definition:
    """The table after the rows join it; a new one if there is none.  Raises `Invalid` with the
    columns that do not fit."""
    table = known.definition
    if table is None:
        return new_definition(df, how)
    if how.format and how.format != table.format:
        raise Invalid(
            f"the table has files of another format: format={how.format} table={table.format}"
        )
    if how.partition_by is not None and tuple(how.partition_by) != table.partition_by:
        raise Invalid(
            "the table has other partition columns: write with "
            f"partition_by={list(table.partition_by)}: partition_by={list(how.partition_by)}"
        )
    missing = [name for name in table.partition_by if name not in df.columns]
    if missing:
        raise Invalid(f"the rows lack a partition column of the table: {','.join(missing)}")
    is_text = not table.is_stored and not format_of(table.format).is_typed
    form = format_of(table.format if is_text else "parquet")
    fields = {field.name: field for field in df.schema}
    own = set(() if table.is_stored else table.partition_by)  # `check_folders` has rules for these
    known_struct = T.StructType([field for field in table.struct if field.name not in own])
    rows = T.StructType([field for name, field in fields.items() if name not in own])
    check_fits(known_struct, rows, form, how.merges)
    more = [field for name, field in fields.items() if name not in table.struct.names]
    if is_text:  # text has the types that readers see in its values
        data = [fields.get(field.name, field) for field in table.data]
    else:
        data = list(table.data.fields)
    folders = [fields[name] if name in own else table.struct[name] for name in table.partition_by]
    struct = [T.StructField(each.name, each.dataType) for each in (*data, *more, *folders)]
    return table._replace(struct=T.StructType(struct))


def _placed(files: Sequence[StoredFile]) -> tuple[File, ...]:
    return layout([File(file.path, "", 0) for file in files], "").files


def first_path(pin: Pin) -> bytes:
    """The first path in the folder; empty if there is none."""
    prefix = parse_prefix(pin.prefix)
    entries = scan(opened(pin.place).space, pin.metarange, prefix=prefix)
    return next((key for key, _ in entries), b"")


# ---- files ---------------------------------------------------------------------------------------


class _Once:
    """The rows as files, stored once for all rounds in which the table is the same."""

    def __init__(self, lake: Lake, df: Rows, how: Writing) -> None:
        self._lake, self._df, self._how = lake, df, how
        self._known: dict[str, list[StoredFile]] = {}

    def files(self, base: Base, definition: Definition, is_empty: bool = True) -> list[StoredFile]:
        """`is_empty`: without rows, store a file of the columns."""
        key = f"{definition.struct.json()} {definition.partition_by} {definition.format}"
        if key not in self._known:
            place, rows_max = base.pin.place, self._how.rows_max
            if isinstance(self._df, StoredRows):
                order = ordered(place, definition, self._df.columns, rows_max)
                files = list(self._df.stored)
                _check_placed(files, definition)
                self._known[key] = files or (empty_file(order) if is_empty else [])
            else:
                self._known[key] = stored_rows(
                    self._df, place, definition, rows_max, is_empty=is_empty
                )
        return self._known[key]


def _check_placed(files: Sequence[StoredFile], definition: Definition) -> None:
    """Raise `Conflict` if files that were stored beforehand are none of this table's."""
    names = tuple(layout([File(each.path, "", 0) for each in files], "").columns)
    formats = {each.path.rpartition(".")[2] for each in files}
    if files and (names != definition.partition_by or formats != {definition.format}):
        raise Conflict(
            "the table got other partition columns or another format while the rows were written: "
            f"write them again: partition_by={list(definition.partition_by)} "
            f"format={definition.format}"
        )


def stored_rows(
    df: DataFrame,
    place: Place,
    definition: Definition,
    rows_max: int = ROWS_MAX,
    *,
    is_empty: bool = True,
) -> list[StoredFile]:
    """Run the tasks, and return the files of the attempts that count.  Columns that the rows lack
    are left out of the files; `is_empty`: without rows, store a file of the columns."""
    if rows_max < 1:
        raise Invalid(f"rows_max must be at least 1: {rows_max=}")
    order = ordered(place, definition, df.columns, rows_max)
    # `mapInArrow` fails on some column names, so the columns are numbered.
    data = [
        _cast(df, field).alias(f"data_{at}")
        for at, field in enumerate(field for field in definition.data if field.name in df.columns)
    ]
    folders = [f"folder_{at}" for at in range(len(order.folders))]
    for name, alias in zip(order.folders, folders, strict=True):
        data.append(_spelled(df, definition.struct[name]).alias(alias))
    rows = df.select(*data)
    if folders:
        rows = rows.sortWithinPartitions(*folders)
    found = rows.mapInArrow(storing(order), STORED).collect()
    files = [StoredFile(*row) for row in found]
    return empty_file(order) if is_empty and not files else files


def empty_file(order: Storing) -> list[StoredFile]:
    """A stored file of the columns, without rows."""
    return [StoredFile(*row.values()) for row in without_rows(order).to_pylist()]


def ordered(place: Place, definition: Definition, columns: Sequence[str], rows_max: int) -> Storing:
    """The instructions of the tasks that store rows with these columns."""
    data = T.StructType([field for field in definition.data if field.name in columns])
    schema = to_arrow_schema(data)
    check_types(format_of(definition.format), schema)
    return Storing(place, schema, definition.partition_by, rows_max, definition.format)


def stored_folders(df: DataFrame, definition: Definition) -> DataFrame:
    """The folders that the rows fall into, relative to the table's, in one column."""
    names = definition.partition_by
    parts = [_spelled(df, definition.struct[name]) for name in names]

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            values = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            paths = {folder(names, each) for each in values}
            yield pa.RecordBatch.from_pydict({"folder": sorted(paths)})

    numbered = [part.alias(f"folder_{at}") for at, part in enumerate(parts)]
    return df.select(*numbered).distinct().mapInArrow(run, "folder string")


def _cast(df: DataFrame, field: T.StructField) -> Column:
    """The column, in the table's type, which holds the values of its own (`schemas.wider`)."""
    column = column_of(field.name)
    return (
        column if df.schema[field.name].dataType == field.dataType else column.cast(field.dataType)
    )


def _spelled(df: DataFrame, field: T.StructField) -> Column:
    """The text of a value in a folder's name; a time is in UTC, whatever the session's time zone
    is."""
    column = _cast(df, field)
    if isinstance(field.dataType, T.TimestampType):
        seconds = F.unix_micros(column).cast("decimal(20,0)") / F.lit(1_000_000)
        zero = F.lit(0)
        since = F.make_dt_interval(zero, zero, zero, seconds.cast("decimal(18,6)"))
        return (F.lit(_EPOCH).cast("timestamp_ntz") + since).cast("string")
    return column.cast("string")
