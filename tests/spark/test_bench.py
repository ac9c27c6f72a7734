"""What `make bench-spark` measures is measured, on a few rows."""

from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks import spark_ranges, spark_tables
from benchmarks.spark import STEPS
from benchmarks.spark_runs import KEYS, measured, rows_in
from benchmarks.spark_steps import steps
from graveler.spark import connect


def test_a_line_is_measured(spark: SparkSession, tmp_path: Path) -> None:
    """Of rows that are all different, of which one in a hundred is then another one."""
    found = measured(spark, tmp_path, 500, 1)
    assert (found["rows"], found["diff_rows"]) == (500, 5)
    rates = ("import_rps", "parquet_rps", "merge_rps", "read_rps", "read_path_size_rps")
    assert all(found[name] > 0 for name in (*rates, "import_ratio", "merge_ratio"))


def test_the_steps_of_an_import_are_measured(spark: SparkSession, tmp_path: Path) -> None:
    rows = rows_in(spark, tmp_path, 500, False)
    with connect(spark, tmp_path / "lake", KEYS) as lake:
        measured_steps = steps(lake, rows, rows, tmp_path)
        for run in measured_steps.values():
            run()
    assert {"first pass", "import", "Parquet"} <= measured_steps.keys()


def test_what_grows_with_ranges_is_measured(spark: SparkSession, tmp_path: Path) -> None:
    found = spark_ranges.measured(spark, tmp_path / "store", 60)
    assert (found["ranges"], found["records"]) == (60, 600_000)
    assert found.keys() >= STEPS.keys()


def test_tables_are_measured_beside_parquet(spark: SparkSession, tmp_path: Path) -> None:
    lines = spark_tables.measured(spark, tmp_path, 300, 1, 4.0)
    names = [line["name"].partition(",")[0] for line in lines]
    pairs = ["write", "scan", "where(day)", "one column", "count"]
    assert names == [*pairs, "append of three rows", "stream"]
    assert all(line["value"] > 0 for line in lines[:-1])
