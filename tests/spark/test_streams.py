"""Batches of streams land once, on every Spark, whatever dies."""

import os
import random
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from graveler.core.errors import Invalid
from graveler.core.settings import KEY_VARIABLE, SECRET_VARIABLE
from graveler.spark import Lake, write_stream
from graveler.spark.streams import stream_name
from tests import draws, waiting
from tests.spark.lakes import KEYS
from tests.spark.programs import ROOT, WAIT_SECONDS, killed, submit
from tests.spark.verbs.test_land import log, repository

__all__ = ["repository"]  # a fixture
DRIVER = ROOT / "tests" / "spark" / "stream_driver.py"


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


def test_a_driver_that_is_killed_lands_each_batch_once(
    lake: Lake, repository: str, tmp_path: Path
) -> None:
    """It dies twice, with all its processes, at a moment after one of the first commits, and runs
    to the end then; speculation is on."""
    chance = random.Random(draws.seed())
    files(tmp_path / "in", range(8))
    words = [lake.session.url, lake.store, str(tmp_path / "in"), str(tmp_path / "c")]
    words.append(f"{repository}/main/t")
    settings = {
        "spark.master": "local[2]",
        "spark.sql.shuffle.partitions": "2",
        "spark.speculation": "true",
        "spark.speculation.interval": "20ms",
        "spark.speculation.multiplier": "1.01",
        "spark.speculation.minTaskRuntime": "10ms",
    }
    variables = {KEY_VARIABLE: KEYS[0], SECRET_VARIABLE: KEYS[1]}

    def started() -> subprocess.Popen[str]:
        return submit(tmp_path, DRIVER, words, settings=settings, variables=variables)

    def dies_after(commits: int) -> None:
        driver = started()
        waiting.until(
            lambda: driver.poll() is not None or len(log(lake.session, repository)) >= commits,
            "the driver lands a batch",
        )
        time.sleep(chance.choice((0, 0.05, 0.2, 0.5)))  # to die somewhere in the next batch
        killed(driver)

    for commits in (2, 5):  # the first one is that of the repository
        dies_after(commits)
        landed = batches(log(lake.session, repository))
        assert landed == list(range(len(landed))) and len(landed) >= commits - 1

    driver = started()
    out, err = driver.communicate(timeout=WAIT_SECONDS)
    assert "all batches have landed" in out, err[-3_000:]
    history = log(lake.session, repository)
    assert batches(history) == list(range(8)) and len(history) == 9
    assert numbers(lake, repository) == [*range(8), *range(1_000, 1_008)]


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
