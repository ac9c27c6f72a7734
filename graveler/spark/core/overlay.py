"""Puts staged rows onto a base in parallel.

    rows of all tokens ──► cuts ──► one task a bucket: of each path the row of the newest token,
    put onto the base's ranges ──► joined in the driver ──► one metarange

The ranges are those of an ordinary commit of these rows.  A task that runs twice writes the same
ranges.  For `commit.py`.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from graveler.ids import MetarangeId
from graveler.records import TOMBSTONE, Change
from graveler.spark.cluster.parallel import Task, parallel_tasks
from graveler.spark.cluster.places import Place, opened
from graveler.spark.cluster.results import SCHEMA, Part, parts_of, rows_of
from graveler.spark.core import cuts
from graveler.spark.core.join import by_tasks, joined_over, sewing
from graveler.spark.core.merge import bounds_of, merged


@dataclass(frozen=True, slots=True)
class Overlay:
    """The instructions equal for every task.  They go to the executors, so they hold no secret."""

    place: Place
    base: MetarangeId
    cuts: tuple[bytes, ...]


def overlaid(rows: DataFrame, place: Place, base: MetarangeId, tasks: int = 0) -> tuple[str, int]:
    """The metarange of the base after `rows` of `staged_rows.SCHEMA` are put onto it, and the
    number of rows.

    Cost: `rows` are evaluated twice; the ranges that they touch are read and written again.
    """
    known = cuts.survey(rows, place.breaks)
    count = tasks or parallel_tasks(rows.sparkSession)
    at = cuts.chosen(known, place.breaks, count)
    results = (
        cuts.spread(rows, at).mapInArrow(overlaying(Overlay(place, base, at)), SCHEMA).collect()
    )
    space = opened(place).space
    refs = space.metarange(base).ranges
    ranges = {part.bucket: part.ranges for part in parts_of(results)}
    sew = by_tasks(rows.sparkSession, sewing(place))
    result = joined_over(sew, place.breaks, refs, at, ranges)
    if result == refs:
        return base, known.count
    return space.store.write_metarange(space.namespace, result), known.count


def overlaying(order: Overlay) -> Task:
    """The function for `mapInArrow`: it takes the rows of one bucket and returns the rows of its
    part."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = [batch for batch in batches if batch.num_rows]
        if held:
            yield rows_of(_written(pa.Table.from_batches(held), order))

    return run


def _written(table: pa.Table, order: Overlay) -> Part:
    space = opened(order.place).space
    changes = list(_newest(table))
    bucket = bisect_left(order.cuts, changes[0][0])
    bounds = bounds_of(order.cuts, bucket, bucket)
    base = space.metarange(order.base).ranges
    refs = merged(space, base, bounds, changes, replace=False)
    return Part(bucket, refs, table.num_rows, {}, ())


def _newest(table: pa.Table) -> Iterator[Change]:
    """For each path, in order, the value of the newest token."""
    keys = [("path", "ascending"), ("rank", "ascending")]
    ordered = table.take(pc.sort_indices(table, sort_keys=keys))
    last: bytes | None = None
    for batch in ordered.to_batches(max_chunksize=10_000):
        paths, values = batch.column(0).to_pylist(), batch.column(1).to_pylist()
        for path, value in zip(paths, values, strict=True):
            if path != last:
                yield path, TOMBSTONE if value is None else value
            last = path
