"""Paging over records in a key range, without deleted and hidden ones; and writing many rows.

A page asks the store for one row more than it shows, so that the caller knows whether more follow
without a second request.  Records that are left out cost further requests only if there are many:
each request asks for ten times as many rows as the one before, up to `_ROWS_MAX`.  For this folder.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from graveler import limits
from graveler.kv.store import Row, Store, Write
from graveler.streams import successor

T = TypeVar("T")
_ROWS_MAX = 1_000
_GROWTH = 10


class Stretch(NamedTuple):
    """A key range: the keys of one kind of record whose names begin with `prefix` and sort after
    `after`."""

    partition: bytes
    kind: bytes
    prefix: str = ""
    after: str = ""


def rows(kv: Store, stretch: Stretch, first: int = _ROWS_MAX) -> Iterator[tuple[str, Row]]:
    """Names and rows in key order.  The first request asks for `first` rows, each further one for
    ten times as many, up to `_ROWS_MAX`."""
    stem = stretch.kind + stretch.prefix.encode()
    behind = stretch.kind + stretch.after.encode() + b"\0"
    start = max(stem, behind) if stretch.after else stem
    end = successor(stem)
    if end and start >= end:
        return
    size, more = first, True
    while more:
        records, more = kv.scan(stretch.partition, start, end, size)
        for key, row in records:
            yield key[len(stretch.kind) :].decode(), row
        if not records:
            return
        start = records[-1][0] + b"\0"
        size = max(size, min(size * _GROWTH, _ROWS_MAX))


# Makes a record from a name and its row, or returns None to leave the row out.
Shown = Callable[[str, Row], T | None]


def every(
    kv: Store, stretch: Stretch, shown: Shown[T], first: int = limits.page_count_max + 1
) -> Iterator[T]:
    """All records.  The first request asks for `first` rows; see `rows`."""
    for name, row in rows(kv, stretch, first):
        record = shown(name, row)
        if record is not None:
            yield record


def page(kv: Store, stretch: Stretch, amount: int, shown: Shown[T]) -> tuple[tuple[T, ...], bool]:
    """At most `amount` records, and whether more follow."""
    size = max(1, min(amount + 1, limits.scan_page_count_max))
    records = tuple(islice(every(kv, stretch, shown, size), amount + 1))
    return records[:amount], len(records) > amount


def put_all(kv: Store, writes: Sequence[Write]) -> None:
    """Store rows.  One request for each 1,000.  Idempotent."""
    for first in range(0, len(writes), limits.kv_batch_count_max):
        kv.set_many(writes[first : first + limits.kv_batch_count_max])
