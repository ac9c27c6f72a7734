"""Measures the work of the Spark driver that grows with the number of ranges, at 500,000 ranges.

    python -m benchmarks.spark_ranges [RANGES]      with the Python of one of Spark's environments

The ranges are invented, because no measured step reads a range.  Prints a JSON object of seconds.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from benchmarks.spark_runs import session
from graveler.arrow.scan import meeting
from graveler.core.ids import RangeId
from graveler.core.records import BreakParameters, RangeRef
from graveler.spark import cuts
from graveler.spark.diffs import stretches
from graveler.spark.join import by_tasks, here, joined_over, piece_of
from graveler.spark.places import Place, opened
from graveler.spark.tables import over_ranges
from graveler.spark.tasks import RANGE_ROWS, Part
from graveler.spark.tasks import rows_of as result_of

RANGES = 500_000
RECORDS = 10_000  # in each
_BUCKET_RANGES = 30  # written by one task of an import


def refs_of(count: int, breaks: BreakParameters, other: int = 0) -> list[RangeRef]:
    """`count` ranges, each ended by its size.

    If `other` is given, every `other`-th range has a different id than without it.
    """
    found = []
    for number in range(count):
        id = f"{number:063x}" + ("1" if other and number % other == 0 else "0")
        first, last = (f"tables/part-{number:08}-{end}".encode() for end in ("a", "z"))
        found.append(RangeRef(RangeId(id), first, last, breaks.max_size, RECORDS))
    return found


def measured(spark: SparkSession, folder: Path, count: int) -> dict[str, Any]:
    """Seconds of each step of the driver, at `count` ranges."""
    (folder / "lake").mkdir(parents=True)
    place = Place(f"local:{folder}", "local://lake/made-up")
    space = opened(place).space
    left, right = refs_of(count, place.breaks), refs_of(count, place.breaks, other=10)
    ends = tuple(ref.max_key for ref in left[_BUCKET_RANGES - 1 :: _BUCKET_RANGES])
    made = {
        bucket: tuple(left[bucket * _BUCKET_RANGES : (bucket + 1) * _BUCKET_RANGES])
        for bucket in range(-(-count // _BUCKET_RANGES))
    }
    found: dict[str, Any] = {"ranges": count, "records": count * RECORDS}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        begin = time.perf_counter()
        result = work()
        found[name] = round(time.perf_counter() - begin, 2)
        return result

    refs = timed("import_join_s", lambda: joined_over(here(space), place.breaks, (), ends, made))
    timed("import_seams_s", partial(_sewn, spark, left))
    id = timed("import_metarange_s", lambda: space.store.write_metarange(space.namespace, refs))
    opened.cache_clear()
    space = opened(place).space
    read = timed("read_metarange_s", lambda: space.metarange(id).ranges)
    assert read == tuple(left), "the metarange holds other ranges than were written"

    def planned(refs: Sequence[RangeRef]) -> DataFrame:
        return over_ranges(spark, refs, lambda batches: batches, RANGE_ROWS)

    timed("read_plan_s", lambda: planned(read))
    prefix = b"tables/part-00000007"
    near = timed("read_plan_of_one_prefix_s", lambda: planned(meeting(read, prefix)))
    assert near.count() == 1, "a prefix meets other ranges than its own"
    told = timed("diff_plan_s", lambda: stretches(left, right))
    assert len(told) == -(-count // 10), "other stretches differ than were changed"
    rows = spark.range(100_000).selectExpr("cast(concat('tables/part-', id) AS binary) AS path")
    placed = partial(cuts.with_bucket, rows, ends)
    timed("import_buckets_s", lambda: placed().write.format("noop").mode("overwrite").save())
    return found


def _sewn(spark: SparkSession, refs: Sequence[RangeRef]) -> None:
    """Join the buckets of an import through tasks.

    The minimum size of a range makes every bucket end in a seam, so the driver does all its work
    for seams.  The tasks answer at once: an end agrees after two ranges.
    """
    breaks = BreakParameters(min_size=refs[0].size + 1, max_size=refs[0].size + 1)
    ends = tuple(ref.max_key for ref in refs[_BUCKET_RANGES - 1 :: _BUCKET_RANGES])
    made = {at: refs[at * _BUCKET_RANGES : (at + 1) * _BUCKET_RANGES] for at in range(len(ends))}

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                found = [piece_of(each).ref for each in row["pieces"][:2]]
                yield result_of(Part(row["start"], tuple(found), len(found), {}, ()))

    result = joined_over(by_tasks(spark, run, 1_000), breaks, (), ends, made)
    assert len(result) == len(ends) * _BUCKET_RANGES, "seams lost ranges"


def main() -> None:
    """Measure and print the JSON object."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.spark_ranges", description="Measures the work of the driver."
    )
    parser.add_argument("ranges", nargs="?", type=int, default=RANGES)
    count = parser.parse_args().ranges
    with tempfile.TemporaryDirectory(prefix="graveler-bench-") as folder:
        spark = session(2, Path(folder))
        spark.range(10).count()
        print(json.dumps(measured(spark, Path(folder, "store"), count)), flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
