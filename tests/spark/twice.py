"""A driver for a cluster on which one task is slow at first, so that Spark runs it a second time.

    python -m tests.spark.twice FOLDER

The first attempt of that task stores everything, then hangs for longer than anybody waits.  The
second one ends behind that moment, however slow the machine is; Spark then kills the first.
Prints the result as JSON.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from graveler.records import BreakParameters
from graveler.spark.cluster.places import Place
from graveler.spark.cluster.results import SCHEMA, parts_of
from tests.spark.lakes import files, joined, sequential, some_rows, spread

SLOW = 1
HANG_SECONDS = 3_600


def main(folder: Path) -> None:
    """Import, and compare with one writer."""
    spark = SparkSession.builder.getOrCreate()
    breaks = BreakParameters(max_size=40_000, raggedness=50, salt=b"tests")
    place = Place(f"local:{folder / 'objects'}", "local://lake/repository", breaks)
    rows = some_rows(40, 1_500)
    given, at, run = spread(spark, place, rows)

    def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        made = list(run(batches))
        context = TaskContext.get()
        task, attempt = context.partitionId(), context.attemptNumber()
        (folder / f"ended-{task}-{attempt}").touch()
        if (task, attempt) == (SLOW, 0):
            time.sleep(HANG_SECONDS)
        while task == SLOW and not (folder / f"ended-{SLOW}-0").exists():
            time.sleep(0.05)
        yield from made

    parts = parts_of(given.mapInArrow(slow, SCHEMA).collect())
    refs = joined(place, at, {part.bucket: part.ranges for part in parts})
    expected = sequential(place, rows, folder / "one")[1]
    said = {
        "equal": list(refs) == expected,
        "left_over": sorted(files(folder / "objects") ^ {ref.id for ref in expected}),
        "ended": sorted(path.name for path in folder.glob("ended-*")),
    }
    print(json.dumps(said))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
