"""Ranges from Arrow columns: new ones, or rows put onto the ranges of a base.

    keys, values ──joined──► len‖key‖|len‖value‖| … ──► SHA-256 ──► the range's id
                 ──joined──► entries, cut into blocks of 16 KiB ──compressed──► the table

The ranges are those that any writer gives the same records; untouched ranges of a base are kept.
"""

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from heapq import merge
from itertools import chain, islice, pairwise
from operator import itemgetter
from typing import Any, Final, NamedTuple, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from graveler.arrow.scan import range_records
from graveler.arrow.vectors import (
    bytes_of,
    is_ascending,
    joined,
    octets,
    offsets_of,
    pieces,
    varints_of,
)
from graveler.committed import seal, splice
from graveler.committed.apply import Applier, Changes
from graveler.committed.columns import Columns
from graveler.committed.ranges import RANGE_PROPERTIES, Keyspace
from graveler.committed.reader import range_columns
from graveler.committed.splice import BuiltTable
from graveler.committed.sstable import SstRangeStore
from graveler.committed.writer import Assembler
from graveler.core.identity import break_seed, hash_breaks, identity_of, pairs
from graveler.core.ids import RangeId
from graveler.core.records import TOMBSTONE, BreakParameters, Change, RangeRef, Record, StagedValue

_DECIMALS: Final = pa.array([b"%d" % number for number in range(1 << 14)], pa.binary())
END: Final = b""  # as the greatest key of a bucket: no upper bound


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
    """Records whose keys and values are `Texts`.  `ends`: the positions of their hash breaks.
    Spark has found them with the break parameters by which the records are written."""

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

    def _prepared(self, run: Sequence[Columns]) -> tuple[RangeRef, Callable[[], BuiltTable]]:
        whole = [columns for columns in run if isinstance(columns, ArrowColumns)]
        if len(whole) < len(run) or not whole:
            return super()._prepared(run)
        keys, values = (
            pa.concat_arrays([columns.texts[side].array for columns in whole]) for side in (0, 1)
        )
        longest = max(_longest(keys), _longest(values))
        if longest >= len(_DECIMALS) or not is_ascending(keys):
            return super()._prepared(run)  # it raises the precise error
        sizes = sum(columns.key_size for columns in whole), sum(columns.size for columns in whole)
        count, bounds = len(keys), (keys[0].as_py(), keys[-1].as_py())
        ref = RangeRef(RangeId(_id(keys, values)), *bounds, sizes[1], count)
        # Built here, and only stored behind: other tasks have the other cores.
        built = splice.of_blocks(_blocks(keys, values), count, *sizes)
        return ref, lambda: built

    def _store(self, namespace: str, ref: RangeRef, build: Callable[[], BuiltTable]) -> None:
        self._put(namespace, ref.id, build().content)  # other processes read it


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
    """Where each block begins, and the end of the last one."""
    bounds, cuts, last = offsets.tolist(), [0], len(offsets) - 1
    while cuts[-1] < last:
        cuts.append(min(last, bisect_left(bounds, bounds[cuts[-1]] + seal.BLOCK_LENGTH)))
    return cuts


class Bounds(NamedTuple):
    """The keys of one bucket: greater than `after`, up to `upto`."""

    after: bytes
    upto: bytes

    def holds(self, ref: RangeRef) -> bool:
        """Whether all keys of a range lie in the bucket."""
        return ref.min_key > self.after and (self.upto == END or ref.max_key <= self.upto)

    def meets(self, ref: RangeRef) -> bool:
        """Whether some keys of a range may lie in the bucket."""
        return ref.max_key > self.after and (self.upto == END or ref.min_key <= self.upto)


def bounds_of(cuts: Sequence[bytes], first: int, last: int) -> Bounds:
    """The keys of the buckets from `first` to `last`."""
    after = cuts[first - 1] if first else b""
    return Bounds(after, cuts[last] if last < len(cuts) else END)


def merged(
    space: Keyspace,
    base: Sequence[RangeRef],
    bounds: Bounds,
    changes: Iterable[Change],
    *,
    replace: bool = True,
) -> tuple[RangeRef, ...]:
    """The ranges of one bucket of the base after `changes` are put onto it.  `changes`: sorted, and
    all changes of the bucket.  Without `replace`, a change whose identity equals that of the older
    record leaves the older record."""
    here = [ref for ref in base if bounds.meets(ref)]
    whole = [ref for ref in here if bounds.holds(ref)]
    divided = [_records(space, ref, bounds) for ref in here if not bounds.holds(ref)]
    assembler = Assembler(space)
    latest = Changes(_last_of_each(*divided, changes, replace=replace))
    applier = Applier(space, assembler, latest, replace)
    applier.over(whole, is_tail=bool(whole) and whole[-1] is base[-1])
    return assembler.finish()


def _records(space: Keyspace, ref: RangeRef, bounds: Bounds) -> Iterator[Record]:
    for columns in side(space, ref, bounds):
        yield from columns.records


def side(space: Keyspace, ref: RangeRef, bounds: Bounds) -> Iterator[Columns]:
    """The records of a range that lie in a bucket."""
    for columns in range_columns(space, ref):
        begin = bisect_right(columns.keys, bounds.after)
        end = len(columns.keys) if bounds.upto == END else bisect_right(columns.keys, bounds.upto)
        if begin == 0 and end == len(columns.keys):
            yield columns
        elif begin < end:
            yield Columns(columns.keys[begin:end], columns.values[begin:end])


def _last_of_each(*sources: Iterable[Change], replace: bool) -> Iterator[Change]:
    """All changes by key.  Among equal keys, the change of the last source counts; without
    `replace`, an equal earlier one counts."""
    ranked = merge(
        *(_ranked(rank, source) for rank, source in enumerate(sources)), key=itemgetter(0, 1)
    )
    held: tuple[bytes, int, StagedValue] | None = None
    for item in ranked:
        if held is not None and held[0] != item[0]:
            yield held[0], held[2]
        elif held is not None and not replace and _is_same(held[2], item[2]):
            continue
        held = item
    if held is not None:
        yield held[0], held[2]


def _is_same(old: StagedValue, new: StagedValue) -> bool:
    if old is TOMBSTONE or new is TOMBSTONE:
        return old is new
    return identity_of(old) == identity_of(new)


def _ranked(rank: int, source: Iterable[Change]) -> Iterator[tuple[bytes, int, StagedValue]]:
    return ((key, rank, value) for key, value in source)


Rows = Callable[[bytes], Iterable[ArrowColumns]]
"""The next rows of a bucket up to a key; all others for `END`.  They are sorted, each key once, and
as many at a time as memory is meant to hold."""


def put_onto(
    space: Keyspace, base: Sequence[RangeRef], bounds: Bounds, rows: Rows
) -> tuple[RangeRef, ...]:
    """The ranges of one bucket of the base after `rows`, all of the bucket, are put onto it."""
    assembler = Assembler(space)
    for ref in base:
        if bounds.meets(ref):
            _put_onto_one(space, assembler, ref, bounds, rows(ref.max_key), ref is base[-1])
    for columns in rows(END):
        assembler.add_columns(columns)
    return assembler.finish()


def _put_onto_one(
    space: Keyspace,
    assembler: Assembler,
    ref: RangeRef,
    bounds: Bounds,
    rows: Iterable[ArrowColumns],
    is_last: bool,
) -> None:
    """Add one range of the base, or the part of it that lies in the bucket, with its rows."""
    is_whole, pieces = bounds.holds(ref), iter(rows)
    first = list(islice(pieces, 1))
    if is_whole and not first:
        assembler.add_range(ref, is_last=is_last)
        return
    pieces = chain(first, pieces)
    idle: list[ArrowColumns] = []  # unchanged so far: the range may still be added by reference
    is_idle = is_whole
    for together in _together(_side(space, ref, bounds), pieces, space.breaks):
        is_idle = is_idle and not together.is_changed
        idle.append(together.columns)
        if not is_idle:
            for columns in idle:
                assembler.add_columns(columns)
            idle.clear()
    if is_idle:
        assembler.add_range(ref, is_last=is_last)
    elif is_whole:
        assembler.end_range(ref, is_last=is_last)


def _side(space: Keyspace, ref: RangeRef, bounds: Bounds) -> ArrowColumns:
    """The records of a range that lie in the bucket."""
    keys, values = [], []
    for records in range_records(space, ref):
        paths = records.paths
        begin = bisect_right(Texts(paths), bounds.after)
        end = len(paths) if bounds.upto == END else bisect_right(Texts(paths), bounds.upto)
        part = records.part(begin, max(begin, end))
        keys.append(part.paths)
        values.append(octets(part.raw, part.values))
    return _columns(pa.concat_arrays(keys), pa.concat_arrays(values), space.breaks)


def _columns(keys: Any, values: Any, breaks: BreakParameters) -> ArrowColumns:
    texts = Texts(keys)
    ends = hash_breaks(list(texts), break_seed(breaks.salt), breaks.raggedness)
    return ArrowColumns(texts, Texts(values), ends)


class _Together(NamedTuple):
    """Some records of the base with their rows; `is_changed`: they are not those of the base."""

    columns: ArrowColumns
    is_changed: bool


def _together(
    old: ArrowColumns, rows: Iterable[ArrowColumns], breaks: BreakParameters
) -> Iterator[_Together]:
    for piece in rows:
        before, old = old.split(bisect_right(old.texts[0], piece.last))
        yield _overlaid(before, piece) if before.count else _Together(piece, True)
    if old.count:
        yield _Together(old, False)


def _overlaid(old: ArrowColumns, rows: ArrowColumns) -> _Together:
    """Both in the order of their keys; of equal keys the row counts."""
    (old_keys, old_values), (keys, values) = (
        [texts.array for texts in columns.texts] for columns in (old, rows)
    )
    stays = pc.invert(pc.is_in(old_keys, value_set=keys))
    both = pa.concat_arrays([old_keys.filter(stays), keys])
    order = pc.sort_indices(both)
    both = both.take(order)
    both_values = pa.concat_arrays([old_values.filter(stays), values]).take(order)
    if both.equals(old_keys) and both_values.equals(old_values):
        return _Together(old, False)
    ends = np.zeros(len(both), dtype=bool)
    ends[: len(both) - rows.count] = _mask(old)[stays.to_numpy(zero_copy_only=False)]
    ends[len(both) - rows.count :] = _mask(rows)
    where = np.flatnonzero(ends[order.to_numpy()]).tolist()
    return _Together(ArrowColumns(Texts(both), Texts(both_values), where), True)


def _mask(columns: ArrowColumns) -> Any:
    mask = np.zeros(columns.count, dtype=bool)
    mask[list(columns.ends)] = True
    return mask
