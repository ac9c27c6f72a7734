"""The framed values of many entries at once, from Arrow columns: what `wire.encode_entry` gives.

    value      40 ‖ identity ‖ zigzag-varint(length) ‖ entry                        docs/format.md
    entry      0a address 12 (08 seconds 10 nanoseconds) 18 size 22 checksum 30 type 3a content type
    identity   h(02 08 size ‖ 01 checksum ‖ 04 no pairs ‖ 01 content type, if there is one)

Whole columns are joined piece by piece, a tenth of what one entry after the other costs; only the
hash is computed in a loop.  Zeros and empty texts are left out, as protobuf does.  The few entries
with metadata go through `wire.py`.  Pure; for this package.
"""

from hashlib import sha256
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from graveler import limits
from graveler.identity import int64, pairs
from graveler.records import AddressType, Entry
from graveler.spark.checking import Addresses
from graveler.wire import encode_entry

_MICROSECONDS: Final = 1_000_000
_MICROSECOND_NS: Final = 1_000
_IDENTITY_LENGTH: Final = 32
_TEXT_LENGTH_MAX: Final = 4 * limits.address_length_bytes_max
_NO_PAIRS: Final = pairs({})
_EMPTY: Final = b""


def encoded(table: pa.Table, addresses: Addresses) -> list[bytes]:
    """The framed value of every row of a table of checked rows (`checking.COLUMNS`), some thousand
    of them."""
    if not table.num_rows:
        return []
    kind = AddressType.RELATIVE if addresses is Addresses.RELATIVE else AddressType.FULL
    names = {name: one_array(table.column(name)) for name in table.column_names}
    for name in ("address", "checksum", "content_type"):
        names[name] = pc.fill_null(names[name].cast(pa.binary()), _EMPTY)
    body = _bodies(names, kind)
    length = _varints(pc.binary_length(body).to_numpy(zero_copy_only=False).astype(np.uint64) << 1)
    values = pieces(_joined(b"\x40", _identities(names), length, body))
    for row in np.flatnonzero(_has_metadata(names["metadata"])):
        values[row] = _one(names, int(row), kind)
    return values


def one_array(column: Any) -> Any:
    """A column of a table as one array."""
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def pieces(column: Any) -> list[bytes]:
    """The values of a binary array without nulls: slices of one copy of its bytes."""
    offsets = _offsets(column)
    begin, end = int(offsets[0]), int(offsets[-1])
    if begin == end:
        return [_EMPTY] * len(column)
    raw: bytes = column.buffers()[2].slice(begin, end - begin).to_pybytes()
    bounds = (offsets - begin).tolist()
    return [raw[a:b] for a, b in pairwise(bounds)]


def _offsets(column: Any) -> Any:
    all_offsets = np.frombuffer(column.buffers()[1], dtype=np.int32)
    return all_offsets[column.offset : column.offset + len(column) + 1]


def _bodies(names: dict[str, Any], kind: AddressType) -> Any:
    mtime = names["mtime"].to_numpy(zero_copy_only=False)
    seconds = _numbers(b"\x08", mtime // _MICROSECONDS)
    nanos = _numbers(b"\x10", mtime % _MICROSECONDS * _MICROSECOND_NS)
    stamp = _joined(seconds, nanos)
    return _joined(
        _texts(b"\x0a", names["address"]),
        b"\x12",
        _LENGTHS.take(pc.binary_length(stamp)),
        stamp,
        _numbers(b"\x18", names["size"].to_numpy(zero_copy_only=False)),
        _texts(b"\x22", names["checksum"]),
        b"\x30" + bytes((int(kind),)),
        _texts(b"\x3a", names["content_type"]),
    )


def _identities(names: dict[str, Any]) -> Any:
    size = names["size"].to_numpy(zero_copy_only=False).astype(">i8").tobytes()
    said = _joined(
        b"\x02\x08",
        _fixed(size, len(names["size"])),
        b"\x01",
        _LENGTHS_64.take(pc.binary_length(names["checksum"])),
        names["checksum"],
        _NO_PAIRS,
        _optional(b"\x01", _LENGTHS_64, names["content_type"]),
    )
    digests = b"".join([sha256(each).digest() for each in pieces(said)])
    return _fixed(digests, len(digests) // _IDENTITY_LENGTH)


def _texts(tag: bytes, column: Any) -> Any:
    return _optional(tag, _LENGTHS, column)


def _optional(tag: bytes, lengths: Any, column: Any) -> Any:
    """`tag`, the length, the text; nothing for an empty one."""
    length = pc.binary_length(column)
    whole = _joined(tag, lengths.take(length), column)
    if pc.all(pc.greater(length, 0)).as_py():
        return whole
    return pc.if_else(pc.equal(length, 0), pa.scalar(_EMPTY, pa.binary()), whole)


def _numbers(tag: bytes, numbers: Any) -> Any:
    """`tag` and the number, or nothing for zero."""
    return _varints(numbers.astype(np.uint64), tag)


def _varints(numbers: Any, tag: bytes = _EMPTY) -> Any:
    """Seven bits a byte, the lowest first; with a `tag` before it nothing at all for zero."""
    width = np.ones(len(numbers), dtype=np.int64)
    for shift in range(7, 64, 7):
        width += (numbers >> np.uint64(shift)) > 0
    if tag:
        width = np.where(numbers > 0, width + 1, 0)
    offsets = np.zeros(len(numbers) + 1, dtype=np.int32)
    np.cumsum(width, out=offsets[1:])
    raw = np.zeros(int(offsets[-1]), dtype=np.uint8)
    if tag:
        raw[offsets[:-1][width > 0]] = tag[0]
    for byte in range(int(width.max()) - len(tag)):
        has = width > byte + len(tag)
        low = (numbers[has] >> np.uint64(7 * byte)) & np.uint64(0x7F)
        more = (width[has] > byte + len(tag) + 1) * np.uint64(0x80)
        raw[offsets[:-1][has] + byte + len(tag)] = low | more
    return _binary(offsets, raw.tobytes())


def _fixed(raw: bytes, count: int) -> Any:
    """`count` values of equal length."""
    return _binary(np.arange(count + 1, dtype=np.int32) * (len(raw) // count), raw)


def _binary(offsets: Any, raw: bytes) -> Any:
    buffers = [None, pa.py_buffer(offsets.astype(np.int32).tobytes()), pa.py_buffer(raw)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def _joined(*parts: Any) -> Any:
    """Arrays and constants, row by row."""
    columns = [pa.scalar(part, pa.binary()) if isinstance(part, bytes) else part for part in parts]
    return pc.binary_join_element_wise(*columns, pa.scalar(_EMPTY, pa.binary()))


def _has_metadata(metadata: Any) -> Any:
    lengths = np.diff(np.asarray(metadata.offsets))
    return (lengths > 0) & pc.is_valid(metadata).to_numpy(zero_copy_only=False)


def _one(names: dict[str, Any], row: int, kind: AddressType) -> bytes:
    said = {name: names[name][row].as_py() for name in names}
    return encode_entry(
        Entry(
            address=said["address"].decode(),
            size=said["size"],
            checksum=said["checksum"].decode(),
            modified_ns=said["mtime"] * _MICROSECOND_NS,
            metadata=dict(said["metadata"]),
            address_type=kind,
            content_type=said["content_type"].decode(),
        )
    )


def _varint(number: int) -> bytes:
    return bytes((number,)) if number < 0x80 else bytes((number & 0x7F | 0x80, number >> 7))


# The lengths of texts, as entries and as identities say them.
_LENGTHS: Final = pa.array([_varint(n) for n in range(_TEXT_LENGTH_MAX + 1)], pa.binary())
_LENGTHS_64: Final = pa.array([int64(n) for n in range(_TEXT_LENGTH_MAX + 1)], pa.binary())
