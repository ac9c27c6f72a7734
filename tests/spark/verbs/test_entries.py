"""Entries at a ref come back whole, or not at all."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from graveler.core.errors import Invalid, NotFound
from graveler.core.identity import entry_identity
from graveler.spark import entries, import_
from graveler.spark.imports import import_rows
from graveler.spark.lake import Lake
from graveler.spark.places import Place
from graveler.spark.tables import entries_of
from tests.spark.lakes import entry, frame, some_rows
from tests.spark.verbs.test_land import ascii_rows, log, repository

__all__ = ["repository"]  # a fixture


def test_entries_are_what_was_imported(spark: SparkSession, place: Place) -> None:
    rows = some_rows(90, 700)
    made = import_rows(frame(spark, rows), place)
    found = {
        row["path"]: row.asDict() for row in entries_of(spark, place, made.metarange).collect()
    }
    assert len(found) == 700
    for row in rows:
        path, address, size, checksum, mtime, metadata, content_type = row
        whole, micros = divmod(mtime, 1_000_000)
        when = datetime.fromtimestamp(whole, UTC).replace(tzinfo=None, microsecond=micros)
        assert found[path] == {
            "path": path,
            "address": address,
            "size": size,
            "checksum": checksum,
            "mtime": when,
            "metadata": metadata or {},
            "content_type": content_type or "",
            "identity": bytearray(entry_identity(entry(row))),
        }


@pytest.mark.one_version
def test_a_prefix_reads_the_ranges_that_may_hold_it(
    spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    rows = some_rows(91, 1_500)
    made = import_rows(frame(spark, rows), place)
    for prefix in ("orders/day=1", "z", "é", "none", "orders/day=03/part-1"):
        df = entries_of(spark, place, made.metarange, prefix, ["path", "size"])
        expected = sorted((row[0], row[2]) for row in rows if row[0].startswith(prefix))
        assert sorted(map(tuple, df.collect())) == expected
    # Ranges that cannot hold the prefix are not even opened: they may be gone.
    for ref in made.ranges:
        if ref.max_key < b"z":
            (tmp_path / "objects" / "lake" / "repository" / "_lakefs" / ref.id).unlink()
    last = entries_of(spark, place, made.metarange, "z", ["path"])
    assert last.count() == sum(row[0].startswith("z") for row in rows)


@pytest.mark.one_version
def test_damage_is_an_error_and_never_fewer_rows(
    spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    rows = some_rows(92, 800)
    made = import_rows(frame(spark, rows), place)
    largest = max(made.ranges, key=lambda ref: ref.count)
    file = tmp_path / "objects" / "lake" / "repository" / "_lakefs" / largest.id
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 3] ^= 1
    file.write_bytes(raw)
    with pytest.raises(PySparkException, match=r"Corrupt: .*checksum"):
        entries_of(spark, place, made.metarange, "", ["path"]).collect()


@pytest.mark.one_version
def test_any_ref_can_be_read(lake: Lake, repository: str) -> None:
    rows = ascii_rows(93, 40)
    first = import_(lake, frame(lake.spark, rows[:25]), f"{repository}/main/in")
    import_(lake, frame(lake.spark, rows[20:]), f"{repository}/main/in", "merge")

    def paths(where: str) -> set[str]:
        return {row["path"] for row in entries(lake, where, ["path"]).collect()}

    assert paths(f"{repository}/main") == {f"in/{row[0]}" for row in rows}
    for ref in ("main~1", first.commit, first.commit[:16]):
        assert paths(f"lakefs://{repository}/{ref}/in/") == {f"in/{row[0]}" for row in rows[:25]}
    assert paths(f"{repository}/main~2") == set() and len(log(lake.session, repository)) == 3
    sizes = entries(lake, f"{repository}/main", ["size"]).agg(F.sum("size")).collect()[0][0]
    assert sizes == sum(row[2] for row in rows)


@pytest.mark.one_version
def test_a_folder_is_the_one_that_was_written_to(lake: Lake, repository: str) -> None:
    """Not what else begins with its name."""
    rows = ascii_rows(94, 6)
    import_(lake, frame(lake.spark, rows), f"{repository}/main/in")
    import_(lake, frame(lake.spark, rows), f"{repository}/main/inside", "merge")
    expected = sorted(f"in/{row[0]}" for row in rows)

    def paths(where: str, prefix: str = "") -> list[str]:
        found = entries(lake, f"{repository}/{where}", ["path"], prefix=prefix)
        return sorted(row["path"] for row in found.collect())

    assert paths("main/in") == paths("main/in/") == expected
    assert paths("main/in", expected[0][3:-1]) == [
        each for each in expected if each.startswith(expected[0][:-1])
    ]
    assert len(paths("main", "in")) == 12


@pytest.mark.one_version
def test_what_cannot_be_read_is_refused(lake: Lake, repository: str) -> None:
    with pytest.raises(NotFound):
        entries(lake, f"{repository}/nowhere")
    with pytest.raises(Invalid, match="ref invalid"):
        entries(lake, repository)
    with pytest.raises(Invalid, match="unknown=sizes"):
        entries(lake, f"{repository}/main", ["path", "sizes"])
    with pytest.raises(Invalid, match="columns must be some of"):
        entries(lake, f"{repository}/main", [])
