"""Tables on branches: what each verb of `branch.table(…)` leaves, and what it never does."""

import json
import pickle
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

import graveler
from graveler.core.errors import Conflict, Corrupt, Invalid, NotFound, Unsupported
from graveler.lake.change import CheckFailed
from graveler.lake.connections import Connections
from graveler.lake.folders import File
from graveler.lake.ref import Ref
from graveler.spark import Lake, Table, connect
from graveler.spark.landing import prefixes_of
from graveler.spark.rewrites import bins_of
from graveler.spark.table_schema import FILE
from tests.spark.verbs.test_land import repository
from tests.spark.verbs.test_read import put
from tests.spark.verbs.test_write import Meanwhile, failing

__all__ = ["repository"]  # a fixture


@pytest.fixture
def main(lake: Lake, repository: str) -> Any:
    return lake.repository(repository).branch("main")


def days(lake: Lake, *numbers: int) -> DataFrame:
    """Rows (id, day, amount); the day of a row is its number modulo 3."""
    rows = [(at, date(2026, 1, at % 3 + 1), at / 2) for at in numbers]
    return lake.spark.createDataFrame(rows, "id bigint, day date, amount double")


def ids(df: DataFrame) -> list[int]:
    return sorted(row["id"] for row in df.select("id").collect())


def addresses(table: Table) -> set[str]:
    return {each.address for each in table.files()}


# ---- one object ----------------------------------------------------------------------------------


def test_one_lake_has_everything_of_the_library_and_tables(lake: Lake, main: Any) -> None:
    assert graveler.Lake in type(lake).__mro__ and main.repository.lake is lake
    main.write_text("notes/a", "text")
    main.commit("a note")
    orders = main.table("orders/")
    landed = orders.append(days(lake, *range(9)), partition_by="day", message="load")
    assert (landed.rows, landed.commit) == (9, main.pin().id) and landed.seconds > 0
    assert landed.files == len(orders.files().all()) >= 3
    assert landed.bytes == sum(each.size for each in orders.files())
    assert main.log(limit=1)[0].message == "load" and main.read_text("notes/a") == "text"
    assert "9" in landed._repr_html_() and "day" in orders._repr_html_()
    main.tag("v1")
    orders.append(days(lake, 9))
    assert ids(orders.read()) == list(range(10))
    assert ids(orders.read(at="v1")) == ids(main.repository.tag("v1").table("orders").read())
    assert ids(orders.read(at=landed.commit)) == ids(orders.read("main~1")) == list(range(9))
    assert [each.message for each in orders.history()] == ["Append to orders", "load"]


def test_the_name_of_a_partition_column_may_begin_with_an_underscore(lake: Lake, main: Any) -> None:
    table = main.table("orders")
    rows = days(lake, *range(9)).withColumnRenamed("day", "_day")
    landed = table.append(rows, partition_by="_day")
    assert (landed.rows, landed.files) == (9, len(table.files().all()))
    assert landed.files >= 3 and landed.bytes == sum(each.size for each in table.files())
    assert table.read(where="_day = '2026-01-01'").count() == 3


def test_a_library_without_spark_says_what_to_do(lake: Lake, repository: str) -> None:
    plain = graveler.Lake(lake.session).repository(repository).branch("main")
    with pytest.raises(Unsupported, match="no session of Spark") as told:
        plain.table("orders")
    assert isinstance(told.value, graveler.Error) and "spark.connect" in told.value.remedy
    again = connect(lake.spark, graveler.Lake(lake.session), store=lake.store)
    table = again.repository(repository).branch("main").table("orders")
    assert not table.exists() and table.append(days(lake, 1)).rows == 1


def test_no_pickle_takes_the_credentials_along(lake: Lake, main: Any) -> None:
    """A function that a user sends to tasks with the lake in it is refused by the driver."""
    for each in (lake, main, main.table("t"), main.table("t").files):
        with pytest.raises(TypeError, match="not sent to executors"):
            pickle.dumps(each)
    with pytest.raises((pickle.PicklingError, PySparkException, TypeError)):
        lake.spark.range(1).mapInPandas(lambda rows: (rows, lake)[0], "id long").collect()


@pytest.mark.one_version
def test_only_a_folder_of_a_branch_is_written(lake: Lake, main: Any) -> None:
    df = days(lake, 1)
    main.table("t").append(df)
    with pytest.raises(Unsupported, match=r"only a branch can be written: .* is a commit"):
        main.pin().table("t").append(df)
    with pytest.raises(Invalid, match="name the folder of the table"):
        main.table("").overwrite(df)
    with pytest.raises(NotFound, match="no table in this folder"):
        main.table("nothing").delete("id = 1")
    with pytest.raises(FileNotFoundError):
        main.table("nothing").read()


def test_a_store_in_a_folder_needs_no_credentials(lake: Lake, tmp_path: Path) -> None:
    with connect(lake.spark, tmp_path / "lake") as own:
        table = own.create_repository("shop").branch("main").table("t")
        table.append(days(lake, 1, 2))
        assert ids(table.read()) == [1, 2]
    with graveler.open(tmp_path / "lake") as opened:  # it was closed
        assert opened.repository("shop").branch("main").exists("t/")
        table = connect(lake.spark, opened).repository("shop").branch("main").table("t")
        assert ids(table.read()) == [1, 2]


# ---- reading -------------------------------------------------------------------------------------


def test_conditions_are_sql_columns_or_tuples(lake: Lake, main: Any) -> None:
    table = main.table("orders")
    table.append(days(lake, *range(9)), partition_by="day")
    second = date(2026, 1, 2)
    for where in (
        [("day", ">=", second), ("id", "not in", [2, 8])],
        "day >= '2026-01-02' AND id NOT IN (2, 8)",
        (F.col("day") >= F.lit(second)) & ~F.col("id").isin(2, 8),
    ):
        assert ids(table.read(where=where)) == [1, 4, 5, 7]
        found = table.read(columns=["amount"], where=where)
        assert found.columns == ["amount"] and found.count() == 4
    assert table.read(columns="id", where=[("amount", "is", None)]).count() == 0
    for where, says in (
        ([("nothing", "=", 1)], "nothing"),
        ([("id", "~", 1)], "operator"),
        ([("id", "=", None)], "'is'"),
        (["id = 1"], "a condition must be a tuple"),
    ):
        with pytest.raises((Invalid, PySparkException), match=says):
            table.read(columns="id", where=where).collect()


def test_folders_of_a_ref_are_views(lake: Lake, main: Any) -> None:
    spark = lake.spark
    main.table("orders").append(days(lake, *range(6)), partition_by="day")
    main.table("raw/people").append(spark.range(2), format="csv")
    main.write_text("notes/a.txt", "no table")
    main.commit("a note")
    put(lake, f"{main.repository.name}-a", {"left/a.json": b'{"id": 7}\n'}, main.address)
    dev = main.create_branch("dev")
    dev.table("orders").append(days(lake, 6))
    views = lake.use(dev.address)
    assert set(views) == {"orders", "left"} and views["orders"].endswith("/orders")
    counted = "SELECT count(*) FROM orders"
    assert spark.sql(counted).collect()[0][0] == 7
    dev.table("orders").append(days(lake, 7))
    assert spark.sql(counted).collect()[0][0] == 7  # it stays at its commit
    assert spark.sql("SELECT id FROM left").collect()[0][0] == 7
    lake.use(main.address, "orders", "raw/people")
    assert spark.sql(counted).collect()[0][0] == 6
    assert spark.sql("SELECT count(*) FROM people").collect()[0][0] == 2
    with pytest.raises(PySparkException):
        spark.sql("SELECT id FROM left").collect()
    with pytest.raises(Invalid, match="two folders would be one view: orders"):
        lake.use(main.address, "orders", "other/orders")
    assert lake.use(main.address, "orders") and lake._views


# ---- overwrite, upsert, delete, compact ----------------------------------------------------------


def test_an_overwrite_of_touched_partitions_keeps_the_others(lake: Lake, main: Any) -> None:
    table = main.table("orders")
    table.append(days(lake, *range(9)), partition_by="day")
    before = addresses(table)
    landed = table.overwrite(days(lake, 10, 11), partitions="touched")
    assert landed.rows == 2 and ids(table.read()) == [0, 3, 6, 10, 11]
    kept = {each.address for each in table.files() if "2026-01-01" in each.path}
    assert kept < before
    nothing = table.overwrite(days(lake, 1).limit(0), partitions="dynamic")
    assert (nothing.commit, nothing.rows) == (landed.commit, 0)
    assert table.overwrite(days(lake, 12), where=[("day", "<=", date(2026, 1, 2))]).rows == 1
    assert ids(table.read()) == [11, 12]
    with pytest.raises(Invalid, match=r"a row does not meet the condition.*id=4"):
        table.overwrite(days(lake, 3, 4), where="day = '2026-01-01'")
    with pytest.raises(Invalid, match="needs a table with partitions"):
        main.table("plain").overwrite(days(lake, 1), partitions="touched")
    assert table.overwrite(days(lake, 5).drop("amount")).rows == 1  # all of it, the schema too
    assert table.schema.names == ["id", "day"] and table.schema.partition_by == ("day",)


def test_an_overwrite_of_rows_makes_the_table(lake: Lake, main: Any) -> None:
    """So the first load of a day is as the later ones."""
    table = main.table("orders")
    for numbers in ((0, 3), (6,)):
        where = "day = '2026-01-01'"
        landed = table.overwrite(days(lake, *numbers), where=where, partition_by="day")
        assert landed.rows == len(numbers) and ids(table.read()) == list(numbers)
        assert table.schema.partition_by == ("day",)
    empty = main.table("empty")
    assert empty.overwrite(days(lake, 1).limit(0), where="id = 1").rows == 0
    assert empty.count() == 0 and empty.schema.names == ["id", "day", "amount"]


def test_an_overwrite_keeps_to_the_setting_of_the_session(lake: Lake, main: Any) -> None:
    """As Spark's own: under *dynamic*, partitions without new rows stay."""
    table, plain = main.table("orders"), main.table("plain")
    name = "spark.sql.sources.partitionOverwriteMode"
    lake.spark.conf.set(name, "dynamic")
    try:
        table.overwrite(days(lake, *range(9)), partition_by="day")  # it makes the table
        table.overwrite(days(lake, 10), job="o-1")
        assert ids(table.read()) == [0, 2, 3, 5, 6, 8, 10]
        table.write(days(lake, 11), "overwrite")
        assert ids(table.read()) == [0, 3, 6, 10, 11]
        landed = table.overwrite(days(lake, 1).limit(0))
        assert landed.files == 0 and ids(table.read()) == [0, 3, 6, 10, 11]
        with pytest.raises(Invalid, match="nothing has landed"):
            main.undo(landed)
        with pytest.raises(Invalid, match="lack a partition column") as refused:
            table.overwrite(lake.spark.range(3))
        assert 'partitions="static"' in refused.value.fields["remedy"]
        assert table.overwrite(days(lake, 12), partitions="static").rows == 1
        assert ids(table.read()) == [12]
        plain.append(days(lake, 1))
        plain.overwrite(days(lake, 2))
        assert ids(plain.read()) == [2]
    finally:
        lake.spark.conf.unset(name)
    table.overwrite(days(lake, 1))
    assert ids(table.read()) == [1]


@pytest.mark.parametrize("is_stored", [False, True])
def test_partitions_that_others_spell_otherwise_are_the_same(
    lake: Lake, repository: str, main: Any, is_stored: bool
) -> None:
    files = {
        "t/m=01/c=S%C3%A3o/a.parquet": pa.table({"id": [1, 2]}),
        "t/m=02/c=Oslo/a.parquet": pa.table({"id": [3]}),
    }
    put(lake, f"{repository}-a", files, f"{repository}/main")
    table = main.table("t")
    if is_stored:
        table.append(lake.spark.sql("SELECT 4L AS id, 2 AS m, 'Oslo' AS c"))
    others = [3, 4] if is_stored else [3]
    new = lake.spark.sql("SELECT 2L AS id, 1 AS m, 'São' AS c")
    table.upsert(new, on=["m", "c", "id"])
    assert ids(table.read()) == [1, 2, *others]
    table.overwrite(new, partitions="touched")
    assert ids(table.read()) == [2, *others]


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_a_time_without_a_zone_means_the_same_for_all_verbs(
    lake: Lake, main: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not what the clocks of the driver and of the session show."""
    rows = lake.spark.range(4).selectExpr(
        "id", f"cast(concat('2026-01-01 0', id, ':00:00Z') AS {kind}) AS t"
    )
    table = main.table("t")
    table.append(rows)
    lake.spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        one, two = datetime(2026, 1, 1, 1), datetime(2026, 1, 1, 2)
        assert ids(table.read(where=[("t", "=", one)])) == [1]
        assert table.delete([("t", "=", one)]).rows == 1
        assert table.delete([("t", "in", [two])]).rows == 1
        assert table.delete([("t", ">=", two.replace(hour=3))]).rows == 1
        assert ids(table.read(columns=["id"])) == [0]
    finally:
        lake.spark.conf.unset("spark.sql.session.timeZone")
        monkeypatch.undo()
        time.tzset()


def test_a_small_append_is_one_job_and_few_requests(
    lake: Lake, main: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To a new table, too: what is in the folder is listed without a job."""
    sent: list[str] = []
    send = Connections.send

    def counted(self: Connections, request: Any) -> Any:
        sent.append(f"{request.method} {request.url}")
        return send(self, request)

    tracker = lake.spark.sparkContext.statusTracker()
    main.table("other").append(days(lake, 1))  # what is asked of a server once
    monkeypatch.setattr(Connections, "send", counted)
    for rows in (days(lake, 1, 2, 3), days(lake, 4, 5, 6)):
        sent.clear()
        jobs = set(tracker.getJobIdsForGroup())
        main.table("t").append(rows)
        assert len(set(tracker.getJobIdsForGroup()) - jobs) == 1
        assert len(sent) == 4, sent
    sent.clear()
    frame = main.table("t").read()
    assert len(sent) == 3, sent
    assert frame.count() == main.table("t").count() == 6
    assert len(sent) == 6, sent


def test_an_overwrite_of_rows_keeps_the_other_rows_of_their_files(
    lake: Lake, main: Any, tmp_path: Path
) -> None:
    table = main.table("orders")
    table.append(days(lake, *range(9)).coalesce(1))

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with tmp_path.joinpath("evaluated").open("a") as file:
            file.write("once ")
        yield from batches

    new = days(lake, 3).withColumn("amount", F.lit(99.0)).coalesce(1)
    table.overwrite(new.mapInArrow(counted, new.schema), where="id = 3")
    assert tmp_path.joinpath("evaluated").read_text() == "once "
    assert ids(table.read()) == list(range(9))
    assert table.read(where="id = 3").collect()[0]["amount"] == 99.0
    assert len(table.files().all()) == 2


def test_an_upsert_replaces_rows_by_their_key_and_adds_others(lake: Lake, main: Any) -> None:
    table = main.table("orders")
    table.append(days(lake, *range(0, 9)), partition_by="day")
    third = {each.address for each in table.files() if "2026-01-03" in each.path}
    new = days(lake, 1, 9).withColumn("amount", F.lit(-1.0)).cache()
    landed = table.upsert(new, on=["day", "id"])
    assert new.storageLevel.useMemory  # a cache of the caller stays
    new.unpersist()
    assert (landed.rows, ids(table.read())) == (2, list(range(10)))
    assert ids(table.read(where="amount < 0")) == [1, 9]
    assert third <= addresses(table)  # nobody looked into the partition of neither row
    moved = days(lake, 4).withColumn("day", F.lit(date(2026, 1, 3)))
    table.upsert(moved, on="id")  # a key that is in another partition
    assert ids(table.read()) == list(range(10)) and ids(table.read(where=moved_to(4))) == [4]
    with pytest.raises(Invalid, match=r"a key twice.*id=1"):
        table.upsert(days(lake, 1, 1), on="id")
    with pytest.raises(Invalid, match="must name the columns of the key"):
        table.upsert(days(lake, 1), on="nothing")
    fresh = main.table("fresh")
    assert fresh.upsert(days(lake, 1, 2), on="id").rows == 2 and ids(fresh.read()) == [1, 2]


def moved_to(id: int) -> list[tuple[str, str, Any]]:
    return [("id", "=", id), ("day", "=", date(2026, 1, 3))]


def test_a_delete_writes_only_the_files_that_hold_such_rows(lake: Lake, main: Any) -> None:
    table = main.table("orders")
    table.append(days(lake, *range(9)), partition_by="day")
    table.append(days(lake, 10).withColumn("amount", F.lit(None).cast("double")))
    before = addresses(table)
    landed = table.delete("id = 4 OR amount > 3.9")  # 4 and 8; null is neither
    assert (landed.rows, ids(table.read())) == (2, [0, 1, 2, 3, 5, 6, 7, 10])
    assert len(before - addresses(table)) == 2
    gone = table.delete([("day", "=", date(2026, 1, 1))])
    assert (gone.rows, gone.files, ids(table.read())) == (3, 0, [1, 2, 5, 7, 10])
    assert table.delete("id = 77").commit == gone.commit  # nothing landed
    nothings: list[Any] = [[], " "]
    for nothing in nothings:
        with pytest.raises(Invalid, match="where is empty"):
            table.delete(nothing)
    table.delete("true")
    assert table.read().count() == 0 and table.read(columns="id").columns == ["id"]
    assert main.exists(f"orders/{FILE}") and table.append(days(lake, 1)).rows == 1


def test_a_compaction_moves_rows_and_changes_none(lake: Lake, main: Any) -> None:
    table = main.table("orders")
    for first in range(3):
        table.append(days(lake, *range(first * 6, first * 6 + 6)), partition_by="day")
    before = main.pin()
    landed = table.compact(target_mb=1)
    assert (landed.rows, landed.files) == (18, 3) and len(table.files().all()) == 3
    assert ids(table.read()) == list(range(18))
    assert table.diff(before).count() == 0 and table.diff(before, on="id").count() == 0
    assert table.compact().commit == landed.commit  # there is nothing to do
    table.append(days(lake, 0, 1))
    one = table.compact(where=[("day", "=", date(2026, 1, 1))])
    assert one.files == 1 and len(table.files().all()) == 4
    with pytest.raises(Invalid, match="partition columns only"):
        table.compact(where="id = 1")


@pytest.mark.one_version
def test_a_rewrite_begins_again_if_its_files_have_changed(
    lake: Lake, main: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a row that another one deletes at the same moment does not come back, and none is lost."""
    table = main.table("orders")
    table.append(days(lake, *range(6)).coalesce(1))
    works: dict[str, Callable[[], object]] = {
        "compact": lambda: table.compact(),
        "upsert": lambda: table.upsert(days(lake, 1, 20), on="id"),
        "delete": lambda: table.delete("id = 2"),
        "overwrite": lambda: table.overwrite(days(lake, 3), where="id = 3"),
    }
    for number, (name, work) in enumerate(works.items()):
        table.append(days(lake, 100 + number))
        meanwhile = Meanwhile(monkeypatch, "finish", after=False)
        meanwhile.write = lambda number=number: table.delete(f"id IN (0, {100 + number})")  # type: ignore[misc]
        work()
        monkeypatch.undo()
        assert not {0, 100 + number} & set(ids(table.read())), name
        table.append(days(lake, 0))
    assert ids(table.read()) == [0, 1, 3, 4, 5, 20]


@pytest.mark.one_version
def test_a_named_job_lands_once_although_others_changed_its_files(
    lake: Lake, main: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = main.table("orders")
    table.append(days(lake, *range(6)).coalesce(1))
    meanwhile = Meanwhile(monkeypatch, "finish", after=False)
    meanwhile.write = lambda: table.delete("id = 0")
    landed = table.upsert(days(lake, 1, 9), on="id", job="daily")
    monkeypatch.undo()
    again = table.upsert(days(lake, 1, 9), on="id", job="daily")
    assert (again.commit, again.files) == (landed.commit, 0)
    jobs = [each for each in main.repository.jobs() if each.id == "daily"]
    main.repository.cancel_job(jobs[0].id)  # the first round, whose base is too old
    again = table.upsert(days(lake, 1, 9), on="id", job="daily")
    assert (again.commit, again.files) == (landed.commit, 0)
    assert ids(table.read()) == [1, 2, 3, 4, 5, 9]
    with pytest.raises(Conflict, match="begun"):
        main.table("other").append(days(lake, 1), job="daily")


@pytest.mark.one_version
def test_a_rewrite_whose_task_fails_leaves_the_table(lake: Lake, main: Any) -> None:
    table = main.table("orders")
    landed = table.append(lake.spark.range(0, 600, 1, 3))
    bad = lake.spark.range(0, 600, 1, 3).mapInArrow(failing(99), "id bigint")
    works: list[Callable[[], object]] = [
        lambda: table.upsert(bad, on="id"),
        lambda: table.overwrite(bad, where="id >= 0"),
        lambda: table.overwrite(bad),
    ]
    for work in works:
        with pytest.raises(PySparkException, match="a task fails on purpose"):
            work()
    assert main.pin().id == landed.commit and table.read().count() == 600


# ---- schema --------------------------------------------------------------------------------------


def test_a_schema_is_stored_and_holds(lake: Lake, main: Any) -> None:
    table = main.table("orders")
    table.append(days(lake, 1, 2), partition_by="day")
    assert table.schema.names == ["id", "amount", "day"] and table.schema["day"].name == "day"
    struct = T.StructType().add("id", "long").add("amount", "double").add("day", "date")
    assert table.schema == struct == table.read().schema
    wrong = days(lake, 3)
    for rows, says in (
        (wrong.withColumn("note", F.lit("x")), r"no such column.*column=note type=string"),
        (wrong.withColumn("id", F.lit("x")), "column=id table=bigint rows=string"),
        (wrong.withColumn("day", F.lit("2026-01-01")), "column=day table=date rows=string"),
        (wrong.drop("day"), "lack a partition column of the table: day"),
        (wrong.withColumnRenamed("id", "ID"), "spells this column 'id'"),
    ):
        with pytest.raises(Invalid, match=says):
            table.append(rows)
    narrow = wrong.selectExpr("int(id) AS id", "day", "float(amount) AS amount")
    table.append(narrow)
    assert {each.dataType for each in table.read().schema} == {each.dataType for each in struct}
    added = table.schema.add("note string")
    assert added.files == 0 and main.log(limit=1)[0].message == "Add note to orders"
    assert table.read().columns == ["id", "amount", "note", "day"]
    table.append(wrong.withColumn("note", F.lit("x")))
    assert table.read(where="note IS NULL").count() == 3
    assert table.read(at="main~2").columns == ["id", "amount", "day"]  # as the schema was then
    calls: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: table.schema.add("NOTE", "int"), Invalid, "has this column"),
        (lambda: table.schema.add("a b"), Invalid, "not a column and its type"),
        (lambda: table.schema.rename("id", "key"), Unsupported, "cannot be renamed.*upsert"),
        (lambda: main.table("none").schema, NotFound, "no table"),
    ]
    for call, kind, says in calls:
        with pytest.raises(kind, match=says):
            call()
    assert "partitioned by day" in repr(table.schema) and "note" in table.schema._repr_html_()


@pytest.mark.one_version
def test_a_stored_schema_runs_no_code_and_is_checked(lake: Lake, main: Any, tmp_path: Path) -> None:
    """Spark would load the pickle of a type that is a class."""
    table, mark = main.table("t"), tmp_path / "mark"
    table.append(days(lake, 1))
    stored = json.loads(main.read_text(f"t/{FILE}"))

    class Type:
        def __reduce__(self) -> Any:
            return mark.touch, ()

    pickled = b64encode(pickle.dumps(Type())).decode()
    code = {"type": "udt", "class": None, "pyClass": "a.B", "serializedClass": pickled}
    code["sqlType"] = "long"  # type: ignore[assignment]
    field = {"name": "x", "type": code, "nullable": True, "metadata": {}}
    fields = [*stored["schema"]["fields"], field]
    for change in (
        {"schema": {"type": "struct", "fields": fields}},
        {"version": 2},
        {"format": "avro"},
        {"partition_by": ["nothing"]},
        {"schema": "long"},
    ):
        main.write_text(f"t/{FILE}", json.dumps({**stored, **change}))
        main.commit("another schema")
        with pytest.raises(Corrupt, match="not a schema of a table"):
            table.read()
    assert not mark.exists()
    main.delete(f"t/{FILE}")
    main.commit("no schema")
    assert ids(table.read()) == [1]


def test_files_of_others_become_a_table_with_a_schema(lake: Lake, main: Any) -> None:
    import pyarrow as pa

    files = {f"t/p={at}/a.parquet": pa.table({"id": pa.array([at], pa.int32())}) for at in (1, 2)}
    put(lake, f"{main.repository.name}-a", files, main.address)
    table = main.table("t")
    assert table.schema.names == ["id", "p"] and not main.exists(f"t/{FILE}")
    table.append(lake.spark.range(3, 4).selectExpr("int(id) AS id", "id AS p"))
    assert main.exists(f"t/{FILE}") and ids(table.read()) == [1, 2, 3]
    assert table.delete([("p", "=", 1)]).rows == 1
    text = {"c/a.csv": b"id,code\n1,007\n"}
    put(lake, f"{main.repository.name}-b", text, main.address)
    codes = main.table("c", format="csv")
    codes.append(lake.spark.range(2, 3).selectExpr("id", "'008' AS code"))
    assert not main.exists(f"c/{FILE}")  # text of others has no types to keep
    for changes in (lambda: codes.delete("id = 1"), lambda: codes.schema.add("note string")):
        with pytest.raises(Invalid, match="text without a schema"):
            changes()


# ---- differences ---------------------------------------------------------------------------------


def test_rows_that_differ_are_found_in_changed_files_alone(lake: Lake, main: Any) -> None:
    table = main.table("orders")
    table.append(days(lake, *range(6)), partition_by="day")
    before = main.pin()
    assert table.diff(before, on="id").count() == 0
    table.upsert(days(lake, 1, 9).withColumn("amount", F.lit(7.0)), on=["id"])
    table.delete("id = 2")
    found = table.diff(before, on="id")
    sides = [f"{side}_{name}" for name in ("amount", "day") for side in ("left", "right")]
    assert found.columns == ["type", "id", *sides]
    rows = {row["id"]: (row["type"], row["left_amount"], row["right_amount"]) for row in
            found.collect()}  # fmt: skip
    assert rows == {1: ("changed", 0.5, 7.0), 2: ("removed", 1.0, None), 9: ("added", None, 7.0)}
    assert table.diff(before, on="id", columns=["day"]).where("type = 'changed'").count() == 0
    whole = table.diff("main~2").groupBy("type").count().collect()
    assert {row["type"]: row["count"] for row in whole} == {"added": 2, "removed": 2}
    with pytest.raises(Invalid, match="on= must name columns"):
        table.diff(before, on="nothing")


# ---- changes -------------------------------------------------------------------------------------


def test_several_tables_are_checked_and_published_at_once(lake: Lake, main: Any) -> None:
    orders, people = main.table("orders"), main.table("people")
    orders.append(days(lake, 1))

    def no_nulls(ref: Ref) -> DataFrame:
        rows: DataFrame = ref.table("orders").read(where="amount IS NULL")
        return rows

    with main.change("load", checks=[no_nulls]) as wip:
        wip.table("orders").append(days(lake, 2))
        wip.table("people").append(lake.spark.range(3))
        assert ids(orders.read()) == [1] and not people.exists()
    assert ids(orders.read()) == [1, 2] and people.read().count() == 3
    assert main.log(limit=1)[0].message == "load"
    bad = days(lake, 3).withColumn("amount", F.lit(None).cast("double"))
    change = main.change("bad", checks=[no_nulls], name="bad")
    with pytest.raises(CheckFailed, match=r"no_nulls found bad rows.*id=3.*kept") as told, change:
        main.repository.branch("bad").table("orders").append(bad)
    assert told.value.branch == "bad" and told.value.rows == (tuple(bad.collect()[0]),)
    assert ids(orders.read()) == [1, 2]
    assert ids(main.repository.branch("bad").table("orders").read()) == [1, 2, 3]


# ---- small parts ---------------------------------------------------------------------------------


def test_a_folder_whose_files_all_go_is_one_prefix() -> None:
    assert prefixes_of(["a=1/p-1", "a=1/p-2", "a=2/p-1"], ["_s", "a=2/p-2"]) == [
        "a=1/p-",
        "a=2/p-1",
    ]
    assert prefixes_of(["part-1", "part-2"], [FILE]) == ["part-"]
    assert prefixes_of([], ["a"]) == []
    with pytest.raises(Invalid, match="begins with this one"):
        prefixes_of(["a"], ["a.more"])


def test_small_files_of_a_partition_share_a_bin() -> None:
    def file(name: str, size: int, *values: str) -> File:
        return File(name, "", size, 0, values)

    files = [file("a", 10, "1"), file("b", 20, "1"), file("c", 80, "1"), file("d", 5, "2")]
    assert [[each.path for each in some] for some in bins_of(files, 100)] == [["b", "a"]]
    many = [file(str(at), 40, "1") for at in range(5)]
    assert sorted(map(len, bins_of(many, 100))) == [2, 2]
