"""What `make bench-spark` measures is measured, on a few rows."""

from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks import spark_ranges
from benchmarks.spark import STEPS
from benchmarks.spark_runs import measured


def test_a_line_is_measured(spark: SparkSession, tmp_path: Path) -> None:
    """Of rows that are all different, of which one in a hundred is then another one."""
    found = measured(spark, tmp_path, 500, 1)
    assert (found["rows"], found["diff_rows"]) == (500, 5)
    rates = ("import_rps", "parquet_rps", "merge_rps", "read_rps", "read_path_size_rps")
    assert all(found[name] > 0 for name in (*rates, "import_ratio", "merge_ratio"))


def test_what_grows_with_ranges_is_measured(spark: SparkSession, tmp_path: Path) -> None:
    found = spark_ranges.measured(spark, tmp_path / "store", 60)
    assert (found["ranges"], found["records"]) == (60, 600_000)
    assert found.keys() >= STEPS.keys()
