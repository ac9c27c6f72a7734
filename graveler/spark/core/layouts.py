"""What the ranges of a metarange cost those who read and commit, and how many there would be
otherwise.

Pure; for `pack.py`, and for whoever wants to know before packing.
"""

from collections.abc import Sequence
from math import ceil, exp
from typing import Final, NamedTuple

from graveler.committed.ranges import totals
from graveler.committed.table import SPAN_LENGTH, TAIL_LENGTH
from graveler.records import BreakParameters, RangeRef

CHANGES: Final = 1_000  # of a commit whose cost is told
_SHARE_MAX: Final = 0.7  # of the ranges that may be left


class Layout(NamedTuple):
    """Ranges, the entries in them, the bytes of their keys and values, and those of their files.

    `read_requests`: to read all of it with nothing cached, as tasks do: the metarange, and of each
    range its end and spans of 1 MiB.  `commit_requests`, `commit_bytes`: of a commit of `CHANGES`
    entries spread evenly, on average: the metarange and each range that one of them falls into is
    read, and written by one request.  Bytes of files are as compressed as those that were looked
    at.
    """

    ranges: int
    entries: int
    size: int
    stored_bytes: int
    read_requests: int
    commit_requests: int
    commit_bytes: int


def layout_of(refs: Sequence[RangeRef], share: float = 1.0, changes: int = CHANGES) -> Layout:
    """The layout that these ranges are, if their files have that share of the bytes of their keys
    and values."""
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
    """How many ranges the same entries would be by other parameters, without reading any.

    Beyond `min_size` a range ends after each record with the same chance: the bytes until then are
    distributed exponentially, and cut off at `max_size`."""
    if not now.entries:
        return 0
    until_break = breaks.raggedness * now.size / now.entries
    beyond = until_break * (1 - exp((breaks.min_size - breaks.max_size) / until_break))
    return max(1, round(now.size / max(1.0, breaks.min_size + beyond)))


def pays(before: int, after: int) -> bool:
    """Whether so much fewer ranges are worth writing them all anew: by 30 in 100 at least."""
    return after <= before * _SHARE_MAX
