"""A job that has no session but one of Spark Connect; what it found goes out as JSON.

python -m tests.spark.connected FOLDER
"""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from graveler.spark import connect, diff, entries, import_, read, register, write
from tests.spark.lakes import KEYS


def main(folder: Path) -> None:
    """An import, entries, a table written and read, and a data source."""
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    with connect(spark, folder / "lake", KEYS) as lake:
        body = {"name": "sales", "storage_namespace": "local://lake/sales"}
        lake.session.ask("POST", "/repositories", body)
        rows = spark.range(300).select(
            F.concat(F.lit("day="), F.col("id") % 3, F.lit("/"), F.col("id")).alias("path"),
            F.concat(F.lit("local://landing/"), F.col("id")).alias("address"),
            F.col("id").alias("size"),
            F.md5(F.col("id").cast("string")).alias("checksum"),
            F.timestamp_seconds(F.col("id")).alias("mtime"),
        )
        landed = import_(lake, rows, "sales/main/in/")
        sizes = entries(lake, f"sales/{landed.commit}/in/day=1/", ["size"]).agg(F.sum("size"))
        write(lake, spark.range(20), "sales/main/t")
        register(lake)
        source = spark.read.format("graveler").options(table="entries", columns="path")
        told = {
            "session": type(spark).__module__,
            "count": landed.count,
            "sum": sizes.collect()[0][0],
            "rows": sorted(row["id"] for row in read(lake, "sales/main/t").collect()),
            "added": diff(lake, "sales/main~1", "sales/main").count(),
            "paths": source.load("sales/main/in/day=2/").count(),
        }
    spark.stop()
    print(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
