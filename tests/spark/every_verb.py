"""A job that calls every verb in a session that nobody has configured; prints what it got as JSON.

python -m tests.spark.every_verb FOLDER [--connect]
"""

import argparse
import json
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from graveler.lake import bulk
from graveler.spark import (
    Lake,
    collect,
    commit,
    connect,
    diff,
    entries,
    import_,
    log,
    pack,
    ranges,
    register,
)
from graveler.spark.gc.collect import without
from tests.spark.conftest import HAS_SOURCES
from tests.spark.lakes import KEYS


def results(lake: Lake) -> dict[str, Any]:
    """Imports, tables, commits, packing, collection, and on Spark 4 the data source."""
    spark = lake.spark
    body = {"name": "sales", "storage_namespace": "local://lake/sales"}
    lake.session.call("POST", "/repositories", body)
    before = bulk.read_breaks(lake.session, "sales")
    finer = replace(before, raggedness=20)
    bulk.swap_breaks(lake.session, "sales", before, finer)
    rows = spark.range(300).select(
        F.concat(F.lit("day="), F.col("id") % 3, F.lit("/"), F.col("id")).alias("path"),
        F.concat(F.lit("local://landing/"), F.col("id")).alias("address"),
        F.col("id").alias("size"),
        F.md5(F.col("id").cast("string")).alias("checksum"),
        F.timestamp_seconds(F.col("id")).alias("mtime"),
    )
    landed = import_(lake, rows, "sales/main/in/")
    sizes = entries(lake, f"sales/{landed.commit}/in/day=1/", ["size"]).agg(F.sum("size"))
    table = lake.repository("sales").branch("main").table("t")
    saved = table.append(spark.range(20)).commit
    at = "/repositories/sales/branches/main/objects?path=staged"
    lake.session.call("POST", at, {"staged": 1})
    committed = commit(lake, "sales/main")
    packed = pack(lake, "sales/main", before, job="coarser")
    collection = collect(lake, ["sales"], dry_run=False)
    plan = StringIO()
    with redirect_stdout(plan):
        small = spark.createDataFrame([(1, 2)], "repo int, hash bigint")
        without(small, small, ["repo", "hash"]).explain()
    answers = {
        "session": type(spark).__module__,
        "count": landed.rows,
        "sum": sizes.collect()[0][0],
        "rows": sorted(row["id"] for row in table.read().collect()),
        "files": entries(lake, f"sales/{saved}/t/", ["path"]).count() > 0,
        "added": diff(lake, f"sales/{saved}~1", f"sales/{saved}", "t/").select("type").distinct(),
        "log": log(lake, f"sales/{packed.commit}").count(),
        "ranges": ranges(lake, "sales/main").count() == packed.after.ranges,
        "committed": committed.rows,
        "packed": packed.before.ranges > packed.after.ranges and packed.is_set,
        "condemned": collection.report.count(),
        "joined": "SortMergeJoin" in plan.getvalue() and "Broadcast" not in plan.getvalue(),
    }
    answers["tables"] = tables(lake)
    answers["added"] = [row["type"] for row in answers["added"].collect()]
    if HAS_SOURCES:
        register(lake)
        source = spark.read.format("graveler").options(table="entries", columns="path")
        answers["paths"] = source.load("sales/main/in/day=2/").count()
        answers["format"] = written_by_name(lake)
    return answers


def written_by_name(lake: Lake) -> dict[str, int]:
    """What a save and a stream by the name of the format write."""
    spark, folder = lake.spark, Path.cwd() / "incoming"
    lake.repository("sales").create_branch("format")
    days = spark.range(6).selectExpr("id", "string(id % 3) AS day")
    saved = days.write.format("graveler").mode("append").option("partitionBy", "day")
    saved.save("sales/format/saved")
    folder.mkdir()
    (folder / "0.csv").write_text("1\n2\n")
    writing = spark.readStream.schema("id bigint").csv(str(folder)).writeStream.format("graveler")
    query = writing.option("checkpointLocation", str(folder.parent / "checkpoint"))
    query.trigger(availableNow=True).start("sales/format/stream").awaitTermination()
    source = spark.read.format("graveler")
    return {name: source.load(f"sales/format/{name}").count() for name in ("saved", "stream")}


def tables(lake: Lake) -> dict[str, Any]:
    """What can be done with a table."""
    spark, branch = lake.spark, lake.repository("sales").create_branch("tables")
    table = branch.table("orders")
    days = spark.range(6).selectExpr("id", "date_add(date'2026-01-01', int(id % 3)) AS day")
    first = table.append(days, partition_by="day")
    table.overwrite(days.where("id = 0").selectExpr("10 AS id", "day"), partitions="touched")
    branch.table("whole").overwrite(days)
    table.upsert(spark.sql("SELECT 1L AS id, date'2026-01-03' AS day"), on=["id"])
    table.delete([("id", ">=", 5)])
    table.overwrite(days.where("id = 4"), where="id = 4")
    table.append(days.where("id = 3"), job="again")
    again = table.append(days.where("id = 3"), job="again")
    compacted = table.compact()
    table.schema.add("note", "string")
    views, history = lake.use("sales/tables", "orders"), len(table.history().all())
    with branch.change("load", checks=[lambda ref: ref.table("orders").read(where="id < 0")]) as to:
        to.table("orders").append(days.where("id = 2"))
    return {
        "rows": sorted(map(str, (tuple(row) for row in table.read().collect()))),
        "before": table.read(at=first.commit, columns="id", where="day > '2026-01-02'").count(),
        "again": (again.files, again.rows),
        "compacted": compacted.rows,
        "views": list(views),
        "sql": spark.sql("SELECT count(*) FROM orders").collect()[0][0],
        "diff": table.diff(first.commit, on="id").where("type != 'changed'").count(),
        "history": history,
    }


def main(folder: Path, connects: bool) -> None:
    """Run in a session of Spark Connect, or in the classic one."""
    builder = SparkSession.builder.remote("local[2]") if connects else SparkSession.builder
    spark = builder.getOrCreate()
    with connect(spark, folder / "lake", KEYS) as lake:
        answers = results(lake)
    spark.stop()
    print(json.dumps(answers))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("folder", type=Path, help="where it works")
    parser.add_argument("--connect", action="store_true", help="use a session of Spark Connect")
    words = parser.parse_args()
    main(words.folder, words.connect)
