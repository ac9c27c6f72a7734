"""Workers that cannot run the package are refused; archives of a process are read once."""

import gc
import importlib
import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch
from zipimport import zipimporter

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from graveler.core.errors import Invalid
from graveler.spark import connect
from graveler.spark.places import (
    Place,
    cache_archives,
    mismatches,
    opened,
    prepare_worker,
    versions,
)
from tests.spark.lakes import KEYS


def test_workers_without_the_packages_are_refused_with_the_remedy(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with `python3` of the PATH: a Python that finds no installed package."""
    bare = tmp_path / "python3"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    for program, says in ((str(bare), "No module named"), ("/no/python", "Cannot run program")):
        monkeypatch.setattr(spark.sparkContext, "pythonExec", program)
        with pytest.raises(Invalid, match=f"{says}.*set the environment variable PYSPARK_PYTHON"):
            connect(spark.newSession(), tmp_path / "lake", KEYS)
    assert not (tmp_path / "lake").exists()


@pytest.mark.one_version
def test_other_releases_of_python_and_of_the_package_do_not_fit() -> None:
    here = versions()
    assert mismatches(here, here) == []
    assert mismatches(here, here | {"Python": "3.9.1", "graveler": ""}) == [
        f"Python is 3.9.1 there and {here['Python']} here",
        f"graveler is missing there and {here['graveler']} here",
    ]
    patch = ".".join([*here["Python"].split(".")[:2], "99"])
    assert mismatches(here, here | {"Python": patch}) == []


def archive(path: Path, *modules: str) -> str:
    with zipfile.ZipFile(path, "w") as file:
        for name in modules:
            file.writestr(name, "")
    return str(path)


def test_only_what_is_named_is_settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = archive(tmp_path / "first.zip", "settled/__init__.py", "settled/a.py")
    other = archive(tmp_path / "other.zip", "changing/__init__.py", "changing/a.py")
    monkeypatch.setattr(sys, "path", [*sys.path, first, other])
    monkeypatch.setattr(sys, "path_importer_cache", dict(sys.path_importer_cache))
    for name in ("settled.a", "changing.a"):
        importlib.import_module(name)
    cache_archives([first, str(tmp_path), str(tmp_path / "none.zip")])
    cache_archives([first])
    archive(tmp_path / "first.zip", "settled/__init__.py", "settled/b.py")
    archive(tmp_path / "other.zip", "changing/__init__.py", "changing/b.py")
    importlib.invalidate_caches()
    importlib.import_module("changing.b")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("settled.b")


def test_a_worker_is_settled_when_it_opens_a_place(
    spark: SparkSession, place: Place, tmp_path: Path
) -> None:
    given = archive(tmp_path / "given.zip", "settled/__init__.py")

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        list(batches)
        gc.unfreeze()  # the worker may have settled for another test
        finders = patch.dict(sys.path_importer_cache, {given: zipimporter(given)})
        with finders, patch.dict(os.environ, PYTHONPATH=given):
            opened(place)
            loose = type(sys.path_importer_cache[given]) is zipimporter
        yield pa.RecordBatch.from_pylist([{"frozen": gc.get_freeze_count(), "loose": loose}])

    (told,) = spark.range(0, 1, 1, 1).mapInArrow(run, "frozen bigint, loose boolean").collect()
    assert told["frozen"] > 10_000 and not told["loose"]


def test_a_worker_that_plans_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's planning workers are forks of its daemon, and run no task."""
    prepare_worker()
    before = gc.get_freeze_count()
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, "-m", "pyspark.daemon", "a.worker"])
    try:
        prepare_worker()
        assert gc.get_freeze_count() > before + 10_000
    finally:
        gc.unfreeze()
