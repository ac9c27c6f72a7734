"""Commit very many staged rows: Spark reads, sorts and writes them, and they land as one commit.

    DynamoDB          a task for each shard of each token ──its own role──► the table
    embedded store    driver ──API──► pieces in the object store ──► tasks
The begin seals the staging tokens; the swap that lands the commit takes them off the branch.  Of
each path the row of the newest token counts.  The ranges are those of an ordinary commit.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from graveler.block import address
from graveler.block.drivers import delete_every
from graveler.core import limits
from graveler.core.aws import AwsSession, AwsSettings
from graveler.core.clock import SystemClock
from graveler.core.errors import GravelerError, Invalid
from graveler.core.ids import MetarangeId, StagingToken
from graveler.core.records import TOMBSTONE, Change
from graveler.core.requests import THROTTLED_STORE
from graveler.core.settings import endpoint_url
from graveler.kv.dynamodb import DynamoStore
from graveler.kv.retry import retrying_store
from graveler.kv.store import Store
from graveler.lake import bulk
from graveler.lake.bulk import BulkJob
from graveler.lake.session import Session
from graveler.spark import cuts
from graveler.spark.bulk_jobs import cancelled_on_error, heartbeats, land
from graveler.spark.join import by_tasks, joined_over, sewing
from graveler.spark.lake import Lake, parse_target, place_of
from graveler.spark.landing import Landed, Watch, terms_of
from graveler.spark.places import Place, opened
from graveler.spark.range_writer import bounds_of, merged
from graveler.spark.tasks import (
    SCHEMA,
    Part,
    Task,
    arrow_schema,
    each_row,
    frame_of_pieces,
    in_tasks,
    parts_of,
    put_piece,
    rows_of,
    tasks_onto,
)
from graveler.staging import area

_MESSAGE: Final = "Commit staged changes"
STAGED_ROWS: Final = "path binary, value binary, rank int"
_ARROW: Final = arrow_schema(STAGED_ROWS)
_PIECE_ROWS: Final = 20_000
_READERS: Final = 8


def commit(
    lake: Lake,
    branch: str,
    *,
    message: str = "",
    metadata: Mapping[str, str] | None = None,
    job: str = "",
    table: str = "",
) -> Landed:
    """Commit all staged rows that "repository/branch" acknowledged before the call.

    `message`, `metadata`: of the commit.  `job`: a name for the work.  If a job with this name
    exists, the call runs it again.  Such a job is not cancelled when it fails, and lands once.  A
    commit that the service handed over is such a job: it commits what was staged at the hand-over,
    with the message and metadata of the original request unless these arguments replace them.

    `table`: the DynamoDB table of the deployment.  With it, the executors read the staged rows
    directly.  Without it, the driver copies the rows page by page from the API to the object store.

    Errors: `Invalid`, `NotFound`, `Refused`, `NoChanges`, `Conflict` (the branch was reset, or
    another commit took part of the rows: call again), `OutcomeUnknown`.  After any error but
    `OutcomeUnknown`, this call has landed nothing.  All rows stay staged; after `Conflict`, only
    those that neither the reset dropped nor the other commit contains.
    """
    where, watch = parse_target(branch), Watch()
    if where.prefix:
        raise Invalid(
            f"a commit covers a whole branch; give no prefix: prefix={where.prefix!r:.200}"
        )
    begun = bulk.begin(lake.session, where.repository, where.branch, "commit", id=job)
    if begun.commit:
        return Landed(begun.commit, begun.progress, seconds=watch.seconds)
    place = place_of(lake, begun.storage_namespace, begun.breaks)
    with cancelled_on_error(lake.session, where.repository, begun, is_named=bool(job)):
        with heartbeats(lake, where, begun, "commit", lambda: 0):
            written = _written(lake, where.repository, begun, place, table)
        pairs = {**begun.metadata, **(metadata or {})}
        terms = terms_of(begun.message or _MESSAGE, message, pairs, job)
        landed = land(lake, where, begun, written, terms)
    return Landed(landed, written[1], seconds=watch.seconds)


def _written(
    lake: Lake, repository: str, job: BulkJob, place: Place, table: str
) -> tuple[str, int]:
    """The metarange to land, and the number of rows in it."""
    base = MetarangeId(job.base_metarange)
    if job.state == "landing" and not _is_staged(lake, repository, job):
        # An earlier attempt has landed.  `finish` then returns its commit and lands nothing else,
        # because the branch no longer names the tokens.
        space = opened(place).space
        return base or space.store.write_metarange(space.namespace, ()), job.progress
    with _rows(lake, repository, job, place, table) as rows:
        return overlaid(rows, place, base)


def _is_staged(lake: Lake, repository: str, job: BulkJob) -> bool:
    named = {each.token for each in bulk.staging_tokens(lake.session, repository, job.branch)}
    return any(each.token in named for each in job.staging_tokens)


@contextmanager
def _rows(
    lake: Lake, repository: str, job: BulkJob, place: Place, table: str
) -> Iterator[DataFrame]:
    if table:
        store = Table(table, endpoint_url())
        yield from_table(lake.spark, shards_of(job), store)
        return
    names = spooled(lake.session, repository, job, place)
    try:
        yield frame_of_pieces(lake.spark, place, names, STAGED_ROWS)
    finally:
        with suppress(GravelerError):  # garbage collection removes the rest after the job
            forget(place, names)


class Shard(NamedTuple):
    """A part of the staged rows of one token.  No path is in two shards of a token."""

    rank: int
    token: str
    number: int


class Table(NamedTuple):
    """A DynamoDB table; `endpoint_url`: its endpoint, if it is not AWS's."""

    name: str
    endpoint_url: str = ""


def shards_of(job: BulkJob) -> list[Shard]:
    """Every shard of the tokens that a job commits."""
    return [
        Shard(rank, token.token, number)
        for rank, token in enumerate(job.staging_tokens)
        for number in range(token.shards)
    ]


def _batch(rows: Sequence[tuple[bytes, Any]], rank: int) -> pa.RecordBatch:
    paths = [path for path, _ in rows]
    values = [None if value is TOMBSTONE else value for _, value in rows]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(paths, pa.binary()),
            pa.array(values, pa.binary()),
            pa.array([rank] * len(rows), pa.int32()),
        ],
        schema=_ARROW,
    )


# ---- from the table ------------------------------------------------------------------------------


def from_table(spark: SparkSession, shards: Sequence[Shard], table: Table) -> DataFrame:
    """The rows as the executors read them from the table, with the role of the job."""
    run = each_row(lambda row: _queried(table, Shard(**row)))
    rows = [shard._asdict() for shard in shards]
    return in_tasks(spark, rows, "rank int, token string, number int", run, STAGED_ROWS, len(rows))


def _queried(table: Table, shard: Shard) -> Iterator[pa.RecordBatch]:
    kv, token, limit = _store(table), StagingToken(shard.token), limits.bulk_page_count_max
    for rows in area.shard_pages(kv, token, shard.number, limit):
        yield _batch([(key, row.value) for key, row in rows], shard.rank)


@lru_cache(maxsize=4)
def _store(table: Table) -> Store:
    session = AwsSession(AwsSettings(endpoint_url=table.endpoint_url))
    return retrying_store(DynamoStore(session, table.name), SystemClock(), THROTTLED_STORE)


# ---- by the API ----------------------------------------------------------------------------------


def spooled(session: Session, repository: str, job: BulkJob, place: Place) -> list[str]:
    """Copy the rows from the API into pieces in the object store, and return the addresses of the
    pieces.  The same rows give the same names, so a driver that starts again overwrites the pieces
    of its last attempt."""

    def carry(shard: Shard) -> list[str]:
        rows = bulk.staged_rows(session, repository, job.branch, shard.token, shard.number)
        names: list[str] = []
        while piece := list(islice(rows, _PIECE_ROWS)):
            name = f"staged-{shard.rank:03}-{shard.number:03}-{len(names):06}.arrow"
            where = address.join(place.namespace, f"_graveler/jobs/{job.id}/{name}")
            values = [(row.path.encode(), row.value) for row in piece]
            put_piece(place, where, _batch(values, shard.rank))
            names.append(where)
        return names

    with ThreadPoolExecutor(_READERS, "staged") as pool:
        return [name for names in pool.map(carry, shards_of(job)) for name in names]


def forget(place: Place, names: Sequence[str]) -> None:
    """Delete pieces.  One request for each 1,000."""
    delete_every(opened(place).blocks, names)


@dataclass(frozen=True, slots=True)
class Overlay:
    """The instructions equal for every task.  They go to the executors, so they hold no secret."""

    place: Place
    base: MetarangeId
    cuts: tuple[bytes, ...]


def overlaid(rows: DataFrame, place: Place, base: MetarangeId, tasks: int = 0) -> tuple[str, int]:
    """The metarange of the base after `rows` of `STAGED_ROWS` are put onto it, and the
    number of rows."""
    known = cuts.survey(rows, place.breaks)
    space = opened(place).space
    refs = space.metarange(base).ranges
    count = tasks or tasks_onto(rows.sparkSession, known.count, refs, place.breaks)
    at = cuts.chosen(known, place.breaks, count)
    results = (
        cuts.spread(rows, at).mapInArrow(overlaying(Overlay(place, base, at)), SCHEMA).collect()
    )
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
            yield rows_of(_bucket_written(pa.Table.from_batches(held), order))

    return run


def _bucket_written(table: pa.Table, order: Overlay) -> Part:
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
