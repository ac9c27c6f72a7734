"""Tables in pieces: Arrow streams in the object store that any process of a job can write and read.

Some tables must not be computed twice (the list of the storage, the files to delete).  They are
stored in pieces: if a task is lost, its next attempt reads the same rows.  A piece appears as a
whole.  For this package.
"""

import io
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from graveler.spark.cluster.parallel import in_tasks
from graveler.spark.cluster.places import Place, opened


def put(place: Place, where: str, batch: pa.RecordBatch) -> None:
    """Store a piece at a full address, and overwrite an earlier one.  One put."""
    body = io.BytesIO()
    with pa.ipc.new_stream(body, batch.schema) as writer:
        writer.write_batch(batch)
    opened(place).blocks.put(where, [body.getvalue()])


def read(place: Place, where: str) -> Iterator[pa.RecordBatch]:
    """The rows of a piece.  One get."""
    body = b"".join(opened(place).blocks.get(where).chunks)
    with pa.ipc.open_stream(io.BytesIO(body)) as reader:
        yield from reader


def frame(spark: SparkSession, place: Place, names: Sequence[str], schema: str) -> DataFrame:
    """The rows of pieces with one schema, read by the executors."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                yield from read(place, row["name"])

    return in_tasks(spark, [{"name": name} for name in names], "name string", run, schema)
