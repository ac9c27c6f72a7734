"""What passes through the driver does not grow with the records."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from graveler.committed.apply import apply
from graveler.committed.ranges import EMPTY_METARANGE
from graveler.core.errors import Invalid
from graveler.core.ids import RangeId
from graveler.core.records import BreakParameters, RangeRef
from graveler.spark import places
from graveler.spark.cuts import Survey, chosen
from graveler.spark.imports import ImportOptions, import_rows
from graveler.spark.join import Rounds, by_tasks, joined_over, sewing
from graveler.spark.packs import repacked
from graveler.spark.places import Place, opened
from tests.spark.core.test_merge import records
from tests.spark.lakes import Row, frame, sequential, some_rows


class Counting:
    """A store that notes how many bytes this process takes out of range files."""

    def __init__(self, blocks: Any) -> None:
        self._blocks = blocks
        self.taken: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._blocks, name)

    def read(self, address: str, start: int, length: int) -> bytes:
        body: bytes = self._blocks.read(address, start, length)
        self.taken[address] = self.taken.get(address, 0) + len(body)
        return body

    def get(self, address: str, *more: Any) -> Any:
        found = self._blocks.get(address, *more)
        self.taken[address] = self.taken.get(address, 0) + found.head.size
        return found

    def bytes_of(self, ids: set[RangeId]) -> int:
        return sum(size for where, size in self.taken.items() if where.rpartition("/")[2] in ids)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Counting]]:
    """The stores of this process; tasks run in others."""
    made: list[Counting] = []
    real = places.open_blocks

    def counted(*given: Any) -> Any:
        made.append(Counting(real(*given)))
        return made[-1]

    monkeypatch.setattr(places, "open_blocks", counted)
    opened.cache_clear()
    yield made
    opened.cache_clear()


def with_least_size(place: Place) -> Place:
    """So that nearly no cut is an end."""
    return replace(place, breaks=replace(place.breaks, min_size=9_000, raggedness=5))


def test_an_import_takes_no_range_through_the_driver(
    spark: SparkSession, place: Place, tmp_path: Path, counting: list[Counting]
) -> None:
    place, rows = with_least_size(place), some_rows(150, 800)
    made = import_rows(frame(spark, rows), place, ImportOptions(tasks=12))
    assert made.metarange == sequential(place, rows, tmp_path / "one")[0]
    ids = {ref.id for ref in made.ranges}
    assert len(ids) > 5 and sum(each.bytes_of(ids) for each in counting) == 0


def test_rows_on_a_base_and_packing_take_none_either(
    spark: SparkSession, place: Place, counting: list[Counting]
) -> None:
    place, rows = with_least_size(place), some_rows(151, 2_000)
    base = import_rows(frame(spark, rows), place, ImportOptions(tasks=9))
    moved: list[Row] = [(*row[:1], row[1] + "-moved", *row[2:]) for row in sorted(rows)[::40]]
    found = import_rows(frame(spark, moved), place, ImportOptions(base=base.metarange, tasks=9))
    space = opened(place).space
    coarse = replace(place, breaks=replace(place.breaks, min_size=30_000))
    packed = repacked(spark, coarse, found.ranges, 6, tasks=4)
    assert len(packed.ranges) < len(found.ranges)
    ids = {ref.id for ref in (*base.ranges, *found.ranges, *packed.ranges)}
    assert sum(each.bytes_of(ids) for each in counting) == 0
    expected = apply(space, base.metarange, sorted(records(moved).items()), replace=True)
    assert found.metarange == expected.metarange_id != EMPTY_METARANGE


def test_a_seam_that_meets_no_end_is_sewn_with_more(
    spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    """By tasks, all of them at first, then the one that is needed."""
    place = replace(place, breaks=replace(place.breaks, min_size=35_000, raggedness=3))
    rows = some_rows(152, 1_500)
    options = ImportOptions(tasks=20, rounds=Rounds(span=1, of_all=1))
    made = import_rows(frame(spark, rows), place, options)
    assert list(made.ranges) == sequential(place, rows, tmp_path / "one")[1]


def test_ranges_that_overlap_are_refused(spark: SparkSession, place: Place) -> None:
    refs = [RangeRef(RangeId(each), each.encode(), b"z" + each.encode(), 1, 1) for each in "ab"]
    breaks = replace(place.breaks, raggedness=1)
    with pytest.raises(Invalid, match="overlap"):
        joined_over(by_tasks(spark, sewing(place)), breaks, (), [b"aa"], {0: refs[:1], 1: refs[1:]})


def test_buckets_grow_with_the_least_size() -> None:
    """As far as a task can hold them."""
    keys = tuple(b"%06d" % number for number in range(1_000))
    found = Survey(10_000_000, keys)
    counts = [
        len(chosen(found, BreakParameters(min_size=size << 20, raggedness=10_000), 1))
        for size in (0, 4, 8, 64)
    ]
    assert counts == [33, 33, 25, 20]
