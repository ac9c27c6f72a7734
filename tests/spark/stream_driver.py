"""A driver of a stream that tests kill: each file of a folder is a batch of a table.

Spark 4 finds the format by itself, and its credentials in the environment."""

import os
import sys
from importlib.util import find_spec

from pyspark.sql import SparkSession

from graveler.core.settings import KEY_VARIABLE, SECRET_VARIABLE

url, store, folder, checkpoint, where = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
reading = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1)
df = reading.csv(folder).repartition(2)
if find_spec("pyspark.sql.datasource") is not None:
    writing = df.writeStream.format("graveler").options(url=url, store=store)
    writing = writing.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    query = writing.start(where)
else:
    from graveler.spark import connect, write_stream

    keys = os.environ[KEY_VARIABLE], os.environ[SECRET_VARIABLE]
    lake = connect(spark, url, keys, store=store)
    trigger = {"availableNow": True}
    query = write_stream(lake, df, where, checkpoint=checkpoint, trigger=trigger)
query.awaitTermination()
print("all batches have landed")
