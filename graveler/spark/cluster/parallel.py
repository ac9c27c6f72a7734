"""How many tasks to start, by Spark's settings.  For this package."""

from typing import Final

from pyspark.sql import SparkSession

_SETTING: Final = "spark.sql.shuffle.partitions"
_DEFAULT: Final = 200  # Spark's own


def parallel_tasks(spark: SparkSession) -> int:
    """Spark's number of partitions after a shuffle.  If the setting is not a number (Databricks has
    "auto"), Spark's default of 200."""
    text = str(spark.conf.get(_SETTING, "")).strip()
    return max(1, int(text)) if text.isdecimal() else _DEFAULT
