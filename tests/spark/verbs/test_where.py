"""Reads leave out what does not match: the rows are those that plain Spark finds."""

import io
import random
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from graveler.arrow.conditions import parse_conditions
from graveler.core.errors import Invalid
from graveler.spark import Lake, register
from graveler.spark.lake import pinned
from graveler.spark.reads import TableRequest, count, loading, planned, read
from tests import draws
from tests.spark.lakes import write
from tests.spark.verbs.test_land import repository
from tests.spark.verbs.test_read import put, table
from tests.support.conditions import some_condition, some_table, sql

__all__ = ["repository"]  # a fixture


def files_of(chance: random.Random, folder: Path) -> dict[str, Any]:
    """Files of a table: in folders of a partition column, with small row groups, and one of them
    with fewer columns; written to `folder` too."""
    files = {}
    days = ("2026-01-01", "2026-01-05", "__HIVE_DEFAULT_PARTITION__")
    for number, day in enumerate(days * 2):
        rows = some_table(chance, 40, number * 100).append_column(
            "l", pa.array([[number], None] * 20, pa.list_(pa.int32()))
        )
        rows = rows.drop_columns(["s"]) if number == 4 else rows
        body = io.BytesIO()
        pq.write_table(rows, body, row_group_size=9)
        path = f"p={number % 2}/day={day}/f{number}.parquet"
        files[f"t/{path}"] = body.getvalue()
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(body.getvalue())
    return files


def some_where(chance: random.Random) -> list[Any]:
    given: list[Any] = [some_condition(chance) for _ in range(chance.choice((1, 1, 2)))]
    if chance.random() < 0.4:
        given.append(
            chance.choice(
                [
                    ("day", ">=", date(2026, 1, 3)),
                    ("day", "is", None),
                    ("day", "!=", "2026-01-01"),
                    ("p", "in", [0, 5]),
                    ("p", "<", 1),
                ]
            )
        )
    return given


def spark_sql(given: list[Any]) -> str:
    return " AND ".join(f"({sql(each, spark=True)})" for each in given)


def ids(df: DataFrame) -> list[int]:
    return sorted(row["id"] for row in df.select("id").collect())


def test_rows_are_those_of_plain_spark(lake: Lake, repository: str, tmp_path: Path) -> None:
    chance = random.Random(draws.seed())
    put(lake, repository + "-a", files_of(chance, tmp_path), f"{repository}/main")
    wheres = [some_where(chance) for _ in range(60)]
    plain = lake.spark.read.option("mergeSchema", "true").parquet(str(tmp_path))
    marks = [F.expr(spark_sql(each)).alias(f"m{at}") for at, each in enumerate(wheres)]
    marked = plain.select("id", *marks).collect()

    at = pinned(lake, f"{repository}/main/t")
    opened_splits = 0
    for number, where in enumerate(wheres):
        reading = TableRequest(columns=["id"], where=parse_conditions(where))
        plan = planned(at, reading)
        opened_splits += len(plan.splits)
        splits = [pa.RecordBatch.from_pylist([each._asdict()]) for each in plan.splits]
        batches = loading(plan.loading)(iter(splits))
        found = sorted(id for batch in batches for id in batch.column(0).to_pylist())
        assert found == sorted(row["id"] for row in marked if row[f"m{number}"]), where
    assert opened_splits < 60 * 6 * 0.95  # files are left out by their folders

    for number, where in enumerate(wheres[:2]):  # with Spark's tasks
        expected = sorted(row["id"] for row in marked if row[f"m{number}"])
        df = read(lake, f"{repository}/main/t", columns=["l", "id"], where=where)
        assert df.columns == ["l", "id"] and ids(df) == expected
        assert count(lake, f"{repository}/main/t", where=where) == len(expected)
    assert count(lake, f"{repository}/main/t") == 240


def test_sql_filters_whatever_its_form(lake: Lake, repository: str) -> None:
    files = {f"t/p={at}/a.parquet": table(at * 10, at * 10 + 10) for at in range(3)}
    put(lake, repository + "-a", files, f"{repository}/main")
    where = f"{repository}/main/t"
    simple = read(lake, where, columns="name", where="P >= 1 AND Id IN (9, 11, 25)")
    assert [tuple(row) for row in simple.collect()] == [("n11",), ("n25",)]
    other = read(lake, where, columns=["name"], where="p = 1 AND (id % 10 = 3 OR name = 'n15')")
    assert other.columns == ["name"]
    assert sorted(row["name"] for row in other.collect()) == ["n13", "n15"]
    text = read(lake, where, columns=["id"], where="id = '21'")  # Spark casts
    assert ids(text) == [21]
    assert count(lake, where, where="id % 2 = 0") == 15
    assert count(lake, where, where="p = 2") == 10
    with pytest.raises(Invalid, match="unknown columns: q of=id,name,p"):
        read(lake, where, where=[("q", "=", 1)])
    with pytest.raises(Invalid, match="cannot compare this column with this value: column=id"):
        read(lake, where, where=[("id", "=", "1")])


def test_what_is_left_out_is_not_opened(lake: Lake, repository: str) -> None:
    """A file that no condition lets through may be damaged, and so may a row group."""
    body = io.BytesIO()
    pq.write_table(table(0, 80), body, row_group_size=40, compression="none")
    second = pq.ParquetFile(body).metadata.row_group(1).column(0).file_offset
    second = second or pq.ParquetFile(body).metadata.row_group(1).column(0).data_page_offset
    damaged = bytearray(body.getvalue())
    damaged[second - 40 : second + 40] = b"\xff" * 80
    files = {"t/p=1/a.parquet": bytes(damaged), "t/p=2/b.parquet": b"no parquet"}
    put(lake, repository + "-a", files, f"{repository}/main")
    where = [("p", "=", 1), ("id", "<", 3)]
    assert ids(read(lake, f"{repository}/main/t", where=where)) == [0, 1, 2]
    assert count(lake, f"{repository}/main/t", where=[("p", "=", 1)]) == 80
    with pytest.raises(PySparkException, match="Corrupt"):
        read(lake, f"{repository}/main/t", where=[("p", "=", 1)]).collect()


def test_text_formats_filter_too(lake: Lake, repository: str) -> None:
    put(lake, f"{repository}-a", {"t/a": b"n,s\n1,x\n2,y\n3,\n"}, f"{repository}/main")
    where = f"{repository}/main/t"
    df = read(lake, where, "csv", columns="n", where=[("s", "is not", None), ("n", ">", 1)])
    assert [tuple(row) for row in df.collect()] == [(2,)]
    assert count(lake, where, "csv") == 3 and count(lake, where, "csv", where="n <= 2") == 2


def test_a_column_of_files_that_are_left_out_is_known(lake: Lake, repository: str) -> None:
    write(lake, lake.spark.sql("SELECT 1L id, 'a' k"), f"{repository}/main/t", partition_by="k")
    more = lake.spark.sql("SELECT 2L id, 'x' note, 'b' k")
    write(lake, more, f"{repository}/main/t", "append", partition_by="k", merge_schema=True)
    df = read(lake, f"{repository}/main/t", columns=["id", "note"], where="k = 'a'")
    assert [tuple(row) for row in df.collect()] == [(1, None)]
    assert read(lake, f"{repository}/main/t", where="k = 'a' AND note = 'x'").count() == 0


def test_the_format_takes_conditions(lake: Lake, repository: str) -> None:
    pytest.importorskip("pyspark.sql.datasource")
    files = {f"t/p={at}/a.parquet": table(at * 10, at * 10 + 10) for at in range(3)}
    put(lake, repository + "-a", files, f"{repository}/main")
    register(lake)
    reading = lake.spark.read.format("graveler")
    given = reading.option("where", "p >= 1 AND id IN (9, 11, 25)").option("columns", "id")
    assert ids(given.load(f"{repository}/main/t")) == [11, 25]
    with pytest.raises(PySparkException, match="option where must be conditions of this form"):
        reading.option("where", "id % 2 = 0").load(f"{repository}/main/t")
