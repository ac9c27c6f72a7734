"""Ranges as rows of a DataFrame, for tasks that read ranges."""

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from graveler.ids import RangeId
from graveler.records import RangeRef

RANGE_ROWS: Final = "id string, min_key binary, max_key binary, size bigint, count bigint"
_FIELDS: Final = ("id", "min_key", "max_key", "size", "count")


def row_of(ref: RangeRef) -> dict[str, Any]:
    """A range as a row of `RANGE_ROWS`."""
    return {name: getattr(ref, name) for name in _FIELDS}


def refs_in(batch: pa.RecordBatch) -> Iterator[RangeRef]:
    """The ranges in a batch of rows of `RANGE_ROWS`."""
    for row in batch.to_pylist():
        yield RangeRef(
            RangeId(row["id"]), row["min_key"], row["max_key"], row["size"], row["count"]
        )
