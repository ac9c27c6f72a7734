"""Rows to import, and the metarange that one writer of the same entries makes."""

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from graveler.committed import writer
from graveler.committed.reader import ranges
from graveler.core.ids import MetarangeId
from graveler.core.records import AddressType, Entry, RangeRef
from graveler.core.wire import encode_entry
from graveler.lake.session import Session
from graveler.spark import Lake, Landed, Table, cuts
from graveler.spark.import_columns import Addresses, canonical
from graveler.spark.import_tasks import TaskOrder, importing
from graveler.spark.join import ROUNDS, Rounds, here, joined_over
from graveler.spark.lake import Credentials
from graveler.spark.places import Place, opened
from graveler.spark.tasks import Task

SCHEMA = (
    "path string, address string, size bigint, checksum string, mtime bigint, "
    "metadata map<string,string>, content_type string"
)
Row = tuple[Any, ...]
# Of the stores that tests serve.
KEYS = Credentials("TESTKEY", "a-secret-of-tests-and-of-nothing-else")


def some_rows(seed: int, count: int) -> list[Row]:
    """Rows of different paths in random order; some have metadata, a type, letters beyond ASCII."""
    chance = random.Random(seed)
    rows: list[Row] = []
    for number in chance.sample(range(count * 10), count):
        table = ("orders", "é\u4e16界", "z\U0001f600")[number % 3]
        metadata = {"b": "2", "a": f"ü{number}"} if number % 7 == 0 else None
        rows.append(
            (
                f"{table}/day={number % 31:02}/part-{number}",
                f"local://source/{table}/{number}",
                chance.choice((0, 1, 127, 128, 1 << 20, 1 << 40)) + number % 300,
                f"{number:032x}",
                1_700_000_000_000_000 + number * 1_001,
                metadata,
                "text/csv" if number % 5 == 0 else None,
            )
        )
    return rows


def frame(spark: SparkSession, rows: Sequence[Row], partitions: int = 3) -> DataFrame:
    """The rows as a DataFrame of some partitions."""
    return spark.createDataFrame(list(rows), SCHEMA).repartition(partitions)


def entry(row: Row) -> Entry:
    """What the row says."""
    _, address, size, checksum, mtime, metadata, content_type = row
    return Entry(
        address=address,
        size=size,
        checksum=checksum,
        modified_ns=mtime * 1_000,
        metadata=metadata or {},
        address_type=AddressType.FULL,
        content_type=content_type or "",
    )


def sequential(
    place: Place, rows: Iterable[Row], beside: Path
) -> tuple[MetarangeId, list[RangeRef]]:
    """What one writer makes of the rows, in a store of its own."""
    other = Place(f"local:{beside}", place.namespace, place.breaks)
    space = opened(other).space
    records = sorted((row[0].encode(), encode_entry(entry(row))) for row in rows)
    found = writer.write(space, records)
    return found, list(ranges(space, found))


def files(folder: Path) -> set[str]:
    """The names of all range and metarange files below a folder of objects."""
    return {path.name.split(".")[0].lstrip("=") for path in folder.rglob("_lakefs/*")}


def joined(
    place: Place,
    cuts: Sequence[bytes],
    made: Mapping[int, Sequence[RangeRef]],
    base: Sequence[RangeRef] = (),
    rounds: Rounds = ROUNDS,
) -> tuple[RangeRef, ...]:
    """The ranges of all buckets, put together without Spark."""
    return joined_over(here(opened(place).space), place.breaks, base, cuts, made, rounds)


def lake_with(lake: Lake, *, spark: Any = ..., session: Session | None = None) -> Lake:
    """The lake with another session of Spark, or of the API."""
    return Lake(lake.spark if spark is ... else spark, session or lake.session, lake.store)


def named(job: str, **more: Any) -> Any:
    """The keywords of a job with a name."""
    return {"job": job, **more}


def write(lake: Lake, df: DataFrame, where: str, mode: Any = "errorifexists", **how: Any) -> Landed:
    """Write a table at "repository/branch/folder"."""
    ref, path = lake.at(where)
    table: Table = ref.table(path)
    return table.write(df, mode, **how)


class Spread(NamedTuple):
    """Rows as four tasks of an import get them, where these are cut, and what a task does."""

    rows: DataFrame
    cuts: Sequence[bytes]
    task: Task


def spread(spark: SparkSession, place: Place, rows: Sequence[Row]) -> Spread:
    """For tests that let tasks fail, die, or run twice."""
    plain = canonical(frame(spark, rows), b"")
    at = cuts.chosen(cuts.survey(plain, place.breaks), place.breaks, 4)
    given = cuts.with_hashes(cuts.spread(cuts.with_ends(plain, place.breaks), at), cuts.PATH)
    return Spread(given, at, importing(TaskOrder(place, Addresses.FULL, at, 10)))
