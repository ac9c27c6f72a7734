"""Where ranges end: after a key whose salted hash says so, or when they are large enough.

After each record: never while the range is smaller than `min_size`; always once it is at least
`max_size`; else where the key's hash is a multiple of `raggedness`.  Sizes are of keys and framed
values, so every writer of a repository finds the same ends in the same records (docs/format.md).
Pure; for this package, and for parallel writers.
"""

from itertools import accumulate
from operator import add

from graveler.committed.ranges import Columns
from graveler.identity import break_hash, break_seed
from graveler.records import BreakParameters, RangeRef

NOWHERE = -1


class Splitter:
    """The rule of one repository."""

    def __init__(self, breaks: BreakParameters) -> None:
        self._breaks = breaks
        self._seed = break_seed(breaks.salt)

    def is_hash_break(self, key: bytes) -> bool:
        """Whether a range may end after `key`; with `min_size` 0 it must."""
        return break_hash(key, self._seed) % self._breaks.raggedness == 0

    def closes(self, ref: RangeRef) -> bool:
        """Whether a range ends where the rule ends it, rather than because its records did."""
        size, breaks = ref.size, self._breaks
        if size < breaks.min_size:
            return False
        return size >= breaks.max_size or self.is_hash_break(ref.max_key)

    def cut(self, columns: Columns, before: int) -> tuple[int, int]:
        """The position after the first record that ends a range which already holds `before`
        bytes, or NOWHERE; and the size of the range up to there, or with all of `columns`."""
        breaks = self._breaks
        keys, values = columns.keys, columns.values
        total = before + columns.size
        hits = columns.hash_breaks(self._seed, breaks.raggedness)
        if not hits and total < max(breaks.max_size, breaks.min_size):
            return NOWHERE, total
        sizes = list(accumulate(map(add, map(len, keys), map(len, values)), initial=before))
        least = max(breaks.min_size, breaks.max_size)
        allowed = set(hits)
        for at in range(len(keys)):
            size = sizes[at + 1]
            if size >= least or (at in allowed and size >= breaks.min_size):
                return at + 1, size
        return NOWHERE, total
