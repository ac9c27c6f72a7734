"""Records of ranges as Arrow columns, decoded a whole column at a time (docs/reference/format.md).

    value   40 ‖ identity ‖ zigzag-varint(length) ‖ entry
    entry   0a address 12 (08 seconds 10 nanoseconds) 18 size 22 checksum 2a pair … 30 type 3a type
Each field is looked for in all rows at once, in protobuf's order.  If a row has another form, which
no writer makes, the batch is decoded row by row.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from graveler.arrow.scan import Records
from graveler.arrow.vectors import Slices, octets, prefixed, varints
from graveler.block.address import resolve
from graveler.core.errors import Corrupt
from graveler.core.identity import identity_of
from graveler.core.records import ABSENT, Absent, AddressType
from graveler.core.wire import stored_entry

_IDENTITY: Final = 0x40  # the length 32 in zigzag encoding
_IDENTITY_LENGTH: Final = 32
_MICROSECONDS: Final = 1_000_000
_NANOS_MAX: Final = 999_999_999
_SECONDS_MAX: Final = 253_402_300_799  # the end of the year 9999
_ADDRESS, _STAMP, _SIZE, _CHECKSUM = 0x0A, 0x12, 0x18, 0x22
_PAIR, _TYPE, _CONTENT = 0x2A, 0x30, 0x3A
_SECONDS, _NANOS, _KEY, _ITEM = 0x08, 0x10, 0x0A, 0x12
OTHER_S3: Final = ("s3a:", "s3n:")  # other spellings of s3
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


class _OtherForm(Exception):
    """A row has another form."""


def entry_columns(
    records: Records, columns: Collection[str]
) -> dict[str, Any] | Literal[Absent.ABSENT]:
    """The columns `columns` and `address_type` of `records`, by name: texts as binary, `mtime` in
    microseconds.  Returns ABSENT if a row does not have the form above.  Raises
    `pyarrow.ArrowInvalid` for metadata that is not UTF-8."""
    try:
        identity, entries = _unframed(records)
        arrays = _fields(entries, columns)
    except _OtherForm:
        return ABSENT
    if "identity" in columns:
        arrays["identity"] = octets(records.raw, identity)
    return arrays


def _unframed(records: Records) -> "tuple[Slices, _Cursors]":
    """Where the identities stand, and cursors through the entries that follow them."""
    raw, (begin, end) = records.bytes, records.values
    _check(end - begin > _IDENTITY_LENGTH + 1)
    _check(raw[begin] == _IDENTITY)
    identity = Slices(begin + 1, begin + 1 + _IDENTITY_LENGTH)
    length, at = varints(raw, identity.end)
    _check((length & np.uint64(1) == 0) & (length < len(raw)) & (at > 0))
    last = at + (length >> np.uint64(1)).astype(np.int64)
    _check(last <= end)
    return identity, _Cursors(records, Slices(at, last))


def _fields(entries: "_Cursors", columns: Collection[str]) -> dict[str, Any]:
    texts = {"address": entries.text(_ADDRESS)}
    stamp, size = entries.text(_STAMP), entries.number(_SIZE)
    texts["checksum"] = entries.text(_CHECKSUM)
    counts, pairs = entries.repeated(_PAIR)
    arrays = {"address_type": pa.array(entries.number(_TYPE).astype(np.int32))}
    texts["content_type"] = entries.text(_CONTENT)
    entries.check_ended()
    arrays |= {name: entries.octets(at) for name, at in texts.items() if name in columns}
    if "size" in columns:
        arrays["size"] = pa.array(size.astype(np.int64))
    if "mtime" in columns:
        arrays["mtime"] = pa.array(_times(entries.within(stamp)))
    if "metadata" in columns:
        arrays["metadata"] = _maps(entries.within(pairs), counts)
    return arrays


def _times(stamps: "_Cursors") -> Any:
    """Microseconds since 1970."""
    seconds, nanos = stamps.number(_SECONDS), stamps.number(_NANOS)
    stamps.check_ended()
    _check((seconds <= _SECONDS_MAX) & (nanos <= _NANOS_MAX))
    return (seconds * np.uint64(_MICROSECONDS) + nanos // np.uint64(1_000)).astype(np.int64)


def _maps(pairs: "_Cursors", counts: Any) -> Any:
    """The pairs of all rows as a map column; `counts` says how many pairs each row has."""
    names, values = pairs.text(_KEY), pairs.text(_ITEM)
    pairs.check_ended()
    keys = pairs.octets(names)
    _check(_has_each_once(np.repeat(np.arange(len(counts)), counts), keys))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.MapArray.from_arrays(
        pa.array(offsets), keys.cast(pa.string()), pairs.octets(values).cast(pa.string())
    )


def _has_each_once(rows: Any, keys: Any) -> Any:
    """Whether no row has a key twice; protobuf takes the last of such pairs.  `rows`: the row of
    each key."""
    if len(keys) < 2:
        return np.True_
    ascends = pc.greater(keys.slice(1), keys.slice(0, len(keys) - 1))
    if (ascends.to_numpy(zero_copy_only=False) | (rows[1:] != rows[:-1])).all():
        return np.True_
    names = ["row", "key"]
    groups = pa.table([pa.array(rows), keys], names=names).group_by(names).aggregate([])
    return np.bool_(groups.num_rows == len(keys))


def _check(sound: Any) -> None:
    if not sound.all():
        raise _OtherForm


class _Cursors:
    """One cursor through each of many messages.  Each method continues after what the last one
    read."""

    def __init__(self, records: Records, at: Slices) -> None:
        self._records, self._raw = records, records.bytes
        self._at, self._end = at

    def within(self, at: Slices) -> "_Cursors":
        """Cursors through messages that stand at these slices."""
        return _Cursors(self._records, at)

    def octets(self, at: Slices) -> Any:
        """Fields that were read, as a binary array."""
        return octets(self._records.raw, at)

    def check_ended(self) -> None:
        """Check that nothing follows what was read."""
        _check(self._at == self._end)

    def text(self, tag: int) -> Slices:
        """The bytes of the field; empty in messages without the field."""
        has = self._has(tag)
        if has.all():
            begin, self._at = self._delimited(self._at + 1, self._end)
            return Slices(begin, self._at)
        rows, begin, end = np.flatnonzero(has), self._at.copy(), self._at.copy()
        begin[rows], end[rows] = self._delimited(self._at[rows] + 1, self._end[rows])
        self._at = end
        return Slices(begin, end)

    def number(self, tag: int) -> Any:
        """The number of the field; 0 in messages without the field."""
        has = self._has(tag)
        if has.all():
            numbers, after = varints(self._raw, self._at + 1)
        else:
            rows, after = np.flatnonzero(has), self._at.copy()
            numbers = np.zeros(len(after), dtype=np.uint64)
            numbers[rows], after[rows] = varints(self._raw, self._at[rows] + 1)
        _check((after > 0) & (after <= self._end))
        self._at = after
        return numbers

    def repeated(self, tag: int) -> tuple[Any, Slices]:
        """How often each message has the field, and where all occurrences stand, in order."""
        counts = np.zeros(len(self._at), dtype=np.int64)
        rounds = []
        while len(rows := np.flatnonzero(self._has(tag))):
            begin, end = self._delimited(self._at[rows] + 1, self._end[rows])
            self._at = self._at.copy()
            self._at[rows] = end
            counts[rows] += 1
            rounds.append((rows, begin, end))
        first = np.cumsum(counts) - counts
        begins, ends = np.empty((2, counts.sum()), dtype=np.int64)
        for index, (rows, begin, end) in enumerate(rounds):
            places = first[rows] + index
            begins[places], ends[places] = begin, end
        return counts, Slices(begins, ends)

    def _has(self, tag: int) -> Any:
        """Whether the next field of each row is this one.  It is not if a row is at its end."""
        return (self._raw[self._at] == tag) & (self._at < self._end)

    def _delimited(self, at: Any, bound: Any) -> tuple[Any, Any]:
        """Read a length and skip as many bytes, which must not go beyond `bound`."""
        length, begin = varints(self._raw, at)
        _check((length <= len(self._raw)) & (begin > 0))
        end = begin + length.astype(np.int64)
        _check(end <= bound)
        return begin, end


# ---- columns -------------------------------------------------------------------------------------


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
