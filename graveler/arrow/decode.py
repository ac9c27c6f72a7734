"""Records of ranges as Arrow columns, decoded a whole column at a time.

For this package and Spark.

path            string, the whole path
address         string, in full
size            bigint
checksum        string
mtime           timestamp
metadata        map<string,string>, empty if there is none
content_type    string, empty if there is none
identity        binary, equal for entries with equal content
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from graveler.arrow.entry_columns import entry_columns
from graveler.arrow.scan import Records
from graveler.arrow.vectors import octets, prefixed
from graveler.block.address import resolve
from graveler.errors import Corrupt
from graveler.framing import identity_of
from graveler.records import ABSENT, AddressType
from graveler.wire import stored_entry

OTHER_S3: Final = ("s3a:", "s3n:")  # other spellings of s3
_MICROSECONDS: Final = 1_000_000
_TYPES: Final[dict[str, tuple[str, pa.DataType]]] = {
    "path": ("string", pa.string()),
    "address": ("string", pa.string()),
    "size": ("bigint", pa.int64()),
    "checksum": ("string", pa.string()),
    "mtime": ("timestamp", pa.timestamp("us", tz="UTC")),
    "metadata": ("map<string,string>", pa.map_(pa.string(), pa.string())),
    "content_type": ("string", pa.string()),
    "identity": ("binary", pa.binary()),
}
COLUMNS: Final = tuple(_TYPES)


def schema_of(columns: Sequence[str]) -> str:
    """The schema of these columns in Spark's notation."""
    return ", ".join(f"{name} {_TYPES[name][0]}" for name in columns)


def decoded(records: Records, namespace: str, columns: Sequence[str]) -> pa.RecordBatch:
    """The wanted columns of some records; relative addresses are resolved in `namespace`.  Raises
    `Corrupt`."""
    plain = [name for name in columns if name != "path"]
    try:
        arrays = _columns(records, plain) if plain else {}
        if "path" in columns:
            arrays["path"] = records.paths.cast(pa.string())
        for name in plain:
            arrays[name] = arrays[name].cast(_TYPES[name][1])
    except pa.ArrowInvalid as error:
        raise Corrupt("a text is not UTF-8") from error
    except OverflowError as error:
        raise Corrupt("a time is beyond what a timestamp holds") from error
    if "address" in columns:
        arrays["address"] = _full_addresses(namespace, arrays["address"], arrays["address_type"])
    return pa.RecordBatch.from_arrays([arrays[name] for name in columns], names=list(columns))


def stored_addresses(records: Records) -> tuple[list[str], list[int]]:
    """The addresses of some records as they are stored, and their types.  Raises `Corrupt`."""
    try:
        arrays = _columns(records, ("address",))
        return arrays["address"].cast(pa.string()).to_pylist(), arrays["address_type"].to_pylist()
    except pa.ArrowInvalid as error:
        raise Corrupt("a text is not UTF-8") from error


def _columns(records: Records, columns: Sequence[str]) -> dict[str, Any]:
    """These columns, and `address_type`, as `entry_columns` has them."""
    arrays = entry_columns(records, columns)
    return _one_by_one(records, columns) if arrays is ABSENT else arrays


def _one_by_one(records: Records, columns: Sequence[str]) -> dict[str, Any]:
    """As `entry_columns`, for records in any form."""
    values = octets(records.raw, records.values).to_pylist()
    messages = list(map(stored_entry, values))
    arrays = {
        name: pa.array(list(map(_FIELDS[name], messages)), _TYPES[name][1])
        for name in columns
        if name in _FIELDS
    }
    if "identity" in columns:
        arrays["identity"] = pa.array(list(map(identity_of, values)), pa.binary())
    arrays["address_type"] = pa.array([each.address_type for each in messages], pa.int32())
    return arrays


def _mtime(message: Any) -> int:
    stamp = message.last_modified
    return int(stamp.seconds * _MICROSECONDS + stamp.nanos // 1_000)


_FIELDS: Final[dict[str, Callable[[Any], Any]]] = {
    "address": lambda message: message.address,
    "size": lambda message: message.size,
    "checksum": lambda message: message.e_tag,
    "mtime": _mtime,
    "metadata": lambda message: list(message.metadata.items()),
    "content_type": lambda message: message.content_type,
}


def _full_addresses(namespace: str, text: Any, kind: Any) -> Any:
    """Addresses in full."""
    relative = pc.equal(kind, int(AddressType.RELATIVE))
    is_own = pc.and_(relative, pc.starts_with(text, "data/"))
    if pc.all(is_own, min_count=0).as_py():
        return prefixed(f"{namespace}/".encode(), text)
    full = pc.equal(kind, int(AddressType.FULL))
    for start in OTHER_S3:
        full = pc.and_(full, pc.invert(pc.starts_with(text, start)))
    joined = prefixed(f"{namespace}/".encode(), text)
    joined = pc.if_else(is_own, joined, text) if pc.any(is_own, min_count=0).as_py() else text
    rest = np.flatnonzero(~pc.or_(is_own, full).to_numpy(zero_copy_only=False))
    if not len(rest):
        return joined
    all_texts = joined.to_pylist()
    for row in rest.tolist():
        all_texts[row] = _full(namespace, all_texts[row], kind[row].as_py())
    return pa.array(all_texts, pa.string())


def _full(namespace: str, text: str, number: int) -> str:
    try:
        return resolve(namespace, text, AddressType(number))
    except ValueError as error:
        raise Corrupt(f"entry has an unknown address type: address_type={number}") from error
