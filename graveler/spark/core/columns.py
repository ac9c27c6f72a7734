"""The columns of an import: the columns of any DataFrame in one canonical form.

    path         string or binary, below the prefix of the import    →  binary, the whole key
    address      string                                              →  string, one spelling of s3
    size         any integer                                         →  bigint
    checksum     string                                              →  string
    mtime        timestamp, or bigint of microseconds in UTC         →  bigint of microseconds
    metadata     map<string,string>, optional                        →  the same, never null
    content_type string, optional                                    →  string

The optional columns are left out if the DataFrame has none, so that the JVM does not make, move and
pass them; a task adds them (`completed` in check.py).  For this package.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from graveler.errors import Invalid
from graveler.spark.core.cuts import literal

_WHOLE: Final = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_REQUIRED: Final = ("path", "address", "size", "checksum", "mtime")


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
        _text("address", fields["address"]).alias("address"),
        _size(fields["size"]).alias("size"),
        _text("checksum", fields["checksum"]).alias("checksum"),
        _mtime(fields["mtime"]).alias("mtime"),
        *optional,
    )


def _path(kind: T.DataType, prefix: bytes) -> Column:
    if not isinstance(kind, T.StringType | T.BinaryType):
        raise _wrong("path", kind, "string or binary")
    raw = F.col("path").cast("binary")
    # An empty path must not become the prefix itself.
    return F.when(F.length(raw) > 0, F.concat(literal(prefix), raw) if prefix else raw)


def _text(name: str, kind: T.DataType) -> Column:
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
    "content_type": partial(_text, "content_type"),
}


def _wrong(name: str, kind: T.DataType, expected: str) -> Invalid:
    return Invalid(
        f"column has a type that an import does not take; cast it: column={name} "
        f"type={kind.simpleString()} wanted={expected}"
    )
