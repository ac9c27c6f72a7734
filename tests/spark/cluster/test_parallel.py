"""How rows of the driver reach tasks, and how many tasks are made, whatever the setting says."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from graveler.spark.tasks import in_tasks, parallel_tasks


@pytest.mark.parametrize(
    ("setting", "tasks"), [("auto", 200), ("", 200), (None, 200), ("7", 7), ("0", 1), (" 12 ", 12)]
)
def test_a_setting_that_is_no_number_counts_as_the_default(setting: Any, tasks: int) -> None:
    """No Spark of this machine takes "auto", so the session is one that answers."""
    session: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda *_: setting))
    assert parallel_tasks(session) == tasks


def test_the_setting_of_a_session_counts(spark: SparkSession, bare: SparkSession) -> None:
    assert parallel_tasks(spark) == 2
    assert parallel_tasks(bare) == 200


@pytest.mark.parametrize(("count", "tasks"), [(1, 1), (8, 1), (100, 13), (1_000, 125)])
def test_a_few_rows_make_few_tasks(bare: SparkSession, count: int, tasks: int) -> None:
    """A task costs as much as a few requests."""
    rows = [{"number": at} for at in range(count)]
    made = in_tasks(bare, rows, "number bigint", lambda batches: batches, "number bigint")
    assert made.rdd.getNumPartitions() == tasks


@pytest.mark.parametrize("count", [0, 1, 7, 256, 257])
def test_a_few_rows_and_many_reach_the_tasks(spark: SparkSession, count: int) -> None:
    """With the values that they have in the driver, each once."""
    rows = [
        {"number": at, "name": f"\u00e9{at}", "key": b"\xff%d" % at, "more": [str(at)] * (at % 2)}
        for at in range(count)
    ]

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"row": [repr(row) for row in batch.to_pylist()]})

    schema = "number bigint, name string, key binary, more array<string>"
    made = in_tasks(spark, rows, schema, run, "row string", 3)
    assert sorted(each["row"] for each in made.collect()) == sorted(map(repr, rows))
    assert made.rdd.getNumPartitions() == min(count, 3)
