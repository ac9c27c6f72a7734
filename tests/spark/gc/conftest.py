"""Collections run as in a session that nobody has configured."""

import pytest
from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(bare: SparkSession) -> SparkSession:
    """Of all tests in this folder."""
    return bare
