"""Paging over records in a key range, without deleted and hidden ones; and writing many rows.

A page asks the store for one row more than it shows, so that the caller knows whether more follow
without a second request.  Records that are left out cost further requests only if there are many:
each request asks for ten times as many rows as the one before, up to 1,000.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from graveler.core import limits
from graveler.core.streams import successor
from graveler.kv.store import Row, Store, Write, scan_pages

T = TypeVar("T")
_GROWTH = 10


class Stretch(NamedTuple):
    """A key range: the keys of one kind of record whose names begin with `prefix` and sort after
    `after`."""

    partition: bytes
    kind: bytes
    prefix: str = ""
    after: str = ""


def rows(
    kv: Store, stretch: Stretch, first: int = limits.page_count_max
) -> Iterator[tuple[str, Row]]:
    """Names and rows in key order.  The first request asks for `first` rows, each further one for
    ten times as many, up to 1,000."""
    stem = stretch.kind + stretch.prefix.encode()
    behind = stretch.kind + stretch.after.encode() + b"\0"
    start = max(stem, behind) if stretch.after else stem
    for page in scan_pages(kv, stretch.partition, start, successor(stem), first, growth=_GROWTH):
        for key, row in page:
            yield key[len(stretch.kind) :].decode(), row


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
