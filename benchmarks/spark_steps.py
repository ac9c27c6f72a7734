"""Where the time of an import on Spark goes, beside that of sorted Parquet.

    first pass ─ second pass ─ to Python ─ tasks ─ landing            an import
                 shuffle and sort ─ write                             Parquet

Each step is measured with all steps before it, in turn, in a warm session of two cores.  Run it
with the Python of a Spark environment; the last line is JSON of seconds.

    python -m benchmarks.spark_steps ROWS ROUNDS
"""

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from benchmarks.spark_runs import KEYS, TASK_ROWS, as_parquet, imported, rows_in, session
from benchmarks.stopwatch import seconds_of
from graveler.core.records import BreakParameters
from graveler.spark import Lake, connect, cuts
from graveler.spark.import_columns import canonical
from graveler.spark.tasks import SCHEMA, parallel_tasks

_CORES = 2
_FEW = 1_000  # rows of an import whose time is that of its fixed work
_BREAKS = BreakParameters(salt=b"s" * 16)


def _taken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Take all batches, and give nothing back."""
    for _ in batches:
        pass
    return iter(())


def _run(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


def steps(
    lake: Lake, rows: DataFrame, few: DataFrame, folder: Path
) -> dict[str, Callable[[], object]]:
    """What is measured, by name."""
    names = map("run{}".format, count())
    sized = rows.count()
    tasks = max(parallel_tasks(rows.sparkSession), sized // TASK_ROWS)
    whole = canonical(rows, b"")
    at = cuts.chosen(cuts.survey(whole, _BREAKS, hashed=cuts.PATH), _BREAKS, tasks)

    def sent() -> DataFrame:
        return cuts.with_hashes(cuts.spread(cuts.with_ends(whole, _BREAKS), at), cuts.PATH)

    return {
        "first pass": partial(cuts.survey, whole, _BREAKS, hashed=cuts.PATH),
        "second pass": lambda: _run(sent()),
        "second pass, to Python": lambda: _run(sent().mapInArrow(_taken, SCHEMA)),
        "import of 1,000 rows": lambda: imported(lake, few, next(names)),
        "import": lambda: imported(lake, rows, next(names)),
        "shuffle and sort": lambda: _run(
            rows.repartitionByRange(tasks, "path").sortWithinPartitions("path")
        ),
        "Parquet": lambda: as_parquet(rows, folder, sized),
    }


def main() -> None:
    """Measure, and print medians."""
    parser = argparse.ArgumentParser(description="where the time of an import on Spark goes")
    for name in ("rows", "rounds"):
        parser.add_argument(name, type=int)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="graveler-bench-") as name:
        folder = Path(name)
        spark = session(_CORES, folder)
        rows, few = rows_in(spark, folder, options.rows, False), rows_in(spark, folder, _FEW, False)
        with connect(spark, folder / "lake", KEYS) as lake:
            measured = steps(lake, rows, few, folder)
            taken: dict[str, list[float]] = {step: [] for step in measured}
            for number in range(options.rounds + 1):  # the first one warms up
                for step, run in measured.items():
                    seconds = seconds_of(run)
                    taken[step] += [seconds] * (number > 0)
        medians = {step: statistics.median(each) for step, each in taken.items()}
        for step, seconds in medians.items():
            each = 1e6 * _CORES * seconds / options.rows
            print(f"{step:24} {seconds:6.2f} s {each:6.2f} µs of a core a row")
        print(json.dumps({"rows": options.rows, "seconds": medians}))
        spark.stop()


if __name__ == "__main__":
    main()
