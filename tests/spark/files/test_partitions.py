"""Partition columns have the types that Spark infers, and values come back as they were written."""

import random
import string
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type

from graveler.core.errors import Invalid
from graveler.lake.folders import column_type, is_value, value_of
from graveler.spark import Lake
from graveler.spark.reads import read
from tests.spark.conftest import SHARE
from tests.spark.lakes import write
from tests.spark.verbs.test_land import repository

__all__ = ["repository"]  # a fixture

POOL = (
    *("1", "02", "-3", "2147483647", "2147483648", "-9223372036854775808", "9223372036854775808"),
    *("9007199254740993", "1" * 38, "1" * 39, "1.5", "-.5", "5.", "1e3", "1.0E10", "NaN"),
    *("Infinity", "-Infinity", "2024-01-05", "2024-02-30", "2024-1-5", "2024-01", "0001-01-01"),
    *("2024-01-05 10:11:12", "2024-01-05 10:11:12.5", "2024-01-05 10:11", "x", "", "true", "1_0"),
    *("٣", "2024-01-05 ", "12024-01-05", "1e400"),
)


def spark_kind(spark: SparkSession, folder: Path, values: Sequence[str]) -> T.DataType:
    """What Spark itself infers for folders with these values."""
    for number, value in enumerate(values):
        there = folder / f"p={quote(value, safe=' +')}"
        there.mkdir(parents=True)
        (there / f"{number}.json").write_text('{"a":1}\n')
    return spark.read.schema("a int").json(str(folder)).schema["p"].dataType


def test_types_are_those_that_spark_infers(spark: SparkSession, tmp_path: Path) -> None:
    seed = 41
    print(f"{seed=}")
    chance = random.Random(seed)
    usable = [value for value in POOL if value]
    sets = [[value] for value in usable] + [chance.sample(usable, 2) for _ in range(40 // SHARE)]
    sets += [chance.sample(usable[:19], 3) for _ in range(10 // SHARE)]
    for number, values in enumerate(sets):
        found = from_arrow_type(column_type(values))
        expected = spark_kind(spark, tmp_path / str(number), values)
        assert found == expected or _is_finer(values, found), f"{values=} {found=} {expected=}"


def _is_finer(values: Sequence[str], found: T.DataType) -> bool:
    """Of three types, Spark's answer depends on the order in which it meets the values."""
    mixed = {column_type([value]) for value in values}
    return len(mixed) > 2 and isinstance(found, T.StringType | T.DecimalType | T.DoubleType)


def test_any_text_has_a_type_and_a_value_of_it() -> None:
    seed = 42
    print(f"{seed=}")
    chance = random.Random(seed)
    for _ in range(5_000):
        letters = chance.choice((string.digits + "-: .", string.digits + "+-.eE", "aé٣ \U0001f600"))
        text = "".join(chance.choices(letters, k=chance.randrange(0, 25)))
        values = [text, *chance.sample(POOL, chance.randrange(3)), None]
        kind = column_type(values)
        for value in values:
            made = pa.scalar(value_of(value, kind), kind)  # raises if it does not fit
            assert (value is None) == (not made.is_valid)


@pytest.mark.parametrize(
    ("text", "kind", "value", "expected"),
    [
        ("9007199254740993", pa.int64(), 9007199254740993, True),
        ("9007199254740993", pa.int64(), 9007199254740992, False),
        ("9007199254740993", pa.int64(), 9007199254740992.0, False),
        ("02", pa.int32(), 2, True),
        ("02", pa.int32(), "2", False),
        ("2.50", pa.float64(), 2.5, True),
        ("9223372036854775808", pa.decimal128(19, 0), Decimal(2**63), True),
        ("2024-01-05", pa.date32(), date(2024, 1, 5), True),
        ("2024-01-05", pa.date32(), "2024-01-05", True),
        ("2024-01-05", pa.date32(), date(2024, 1, 6), False),
        ("2024-01-05", pa.timestamp("us", tz="UTC"), datetime(2024, 1, 5), True),
        ("2024-01-05 01:02:03.4", pa.timestamp("us", tz="UTC"), datetime(2024, 1, 5), False),
        ("5", pa.string(), 5, True),
        (None, pa.int32(), None, True),
        (None, pa.int32(), 0, False),
        ("0", pa.int32(), None, False),
    ],
)
def test_values_are_compared_without_rounding(
    text: str | None, kind: pa.DataType, value: Any, expected: bool
) -> None:
    assert is_value(text, kind, value) is expected


@pytest.mark.parametrize("zone", ["America/New_York", "UTC"][::SHARE])
def test_values_of_every_type_come_back_as_they_were_written(
    lake: Lake, repository: str, zone: str
) -> None:
    lake.spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        moment = datetime(2026, 11, 1, 5, 30, 0, 120_000, UTC)  # an hour that New York has twice
        rows = [
            (1, date(2026, 11, 22), 2**53 + 1, moment, 2.5),
            (2, date(1969, 12, 31), 2**31, datetime(1960, 1, 1, tzinfo=UTC), float("inf")),
            (3, None, None, None, None),
        ]
        schema = "id int, day date, big bigint, at timestamp, real double"
        df = lake.spark.createDataFrame(rows, schema)
        names = ["day", "big", "at", "real"]
        write(lake, df, f"{repository}/main/t", partition_by=names)
        found = read(lake, f"{repository}/main/t")
        assert found.schema.simpleString() == df.schema.simpleString()
        for name in names:
            both = df.alias("a").join(found.alias("b"), "id")
            assert both.where(F.col(f"a.{name}").eqNullSafe(F.col(f"b.{name}"))).count() == 3
        one = read(lake, f"{repository}/main/t", partitions={"day": date(2026, 11, 22)})
        assert [row["id"] for row in one.collect()] == [1]
        one = read(lake, f"{repository}/main/t", partitions={"big": 2**53 + 1})
        assert [row["id"] for row in one.collect()] == [1]
        one = read(lake, f"{repository}/main/t", partitions={"at": moment})
        assert [row["id"] for row in one.collect()] == [1]
    finally:
        lake.spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.one_version
def test_a_value_that_is_none_of_a_chosen_type_is_refused(lake: Lake, repository: str) -> None:
    df = lake.spark.createDataFrame([(1, "2026-13-01")], "id int, day string")
    write(lake, df, f"{repository}/main/t", partition_by=["day"])
    schema = T.StructType().add("id", T.IntegerType()).add("day", T.DateType())
    with pytest.raises(Invalid, match=r"2026-13-01.*date32"):
        read(lake, f"{repository}/main/t", schema=schema)
