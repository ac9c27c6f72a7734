"""Staged rows of a branch as a DataFrame: path, framed value (null: a deletion), rank.

    DynamoDB          a task for each shard of each token ──its own role──► the table
    embedded store    driver ──API, some shards at a time──► pieces in the object store ──► tasks

`rank` 0 is the newest staging token; among equal paths, the row with the lowest rank counts.
Executors never see the API's secret, and an embedded store can be read only through its server.
So for an embedded store the driver copies the pages from the API to the object store, and holds
one page for each reader.  The pieces lie below `_graveler/jobs/<id>/` and are removed with the job.
For `commit.py`.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from graveler import limits
from graveler.aws import AwsSession, AwsSettings
from graveler.block import address
from graveler.block.deletion import delete_every
from graveler.client import Session, bulk
from graveler.client.bulk import BulkJob
from graveler.clock import SystemClock
from graveler.ids import StagingToken
from graveler.kv.dynamodb import DynamoStore
from graveler.kv.retry import RetryingStore
from graveler.kv.store import Store
from graveler.records import TOMBSTONE
from graveler.requests import THROTTLED_STORE
from graveler.spark.cluster import pieces
from graveler.spark.cluster.parallel import in_tasks
from graveler.spark.cluster.places import Place, opened
from graveler.staging import area

SCHEMA: Final = "path binary, value binary, rank int"
_ARROW: Final = pa.schema([("path", pa.binary()), ("value", pa.binary()), ("rank", pa.int32())])
_PIECE_ROWS: Final = 20_000
_READERS: Final = 8


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
    """The rows as the executors read them from the table, with the role of the job.  Cost: one
    query for each 10,000 rows of a shard, at least one."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                yield from _queried(table, Shard(**row))

    rows = [shard._asdict() for shard in shards]
    return in_tasks(spark, rows, "rank int, token string, number int", run, SCHEMA, len(rows))


def _queried(table: Table, shard: Shard) -> Iterator[pa.RecordBatch]:
    kv, token, limit = _store(table), StagingToken(shard.token), limits.bulk_page_count_max
    for rows in area.shard_pages(kv, token, shard.number, limit):
        yield _batch([(key, row.value) for key, row in rows], shard.rank)


@lru_cache(maxsize=4)
def _store(table: Table) -> Store:
    session = AwsSession(AwsSettings(endpoint_url=table.endpoint_url))
    return RetryingStore(DynamoStore(session, table.name), SystemClock(), THROTTLED_STORE)


# ---- by the API ----------------------------------------------------------------------------------


def spooled(session: Session, repository: str, job: BulkJob, place: Place) -> list[str]:
    """Copy the rows from the API into pieces in the object store, and return the addresses of the
    pieces.

    The same rows give the same names, so a driver that starts again overwrites the pieces of its
    last attempt.  Cost: one request for each 10,000 rows or 3 MiB of a shard, one put for each
    20,000 rows.
    """

    def carry(shard: Shard) -> list[str]:
        rows = bulk.staged_rows(session, repository, job.branch, shard.token, shard.number)
        names: list[str] = []
        while piece := list(islice(rows, _PIECE_ROWS)):
            name = f"staged-{shard.rank:03}-{shard.number:03}-{len(names):06}.arrow"
            where = address.join(place.namespace, f"_graveler/jobs/{job.id}/{name}")
            values = [(row.path.encode(), row.value) for row in piece]
            pieces.put(place, where, _batch(values, shard.rank))
            names.append(where)
        return names

    with ThreadPoolExecutor(_READERS, "staged") as pool:
        return [name for names in pool.map(carry, shards_of(job)) for name in names]


def from_pieces(spark: SparkSession, place: Place, names: Sequence[str]) -> DataFrame:
    """The rows of pieces, read by the executors."""
    return pieces.frame(spark, place, names, SCHEMA)


def forget(place: Place, names: Sequence[str]) -> None:
    """Delete pieces.  One request for each 1,000."""
    delete_every(opened(place).blocks, names)
