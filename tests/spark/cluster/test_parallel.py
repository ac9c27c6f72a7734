"""How rows of the driver reach tasks, and how many tasks are made, whatever the setting says."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from graveler.core.ids import RangeId
from graveler.core.records import BreakParameters, RangeRef
from graveler.spark.reads import Split, reading_tasks
from graveler.spark.tasks import in_tasks, parallel_tasks, tasks_at_once, tasks_for, tasks_onto
from tests.spark.conftest import FEW_ENTRIES


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


@pytest.mark.parametrize(
    ("count", "files", "tasks"),
    [(0, 0, 1), (1, 0, 1), (20, 0, 20), (20, 1_600, 50), (10**6, 0, 200), (10**8, 0, 10_000)],
)
def test_entries_make_as_many_tasks_as_there_is_work(
    bare: SparkSession, count: int, files: int, tasks: int
) -> None:
    assert tasks_for(bare, count * FEW_ENTRIES, files) == tasks


def test_entries_on_a_base_may_rewrite_ranges_of_it(bare: SparkSession) -> None:
    """A few that are spread over a large base are much work."""
    base = [RangeRef(RangeId(f"{at:064x}"), b"a", b"b", 4_000, 1_000) for at in range(100)]
    breaks = BreakParameters(raggedness=1_000)
    assert tasks_onto(bare, 5, [], breaks) == 1
    assert tasks_onto(bare, 5, base, breaks) == 51
    assert tasks_onto(bare, 5, base[:1], breaks) == 11


def test_small_files_are_read_by_one_task_for_each_core(bare: SparkSession) -> None:
    """Whatever Spark's number of partitions after a shuffle is: of thirty small files, thirty tasks
    took three times as long."""
    small = [Split(f"local://lake/{at}", 1 << 20, 0, 1 << 20, []) for at in range(30)]
    large = [Split(f"local://lake/{at}", 1 << 28, 0, 1 << 28, []) for at in range(10)]
    cores = bare.sparkContext.defaultParallelism
    assert reading_tasks(bare, small) == cores < 30
    assert reading_tasks(bare, small[:1]) == 1 and reading_tasks(bare, large) == max(10, cores)
    hidden: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda *_: "200"))  # as on Connect
    assert 1 < tasks_at_once(hidden) < 30


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
