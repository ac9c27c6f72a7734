"""The cost of a metarange's ranges, and how many ranges other break parameters would give.

The cost is that of readers and of commits.  Pure; for `pack.py`, and for users who want an estimate
before they pack.
"""

from collections.abc import Sequence
from math import ceil, exp
from typing import Final, NamedTuple

from graveler.committed.ranges import totals
from graveler.committed.table import SPAN_LENGTH
from graveler.committed.table_end import TAIL_LENGTH
from graveler.records import BreakParameters, RangeRef

CHANGES: Final = 1_000  # of a commit whose cost is estimated
_SHARE_MAX: Final = 0.7  # of the ranges that may remain


class Layout(NamedTuple):
    """The number of ranges and of the entries in them, the bytes of keys and values, and the bytes
    of the stored files.

    `read_requests`: requests to read everything with empty caches, as tasks do: the metarange, and
    of each range its tail and spans of 1 MiB.  `commit_requests`, `commit_bytes`: the average cost
    of a commit of `CHANGES` entries that are spread evenly.  Such a commit reads and writes the
    metarange and each range with a changed entry; each write is one request.  The bytes of files
    assume the compression of the files that were sampled.
    """

    ranges: int
    entries: int
    size: int
    stored_bytes: int
    read_requests: int
    commit_requests: int
    commit_bytes: int


def layout_of(refs: Sequence[RangeRef], share: float = 1.0, changes: int = CHANGES) -> Layout:
    """The layout of these ranges.  `share`: the bytes of the files for each byte of keys and
    values."""
    entries, size = totals(refs)
    reads = [_reads(ref.size * share) for ref in refs]
    touched = [1 - (1 - ref.count / entries) ** changes for ref in refs]
    requests = sum(chance * (each + 1) for chance, each in zip(touched, reads, strict=True))
    rewritten = sum(chance * ref.size for chance, ref in zip(touched, refs, strict=True))
    return Layout(
        ranges=len(refs),
        entries=entries,
        size=size,
        stored_bytes=round(size * share),
        read_requests=1 + sum(reads),
        commit_requests=2 + round(requests),
        commit_bytes=round(rewritten * share),
    )


def _reads(stored_bytes: float) -> int:
    return 1 + max(0, ceil((stored_bytes - TAIL_LENGTH) / SPAN_LENGTH))


def expected_ranges(now: Layout, breaks: BreakParameters) -> int:
    """How many ranges the same entries would have with other parameters; an estimate that reads
    nothing.

    Beyond `min_size`, a range ends after each record with the same probability.  So the bytes until
    the end are distributed exponentially, and cut off at `max_size`.
    """
    if not now.entries:
        return 0
    until_break = breaks.raggedness * now.size / now.entries
    beyond = until_break * (1 - exp((breaks.min_size - breaks.max_size) / until_break))
    return max(1, round(now.size / max(1.0, breaks.min_size + beyond)))


def pays(before: int, after: int) -> bool:
    """Whether the reduction justifies writing all ranges again: at least 30 % fewer ranges."""
    return after <= before * _SHARE_MAX
