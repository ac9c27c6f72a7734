"""The schema of a table, and whether rows fit it.

files, oldest first ──tasks──► their different schemas ──driver──► one schema, or an error
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, NoReturn

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from graveler.block.adapter import BlockStore
from graveler.core import errors
from graveler.core.errors import GravelerError, Invalid, Unavailable
from graveler.lake.folders import File, Layout, column_type, keeps_type
from graveler.spark.formats import Format, checked_columns, format_of
from graveler.spark.places import Place, opened
from graveler.spark.tasks import arrow_schema

FILES: Final = "number bigint, path string, address string, size bigint"
SCHEMAS: Final = "number bigint, path string, schema binary, kind string, error string"
_ARROW: Final = arrow_schema(SCHEMAS)
_WHOLE: Final = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_FRACTIONS: Final = (T.FloatType, T.DoubleType)
_TEXTS: Final = (T.StringType, T.DateType, T.TimestampType, T.TimestampNTZType)
_DIGITS_MAX: Final = 38


class FileSchema(NamedTuple):
    """The schema of one file, in Arrow's serialized form; or the error that reading it raised."""

    number: int
    path: str
    schema: bytes
    kind: str
    error: str


def reading_schemas(place: Place, format: str) -> Any:
    """The function for `mapInArrow`: it takes rows of `FILES` and returns rows of `SCHEMAS`, one
    for each different schema.  Cost: one request for each file, or a few for text."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        form, seen = format_of(format), set[tuple[bytes, str]]()
        for batch in batches:
            for file in batch.to_pylist():
                schema = _read(form, opened(place).blocks, file)
                if (schema.schema, schema.kind) not in seen:
                    seen.add((schema.schema, schema.kind))
                    yield pa.RecordBatch.from_pylist([schema._asdict()], schema=_ARROW)

    return run


def _read(form: Format, blocks: BlockStore, file: dict[str, Any]) -> FileSchema:
    """An error is a result: Spark would repeat the task, and wrap the error."""
    number, path = file["number"], file["path"]
    try:
        columns = checked_columns(form, blocks, file["address"], file["size"])
        if len(set(columns.names)) != len(columns.names):
            raise Invalid(f"columns must have different names: {columns.names}")
    except Unavailable:
        raise
    except GravelerError as error:
        return FileSchema(number, path, b"", type(error).__name__, str(error))
    kinds = pa.types
    plain = pa.schema(
        [
            (each.name, each.type.value_type if kinds.is_dictionary(each.type) else each.type)
            for each in columns
        ]
    )
    return FileSchema(number, path, plain.serialize().to_pybytes(), "", "")


def united(schemas: Iterable[FileSchema], form: Format) -> T.StructType:
    """One schema for all files: their columns in the order in which files have them, oldest file
    first.  Errors: those of the files; `Invalid` if no type holds the values of two files, with
    both paths and the column."""
    columns: dict[str, tuple[T.DataType, str]] = {}
    for each in sorted(schemas):
        if each.kind:
            raise getattr(errors, each.kind)(f"{each.error}: path={each.path!r:.200}")
        schema = pa.ipc.read_schema(pa.py_buffer(each.schema))
        # Text has no times without a zone: they count as UTC.
        for field in from_arrow_schema(schema, prefer_timestamp_ntz=form.is_typed):
            known, path = columns.get(field.name, (field.dataType, each.path))
            kind = wider(known, field.dataType, form)
            if kind is None:
                raise Invalid(
                    "two files have types of a column that do not fit: write one of them anew, or "
                    f"read with schema=: column={field.name} {known.simpleString()} in "
                    f"{path!r:.200} and {field.dataType.simpleString()} in {each.path!r:.200}"
                )
            columns[field.name] = kind, path if kind == known else each.path
    return T.StructType([T.StructField(name, kind) for name, (kind, _) in columns.items()])


def wider(one: T.DataType, other: T.DataType, form: Format) -> T.DataType | None:
    """The type that holds the values of both without a loss; None if there is none.  In text files,
    a whole number may stand in a column of fractions, and a date is a text too."""
    if one.simpleString() == other.simpleString() or isinstance(other, T.NullType):
        return one
    if isinstance(one, T.NullType):
        return other
    for family in (_WHOLE, _FRACTIONS):
        if type(one) in family and type(other) in family:
            return max(one, other, key=lambda kind: family.index(type(kind)))
    if isinstance(one, T.DecimalType) and isinstance(other, T.DecimalType):
        scale = max(one.scale, other.scale)
        digits = max(one.precision - one.scale, other.precision - other.scale) + scale
        return T.DecimalType(digits, scale) if digits <= _DIGITS_MAX else None
    if not form.is_typed and isinstance(one, _TEXTS) and isinstance(other, _TEXTS):
        return T.StringType()
    whole, fraction = sorted((one, other), key=lambda kind: type(kind) in _FRACTIONS)
    if type(whole) in _WHOLE and type(fraction) in _FRACTIONS:
        return T.DoubleType() if not form.is_typed or type(whole) is not T.LongType else None
    return None


def check_fits(table: T.StructType, rows: T.StructType, form: Format, merges: bool) -> None:
    """Raise `Invalid` unless rows of these columns can join the files of a table: each column
    is one of the table's, with a type that the table's type holds.  `merges`: new columns are
    allowed.  CSV has no types, so only the names count; JSON has those that its values show, and
    without rows not even columns."""
    if not table.names:
        return
    names = {name.lower(): name for name in table.names}
    for field in rows:
        known = names.get(field.name.lower())
        if known is None and not merges:
            raise Invalid(
                "the table has no such column; pass merge_schema=True to add it: "
                f"column={field.name} type={field.dataType.simpleString()} of={table.names}"
            )
        if known not in (None, field.name):
            raise Invalid(f"the table spells this column {known!r}: rename it: column={field.name}")
        if known is not None and not _holds(table[known].dataType, field.dataType, form):
            _refuse_type("column", field, table[known].dataType)


def _refuse_type(what: str, field: T.StructField, kind: T.DataType) -> NoReturn:
    raise Invalid(
        f"the table's {what} has another type: cast it: column={field.name} "
        f"table={kind.simpleString()} rows={field.dataType.simpleString()}"
    )


def _holds(table: T.DataType, rows: T.DataType, form: Format) -> bool:
    """Whether a column of the table can take the rows' values and keep its type."""
    if form.name == "csv":
        return True
    if form.name == "json":
        return _alike(table, rows)
    merged = wider(table, rows, form)
    return merged is not None and merged.simpleString() == table.simpleString()


def _alike(one: T.DataType, other: T.DataType) -> bool:
    """Whether both are spelled alike in JSON: as numbers, booleans, texts, lists or objects."""
    if isinstance(one, T.ArrayType) and isinstance(other, T.ArrayType):
        return _alike(one.elementType, other.elementType)
    if isinstance(one, T.StructType) and isinstance(other, T.StructType):
        same = (_alike(one[name].dataType, other[name].dataType) for name in one.names)
        return one.names == other.names and all(same)
    return T.NullType in (type(one), type(other)) or _spelling(one) == _spelling(other)


def _spelling(kind: T.DataType) -> str:
    if isinstance(kind, T.BooleanType | T.ArrayType | T.StructType):
        return str(kind.typeName())
    return "number" if type(kind) in (*_WHOLE, *_FRACTIONS) else "text"


def check_folders(table: Layout, rows: T.StructType, added: Sequence[File]) -> None:
    """Raise `Invalid` unless the partition columns keep the types that readers infer from the
    table's folders.  `rows`: the partition columns of the rows; `added`: the rows' files, once they
    are known.  A column without a value has no type yet, and rows of text show theirs in the
    values only."""
    for at, (name, kind) in enumerate(table.columns.items()):
        if all(file.values[at] is None for file in table.files):
            continue
        stored, (known,) = rows[name].dataType, from_arrow_schema(pa.schema([(name, kind)]))
        if not isinstance(stored, T.StringType) and not _joins(kind, _in_paths(stored)):
            _refuse_type("partition column", rows[name], known.dataType)
        for file in added:
            value = file.values[at]
            if value is not None and not keeps_type(kind, column_type([value])):
                raise Invalid(
                    "a value does not fit the type of the table's partition column: change it, "
                    f"or write the table anew: column={name} table={known.dataType.simpleString()} "
                    f"{value=!r:.200}"
                )


def _joins(column: pa.DataType, added: pa.DataType) -> bool:
    are_texts = pa.types.is_string(column), pa.types.is_string(added)
    return are_texts[0] == are_texts[1] and keeps_type(column, added)


def _in_paths(kind: T.DataType) -> pa.DataType:
    """The type that readers infer from values of this type in paths."""
    if type(kind) in _WHOLE or (isinstance(kind, T.DecimalType) and not kind.scale):
        return pa.int32()
    if type(kind) in (*_FRACTIONS, T.DecimalType):
        return pa.float64()
    if isinstance(kind, T.DateType):
        return pa.date32()
    is_time = isinstance(kind, T.TimestampType | T.TimestampNTZType)
    return pa.timestamp("us", "UTC") if is_time else pa.string()
