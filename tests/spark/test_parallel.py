"""How many tasks are made, whatever the platform's setting says."""

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from graveler.spark.cluster.parallel import parallel_tasks


@pytest.mark.parametrize(
    ("setting", "tasks"), [("auto", 200), ("", 200), (None, 200), ("7", 7), ("0", 1), (" 12 ", 12)]
)
def test_a_setting_that_is_no_number_counts_as_the_default(setting: Any, tasks: int) -> None:
    """No Spark of this machine takes "auto", so the session is one that answers."""
    session: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda *_: setting))
    assert parallel_tasks(session) == tasks


def test_the_setting_of_a_session_counts(spark: SparkSession) -> None:
    assert parallel_tasks(spark) == 2
