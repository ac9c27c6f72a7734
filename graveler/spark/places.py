"""How a process of the cluster opens a repository's files: from a plain record that can be pickled.

    driver ── Place (names only, no secret) ──► executor ── its own role ──► object store

Each process opens a store once, with the credentials of the machine or the job.  `check_workers`
finds out whether Spark's Python workers can run this package.
"""

import gc
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Final
from zipimport import zipimporter

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from graveler.assembly.drivers import WriteThreads
from graveler.block.adapter import Blocks
from graveler.block.registry import Surroundings, open_blocks
from graveler.block.retry import retrying_blocks
from graveler.committed.ranges import Keyspace
from graveler.committed.tiers import StoredFiles
from graveler.core.clock import SystemClock, SystemIds
from graveler.core.errors import Invalid
from graveler.core.records import BreakParameters
from graveler.core.requests import RetryPolicy
from graveler.core.settings import environment
from graveler.spark.range_writer import ArrowRangeStore

_BLOCK_CACHE_BYTES = 64 << 20
_TABLE_CACHE_BYTES = 32 << 20
_DAEMON: Final = "pyspark.daemon"  # workers are its forks
# How many numbers of a version must be equal, by name.  Other releases of these packages understand
# each other's Arrow batches and pickles.
_COMPARED: Final = {"Python": 2, "graveler": 3, "pyarrow": 1, "numpy": 1}
_UNFIT: Final = re.compile(
    r"No module named '?[\w.]+'?|PYTHON_VERSION_MISMATCH[^\n]{0,120}|Cannot run program[^\n]{0,120}"
    r"|PACKAGE_NOT_INSTALLED[^\n]{0,120}|ImportError: [^\n]{0,120}"
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a repository's ranges are stored, and where they break.  `storage`: in the notation of
    `block.registry`, `s3:BUCKET,BUCKET` or `local:FOLDER`; every executor must see the folder under
    that name.  `endpoint_url`: the endpoint of S3, if it is not AWS's."""

    storage: str
    namespace: str
    breaks: BreakParameters = field(default_factory=BreakParameters)
    endpoint_url: str = ""

    @property
    def is_near(self) -> bool:
        """Whether a request costs almost nothing."""
        return self.storage.startswith("local:")


@dataclass(frozen=True, slots=True)
class OpenPlace:
    """The object store of a place, and the view of its ranges."""

    blocks: Blocks
    space: Keyspace


_WAITERS: Final = WriteThreads()  # of all stores of the process


@lru_cache(maxsize=8)
def opened(place: Place) -> OpenPlace:
    """The store of `place`, opened once in each process.  No request is sent before the first verb.
    Raises `Invalid` for an unknown storage."""
    prepare_worker()
    blocks = _blocks(place)
    files = StoredFiles(blocks)
    store = ArrowRangeStore(
        files,
        _BLOCK_CACHE_BYTES,
        _TABLE_CACHE_BYTES,
        is_near=place.is_near,
        waiters=_WAITERS,
    )
    return OpenPlace(blocks, Keyspace(store, place.namespace, place.breaks))


def _blocks(place: Place) -> Blocks:
    clock = SystemClock()
    kind, _, names = place.storage.partition(":")
    if kind != "s3":
        return open_blocks(place.storage, Surroundings(clock, SystemIds()))
    from graveler.block.s3 import S3Blocks
    from graveler.core.aws import AwsSession, AwsSettings

    session = AwsSession(AwsSettings(endpoint_url=place.endpoint_url))
    return retrying_blocks(S3Blocks(session, clock, names.split(",")), clock, RetryPolicy())


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


def prepare_worker() -> None:
    """Prepare this process for many tasks, if it is a worker of Spark, which runs tasks or plans
    for a data source.  Calling it again, or in any other process, does no harm."""
    if TaskContext.get() is not None or _DAEMON in sys.orig_argv:
        cache_archives()
        gc.freeze()


class _CachedImporter(zipimporter):
    """An importer for an archive whose directory is read once."""

    def invalidate_caches(self) -> None:
        """Do nothing (see the module)."""


def cache_archives(paths: Iterable[str] = ()) -> None:
    """Keep the directories of the archives with which this process was started (`PYTHONPATH`, or
    `paths`).  Archives that are added to the path later are read as usual."""
    archives = list(paths) or environment().get("PYTHONPATH", "").split(os.pathsep)
    stems = {archive for archive in archives if os.path.isfile(archive)}
    for path, finder in list(sys.path_importer_cache.items()):
        # A folder within an archive has its own finder.
        if type(finder) is zipimporter and finder.archive in stems:
            sys.path_importer_cache[path] = _CachedImporter(path)
