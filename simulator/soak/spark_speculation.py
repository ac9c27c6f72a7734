"""Spark runs a slow task a second time elsewhere: the rows of one attempt count.

    .venv-spark4/bin/python -m simulator.soak.spark_speculation

Spark does so only on another host, so the driver's Java has a master and two workers, on addresses
of their own.  In each of two writes the first attempt of one task hangs: once after it has stored
its file, once (Spark 4, `format("graveler")`) before.  Prints a line of JSON; the exit code is 1 if
a row is lost or there twice, or if Spark ran nothing twice.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark import SparkContext, TaskContext
from pyspark.sql import SparkSession

from graveler.spark import Credentials, connect, register, writes
from graveler.spark.store import Storing, storing
from simulator.service.process import verify
from simulator.soak.spark_driver import Run, has_format
from tests.spark.programs import PATH

_KEYS: Final = Credentials("SOAKKEY", "a-secret-of-the-soak-and-of-nothing-else")
_HOSTS: Final = ("127.0.0.2", "127.0.0.3")
_MEMORY_MB, _HANG_SECONDS, _LOOK_SECONDS = 600, 3_600, 0.05
_ROWS, _TASKS = 400, 4
_SETTINGS: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.cores.max": "2",
    "spark.master.rest.enabled": "false",  # it would listen on a fixed port
    "spark.ui.enabled": "false",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "100ms",
}


def cluster(folder: Path) -> str:
    """The URL of a master with two workers of one core, on hosts of their own as far as Spark can
    tell.  All three live in this process's Java."""
    SparkContext._ensure_initialized()
    jvm, gateway = SparkContext._jvm, SparkContext._gateway
    assert jvm is not None and gateway is not None, "Java runs"
    deploy, conf = jvm.org.apache.spark.deploy, jvm.org.apache.spark.SparkConf()
    rpc = deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, conf)._1()
    urls = gateway.new_array(jvm.java.lang.String, 1)
    urls[0] = f"spark://{rpc.address().hostPort()}"
    none = jvm.scala.Option.empty()
    for host in _HOSTS:
        deploy.worker.Worker.startRpcEnvAndEndpoint(
            host, 0, 0, 1, _MEMORY_MB, urls, str(folder / host), none, conf, none
        )
    return str(urls[0])


def hanging(folder: Path, name: str, run: Run) -> Run:
    """A function of tasks: the first attempt of the first task hangs when its work is done, and the
    others of this task end only then."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None, "it runs in a task"
        made = list(run(batches))
        task, attempt = context.partitionId(), context.attemptNumber()
        folder.joinpath(f"{name}-{task}-{attempt}").touch()
        if (task, attempt) == (0, 0):
            time.sleep(_HANG_SECONDS)  # Spark ends this process when the other attempt is done
        while not (task or folder.joinpath(f"{name}-0-0").exists()):
            time.sleep(_LOOK_SECONDS)
        yield from made

    return work


def wrong_at(main: Any, folder: Path, name: str, *, has_garbage: bool) -> Iterator[str]:
    """What is wrong with a table.  `has_garbage`: the attempt that hangs has stored a file."""
    rows = sorted(main.dataset(f"{name}/").to_table(["id"])["id"].to_pylist())
    if rows != list(range(_ROWS)):
        yield f"rows of {name}: {rows!r:.500}"
    attempts = sorted(path.name for path in folder.glob(f"{name}-0-*"))
    if len(attempts) < 2:
        yield f"Spark ran nothing twice: {attempts}"
    linked = [file.path for file in main.list(f"{name}/")]
    data = folder.joinpath("lake", "objects", "twice", "data")
    stored = [each for each in data.rglob("*") if each.is_file()]
    if len(linked) != _TASKS + 1 or (has_garbage and len(stored) <= len(linked)):
        yield f"files of {name}, and the schema: linked={linked} stored={len(stored)}"


def run(folder: Path) -> list[str]:
    """Write both tables; what was wrong."""
    builder = SparkSession.builder.master(cluster(folder))
    for setting, value in _SETTINGS.items():
        builder = builder.config(setting, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")

    def storing_then_hanging(order: Storing) -> Run:
        return hanging(folder, "stored", storing(order))

    vars(writes).update(storing=storing_then_hanging)
    with connect(spark, folder / "lake", _KEYS) as lake:
        main = lake.create_repository("twice", namespace="local://twice/").branch("main")
        rows = spark.range(0, _ROWS, 1, _TASKS)
        main.table("stored").append(rows)
        wrong = [*wrong_at(main, folder, "stored", has_garbage=True)]
        if has_format():
            register(lake)
            slow = rows.mapInArrow(hanging(folder, "format", iter), "id bigint")
            slow.write.format("graveler").mode("append").save("twice/main/format")
            wrong += wrong_at(main, folder, "format", has_garbage=False)
    spark.stop()
    if damage := verify(folder / "lake"):
        wrong.append(f"verify: {damage}")
    return wrong


def main(arguments: list[str]) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m simulator.soak.spark_speculation",
        description="Two attempts of one task of Spark lead to one set of rows.",
    )
    parser.parse_args(arguments)
    os.environ.setdefault("JAVA_HOME", str(Path(sys.prefix) / "java"))
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": PATH}
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="spark-twice-") as folder:
        wrong = run(Path(folder))
        attempts = sorted(path.name for path in Path(folder).glob("*-0-?"))
    seconds = round(time.monotonic() - begun, 1)
    sys.stdout.write(f"{json.dumps({'attempts': attempts, 'seconds': seconds, 'wrong': wrong})}\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
