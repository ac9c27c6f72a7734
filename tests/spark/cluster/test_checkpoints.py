"""A job is taken up where it ended, if the input is the same; else all of it is done again."""

from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from graveler.spark.imports import ImportOptions, import_rows
from graveler.spark.places import Place, opened
from graveler.spark.tasks import JobCheckpoints, count_checkpoints
from tests.spark.lakes import frame, sequential, some_rows

OPTIONS = ImportOptions(on_bad="skip", tasks=6, job="nightly", taken_up=True)


def checkpoints_of(place: Place) -> dict[str, tuple[Path, int]]:
    folder = Path(place.storage.removeprefix("local:"))
    found = folder.rglob("_graveler/jobs/nightly/part-*")
    return {path.name: (path, path.stat().st_mtime_ns) for path in found if path.is_file()}


def test_finished_buckets_are_not_done_again(
    spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    rows = [*some_rows(95, 1_200), (None, *some_rows(96, 1)[0][1:])]
    first = import_rows(frame(spark, rows), place, OPTIONS)
    before = checkpoints_of(place)
    checkpoints = JobCheckpoints(place.namespace, "nightly")
    assert count_checkpoints(opened(place).blocks, checkpoints) == len(before) == OPTIONS.tasks
    for name in sorted(before)[::2]:
        before.pop(name)[0].unlink()
    again = import_rows(frame(spark, rows, partitions=5), place, OPTIONS)
    assert again == first and first.report.bad == {"path is null or empty": 1}
    after = checkpoints_of(place)
    assert {name: after[name] for name in before} == before  # left as they were
    assert first.metarange == sequential(place, rows[:-1], tmp_path / "one")[0]

    changed = [(*row[:2], row[2] + 1, *row[3:]) for row in rows]
    other = import_rows(frame(spark, changed), place, OPTIONS)
    assert other.metarange == sequential(place, changed[:-1], tmp_path / "two")[0]
    assert all(checkpoints_of(place)[name][1] != then for name, (_, then) in after.items())


def test_checkpoints_of_an_earlier_job_of_the_name_count_for_nothing(
    spark: SparkSession, place: Place
) -> None:
    """Collection may be about to delete what they name: it has been too long."""
    rows = some_rows(97, 600)
    first = import_rows(frame(spark, rows), place, replace(OPTIONS, birth=1))
    before = checkpoints_of(place)
    again = import_rows(frame(spark, rows), place, replace(OPTIONS, birth=2))
    assert again == first
    made = checkpoints_of(place).keys() - before.keys()
    assert len(made) == len(before)
    assert {name: checkpoints_of(place)[name] for name in before} == before
    for birth in (1, 2):
        found = JobCheckpoints(place.namespace, "nightly", birth=birth)
        assert count_checkpoints(opened(place).blocks, found) == len(before)
