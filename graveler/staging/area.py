"""The rows of one staging token: what was written to a branch and is in no commit yet.

    token      01J8Z3…(ULID: its birth)…k2m9(10 random)….8      8 shards, fixed at birth
    partition  s/<token>/<shard>        shard = hash(path) mod shards
    row        path → value or tombstone, request that wrote it; order and version beside it

A token belongs to one branch for one stretch of time and is never used again.  A row is replaced
only by one of greater order, so a late duplicate of an old write changes nothing.  Nothing here
knows which tokens a branch has: that is the branch record's (refs).  For the engine.
"""

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from math import inf
from operator import itemgetter
from typing import Literal, NamedTuple, NotRequired, Required, TypedDict, Unpack

from graveler import limits, wire
from graveler.clock import Clock, Ids, ulid, ulid_born_ns
from graveler.errors import Corrupt, Internal
from graveler.fanout import SEQUENTIAL, Fanout
from graveler.identity import shard
from graveler.ids import StagingToken
from graveler.kv.store import (
    WRITTEN,
    Condition,
    Guarded,
    Matches,
    Paired,
    Place,
    Row,
    Store,
    Write,
    Written,
    scan_all,
    scan_pages,
)
from graveler.records import ABSENT, Absent, Staged, StagedValue
from graveler.staging.shapes import value_of
from graveler.streams import END, Cursor, End, Item, Overlay

FIRST_PAGE_COUNT = 128  # what most listings need; a long scan soon outgrows it
_PAGE_GROWTH = 4
_RANDOM_LENGTH = 10
_TOKENS_KEPT = 256  # whose partitions are known: 64 each at most


class Columns(TypedDict):
    """What stands beside a staged value."""

    wid: bytes
    order: int
    version: bytes


class ConditionalColumns(TypedDict, total=False):
    """As `Columns`; without `order` the row's grows by one.  `guard`: only while the row at that
    place (the branch record) has that version.  `beside`: another row, written in the same step if
    that condition holds of it."""

    wid: Required[bytes]
    version: Required[bytes]
    order: NotRequired[int]
    guard: NotRequired[tuple[Place, bytes]]
    beside: NotRequired[tuple[Matches | Literal[Absent.ABSENT], Write]]


# ---- tokens --------------------------------------------------------------------------------------


def new_token(clock: Clock, ids: Ids, shards: int) -> StagingToken:
    """A token that nobody else has or ever will have; its rows will stand in `shards` shards."""
    if not 1 <= shards <= limits.staging_shard_count_max:
        raise Internal(f"staging token asked for with a wrong number of shards: {shards=}")
    birth = ulid(clock.now_ns(), ids.stamp())
    return StagingToken(f"{birth}{ids.unique(_RANDOM_LENGTH)}.{shards}")


def shard_count(token: StagingToken) -> int:
    """How many shards the token's rows stand in.  Raises `Corrupt`."""
    _, dot, count = token.rpartition(".")
    if not (dot and count.isascii() and count.isdecimal()):
        raise Corrupt(f"staging token without a number of shards: {token=}")
    shards = int(count)
    if not 1 <= shards <= limits.staging_shard_count_max:
        raise Corrupt(f"staging token with a wrong number of shards: {token=}")
    return shards


def born_ns(token: StagingToken) -> int:
    """When the token was made, to the millisecond.  Raises `Corrupt`."""
    try:
        return ulid_born_ns(token)
    except ValueError as error:
        raise Corrupt(f"staging token without a birth time: {token=}") from error


def _partition(token: StagingToken, number: int) -> bytes:
    return b"s/%b/%d" % (token.encode(), number)


@lru_cache(maxsize=_TOKENS_KEPT)
def _partitions(token: StagingToken) -> tuple[bytes, ...]:
    """One for each shard.  Every row that is written or read asks, and few tokens are in use."""
    return tuple([_partition(token, number) for number in range(shard_count(token))])


def place_of(token: StagingToken, key: bytes) -> Place:
    """Where the row of `key` stands."""
    partitions = _partitions(token)
    return partitions[shard(key, len(partitions))], key


def decode(row: Row) -> Staged:
    """What a row says.  Raises `Corrupt`."""
    return wire.decode_staged(row.value, row.order, row.version)


# ---- one key -------------------------------------------------------------------------------------


def stage(
    kv: Store, token: StagingToken, key: bytes, value: StagedValue, **columns: Unpack[Columns]
) -> Staged | Literal[Written.WRITTEN]:
    """Put `value` at `key` if what is there has a smaller order; else answer what is there.

    One request (`set_newer`).  A row with the caller's own `wid` in the answer means that an
    earlier attempt landed.  Raises `OutcomeUnknown` when no answer came.
    """
    partition, _ = place_of(token, key)
    row = wire.encode_staged(value, columns["wid"])
    outcome = kv.set_newer(partition, key, row, columns["version"], columns["order"])
    if outcome is WRITTEN:
        return WRITTEN
    if outcome.current is ABSENT:
        raise Internal(f"staged write refused though nothing is there: {key=}")
    return decode(outcome.current)


def stage_if(
    kv: Store,
    token: StagingToken,
    key: bytes,
    value: StagedValue,
    *,
    seen: Staged | Literal[Absent.ABSENT],
    **columns: Unpack[ConditionalColumns],
) -> bool:
    """Put `value` at `key` if the row is still `seen`, and the guard holds; whether it was put.

    One request (`set_if`).  The row's order grows: to `order` if given and greater, else by one.
    Raises `OutcomeUnknown`.
    """
    partition, _ = place_of(token, key)
    row = wire.encode_staged(value, columns["wid"])
    version = columns["version"]
    before = 0 if seen is ABSENT else seen.order
    order = max(columns.get("order", 0), before + 1)
    row_condition = ABSENT if seen is ABSENT else Matches(seen.version)
    condition: Condition = row_condition
    if "guard" in columns:
        condition = Guarded(row_condition, *columns["guard"])
    elif "beside" in columns:
        condition = Paired(row_condition, *columns["beside"])
    outcome = kv.set_if(partition, key, row, version, condition, order)
    if outcome is WRITTEN:
        return True
    return outcome.current is not ABSENT and outcome.current.version == version


def lookup(
    kv: Store, tokens: Sequence[StagingToken], key: bytes
) -> Staged | Literal[Absent.ABSENT]:
    """What the newest of `tokens` (newest first) that knows `key` says of it.  One request."""
    if len(tokens) == 1:
        row = kv.get(*place_of(tokens[0], key))
        return ABSENT if row is ABSENT else decode(row)
    return lookup_many(kv, tokens, (key,)).get(key, ABSENT)


def lookup_many(
    kv: Store, tokens: Sequence[StagingToken], keys: Sequence[bytes]
) -> dict[bytes, Staged]:
    """As `lookup`, for those of `keys` that any token knows.  One batch (`get_many`)."""
    places = {key: [place_of(token, key) for token in tokens] for key in keys}
    asked = [place for row_places in places.values() for place in row_places]
    rows = kv.get_many(asked) if asked else {}
    found = {}
    for key, row_places in places.items():
        newest = next((rows[place] for place in row_places if place in rows), None)
        if newest is not None:
            found[key] = decode(newest)
    return found


# ---- all keys ------------------------------------------------------------------------------------


def is_empty(kv: Store, token: StagingToken, fanout: Fanout = SEQUENTIAL) -> bool:
    """Whether the token has no row: one request; if that shard has none, one for each other shard,
    at the same time."""

    def has_row(partition: bytes) -> bool:
        return bool(kv.scan(partition, b"", b"", 1).rows)

    first, *others = _partitions(token)
    return not has_row(first) and not any(fanout.map(has_row, others) if others else ())


def scan(kv: Store, token: StagingToken, start: bytes = b"") -> Iterator[tuple[bytes, Staged]]:
    """Every row from `start` in key order: one request a shard and `scan_page_count_max` rows."""
    return _merged([_shard_rows(kv, partition, start) for partition in _partitions(token)])


class ShardPage(NamedTuple):
    """Some rows of one shard, in key order.  `more`: others may follow behind the last."""

    rows: list[tuple[bytes, Staged]]
    more: bool


def shard_page(kv: Store, token: StagingToken, number: int, start: bytes, limit: int) -> ShardPage:
    """At most `limit` rows of a shard from `start` on, perhaps fewer with `more`.  One request."""
    found = kv.scan(_partition(token, number), start, b"", limit)
    return ShardPage([(key, decode(row)) for key, row in found.rows], found.more)


class TooManyRows(Exception):
    """The tokens hold more rows than the caller takes."""


class _Tally:
    """Rows that the scans of several shards have read together.  Threads share it: of those that
    note a page at the same time, the last sees them all."""

    def __init__(self, rows_max: float) -> None:
        self._rows_max = rows_max
        self._pages: list[int] = []

    def note(self, rows: int) -> None:
        self._pages.append(rows)
        if sum(self._pages) > self._rows_max:
            raise TooManyRows


def values_many(
    kv: Store, tokens: Sequence[StagingToken], fanout: Fanout, rows_max: float = inf
) -> list[list[tuple[bytes, StagedValue]]]:
    """What each token says of every key, in key order; costs what `scan` costs, all shards at the
    same time.  Raises `TooManyRows` with the page that goes past `rows_max` of all tokens."""
    partitions = [_partitions(token) for token in tokens]
    asked = [partition for each in partitions for partition in each]
    tally = _Tally(rows_max)
    if len(asked) == 1:
        return [_shard_values(kv, asked[0], tally)]
    found = iter(fanout.map(lambda each: _shard_values(kv, each, tally), asked))
    return [_values_merged([next(found) for _ in each]) for each in partitions]


def _shard_values(kv: Store, partition: bytes, tally: _Tally) -> list[tuple[bytes, StagedValue]]:
    found: list[tuple[bytes, StagedValue]] = []
    for page in scan_pages(kv, partition, b"", b"", limits.scan_page_count_max):
        tally.note(len(page))
        found += [(key, value_of(row.value)) for key, row in page]
    return found


def _values_merged(
    shards: Sequence[list[tuple[bytes, StagedValue]]],
) -> list[tuple[bytes, StagedValue]]:
    """Shards are sorted, which is what this sort is quick at."""
    return shards[0] if len(shards) == 1 else sorted(chain(*shards), key=itemgetter(0))


def _shard_rows(kv: Store, partition: bytes, start: bytes) -> Iterator[tuple[bytes, Staged]]:
    rows = scan_all(kv, partition, start, b"", limits.scan_page_count_max)
    return ((key, decode(row)) for key, row in rows)


def _merged(shards: Sequence[Iterable[tuple[bytes, Staged]]]) -> Iterator[tuple[bytes, Staged]]:
    """Shards never share a key, so the merge never compares rows."""
    return iter(shards[0]) if len(shards) == 1 else heapq.merge(*shards)


class Dropped(NamedTuple):
    """How many rows were deleted, and whether none is left of those that were there."""

    rows: int
    whole: bool


def drop(kv: Store, token: StagingToken, goes_on: Callable[[], bool] = lambda: True) -> Dropped:
    """Delete every row, as long as it `goes_on`, which is asked before each batch.  Two requests a
    batch, one more for each shard; may be repeated."""
    count = 0
    batch = limits.kv_batch_count_max
    for partition in _partitions(token):
        start, more = b"", True
        while more:
            if not goes_on():
                return Dropped(count, whole=False)
            rows, more = kv.scan(partition, start, b"", batch)
            if not rows:
                break
            kv.delete(partition, [key for key, _ in rows])
            count += len(rows)
            start = rows[-1][0] + b"\0"
    return Dropped(count, whole=True)


def cursor(kv: Store, token: StagingToken, first: int = FIRST_PAGE_COUNT) -> Cursor:
    """The token's rows, tombstones included, fetched as they are asked for.

    Nothing is sent before the first `peek`.  The first page of a shard has `first` rows; pages grow
    as the cursor advances.  A seek inside the fetched page costs nothing, beyond it one request a
    shard.
    """
    shards = shard_cursors(kv, token, first)
    return shards[0] if len(shards) == 1 else Overlay(shards)


def shard_cursors(kv: Store, token: StagingToken, first: int) -> "list[ShardCursor]":
    """As `cursor`, one for each shard: they share no key."""
    return [ShardCursor(kv, partition, first) for partition in _partitions(token)]


class ShardCursor:
    """`Cursor` over one partition.  Everything before `_start` has been fetched or skipped."""

    def __init__(self, kv: Store, partition: bytes, first: int) -> None:
        self._kv = kv
        self._partition = partition
        self._first = max(1, min(first, limits.scan_page_count_max))
        self._size = self._first
        self._rows: tuple[tuple[bytes, Row], ...] = ()
        self._next = 0
        self._start = b""
        self._more = True
        self._item: Item | None = None  # the decoded present row: peek is asked many times

    def seek(self, key: bytes) -> None:
        rows = self._rows
        if self._next < len(rows) and key <= rows[-1][0]:
            if key > rows[self._next][0]:
                self._next = bisect_left(rows, key, self._next, key=lambda row: row[0])
                self._item = None
        elif key >= self._start:
            self._rows, self._next, self._item = (), 0, None
            if key > self._start:
                # A jump out of the page: what lies there may be as short as the first page.
                self._start, self._size = key, self._first

    def peek(self) -> Item | End:
        if self._item is None:
            while self._next >= len(self._rows):
                if not self._more:
                    return END
                self.fetch()
            key, row = self._rows[self._next]
            self._item = key, decode(row).value
        return self._item

    def advance(self) -> None:
        if self.peek() is not END:
            self._next += 1
            self._item = None

    @property
    def waits(self) -> bool:
        """Whether the next `peek` would send a request."""
        return self._item is None and self._more and self._next >= len(self._rows)

    def fetch(self) -> None:
        """Send the request that it waits for: the next page."""
        page = self._kv.scan(self._partition, self._start, b"", self._size)
        self._rows, self._next = page.rows, 0
        self._more = page.more and bool(page.rows)
        if page.rows:
            self._start = page.rows[-1][0] + b"\0"
        self._size = min(self._size * _PAGE_GROWTH, limits.scan_page_count_max)


def row_write(
    token: StagingToken, key: bytes, value: StagedValue, *, wid: bytes, version: bytes
) -> Write:
    """The write of one row of a token that no record names yet, for a batch; its order is 0."""
    partition, _ = place_of(token, key)
    return Write(partition, key, wire.encode_staged(value, wid), version)
