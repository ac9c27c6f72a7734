"""The schema of a table: a file in the table's folder, so it is versioned with the rows.

    orders/_schema.json     {"version": 1, "format": "parquet", "partition_by": ["day"],
                             "schema": {"type": "struct", "fields": […]}}     as Spark has it

Names that begin with `_` are no data for Spark, Hive and Arrow.  The first write makes the file.  A
folder of files that others wrote has none: its schema is that of the files.
"""

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import types as T

from graveler.block.adapter import CREATE
from graveler.block.address import join, new_data_address
from graveler.core.clock import SystemClock, SystemIds
from graveler.core.errors import Corrupt, Invalid, NotFound, Unsupported
from graveler.spark.formats import format_of
from graveler.spark.lake import Lake, Pin
from graveler.spark.landing import StoredFile
from graveler.spark.places import Place, opened

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
    except (
        *(ValueError, LookupError, TypeError, AttributeError, RecursionError),
        *(Invalid, Unsupported, PySparkException),
    ) as error:
        raise Corrupt(
            f"not a schema of a table: {error}: delete it, and the files say the schema: "
            f"{path=} commit={pin.commit}"
        ) from error


def _parsed(fields: Any) -> Definition:
    if fields["version"] != _VERSION:
        raise ValueError(f"version={fields['version']!r:.20}")
    if _names_code(fields["schema"]):  # Spark would run it
        raise ValueError("a type of a user's own class is not taken from a lake")
    struct = T.StructType.fromJson(fields["schema"])
    names = tuple(map(str, fields["partition_by"]))
    format_of(fields["format"])
    missing = [name for name in names if name not in struct.names]
    if missing or len(set(struct.names)) != len(struct.names):
        raise ValueError(f"columns: {struct.names} partition_by={list(names)}")
    return defined(struct, names, fields["format"])


def _names_code(schema: Any) -> bool:
    """Whether a schema of Spark in JSON has a type that is a class, perhaps with its pickle."""
    if isinstance(schema, dict):
        return schema.get("type") == "udt" or any(map(_names_code, schema.values()))
    return isinstance(schema, list) and any(map(_names_code, schema))


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
