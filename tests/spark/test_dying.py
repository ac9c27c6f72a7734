"""What dies while it works leaves nothing half-done: a worker, a driver."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from graveler.assembly.embedded import open_embedded
from graveler.core.records import BreakParameters
from graveler.core.settings import KEY_VARIABLE, SECRET_VARIABLE
from graveler.engine.repositories import repository
from graveler.lake.session import below
from graveler.spark import Lake, connect
from graveler.spark.places import Place, opened
from graveler.spark.tasks import SCHEMA, parts_of
from tests.spark.lakes import KEYS, files, frame, joined, sequential, some_rows, spread
from tests.spark.programs import ROOT, WAIT_SECONDS, killed, submit

BREAKS = BreakParameters(max_size=2_000_000, raggedness=2_000, salt=b"tests")
JOB = ROOT / "infra" / "spark_job.py"


def test_a_worker_that_is_killed_after_writing_is_harmless(
    spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    """Once in each task, as a machine that runs out of memory does it."""
    rows = some_rows(41, 1_500)
    given, at, run = spread(spark, place, rows)

    def dying(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        made = list(run(batches))
        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0 and made:
            os.kill(os.getpid(), signal.SIGKILL)
        yield from made

    parts = parts_of(given.mapInArrow(dying, SCHEMA).collect())
    refs = joined(place, at, {part.bucket: part.ranges for part in parts})
    expected = sequential(place, rows, tmp_path / "one")[1]
    assert list(refs) == expected and len(parts) > 3
    assert files(tmp_path / "objects") == {ref.id for ref in expected}


# ---- a driver ------------------------------------------------------------------------------------


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    """A store with a repository of small ranges, served by a process that outlives drivers."""
    store = tmp_path / "store"
    embedded = open_embedded(store)
    new = repository.NewRepository("sales", "local://lake/sales", breaks=BREAKS)
    repository.create(embedded.ports, new)
    embedded.close()
    with connect(spark, store, KEYS) as made:
        yield made
    opened.cache_clear()


def marks(lake: Lake) -> dict[str, int]:
    """The marks of tasks that are done, and when they were made."""
    folder = Path(lake.store, "objects", "lake", "sales", "_graveler", "jobs", "nightly")
    return {path.name: path.stat().st_mtime_ns for path in folder.rglob("part-*")}


def ask(lake: Lake, *parts: str) -> Any:
    return lake.session.call("GET", below("repositories", "sales", *parts))


@pytest.mark.one_version
def test_a_driver_that_is_killed_is_taken_up(
    lake: Lake, tmp_path: Path, spark: SparkSession
) -> None:
    """`spark-submit` runs an import by its name, and is killed in the middle with all its
    processes; the same words once more write what is missing, and land."""
    rows = some_rows(42, 160_000)  # four buckets
    source = tmp_path / "rows"
    frame(spark, rows).write.parquet(str(source))
    words = ["import", "--url", lake.session.url, "--store", lake.store, "--target", "sales/main"]
    words += ["--source", str(source), "--job-id", "nightly", "--message", "each night"]
    settings = {"spark.master": "local[1]"}
    variables = {KEY_VARIABLE: KEYS[0], SECRET_VARIABLE: KEYS[1]}

    first = submit(tmp_path, JOB, words, settings=settings, variables=variables)
    deadline = time.monotonic() + WAIT_SECONDS
    while not marks(lake) and first.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    killed(first)
    before = marks(lake)
    assert before and ask(lake, "branches", "main", "bulk", "nightly")["state"] == "running"
    assert len(ask(lake, "refs", "main", "commits")["results"]) == 1
    assert ask(lake, "refs", "main", "objects", "ls")["results"] == []

    second = submit(tmp_path, JOB, words, settings=settings, variables=variables)
    out, err = second.communicate(timeout=WAIT_SECONDS)
    assert second.returncode == 0, err[-3_000:]
    said = json.loads(out.splitlines()[-1])
    newest, *others = ask(lake, "refs", "main", "commits")["results"]
    assert said == {
        **{"job": "import", "commit": newest["id"], "count": 160_000},
        **{"bad": {}, "duplicates": 0},
    }
    assert (newest["message"], len(others)) == ("each night", 1)
    after = marks(lake)
    assert len(after) > len(before) and {name: after[name] for name in before} == before
    place = Place(f"local:{lake.store}/objects", "local://lake/sales", BREAKS)
    assert newest["meta_range_id"] == sequential(place, rows, tmp_path / "one")[0]
