"""The columns of an import: one canonical form, and the rules that each row must keep.

All functions work on whole Arrow columns.  A row gets the first reason that applies.  Optional
columns that a DataFrame lacks are left out, so that the JVM does not make them; tasks add them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from graveler.arrow.vectors import bytes_of
from graveler.block import address
from graveler.core import limits
from graveler.core.errors import Invalid
from graveler.spark.cuts import literal

COLUMNS: Final = ("path", "address", "size", "checksum", "mtime", "metadata", "content_type")
NO_PATH: Final = "path is null or empty"
REASONS: Final = (
    "",
    NO_PATH,
    f"path is longer than {limits.path_length_bytes_max} bytes",
    "path is not UTF-8, or has a NUL character",
    "address is null or empty",
    "checksum is null or empty",
    f"checksum is longer than {limits.checksum_length_bytes_max} bytes",
    "size is null",
    "size is negative or too large",
    "mtime is null or out of range",
    f"content type is longer than {limits.content_type_length_bytes_max} characters",
    "metadata has an empty key or a null value, or is too large",
    "text is not UTF-8",
    "address is not one of an object",
    "address has another scheme than the repository's storage",
    "address lies in the repository's own storage namespace",
    "address does not lie where a job writes objects",
)
_NUMBERS: Final = {reason: number for number, reason in enumerate(REASONS)}
_MTIME_MAX: Final = 253_402_300_799_999_999  # the end of the year 9999, in microseconds
_NO_DOTS: Final = r"(?:[^/\\\x00.]|\.[^/\\\x00.]|\.\.[^/\\\x00])[^/\\\x00]*"  # a segment
_PLAIN: Final = f"^[a-z][a-z0-9]*://{_NO_DOTS}(?:/{_NO_DOTS})+/?$"
_DOTS: Final = r"/\.{1,2}(/|$)"
_S3_SPELLING: Final = r"^(?i:s3|s3a|s3n)://"
_WHOLE: Final = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_REQUIRED: Final = ("path", "address", "size", "checksum", "mtime")


class Pairs(NamedTuple):
    """How many pairs each row has, and the keys and values of all pairs as binary arrays."""

    counts: Any
    keys: Any
    items: Any

    @property
    def rows(self) -> Any:
        """The row of each pair."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def in_order(self) -> "Pairs":
        """The same pairs, sorted by key within each row."""
        if self._are_ascending().all():
            return self
        table = pa.table({"row": self.rows, "key": self.keys})
        order = pc.sort_indices(table, [("row", "ascending"), ("key", "ascending")])
        return Pairs(self.counts, self.keys.take(order), self.items.take(order))

    def twins(self) -> Any:
        """The rows that have a key twice.  The pairs must be in order."""
        return np.unique(self.rows[1:][~self._are_ascending()])

    def _are_ascending(self) -> Any:
        """For each pair but the first: whether it is the first of its row, or its key is greater
        than the key before it."""
        keys = self.keys
        if len(keys) < 2:
            return np.ones(0, dtype=bool)
        greater = pc.greater(keys.slice(1), keys.slice(0, len(keys) - 1))
        rows = self.rows
        return (rows[1:] != rows[:-1]) | greater.to_numpy(zero_copy_only=False)


def pairs_of(metadata: Any) -> Pairs:
    """The pairs of a map array in their stored order; a null map has none."""
    offsets = np.asarray(metadata.offsets).astype(np.int64)
    counts = np.diff(offsets)
    first, last = int(offsets[0]), int(offsets[-1])
    keys, items = (
        column.slice(first, last - first).cast(pa.binary())
        for column in (metadata.keys, metadata.items)
    )
    is_null = metadata.is_null().to_numpy(zero_copy_only=False)
    if counts[is_null].any():
        is_valid = pa.array(np.repeat(~is_null, counts))
        keys, items = keys.filter(is_valid), items.filter(is_valid)
    return Pairs(np.where(is_null, 0, counts), keys, items)


class Addresses(StrEnum):
    """Which addresses an import accepts."""

    FULL = "full"  # of objects that lie elsewhere
    RELATIVE = "relative"  # of objects that this job wrote into the repository's own folder


@dataclass(frozen=True, slots=True)
class Rules:
    """What the entries of one repository may point to."""

    namespace: str
    addresses: Addresses = Addresses.FULL

    @property
    def start(self) -> str:
        """The beginning of every full address."""
        return f"{address.split_prefix(self.namespace + '/').scheme}://"


@dataclass(frozen=True, slots=True)
class CheckedTable:
    """A table in canonical form, and for each row the number of a reason; 0 means the row is
    good."""

    table: pa.Table
    reasons: Any

    @property
    def good(self) -> pa.Table:
        """The rows without a reason."""
        return self.table.filter(pa.array(self.reasons == 0)) if self.reasons.any() else self.table


def completed(table: pa.Table) -> pa.Table:
    """The table with the optional columns that it lacks, in which no row has a value."""
    count = table.num_rows
    if "metadata" not in table.column_names:
        offsets = pa.array(np.zeros(count + 1, dtype=np.int32))
        none = pa.array([], pa.string())
        table = table.append_column("metadata", pa.MapArray.from_arrays(offsets, none, none))
    if "content_type" not in table.column_names:
        table = table.append_column("content_type", pa.nulls(count, pa.string()))
    return table


def check(table: pa.Table, rules: Rules) -> CheckedTable:
    """Check every row.  Addresses and checksums are returned in their canonical spelling; columns
    other than `COLUMNS` are returned unchanged."""
    names = {name: one_array(table.column(name)) for name in table.column_names}
    reasons = np.zeros(table.num_rows, dtype=np.int8)
    for name in ("address", "checksum", "content_type"):
        names[name], wrong = _valid_text(names[name])
        _note(reasons, wrong, "text is not UTF-8")
    if not _mask(pc.starts_with(names["address"], rules.start)).all():
        names["address"] = pc.replace_substring_regex(names["address"], _S3_SPELLING, "s3://")
    if b'"' in bytes(bytes_of(names["checksum"])):
        names["checksum"] = pc.utf8_trim(names["checksum"], characters='"')
    _check_path(reasons, names["path"])
    _check_fields(reasons, names)
    _check_metadata(reasons, names["metadata"])
    _check_address(reasons, names["address"], rules)
    return CheckedTable(pa.table(names), reasons)


def one_array(column: Any) -> Any:
    """A column of a table as one array."""
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _note(reasons: Any, wrong: Any, reason: str) -> None:
    """Give `reason` to the rows that are `wrong` and have no reason yet."""
    mask = np.asarray(wrong, dtype=bool)
    reasons[mask & (reasons == 0)] = _NUMBERS[reason]


def _mask(column: Any) -> Any:
    """A boolean column as a numpy array; null becomes false."""
    return pc.fill_null(column, False).to_numpy(zero_copy_only=False)


def _valid_text(column: Any) -> tuple[Any, Any]:
    """The column with null in place of each value that is not UTF-8, and a mask of these values."""
    try:
        column.validate(full=True)
        return column, np.zeros(len(column), dtype=bool)
    except pa.ArrowInvalid:
        raw = column.cast(pa.binary()).to_pylist()
        texts = [_text(each) for each in raw]
        wrong = [text is None and each is not None for text, each in zip(texts, raw, strict=True)]
        return pa.array(texts, pa.string()), np.array(wrong)


def _text(raw: bytes | None) -> str | None:
    try:
        return None if raw is None else raw.decode()
    except UnicodeDecodeError:
        return None


def _check_path(reasons: Any, path: Any) -> None:
    length = pc.fill_null(pc.binary_length(path), 0).to_numpy(zero_copy_only=False)
    _note(reasons, length == 0, REASONS[1])
    _note(reasons, length > limits.path_length_bytes_max, REASONS[2])
    text, wrong = _valid_text(path.view(pa.string()))
    if b"\0" in bytes(bytes_of(path)):
        wrong = wrong | _mask(pc.match_substring(text, "\0"))
    _note(reasons, wrong, REASONS[3])


def _check_fields(reasons: Any, names: dict[str, Any]) -> None:
    for name in ("address", "checksum"):
        is_empty = _mask(pc.equal(pc.binary_length(names[name]), 0))
        _note(reasons, is_empty | _mask(pc.is_null(names[name])), f"{name} is null or empty")
    _longer(reasons, pc.binary_length(names["checksum"]), limits.checksum_length_bytes_max, 6)
    _note(reasons, _mask(pc.is_null(names["size"])), "size is null")
    size = pc.fill_null(names["size"], 0).to_numpy(zero_copy_only=False)
    too_large = (size < 0) | (size > limits.object_size_bytes_max)
    _note(reasons, too_large, "size is negative or too large")
    mtime = pc.fill_null(names["mtime"], -1).to_numpy(zero_copy_only=False)
    _note(reasons, (mtime < 0) | (mtime > _MTIME_MAX), "mtime is null or out of range")
    length = pc.utf8_length(names["content_type"])
    _longer(reasons, length, limits.content_type_length_bytes_max, 10)


def _longer(reasons: Any, length: Any, most: int, number: int) -> None:
    _note(reasons, pc.fill_null(length, 0).to_numpy(zero_copy_only=False) > most, REASONS[number])


def _check_metadata(reasons: Any, metadata: Any) -> None:
    """Check all pairs at once.  A row is also wrong if one of its texts is not UTF-8."""
    pairs = pairs_of(metadata)
    if not pairs.counts.any():
        return
    rows, count = pairs.rows, len(reasons)
    length, wrong = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=bool)
    for column in (pairs.keys, pairs.items):
        _, invalid = _valid_text(column.view(pa.string()))
        wrong |= invalid | _mask(pc.is_null(column))
        length += pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
    wrong |= _mask(pc.equal(pc.binary_length(pairs.keys), 0))
    total = np.bincount(rows, length, count)
    at_fault = np.bincount(rows, wrong, count) > 0
    at_fault |= (pairs.counts > limits.metadata_pairs_max) | (
        total > limits.object_metadata_length_bytes_max
    )
    _note(reasons, at_fault, "metadata has an empty key or a null value, or is too large")


def _check_address(reasons: Any, column: Any, rules: Rules) -> None:
    if rules.addresses is Addresses.RELATIVE:
        is_own = _mask(pc.match_substring_regex(column, r"^data/[^/\\\x00]+(/[^/\\\x00]+)*$"))
        dotted = _mask(pc.match_substring_regex(column, _DOTS))
        long = _mask(pc.greater(pc.binary_length(column), limits.address_length_bytes_max // 2))
        _note(reasons, ~is_own | dotted | long, REASONS[16])
        return
    plain = _are_canonical(column)
    for row in np.flatnonzero(~plain & (reasons == 0)):
        plain[row] = _is_address(column[int(row)].as_py())
    _note(reasons, ~plain, "address is not one of an object")
    same = _mask(pc.starts_with(column, rules.start))
    _note(reasons, ~same, REASONS[14])
    inside = _mask(pc.starts_with(column, address.normalise(rules.namespace) + "/"))
    _note(reasons, inside, REASONS[15])


def _are_canonical(column: Any) -> Any:
    """Which texts certainly are addresses in canonical spelling, if their S3 scheme is spelled so.
    Some other texts are canonical too."""
    plain = _mask(pc.match_substring_regex(column, _PLAIN))
    return plain & _mask(pc.less_equal(pc.binary_length(column), limits.address_length_bytes_max))


def _is_address(text: str) -> bool:
    """Whether the text is an address in canonical spelling."""
    try:
        return address.split(text).address == text
    except Invalid:
        return False


def canonical(df: DataFrame, prefix: bytes) -> DataFrame:
    """`df` with these columns and no other; without an optional one that `df` lacks, or in which
    every value is null by its type.  Raises `Invalid` if a column is missing or has another type.
    Reads no data."""
    fields = {each.name: each.dataType for each in df.schema.fields}
    missing = [name for name in _REQUIRED if name not in fields]
    if missing:
        raise Invalid(f"rows lack columns: missing={','.join(missing)} found={','.join(fields)}")
    optional = [
        of_type(fields[name]).alias(name)
        for name, of_type in _OPTIONAL.items()
        if not isinstance(fields.get(name, T.NullType()), T.NullType)
    ]
    return df.select(
        _path(fields["path"], prefix).alias("path"),
        _of_text("address", fields["address"]).alias("address"),
        _size(fields["size"]).alias("size"),
        _of_text("checksum", fields["checksum"]).alias("checksum"),
        _mtime(fields["mtime"]).alias("mtime"),
        *optional,
    )


def _path(kind: T.DataType, prefix: bytes) -> Column:
    if not isinstance(kind, T.StringType | T.BinaryType):
        raise _wrong("path", kind, "string or binary")
    raw = F.col("path").cast("binary")
    # An empty path must not become the prefix itself.
    return F.when(F.length(raw) > 0, F.concat(literal(prefix), raw) if prefix else raw)


def _of_text(name: str, kind: T.DataType) -> Column:
    if isinstance(kind, T.NullType):
        return F.lit(None).cast("string")
    if not isinstance(kind, T.StringType):
        raise _wrong(name, kind, "string")
    return F.col(name)


def _size(kind: T.DataType) -> Column:
    if not isinstance(kind, _WHOLE):
        raise _wrong("size", kind, "bigint or a smaller integer")
    return F.col("size").cast("bigint")


def _mtime(kind: T.DataType) -> Column:
    if isinstance(kind, T.TimestampType):
        return F.expr("unix_micros(mtime)")
    if not isinstance(kind, T.LongType):
        raise _wrong("mtime", kind, "timestamp, or bigint of microseconds since 1970 in UTC")
    return F.col("mtime")


def _metadata(kind: T.DataType) -> Column:
    if not (
        isinstance(kind, T.MapType)
        and isinstance(kind.keyType, T.StringType)
        and isinstance(kind.valueType, T.StringType)
    ):
        raise _wrong("metadata", kind, "map<string,string>")
    map_type = T.MapType(T.StringType(), T.StringType())
    # Spark needs ten times as long to pass a null map to Python as to pass an empty one.
    return F.coalesce(F.col("metadata").cast(map_type), F.create_map().cast(map_type))


_OPTIONAL: Final[Mapping[str, Callable[[T.DataType], Column]]] = {
    "metadata": _metadata,
    "content_type": partial(_of_text, "content_type"),
}


def _wrong(name: str, kind: T.DataType, expected: str) -> Invalid:
    return Invalid(
        f"column has a type that an import does not take; cast it: column={name} "
        f"type={kind.simpleString()} wanted={expected}"
    )
