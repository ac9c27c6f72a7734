"""Rows put onto a base in parallel give the ranges of one apply after the other."""

import random
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from graveler.committed.apply import apply
from graveler.committed.ranges import Keyspace
from graveler.committed.reader import ranges
from graveler.core.identity import break_seed, hash_breaks
from graveler.core.ids import MetarangeId
from graveler.core.records import BreakParameters, RangeRef
from graveler.core.wire import encode_entry
from graveler.spark.imports import ImportOptions, import_rows
from graveler.spark.join import ROUNDS, Rounds
from graveler.spark.places import Place, opened
from graveler.spark.range_writer import (
    END,
    ArrowColumns,
    Bounds,
    Texts,
    bounds_of,
    merged,
    put_onto,
)
from tests.spark.conftest import SHARE
from tests.spark.lakes import Row, entry, frame, joined, sequential, some_rows

Records = dict[bytes, bytes]
Items = Sequence[tuple[bytes, bytes]]


def records(rows: Sequence[Row]) -> Records:
    return {row[0].encode(): encode_entry(entry(row)) for row in rows}


Put = Callable[[Keyspace, Sequence[RangeRef], Bounds, Items], tuple[RangeRef, ...]]


class Columned:
    """Rows as an import has them, `count` in a piece."""

    def __init__(self, items: Items, breaks: BreakParameters, count: int) -> None:
        self._items, self._breaks, self._count = list(items), breaks, count

    def upto(self, bound: bytes) -> Iterator[ArrowColumns]:
        end = len(self._items)
        if bound != END:
            end = bisect_right(self._items, bound, key=lambda item: item[0])
        taken, self._items = self._items[:end], self._items[end:]
        for at in range(0, len(taken), self._count):
            keys, values = map(list, zip(*taken[at : at + self._count], strict=True))
            ends = hash_breaks(keys, break_seed(self._breaks.salt), self._breaks.raggedness)
            texts = (Texts(pa.array(each, pa.binary())) for each in (keys, values))
            yield ArrowColumns(*texts, ends)


def by_columns(
    space: Keyspace, base: Sequence[RangeRef], bounds: Bounds, items: Items
) -> tuple[RangeRef, ...]:
    rows = Columned(items, space.breaks, 1 + len(items) % 7)
    return put_onto(space, base, bounds, rows.upto)


def in_buckets(
    place: Place,
    base: MetarangeId,
    cuts: Sequence[bytes],
    changes: Records,
    rounds: Rounds = ROUNDS,
    put: Put = merged,
) -> tuple[RangeRef, ...]:
    """What tasks and driver do, without Spark."""
    space = opened(place).space
    refs = space.metarange(base).ranges
    made = {}
    for bucket in range(len(cuts) + 1):
        after, upto = bounds_of(cuts, bucket, bucket)
        mine = [(k, changes[k]) for k in sorted(changes) if after < k and (not upto or k <= upto)]
        if mine:
            made[bucket] = put(space, refs, bounds_of(cuts, bucket, bucket), mine)
    return joined(place, cuts, made, refs, rounds)


@pytest.mark.parametrize("seed", range(0, 60, SHARE))
def test_any_cuts_give_what_one_apply_gives(place: Place, seed: int) -> None:
    """Cuts at any key, whether or not a range may end there, and sizes of all kinds; tasks that get
    enough of what follows a cut, or too little at first."""
    print(f"{seed=}")
    chance = random.Random(seed)
    rounds = Rounds(span=(1, 2, 24)[seed % 3])
    place = replace(
        place,
        breaks=replace(
            place.breaks,
            min_size=chance.choice((0, 0, 1_500)),
            max_size=chance.choice((3_000, 1 << 20)),
            raggedness=chance.choice((3, 10, 1_000)),
        ),
    )
    space = opened(place).space
    rows = some_rows(seed, 180)
    old = records(rows[: chance.choice((0, 40, 120))])
    base = sequential(place, rows[: len(old)], Path(place.storage.removeprefix("local:")))[0]
    picked = chance.sample(rows, chance.choice((1, 10, 90)))
    spread = picked if seed % 2 else sorted(picked)[: len(picked) // 3 + 1]
    changes = records([(*row[:2], row[2] + chance.choice((0, 1)), *row[3:]) for row in spread])
    cuts = sorted(chance.sample(sorted(records(rows)), chance.choice((0, 1, 5, 30))))
    expected = apply(space, base, sorted(changes.items()), replace=True).metarange_id
    for put in (merged, by_columns):
        found = in_buckets(place, base, cuts, changes, rounds, put)
        assert found == tuple(ranges(space, expected))


def test_an_import_goes_onto_a_base(spark: SparkSession, place: Place) -> None:
    space = opened(place).space
    rows = some_rows(70, 2_000)
    base = import_rows(frame(spark, rows[:1_500]), place).metarange
    moved = [(*row[:1], row[1] + "-moved", *row[2:]) for row in rows[1_400:]]
    made = import_rows(frame(spark, moved), place, ImportOptions(base=base, tasks=7))
    expected = apply(space, base, sorted(records(moved).items()), replace=True)
    assert made.metarange == expected.metarange_id
    assert (made.count, expected.total) == (600, 600)


@pytest.mark.one_version
def test_few_rows_leave_most_ranges_as_they_are(spark: SparkSession, place: Place) -> None:
    rows = some_rows(71, 2_000)
    base = import_rows(frame(spark, rows), place)
    low = sorted(rows)[:3]
    changed = [(*row[:2], row[2] + 1, *row[3:]) for row in low]
    made = import_rows(frame(spark, changed), place, ImportOptions(base=base.metarange))
    assert made.ranges[0] != base.ranges[0] and made.ranges[1:] == base.ranges[1:]
