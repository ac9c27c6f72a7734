"""The schema of a table: a file in the table's folder, so it is versioned with the rows.

    orders/_schema.json     {"version": 1, "format": "parquet", "partition_by": ["day"],
                             "schema": {"type": "struct", "fields": […]}}     as Spark has it

Names that begin with `_` are no data for Spark, Hive and Arrow.  The first write makes the file.  A
folder of files that others wrote has none: its schema is that of the files.
"""

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from graveler.block.adapter import CREATE
from graveler.block.address import join, new_data_address
from graveler.core.clock import SystemClock, SystemIds
from graveler.core.errors import Corrupt, Invalid, NotFound
from graveler.lake.folders import Layout
from graveler.spark.formats import format_of
from graveler.spark.lake import Lake, Pin
from graveler.spark.landing import StoredFile
from graveler.spark.places import Place, opened
from graveler.spark.reads import layout_at, schemas_in_tasks, with_buckets
from graveler.spark.schemas import FileSchema, united

FILE: Final = "_schema.json"
_VERSION: Final = 1
_BYTES_MAX: Final = 8 << 20
_SEED_LENGTH: Final = 20


class Definition(NamedTuple):
    """What a table is: its columns (partition columns last), the partition columns, the format of
    its files.  `is_stored`: the table's folder says so; else the files do."""

    struct: T.StructType
    partition_by: tuple[str, ...] = ()
    format: str = "parquet"
    is_stored: bool = True

    @property
    def data(self) -> T.StructType:
        """The columns of the files."""
        names = self.partition_by
        return T.StructType([field for field in self.struct if field.name not in names])

    @property
    def folders(self) -> T.StructType:
        """The partition columns."""
        return T.StructType([self.struct[name] for name in self.partition_by])


class TableState(NamedTuple):
    """A table at a commit: what it is, and its data files if the definition came from them."""

    definition: Definition | None
    layout: Layout = Layout({}, ())


def defined(columns: T.StructType, partition_by: Sequence[str], format: str) -> Definition:
    """The definition of a new table of these columns."""
    format_of(format)
    data = [field for field in columns if field.name not in partition_by]
    folders = [columns[name] for name in partition_by]
    fields = [T.StructField(field.name, field.dataType) for field in (*data, *folders)]
    return Definition(T.StructType(fields), tuple(partition_by), format)


def stored_at(lake: Lake, pin: Pin) -> Definition | None:
    """The definition that the table's folder has at a commit; None if it has none.  Raises
    `Corrupt` for a file of another form.  One request to the API."""
    path = pin.prefix + FILE
    try:
        commit = lake.repository(pin.repository).commit(pin.commit)
        text = commit.read_bytes(path, start=0, end=_BYTES_MAX)
    except NotFound:
        return None
    try:
        return _parsed(json.loads(text))
    except (ValueError, LookupError, TypeError, AttributeError, Invalid) as error:
        raise Corrupt(
            f"not a schema of a table: {error}: delete it, and the files say the schema: "
            f"{path=} commit={pin.commit}"
        ) from error


def _parsed(fields: Any) -> Definition:
    if fields["version"] != _VERSION:
        raise ValueError(f"version={fields['version']!r:.20}")
    struct = T.StructType.fromJson(fields["schema"])
    names = tuple(map(str, fields["partition_by"]))
    format_of(fields["format"])
    missing = [name for name in names if name not in struct.names]
    if missing or len(set(struct.names)) != len(struct.names):
        raise ValueError(f"columns: {struct.names} partition_by={list(names)}")
    return defined(struct, names, fields["format"])


def state_at(lake: Lake, pin: Pin, format: str = "") -> TableState:
    """The table at a commit.  `format`: of its files, if the folder does not say it.  Raises
    `Invalid` if the folder has files and they are no one table of this format.  Cost: that of
    `stored_at`; without a stored definition, the schemas of all files are read."""
    stored = stored_at(lake, pin)
    if stored is not None:
        return TableState(stored)
    found = layout_at(lake.spark, pin.place, pin.metarange, pin.prefix)
    if not found.files:
        return TableState(None)
    form = format_of(format or guessed_format([file.path for file in found.files]))
    schemas = schemas_in_tasks(lake.spark, with_buckets(pin.place, found.files), form, found.files)
    data = _united(schemas, form.name)
    clash = [name for name in data.names if name in found.columns]
    if clash:
        raise Invalid(f"the table's files hold a partition column: {','.join(clash)}")
    folders = from_arrow_schema(_arrow(found), prefer_timestamp_ntz=True)
    struct = T.StructType([*data.fields, *folders.fields])
    definition = Definition(struct, tuple(found.columns), form.name, is_stored=False)
    return TableState(definition, found)


def _united(schemas: Sequence[FileSchema], format: str) -> T.StructType:
    try:
        return united(schemas, format_of(format))
    except Corrupt as error:
        raise Invalid(
            "the table has a file of another format; append with the format of the table, or "
            f"write to another folder: format={format}: {error}"
        ) from error


def _arrow(found: Layout) -> Any:
    return pa.schema(list(found.columns.items()))


def guessed_format(paths: Sequence[str]) -> str:
    """The format that the names of files end with; parquet if they say nothing."""
    for path in paths:
        end = path.rpartition(".")[2].lower()
        if end in ("parquet", "orc", "csv", "json"):
            return end
    return "parquet"


def store(place: Place, definition: Definition) -> StoredFile:
    """Store the definition as a file for the table's folder.  One put."""
    fields = {
        "version": _VERSION,
        "format": definition.format,
        "partition_by": list(definition.partition_by),
        "schema": definition.struct.jsonValue(),
    }
    body = (json.dumps(fields, indent=1) + "\n").encode()
    ids, clock = SystemIds(), SystemClock()
    address = new_data_address(clock.now_ns(), ids, ids.unique(_SEED_LENGTH).encode())
    head = opened(place).blocks.put(join(place.namespace, address), [body], CREATE)
    return StoredFile(FILE, address, head.size, head.etag, head.modified_ns // 1_000, 0)
