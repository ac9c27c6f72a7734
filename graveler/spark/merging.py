"""A job's entries put onto a base, bucket by bucket: what applying them one after the other gives.

    base      ──┤range│range│ra‖nge│range├──       ‖: a cut may fall inside a range of the base
    bucket        (after, upto]
    rows            + +     +

A task reads the ranges of the base that its rows touch, and keeps the others by reference; of a
range that a cut divides it takes the records of its side.  Buckets without rows are the base's own,
which the driver puts between the others.  For this package.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from operator import itemgetter
from typing import Final, Literal, NamedTuple

from graveler.committed.apply import Applier, Changes
from graveler.committed.ranges import Columns, Keyspace
from graveler.committed.reader import range_columns
from graveler.committed.splitting import Splitter
from graveler.committed.writer import Assembler
from graveler.framing import identity_of
from graveler.records import ABSENT, TOMBSTONE, Absent, Change, RangeRef, Record, StagedValue

END: Final = b""  # as the greatest key of a bucket: there is none


class Bounds(NamedTuple):
    """The keys of one bucket: greater than `after`, up to `upto`."""

    after: bytes
    upto: bytes

    def holds(self, ref: RangeRef) -> bool:
        """Whether a range lies in the bucket with all of its keys."""
        return ref.min_key > self.after and (self.upto == END or ref.max_key <= self.upto)

    def meets(self, ref: RangeRef) -> bool:
        """Whether some of the range's keys may lie in the bucket."""
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
    """The ranges of one bucket of the base with `changes`, sorted and all of the bucket, put onto
    it; without `replace`, one of equal identity keeps the older record.  Cost: the ranges that
    `changes` touch or the bounds divide are read; a put for each new one."""
    here = [ref for ref in base if bounds.meets(ref)]
    whole = [ref for ref in here if bounds.holds(ref)]
    divided = [_records(space, ref, bounds) for ref in here if not bounds.holds(ref)]
    assembler = Assembler(space)
    over = Changes(_last_of_each(*divided, changes, replace=replace))
    applier = Applier(space, assembler, over, replace)
    applier.over(whole, is_tail=bool(whole) and whole[-1] is base[-1])
    return assembler.finish()


def _records(space: Keyspace, ref: RangeRef, bounds: Bounds) -> Iterator[Record]:
    for columns in _side(space, ref, bounds):
        yield from columns.records


def _side(space: Keyspace, ref: RangeRef, bounds: Bounds) -> Iterator[Columns]:
    """The records of a range that lie in a bucket."""
    for columns in range_columns(space, ref):
        begin = bisect_right(columns.keys, bounds.after)
        end = len(columns.keys) if bounds.upto == END else bisect_right(columns.keys, bounds.upto)
        if begin == 0 and end == len(columns.keys):
            yield columns
        elif begin < end:
            yield Columns(columns.keys[begin:end], columns.values[begin:end])


def _last_of_each(*sources: Iterable[Change], replace: bool) -> Iterator[Change]:
    """All changes by key; of equal keys that of the last source, unless it says the same and is not
    to `replace`."""
    ranked = merge(*map(_ranked, range(len(sources)), sources), key=itemgetter(0, 1))
    held: tuple[bytes, int, StagedValue] | None = None
    for found in ranked:
        if held is not None and held[0] != found[0]:
            yield held[0], held[2]
        elif held is not None and not replace and _is_same(held[2], found[2]):
            continue
        held = found
    if held is not None:
        yield held[0], held[2]


def _is_same(old: StagedValue, new: StagedValue) -> bool:
    if old is TOMBSTONE or new is TOMBSTONE:
        return old is new
    return identity_of(old) == identity_of(new)


def _ranked(rank: int, source: Iterable[Change]) -> Iterator[tuple[bytes, int, StagedValue]]:
    return ((key, rank, value) for key, value in source)


def joined_over(
    space: Keyspace,
    base: Sequence[RangeRef],
    cuts: Sequence[bytes],
    made: Mapping[int, Sequence[RangeRef]],
) -> tuple[RangeRef, ...]:
    """The ranges of the whole key space: those that tasks `made`, by bucket (none: all was
    deleted), and the base's in every other one.

    The last range of a bucket may end only because of a cut: then it is read again with what
    follows (`joining.py`).  Cost: that, and the ranges of the base that a cut divides.
    """
    splitter = Splitter(space.breaks)
    kept_ends = {ref.max_key for ref in base[:-1] if not splitter.closes(ref)}
    assembler = Assembler(space)
    for bounds, refs in _stretches(cuts, made):
        if refs is ABSENT:
            _add_base(space, assembler, base, bounds)
            continue
        for at, ref in enumerate(refs, 1):
            is_open = at == len(refs) and ref.max_key not in kept_ends
            assembler.add_range(ref, is_last=is_open)
    return assembler.finish()


def _stretches(
    cuts: Sequence[bytes], made: Mapping[int, Sequence[RangeRef]]
) -> Iterator[tuple[Bounds, Sequence[RangeRef] | Literal[Absent.ABSENT]]]:
    """Every bucket that a task made, and in one piece what lies between two of them."""
    begin = 0
    for bucket in sorted(made):
        if begin < bucket:
            yield bounds_of(cuts, begin, bucket - 1), ABSENT
        yield bounds_of(cuts, bucket, bucket), made[bucket]
        begin = bucket + 1
    if begin <= len(cuts):
        yield bounds_of(cuts, begin, len(cuts)), ABSENT


def _add_base(
    space: Keyspace, assembler: Assembler, base: Sequence[RangeRef], bounds: Bounds
) -> None:
    first = bisect_left(base, bounds.after, key=lambda ref: ref.max_key)
    for ref in base[first:]:
        if not bounds.meets(ref):
            if ref.min_key > bounds.after:
                return
            continue
        if bounds.holds(ref):
            assembler.add_range(ref, is_last=ref is base[-1])
            continue
        for columns in _side(space, ref, bounds):
            assembler.add_columns(columns)
        if bounds.upto == END or ref.max_key <= bounds.upto:
            assembler.end_range(ref, is_last=ref is base[-1])
