"""Slices of one buffer, and numbers in it, for many rows at once.

    raw        …│key│…│value      │…│key│…│value│…
    offsets     b0  e0            b1 e1              of one field, a pair for each row

numpy finds the slices, and Arrow copies them.  Arrow reads these pairs as the offsets of twice as
many texts; every second text is a gap.  Taking the even ones copies all slices at the speed of C.
Pure; for this package and Spark.
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


def octets(raw: pa.Buffer, at: Slices) -> Any:
    """The slices as a binary array."""
    count = len(at.begin)
    if not count:
        return pa.array([], pa.binary())
    offsets = np.empty(2 * count, dtype=np.int32)
    offsets[0::2], offsets[1::2] = at.begin, at.end
    whole = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), raw])
    return whole.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))


def varints(raw: Any, at: Any) -> tuple[Any, Any]:
    """The varints that begin at the places `at`, and where each ends.  The end is -1 for a varint
    that is longer than ten bytes."""
    byte = raw[at]
    value = (byte & 0x7F).astype(np.uint64)
    end = at + 1
    rows = np.flatnonzero(byte & 0x80)
    for more in range(1, _VARINT_BYTES_MAX):
        if not len(rows):
            return value, end
        byte = raw[np.minimum(at[rows] + more, len(raw) - 1)]
        value[rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * more)
        end[rows] += 1
        rows = rows[(byte & 0x80) > 0]
    end[rows] = -1
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


def binary_of(offsets: Any, raw: bytes) -> Any:
    """A binary array of the bytes between the offsets."""
    buffers = [None, pa.py_buffer(offsets.astype(np.int32).tobytes()), pa.py_buffer(raw)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def joined(*parts: Any) -> Any:
    """Arrays and constants, concatenated row by row."""
    columns = [pa.scalar(part, pa.binary()) if isinstance(part, bytes) else part for part in parts]
    return pc.binary_join_element_wise(*columns, pa.scalar(EMPTY, pa.binary()))
