"""Tables in other formats than Parquet are written and read by tasks as those are."""

from typing import Any

import pytest

from graveler.core.errors import Invalid, Unsupported
from graveler.spark import Lake
from graveler.spark.reads import read
from tests.spark.lakes import write
from tests.spark.verbs.test_land import repository
from tests.spark.verbs.test_read import put, sorted_rows

__all__ = ["repository"]  # a fixture


def test_tables_of_every_format(lake: Lake, repository: str) -> None:
    """Partition columns stand in the paths; a later file may lack a column."""
    df = lake.spark.range(0, 30, 1, 1).selectExpr(
        "id", "cast(id % 2 as int) AS p", "concat('n', id) AS name", "timestamp_micros(id) AS at"
    )
    rows = sorted(map(tuple, df.collect()), key=repr)
    for name in ("orc", "csv", "json"):
        target, options = f"{repository}/main/{name}", {"format": name}
        saved = write(lake, df, target, partition_by=["p"], **options)
        assert (saved.files, saved.rows) == (2, 30)
        back = read(lake, target, name, schema=df.schema)
        assert back.columns == ["id", "name", "at", "p"]
        assert sorted_rows(back, *df.columns) == rows
    write(lake, df.select("id", "p").limit(4), target, "append", partition_by=["p"], **options)
    # Which file is the first, whose columns count without a schema, is chance.
    part = read(lake, target, name, schema=df.schema, columns=["p", "name"], partitions={"p": 1})
    assert sorted_rows(part.where("name IS NULL"), "p") == [(1,), (1,)] and part.count() == 17


def test_what_a_format_cannot_hold_is_refused_before_anything_is_written(
    lake: Lake, repository: str
) -> None:
    odd = lake.spark.range(1).selectExpr("array(id) AS l")
    with pytest.raises(Unsupported, match=r"csv cannot store values.*column=l"):
        write(lake, odd, f"{repository}/main/odd", format="csv")
    files: dict[str, Any] = {"j/a": b"\n"}
    put(lake, f"{repository}-a", files, f"{repository}/main")
    with pytest.raises(Invalid, match="the files have no columns"):
        read(lake, f"{repository}/main/j", "json")
