"""Slices of one buffer, and numbers in it, for many rows at once.

    raw        …│key│…│value      │…│key│…│value│…
    offsets     b0  e0            b1 e1              of one field, a pair for each row

numpy finds the slices.  Arrow reads the pairs as the offsets of twice as many texts, of which every
second is a gap; taking the even ones copies all slices at the speed of C.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

PAD: Final = 16  # zeros after a buffer, so that a number may be read wherever a slice may begin
_VARINT_BYTES_MAX: Final = 10
EMPTY: Final = b""
_MORE: Final = 0x80  # the bit of a byte that another byte of the varint follows
_MORE_BITS: Final = np.uint64(0x8080808080808080)
_ONE: Final = np.uint64(1)
# How eight groups of 7 bits become one number: two neighbours at a time lose the gap between them.
_PACKING: Final = tuple(
    (np.uint64(keep), np.uint64(move), np.uint64(shift))
    for keep, move, shift in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)


class Slices(NamedTuple):
    """Where one field of each row stands in a buffer: ascending, not overlapping."""

    begin: Any
    end: Any

    def rows(self, first: int, last: int) -> "Slices":
        """The slices of adjacent rows, from `first` up to, but without, `last`."""
        return Slices(self.begin[first:last], self.end[first:last])


def slices_of(pieces: Sequence[bytes], begin: int) -> Slices:
    """The slices of `pieces` when they are written one after another from `begin` on."""
    lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
    ends = np.cumsum(lengths) + begin
    return Slices(ends - lengths, ends)


def windows(raw: Any, kind: str) -> Any:
    """What a number of type `kind` would be at each place of the buffer, as a view."""
    dtype = np.dtype(kind)
    return np.ndarray((len(raw) - dtype.itemsize + 1,), dtype, raw, 0, (1,))


def octets(raw: pa.Buffer, at: Slices) -> Any:
    """The slices as a binary array."""
    count = len(at.begin)
    if not count:
        return pa.array([], pa.binary())
    lengths = at.end - at.begin
    length = int(lengths[0])
    if length and (lengths == length).all():
        whole = windows(np.frombuffer(raw, dtype=np.uint8), f"V{length}")
        return binary_of(np.arange(count + 1) * length, whole[at.begin])
    offsets = np.empty(2 * count, dtype=np.int32)
    offsets[0::2], offsets[1::2] = at.begin, at.end
    whole = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), raw])
    return whole.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))


def varints(raw: Any, at: Any) -> tuple[Any, Any]:
    """The varints that begin at the places `at`, and where each ends.  The end is -1 for a varint
    that is longer than ten bytes."""
    first = raw[at]
    if not (first & _MORE).any():
        return first.astype(np.uint64), at + 1
    eight = windows(raw, "<u8")[at]
    stops = ~eight & _MORE_BITS
    stop = stops & (~stops + _ONE)  # the lowest, in the last byte of the varint
    value = eight & (stop - _ONE) & ~_MORE_BITS
    for keep, move, shift in _PACKING:
        value = (value & keep) | ((value & move) >> shift)
    end = at + (np.frexp(stop.astype(np.float64))[1] >> 3)
    rows = np.flatnonzero(stops == 0)
    if len(rows):
        value[rows], end[rows] = _long_varints(raw, at[rows])
    return value, end


def _long_varints(raw: Any, at: Any) -> tuple[Any, Any]:
    """As `varints`, byte by byte."""
    value, end = np.zeros(len(at), dtype=np.uint64), np.full(len(at), -1)
    rows = np.arange(len(at))
    for index in range(_VARINT_BYTES_MAX):
        byte = raw[np.minimum(at[rows] + index, len(raw) - 1)]
        value[rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * index)
        is_last = byte < (_MORE if index < _VARINT_BYTES_MAX - 1 else 2)  # 64 bits
        end[rows[is_last]] = at[rows[is_last]] + index + 1
        rows = rows[~is_last]
    return value, end


# ---- binary arrays -------------------------------------------------------------------------------


def pieces(column: Any) -> list[bytes]:
    """The values of a binary array without nulls, as slices of one copy of its bytes."""
    offsets = offsets_of(column)
    begin, end = int(offsets[0]), int(offsets[-1])
    if begin == end:
        return [EMPTY] * len(column)
    raw = bytes(memoryview(column.buffers()[2])[begin:end])
    bounds = (offsets - begin).tolist()
    return [raw[a:b] for a, b in pairwise(bounds)]


def offsets_of(column: Any) -> Any:
    """Where the values of a binary array begin in its buffer, and where the last one ends."""
    all_offsets = np.frombuffer(column.buffers()[1], dtype=np.int32)
    return all_offsets[column.offset : column.offset + len(column) + 1]


def is_ascending(column: Any) -> bool:
    """Whether each value of a binary array is greater than the value before it."""
    greater = pc.greater(column.slice(1), column.slice(0, max(0, len(column) - 1)))
    return bool(pc.all(greater, min_count=0).as_py())


def bytes_of(column: Any) -> memoryview:
    """All values of a binary array, one after another."""
    offsets, raw = offsets_of(column), column.buffers()[2]
    return memoryview(b"" if raw is None else raw)[int(offsets[0]) : int(offsets[-1])]


def varints_of(numbers: Any, tag: bytes = EMPTY) -> Any:
    """The numbers as varints: seven bits a byte, the lowest first.  With a `tag`, each number is
    preceded by the tag, and zero becomes an empty text."""
    width_max = max(1, -(-int(numbers.max()).bit_length() // 7))
    width = np.ones(len(numbers), dtype=np.int64)
    for byte in range(1, width_max):
        width += numbers >= np.uint64(1 << 7 * byte)
    rows = np.empty((len(numbers), width_max), dtype=np.uint8)
    for byte in range(width_max):
        more = (width > byte + 1).view(np.uint8) << 7
        rows[:, byte] = (numbers >> np.uint64(7 * byte)).astype(np.uint8) & 0x7F | more
    if tag:
        rows = np.insert(rows, 0, tag[0], axis=1)
        width = np.where(numbers > 0, width + 1, 0)
    offsets = np.zeros(len(numbers) + 1, dtype=np.int32)
    np.cumsum(width, out=offsets[1:])
    raw = rows[np.arange(rows.shape[1]) < width[:, np.newaxis]]
    return binary_of(offsets, raw.tobytes())


def fixed(raw: bytes, count: int) -> Any:
    """A binary array of `count` values of equal length."""
    return binary_of(np.arange(count + 1, dtype=np.int32) * (len(raw) // count), raw)


def binary_of(offsets: Any, raw: Any) -> Any:
    """A binary array of the bytes between the offsets."""
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(raw)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def joined(*parts: Any) -> Any:
    """Arrays and constants, concatenated row by row."""
    columns = [pa.scalar(part, pa.binary()) if isinstance(part, bytes) else part for part in parts]
    return pc.binary_join_element_wise(*columns, pa.scalar(EMPTY, pa.binary()))


def prefixed(prefix: bytes, texts: Any) -> Any:
    """The values of a string array without nulls, each behind `prefix`."""
    if not len(texts):
        return texts
    offsets = offsets_of(texts)
    lengths = np.diff(offsets)
    if (lengths != lengths[0]).any():
        return pc.binary_join_element_wise(pa.scalar(prefix.decode()), texts, pa.scalar(""))
    rows = np.empty((len(texts), len(prefix) + int(lengths[0])), dtype=np.uint8)
    rows[:, : len(prefix)] = np.frombuffer(prefix, dtype=np.uint8)
    old = np.frombuffer(bytes_of(texts), dtype=np.uint8)
    rows[:, len(prefix) :] = old.reshape(len(texts), lengths[0])
    return binary_of(np.arange(len(texts) + 1) * rows.shape[1], rows).view(pa.string())
