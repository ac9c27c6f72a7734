"""What is seen of a job: lines of the log, names in Spark's UI, errors from workers."""

import logging
import os
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import DataFrame, SparkSession

from graveler.core import errors
from graveler.spark import Lake
from tests.spark.verbs.test_land import repository

__all__ = ["repository"]  # a fixture

Batches = Iterator[pa.RecordBatch]


@pytest.fixture
def main(lake: Lake, repository: str) -> Any:
    return lake.repository(repository).branch("main")


def mapped(spark: SparkSession, work: Callable[[], str]) -> DataFrame:
    """One row, whose text a worker makes."""

    def run(batches: Batches) -> Batches:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"text": [work()]})

    return spark.range(1).coalesce(1).mapInArrow(run, "text string")


def test_each_phase_is_a_line_of_the_log(
    spark: SparkSession, main: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "graveler.spark"):
        landed = main.table("orders").append(spark.range(30), job="load-1")
    lines = [each.message for each in caplog.records if each.name == "graveler.spark.jobs"]
    assert [line.split()[0] for line in lines] == ["began", "stored", "worked", "landed"]
    assert all(f"job=load-1 to={main.address}/orders" in line for line in lines)
    assert lines[1].endswith(f"files={landed.files} bytes={landed.bytes} rows=30")
    url = main.repository.lake.url
    assert lines[-1].endswith(
        f"commit={url}/repositories/{main.repository.name}/commits/{landed.commit}"
    )


def test_jobs_of_spark_have_a_name_and_a_tag(spark: SparkSession, main: Any) -> None:
    def properties() -> str:
        context = TaskContext.get()
        assert context is not None
        names = ("spark.job.description", "spark.job.tags")
        return " ".join(str(context.getLocalProperty(name)) for name in names)

    table = main.table("named")
    table.append(mapped(spark, properties), job="load-2")
    (row,) = table.read().collect()
    assert "graveler: write" in row.text and "(load-2)" in row.text
    assert "graveler:load-2" in row.text
    context = spark.sparkContext
    assert not context.getLocalProperty("spark.job.description")
    context.setJobDescription("mine")
    table.append(mapped(spark, properties), job="load-3")
    assert context.getLocalProperty("spark.job.description") == "mine"
    context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
    texts = [row.text for row in table.read().collect()]
    assert sum(text.startswith("mine ") for text in texts) == 1


def test_an_error_of_a_worker_arrives_as_ours(spark: SparkSession, main: Any) -> None:
    def fail() -> str:
        raise errors.Corrupt("range is damaged: id=7; restore it")

    with pytest.raises(errors.Corrupt) as raised:
        main.table("failed").append(mapped(spark, fail))
    assert str(raised.value) == "range is damaged: id=7; restore it"


def test_an_error_of_the_callers_own_code_stays(spark: SparkSession, main: Any) -> None:
    def fail() -> str:
        raise ValueError("mine")

    with pytest.raises(PySparkException, match="ValueError: mine"):
        main.table("failed").append(mapped(spark, fail))


def test_a_worker_that_dies_has_a_remedy(spark: SparkSession, main: Any) -> None:
    with pytest.raises(errors.Unavailable, match=r"spark\.executor\.memoryOverhead"):
        main.table("failed").append(mapped(spark, lambda: str(os._exit(9))))
