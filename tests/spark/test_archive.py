"""`make spark-archive`: which packages it takes, and that equal files make an equal archive."""

import tarfile
from pathlib import Path

import pytest

from scripts import spark_archive
from tests.spark.conftest import HAS_SOURCES

LOCK = spark_archive.ROOT / "requirements" / f"spark{4 if HAS_SOURCES else 3}.txt"


def test_it_takes_what_jobs_need_and_clusters_do_not_bring() -> None:
    names = spark_archive.needed(spark_archive.wanted())
    assert {"pyarrow", "boto3", "rocksdict", "botocore", "urllib3"} <= names
    assert not names & {"pyspark", "py4j", "pandas", "fastapi", "pytest"}
    text = spark_archive.pinned(LOCK.read_text(encoding="utf-8"), names)
    pins = [line for line in text.splitlines() if "==" in line]
    assert len(pins) == len(names) and text.count("--hash=sha256:") >= len(names)


def test_a_package_without_a_pin_is_refused() -> None:
    with pytest.raises(SystemExit, match="not in the lock: numpy"):
        spark_archive.pinned("six==1.0 \\\n    --hash=sha256:00\n", {"six", "numpy"})


def test_equal_files_make_an_equal_archive(tmp_path: Path) -> None:
    digests = set()
    for number in (1, 2):
        folder = tmp_path / str(number)
        (folder / "a").mkdir(parents=True)
        (folder / "a" / "b.py").write_text("x = 1\n", encoding="utf-8")
        archive = tmp_path / f"{number}.tar.gz"
        digests.add(spark_archive.packed(folder, archive))
        with tarfile.open(archive) as tar:
            assert tar.getnames() == ["a", "a/b.py"]
    assert len(digests) == 1
