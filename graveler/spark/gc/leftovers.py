"""What jobs on Spark have left beside a repository's files, and nobody will read again.

    _graveler/gc/hashes/<range>     what a range names, of a range that is deleted
    _graveler/jobs/<job>/…          marks and pieces of a bulk job that has ended

Both only save work: a reader that misses one makes it anew, so deleting too much costs time and
nothing else.  A job's files still have to be old: they are in use while it may land.  For
`collecting.py`.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from graveler.block.deletion import delete_every
from graveler.block.listing import list_all
from graveler.engine.gc.candidates import FILES
from graveler.spark.cluster import pieces
from graveler.spark.cluster.places import opened
from graveler.spark.gc.listing import Scope
from graveler.spark.gc.uses import hashes_file

JOBS: Final = "_graveler/jobs/"
_DIGITS: Final = "0123456789abcdef"
_WORK: Final = "repo int, digit string, alive array<string>"
_REMOVED: Final = "files bigint"


def remove(spark: SparkSession, scope: Scope, jobs: frozenset[tuple[int, str]]) -> int:
    """Delete what is left over; how many files that were.  `jobs`: those that may still land, with
    the numbers of their repositories.

    Cost: a request for each 1,000 ranges, for each 1,000 ranges whose names are kept, and for each
    1,000 files of jobs, one at least for each first digit; one for each 1,000 that are deleted.
    """
    work: list[tuple[int, str, list[str]]] = []
    for one in scope.repositories:
        work += [(one.number, digit, []) for digit in _DIGITS]
        work.append((one.number, "", sorted(name for repo, name in jobs if repo == one.number)))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                yield pa.RecordBatch.from_pydict({"files": [_removed(scope, **row)]})

    made = pieces.rows(spark, work, _WORK).mapInArrow(run, _REMOVED).collect()
    return sum(row["files"] for row in made)


def _removed(scope: Scope, repo: int, digit: str, alive: list[str]) -> int:
    found = _hashes(scope, repo, digit) if digit else _of_jobs(scope, repo, frozenset(alive))
    return delete_every(opened(scope.place).blocks, found)


def _hashes(scope: Scope, repo: int, digit: str) -> Iterator[str]:
    """Kept hashes of ranges that begin with a digit and are gone: two lists in one order."""
    ranges = _names(scope, f"{scope.namespace(repo)}/{FILES}{digit}")
    there: str | None = ""
    for name in _names(scope, hashes_file(scope.namespace(repo), digit)):
        while there is not None and there < name:
            there = next(ranges, None)
        if there != name:
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
