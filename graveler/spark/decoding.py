"""Records of ranges as Arrow columns.  For this package; pure.

path            string, the whole path
address         string, in full
size            bigint
checksum        string
mtime           timestamp
metadata        map<string,string>, empty if there is none
content_type    string, empty if there is none
identity        binary, what two entries share that hold the same
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from graveler.block.address import resolve
from graveler.committed.ranges import Columns
from graveler.errors import Corrupt
from graveler.framing import identity_of
from graveler.records import AddressType
from graveler.wire import stored_entry

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
    """The schema of these columns, as Spark writes it."""
    return ", ".join(f"{name} {_TYPES[name][0]}" for name in columns)


def decoded(columns: Columns, namespace: str, wanted: Sequence[str]) -> pa.RecordBatch:
    """The wanted columns of some records; addresses are those of a repository with `namespace`.
    Raises `Corrupt`."""
    needs_entry = any(name in _FIELDS for name in wanted)
    messages = list(map(stored_entry, columns.values)) if needs_entry else []
    arrays = []
    for name in wanted:
        kind = _TYPES[name][1]
        if name == "path":
            arrays.append(_texts(columns.keys))
        elif name == "identity":
            arrays.append(pa.array(list(map(identity_of, columns.values)), kind))
        elif name == "address":
            full = [_full(namespace, each.address, each.address_type) for each in messages]
            arrays.append(pa.array(full, kind))
        else:
            arrays.append(pa.array(list(map(_FIELDS[name], messages)), kind))
    return pa.RecordBatch.from_arrays(arrays, names=list(wanted))


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


def _full(namespace: str, text: str, number: int) -> str:
    """Relative addresses as most of ours are cost a concatenation; the others are looked at."""
    if number == AddressType.RELATIVE and text.startswith("data/"):
        return f"{namespace}/{text}"
    try:
        return resolve(namespace, text, AddressType(number))
    except ValueError as error:
        raise Corrupt(f"entry has an unknown address type: address_type={number}") from error


def _texts(keys: Sequence[bytes]) -> pa.Array:
    try:
        return pa.array(keys, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid as error:
        raise Corrupt("a path is not UTF-8") from error
