"""Python worker processes of Spark: whether they can run the package, and how they run it fast.

Spark starts workers with the Python that PYSPARK_PYTHON names, otherwise with `python3` of the
PATH, which often lacks the packages of the driver.  `check_workers` finds that out.

Before each task, a Spark worker makes Python invalidate its import caches.  Python then reads the
directory of every archive on the path again.  Spark puts two or three of its own archives first,
and reading them takes longer than a small task (0.15 s of CPU).  These archives never change while
a process lives.  After each task the worker runs a garbage collection over everything that was ever
imported (0.03 s).  For this package.
"""

import gc
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Final
from zipimport import zipimporter

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from graveler.errors import Invalid
from graveler.settings import environment

# How many numbers of a version must be equal, by name.  Other releases of these packages understand
# each other's Arrow batches and pickles.
_COMPARED: Final = {"Python": 2, "graveler": 3, "pyarrow": 1, "numpy": 1}
_UNFIT: Final = re.compile(
    r"No module named '?[\w.]+'?|PYTHON_VERSION_MISMATCH[^\n]{0,120}|Cannot run program[^\n]{0,120}"
    r"|PACKAGE_NOT_INSTALLED[^\n]{0,120}|ImportError: [^\n]{0,120}"
)


@lru_cache(maxsize=8)
def check_workers(spark: SparkSession) -> None:
    """Run one task to compare the workers' Python and packages with those of this process.  Raises
    `Invalid` with the remedy if they cannot run the package.  Costs one small job, once for each
    session."""
    try:
        rows = (
            spark.range(0, 1, 1, 1).mapInArrow(_reported, "name string, version string").collect()
        )
    except Exception as error:  # each kind of session has its own
        match = _UNFIT.search(str(error))
        if match is None:
            raise
        raise Invalid(_remedy([match[0]])) from error
    wrong = mismatches(versions(), {row["name"]: row["version"] for row in rows})
    if wrong:
        raise Invalid(_remedy(wrong))


def versions() -> dict[str, str]:
    """The versions of this process's Python and of the packages that tasks need; empty for a
    package that is not installed."""
    installed = {"Python": platform.python_version()}
    for name in _COMPARED:
        if name != "Python":
            try:
                installed[name] = version(name)
            except PackageNotFoundError:
                installed[name] = ""
    return installed


def mismatches(driver: Mapping[str, str], worker: Mapping[str, str]) -> list[str]:
    """What differs between driver and workers so much that jobs can fail."""
    return [
        f"{name} is {worker.get(name) or 'missing'} there and {driver[name]} here"
        for name, count in _COMPARED.items()
        if driver[name].split(".")[:count] != worker.get(name, "").split(".")[:count]
    ]


def _reported(_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    names, texts = zip(*versions().items(), strict=True)
    yield pa.RecordBatch.from_pydict({"name": names, "version": texts})


def _remedy(wrong: Iterable[str]) -> str:
    return (
        f"the Python of Spark's workers cannot run this package: {'; '.join(wrong)}: set the "
        "environment variable PYSPARK_PYTHON to a Python with the driver's packages, before Spark "
        f"starts and on every machine (over Spark Connect, for its server); driver={sys.executable}"
    )


def settle() -> None:
    """Prepare this process for many tasks, if it runs tasks.  Calling it again, or in any other
    process, does no harm."""
    if TaskContext.get() is not None:
        settle_archives()
        gc.freeze()


class _CachedImporter(zipimporter):
    """An importer for an archive whose directory is read once."""

    def invalidate_caches(self) -> None:
        """Do nothing (see the module)."""


def settle_archives(paths: Iterable[str] = ()) -> None:
    """Keep the directories of the archives with which this process was started (`PYTHONPATH`, or
    `paths`).  Archives that are added to the path later are read as usual."""
    archives = list(paths) or environment().get("PYTHONPATH", "").split(os.pathsep)
    stems = {archive for archive in archives if os.path.isfile(archive)}
    for path, finder in list(sys.path_importer_cache.items()):
        # A folder within an archive has its own finder.
        if type(finder) is zipimporter and finder.archive in stems:
            sys.path_importer_cache[path] = _CachedImporter(path)
