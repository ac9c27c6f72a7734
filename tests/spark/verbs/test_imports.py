"""Imports write the very ranges that one writer of the sorted rows would write."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from graveler.committed.reader import ranges
from graveler.core import limits
from graveler.core.errors import Conflict, Invalid
from graveler.core.records import BreakParameters
from graveler.spark import cuts
from graveler.spark.import_columns import canonical
from graveler.spark.imports import ImportOptions, import_rows
from graveler.spark.places import Place, opened
from graveler.spark.tasks import (
    SCHEMA,
    BadRows,
    JobCheckpoints,
    count_checkpoints,
    finished_parts,
    parts_of,
)
from tests.spark import lakes
from tests.spark.conftest import SHARE
from tests.spark.lakes import Row, files, frame, joined, sequential, some_rows, spread

pytestmark = pytest.mark.usefixtures("small_batches")


@pytest.mark.parametrize(
    ("seed", "tasks", "breaks"),
    [
        (3, 9, {"min_size": 9_000}),
        (0, 1, {}),
        (1, 7, {}),
        (2, 12, {"salt": b""}),
        (4, 9, {"min_size": 30_000, "max_size": 20_000, "raggedness": 3}),
    ][::SHARE],
)
def test_many_writers_make_what_one_makes(
    spark: SparkSession, place: Place, tmp_path: Path, seed: int, tasks: int, breaks: Any
) -> None:
    print(f"{seed=}")
    place = replace(place, breaks=replace(place.breaks, **breaks))
    rows = some_rows(seed, 2_500)
    made = import_rows(frame(spark, rows), place, ImportOptions(tasks=tasks))
    metarange, refs = sequential(place, rows, tmp_path / "one")
    assert (made.metarange, list(made.ranges), made.count) == (metarange, refs, 2_500)
    assert list(ranges(opened(place).space, made.metarange)) == refs
    assert len(refs) > 10 and made.report.is_clean


def test_a_first_import_chooses_longer_ranges_by_its_number_of_rows(
    spark: SparkSession, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "range_raggedness_default", place.breaks.raggedness)
    rows = some_rows(5, 2_500)
    made = import_rows(frame(spark, rows), place, ImportOptions(tasks=4, fitted=True))
    assert made.breaks == replace(place.breaks, raggedness=4 * place.breaks.raggedness)
    refs = sequential(replace(place, breaks=made.breaks), rows, tmp_path / "one")[1]
    assert list(made.ranges) == refs and len(refs) > 4


@pytest.mark.one_version
def test_rows_land_below_the_prefix(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    rows = some_rows(5, 60)
    made = import_rows(frame(spark, rows), place, ImportOptions(prefix="tables/a b/"))
    moved = [("tables/a b/" + row[0], *row[1:]) for row in rows]
    assert made.metarange == sequential(place, moved, tmp_path / "one")[0]


def test_no_rows_are_the_empty_metarange(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    made = import_rows(frame(spark, []), place)
    assert (made.metarange, made.ranges) == (sequential(place, [], tmp_path / "one")[0], ())


@pytest.mark.one_version
def test_a_task_that_fails_after_writing_is_harmless(
    spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    rows = some_rows(6, 1_500)
    given, at, run = spread(spark, place, rows)

    def failing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        made = list(run(batches))
        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0:
            raise RuntimeError("after writing")
        yield from made

    parts = parts_of(given.mapInArrow(failing, SCHEMA).collect())
    refs = joined(place, at, {part.bucket: part.ranges for part in parts})
    expected = sequential(place, rows, tmp_path / "one")[1]
    assert list(refs) == expected
    # Every attempt wrote the same files: none is left over.
    assert files(tmp_path / "objects") == {ref.id for ref in expected}


@pytest.mark.one_version
def test_the_same_import_again_writes_nothing_new(spark: SparkSession, place: Place) -> None:
    rows = some_rows(7, 400)
    first = import_rows(frame(spark, rows), place)
    again = import_rows(frame(spark, rows, partitions=1), place, ImportOptions(tasks=5))
    assert first == again


# ---- rows that are refused -----------------------------------------------------------------------


def bad_rows(place: Place) -> list[tuple[Row, str]]:
    """One row for each way to be bad, and the reason."""
    good = some_rows(8, 1)[0]
    wrong = [
        ({0: None}, "path is null or empty"),
        ({0: ""}, "path is null or empty"),
        ({0: "x" * 1_025}, "path is longer than 1024 bytes"),
        ({0: "a\0b"}, "path is not UTF-8, or has a NUL character"),
        ({1: None}, "address is null or empty"),
        ({1: ""}, "address is null or empty"),
        ({1: "local://source/a/../b"}, "address is not one of an object"),
        ({1: "s3://bucket/key"}, "address has another scheme than the repository's storage"),
        (
            {1: f"{place.namespace}/data/x"},
            "address lies in the repository's own storage namespace",
        ),
        ({2: None}, "size is null"),
        ({2: -1}, "size is negative or too large"),
        ({3: None}, "checksum is null or empty"),
        ({3: '""'}, "checksum is null or empty"),
        ({3: "x" * 257}, "checksum is longer than 256 bytes"),
        ({4: None}, "mtime is null or out of range"),
        ({5: {"a": None}}, "metadata has an empty key or a null value, or is too large"),
        ({5: {"": "a"}}, "metadata has an empty key or a null value, or is too large"),
        ({6: "x" * 513}, "content type is longer than 512 characters"),
    ]
    made = []
    for number, (change, reason) in enumerate(wrong):
        row = list((f"bad-{number}", *good[1:]))
        for at, value in change.items():
            row[at] = value
        made.append((tuple(row), reason))
    return made


def test_bad_and_duplicate_rows_are_told_and_fail_the_import(
    spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    rows, wrong = some_rows(9, 500), bad_rows(place)
    older = [(row[0], row[1] + "-old", row[2], row[3], row[4] - 1, None, None) for row in rows[:20]]
    everything = frame(spark, [*rows, *older, *(row for row, _ in wrong)])
    with pytest.raises(BadRows, match=r"rows refused: .*duplicate path: 20") as caught:
        import_rows(everything, place)
    report = caught.value.report
    assert report.bad_count == len(wrong) and report.duplicates == 20
    for _, reason in wrong:
        assert report.bad[reason] == sum(other == reason for _, other in wrong)
    told = {(each.kind, each.reason, each.path, each.address) for each in report.samples}
    for row, reason in wrong:
        assert ("bad", reason, row[0] or "", row[1] or "") in told
    for row in older:
        assert ("duplicate", "another row has this path", row[0], row[1]) in told

    made = import_rows(everything, place, ImportOptions(on_bad="skip", tasks=6))
    assert made.metarange == sequential(place, rows, tmp_path / "one")[0]
    assert made.report.bad == report.bad and made.report.duplicates == 20


@pytest.mark.one_version
def test_a_refused_row_at_a_cut_does_not_end_a_range(
    spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    """The first pass knows only keys: the row behind a break key may turn out to be bad."""
    rows = some_rows(10, 1_500)
    keys = cuts.survey(canonical(frame(spark, rows), b""), place.breaks).breaks
    spoilt = [(*row[:2], -1, *row[3:]) if row[0].encode() in keys[::2] else row for row in rows]
    made = import_rows(frame(spark, spoilt), place, ImportOptions(on_bad="skip", tasks=8))
    kept = [row for row in spoilt if row[2] >= 0]
    assert made.count == len(kept) < len(rows)
    assert list(made.ranges) == sequential(place, kept, tmp_path / "one")[1]


@pytest.mark.one_version
def test_rows_without_a_path_do_not_go_to_a_task(spark: SparkSession, place: Place) -> None:
    """They have no place among the keys, so all of them would go to the same."""
    rows = some_rows(12, 60)
    nameless = [(None, *row[1:]) for row in some_rows(13, 1_500)]
    everything = frame(spark, [*rows, *nameless])
    made = import_rows(everything, place, ImportOptions(on_bad="skip", tasks=3, job="j"))
    assert (made.count, made.report.bad) == (60, {"path is null or empty": 1_500})
    assert 10 <= len(made.report.samples) <= 1_000
    assert {each.address for each in made.report.samples} <= {row[1] for row in nameless}
    told = finished_parts(opened(place).blocks, JobCheckpoints(place.namespace, "j"))
    assert [part.rejected for part in told.values() if part.rejected] == []


@pytest.mark.one_version
def test_keys_without_breaks_are_not_all_one_task(
    spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    """Cut anywhere, ranges are still those of one writer, which end by size alone."""
    rows = some_rows(14, 700)
    there = replace(place, breaks=replace(place.breaks, raggedness=1 << 40, max_size=20_000))
    options = ImportOptions(tasks=1, job="j", spare_rows=60)
    made = import_rows(frame(spark, rows), there, options)
    assert count_checkpoints(opened(there).blocks, JobCheckpoints(there.namespace, "j")) > 8
    assert list(made.ranges) == sequential(there, rows, tmp_path / "one")[1]


@pytest.mark.one_version
def test_samples_are_few_however_many_rows_are_bad(spark: SparkSession, place: Place) -> None:
    rows = [(*row[:2], -1, *row[3:]) for row in some_rows(11, 1_200)]
    made = import_rows(frame(spark, rows), place, ImportOptions(on_bad="skip", tasks=3))
    assert made.report.bad == {"size is negative or too large": 1_200}
    assert 10 <= len(made.report.samples) <= 1_000


@pytest.mark.one_version
def test_an_input_that_changes_is_noticed(spark: SparkSession, place: Place) -> None:
    def some(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.filter(pa.array([os.urandom(1) < b"\x80" for _ in range(batch.num_rows)]))

    rows = frame(spark, some_rows(12, 200)).mapInArrow(some, lakes.SCHEMA)
    with pytest.raises(Conflict, match="input changed between two reads"):
        for _ in range(10):  # two draws may be equally long
            import_rows(rows, place)


@pytest.mark.parametrize(
    "column", ["metadata", "path", "address", "size", "checksum", "mtime"][::SHARE]
)
def test_an_input_that_has_other_rows_of_the_same_number_is_noticed(
    spark: SparkSession, place: Place, column: str
) -> None:
    """Other paths always; other values if results of an earlier attempt may be taken up."""
    rows = changing(spark, column)
    with pytest.raises(Conflict, match="first=51 second=51 same_content=False"):
        import_rows(rows, place, ImportOptions(job="j", taken_up=True))
    if column == "path":
        with pytest.raises(Conflict, match="first=51 second=51 same_content=False"):
            import_rows(rows, place)
    else:
        assert import_rows(rows, place).count == 51, "all values are of the second pass"


def changing(spark: SparkSession, column: str) -> DataFrame:
    """51 rows.  Each evaluation of them gives another value of one column in one row."""

    def other(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = batch.to_pylist()
            for row in rows:
                if row["path"] == "chosen":
                    fresh = int.from_bytes(os.urandom(5))
                    row[column] = {
                        "path": f"chosen-{fresh}",
                        "size": fresh,
                        "mtime": fresh,
                        "metadata": [("a", str(fresh))],
                        "address": f"{row['address']}-{fresh}",
                    }.get(column, str(fresh))
            yield pa.RecordBatch.from_pylist(rows, schema=batch.schema)

    made = some_rows(17, 50)
    return frame(spark, [*made, ("chosen", *made[0][1:])]).mapInArrow(other, lakes.SCHEMA)


# ---- columns -------------------------------------------------------------------------------------


def test_metadata_is_never_handed_over_as_null(spark: SparkSession) -> None:
    """Spark takes ten times as long over it."""
    df = frame(spark, [(*row[:5], None, None) for row in some_rows(15, 3)])
    assert [row["metadata"] for row in canonical(df, b"").collect()] == [{}] * 3


def test_optional_columns_that_the_input_lacks_are_not_moved(spark: SparkSession) -> None:
    df = frame(spark, [(*row[:5], None, None) for row in some_rows(15, 3)])
    assert canonical(df.drop("metadata"), b"").columns[5:] == ["content_type"]
    typeless = df.withColumn("metadata", F.lit(None)).drop("content_type")
    assert canonical(typeless, b"").columns[5:] == []


def test_times_of_any_zone_and_columns_left_out(
    spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    rows = [(*row[:5], None, None) for row in some_rows(13, 30)]
    df = frame(spark, rows).withColumn("mtime", F.expr("timestamp_micros(mtime)"))
    df = df.withColumn("size", F.col("size").cast("bigint")).drop("metadata", "content_type")
    spark.conf.set("spark.sql.session.timeZone", "Pacific/Chatham")
    try:
        made = import_rows(df.withColumn("more", F.lit(1)), place)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert made.metarange == sequential(place, rows, tmp_path / "one")[0]


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("metadata", "map('a', 1)", "column=metadata type=map<string,int>"),
        ("size", "'1'", "column=size type=string"),
        ("mtime", "1.5", "column=mtime type=decimal"),
        ("path", "1", "column=path type=int"),
        ("address", "1", "column=address type=int"),
    ][::SHARE],
)
def test_a_column_of_another_type_is_refused(
    spark: SparkSession, place: Place, column: str, value: str, says: str
) -> None:
    df = frame(spark, some_rows(14, 1)).withColumn(column, F.expr(value))
    with pytest.raises(Invalid, match=says):
        import_rows(df, place)


@pytest.mark.one_version
def test_a_missing_column_is_named(spark: SparkSession, place: Place) -> None:
    df = frame(spark, some_rows(15, 1)).drop("checksum", "mtime")
    with pytest.raises(Invalid, match="missing=checksum,mtime"):
        import_rows(df, place)


@pytest.mark.one_version
def test_an_unknown_choice_is_refused(spark: SparkSession, place: Place) -> None:
    with pytest.raises(Invalid, match="on_bad"):
        options = ImportOptions(on_bad="ignore")  # type: ignore[arg-type]
        import_rows(frame(spark, []), place, options)


@pytest.mark.one_version
def test_ranges_may_be_large(spark: SparkSession, place: Place, tmp_path: Path) -> None:
    """The parameters that repositories have by default: one bucket, one range."""
    place = replace(place, breaks=BreakParameters(salt=b"s"))
    rows = some_rows(16, 300)
    made = import_rows(frame(spark, rows), place)
    assert made.metarange == sequential(place, rows, tmp_path / "one")[0] and len(made.ranges) == 1


@pytest.mark.one_version
def test_which_duplicate_counts_does_not_depend_on_the_order_of_the_rows(
    spark: SparkSession, place: Place
) -> None:
    """The latest counts; of equal times, the greatest values."""
    path, address, _, checksum, _, _, _ = some_rows(98, 1)[0]
    rows = [
        (path, address, size, checksum, time, {"k": value} if value else None, kind)
        for size in (1, 2)
        for time in (4, 5)
        for value in ("", "1", "2")
        for kind in (None, "text/csv")
    ]
    options = ImportOptions(on_bad="skip", tasks=3)
    orders = rows, rows[::-1], rows[7:] + rows[:7]
    made = [import_rows(frame(spark, given), place, options) for given in orders]
    assert {each.metarange for each in made} == {made[0].metarange}
    assert (made[0].count, made[0].report.duplicates) == (1, 23)
