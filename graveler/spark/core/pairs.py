"""The metadata of many rows at once: a column of maps as one list of pairs.

    rows     {b: 1, a: 2}  null  {}  {c: 3}
    counts        2          0    0     1
    pairs    a 2 · b 1 · c 3                   sorted by row, then by key

Pure; for this package.
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class Pairs(NamedTuple):
    """How many pairs each row has, and the keys and values of all pairs as binary arrays."""

    counts: Any
    keys: Any
    items: Any

    @property
    def rows(self) -> Any:
        """The row of each pair."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def in_order(self) -> "Pairs":
        """The same pairs, sorted by key within each row."""
        if self._are_ascending().all():
            return self
        table = pa.table({"row": self.rows, "key": self.keys})
        order = pc.sort_indices(table, [("row", "ascending"), ("key", "ascending")])
        return Pairs(self.counts, self.keys.take(order), self.items.take(order))

    def twins(self) -> Any:
        """The rows that have a key twice.  The pairs must be in order."""
        return np.unique(self.rows[1:][~self._are_ascending()])

    def _are_ascending(self) -> Any:
        """For each pair but the first: whether it is the first of its row, or its key is greater
        than the key before it."""
        keys = self.keys
        if len(keys) < 2:
            return np.ones(0, dtype=bool)
        greater = pc.greater(keys.slice(1), keys.slice(0, len(keys) - 1))
        rows = self.rows
        return (rows[1:] != rows[:-1]) | greater.to_numpy(zero_copy_only=False)


def pairs_of(metadata: Any) -> Pairs:
    """The pairs of a map array in their stored order; a null map has none."""
    offsets = np.asarray(metadata.offsets).astype(np.int64)
    counts = np.diff(offsets)
    first, last = int(offsets[0]), int(offsets[-1])
    keys, items = (
        column.slice(first, last - first).cast(pa.binary())
        for column in (metadata.keys, metadata.items)
    )
    is_null = metadata.is_null().to_numpy(zero_copy_only=False)
    if counts[is_null].any():
        is_valid = pa.array(np.repeat(~is_null, counts))
        keys, items = keys.filter(is_valid), items.filter(is_valid)
    return Pairs(np.where(is_null, 0, counts), keys, items)
