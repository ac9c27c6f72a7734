"""One measurement on Spark in its own process: imports beside Parquet, then reads and a diff.

    rows in random order, in Parquet ──┬── import_ into a fresh repository, one commit
              alternating, warm        ├── sorted by the path and written as Parquet, Snappy
                                       └── import_ onto a commit with other values for half of them
    the last commit ── entries, all columns; path and size; the diff to one with 1 % of them changed

`benchmarks.spark` runs it with the Python of one version and the arguments VERSION CORES ROWS
ROUNDS PAIRS.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from benchmarks.stopwatch import seconds_of
from graveler.spark import Credentials, Lake, connect, diff, entries, import_

KEYS = Credentials("BENCHKEY", "a-secret-of-benchmarks-and-of-nothing-else")
TASK_ROWS = 300_000  # in one task of the Parquet job
WARM_ROWS = 2_000_000  # before the first round, so that the JVM has compiled its hot code
CHANGED = 100  # one row in 100 changes
_PAIRS = (
    "map('owner', 'etl', 'run', cast(id % 97 AS string)) AS metadata",
    "'application/octet-stream' AS content_type",
)
_PRIME = 2_654_435_761  # multiplied modulo the count, it gives a permutation


def session(cores: int, folder: Path) -> SparkSession:
    """A session with `cores` cores and Spark's defaults, such as 200 partitions after a shuffle.
    With one core, all its processes share that core."""
    if cores == 1:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    os.environ.setdefault("JAVA_HOME", str(Path(sys.prefix) / "java"))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "6g",
        "spark.sql.session.timeZone": "UTC",
        "spark.local.dir": str(folder / "local"),
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("OFF")
    return found


def rows_in(spark: SparkSession, folder: Path, count: int, pairs: bool) -> DataFrame:
    """`count` rows for an import in eight files, in no order.

    They have the columns of an inventory, or with `pairs` also two metadata pairs and a content
    type.
    """
    rows = spark.range(0, count, 1, 8).selectExpr(f"pmod(id * {_PRIME}, {count}) AS id")
    where = str(folder / f"rows-{count}")
    rows.selectExpr(
        "concat('tables/t', lpad(cast(id % 40 AS string), 2, '0'), '/year=2026/month=',"
        " lpad(cast(id % 12 + 1 AS string), 2, '0'), '/part-', lpad(cast(id AS string), 10, '0'),"
        " '-c000.snappy.parquet') AS path",
        "concat('local://landing/2026/', cast(id AS string), '/', md5(cast(id AS string)))"
        " AS address",
        "pmod(id * 7919, 10000000) AS size",
        "md5(cast(id AS string)) AS checksum",
        "timestamp_micros(1760000000000000 + id * 1003) AS mtime",
        *(_PAIRS if pairs else ()),
    ).write.mode("overwrite").parquet(where)
    return spark.read.parquet(where)


def measured(
    spark: SparkSession, folder: Path, count: int, rounds: int, pairs: bool = False
) -> dict[str, Any]:
    """Rates in rows per second, medians of alternating rounds; and the seconds of a diff."""
    rows = rows_in(spark, folder, count, pairs)
    with connect(spark, folder / "lake", KEYS) as lake:
        warm = rows if count <= WARM_ROWS else rows_in(spark, folder, WARM_ROWS, pairs)
        imported(lake, warm, "warm")
        as_parquet(warm, folder, count)
        imports, parquets, merges = [], [], []
        for number in range(rounds):
            _forget(lake, f"run{number - 1}")
            imports.append(seconds_of(partial(imported, lake, rows, f"run{number}")))
            parquets.append(seconds_of(partial(as_parquet, rows, folder, count)))
            merges.append(_merge_seconds(lake, rows, f"base{number}"))
        last = f"run{rounds - 1}"
        found: dict[str, Any] = {
            "rows": count,
            "import_rps": round(count / statistics.median(imports)),
            "parquet_rps": round(count / statistics.median(parquets)),
        }
        found["merge_rps"] = round(count / statistics.median(merges))
        for name in ("import", "merge"):
            found[f"{name}_ratio"] = round(found[f"{name}_rps"] / found["parquet_rps"], 3)
        return found | _reads(lake, rows, last, rounds)


def _reads(lake: Lake, rows: DataFrame, name: str, rounds: int) -> dict[str, Any]:
    count = rows.count()
    where = f"{name}/main"
    found: dict[str, Any] = {}
    for key, columns in (("read_rps", ()), ("read_path_size_rps", (["path", "size"],))):
        seconds = [
            seconds_of(partial(_all, entries(lake, where, *columns))) for _ in range(min(3, rounds))
        ]
        found[key] = round(count / statistics.median(seconds))
    changed = rows.where(f"pmod(size, {CHANGED}) = 0").withColumn("size", rows["size"] + 1)
    import_(lake, changed, where, mode="merge")
    expected = changed.count()
    told = diff(lake, f"{where}~1", where).count()
    assert told == expected, f"a diff of other rows than were changed: {told=} {expected=}"
    seconds = [seconds_of(diff(lake, f"{where}~1", where).count) for _ in range(min(3, rounds))]
    return found | {"diff_s": round(statistics.median(seconds), 2), "diff_rows": expected}


def imported(lake: Lake, rows: DataFrame, name: str) -> None:
    """Import the rows into a new repository.

    The repository has its own salt, so no other round has written the same ranges.
    """
    body = {"name": name, "storage_namespace": f"local://lake/{name}", "default_branch": "main"}
    lake.session.call("POST", "/repositories", body)
    import_(lake, rows, f"{name}/main")


def _merge_seconds(lake: Lake, rows: DataFrame, name: str) -> float:
    """Import the rows onto a commit that has half of their paths, with other sizes."""
    imported(lake, rows.where("size % 2 = 0").withColumn("size", rows["size"] + 1), name)
    seconds = seconds_of(partial(import_, lake, rows, f"{name}/main", mode="merge"))
    _forget(lake, name)
    return seconds


def _forget(lake: Lake, name: str) -> None:
    shutil.rmtree(Path(lake.store, "objects", "lake", name), ignore_errors=True)


def as_parquet(rows: DataFrame, folder: Path, count: int) -> None:
    cores = rows.sparkSession.sparkContext.defaultParallelism
    tasks = max(2 * cores, count // TASK_ROWS)  # as somebody chooses it who knows the machine
    spread = rows.repartitionByRange(tasks, "path").sortWithinPartitions("path")
    spread.write.mode("overwrite").option("compression", "snappy").parquet(str(folder / "sorted"))


def _all(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


def main() -> None:
    """Measure as the arguments say, and print a JSON object."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.spark_runs", description="One measurement on Spark."
    )
    parser.add_argument("version")
    for name in ("cores", "rows", "rounds", "pairs"):
        parser.add_argument(name, type=int)
    options = parser.parse_args()
    version, cores, count = options.version, options.cores, options.rows
    rounds, pairs = options.rounds, options.pairs
    with tempfile.TemporaryDirectory(prefix="graveler-bench-") as folder:
        spark = session(cores, Path(folder))
        about = {"version": version, "pyspark": spark.version, "cores": cores, "pairs": bool(pairs)}
        found = measured(spark, Path(folder), count, rounds, bool(pairs))
        print(json.dumps(about | found), flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
