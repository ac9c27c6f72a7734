"""Tables on Spark beside Spark's own Parquet, by pairs in one warm session.

    rows in memory ──┬── write a table       that table ──┬── scan, one day, one column, count
         by turns    └── df.write.parquet      by turns   └── the same of spark.read.parquet
    an append of three rows; streams of ten rows a batch, by turns with Spark's own

`benchmarks.spark` runs it with the Python of one version and the arguments CORES ROWS ROUNDS
SECONDS.  It prints a JSON array of lines.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from benchmarks.spark_runs import KEYS, session
from benchmarks.stopwatch import seconds_of
from graveler.spark import Lake, Table, connect, register, write_stream

DAYS = 30
DAY = "2026-01-07"
TURN_SECONDS = 60  # of a stream, at most
PLAIN_SHARE = 0.2  # of the time of a stream, for what it is compared with
WRITE_STREAM = "write_stream"
Line = dict[str, Any]


class Pair(NamedTuple):
    """What is done on a table, and the same with Spark alone; `goal`: the least share of Spark's
    speed."""

    name: str
    ours: Callable[[], object]
    plain: Callable[[], object]
    goal: float


def rows_of(spark: SparkSession, count: int) -> DataFrame:
    """Orders of some days, in memory: numbers, a date, amounts and texts."""
    rows = spark.range(0, count, 1, 8).selectExpr(
        "id",
        f"date_add(DATE '2026-01-01', cast(id % {DAYS} AS int)) AS day",
        "pmod(id * 2654435761, 100000) AS customer",
        "cast(pmod(id * 7919, 100000) / 100 AS decimal(12,2)) AS amount",
        "pmod(id * 31, 1000) / 7 AS weight",
        "md5(cast(id AS string)) AS reference",
        "concat('city ', id % 500) AS city",
        "timestamp_micros(1760000000000000 + id * 1003) AS at",
    )
    return rows.repartition(8, "day").cache()


def measured(spark: SparkSession, folder: Path, count: int, rounds: int, stream: float) -> Any:
    """The lines: medians of rounds, in which both sides take turns; a ratio is the median of those
    of the rounds."""
    rows, files = rows_of(spark, count), str(folder / "plain")
    assert rows.count() == count
    with connect(spark, folder / "lake", KEYS) as lake:
        main = lake.create_repository("shop", "local://lake/shop").branch("main")
        orders = main.table("orders")
        lines = [_line(pair, count, rounds) for pair in pairs(orders, rows, files)]
        few = rows.limit(3).cache()
        few.count()
        append = partial(orders.append, few)
        append()
        seconds = statistics.median(seconds_of(append) for _ in range(2 * rounds + 1))
        lines.append(_absolute("append of three rows", seconds, "s", "≤ 0.35", seconds <= 0.35))
        lines += stream_lines(lake, folder, stream)
    return lines


def pairs(orders: Table, rows: DataFrame, files: str) -> list[Pair]:
    """What is compared.  The first pair makes what the others read."""
    spark = rows.sparkSession

    def stored() -> object:
        return orders.overwrite(rows, partition_by="day")

    def as_parquet() -> None:
        rows.write.mode("overwrite").partitionBy("day").parquet(files)

    def plain() -> DataFrame:
        return spark.read.parquet(files)

    day = f"day = DATE '{DAY}'"
    return [
        Pair("write", stored, as_parquet, 0.9),
        Pair("scan", lambda: _all(orders.read()), lambda: _all(plain()), 0.9),
        Pair(
            "where(day)",
            lambda: _all(orders.read(where=[("day", "=", DAY)])),
            lambda: _all(plain().where(day)),
            0.7,
        ),
        Pair(
            "one column",
            lambda: _all(orders.read(columns="amount")),
            lambda: _all(plain().select("amount")),
            0.7,
        ),
        Pair("count", orders.count, lambda: plain().count(), 0.7),
    ]


def _line(pair: Pair, count: int, rounds: int) -> Line:
    """The first round of each only warms up."""
    pair.ours(), pair.plain()
    taken = []
    for number in range(rounds):
        sides = [pair.ours, pair.plain]
        first, second = sides if number % 2 == 0 else sides[::-1]
        times = {first: seconds_of(first)}
        times[second] = seconds_of(second)
        taken.append((times[pair.ours], times[pair.plain]))
    ours, plain = (statistics.median(side) for side in zip(*taken, strict=True))
    ratio = statistics.median(plain / ours for ours, plain in taken)
    return {
        "name": f"{pair.name}, {count:,} rows",
        "value": round(ratio, 2),
        "unit": f"× Spark ({ours:.2f} s, {plain:.2f} s)",
        "goal": f"≥ {pair.goal:g}",
        "held": ratio >= pair.goal,
    }


def _absolute(name: str, value: float, unit: str, goal: str, held: bool) -> Line:
    return {"name": name, "value": round(value, 2), "unit": unit, "goal": goal, "held": held}


def stream_lines(lake: Lake, folder: Path, seconds: float) -> list[Line]:
    """Batches of ten rows, as fast as they come: ours, and by turns what a stream here takes at
    least, when it writes nothing, and Spark's own files.  `seconds`: of each kind."""
    spark, at = lake.spark, "shop/main/events"

    def started(kind: str) -> Any:
        source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
        checkpoint = str(folder / f"checkpoint-{kind}")
        if kind == WRITE_STREAM:
            return write_stream(lake, source, f"{at}-{kind}", checkpoint=checkpoint)
        writing = source.writeStream.format(kind).option("checkpointLocation", checkpoint)
        return writing.start(f"{at}-{kind}" if kind == "graveler" else str(folder / kind))

    kinds = ["noop", "parquet", WRITE_STREAM]
    if spark.version >= "4":
        register(lake)
        kinds.append("graveler")
    turns: dict[str, list[float]] = {kind: [] for kind in kinds}
    count = max(1, round(seconds / TURN_SECONDS))
    for _ in range(count):
        for kind in kinds:
            share = PLAIN_SHARE if kind in kinds[:2] else 1
            turns[kind].append(_batches_a_minute(started(kind), share * seconds / count))
    rates = {kind: statistics.median(each) for kind, each in turns.items()}
    plain = f"nothing {rates['noop']:.0f}, parquet {rates['parquet']:.0f}"
    lines = []
    for kind in kinds[2:]:
        rate, flat = rates[kind], turns[kind][-1] / max(turns[kind][0], 0.1)
        unit = f"commits/min ({plain}; the last turn {flat:.2f} × the first)"
        name = f"stream, ten rows a batch, {kind}"
        lines.append(_absolute(name, rate, unit, "≥ 60", rate >= 60))
    return lines


def _batches_a_minute(query: Any, seconds: float) -> float:
    """From the end of the query's first batch on, for so long."""
    try:
        while query.lastProgress is None:
            query.awaitTermination(0.05)
        first, begun = query.lastProgress["batchId"], time.perf_counter()
        query.awaitTermination(seconds)
        batches = query.lastProgress["batchId"] - first
        return float(60 * batches / (time.perf_counter() - begun))
    finally:
        query.stop()


def _all(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


def main() -> None:
    """Measure as the arguments say, and print a JSON array."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.spark_tables", description="Tables on Spark, by pairs."
    )
    for name in ("cores", "rows", "rounds"):
        parser.add_argument(name, type=int)
    parser.add_argument("seconds", type=float, help="how long each stream runs")
    said = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="graveler-bench-") as folder:
        spark = session(said.cores, Path(folder))
        lines = measured(spark, Path(folder), said.rows, said.rounds, said.seconds)
        print(json.dumps({"pyspark": spark.version, "lines": lines}), flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
