"""A DataFrame becomes files and one commit that names them, or nothing anybody sees."""

import datetime
import os
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from graveler.core.errors import Conflict, Invalid, NotFound, Unsupported
from graveler.lake import bulk
from graveler.lake.session import below
from graveler.spark import Lake, entries, import_
from graveler.spark.places import Place, opened
from graveler.spark.reads import read
from graveler.spark.store import STORED, Storing, storing
from graveler.spark.table_schema import FILE
from tests.spark.lakes import frame, some_rows, write
from tests.spark.verbs.test_land import log, repository
from tests.spark.verbs.test_read import sorted_rows

__all__ = ["repository"]  # a fixture


def paths(lake: Lake, where: str) -> list[str]:
    found = (row["path"] for row in entries(lake, where, ["path"]).collect())
    return sorted(path for path in found if not path.endswith(FILE))


def forget_schema(lake: Lake, where: str) -> None:
    """Make the table one of files that others wrote: only they say what its columns are."""
    ref, path = lake.at(where)
    branch = ref.repository.branch(ref.name)
    branch.delete(f"{path}/{FILE}")
    branch.commit("no schema")


def objects(lake: Lake, repository: str) -> int:
    """How many data files stand in the repository's folder, named or not."""
    return sum(
        len(files) for _, _, files in os.walk(Path(lake.store, "objects/lake", repository, "data"))
    )


def test_what_is_written_is_read_again(lake: Lake, repository: str) -> None:
    df = lake.spark.range(0, 1_000, 1, 5).select(
        "id",
        F.when(F.col("id") % 3 > 0, F.concat(F.lit("é"), F.col("id"))).alias("name"),
        (F.col("id") % 2 == 0).alias("even"),
        F.expr("timestamp_micros(1700000000000001 + id)").alias("at"),
        F.expr("cast(id / 7 as decimal(12, 4))").alias("amount"),
        F.array("id", F.lit(1)).alias("list"),
        F.struct("id").alias("a b`c.d"),
        F.create_map(F.lit("k"), "id").alias("map"),
    )
    options: dict[str, Any] = dict(message="first", metadata={"by": "a test"})
    saved = write(lake, df, f"{repository}/main/t", **options)
    newest, *others = log(lake.session, repository)
    assert (newest["id"], newest["message"], len(others)) == (saved.commit, "first", 1)
    assert newest["metadata"]["by"] == "a test"
    assert (saved.files, saved.rows) == (5, 1_000)
    back = read(lake, f"{repository}/{saved.commit}/t")
    assert [(each.name, each.dataType.simpleString()) for each in back.schema] == [
        (each.name, each.dataType.simpleString()) for each in df.schema
    ]
    assert sorted(map(tuple, back.collect()), key=repr) == sorted(
        map(tuple, df.collect()), key=repr
    )
    for row in entries(lake, f"{repository}/main").collect():
        assert row["address"].startswith(f"local://lake/{repository}/data/")
        assert row["path"].endswith((".parquet", FILE)) and row["size"] > 0 and row["checksum"]


def test_partition_columns_stand_in_the_paths(lake: Lake, repository: str) -> None:
    rows = [
        (at, ("a b", "x=y/z", None, "50%")[at % 4], datetime.date(2024, 1, at % 2 + 1), Decimal(at))
        for at in range(200)
    ]
    df = lake.spark.createDataFrame(rows, "id int, city string, day date, n decimal(5,1)")
    saved = write(lake, df, f"{repository}/main/t", partition_by=["day", "city"])
    folders = {path.rpartition("/")[0] for path in paths(lake, f"{repository}/main")}
    null = "__HIVE_DEFAULT_PARTITION__"
    assert folders == {
        *("t/day=2024-01-01/city=a b", f"t/day=2024-01-01/city={null}"),
        *("t/day=2024-01-02/city=x%3Dy%2Fz", "t/day=2024-01-02/city=50%25"),
    }
    assert saved.rows == 200 and len(folders) <= saved.files <= 16
    back = read(lake, f"{repository}/main/t")
    assert back.columns == ["id", "n", "day", "city"]
    found = sorted_rows(back.withColumn("day", F.col("day").cast("date")), *df.columns)
    assert found == sorted(rows, key=repr)
    part = read(lake, f"{repository}/main/t", partitions={"city": None}, columns=["id"])
    assert sorted_rows(part, "id") == sorted(((at,) for at in range(2, 200, 4)), key=repr)


@pytest.mark.one_version
def test_modes(lake: Lake, repository: str) -> None:
    target = f"{repository}/main/t"
    spark = lake.spark
    write(lake, spark.range(5), target)
    write(lake, spark.range(100, 103), f"{repository}/main/tables")
    with pytest.raises(Conflict, match="the path is not empty"):
        write(lake, spark.range(5), target)
    assert write(lake, spark.range(5, 8), target, "append").rows == 3
    assert sorted_rows(read(lake, target), "id") == [(at,) for at in range(8)]
    saved = write(lake, spark.range(20, 22), target, "overwrite")
    assert sorted_rows(read(lake, target), "id") == [(20,), (21,)]
    assert read(lake, f"{repository}/main/tables").count() == 3
    assert read(lake, f"{repository}/main~1/t").count() == 8 and saved.rows == 2
    # No rows are still a table of its columns; and an overwrite by them leaves nothing else.
    assert write(lake, spark.range(0), target, "overwrite").files == 1
    empty = read(lake, target)
    assert (empty.columns, empty.count()) == (["id"], 0)


def failing(tries: int) -> Any:
    """A step before the write: the task of the last rows hands them over, and fails at first."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        last = 0
        for batch in batches:
            last = max([last, *batch.column(0).to_pylist()])
            yield batch
        context = TaskContext.get()
        if last == 599 and context is not None and context.attemptNumber() < tries:
            raise RuntimeError("a task fails on purpose")

    return run


@pytest.mark.one_version
def test_of_a_task_that_fails_once_only_the_last_attempt_is_named(
    lake: Lake, repository: str
) -> None:
    df = lake.spark.range(0, 600, 1, 3).mapInArrow(failing(1), "id bigint")
    saved = write(lake, df, f"{repository}/main/t", rows_max=20)
    assert (saved.files, saved.rows) == (30, 600)
    assert sorted_rows(read(lake, f"{repository}/main/t"), "id") == sorted(
        ((at,) for at in range(600)), key=repr
    )
    assert len(paths(lake, f"{repository}/main")) == 30 <= objects(lake, repository)


@pytest.mark.one_version
def test_a_job_that_fails_leaves_nothing_named(lake: Lake, repository: str) -> None:
    write(lake, lake.spark.range(7), f"{repository}/main/t")
    before = log(lake.session, repository), paths(lake, f"{repository}/main")
    df = lake.spark.range(0, 600, 1, 3).mapInArrow(failing(99), "id bigint")
    options: dict[str, Any] = dict(rows_max=20)
    for mode in ("append", "overwrite"):
        with pytest.raises(PySparkException, match="a task fails on purpose"):
            write(lake, df, f"{repository}/main/t", mode, **options)
    assert (log(lake.session, repository), paths(lake, f"{repository}/main")) == before
    assert objects(lake, repository) > 1  # what was stored is garbage
    assert write(lake, lake.spark.range(2), f"{repository}/main/t", "append").rows == 2


@pytest.mark.one_version
def test_a_write_with_a_name_lands_once(
    lake: Lake, repository: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run fails in a task, the second loses its driver, the third lands, the fourth is
    answered."""
    target, options = f"{repository}/main/t", {"job": "hourly-7"}
    write(lake, lake.spark.range(7), target)
    good = lake.spark.range(0, 60, 1, 3)
    bad = lake.spark.range(0, 600, 1, 3).mapInArrow(failing(99), "id bigint")
    with pytest.raises(PySparkException, match="a task fails on purpose"):
        write(lake, bad, target, "append", **options)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(bulk, "finish", interrupted)
        write(lake, good, target, "append", **options)
    landed = write(lake, good, target, "append", **options)
    assert (landed.files, landed.rows) == (3, 60)
    again = write(lake, good, target, "append", **options)
    assert (again.commit, again.files, again.rows) == (landed.commit, 0, 60)
    assert read(lake, target).count() == 67
    assert len(log(lake.session, repository)) == 3


@pytest.mark.one_version
def test_a_name_that_is_used_again_for_another_table_is_refused(
    lake: Lake, repository: str
) -> None:
    df, main = lake.spark.range(7), f"{repository}/main"
    landed = write(lake, df, f"{main}/t", "append", job="daily")
    for table, mode, format in (("u", "append", "parquet"), ("t", "errorifexists", "parquet"),
                                ("t", "append", "json")):  # fmt: skip
        options: dict[str, Any] = dict(format=format, job="daily")
        with pytest.raises(Conflict, match=rf"write {format}, {mode} below '{table}.*begun: "):
            write(lake, df, f"{main}/{table}", mode, **options)
    again = write(lake, df, f"{main}/t", "append", job="daily")
    assert again.commit == landed.commit and len(log(lake.session, repository)) == 2


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.one_version
def test_an_attempt_that_ends_and_is_lost_is_not_named(lake: Lake, place: Place) -> None:
    """Its files are whole, and a second attempt writes its own."""
    df = lake.spark.range(0, 90, 1, 3)
    run = storing(Storing(place, to_arrow_schema(df.schema), (), 10))

    def lost(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        made = list(run(batches))
        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0:
            raise RuntimeError("after storing")
        yield from made

    found = df.mapInArrow(lost, STORED).collect()
    assert sum(row["rows"] for row in found) == 90
    assert len({row["address"] for row in found}) == len({row["path"] for row in found}) == 9
    page = opened(place).blocks.list(f"{place.namespace}/data/", "", 1_000)
    assert len(page.lines) == 18
    assert {row["address"] for row in found} < {
        line.address.removeprefix(f"{place.namespace}/") for line in page.lines
    }


@pytest.mark.one_version
def test_uncommitted_changes_refuse_the_write(lake: Lake, repository: str) -> None:
    """Before any work: no file is stored.  So they do an import."""
    target = f"{repository}/main/t"
    write(lake, lake.spark.range(1), target)
    (path,) = before = paths(lake, f"{repository}/main")
    where = below("repositories", repository, "branches", "main", "objects")
    lake.session.call("DELETE", f"{where}?path={path.replace('/', '%2F')}")
    for mode in ("append", "overwrite", "error"):
        with pytest.raises(Conflict, match=f"uncommitted changes.*branch=main path='{path}'"):
            write(lake, lake.spark.range(3), target, mode)
    with pytest.raises(Conflict, match="uncommitted changes"):
        import_(lake, frame(lake.spark, some_rows(3, 5)), target)
    assert paths(lake, f"{repository}/main") == before and objects(lake, repository) == 2


@pytest.mark.one_version
def test_uncommitted_changes_elsewhere_stay_beside_a_write(lake: Lake, repository: str) -> None:
    """As S3A leaves them: an object in another folder, deleted temporary objects in this one."""
    branch = below("repositories", repository, "branches", "main")
    staged = f"{branch}/objects?path=raw%2Fpart-0"
    temporary = f"{branch}/objects?path=t%2F_temporary%2F0"
    rows = 0
    for number, mode in enumerate(("error", "append", "overwrite", "append")):
        lake.session.call("POST", staged, {"part": number})
        lake.session.call("POST", temporary, {})
        lake.session.call("DELETE", temporary)
        df = lake.spark.range(3 + number)
        write(lake, df, f"{repository}/main/t", mode)
        rows = 3 + number + (rows if mode == "append" else 0)
        assert read(lake, f"{repository}/main/t").count() == rows
        changes = lake.session.call("GET", f"{branch}/diff")["results"]
        assert [change["path"] for change in changes] == ["raw/part-0"]
    import_(lake, frame(lake.spark, some_rows(3, 5)), f"{repository}/main/in")
    tables = paths(lake, f"{repository}/main@")
    assert {path.partition("/")[0] for path in tables} == {"t", "in"}
    lake.session.call("POST", f"{branch}/commits", {"message": "raw"})
    assert sorted([*tables, "raw/part-0"]) == sorted(paths(lake, f"{repository}/main@"))


@pytest.mark.one_version
def test_what_cannot_be_written_is_refused(lake: Lake, repository: str) -> None:
    df, target = lake.spark.range(3), f"{repository}/main/t"
    calls: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: write(lake, df, target, partition_by=["q"]), Invalid, "repeated column"),
        (lambda: write(lake, df, target, partition_by=["id"]), Invalid, "no column is left"),
        (lambda: write(lake, df.select("id", "id"), target), Invalid, "different names"),
        (lambda: write(lake, df, target, format="avro"), Unsupported, "format='avro'"),
        (lambda: write(lake, df, target, rows_max=0), Invalid, "rows_max=0"),
        (lambda: write(lake, df, f"{repository}/nowhere/t"), NotFound, "not found"),
    ]
    for call, kind, says in calls:
        with pytest.raises(kind, match=says):
            call()
    assert len(log(lake.session, repository)) == 1


# ---- a table keeps one schema, one layout and one format -----------------------------------------


def test_an_append_that_does_not_fit_the_table_is_refused_before_any_work(
    lake: Lake, repository: str
) -> None:
    """Each case was committed once, and readers of the table failed afterwards."""
    target, spark = f"{repository}/main/t", lake.spark
    table = spark.range(3).selectExpr("id", "'x' AS name", "'2024-01-01' AS day")
    write(lake, table, target, partition_by="day")
    before, bytes_before = log(lake.session, repository), objects(lake, repository)
    for rows, options, says in (
        ("'a' AS id, day", {}, "column=id table=bigint rows=string"),
        ("id / 2 AS id, day", {}, "column=id table=bigint rows=double"),
        ("id, id AS more, day", {}, r"merge_schema=True.*column=more type=bigint"),
        ("id AS ID, day", {"merge_schema": True}, "spells this column 'id'"),
        ("id, day, name", {"partition_by": ["name"]}, r"partition_by=\['day'\]: "),
        ("id, day", {"partition_by": []}, r"partition_by=\['day'\]: "),
        ("id, day", {"format": "json"}, "files of another format: format=json table=parquet"),
    ):
        given: Any = {"partition_by": ["day"]} | options
        with pytest.raises(Invalid, match=says):
            write(lake, table.selectExpr(*rows.split(", ")), target, "append", **given)
    assert (log(lake.session, repository), objects(lake, repository)) == (before, bytes_before)


FORMATS = ("parquet", "orc", "csv", "json")


@pytest.mark.one_version
def test_an_append_in_another_format_is_refused_even_if_it_may_add_columns(
    lake: Lake, repository: str
) -> None:
    """A reader of text finds columns in a file of any format."""
    df = lake.spark.range(3).selectExpr("id", "'x' AS name")
    for stored in FORMATS:
        target = f"{repository}/main/{stored}"
        write(lake, df, target, format=stored)
        for format in FORMATS:
            if format != stored:
                says = rf"files of another format: format={format} table={stored}"
                with pytest.raises(Invalid, match=says):
                    write(lake, df, target, "append", merge_schema=True, format=format)
        forget_schema(lake, target)
        for format in FORMATS:
            if format != stored:
                says = rf"file looks like {stored}, not {format}: path='{stored}"
                with pytest.raises(Invalid, match=says):
                    write(lake, df, target, "append", merge_schema=True, format=format)
    assert len(log(lake.session, repository)) == 9


@pytest.mark.one_version
def test_an_append_to_json_compares_the_types_that_json_shows(lake: Lake, repository: str) -> None:
    target, spark = f"{repository}/main/t", lake.spark
    columns = ("id", "id / 2 AS half", "id > 1 AS more", "date'2024-01-02' AS day",
               "array(id) AS list", "struct(id) AS pair", "string(null) AS unknown")  # fmt: skip
    write(lake, spark.range(3).selectExpr(*columns), target, format="json")
    forget_schema(lake, target)
    for column, says in (
        ("string(id) AS id", "column=id table=bigint rows=string"),
        ("id AS more", "column=more table=boolean rows=bigint"),
        ("string(id) AS half", "column=half table=double rows=string"),
        ("id AS day", "column=day table=.* rows=bigint"),
        ("id AS list", "column=list table=array<bigint> rows=bigint"),
        ("array('x') AS list", "column=list table=array<bigint> rows=array<string>"),
        ("struct('x' AS id) AS pair", "column=pair table=struct<id:bigint> rows=struct<id:string>"),
        ("named_struct('id', 1, 'b', 2) AS pair", "column=pair .* rows=struct<id:int,b:int>"),
    ):
        with pytest.raises(Invalid, match=f"another type: cast it: {says}"):
            write(lake, spark.range(3).selectExpr(column), target, "append", format="json")
    fitting = ("int(id) AS id", "id AS half", "'x' AS day", "cast(null AS array<int>) AS list",
               "struct(id) AS pair", "id AS unknown")  # fmt: skip
    write(lake, spark.range(3).selectExpr(*fitting), target, "append", format="json")
    df = read(lake, target, "json", columns=["id", "day"])
    assert df.dtypes == [("id", "bigint"), ("day", "string")]
    assert {row["day"] for row in df.collect()} == {"x", "2024-01-02"}


@pytest.mark.one_version
def test_an_append_keeps_the_types_of_partition_columns(lake: Lake, repository: str) -> None:
    """Readers infer them from all values, so one value of another type changes every row."""
    target, spark = f"{repository}/main/t", lake.spark
    table = "id", "int(id) AS n", "id / 4 AS half", "'2024-01-02' AS day", "'x' AS name"
    names = ["n", "half", "day", "name", "yes"]

    def append(**columns: str) -> None:
        made = [f"{text} AS {name}" for name, text in columns.items()]
        kept = [each for each in table if each.split()[-1] not in columns]
        kept += [] if "yes" in columns else ["id > 0 AS yes"]
        df = spark.range(1, 3).selectExpr(*kept, *made)
        if any(each.path.endswith(FILE) for each in lake.at(target)[0].list("t/")):
            forget_schema(lake, target)
        write(lake, df, target, "append", partition_by=names)

    append()
    append(n="bigint(9)", half="id", day="date'2024-01-03'", name="'y'", yes="'true'")
    append(n="'7'", day="string(null)")
    forget_schema(lake, target)
    before = log(lake.session, repository), objects(lake, repository)
    for columns, says in (
        ({"n": "id / 2"}, "cast it: column=n table=int rows=double"),
        ({"n": "date'2024-01-03'"}, "cast it: column=n table=int rows=date"),
        ({"half": "id > 1"}, "cast it: column=half table=double rows=boolean"),
        ({"day": "id"}, "cast it: column=day table=date rows=bigint"),
        ({"day": "current_timestamp()"}, "cast it: column=day table=date rows=timestamp"),
        ({"name": "id"}, "cast it: column=name table=string rows=bigint"),
    ):
        with pytest.raises(Invalid, match=says):
            append(**columns)
    assert (log(lake.session, repository), objects(lake, repository)) == before
    for columns, says in (
        ({"n": "'x'"}, "column=n table=int value='x'"),
        ({"day": "'2024-1-3'"}, "column=day table=date value='2024-1-3'"),
    ):
        with pytest.raises(Invalid, match=says):
            append(**columns)
    assert log(lake.session, repository) == before[0]
    dtypes = dict(read(lake, target).dtypes)
    assert (dtypes["n"], dtypes["half"], dtypes["day"]) == ("int", "double", "date")


class Meanwhile:
    """Lets another write land when `name` of the bulk client is called for the first time."""

    def __init__(self, patched: pytest.MonkeyPatch, name: str, *, after: bool) -> None:
        self.write: Callable[[], object] = lambda: None
        call = getattr(bulk, name)

        def first(*args: Any, **names: Any) -> Any:
            patched.setattr(bulk, name, call)
            if not after:
                self.write()
            answer = call(*args, **names)
            if after:
                self.write()
            return answer

        patched.setattr(bulk, name, first)


MISFITS: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    ("id", "string(id) AS id", {}, "column=id table=string rows=bigint"),
    ("id, id AS a", "id, 'x' AS a", {"merge_schema": True}, "column=a table=string rows=bigint"),
    ("id, id AS a", "id", {}, "merge_schema=True.*column=a"),
    ("id, 1 AS p", "id, 2 AS q", {"partition_by": "p"}, r"other partition columns"),
)


@pytest.mark.one_version
@pytest.mark.parametrize(("rows", "others", "given", "says"), MISFITS)
def test_an_append_is_checked_against_what_landed_meanwhile(
    lake: Lake,
    repository: str,
    rows: str,
    others: str,
    given: dict[str, Any],
    says: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two first appends, or two that add columns: the later one is as if it had begun later."""
    target, spark = f"{repository}/main/t", lake.spark
    if "merge_schema" in given:
        write(lake, spark.range(1), target)
    df, other = (spark.range(3).selectExpr(*text.split(", ")) for text in (rows, others))
    beside = given | ({"partition_by": "q"} if " q" in others else {})
    meanwhile = Meanwhile(monkeypatch, "begin", after=True)
    meanwhile.write = lambda: write(lake, other, target, "append", **beside)
    with pytest.raises(Invalid, match=says):
        write(lake, df, target, "append", **given)
    newest = log(lake.session, repository)[0]["id"]
    assert read(lake, f"{repository}/{newest}/t").count() == 3 + ("merge_schema" in given)


@pytest.mark.one_version
def test_an_append_that_lands_at_the_moment_of_another_one_is_checked_too(
    lake: Lake, repository: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The landing guards the schema, so the later one is as if it had begun later."""
    target, spark = f"{repository}/main/t", lake.spark
    meanwhile = Meanwhile(monkeypatch, "finish", after=False)
    meanwhile.write = lambda: write(lake, spark.range(2).selectExpr("'x' AS id"), target, "append")
    with pytest.raises(Invalid, match=r"column=id table=string rows=bigint"):
        write(lake, spark.range(3), target, "append")
    assert len(log(lake.session, repository)) == 2 and read(lake, target).count() == 2
    meanwhile = Meanwhile(monkeypatch, "finish", after=False)
    meanwhile.write = lambda: write(lake, spark.range(2), f"{repository}/main/u", "append")
    write(lake, spark.range(3), f"{repository}/main/v", "append")


def test_an_append_may_lack_columns_and_add_some(lake: Lake, repository: str) -> None:
    target, spark = f"{repository}/main/t", lake.spark
    write(lake, spark.range(2).selectExpr("id", "'x' AS name"), target)
    write(lake, spark.range(2, 3).selectExpr("int(id) AS id"), target, "append")
    added = spark.range(3, 4).selectExpr("id", "id > 0 AS more")
    write(lake, added, target, "append", merge_schema=True)
    df = read(lake, target)
    assert df.dtypes == [("id", "bigint"), ("name", "string"), ("more", "boolean")]
    expected = [(0, "x", None), (1, "x", None), (2, None, None), (3, None, True)]
    assert sorted(map(tuple, df.collect()), key=repr) == expected


def test_local_times_keep_their_values(lake: Lake, repository: str) -> None:
    """In a session whose zone is not UTC, beside a time that is a moment."""
    name = "spark.sql.session.timeZone"
    lake.spark.conf.set(name, "Asia/Tokyo")
    try:
        df = lake.spark.sql(
            "SELECT timestamp_ntz'2024-03-31 02:30:00' AS local, "
            "timestamp'2024-03-31 02:30:00' AS moment"
        )
        for format in ("parquet", "orc"):
            options: dict[str, Any] = dict(format=format)
            write(lake, df, f"{repository}/main/{format}", **options)
            back = read(lake, f"{repository}/main/{format}", format)
            assert back.dtypes == [("local", "timestamp_ntz"), ("moment", "timestamp")]
            texts = "string(local)", "string(moment)"
            assert back.selectExpr(*texts).collect() == df.selectExpr(*texts).collect()
    finally:
        lake.spark.conf.unset(name)


def test_modes_are_spelled_as_spark_spells_them(lake: Lake, repository: str) -> None:
    target, df = f"{repository}/main/t", lake.spark.range(2)
    landed = write(lake, df, target, "ErrorIfExists")
    for same in ("errorifexists", "default"):
        with pytest.raises(Conflict, match="the path is not empty"):
            write(lake, df, target, same)
    ignored = write(lake, df, target, "ignore")
    assert (ignored.commit, ignored.files, ignored.rows) == (landed.commit, 0, 0)
    for unknown in ("upsert", "appendifexists"):
        with pytest.raises(Invalid, match="mode must be one of append,overwrite,errorifexists"):
            write(lake, df, target, unknown)
    with pytest.raises(Invalid, match="name the folder of the table"):
        write(lake, df, f"{repository}/main", "overwrite")
    assert write(lake, df, target, "Overwrite").rows == 2


def test_an_overwrite_without_rows_leaves_a_table_without_rows(lake: Lake, repository: str) -> None:
    target = f"{repository}/main/t"
    df = lake.spark.range(2).selectExpr("id", "'x' AS day")
    write(lake, df, target, partition_by="day")
    write(lake, df.limit(0), target, "overwrite", partition_by="day")
    empty = read(lake, target)
    assert (empty.columns, empty.count()) == (["id", "day"], 0)
    write(lake, df, target, "append", partition_by="day")
    assert read(lake, target).count() == 2


@pytest.mark.one_version
@pytest.mark.parametrize(("format", "columns"), [("csv", ["id", "day"]), ("json", [])])
def test_an_overwrite_without_rows_leaves_text_that_can_be_read_and_appended_to(
    lake: Lake, repository: str, format: str, columns: list[str]
) -> None:
    """JSON without rows has no columns."""
    target, options = f"{repository}/main/t", {"format": format}
    df = lake.spark.range(2).selectExpr("id", "'x' AS day")
    write(lake, df, target, **options)
    write(lake, df.limit(0), target, "overwrite", **options)
    empty = read(lake, target, format)
    assert (empty.columns, empty.count()) == (columns, 0)
    write(lake, df, target, "append", **options)
    assert sorted_rows(read(lake, target, format), "id", "day") == [(0, "x"), (1, "x")]


def test_a_batch_of_a_stream_that_is_repeated_lands_once(
    lake: Lake, repository: str, tmp_path: Path
) -> None:
    """As the page says: the name of a write is that of its batch."""
    lake.spark.range(6).write.parquet(str(tmp_path / "in"))
    commits: list[str] = []

    def land(rows: DataFrame, batch: int) -> None:
        for _ in range(2):
            options: dict[str, Any] = dict(job=f"orders-a-{batch}")
            saved = write(lake, rows, f"{repository}/main/t", "append", **options)
            commits.append(saved.commit)

    stream = lake.spark.readStream.schema("id long").parquet(str(tmp_path / "in"))
    query = stream.writeStream.foreachBatch(land).trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    assert len(commits) == 2 and len(set(commits)) == 1
    assert sorted_rows(read(lake, f"{repository}/main/t"), "id") == [(at,) for at in range(6)]
