"""How a few rows of the driver reach tasks, and how many tasks to start.  For this package."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]  # for `mapInArrow`
_SETTING: Final = "spark.sql.shuffle.partitions"
_DEFAULT: Final = 200  # Spark's own
_CARRIED_MAX: Final = 256
_ROWS_EACH: Final = 64  # in a task


def parallel_tasks(spark: SparkSession) -> int:
    """Spark's number of partitions after a shuffle.  If the setting is not a number (Databricks has
    "auto"), Spark's default of 200."""
    text = str(spark.conf.get(_SETTING)).strip()  # Spark refuses a default that is not a number
    return max(1, int(text)) if text.isdecimal() else _DEFAULT


def in_tasks(
    spark: SparkSession,
    rows: Sequence[Mapping[str, Any]],
    schema: str,
    run: Task,
    result: str | StructType,
    tasks: int = 0,
) -> DataFrame:
    """What `run` makes of rows of `schema`, in at most `tasks` tasks (0: by
    their number).

    A few rows go to the tasks inside the function: there is no job that makes a DataFrame of them
    and no shuffle.  `run` gets the values of `schema`, perhaps in wider types.
    """
    count_max = tasks or max(parallel_tasks(spark), len(rows) // _ROWS_EACH)
    count = max(1, min(count_max, len(rows)))
    if len(rows) > _CARRIED_MAX:
        spread = spark.createDataFrame(list(rows), schema, verifySchema=False).repartition(count)
        return spread.mapInArrow(run, result)
    carried = list(rows)

    def carrying(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return run(
            pa.RecordBatch.from_pylist([carried[at] for at in batch.column(0).to_pylist()])
            for batch in batches
        )

    frame = spark.range(0, len(carried), 1, count).mapInArrow(carrying, result)
    return frame if carried else frame.limit(0)  # which Spark plans without a task
