"""Streams into a table by `foreachBatch`, on every Spark; each batch lands once."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from pyspark.sql import DataFrame

from graveler.core.errors import Invalid, Unsupported
from graveler.spark import writes
from graveler.spark.bulk_jobs import JobTerms
from graveler.spark.lake import Lake, parse_names, parse_target

QUERY: Final = "sql.streaming.queryId"  # a local property of the jobs of a streaming query
BATCH: Final = "streaming.sql.batchId"  # another one
_LENGTH_MAX: Final = 200


def stream_name(query: str, folder: str) -> str:
    """The name of a stream: the query, by its id, and the folder that it writes to."""
    name = f"{query}:{folder}"
    if len(name.encode()) <= _LENGTH_MAX:
        return name
    return f"{query}:{hashlib.sha256(name.encode()).hexdigest()}"


def write_stream(
    lake: Lake,
    df: DataFrame,
    at: str,
    *,
    checkpoint: str,
    format: str = "",
    partition_by: str | Sequence[str] | None = None,
    merge_schema: bool = False,
    message: str = "Write a batch of a stream",
    metadata: Mapping[str, str] | None = None,
    on_rewind: Literal["fail", "accept"] = "fail",
    trigger: Mapping[str, Any] | None = None,
) -> Any:
    """Start a query that appends each batch of `df` to the table "repository/branch/folder", in one
    commit; returns the `StreamingQuery`.

    A batch lands once, also if the driver dies at any point and starts again weeks later: the
    stream is the query, whose id is in the `checkpoint`, and the branch keeps the last batch of
    each stream.  A new checkpoint is a new stream.  A batch without rows lands nothing.
    `on_rewind`: if the branch was reset behind the last batch, the query fails, or goes on
    (accept).  `trigger`: the keywords of Spark's `trigger`.  Other arguments: as `Table.append`.

    Errors: `Invalid`; `Unsupported` over Spark Connect, where a batch runs in another process:
    there use `writeStream.format("graveler")`; in the query those of `Table.append`.  Cost: of each
    batch, that of an append.
    """
    where = parse_target(at)
    if not checkpoint:
        raise Invalid("checkpoint= is needed: a folder that keeps the state of the query")
    by = None if partition_by is None else tuple(parse_names(partition_by))
    context = getattr(lake.spark, "_sc", None)  # of a session in this process
    if context is None:
        raise Unsupported('over Spark Connect, use df.writeStream.format("graveler")')

    def land(batch: DataFrame, number: int) -> None:
        query = context.getLocalProperty(QUERY)
        stream = stream_name(query, where.prefix)
        terms = JobTerms(message, dict(metadata or {}), "", stream, number, on_rewind)
        writes.append(lake, where, batch, writes.Writing(terms, format, by, merge_schema))

    query = df.writeStream.foreachBatch(land).option("checkpointLocation", checkpoint)
    return (query.trigger(**trigger) if trigger else query).start()
