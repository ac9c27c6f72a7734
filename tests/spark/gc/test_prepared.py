"""Arrow and Spark read the files that a collection by lakeFS's Spark client begins with."""

from pathlib import Path

import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from graveler.engine.gc import parquet
from tests.spark.conftest import SHARE


@pytest.mark.parametrize("count", [20_000, 0, 1, 3][::SHARE])
def test_a_column_of_texts_is_read(spark: SparkSession, tmp_path: Path, count: int) -> None:
    texts = [f"data/{number}/ä" * (number % 7) for number in range(count)]
    path = tmp_path / "0.parquet"
    path.write_bytes(parquet.column("physical_address", texts))
    table = pyarrow.parquet.read_table(path)
    assert table.column("physical_address").to_pylist() == texts
    rows = spark.read.parquet(str(path)).select("physical_address").collect()
    assert [row.physical_address for row in rows] == texts
