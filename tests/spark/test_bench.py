"""What `make bench-spark` measures is measured, on a few rows."""

from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks import spark_tables
from benchmarks.spark_runs import measured


def test_a_line_is_measured(spark: SparkSession, tmp_path: Path) -> None:
    """Of rows that are all different, of which one in a hundred is then another one."""
    found = measured(spark, tmp_path, 500, 1)
    assert (found["rows"], found["diff_rows"]) == (500, 5)
    rates = ("import_rps", "parquet_rps", "merge_rps", "read_rps", "read_path_size_rps")
    assert all(found[name] > 0 for name in (*rates, "import_ratio", "merge_ratio"))


def test_tables_are_measured_beside_parquet(spark: SparkSession, tmp_path: Path) -> None:
    lines = spark_tables.measured(spark, tmp_path, 300, 1, 0.5)
    names = [line["name"].partition(",")[0] for line in lines]
    pairs = ["write", "scan", "where(day)", "one column", "count"]
    assert names == [*pairs, "append of three rows", "stream", "stream"]
    assert all(line["value"] > 0 for line in lines[:-2])
