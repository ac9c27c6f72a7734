"""The formats of data files: which types each can hold, and how files are written and read.

Parquet and ORC have types and groups of rows, so several tasks share a large file.  CSV and JSON
(`texts.py`) have no types, and one task reads a file.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.orc as po
import pyarrow.parquet as pq

from graveler.arrow.conditions import Condition, Summary, may_hold
from graveler.block.adapter import BlockStore
from graveler.core.errors import Corrupt, Unsupported
from graveler.spark import texts
from graveler.spark.texts import Remote, conformed

_ROWS: Final = 65_536  # in a batch
_HEAD_BYTES: Final = 1 << 10
_BEGINNINGS: Final = {
    "parquet": re.compile(rb"PAR1"),
    "orc": re.compile(rb"ORC"),
    "json": re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*("|\})'),
    "csv": re.compile(rb"[^\x00-\x08]*\S[^\x00-\x08]*\Z"),  # any other text
}
_is = pa.types


class Stretch(NamedTuple):
    """A stretch of bytes of an object, whose row groups are wanted; for text formats, the whole
    object.  `where`: fitted conditions on the columns; groups of rows that hold none may be left
    out."""

    address: str
    size: int
    start: int
    stop: int
    where: Sequence[Condition] = ()


class Writer(Protocol):
    """A file while it is written."""

    def write_table(self, table: pa.Table) -> Any:
        """Append rows."""
        ...

    def close(self) -> Any:
        """End the file; the sink stays open."""
        ...


@dataclass(frozen=True, slots=True)
class Format:
    """One format.  Some can divide a file between tasks; the same ones store the types of columns.
    `holds`: whether it can hold a type.  `columns`: the columns of an object.  `rows`: the rows of
    a stretch of an object, with the columns asked for, null where the object lacks one.  `columns`
    and `rows` raise `Corrupt` for what is not a file of this format; each costs one or a few
    requests for each block or row group."""

    name: str
    is_typed: bool
    holds: Callable[[pa.DataType], bool]
    writer: Callable[[IO[bytes], pa.Schema], Writer]
    columns: Callable[[BlockStore, str, int], pa.Schema]
    rows: Callable[[BlockStore, Stretch, pa.Schema], Iterator[pa.RecordBatch]]


def format_of(name: str) -> Format:
    """The format of this name.  Raises `Unsupported`."""
    if name not in _FORMATS:
        raise Unsupported(f"format must be one of {','.join(_FORMATS)}: format={name!r:.100}")
    return _FORMATS[name]


def check_types(form: Format, schema: pa.Schema) -> None:
    """Raise `Unsupported` if the format cannot hold the type of a column."""
    for field in schema:
        if not form.holds(field.type):
            raise Unsupported(
                f"{form.name} cannot store values of this type; choose another format, or cast: "
                f"column={field.name} type={field.type}"
            )


@contextmanager
def _opened(name: str, blocks: BlockStore, address: str, size: int) -> Iterator[Remote]:
    try:
        yield Remote(blocks, address, size)
    except (pa.ArrowException, OSError) as error:
        raise Corrupt(f"file is not {name}, or is damaged: {address=}: {error}") from error


def checked_columns(form: Format, blocks: BlockStore, address: str, size: int) -> pa.Schema:
    """The columns of an object.  Raises `Corrupt`, with the other format's name, for a file of
    another format.  Cost: as `form.columns`; for text one small request more."""
    if not form.is_typed:  # a reader of text finds columns in a file of any format
        _check_beginning(form, blocks, address, size)
    try:
        return form.columns(blocks, address, size)
    except Corrupt:
        _check_beginning(form, blocks, address, size)
        raise


def _check_beginning(form: Format, blocks: BlockStore, address: str, size: int) -> None:
    head = Remote(blocks, address, min(size, _HEAD_BYTES)).read()
    looks = next((name for name, begin in _BEGINNINGS.items() if begin.match(head)), form.name)
    if looks != form.name:
        raise Corrupt(f"file looks like {looks}, not {form.name}")


# ---- Parquet -------------------------------------------------------------------------------------


@contextmanager
def _parquet(blocks: BlockStore, address: str, size: int) -> Iterator[Any]:
    with _opened("parquet", blocks, address, size) as remote:
        source = pa.PythonFile(remote, mode="r")
        with pq.ParquetFile(source, pre_buffer=True, coerce_int96_timestamp_unit="us") as file:
            yield file


def _parquet_columns(blocks: BlockStore, address: str, size: int) -> pa.Schema:
    """A time that is stored as INT96 has no zone in the file, but every writer means UTC."""
    with _parquet(blocks, address, size) as file:
        leaves = (file.schema.column(at) for at in range(len(file.schema.names)))
        old = {leaf.path.split(".")[0] for leaf in leaves if leaf.physical_type == "INT96"}
        return pa.schema(
            [
                field.with_type(_zoned(field.type)) if field.name in old else field
                for field in file.schema_arrow
            ]
        )


def _zoned(kind: pa.DataType) -> pa.DataType:
    """The type with UTC as the zone of its times."""
    if _is.is_timestamp(kind):
        return pa.timestamp(kind.unit, "UTC")
    if _is.is_list(kind):
        return pa.list_(_zoned(kind.value_type))
    if _is.is_map(kind):
        return pa.map_(_zoned(kind.key_type), _zoned(kind.item_type))
    if _is.is_struct(kind):
        return pa.struct([(each.name, _zoned(each.type)) for each in kind])
    return kind


def _parquet_rows(
    blocks: BlockStore, stretch: Stretch, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    with _parquet(blocks, stretch.address, stretch.size) as file:
        groups = _groups_between(file, stretch.start, stretch.stop)
        yield from _batches_of(file, _groups_with(file, groups, stretch.where), schema)


def _groups_between(file: Any, start: int, stop: int) -> list[int]:
    """The row groups that begin within these bytes, so each split has its own groups."""
    groups = []
    for number in range(file.num_row_groups):
        column = file.metadata.row_group(number).column(0)
        begin = column.data_page_offset
        if column.dictionary_page_offset is not None:
            begin = min(begin, column.dictionary_page_offset)
        if start <= begin < stop:
            groups.append(number)
    return groups


def _groups_with(file: Any, groups: list[int], where: Sequence[Condition]) -> list[int]:
    """The groups that may have a row for which all conditions hold, by the file's footer."""
    if not where:
        return groups
    leaves = {file.schema.column(at).path: at for at in range(len(file.schema.names))}
    return [
        number
        for number in groups
        if all(
            may_hold(each, _summary(file, number, leaves.get(each.column), each)) for each in where
        )
    ]


def _summary(file: Any, number: int, leaf: int | None, condition: Condition) -> Summary:
    group = file.metadata.row_group(number)
    if condition.column not in file.schema_arrow.names:
        return Summary(group.num_rows, group.num_rows)  # readers see nulls
    chunk = None if leaf is None else group.column(leaf)
    if chunk is None or not chunk.is_stats_set:
        return Summary(group.num_rows)
    stats = chunk.statistics
    nulls = stats.null_count if stats.has_null_count else None
    bounds = None, None
    if stats.has_min_max and condition.values:
        bounds = _bounds(stats, condition.values[0])
    return Summary(group.num_rows, nulls, *bounds)


def _bounds(stats: Any, wanted: Any) -> tuple[Any, Any]:
    """The bounds in a footer, if they are values of the type that a condition compares with."""
    try:
        bounds = stats.min, stats.max
    except (ValueError, OverflowError, ImportError, pa.ArrowException):  # of Python's range
        return None, None
    kinds = {(type(each), getattr(each, "tzinfo", None) is None) for each in (*bounds, wanted)}
    return bounds if len(kinds) == 1 else (None, None)


def _batches_of(file: Any, groups: Sequence[int], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of some groups with the columns of `schema`, cast to its types; null where the file
    lacks a column.  Raises `Corrupt` unless the number of rows is the one in the file's
    metadata."""
    names = [name for name in schema.names if name in file.schema_arrow.names]
    expected = sum(file.metadata.row_group(number).num_rows for number in groups)
    count = 0
    if not names:  # no column of the file is wanted
        while count < expected:
            length = min(_ROWS, expected - count)
            yield conformed(pa.record_batch([pa.nulls(length)], ["none"]), schema)
            count += length
        return
    for batch in file.iter_batches(batch_size=_ROWS, row_groups=list(groups), columns=names):
        count += batch.num_rows
        yield conformed(batch, schema)
    if count != expected:
        raise Corrupt(f"file states a wrong number of rows: rows={count} expected={expected}")


# ---- ORC -----------------------------------------------------------------------------------------


def _orc_columns(blocks: BlockStore, address: str, size: int) -> pa.Schema:
    with _opened("orc", blocks, address, size) as file:
        return po.ORCFile(pa.PythonFile(file, mode="r")).schema


def _orc_rows(blocks: BlockStore, stretch: Stretch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read stripe by stripe.  pyarrow does not expose where a stripe begins, so the stripes are
    assumed to be spread evenly over the file."""
    with _opened("orc", blocks, stretch.address, stretch.size) as remote:
        file = po.ORCFile(pa.PythonFile(remote, mode="r"))
        names = [name for name in schema.names if name in file.schema.names]
        for number in range(file.nstripes):
            if stretch.start <= number * stretch.size // file.nstripes < stretch.stop:
                # Without columns, the rows still have to be counted, so read one column.
                stripe = file.read_stripe(number, columns=names or file.schema.names[:1])
                for at in range(0, stripe.num_rows, _ROWS):
                    yield conformed(stripe.slice(at, _ROWS), schema)


class _OrcWriter:
    """Times are stored in nanoseconds; a time that does not fit is refused, never wrapped."""

    def __init__(self, sink: IO[bytes], schema: pa.Schema) -> None:
        self._schema = pa.schema([_in_nanoseconds(field) for field in schema])
        self._writer = po.ORCWriter(pa.PythonFile(sink, mode="w"), compression="snappy")
        self._writer.write(self._schema.empty_table())

    def write_table(self, table: pa.Table) -> None:
        """Append rows."""
        self._writer.write(table.cast(self._schema))

    def close(self) -> None:
        """End the file."""
        self._writer.close()


def _in_nanoseconds(field: pa.Field) -> pa.Field:
    kind = field.type
    return field.with_type(pa.timestamp("ns", kind.tz)) if _is.is_timestamp(kind) else field


# ---- text ----------------------------------------------------------------------------------------


def _of_text(
    name: str,
    holds: Callable[[pa.DataType], bool],
    writer: Callable[[IO[bytes], pa.Schema], Writer],
    types: Callable[[Remote], pa.Schema],
    rows: Callable[[Remote, pa.Schema], Iterator[pa.RecordBatch]],
) -> Format:
    """A format of `texts.py`, from its functions `types` and `rows` of an open file."""

    def columns(blocks: BlockStore, address: str, size: int) -> pa.Schema:
        with _opened(name, blocks, address, size) as file:
            return types(file)

    def all_rows(
        blocks: BlockStore, stretch: Stretch, schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        with _opened(name, blocks, stretch.address, stretch.size) as file:
            yield from rows(file, schema)

    return Format(name, False, holds, writer, columns, all_rows)


def _is_plain(kind: pa.DataType) -> bool:
    """Whether a value is written as one piece of text."""
    return (
        _is.is_primitive(kind) or _is.is_string(kind) or _is.is_decimal(kind) or _is.is_null(kind)
    ) and not (_is.is_duration(kind) or _is.is_interval(kind))


def _in_json(kind: pa.DataType) -> bool:
    if _is.is_list(kind):
        return _in_json(kind.value_type)
    if _is.is_struct(kind):
        return all(_in_json(each.type) for each in kind)
    return _is_plain(kind)


def _in_orc(kind: pa.DataType) -> bool:
    return not (_is.is_null(kind) or _is.is_duration(kind) or _is.is_interval(kind))


_FORMATS: Final[Mapping[str, Format]] = {
    "parquet": Format(
        *("parquet", True, lambda _kind: True),
        lambda sink, schema: pq.ParquetWriter(sink, schema, compression="snappy"),
        *(_parquet_columns, _parquet_rows),
    ),
    "orc": Format("orc", True, _in_orc, _OrcWriter, _orc_columns, _orc_rows),
    "csv": _of_text(
        *("csv", _is_plain),
        lambda sink, schema: pc.CSVWriter(pa.PythonFile(sink, mode="w"), schema),
        *(texts.csv_types, texts.csv_rows),
    ),
    "json": _of_text(
        *("json", _in_json),
        lambda sink, _schema: texts.JsonWriter(sink),
        *(texts.json_types, texts.json_rows),
    ),
}
