"""The log of Delta Lake for Parquet files that lie anywhere: a version of a table as JSON lines.

    footers ──► one schema ──► metaData        files of the version before, and now ──► remove, add

Statistics are left out where a reader could skip rows wrongly: a bound of a column with NaN, a long
text, a decimal that JSON cannot spell.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from math import isfinite
from typing import Any, BinaryIO, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from graveler.core.errors import Corrupt, Invalid, Unsupported
from graveler.lake.folders import File, Layout, value_of

_PLAIN: Final[tuple[tuple[Any, str], ...]] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int8, "byte"),
    (pa.types.is_int16, "short"),
    (pa.types.is_int32, "integer"),
    (pa.types.is_int64, "long"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_string, "string"),
    (pa.types.is_large_string, "string"),
    (pa.types.is_binary, "binary"),
    (pa.types.is_large_binary, "binary"),
    (pa.types.is_fixed_size_binary, "binary"),
    (pa.types.is_date32, "date"),
)
_NTZ: Final = "timestamp_ntz"
_WHOLE: Final = ("byte", "short", "integer", "long")
_COLUMNS_MAX: Final = 32  # with statistics, as other writers of Delta have it
_TEXT_MAX: Final = 64
_DIGITS_MAX: Final = 15  # that a double, which JSON has, keeps
_MILLISECOND: Final = timedelta(milliseconds=1)
_INT96: Final = "INT96"

Kind = str | dict[str, Any]  # a type as Delta's JSON spells it


@dataclass(frozen=True, slots=True)
class Footer:
    """What the footer of a file says: its columns, and the statistics of its rows as JSON."""

    columns: Mapping[str, Kind]
    stats: str


def footer(path: str, file: BinaryIO) -> Footer:
    """Read the footer of a Parquet file.  Raises `Corrupt`, and `Unsupported` for a column that
    Delta has no type for, with the path."""
    try:
        with pq.ParquetFile(file) as parquet:
            metadata, schema = parquet.metadata, parquet.schema_arrow
    except (pa.ArrowException, OSError) as error:
        raise Corrupt(f"file is no Parquet, so its table cannot be published: {path=}") from error
    leaves = [metadata.schema.column(at) for at in range(metadata.num_columns)]
    old_times = {each.path for each in leaves if each.physical_type == _INT96}
    try:
        columns = {
            field.name: "timestamp" if field.name in old_times else _kind(field.type)
            for field in schema
        }
        if len(columns) != len(schema.names):
            raise Unsupported(f"columns must have different names: {schema.names}")
    except Unsupported as error:
        raise Unsupported(f"{error}: {path=}") from error
    places = {each.path: at for at, each in enumerate(leaves)}
    return Footer(columns, _stats(metadata, columns, places))


def _kind(kind: pa.DataType) -> Kind:
    """The type as Delta spells it.  Raises `Unsupported`."""
    types = pa.types
    if types.is_dictionary(kind):
        return _kind(kind.value_type)
    if types.is_decimal(kind) and kind.precision <= 38:
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_timestamp(kind) and kind.unit != "ns":
        return "timestamp" if kind.tz else _NTZ
    if types.is_list(kind) or types.is_large_list(kind):
        return {"type": "array", "elementType": _kind(kind.value_type), "containsNull": True}
    if types.is_map(kind):
        pair = {"keyType": _kind(kind.key_type), "valueType": _kind(kind.item_type)}
        return {"type": "map", **pair, "valueContainsNull": True}
    if types.is_struct(kind):
        return _struct({field.name: _kind(field.type) for field in kind})
    for test, name in _PLAIN:
        if test(kind):
            return name
    raise Unsupported(f"Delta has no type for a column of type {kind}: write it as another one")


def _struct(columns: Mapping[str, Kind]) -> dict[str, Any]:
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in columns.items()
    ]
    return {"type": "struct", "fields": fields}


# ---- statistics ----------------------------------------------------------------------------------


def _stats(metadata: Any, columns: Mapping[str, Kind], places: Mapping[str, int]) -> str:
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name, kind in list(columns.items())[:_COLUMNS_MAX]:
        if not isinstance(kind, str) or name not in places:
            continue
        groups = range(metadata.num_row_groups)
        found = [metadata.row_group(each).column(places[name]).statistics for each in groups]
        if not all(each is not None and each.has_null_count for each in found):
            continue
        nulls[name] = sum(each.null_count for each in found)
        bounded = [each for each in found if each.num_values]
        if bounded and all(each.has_min_max for each in bounded):
            low = _bound(kind, min, [each.min for each in bounded], up=False)
            high = _bound(kind, max, [each.max for each in bounded], up=True)
            least |= {} if low is None else {name: low}
            most |= {} if high is None else {name: high}
    stats = {"numRecords": metadata.num_rows, "minValues": least, "maxValues": most}
    return json.dumps({**stats, "nullCount": nulls}, separators=(",", ":"))


def _bound(kind: str, pick: Any, values: Sequence[Any], *, up: bool) -> Any:
    """A bound as JSON has it; None if readers are better off without."""
    try:
        value = pick(values)
    except TypeError:
        return None
    if kind in _WHOLE and type(value) is int:
        return value
    if kind in ("float", "double") and isinstance(value, float):
        return value if not up and isfinite(value) else None  # NaN, which has no bound, is greatest
    if kind == "string" and isinstance(value, str):
        return value if max(map(len, values)) <= _TEXT_MAX else None
    if kind == "date" and type(value) is date:
        return value.isoformat()
    if kind in ("timestamp", _NTZ) and isinstance(value, datetime):
        return _moment(value, up=up, zone="Z" if kind == "timestamp" else "")
    if kind.startswith("decimal") and isinstance(value, Decimal):
        return float(value) if len(value.as_tuple().digits) <= _DIGITS_MAX else None
    return None


def _moment(value: datetime, *, up: bool, zone: str) -> str | None:
    """A time in milliseconds, which is as exact as the log has them, on the safe side."""
    try:
        value = (value.astimezone(UTC) if value.tzinfo else value).replace(tzinfo=None)
        whole = value.replace(microsecond=value.microsecond // 1_000 * 1_000)
        if up and whole != value:
            whole += _MILLISECOND
    except OverflowError:
        return None
    return whole.isoformat(timespec="milliseconds") + zone


# ---- the log -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Version:
    """What a version of a log says of itself: the address of its table, and when it was made."""

    address: str
    made_ms: int
    metadata: Mapping[str, str]


def with_kinds(table: Layout, stored: Mapping[str, Kind]) -> Layout:
    """The table with the types that its stored schema has for the partition columns."""
    kinds = {name: _arrow(stored.get(name)) or kind for name, kind in table.columns.items()}
    return replace(table, columns=kinds)


def _arrow(kind: Kind | None) -> pa.DataType | None:
    """The type in which a value of a path is parsed; None if Delta spells it as the path does."""
    if not isinstance(kind, str):
        return None
    if kind in _WHOLE:
        return pa.int64()
    known = {"float": pa.float64(), "double": pa.float64(), "date": pa.date32()}
    if kind == "timestamp":
        return pa.timestamp("us", tz="UTC")
    return pa.decimal128(38, 0) if kind.startswith("decimal") else known.get(kind, pa.string())


def log(
    version: Version,
    now: Layout,
    footers: Mapping[str, Footer],
    before: Layout | None,
    stored: Mapping[str, Kind],
) -> Iterator[bytes]:
    """The lines of a version: the files of `now` take the place of those of `before`.  `footers`:
    by the addresses of the files.  `stored`: the columns of the table's own schema, if it has one.
    Raises `Invalid` if two files have types of a column that differ, or two paths have one file."""
    columns = _united(now.files, footers)
    folders = {name: stored.get(name) or _kind(kind) for name, kind in now.columns.items()}
    ordered = {name: columns.get(name, kind) for name, kind in stored.items()} | columns
    columns = {name: kind for name, kind in ordered.items() if name not in folders} | folders
    schema = json.dumps(_struct(columns))
    yield _line("commitInfo", timestamp=version.made_ms, operation="WRITE", **version.metadata)
    yield _line("protocol", **_protocol(f'"{_NTZ}"' in schema))
    yield _line(
        "metaData",
        id=_id(version.address),
        format={"provider": "parquet", "options": {}},
        schemaString=schema,
        partitionColumns=list(folders),
        configuration={},
        createdTime=version.made_ms,
    )
    known = {} if before is None else _placed(before)
    files = _placed(now)
    for address in known.keys() - files.keys():
        path = _uri(address)
        yield _line("remove", path=path, deletionTimestamp=version.made_ms, dataChange=True)
    for address, (file, values) in files.items():
        if address not in known or known[address][1] != values:
            yield _line(
                "add",
                path=_uri(address),
                partitionValues=values,
                size=file.size,
                modificationTime=int(file.mtime),
                dataChange=True,
                stats=footers[address].stats,
            )


def _id(address: str) -> str:
    """The id of a table, in the form of a UUID: the same for all versions."""
    digits = hashlib.sha256(address.encode()).hexdigest()
    return "-".join(digits[start:end] for start, end in pairwise((0, 8, 12, 16, 20, 32)))


def _line(action: str, **fields: Any) -> bytes:
    return json.dumps({action: fields}, separators=(",", ":")).encode() + b"\n"


def _protocol(has_ntz: bool) -> dict[str, Any]:
    if not has_ntz:
        return {"minReaderVersion": 1, "minWriterVersion": 2}
    features = ["timestampNtz"]
    versions = {"minReaderVersion": 3, "minWriterVersion": 7}
    return {**versions, "readerFeatures": features, "writerFeatures": features}


def _united(files: Iterable[File], footers: Mapping[str, Footer]) -> dict[str, Kind]:
    """The columns of all files, oldest file first."""
    columns: dict[str, tuple[Kind, str]] = {}
    for file in sorted(files, key=lambda file: (file.mtime, file.path)):
        for name, kind in footers[file.address].columns.items():
            known, path = columns.setdefault(name, (kind, file.path))
            if known != kind:
                raise Invalid(
                    "two files have different types of a column, and Delta has one: write one of "
                    f"them anew: column={name} {known} in {path!r:.200} and {kind} in "
                    f"{file.path!r:.200}"
                )
    return {name: kind for name, (kind, _) in columns.items()}


def _placed(table: Layout) -> dict[str, tuple[File, dict[str, str | None]]]:
    """The files by their addresses, with the values of their partitions."""
    placed: dict[str, tuple[File, dict[str, str | None]]] = {}
    for file in table.files:
        if file.address in placed:
            raise Invalid(
                "two paths of the table have one file, which Delta reads once: "
                f"{placed[file.address][0].path!r:.200} {file.path!r:.200}"
            )
        values = zip(table.columns.items(), file.values, strict=True)
        placed[file.address] = file, {name: _spelled(text, kind) for (name, kind), text in values}
    return placed


def _spelled(text: str | None, kind: pa.DataType) -> str | None:
    value = value_of(text, kind)
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    return None if value is None else str(value)


def _uri(address: str) -> str:
    """An address as a URI: what a URI cannot have is escaped."""
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{quote(rest, safe='/-_.~,=')}"
