"""Spark 3 knows no data sources of Python."""

import pytest

from graveler.core.errors import Unsupported
from graveler.spark import Lake, register


def test_spark_3_has_none(lake: Lake) -> None:
    with pytest.raises(Unsupported, match="data sources in Python need Spark") as told:
        register(lake)
    for verb in ("table(", "read", "append", "overwrite", "entries", "diff"):
        assert verb in str(told.value)
