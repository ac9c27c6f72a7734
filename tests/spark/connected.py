"""A job that has no session but one of Spark Connect; what it found goes out as JSON.

python -m tests.spark.connected FOLDER
"""

import argparse
import json
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from graveler.client import break_parameters
from graveler.spark import (
    JobTerms,
    collect,
    commit,
    connect,
    diff,
    entries,
    import_,
    pack,
    read,
    register,
    write,
)
from graveler.spark.gc.collect import without
from tests.spark.lakes import KEYS


def main(folder: Path) -> None:
    """Every kind of work: imports, tables, commits, packing, collection, a data source."""
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    with connect(spark, folder / "lake", KEYS) as lake:
        body = {"name": "sales", "storage_namespace": "local://lake/sales"}
        lake.session.ask("POST", "/repositories", body)
        before = break_parameters.read(lake.session, "sales")
        finer = replace(before, raggedness=20)
        break_parameters.swap(lake.session, "sales", before, finer)
        rows = spark.range(300).select(
            F.concat(F.lit("day="), F.col("id") % 3, F.lit("/"), F.col("id")).alias("path"),
            F.concat(F.lit("local://landing/"), F.col("id")).alias("address"),
            F.col("id").alias("size"),
            F.md5(F.col("id").cast("string")).alias("checksum"),
            F.timestamp_seconds(F.col("id")).alias("mtime"),
        )
        landed = import_(lake, rows, "sales/main/in/")
        sizes = entries(lake, f"sales/{landed.commit}/in/day=1/", ["size"]).agg(F.sum("size"))
        saved = write(lake, spark.range(20), "sales/main/t").commit
        register(lake)
        at = "/repositories/sales/branches/main/objects?path=staged"
        lake.session.ask("POST", at, {"staged": 1})
        committed = commit(lake, "sales/main")
        packed = pack(lake, "sales/main", before, JobTerms(id="coarser"))
        found = collect(lake, ["sales"], dry_run=False)
        plan = StringIO()
        with redirect_stdout(plan):
            small = spark.createDataFrame([(1, 2)], "repo int, hash bigint")
            without(small, small, ["repo", "hash"]).explain()
        source = spark.read.format("graveler").options(table="entries", columns="path")
        told = {
            "session": type(spark).__module__,
            "count": landed.count,
            "sum": sizes.collect()[0][0],
            "rows": sorted(row["id"] for row in read(lake, "sales/main/t").collect()),
            "added": diff(lake, f"sales/{saved}~1", f"sales/{saved}").count(),
            "committed": committed.rows,
            "packed": packed.before.ranges > packed.after.ranges and packed.is_set,
            "condemned": found.report.count(),
            "joined": "SortMergeJoin" in plan.getvalue() and "Broadcast" not in plan.getvalue(),
            "paths": source.load("sales/main/in/day=2/").count(),
        }
    spark.stop()
    print(json.dumps(told))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("folder", type=Path, help="where it works")
    main(parser.parse_args().folder)
