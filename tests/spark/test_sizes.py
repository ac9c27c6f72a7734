"""What must hold at size: 200,000 rows imported, 1,200 files in one commit."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from graveler.committed import writer
from graveler.committed.reader import ranges
from graveler.core.records import BreakParameters, Record
from graveler.core.wire import encode_entry
from graveler.spark import Lake, entries
from graveler.spark.imports import import_rows
from graveler.spark.places import Place, opened
from graveler.spark.reads import read
from tests.spark.lakes import entry, write
from tests.spark.verbs.test_land import log, repository

__all__ = ["repository"]  # a fixture


ROWS = 200_000
TABLES = 40
FILES = 1_200


def records() -> Iterator[Record]:
    """The rows of the import below, in the order of their paths, as one writer encodes them."""
    for table in range(TABLES):
        for number in range(table, ROWS, TABLES):
            row = (
                f"t{table:02}/part-{number:07}",
                f"local://source/{number}",
                number,
                f"{number:032x}",
                1_700_000_000_000_000 + number * 1_001,
                {"b": "2", "a": str(number)} if number % 7 == 0 else None,
                None,
            )
            yield row[0].encode(), encode_entry(entry(row))


def test_very_many_rows_become_the_ranges_of_one_writer(
    spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    rows = spark.range(0, ROWS, 1, 4).selectExpr(
        f"format_string('t%02d/part-%07d', pmod(id, {TABLES}), id) AS path",
        "concat('local://source/', id) AS address",
        "id AS size",
        "lpad(lower(hex(id)), 32, '0') AS checksum",
        "1700000000000000 + id * 1001 AS mtime",
        "CASE WHEN id % 7 = 0 THEN map('b', '2', 'a', string(id)) END AS metadata",
    )
    place = replace(place, breaks=BreakParameters(salt=b"many"))
    made = import_rows(rows, place)
    alone = opened(Place(f"local:{tmp_path}", place.namespace, place.breaks)).space
    expected = writer.write(alone, records())
    assert (made.metarange, made.count, made.report.is_clean) == (expected, ROWS, True)
    assert list(made.ranges) == list(ranges(alone, expected))
    assert len(made.ranges) >= ROWS // 100_000


def test_many_files_land_in_one_commit(lake: Lake, repository: str) -> None:
    where = f"{repository}/main/t"
    rows = lake.spark.range(0, 2 * FILES - 1, 1, 4)
    saved = write(lake, rows, where, rows_max=2)
    assert (saved.files, saved.rows) == (FILES, 2 * FILES - 1)
    assert entries(lake, where, ["path"]).count() == FILES + 1  # and the schema
    assert len(log(lake.session, repository)) == 2
    table = read(lake, where)
    told = table.selectExpr("count(id)", "count(distinct id)", "max(id)").first()
    assert told is not None and tuple(told) == (saved.rows, saved.rows, saved.rows - 1)
    assert table.rdd.getNumPartitions() <= -(-saved.files // 31)  # one opening is as 4 MiB
