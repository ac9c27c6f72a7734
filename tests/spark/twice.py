"""A driver for a cluster on which one task is slow at first, so that Spark runs it a second time.

    python -m tests.spark.twice FOLDER

The first attempt of that task stores everything, then hangs for longer than anybody waits.  The
second one ends behind that moment, however slow the machine is; Spark then kills the first.
Prints the result as JSON.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import SparkContext, TaskContext
from pyspark.sql import SparkSession

from graveler.records import BreakParameters
from graveler.spark.places import Place
from graveler.spark.tasks import SCHEMA, parts_of
from tests.spark.lakes import files, joined, sequential, some_rows, spread

SLOW = 1
HANG_SECONDS = 3_600


def cluster(folder: Path) -> str:
    """The URL of a master with two workers of one core, each on a machine of its own as far as
    Spark can tell: only then it runs a task twice.  All three live in this driver's Java, as those
    of `local-cluster` do, whose workers share a machine."""
    SparkContext._ensure_initialized()
    jvm = SparkContext._jvm
    assert jvm is not None and SparkContext._gateway is not None
    deploy, conf = jvm.org.apache.spark.deploy, jvm.org.apache.spark.SparkConf()
    rpc = deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, conf)._1()
    urls = SparkContext._gateway.new_array(jvm.java.lang.String, 1)
    urls[0] = f"spark://{rpc.address().hostPort()}"
    for host in ("127.0.0.2", "127.0.0.3"):
        work = str(folder / host)
        none = jvm.scala.Option.empty()
        deploy.worker.Worker.startRpcEnvAndEndpoint(
            host, 0, 0, 1, 600, urls, work, none, conf, none
        )
    return str(urls[0])


def main(folder: Path) -> None:
    """Import, and compare with one writer."""
    spark = SparkSession.builder.master(cluster(folder)).getOrCreate()
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
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("folder", type=Path, help="where it works")
    main(parser.parse_args().folder)
