"""Deletes files that jobs on Spark have left, by the rule of engine/gc/leftovers.py.  For
`collect.py`.
"""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

from graveler.block.deletion import delete_every
from graveler.engine.gc import leftovers
from graveler.spark.cluster.parallel import in_tasks
from graveler.spark.cluster.places import opened
from graveler.spark.gc.listing import Scope

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
    blocks, namespace = opened(scope.place).blocks, scope.namespace(repo)
    if digit:
        return delete_every(blocks, leftovers.of_ranges(blocks, namespace, digit))
    names = leftovers.of_jobs(blocks, namespace, frozenset(alive), scope.before_ns)
    return delete_every(blocks, names)
