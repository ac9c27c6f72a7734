"""A driver of Spark that dies where it is told, or lets a worker or the server die.

It does what a scheduler starts again and again until it has ended: named appends to one table, and
a stream into another one.  `spark_kills.py` submits it, and checks what has landed.
"""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Timer
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import SparkSession

from graveler.core.errors import GravelerError
from graveler.core.settings import KEY_VARIABLE, SECRET_VARIABLE
from graveler.lake import bulk
from graveler.spark import Lake, connect, register, write_stream, writes
from graveler.spark.store import Storing, storing

DRIVER = ("begin", "begun", "finish", "finished")  # the driver dies before or after a request
WORKER = ("store", "stored")  # a worker dies before or after it stores its file
SERVER = ("server", "landing")  # the server dies while tasks work, or somewhere in a landing
JOBS, BATCHES, ROWS = 5, 5, 10
ENDED = "all has landed"
ORDER = "kill-server"  # a file, for whoever has started the server
_TRIES, _PAUSE_SECONDS = 100, 0.2
_FILES = 2  # of each landing
Run = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Plan:
    """`deaths`: at which landing of a driver somebody dies at a point.  `delay`: of the server's
    death in a landing, in seconds.  `uses_format`: the stream is written by Spark's own sink."""

    url: str
    store: str
    where: str
    deaths: dict[str, int] = field(default_factory=dict)
    delay: float = 0.0
    uses_format: bool = False

    def dump(self) -> str:
        """As an argument of this program."""
        return json.dumps(asdict(self))


class Deaths:
    """Who dies when.  `landed`: how often this driver has landed something."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self._folder, self._plan = folder, plan
        self._left = dict(plan.deaths)
        self.landed = 0

    def at(self, point: str) -> None:
        """A point is passed: if its time has come, somebody dies."""
        if self._left.get(point) != self.landed + 1:
            return
        del self._left[point]
        if point not in WORKER:
            self._folder.joinpath("died", point).touch()
        if point in DRIVER:
            os.killpg(0, signal.SIGKILL)  # with Java and all workers
        elif point in WORKER:
            self._folder.joinpath(f"armed-{point}").touch()
        else:
            Timer(self._plan.delay if point == "landing" else 0, self._end_server).start()

    def _end_server(self) -> None:
        """Whoever started it kills it: a number of a process may be another one's by now."""
        self._folder.joinpath(ORDER).touch()


def die(folder: Path, point: str) -> None:
    """The first worker that comes here after the point was armed dies."""
    try:
        folder.joinpath(f"armed-{point}").rename(folder / "died" / point)
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def mortal(folder: Path, run: Run) -> Run:
    """A function of tasks that dies before or after its work."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        die(folder, "store")
        made = list(run(batches))
        die(folder, "stored")
        yield from made

    return work


def mortal_rows(folder: Path) -> Run:
    """The rows as they are, from a worker that may die before or after them."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        die(folder, "store")
        yield from batches
        die(folder, "stored")

    return rows


def arm(folder: Path, deaths: Deaths) -> None:
    """Put the points of a landing around what this process asks of the server and of its tasks."""
    begin, finish = bulk.begin, bulk.finish

    def beginning(*given: Any, **more: Any) -> Any:
        deaths.at("begin")
        job = begin(*given, **more)
        if not job.commit:
            for point in (*WORKER, "server", "begun"):
                deaths.at(point)
        return job

    def finishing(*given: Any, **more: Any) -> Any:
        for point in ("finish", "landing"):
            deaths.at(point)
        commit = finish(*given, **more)
        deaths.at("finished")
        deaths.landed += 1
        return commit

    def storing_mortally(order: Storing) -> Run:
        return mortal(folder, storing(order))

    vars(bulk).update(begin=beginning, finish=finishing)
    vars(writes).update(storing=storing_mortally)


def append_all(lake: Lake, where: str) -> None:
    """The named appends."""
    ref, _ = lake.at(where)
    table: Any = ref.table("jobs")
    for number in range(JOBS):
        rows = lake.spark.range(number * ROWS, (number + 1) * ROWS, 1, _FILES)
        name = f"job-{number}"
        persist(partial(table.append, rows, job=name, message=name))


def stream_all(lake: Lake, folder: Path, plan: Plan) -> None:
    """The stream: each file of a folder is a batch."""
    reading = lake.spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1)
    df = reading.csv(str(folder / "in")).repartition(_FILES)
    where, checkpoint = f"{plan.where}/stream", str(folder / "checkpoint")
    trigger = {"availableNow": True}

    def run() -> None:
        if plan.uses_format:
            rows = df.mapInArrow(mortal_rows(folder), "id bigint")
            writing = rows.writeStream.format("graveler").trigger(**trigger)
            query = writing.option("checkpointLocation", checkpoint).start(where)
        else:
            query = write_stream(lake, df, where, checkpoint=checkpoint, trigger=trigger)
        query.awaitTermination()

    persist(run)


def persist(work: Callable[[], object]) -> None:
    """As a scheduler: again, until it ends well.  Spark refuses a second stream on a checkpoint by
    an error of Java."""
    for _ in range(_TRIES):
        try:
            work()
            return
        except (GravelerError, PySparkException, Py4JJavaError) as error:
            sys.stderr.write(f"again after {type(error).__name__}: {error!s:.500}\n")
            time.sleep(_PAUSE_SECONDS)
    raise SystemExit("it never ended well")


def main(folder: Path, plan: Plan) -> None:
    """Run to the end, or die."""
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    keys = os.environ[KEY_VARIABLE], os.environ[SECRET_VARIABLE]
    lake = connect(spark, plan.url, keys, store=plan.store)
    if plan.uses_format:
        register(lake)
    arm(folder, Deaths(folder, plan))
    append_all(lake, plan.where)
    stream_all(lake, folder, plan)
    sys.stdout.write(f"{ENDED}\n")


def has_format() -> bool:
    """Whether this Spark has data sources in Python."""
    return find_spec("pyspark.sql.datasource") is not None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A driver of Spark that dies where it is told.")
    parser.add_argument("folder", type=Path, help="of the seed")
    parser.add_argument("plan", help="a Plan as JSON")
    given = parser.parse_args()
    main(given.folder, Plan(**json.loads(given.plan)))
