"""Spark finds the breaks and the buckets that the writer of ranges and a bisection find."""

import random
from bisect import bisect_left

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from graveler.committed.splitting import Splitter
from graveler.records import BreakParameters
from graveler.spark import cuts

LETTERS = "ab/é世\U0001f600\ufffd"


def some_keys(seed: int, count: int) -> list[bytes]:
    print(f"{seed=}")
    chance = random.Random(seed)
    lengths = (chance.randrange(1, 40) for _ in range(count))
    keys = {"".join(chance.choices(LETTERS, k=length)).encode() for length in lengths}
    return sorted(keys)


@pytest.mark.parametrize("salt", [b"", b"salt", bytes(range(256))])
def test_breaks_are_those_of_the_writer(spark: SparkSession, salt: bytes) -> None:
    keys = some_keys(len(salt), 2_000)
    rows = spark.createDataFrame([(key,) for key in [*keys, None, b"", keys[0]]], "path binary")
    for raggedness in (1, 7, 50):
        breaks = BreakParameters(raggedness=raggedness, salt=salt)
        found = cuts.survey(rows.where("path is null or length(path) > 0"), breaks)
        expected = tuple(key for key in keys if Splitter(breaks).is_hash_break(key))
        assert found == cuts.Survey(len(keys) + 2, expected)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8, 9, 300])
def test_each_bucket_is_a_task_of_its_own(spark: SparkSession, count: int) -> None:
    keys = some_keys(count, 700)
    at = sorted(random.Random(count).sample(keys, count))
    rows = spark.createDataFrame([(key,) for key in [*keys, b"", b"\xff" * 9, None]], "path binary")
    placed = cuts.with_bucket(rows, at).withColumn("path", F.col("path")).collect()
    for path, bucket in placed:
        assert bucket == (0 if path is None else bisect_left(at, bytes(path)))
    tasks = cuts.spread(rows, at).withColumn("task", F.spark_partition_id()).collect()
    for path, task in tasks:
        assert task == (0 if path is None else bisect_left(at, bytes(path)))


def test_cuts_are_chosen_for_size_and_for_tasks() -> None:
    keys = tuple(b"%05d" % number for number in range(10_000))
    breaks = BreakParameters(raggedness=50_000)
    assert len(cuts.chosen(cuts.Survey(0, keys), breaks, 4)) == 10_000 // 6
    assert len(cuts.chosen(cuts.Survey(0, keys[:12]), breaks, 4)) == 4
    assert cuts.chosen(cuts.Survey(0, keys[:3]), breaks, 100) == keys[:3]
    assert cuts.chosen(cuts.Survey(0, ()), breaks, 100) == ()
