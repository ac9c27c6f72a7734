"""Ranges from Arrow columns: the identity and the table of many records at once.

    keys, values ──joined──► len‖key‖|len‖value‖| … ──► SHA-256 ──► the range's id
                 ──joined──► entries, cut into blocks of 16 KiB ──compressed──► the table

The id and the form of the table are those that any writer gives the same records
(`committed/splice.py`).  No scratch file is written.  For this package.
"""

import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from typing import Any, Final, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from graveler.arrow.vectors import (
    bytes_of,
    is_ascending,
    joined,
    offsets_of,
    pieces,
    varints_of,
)
from graveler.committed import seal, splice
from graveler.committed.columns import Columns
from graveler.committed.ranges import RANGE_PROPERTIES
from graveler.committed.sstable import SstRangeStore
from graveler.identity import pairs
from graveler.ids import RangeId
from graveler.records import RangeRef

_DECIMALS: Final = pa.array([b"%d" % number for number in range(1 << 14)], pa.binary())


class Texts(Sequence[bytes]):
    """A binary array without nulls; Python bytes are made only when they are read."""

    def __init__(self, array: Any) -> None:
        self.array = array

    @cached_property
    def _pieces(self) -> list[bytes]:
        return pieces(self.array)

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._pieces)

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> "Texts": ...
    def __getitem__(self, at: int | slice) -> "bytes | Texts":
        if isinstance(at, slice):
            first, last, _ = at.indices(len(self))
            return Texts(self.array.slice(first, max(0, last - first)))
        text: bytes = self.array[at].as_py()
        return text

    @property
    def size(self) -> int:
        """The total length of all texts."""
        offsets = offsets_of(self.array)
        return int(offsets[-1]) - int(offsets[0])


class ArrowColumns(Columns):
    """Records whose keys and values are `Texts`.

    `ends`: the positions of their hash breaks.  Spark has found them with the break parameters by
    which the records are written.
    """

    def __init__(self, keys: Texts, values: Texts, ends: Sequence[int]) -> None:
        super().__init__(keys, values)
        self.texts = keys, values
        self.ends = ends

    def hash_breaks(self, seed: int, raggedness: int) -> Sequence[int]:
        return self.ends

    @cached_property
    def key_size(self) -> int:
        return self.texts[0].size

    @cached_property
    def size(self) -> int:
        return self.key_size + self.texts[1].size

    def split(self, at: int) -> tuple["ArrowColumns", "ArrowColumns"]:
        keys, values = self.texts
        before = [end for end in self.ends if end < at]
        behind = [end - at for end in self.ends if end >= at]
        return (
            ArrowColumns(keys[:at], values[:at], before),
            ArrowColumns(keys[at:], values[at:], behind),
        )


class ArrowRangeStore(SstRangeStore):
    """The production store of ranges; it writes ranges of `ArrowColumns` as this module
    describes."""

    def splice_range(self, namespace: str, run: Sequence[Columns]) -> RangeRef:
        whole = [columns for columns in run if isinstance(columns, ArrowColumns)]
        if len(whole) < len(run) or not whole:
            return super().splice_range(namespace, run)
        keys, values = (
            pa.concat_arrays([columns.texts[side].array for columns in whole]) for side in (0, 1)
        )
        longest = max(_longest(keys), _longest(values))
        if longest >= len(_DECIMALS) or not is_ascending(keys):
            return super().splice_range(namespace, run)  # it raises the precise error
        sizes = sum(columns.key_size for columns in whole), sum(columns.size for columns in whole)
        count, bounds = len(keys), (keys[0].as_py(), keys[-1].as_py())
        ref = RangeRef(RangeId(_id(keys, values)), *bounds, sizes[1], count)
        self._put(namespace, ref.id, splice.of_blocks(_blocks(keys, values), count, *sizes))
        return ref


def _longest(array: Any) -> int:
    return int(np.diff(offsets_of(array)).max(initial=0))


def _id(keys: Any, values: Any) -> str:
    """The id of the range, as `committed.columns.Run.id` computes it."""
    key_length, value_length = (_DECIMALS.take(pc.binary_length(x)) for x in (keys, values))
    stream = joined(key_length, keys, b"|", value_length, values, b"|")
    digest = sha256(bytes_of(stream))
    digest.update(pairs(RANGE_PROPERTIES))
    return digest.hexdigest()


def _blocks(keys: Any, values: Any) -> Iterator[tuple[bytes, bytes]]:
    """Each block with its last key, in the form that `splice.of_blocks` takes."""
    behind = seal.BEHIND_KEYS
    key_length, value_length = (
        varints_of(pc.binary_length(x).to_numpy(zero_copy_only=False).astype(np.uint64) + more)
        for x, more in ((keys, np.uint64(len(behind))), (values, np.uint64(0)))
    )
    entries = joined(b"\0", key_length, value_length, keys, behind, values)
    offsets, raw = offsets_of(entries), memoryview(entries.buffers()[2])
    for first, last in pairwise(_cuts(offsets)):
        begin, end = int(offsets[first]), int(offsets[last])
        starts = (offsets[first:last] - begin).astype("<u4").tobytes()
        payload = b"".join([raw[begin:end], starts, struct.pack("<I", last - first)])
        yield keys[last - 1].as_py(), seal.compressed(payload)


def _cuts(offsets: Any) -> list[int]:
    """Where each block begins, and the end of the last one.  A block ends at the first entry with
    which it has reached its length."""
    bounds, cuts, last = offsets.tolist(), [0], len(offsets) - 1
    while cuts[-1] < last:
        cuts.append(min(last, bisect_left(bounds, bounds[cuts[-1]] + seal.BLOCK_LENGTH)))
    return cuts
