"""Deletes the files that a collection on Spark has found twice; many tasks do it.

Metaranges are deleted first: if a reader finds that a commit's metarange is gone, it knows that the
content may be gone too.  Then the other files are deleted.  Each file is deleted in the version
that was listed, so a file that was written again meanwhile stays.  Deleting a file twice does
nothing.  Cost: one read for each file that may be a metarange, and the requests that delete 1,000
files at a time.  For `collect.py`.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from graveler import limits
from graveler.block.adapter import Target
from graveler.block.address import FILES, is_ours
from graveler.errors import Corrupt
from graveler.spark.cluster import pieces
from graveler.spark.cluster.places import opened
from graveler.spark.gc import scopes
from graveler.spark.gc.listing import Scope
from graveler.spark.gc.scopes import ListPiece
from graveler.spark.gc.uses import is_metarange

_AT_ONCE: Final = 8  # in one task
_ROWS: Final = limits.block_delete_count_max


def sweep(scope: Scope, due: DataFrame) -> list[ListPiece]:
    """Delete files; return the pieces that name the deleted ones.

    The due files are stored first, so that both rounds and every attempt delete the same files.
    They are in the order of their names, because the store lists the versions of one stretch of
    names at a time.
    """
    due = _in_order(due).persist()
    try:
        files = due.where(due["name"].startswith(FILES))
        swept = _round(scope, files, "deleted-first", only_metaranges=True)
        rest = _in_order(_without(scope, due, swept)) if swept else due
        return [*swept, *_round(scope, rest, "deleted-rest", only_metaranges=False)]
    finally:
        due.unpersist()


def _in_order(due: DataFrame) -> DataFrame:
    return due.repartitionByRange("repo", "name").sortWithinPartitions("repo", "name")


def _without(scope: Scope, due: DataFrame, swept: Sequence[ListPiece]) -> DataFrame:
    """The files that the first round left, by its notes; no file is read."""
    notes = [each.name for each in swept]
    schema = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in due.schema)
    gone = pieces.frame(due.sparkSession, scope.place, notes, schema).select("repo", "name")
    remaining = due.join(gone.hint("merge"), ["repo", "name"], "left_anti")  # puts the keys first
    return remaining.select(*due.columns)


def _round(scope: Scope, rows: DataFrame, name: str, *, only_metaranges: bool) -> list[ListPiece]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        task, count = context.partitionId() if context is not None else 0, 0
        with ThreadPoolExecutor(_AT_ONCE, "sweep") as pool:
            for batch in batches:
                for at in range(0, batch.num_rows, _ROWS):
                    part = batch.slice(at, _ROWS)
                    rows = part.to_pylist()
                    gone = list(pool.map(lambda row: _is_due(scope, row, only_metaranges), rows))
                    _delete(scope, [row for row, is_due in zip(rows, gone, strict=True) if is_due])
                    yield from _noted(scope, f"{name}-{task:05}-{count:05}", part, gone)
                    count += 1

    return [ListPiece(*row) for row in rows.mapInArrow(run, scopes.FOUND).collect()]


def _delete(scope: Scope, rows: Sequence[dict[str, Any]]) -> None:
    """Delete files.  Raises if any of them stayed; Spark then runs the task again."""
    targets = [
        Target(f"{scope.namespace(row['repo'])}/{row['name']}", row["version"]) for row in rows
    ]
    opened(scope.place).blocks.delete_all(targets)


def _is_due(scope: Scope, row: dict[str, Any], only_metaranges: bool) -> bool:
    """Whether this round deletes the file.  The first round takes only metaranges; the second gets
    none."""
    name = row["name"]
    if not is_ours(name) or not row["version"]:
        raise Corrupt(f"a list names a file of another kind: {name=}")
    return not only_metaranges or is_metarange(scope, row["repo"], name)


def _noted(
    scope: Scope, name: str, rows: pa.RecordBatch, gone: list[bool]
) -> Iterator[pa.RecordBatch]:
    """Write down what was deleted, in one piece for each repository."""
    deleted = rows.filter(pa.array(gone, pa.bool_()))
    for repo in sorted(set(deleted.column("repo").to_pylist())):
        own = deleted.filter(
            pa.array([each == repo for each in deleted.column("repo").to_pylist()])
        )
        where = f"{scope.folder(repo)}{name}.arrow"
        # The schema of this plan has columns that may not be null; readers expect one schema for
        # all pieces.
        plain = pa.RecordBatch.from_arrays(own.columns, names=own.schema.names)
        pieces.put(scope.place, where, plain)
        size = sum(own.column("size").to_pylist())
        piece = {"repo": repo, "name": where, "files": own.num_rows, "size": size}
        yield pa.RecordBatch.from_pylist([piece], schema=scopes.FOUND_ARROW)
