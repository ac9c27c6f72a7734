"""Batches of streams land once, on every Spark, whatever dies."""

import os
import random
from pathlib import Path
from typing import Any

import pytest

from graveler.core.errors import Invalid
from graveler.spark import Lake, write_stream
from graveler.spark.streams import stream_name
from simulator.soak.spark_driver import DRIVER, SERVER, WORKER
from simulator.soak.spark_kills import Kills
from tests import draws
from tests.spark.programs import WAIT_SECONDS
from tests.spark.verbs.test_land import log, repository

__all__ = ["repository"]  # a fixture


def files(folder: Path, values: range) -> None:
    folder.mkdir(exist_ok=True)
    for at, value in enumerate(values):
        file = folder / f"{value:03}.csv"
        file.write_text(f"{value}\n{value + 1_000}\n")
        os.utime(file, (1_700_000_000 + at, 1_700_000_000 + at))


def numbers(lake: Lake, repository: str) -> list[int]:
    table = lake.repository(repository).branch("main").table("t")
    return sorted(row["id"] for row in table.read().collect())


def batches(commits: list[Any]) -> list[int]:
    """The batches that commits name, oldest first."""
    marks = [each["metadata"].get("graveler.stream", "") for each in commits]
    return [int(mark.rpartition(":")[2]) for mark in marks[::-1] if mark]


def test_whoever_is_killed_each_batch_and_each_job_lands_once(tmp_path: Path) -> None:
    """One driver, two workers and the server twice; `python -m simulator.soak.spark_kills` lets
    four drivers die."""
    seed = draws.seed()
    last = random.Random(seed).choice(DRIVER)
    assert Kills(tmp_path, seed, (last, *WORKER, *SERVER)).run().wrong == []


def test_a_batch_that_spark_repeats_lands_once(lake: Lake, repository: str, tmp_path: Path) -> None:
    where, checkpoint, folder = f"{repository}/main/t", tmp_path / "c", tmp_path / "in"

    def run() -> None:
        df = lake.spark.readStream.schema("id bigint").csv(str(folder))
        trigger = {"availableNow": True}
        query = write_stream(lake, df, where, checkpoint=str(checkpoint), trigger=trigger)
        try:
            assert query.awaitTermination(WAIT_SECONDS)
        finally:
            query.stop()

    files(folder, range(1))
    run()
    for note in (checkpoint / "commits").glob("*0*"):
        note.unlink()  # batch 0 is not done, Spark believes
    run()
    assert numbers(lake, repository) == [0, 1_000]
    assert batches(log(lake.session, repository)) == [0]
    with pytest.raises(Invalid, match="checkpoint= is needed"):
        df = lake.spark.readStream.schema("id bigint").csv(str(folder))
        write_stream(lake, df, where, checkpoint="")


def test_a_long_folder_has_a_short_name() -> None:
    query = "6288c076-e387-44d3-a811-c373cd2c7a48"
    assert stream_name(query, "a/b/") == f"{query}:a/b/"
    long = stream_name(query, "é" * 200)
    assert len(long.encode()) <= 256 and long != stream_name(query, "é" * 201)
