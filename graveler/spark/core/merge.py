"""Puts a job's entries onto a base, bucket by bucket.

    base      ──┤range│range│ra‖nge│range├──       ‖: a cut may fall inside a range of the base
    bucket        (after, upto]
    rows            + +     +

The result is that of applying the entries one after another.  A task reads the ranges of the base
that its rows touch, and keeps the others by reference.  From a range that a cut divides, it takes
the records on its side of the cut.  Buckets without rows keep the base's ranges (`join.py`).  For
this package.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from operator import itemgetter
from typing import Final, NamedTuple

from graveler.committed.apply import Applier, Changes
from graveler.committed.columns import Columns
from graveler.committed.ranges import Keyspace
from graveler.committed.reader import range_columns
from graveler.committed.writer import Assembler
from graveler.framing import identity_of
from graveler.records import TOMBSTONE, Change, RangeRef, Record, StagedValue

END: Final = b""  # as the greatest key of a bucket: no upper bound


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
    """The ranges of one bucket of the base after `changes` are put onto it.

    `changes`: sorted, and all changes of the bucket.  Without `replace`, a change whose identity
    equals that of the older record leaves the older record.  Cost: the ranges that `changes` touch
    or the bounds divide are read; one put for each new range.
    """
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
    ranked = merge(*map(_ranked, range(len(sources)), sources), key=itemgetter(0, 1))
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
