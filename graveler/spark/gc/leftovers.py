"""Deletes files that jobs on Spark have left in a repository and that no reader needs.

    _graveler/gc/hashes/<range>     the names in a range, of a range that is deleted
    _graveler/jobs/<job>/…          checkpoints and pieces of a bulk job that has ended

Both only save work: a reader that misses one computes it again.  So deleting too much costs time
and nothing else.  A job's files must also be old, because they are in use while the job may land.
For `collect.py`.
"""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from graveler.block.address import FILES
from graveler.block.deletion import delete_every
from graveler.block.listing import list_all
from graveler.spark.cluster.parallel import in_tasks
from graveler.spark.cluster.places import opened
from graveler.spark.gc.listing import Scope
from graveler.spark.gc.uses import hashes_file

JOBS: Final = "_graveler/jobs/"
_DIGITS: Final = "0123456789abcdef"
_WORK: Final = "repo int, digit string, alive array<string>"
_REMOVED: Final = "files bigint"


def remove(spark: SparkSession, scope: Scope, jobs: frozenset[tuple[int, str]]) -> int:
    """Delete the leftovers; return the number of files.  `jobs`: the bulk jobs that may still land,
    with the numbers of their repositories.

    Cost: one request for each 1,000 ranges, each 1,000 kept hash files and each 1,000 files of
    jobs; at least one for each first digit; one for each 1,000 deleted files.
    """
    work: list[dict[str, Any]] = []
    for one in scope.repositories:
        alive = sorted(name for repo, name in jobs if repo == one.number)
        work += [{"repo": one.number, "digit": digit, "alive": []} for digit in _DIGITS]
        work.append({"repo": one.number, "digit": "", "alive": alive})

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                yield pa.RecordBatch.from_pydict({"files": [_removed(scope, **row)]})

    results = in_tasks(spark, work, _WORK, run, _REMOVED).collect()
    return sum(row["files"] for row in results)


def _removed(scope: Scope, repo: int, digit: str, alive: list[str]) -> int:
    names = _hashes(scope, repo, digit) if digit else _of_jobs(scope, repo, frozenset(alive))
    return delete_every(opened(scope.place).blocks, names)


def _hashes(scope: Scope, repo: int, digit: str) -> Iterator[str]:
    """The hash files of deleted ranges whose ids begin with a digit: two lists in one order are
    compared."""
    ranges = _names(scope, f"{scope.namespace(repo)}/{FILES}{digit}")
    listed: str | None = ""
    for name in _names(scope, hashes_file(scope.namespace(repo), digit)):
        while listed is not None and listed < name:
            listed = next(ranges, None)
        if listed != name:
            yield hashes_file(scope.namespace(repo), name)


def _names(scope: Scope, prefix: str) -> Iterator[str]:
    blocks = opened(scope.place).blocks
    return (line.address.rpartition("/")[2] for line in list_all(blocks, prefix))


def _of_jobs(scope: Scope, repo: int, alive: frozenset[str]) -> Iterator[str]:
    prefix = f"{scope.namespace(repo)}/{JOBS}"
    for line in list_all(opened(scope.place).blocks, prefix):
        job = line.address.removeprefix(prefix).partition("/")[0]
        if job not in alive and line.head.modified_ns < scope.before_ns:
            yield line.address
