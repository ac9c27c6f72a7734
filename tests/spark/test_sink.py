"""Spark 4 writes and follows tables by the name of a format; nothing is registered for it."""

import os
import pickle
from datetime import UTC, date, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from graveler.core.errors import Invalid
from graveler.core.settings import KEY_VARIABLE, SECRET_VARIABLE
from graveler.spark import Lake, register
from graveler.spark.planner import OwnPlanner
from pyspark_graveler import DefaultSource
from tests.spark.lakes import KEYS, write
from tests.spark.programs import WAIT_SECONDS
from tests.spark.verbs.test_land import log, repository

__all__ = ["repository"]  # a fixture


@pytest.fixture(autouse=True)
def registered(lake: Lake) -> None:
    register(lake)


def rows(df: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, df.collect()), key=repr)


def save(df: DataFrame, at: str, mode: str = "append", **options: str) -> None:
    df.write.format("graveler").mode(mode).options(**options).save(at)


def test_what_spark_sends_has_no_secret_and_one_commit(
    lake: Lake, repository: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through the functions with which Spark's workers plan: one for a registered lake, one for the
    lake of the environment."""
    from pyspark.sql.worker.plan_data_source_read import write_read_func_and_partitions

    monkeypatch.setenv(KEY_VARIABLE, KEYS[0])
    monkeypatch.setenv(SECRET_VARIABLE, KEYS[1])
    where = f"{repository}/main/t"
    write(lake, lake.spark.range(3), where)
    first = log(lake.session, repository)[0]["id"]
    own = DefaultSource({"path": where, "url": lake.session.url, "store": lake.store})
    assert isinstance(own.source.planner, OwnPlanner)
    schema = own.schema()
    write(lake, lake.spark.range(9), where, "append")  # after Spark has the columns
    sent = pickle.loads(pickle.dumps(own))
    out = BytesIO()
    write_read_func_and_partitions(
        out,
        reader=sent.reader(schema),
        data_source=sent,
        schema=schema,
        max_arrow_batch_size=100,
        binary_as_bytes=True,
    )
    assert KEYS[1].encode() not in out.getvalue() + pickle.dumps(own)
    assert sent.source.pins["path"] == f"{repository}/{first}/t/"
    reader = sent.reader(schema)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    assert sum(batch.num_rows for batch in batches) == 3
    writer = sent.writer(StructType().add("id", "long"), False)
    assert KEYS[1].encode() not in pickle.dumps(writer)


def stored(lake: Lake, repository: str) -> set[str]:
    """The data files in the store, whether commits name them or not."""
    folder = Path(lake.store) / "objects" / "lake" / repository / "data"
    return {str(path) for path in folder.rglob("*") if path.is_file()}


def test_options_are_checked(lake: Lake, repository: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Spark asks for a writer; once by Spark itself."""
    where, ids = f"{repository}/main/t", StructType().add("id", "long")
    own = {"url": lake.session.url, "store": lake.store}
    monkeypatch.setenv(KEY_VARIABLE, KEYS[0])
    monkeypatch.setenv(SECRET_VARIABLE, KEYS[1])
    for options, says in (
        ({"partitionby": "x"}, "unknown or repeated column"),
        ({"partition_by": "id"}, "unknown options: partition_by of=.*partitionBy"),
        ({"where": "id = 1"}, "options of reads, or unknown: where of=.*partitionBy"),
        ({"maxrecordsperfile": "0"}, "maxRecordsPerFile must be"),
        ({"metadata": "x"}, "metadata must be a JSON object"),
        ({"format": "xml"}, "format must be one of"),
    ):
        with pytest.raises(Invalid, match=says):
            DefaultSource({"path": where, **own, **options}).writer(ids, False)
    with pytest.raises(Invalid, match="name a folder"):
        DefaultSource({"path": f"{repository}/main", **own}).writer(ids, True)
    with pytest.raises(PySparkException, match="NotFound"):
        save(lake.spark.range(2), f"{repository}/nowhere/t")
    with pytest.raises(PySparkException, match="maxRecordsPerFile must be"):
        save(lake.spark.range(2), where, maxRecordsPerFile="0")
    assert len(log(lake.session, repository)) == 1


def test_saves_land_as_one_commit(lake: Lake, repository: str) -> None:
    where, spark = f"{repository}/main/t", lake.spark
    times = [datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(2026, 1, 1, 12, 0, 0, 120_000, UTC)]
    df = spark.range(60).select(
        "id",
        (F.col("id") % 3).cast("string").alias("day"),
        F.when(F.col("id") % 2 == 0, F.lit(times[0])).otherwise(F.lit(times[1])).alias("t"),
        F.when(F.col("id") > 3, F.lit(date(2026, 1, 2))).alias("d"),
    )
    save(df, where, partitionBy="day,t,d", message="load", metadata='{"run": "7"}')
    newest, *others = log(lake.session, repository)
    assert (newest["message"], newest["metadata"]["run"], len(others)) == ("load", "7", 1)
    found = spark.read.format("graveler").load(where)
    assert rows(found.select("id", "day", "t", "d")) == rows(df)
    paths = [each.path for each in lake.repository(repository).branch("main").table("t").files()]
    assert any("t=2026-01-01 12%3A00%3A00.12/" in path for path in paths)
    save(df.limit(5), where)
    assert spark.read.format("graveler").load(where).count() == 65
    save(df.limit(4).where("day = '0'"), where, "overwrite", partitionOverwriteMode="dynamic")
    with pytest.raises(PySparkException, match="has another type"):
        save(df.withColumn("id", F.lit("x")), where)
    with pytest.raises(PySparkException, match="do not match the existing table"):
        df.write.format("graveler").mode("append").partitionBy("day").save(where)
    save(spark.range(2), where, "overwrite")
    assert rows(spark.read.format("graveler").load(where)) == [(0,), (1,)]
    before = len(log(lake.session, repository))
    save(spark.range(3), where, job="nightly")
    files = stored(lake, repository)
    save(spark.range(3), where, job="nightly")
    assert files and stored(lake, repository) == files  # not even garbage
    assert len(log(lake.session, repository)) == before + 1
    save(spark.range(0), where)
    assert len(log(lake.session, repository)) == before + 1


def test_sql_reads_and_inserts_through_a_view(lake: Lake, repository: str) -> None:
    """A table in Spark's catalog hands its options to no source, so it is refused."""
    where, spark = f"{repository}/main/t", lake.spark
    write(lake, spark.range(3), where)
    spark.sql(f"CREATE TEMPORARY VIEW numbers USING graveler OPTIONS (path '{where}')")
    try:
        spark.sql("INSERT INTO numbers SELECT 7L AS id")
        spark.sql("INSERT OVERWRITE numbers SELECT id + 10 FROM range(2)")
        # The view stays at its commit.
        assert rows(spark.sql("SELECT * FROM numbers")) == [(0,), (1,), (2,)]
    finally:
        spark.sql("DROP VIEW numbers")
    assert rows(spark.read.format("graveler").load(where)) == [(10,), (11,)]
    assert [commit["message"] for commit in log(lake.session, repository)[:2]] == ["Write t"] * 2


def test_a_failed_save_lands_nothing(lake: Lake, repository: str) -> None:
    df = lake.spark.range(100).select(F.expr("IF(id = 77, raise_error('broken'), id)").alias("id"))
    with pytest.raises(PySparkException, match="broken"):
        save(df, f"{repository}/main/t")
    assert len(log(lake.session, repository)) == 1


# ---- streams -------------------------------------------------------------------------------------


def test_a_batch_is_planned_once(lake: Lake, repository: str) -> None:
    """Of each batch, Spark plans the tasks by a new instance and lands it by one that it has sent.
    The latter needs no plan, and neither looks for the commit that a read would have."""
    asked: list[str] = []

    class Asking:
        def ask(self, question: Any, answering: Any) -> Any:
            asked.append(question["call"])
            return answering(lake, question)

    class Asked(DefaultSource):
        planner = Asking()

    ids, where = StructType().add("id", "long"), f"{repository}/main/t"
    planning = Asked({"path": where})
    planning.streamWriter(ids, False).__getstate__()  # which Spark pickles for the tasks
    assert asked == ["write"]
    sent = Asked.__new__(Asked)
    sent.__dict__.update(planning.__getstate__())
    asked.clear()
    landing = sent.streamWriter(ids, False)
    landing.commit([], 1)
    assert asked == []
    assert landing.__getstate__()["writing"].plan.order.schema.names == ["id"]


def source_of_files(folder: Path, batches: list[int]) -> None:
    folder.mkdir(exist_ok=True)
    for at, value in enumerate(batches, len(list(folder.glob("*.csv")))):
        file = folder / f"{at:03}.csv"
        file.write_text(f"{value}\n")
        os.utime(file, (1_700_000_000 + at, 1_700_000_000 + at))


def incoming(lake: Lake, folder: Path) -> DataFrame:
    reading = lake.spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1)
    return reading.csv(str(folder))


def run(df: DataFrame, checkpoint: Path, where: str, **options: str) -> None:
    writing = df.writeStream.format("graveler").options(**options)
    query = writing.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    started = query.start(where)
    try:
        assert started.awaitTermination(WAIT_SECONDS)
    finally:
        started.stop()


def numbers(lake: Lake, where: str) -> list[int]:
    return sorted(row["id"] for row in lake.spark.read.format("graveler").load(where).collect())


def test_each_batch_lands_once(lake: Lake, repository: str, tmp_path: Path) -> None:
    """Also if the checkpoint forgets that a batch has landed, as when the driver dies before Spark
    notes it; and if two drivers have one checkpoint."""
    where, checkpoint, folder = f"{repository}/main/t", tmp_path / "c", tmp_path / "in"
    source_of_files(folder, [10, 11])
    run(incoming(lake, folder), checkpoint, where)
    commits = log(lake.session, repository)
    assert numbers(lake, where) == [10, 11] and len(commits) == 3
    marks = [commit["metadata"]["graveler.stream"] for commit in commits[:2]]
    assert [mark.rpartition(":")[2] for mark in marks] == ["1", "0"]

    for note in sorted((checkpoint / "commits").glob("*1*")):
        note.unlink()  # batch 1 is not done, Spark believes
    files = stored(lake, repository)
    run(incoming(lake, folder), checkpoint, where)
    assert files and stored(lake, repository) == files  # not even garbage
    assert numbers(lake, where) == [10, 11] and len(log(lake.session, repository)) == 3
    main = lake.repository(repository).branch("main")
    main.write_text("note", "everybody may write such metadata")
    main.commit("a note", metadata={"graveler.stream": "s:" + "9" * 5_000})
    source_of_files(folder, [12])
    run(incoming(lake, folder), checkpoint, where)
    assert numbers(lake, where) == [10, 11, 12]

    # The branch is reset behind the last batch: the next one is refused, until somebody accepts.
    first = log(lake.session, repository)[3]["id"]
    main.reset(to=first)
    source_of_files(folder, [13])
    with pytest.raises(PySparkException, match="reset"):
        run(incoming(lake, folder), checkpoint, where)
    run(incoming(lake, folder), checkpoint, where, on_rewind="accept")
    assert numbers(lake, where) == [10, 13]


def test_a_stream_of_changes_has_the_commit(lake: Lake, repository: str, tmp_path: Path) -> None:
    where, spark = f"{repository}/main/t", lake.spark
    write(lake, spark.range(2), where)
    begin = log(lake.session, repository)[0]["id"]
    write(lake, spark.range(2, 4), where, "append")
    write(lake, spark.range(9, 10), where, "overwrite")

    def follow(table: str, out: str, **options: str) -> DataFrame:
        reading = spark.readStream.format("graveler").options(table=table, **options)
        df = reading.load(where)
        query = df.writeStream.format("parquet").option(
            "checkpointLocation", str(tmp_path / f"{out}-c")
        )
        started = query.trigger(processingTime="0 seconds").start(str(tmp_path / out))
        try:
            started.processAllAvailable()
        finally:
            started.stop()
        return spark.read.schema(df.schema).parquet(str(tmp_path / out))

    second, first = (commit["id"] for commit in log(lake.session, repository)[:2])
    changes = follow("changes", "a", since=begin, columns="size")
    assert changes.columns[:4] == ["_change_type", "path", "left_size", "right_size"]
    kinds = sorted((row["_commit"] == second, row["_change_type"]) for row in changes.collect())
    assert kinds.count((False, "added")) >= 1 and (True, "removed") in kinds
    assert {row["_commit"] for row in changes.collect()} == {first, second}
    write(lake, spark.range(20, 21), where, "append")  # the stream goes on where it was
    later = follow("changes", "a", since=begin, columns="size")
    third = log(lake.session, repository)[0]["id"]
    assert {row["_commit"] for row in later.collect()} == {first, second, third}

    with pytest.raises(PySparkException, match="removes or replaces files"):
        follow("files", "b", since=begin)
    added = follow("files", "d", since=begin, on_removed="ignore")
    assert sorted(row["id"] for row in added.collect()) == [2, 3, 9, 20]
    lake.repository(repository).branch("main").reset(to=begin)
    with pytest.raises(PySparkException, match="is no ancestor"):
        follow("changes", "a", since=begin, columns="size")
    follow("changes", "a", since=begin, columns="size", on_rewrite="diff")
