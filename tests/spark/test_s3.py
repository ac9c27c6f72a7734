"""Executors write to S3 with the role of the job."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from graveler.aws import AwsSession, AwsSettings
from graveler.committed.verify import metarange_damages
from graveler.spark.importing import ImportOptions, import_rows
from graveler.spark.places import Place, opened
from tests.aws.buckets import create_bucket
from tests.aws.engines import ministack
from tests.spark.lakes import frame, sequential, some_rows


@pytest.fixture
def bucket(surroundings: int) -> Iterator[str]:
    """A bucket of an AWS that this process and all workers know by their environment."""
    with ministack(port=surroundings):
        url = f"http://127.0.0.1:{surroundings}"
        create_bucket(AwsSession(AwsSettings(endpoint_url=url)), "lake")
        yield "lake"


def test_ranges_go_to_s3(
    spark: SparkSession, place: Place, surroundings: int, bucket: str, tmp_path: Path
) -> None:
    rows = [(row[0], f"s3a://source/{row[0]}", *row[2:]) for row in some_rows(80, 600)]
    there = replace(place, storage=f"s3:{bucket}", namespace=f"s3://{bucket}/repository")
    there = replace(there, endpoint_url=f"http://127.0.0.1:{surroundings}")
    made = import_rows(frame(spark, rows), there, ImportOptions(tasks=4))
    again = import_rows(
        frame(spark, rows[:400]), there, ImportOptions(tasks=3, base=made.metarange)
    )
    canonical = [(row[0], row[1].replace("s3a:", "s3:"), *row[2:]) for row in rows]
    assert made.metarange == sequential(place, canonical, tmp_path / "one")[0] == again.metarange
    assert list(metarange_damages(opened(there).space, made.metarange)) == []
