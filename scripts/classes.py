"""Makes Spark load and use the classes that sessions need, for an archive that later sessions map.

    classes.py OPTION...    options of Java, among them the path of the archive

Most of the start time of a session goes into reading, checking and linking ten thousand classes.
Run by scripts/java.sh.
"""

import os
import sys
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

os.environ["PYSPARK_PYTHON"] = sys.executable
with tempfile.TemporaryDirectory() as folder:
    settings = {
        "spark.driver.extraJavaOptions": " ".join(sys.argv[1:]),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.local.dir": f"{folder}/local",
    }
    builder = SparkSession.builder.master("local[2]").appName("classes")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    rows = spark.createDataFrame(
        [(at, f"{at}", {"a": "b"}) for at in range(20)], "n int, t string, m map<string,string>"
    )
    keyed = rows.repartition(3, "n").withColumn("h", F.pmod(F.xxhash64("t"), F.lit(7)))
    mapped = keyed.select("n", "t", "h").mapInArrow(
        lambda batches: batches, "n int, t string, h bigint"
    )
    mapped.write.parquet(f"{folder}/rows")
    again = spark.read.parquet(f"{folder}/rows")
    again.groupBy("h").agg(F.collect_set("t"), F.sum("n"), F.count("*")).orderBy("h").collect()
    again.join(rows, "n", "left_anti").filter(F.col("t").startswith("1")).count()
    java = spark.sparkContext._gateway.proc
    spark.stop()
    java.stdin.close()  # Java exits, and writes the archive at exit
    java.wait()
