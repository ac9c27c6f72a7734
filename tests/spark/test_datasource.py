"""Spark 4 reads files, entries and differences by the name of a format."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors.exceptions.base import PySparkException
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from graveler.core.errors import Invalid
from graveler.spark import (
    Lake,
    diff,
    entries,
    import_,
    log,
    ranges,
    register,
)
from graveler.spark.datasource import Piece, Reader, ReadPlan, plan
from graveler.spark.reads import read
from tests.spark.lakes import frame, lake_with, write
from tests.spark.verbs.test_land import ascii_rows, repository
from tests.spark.verbs.test_read import put

__all__ = ["repository"]  # a fixture
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def rows(df: DataFrame) -> list[Any]:
    return sorted(df.collect(), key=repr)


def load(lake: Lake, where: str, **options: str) -> DataFrame:
    return lake.spark.read.format("graveler").options(**options).load(where)


def test_tables_are_those_of_the_functions(lake: Lake, repository: str) -> None:
    register(lake)
    df = lake.spark.range(50).withColumn("p", F.col("id") % 3)
    write(lake, df, f"{repository}/main/t", partition_by=["p"])
    write(lake, df.limit(5), f"{repository}/main/t", "append", partition_by=["p"])
    here, before = f"{repository}/main", f"{repository}/main~1"
    for ref in (here, before):
        assert rows(load(lake, f"{ref}/t")) == rows(read(lake, f"{ref}/t"))
        found = load(lake, f"{ref}/t/", table="entries")
        assert rows(found) == rows(entries(lake, f"{ref}/t/")) and found.count() > 0
    assert load(lake, here, table="log", limit="2").collect() == log(lake, here, 2).collect()
    assert rows(load(lake, f"{here}/t/", table="ranges")) == rows(ranges(lake, f"{here}/t/"))
    assert load(lake, f"{here}/t", columns="p, id").columns == ["p", "id"]
    told = load(lake, here, table="diff", left=before, columns="size")
    assert rows(told) == rows(diff(lake, before, here, columns="size")) and told.count() > 0
    assert load(lake, here, table="diff", left=here).count() == 0
    assert load(lake, f"{repository}/main~2", table="entries").count() == 0


def test_filters_of_one_use_leave_out_nothing_of_another(lake: Lake, repository: str) -> None:
    """Spark 4.1 would give the second count what the filters of the first one left of the plan, if
    the source took them."""
    known = ascii_rows(130, 40)
    import_(lake, frame(lake.spark, known), f"{repository}/main")
    path = sorted(row[0] for row in known)[5]
    lake.spark.conf.set(_PUSHDOWN, "true")
    try:
        register(lake)
        df = load(lake, f"{repository}/main", table="entries", columns="path,size")
        assert [row["path"] for row in df.filter(F.col("path") == path).collect()] == [path]
        assert df.count() == 40
        assert df.filter("path = '!'").union(df).count() == 40
    finally:
        lake.spark.conf.unset(_PUSHDOWN)


def test_executors_get_names_and_their_own_piece_of_work(lake: Lake, repository: str) -> None:
    import_(lake, frame(lake.spark, ascii_rows(131, 3)), f"{repository}/main")
    found = plan(lake, {"path": f"{repository}/main", "table": "entries"})
    (piece,) = found.pieces
    sent = CloudPickleSerializer().dumps(Reader(found))
    assert repository.encode() in sent
    assert piece.rows[0]["id"].encode() not in sent


def test_a_load_stays_at_the_commit_that_it_found(lake: Lake, repository: str) -> None:
    """The schema of one commit never meets the files of another.  With a given schema Spark makes
    the source at the first action: the DataFrame stays at the commit that was there then."""
    register(lake)
    where = f"{repository}/main/t"
    write(lake, lake.spark.range(3), where)
    inferred = load(lake, where)
    given = lake.spark.read.format("graveler").schema("id string").load(where)
    against = load(lake, f"{repository}/main", table="diff", left=f"{repository}/main~1")
    assert given.count() == 3
    texts = lake.spark.createDataFrame([("x",)], "name string")
    write(lake, texts, where, "overwrite")
    assert sorted(row["id"] for row in inferred.collect()) == [0, 1, 2]
    assert sorted(row["id"] for row in given.collect()) == ["0", "1", "2"]
    assert {row["type"] for row in against.collect()} == {"added"}
    assert [row["name"] for row in load(lake, where).collect()] == ["x"]


def test_a_table_that_is_made_beside_the_driver_comes_in_pieces(
    lake: Lake, repository: str
) -> None:
    for at in range(4):
        body = {"message": f"{at}", "allow_empty": True}
        lake.session.call("POST", f"/repositories/{repository}/branches/main/commits", body)
    asked = {"path": f"{repository}/main", "table": "log", "columns": "message,id"}
    found = plan(lake_with(lake, spark=None), asked, rows_each=2)
    reader = Reader(found)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    assert [batch.num_rows for batch in batches] == [2, 2, 1]
    assert [batch.schema.names for batch in batches] == [["message", "id"]] * 3
    messages = [text for batch in batches for text in batch.column(0).to_pylist()]
    assert messages == ["3", "2", "1", "0", "Repository created"]


def test_files_are_of_the_format_the_values_and_the_schema_asked_for(
    lake: Lake, repository: str
) -> None:
    files = {f"t/p={at}/a": b"n,s\n%d,x\n" % at for at in (1, 2)}
    put(lake, f"{repository}-a", files, f"{repository}/main")
    alone, options = lake_with(lake, spark=None), {"path": f"{repository}/main/t", "format": "csv"}
    found = plan(alone, options | {"partitions": '{"p": 2}', "columns": "p,n"})
    (piece,) = found.pieces
    assert rows_of(found, piece) == [{"p": 2, "n": 2}] and found.schema.names == ["p", "n"]
    # As Spark hands over what the plan before it answered, or somebody gave.
    given = StructType().add("p", "string").add("n", "double").add("more", "string")
    found = plan(alone, options, given)
    rows = [row for each in found.pieces for row in rows_of(found, each)]
    assert found.schema == given
    assert rows == [{"p": "1", "n": 1.0, "more": None}, {"p": "2", "n": 2.0, "more": None}]
    for wrong in ("x", "[1]"):
        with pytest.raises(Invalid, match="must be a JSON object"):
            plan(alone, options | {"partitions": wrong})


@pytest.mark.parametrize("form", ["csv", "json", "orc"])
def test_a_table_is_read_in_the_format_that_it_has(lake: Lake, repository: str, form: str) -> None:
    """Spark asks for the columns, and again with them for the rows; somebody may give some."""
    register(lake)
    where, df = f"{repository}/main/t", lake.spark.range(3).withColumn("p", F.lit("x"))
    write(lake, df, where, format=form, partition_by=["p"])
    assert rows(load(lake, where)) == rows(df)
    given = lake.spark.read.format("graveler").schema("id bigint").load(where)
    assert [row["id"] for row in given.orderBy("id").collect()] == [0, 1, 2]


def rows_of(found: ReadPlan, piece: Piece) -> list[Any]:
    batches = found.run(iter([pa.RecordBatch.from_pylist(list(piece.rows))]))
    return [row for batch in batches for row in batch.to_pylist()]


def test_what_cannot_be_read_is_refused(lake: Lake, repository: str) -> None:
    register(lake)
    for options, says in (
        ({"table": "nothing"}, "unknown table: 'nothing' of=files,entries,diff,changes,log,ranges"),
        ({"table": "log", "limit": "-1"}, "limit must be"),
        ({"table": "ranges", "columns": "path"}, "unknown columns: path of=id,min_path"),
        ({"table": "entries", "columns": "sizes"}, "unknown columns: sizes"),
        ({"table": "diff"}, "option left"),
        ({}, "no data files"),
        ({"colums": "id", "Left": "x"}, "unknown options: colums of=columns,format,job,left,limit"),
    ):
        with pytest.raises(PySparkException, match=says):
            load(lake, f"{repository}/main", **options).collect()


def test_the_option_ref_replaces_the_ref_of_the_path(lake: Lake, repository: str) -> None:
    register(lake)
    where = f"{repository}/main/t"
    write(lake, lake.spark.range(3), where)
    write(lake, lake.spark.range(5), where, "overwrite")
    assert load(lake, where).count() == 5
    assert load(lake, where, ref="main~1").count() == 3


def test_a_view_of_sql_reads_a_folder_and_a_table_is_refused(lake: Lake, repository: str) -> None:
    """Spark 4.1 hands the options of a table to no reader: it would be a table without a place."""
    register(lake)
    write(lake, lake.spark.range(3), f"{repository}/main/t")
    given = f"USING graveler OPTIONS (path '{repository}/main/t', columns 'id')"
    lake.spark.sql(f"CREATE TEMPORARY VIEW numbers {given}")
    rows = lake.spark.sql("SELECT sum(id) AS total FROM numbers").collect()
    lake.spark.sql("DROP VIEW numbers")
    assert [row["total"] for row in rows] == [3]
    with pytest.raises(PySparkException, match="use CREATE TEMPORARY VIEW"):
        lake.spark.sql(f"CREATE TABLE numbers {given}")
    lake.spark.sql(f"CREATE TABLE numbers (id BIGINT) {given}")  # which asks no source
    try:
        with pytest.raises(PySparkException, match="use CREATE TEMPORARY VIEW"):
            lake.spark.sql("SELECT * FROM numbers").collect()
    finally:
        lake.spark.sql("DROP TABLE numbers")


def test_a_load_that_names_no_place_is_refused_with_the_remedy(lake: Lake, repository: str) -> None:
    register(lake)
    where = f"{repository}/main"
    write(lake, lake.spark.range(1), f"{where}/t")
    reading = lake.spark.read.format("graveler")
    with pytest.raises(PySparkException, match=r'load\("repository/ref/folder"\)'):
        reading.load()
    with pytest.raises(PySparkException, match="several paths: load one at a time"):
        reading.load([f"{where}/a", f"{where}/b"])
