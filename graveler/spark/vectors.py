"""Slices of one buffer, and numbers in it, many at once: numpy finds them, Arrow copies them.

    raw        …│key│…│value      │…│key│…│value│…
    offsets     b0  e0            b1 e1              of one field, a pair for each row

Arrow takes such pairs for twice as many texts, every other of which is a gap; taking the even ones
copies all slices at C's speed.  Pure; for this package.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

PAD: Final = 16  # zeros behind a buffer, so that a number may be read wherever a slice may begin
_VARINT_BYTES_MAX: Final = 10


class Slices(NamedTuple):
    """Where one field of each row stands in a buffer: ascending, not overlapping."""

    begin: Any
    end: Any

    def rows(self, first: int, last: int) -> "Slices":
        """Of some adjacent rows."""
        return Slices(self.begin[first:last], self.end[first:last])


def slices_of(pieces: Sequence[bytes], begin: int) -> Slices:
    """Where `pieces` stand if they are written one behind the other from `begin` on."""
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
    """The numbers that begin at these places, and where each ends.  One that does not end within
    ten bytes ends nowhere: at -1."""
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
