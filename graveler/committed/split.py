"""Decides where ranges end.  The first line that applies to a record decides:

    size < min_size                           the range continues
    size >= max_size                          the range ends
    hash of the key % raggedness == 0         the range ends; otherwise it continues

Sizes count keys and framed values, so every writer of a repository finds the same breaks in the
same records (docs/reference/format.md).
"""

from itertools import accumulate
from operator import add

from graveler.committed.columns import Columns
from graveler.identity import break_hash, break_seed
from graveler.records import BreakParameters, RangeRef

NOWHERE = -1


class Splitter:
    """The break rule of one repository."""

    def __init__(self, breaks: BreakParameters) -> None:
        self._breaks = breaks
        self._seed = break_seed(breaks.salt)

    def is_hash_break(self, key: bytes) -> bool:
        """Whether the hash of `key` is a break: the range ends after `key` if it has at least
        `min_size` bytes."""
        return break_hash(key, self._seed) % self._breaks.raggedness == 0

    def closes(self, ref: RangeRef) -> bool:
        """Whether a range ends at a break of the rule, and not only because the records ended."""
        size, breaks = ref.size, self._breaks
        if size < breaks.min_size:
            return False
        return size >= breaks.max_size or self.is_hash_break(ref.max_key)

    def cut(self, columns: Columns, before: int) -> tuple[int, int]:
        """Where to cut `columns`, which continue a range of `before` bytes.

        Returns the position after the first record that ends the range, and the size of the range
        up to there; or NOWHERE, and the size of the range with all of `columns`."""
        breaks = self._breaks
        total = before + columns.size
        if total < breaks.min_size:
            return NOWHERE, total
        hits = columns.hash_breaks(self._seed, breaks.raggedness)
        if not hits and total < max(breaks.max_size, breaks.min_size):
            return NOWHERE, total
        keys, values = columns.keys, columns.values
        sizes = list(accumulate(map(add, map(len, keys), map(len, values)), initial=before))
        least = max(breaks.min_size, breaks.max_size)
        allowed = set(hits)
        for at in range(len(keys)):
            size = sizes[at + 1]
            if size >= least or (at in allowed and size >= breaks.min_size):
                return at + 1, size
        return NOWHERE, total
