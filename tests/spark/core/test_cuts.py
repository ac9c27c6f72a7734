"""Spark finds the breaks and the buckets that the writer of ranges and a bisection find."""

import random
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from graveler.committed.writer import Splitter
from graveler.core.identity import break_hash, break_seed
from graveler.core.records import BreakParameters
from graveler.spark import cuts
from tests.spark.conftest import SHARE
from tests.spark.lakes import frame, some_rows

BREAKS = BreakParameters(salt=b"s")
LETTERS = "ab/é世\U0001f600\ufffd"


def some_keys(seed: int, count: int) -> list[bytes]:
    print(f"{seed=}")
    chance = random.Random(seed)
    lengths = (chance.randrange(1, 40) for _ in range(count))
    keys = {"".join(chance.choices(LETTERS, k=length)).encode() for length in lengths}
    return sorted(keys)


@pytest.mark.parametrize("salt", [bytes(range(256)), b"", b"salt"][::SHARE])
def test_breaks_are_those_of_the_writer(spark: SparkSession, salt: bytes) -> None:
    keys = some_keys(len(salt), 2_000)
    rows = spark.createDataFrame([(key,) for key in [*keys, None, b"", keys[0]]], "path binary")
    for raggedness in (1, 7, 50):
        breaks = BreakParameters(raggedness=raggedness, salt=salt)
        found = cuts.survey(rows.where("path is null or length(path) > 0"), breaks)
        expected = tuple(key for key in keys if Splitter(breaks).is_hash_break(key))
        assert found == cuts.Survey(len(keys) + 2, expected, nameless=1)


@pytest.mark.parametrize("hashed", [cuts.PATH, cuts.ROW])
def test_the_content_of_rows_knows_no_order_and_is_found_alike_in_both_passes(
    spark: SparkSession, hashed: tuple[str, ...]
) -> None:
    rows = some_rows(78, 400)
    df = frame(spark, [*rows, *rows[:30]])
    found = cuts.survey(df, BREAKS, hashed=hashed).content
    turned = frame(spark, [*rows[:30], *reversed(rows)], partitions=5)
    assert cuts.survey(turned, BREAKS, hashed=hashed).content == found
    given = cuts.with_hashes(cuts.with_ends(df, BREAKS), hashed)
    seen = [row[cuts.HASH] for row in given.collect()]
    assert cuts.digest_of(np.array(seen, dtype=np.int64)) == found
    halves = (cuts.digest_of(np.array(half, dtype=np.int64)) for half in (seen[:99], seen[99:]))
    assert next(halves).joined(next(halves)) == found


def test_rows_that_come_twice_are_not_taken_for_others_that_come_twice() -> None:
    one, two = (np.array([number, number], dtype=np.int64) for number in (-1 << 62, 5 << 40))
    assert cuts.digest_of(one) != cuts.digest_of(two)


def test_spare_keys_are_an_even_sample_of_the_same_hash(spark: SparkSession) -> None:
    keys, salt = some_keys(77, 2_000), b"salt"
    rows = spark.createDataFrame([(key,) for key in keys], "path binary")
    breaks = BreakParameters(raggedness=1_000_000, salt=salt)
    found = cuts.survey(rows, breaks, spare_rows=25).spare
    hashes = {key: break_hash(key, break_seed(salt)) for key in keys}
    assert found == tuple(key for key in keys if (hashes[key] >> 20) % 25 == 0)
    assert 40 < len(found) < 120


def test_no_cut_is_a_key_that_no_entry_has() -> None:
    odd = (b"a", b"b\0c", b"d\xff", b"e")
    known = cuts.Survey(4, odd, spare=tuple(b"f%d\0" % number for number in range(9)))
    assert cuts.chosen(known, BreakParameters(raggedness=500_000), 9) == (b"a", b"e")


@pytest.mark.parametrize("count", [40, 0, 1, 2, 7, 8, 9][::SHARE])
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
    at = (b"", *cuts.chosen(cuts.Survey(0, keys), breaks, 4), keys[-1])
    assert (len(at) - 1) % 4 == 0  # each time that all tasks run, all have a bucket
    ends = [bisect_left(keys, cut) for cut in at]
    assert {last - first for first, last in pairwise(ends)} <= {4, 5, 6}
    assert len(cuts.chosen(cuts.Survey(0, keys[:12]), breaks, 4)) == 3
    assert cuts.chosen(cuts.Survey(0, keys[:3]), breaks, 100) == keys[:3]
    assert cuts.chosen(cuts.Survey(0, ()), breaks, 100) == ()


def test_where_breaks_are_missing_for_long_spare_keys_are_cut_at() -> None:
    keys = tuple(b"%05d" % number for number in range(0, 1_000, 10))
    breaks = BreakParameters(raggedness=300_000)

    def chosen(ends: Sequence[bytes], spare: Sequence[bytes]) -> tuple[bytes, ...]:
        return cuts.chosen(cuts.Survey(0, tuple(ends), spare=tuple(spare)), breaks, 1)

    assert chosen((), keys[:7]) == ()
    assert chosen((), keys[:8]) == keys[:8]
    ends = (b"00075", b"00076", b"00500", b"00985")
    # Seven keys are before the first break, one is behind the last; the third is a spare key too.
    spare = (*keys[1:8], *keys[8:12], *keys[49:60], keys[99])
    assert chosen(ends, spare) == tuple(sorted({*ends, *keys[51:60]}))
