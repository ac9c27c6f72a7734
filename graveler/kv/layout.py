"""The byte layout of rows in a store that has one flat sequence of keys and values.

    key     length of the partition (2 bytes) | partition | key
    value   length of the version (1 byte) | order (8 bytes) | version | value

Numbers are big-endian.  A change here changes the format on disk.
"""

import struct
from functools import partial

from graveler.errors import Corrupt
from graveler.kv.store import Row

_HEAD = 9  # bytes of a stored value before its version
_STAMP_LENGTH = 16  # of the version of most rows
_STAMPED = struct.Struct(f">BQ{_STAMP_LENGTH}s")  # all before the value of such a row
_STAMPED_LENGTH = _STAMPED.size
_stamped = _STAMPED.unpack_from
_row = partial(tuple.__new__, Row)  # a third of the time of `Row(...)`: a scan makes many rows


def flat_key(partition: bytes, key: bytes) -> bytes:
    """The flat key of a place; with an empty `key`, the prefix of all rows of the partition."""
    return len(partition).to_bytes(2, "big") + partition + key


def behind(prefix: bytes) -> bytes:
    """The first key after all keys with `prefix`, which is a partition's prefix (never all
    0xff)."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes((stem[-1] + 1,))


def encode_row(value: bytes, version: bytes, order: int) -> bytes:
    """The stored form of a row.  `decode_row` is its inverse."""
    assert len(version) < 256, "a version is a stamp, not a document"
    return b"".join((len(version).to_bytes(1, "big"), order.to_bytes(8, "big"), version, value))


def decode_row(stored: bytes) -> Row:
    """The row.  Raises `Corrupt` for bytes that `encode_row` cannot have written."""
    if len(stored) >= _STAMPED_LENGTH and stored[0] == _STAMP_LENGTH:
        _, order, version = _stamped(stored)
        return _row((stored[_STAMPED_LENGTH:], version, order))
    if len(stored) < _HEAD or len(stored) < _HEAD + stored[0]:
        raise Corrupt(f"read kv row: too short for its version: {len(stored)=}")
    split = _HEAD + stored[0]
    return _row((stored[split:], stored[_HEAD:split], int.from_bytes(stored[1:_HEAD], "big")))
