"""Puts the rows of an import onto a base, bucket by bucket, whole columns at a time.

    range of the base    k1 k3 k5 k7 k9 │ … untouched: kept by reference
    rows, some thousand     k3   k6     │
    together             k1 k3 k5 k6 …    sorted; of equal keys the row counts

The records are those of `merge.merged`, which takes rows one by one, and so are the ranges if the
base was written with the same break parameters.  The records of a base do not become Python
objects, but for the hashes of their keys.  For this package.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from graveler.arrow.scan import range_records
from graveler.arrow.vectors import octets
from graveler.committed.ranges import Keyspace
from graveler.committed.writer import Assembler
from graveler.identity import break_seed, hash_breaks
from graveler.records import BreakParameters, RangeRef
from graveler.spark.core.build import ArrowColumns, Texts
from graveler.spark.core.merge import END, Bounds

Rows = Callable[[bytes], Iterable[ArrowColumns]]
"""The next rows of a bucket up to a key; all others for `END`.  They are sorted, each key once, and
as many at a time as memory is meant to hold."""


def put_onto(
    space: Keyspace, base: Sequence[RangeRef], bounds: Bounds, rows: Rows
) -> tuple[RangeRef, ...]:
    """The ranges of one bucket of the base after `rows`, all of the bucket, are put onto it.  Cost:
    the ranges that rows touch or the bounds divide are read; one put for each new range."""
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
