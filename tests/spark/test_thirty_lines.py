"""What users do every day, in the fewest lines: each as it stands in a notebook."""

from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import DataFrame

from graveler.lake.change import CheckFailed
from graveler.lake.ref import Ref
from graveler.spark import Lake, register, write_stream
from tests.spark.conftest import HAS_SOURCES
from tests.spark.verbs.test_land import repository

__all__ = ["repository"]  # a fixture


def test_the_thirty_lines(lake: Lake, repository: str, tmp_path: Path) -> None:
    spark, name = lake.spark, repository
    df = spark.range(9).selectExpr("id", "date_add(date'2026-11-01', int(id % 3)) AS day")
    day, fresh = df.where("day = '2026-11-02'"), df.selectExpr("id + 7 AS id", "day")

    # One object.
    main = lake.repository(name).branch("main")
    orders = main.table("orders")

    # Write a table, by partitions.
    orders.append(df, partition_by="day")
    main.tag("v1.0")

    # Run a day again: only its partition is replaced, and once.
    first = orders.overwrite(day.limit(2), partitions="touched", job="o-1102")
    again = orders.overwrite(day.limit(2), partitions="touched", job="o-1102")
    assert again.commit == first.commit and orders.read().count() == 8

    # Read at a ref, with what is needed alone.
    d = date(2026, 11, 2)
    old = lake.repository(name).tag("v1.0").table("orders")
    assert old.read(columns=["id"], where=[("day", ">=", d)]).count() == 6
    assert orders.read(at="v1.0").count() == 9

    # Write, audit, publish: several tables at once.
    def no_nulls(ref: Ref) -> DataFrame:
        bad: DataFrame = ref.table("orders").read(where="id IS NULL")
        return bad

    with main.change("load", checks=[no_nulls]) as wip:
        wip.table("orders").append(spark.sql("SELECT 50L AS id, date'2026-11-04' AS day"))
        wip.table("customers").append(spark.range(3))
    with pytest.raises(CheckFailed), main.change("bad", checks=[no_nulls]) as wip:
        wip.table("orders").append(spark.sql("SELECT cast(null AS bigint) AS id, day FROM "
                                             "(SELECT date'2026-11-04' AS day)"))  # fmt: skip
    assert main.table("customers").read().count() == 3 and orders.read().count() == 9

    # Change rows by a key, remove rows, repair files.
    before = main.pin()
    orders.upsert(fresh, on=["id"])
    orders.delete(where="id = 50")
    orders.compact(target_mb=256)

    # Compare rows; only changed files are read.
    changes = orders.diff(before, on=["id"]).groupBy("type").count().collect()
    assert {row["type"] for row in changes} <= {"added", "changed", "removed"} and changes

    # SQL on a branch.
    dev = main.create_branch("dev")
    dev.table("orders").schema.add("note", "string")
    lake.use(f"{name}/dev")
    assert spark.sql("SELECT count(*) FROM orders WHERE note IS NULL").collect()[0][0] > 9

    # Stream in: each batch is one commit, and lands once.
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("1\n2\n")
    clicks = spark.readStream.schema("id bigint").csv(str(tmp_path / "in"))
    to, checkpoint = f"{name}/main/clicks", str(tmp_path / "checkpoint")
    once = {"availableNow": True}
    write_stream(lake, clicks, to, checkpoint=checkpoint, trigger=once).awaitTermination()
    assert main.table("clicks").count() == 2

    # Spark's own words, on Spark 4.
    if HAS_SOURCES:
        register(lake)
        save = day.write.format("graveler").mode("append").option("partitionBy", "day")
        save.save(f"{name}/main/more")
        loaded = spark.read.format("graveler").load(f"{name}/main/more")
        assert loaded.count() == main.table("more").count() == day.count()

        # Follow what changes, on Spark 4.
        feed = spark.readStream.format("graveler").option("table", "changes")
        changed = feed.option("since", "main~1").load(f"{name}/main/more")
        query = changed.writeStream.format("memory").queryName("feed").start()
        query.processAllAvailable()
        query.stop()
        head = main.pin().id
        assert {(row["_commit"], row["_change_type"]) for row in spark.table("feed").collect()} == {
            (head, "added")
        }

    # History.
    assert orders.history(limit=1)[0].message == "Compact orders"
