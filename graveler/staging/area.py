"""The staged rows of one staging token: writes to a branch that are in no commit yet.

    token      01J8Z3…(ULID: creation time)…k2m9(10 random)….8      8 shards, fixed at creation
    partition  s/<token>/<shard>        shard = hash(path) mod shards
    row        path → value or tombstone, and the id of the write (`wid`); beside them the row's
               order and version

A token belongs to one branch for one period and is never reused.  A row is replaced only by a row
of greater order, so a late duplicate of an old write changes nothing.  The branch record (refs)
lists the tokens of a branch; this module does not know them.

A fast reader for the value of a staged row.

    format (1 byte) | 0a | length (varint) | value | 12 10 | wid (16 bytes)
    format (1 byte)                                | 12 10 | wid (16 bytes)     a tombstone

Commits and listings read many staged rows and need only their values.  Writes by ordinary requests
are stored in these shapes, so this module takes the value out by position.  It passes any other
shape to the record's full decoder (`wire.decode_staged`).
"""

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from math import inf
from operator import itemgetter
from typing import Literal, NamedTuple

from graveler.core import limits, wire
from graveler.core.clock import Clock, Ids, ulid, ulid_born_ns
from graveler.core.errors import Corrupt, Internal, Unavailable
from graveler.core.fanout import SEQUENTIAL, Fanout
from graveler.core.identity import shard
from graveler.core.ids import StagingToken
from graveler.core.records import ABSENT, TOMBSTONE, Absent, Staged, StagedValue
from graveler.core.streams import END, Cursor, End, Item, Overlay
from graveler.kv.store import (
    Condition,
    Declined,
    Guarded,
    Matches,
    Newer,
    Outcome,
    Paired,
    Place,
    Row,
    RowVersion,
    Store,
    Write,
    Written,
    landed,
    scan_all,
    scan_pages,
)

# ---- shapes ----------------------------------------------------------------------------------

_VALUE = b"\x0a"
_WID = b"\x12\x10"
_BEGIN = wire.FORMAT + _VALUE
_HEAD = len(_BEGIN)
_REST = len(_WID) + 16
_LEAST = _HEAD + 1 + _REST  # with a value of no byte
_DELETION = wire.FORMAT + _WID
_DELETION_LENGTH = len(wire.FORMAT) + _REST
_MORE = 0x80  # this bit of a varint byte means that another byte follows


def value_of(raw: bytes) -> StagedValue:
    """The same value as `wire.decode_staged` returns, in a third of its time.  Raises
    `Corrupt`."""
    if len(raw) == _DELETION_LENGTH and raw.startswith(_DELETION):
        return TOMBSTONE
    if len(raw) > _LEAST and raw.startswith(_BEGIN):
        begin, length = _HEAD + 1, raw[_HEAD]
        if length & _MORE and not raw[begin] & _MORE:
            length = (length ^ _MORE) | raw[begin] << 7
            begin += 1
        end = begin + length
        if length and len(raw) == end + _REST and raw.startswith(_WID, end):
            return raw[begin:end]
    return wire.decode_staged(raw, 0, b"").value


# ---- area ------------------------------------------------------------------------------------


FIRST_PAGE_COUNT = 128  # enough for most listings; pages of a long scan grow quickly
_PAGE_GROWTH = 4
_RANDOM_LENGTH = 10
_TOKENS_KEPT = 256  # tokens whose partition names are cached: at most 64 names each


class Guard(NamedTuple):
    """A row that must not change: the row at `place` (the branch record) still has `version`."""

    place: Place
    version: bytes


class Beside(NamedTuple):
    """Another row, which is written in the same step if its `condition` holds too.  `guard`: a
    third row, as in `Guard`."""

    condition: Matches | Literal[Absent.ABSENT]
    write: Write
    guard: Guard | Literal[Absent.ABSENT] = ABSENT


# ---- tokens --------------------------------------------------------------------------------------


def new_token(clock: Clock, ids: Ids, shards: int) -> StagingToken:
    """A new, globally unique token whose rows are spread over `shards` shards."""
    if not 1 <= shards <= limits.staging_shard_count_max:
        raise Internal(f"staging token requested with a wrong number of shards: {shards=}")
    birth = ulid(clock.now_ns(), ids.stamp())
    return StagingToken(f"{birth}{ids.unique(_RANDOM_LENGTH)}.{shards}")


def shard_count(token: StagingToken) -> int:
    """The number of shards of the token.  Raises `Corrupt`."""
    _, dot, count = token.rpartition(".")
    if not (dot and count.isascii() and count.isdecimal()):
        raise Corrupt(f"staging token without a number of shards: {token=}")
    shards = int(count)
    if not 1 <= shards <= limits.staging_shard_count_max:
        raise Corrupt(f"staging token with a wrong number of shards: {token=}")
    return shards


def born_ns(token: StagingToken) -> int:
    """The creation time of the token in nanoseconds, exact to the millisecond.  Raises
    `Corrupt`."""
    try:
        return ulid_born_ns(token)
    except ValueError as error:
        raise Corrupt(f"staging token without a birth time: {token=}") from error


def _partition(token: StagingToken, number: int) -> bytes:
    return b"s/%b/%d" % (token.encode(), number)


@lru_cache(maxsize=_TOKENS_KEPT)
def _partitions(token: StagingToken) -> tuple[bytes, ...]:
    """The partition of each shard.  Cached: every read or write of a row asks for it, and few
    tokens are in use."""
    return tuple([_partition(token, number) for number in range(shard_count(token))])


def place_of(token: StagingToken, key: bytes) -> Place:
    """The place of the row of `key`."""
    partitions = _partitions(token)
    return partitions[shard(key, len(partitions))], key


def decode(row: Row) -> Staged:
    """The staged row that a stored row holds.  Raises `Corrupt`."""
    return wire.decode_staged(row.value, row.order, row.version)


# ---- one key -------------------------------------------------------------------------------------


class NewRow(NamedTuple):
    """A value at a key, the id of the write, and the order of the row."""

    token: StagingToken
    key: bytes
    value: StagedValue
    wid: bytes
    order: int


def stage(
    kv: Store, rows: Sequence[NewRow], ids: Ids
) -> list[Staged | Literal[Written.WRITTEN] | Unavailable]:
    """Write each of the rows, which are at different places, if no row is there or one of smaller
    order; otherwise its answer is the stored row.

    If that has the caller's own `wid`, an earlier send of this write was applied.  The result has
    the answer for each row at its index; an `Unavailable` of a row, also `OutcomeUnknown`, is an
    element of it.
    One request for each row, and on the embedded store one sync for all (`set_newer_many`).
    """
    newer = [
        Newer(
            *place_of(row.token, row.key),
            wire.encode_staged(row.value, row.wid),
            ids.stamp(),
            row.order,
        )
        for row in rows
    ]
    outcomes: Sequence[Outcome | Unavailable]
    try:
        outcomes = (kv.set_newer(*newer[0]),) if len(newer) == 1 else kv.set_newer_many(newer)
    except Unavailable as error:
        outcomes = (error,) * len(newer)
    answers: list[Staged | Literal[Written.WRITTEN] | Unavailable] = []
    for row, outcome in zip(rows, outcomes, strict=True):
        if isinstance(outcome, Declined):
            if outcome.current is ABSENT:
                raise Internal(f"staged write refused although no row exists: {row.key=}")
            answers.append(decode(outcome.current))
        else:
            answers.append(outcome)
    return answers


def stage_if(
    kv: Store,
    token: StagingToken,
    key: bytes,
    value: StagedValue,
    *,
    seen: Staged | Literal[Absent.ABSENT],
    wid: bytes,
    version: bytes,
    order: int = 0,
    other: Guard | Beside | Literal[Absent.ABSENT] = ABSENT,
) -> bool:
    """Write `value` at `key` if the row is still `seen` and the condition on the `other` row
    holds.  Returns whether it was written.

    One request (`set_if`).  The row's order grows: to `order` if that is greater than the stored
    order, otherwise by one.  Raises `OutcomeUnknown`.
    """
    partition, _ = place_of(token, key)
    row = wire.encode_staged(value, wid)
    before = 0 if seen is ABSENT else seen.order
    row_condition = ABSENT if seen is ABSENT else Matches(seen.version)
    condition: Condition = row_condition
    if isinstance(other, Guard):
        condition = Guarded(row_condition, other.place, other.version)
    elif isinstance(other, Beside):
        seen_guard = ABSENT if other.guard is ABSENT else RowVersion(*other.guard)
        condition = Paired(row_condition, other.condition, other.write, seen_guard)
    outcome = kv.set_if(partition, key, row, version, condition, max(order, before + 1))
    return landed(outcome, version)


def lookup(
    kv: Store, tokens: Sequence[StagingToken], key: bytes
) -> Staged | Literal[Absent.ABSENT]:
    """The row of `key` in the newest token that has one.  `tokens` are newest first.  One
    request."""
    if len(tokens) == 1:
        row = kv.get(*place_of(tokens[0], key))
        return ABSENT if row is ABSENT else decode(row)
    return lookup_many(kv, tokens, (key,)).get(key, ABSENT)


def lookup_many(
    kv: Store, tokens: Sequence[StagingToken], keys: Sequence[bytes]
) -> dict[bytes, Staged]:
    """As `lookup`, for many keys.  The result has only keys that some token has a row for.  One
    batch (`get_many`)."""
    places = {key: [place_of(token, key) for token in tokens] for key in keys}
    flat = [place for row_places in places.values() for place in row_places]
    rows = kv.get_many(flat) if flat else {}
    values = {}
    for key, row_places in places.items():
        newest = next((rows[place] for place in row_places if place in rows), None)
        if newest is not None:
            values[key] = decode(newest)
    return values


# ---- all keys ------------------------------------------------------------------------------------


def is_empty(kv: Store, token: StagingToken, fanout: Fanout = SEQUENTIAL) -> bool:
    """Whether the token has no row.  One request for the first shard; if that shard is empty, one
    for each other shard, in parallel."""

    def has_row(partition: bytes) -> bool:
        return bool(kv.scan(partition, b"", b"", 1).rows)

    first, *others = _partitions(token)
    return not has_row(first) and not any(fanout.map(has_row, others) if others else ())


def scan(kv: Store, token: StagingToken, start: bytes = b"") -> Iterator[tuple[bytes, Staged]]:
    """Every row with key >= `start`, in key order.  Each shard costs one request per
    `scan_page_count_max` rows."""
    return _merged([_shard_rows(kv, partition, start) for partition in _partitions(token)])


class ShardPage(NamedTuple):
    """Some rows of one shard, in key order.  `more`: further rows may follow the last one."""

    rows: list[tuple[bytes, Staged]]
    more: bool


def shard_page(kv: Store, token: StagingToken, number: int, start: bytes, limit: int) -> ShardPage:
    """At most `limit` rows of a shard with key >= `start`.  A page may have fewer rows than `limit`
    although `more` is set.  One request."""
    answer = kv.scan(_partition(token, number), start, b"", limit)
    return ShardPage([(key, decode(row)) for key, row in answer.rows], answer.more)


def shard_pages(
    kv: Store, token: StagingToken, number: int, limit: int
) -> Iterator[list[tuple[bytes, Staged]]]:
    """All rows of a shard, `limit` at a time.  One request for each page."""
    for page in scan_pages(kv, _partition(token, number), b"", b"", limit):
        yield [(key, decode(row)) for key, row in page]


class TooManyRows(Exception):
    """The tokens hold more rows than the caller accepts."""


def deltas(
    kv: Store,
    tokens: Sequence[StagingToken],
    fanout: Fanout = SEQUENTIAL,
    rows_max: float = inf,
) -> dict[StagingToken, list[tuple[bytes, StagedValue]]]:
    """All keys and values of each token, in key order; the tokens in the order given.  Costs what
    `scan` costs; all shards of all tokens are read in parallel.  Raises `TooManyRows` as soon as a
    page takes the total of all tokens past `rows_max`."""
    pages: list[int] = []

    def values(partition: bytes) -> list[tuple[bytes, StagedValue]]:
        result: list[tuple[bytes, StagedValue]] = []
        for page in scan_pages(kv, partition, b"", b"", limits.scan_page_count_max):
            pages.append(len(page))  # of several threads that do this together, the last sees all
            if sum(pages) > rows_max:
                raise TooManyRows
            result += [(key, value_of(row.value)) for key, row in page]
        return result

    partitions = {token: _partitions(token) for token in tokens}
    flat = list(chain(*partitions.values()))
    shards = iter(fanout.map(values, flat) if len(flat) > 1 else map(values, flat))
    return {token: _in_order([next(shards) for _ in names]) for token, names in partitions.items()}


def _in_order(
    shards: Sequence[list[tuple[bytes, StagedValue]]],
) -> list[tuple[bytes, StagedValue]]:
    """All rows in key order.  Each shard is sorted already, and Python's sort merges sorted runs
    quickly."""
    return shards[0] if len(shards) == 1 else sorted(chain(*shards), key=itemgetter(0))


def _shard_rows(kv: Store, partition: bytes, start: bytes) -> Iterator[tuple[bytes, Staged]]:
    rows = scan_all(kv, partition, start, b"", limits.scan_page_count_max)
    return ((key, decode(row)) for key, row in rows)


def _merged(shards: Sequence[Iterable[tuple[bytes, Staged]]]) -> Iterator[tuple[bytes, Staged]]:
    """All rows in key order.  Shards never share a key, so the merge never compares rows."""
    return iter(shards[0]) if len(shards) == 1 else heapq.merge(*shards)


class DropResult(NamedTuple):
    """How many rows were deleted, and whether all rows that existed at the start are deleted."""

    rows: int
    whole: bool


def drop(kv: Store, token: StagingToken, goes_on: Callable[[], bool] = lambda: True) -> DropResult:
    """Delete every row.  `goes_on` is called before each batch; if it returns False, the deletion
    stops there.  Two requests per batch, and at most one more per shard.  Idempotent."""
    count = 0
    batch = limits.kv_batch_count_max
    for partition in _partitions(token):
        start, more = b"", True
        while more:
            if not goes_on():
                return DropResult(count, whole=False)
            rows, more = kv.scan(partition, start, b"", batch)
            if not rows:
                break
            kv.delete(partition, [key for key, _ in rows])
            count += len(rows)
            start = rows[-1][0] + b"\0"
    return DropResult(count, whole=True)


def cursor(kv: Store, token: StagingToken, first: int = FIRST_PAGE_COUNT) -> Cursor:
    """A cursor over the token's rows, tombstones included.  It fetches rows on demand.

    Nothing is sent before the first `peek`.  The first page of a shard has `first` rows; pages grow
    as the cursor advances.  A seek inside the fetched page costs nothing; a seek beyond it costs
    one request per shard, for at most `FIRST_PAGE_COUNT` rows.
    """
    shards = shard_cursors(kv, token, first)
    return shards[0] if len(shards) == 1 else Overlay(shards)


def shard_cursors(kv: Store, token: StagingToken, first: int) -> "list[ShardCursor]":
    """As `cursor`, but one cursor per shard.  Shards share no key."""
    return [ShardCursor(kv, partition, first) for partition in _partitions(token)]


class ShardCursor:
    """`Cursor` over one partition.  Invariant: everything before `_start` was fetched or
    skipped."""

    def __init__(self, kv: Store, partition: bytes, first: int) -> None:
        self._kv = kv
        self._partition = partition
        self._first = max(1, min(first, limits.scan_page_count_max))
        self._size = self._first
        self._rows: tuple[tuple[bytes, Row], ...] = ()
        self._next = 0
        self._start = b""
        self._more = True
        self._item: Item | None = None  # the current row, decoded once: peek is called often

    def seek(self, key: bytes) -> None:
        rows = self._rows
        if self._next < len(rows) and key <= rows[-1][0]:
            if key > rows[self._next][0]:
                self._next = bisect_left(rows, key, self._next, key=lambda row: row[0])
                self._item = None
        elif key >= self._start:
            self._rows, self._next, self._item = (), 0, None
            if key > self._start:
                # The seek leaves the page.  The caller may need few rows there, as a listing by
                # folders does: start small again.
                self._start, self._size = key, min(self._first, FIRST_PAGE_COUNT)

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

    def take(self, count: int, end: bytes) -> Sequence[Item]:
        if self.peek() is END:
            return ()
        rows, first = self._rows, self._next
        last = min(first + count, len(rows))
        if end and rows[last - 1][0] >= end:
            last = bisect_left(rows, end, first, last, key=lambda row: row[0])
        self._next, self._item = last, None
        return [(key, value_of(row.value)) for key, row in rows[first:last]]

    @property
    def waits(self) -> bool:
        """Whether the next `peek` sends a request."""
        return self._item is None and self._more and self._next >= len(self._rows)

    def fetch(self) -> None:
        """Fetch the next page.  One request."""
        page = self._kv.scan(self._partition, self._start, b"", self._size)
        self._rows, self._next = page.rows, 0
        self._more = page.more and bool(page.rows)
        if page.rows:
            self._start = page.rows[-1][0] + b"\0"
        self._size = min(self._size * _PAGE_GROWTH, limits.scan_page_count_max)


def row_write(
    token: StagingToken, key: bytes, value: StagedValue, *, wid: bytes, version: bytes
) -> Write:
    """The write of one row, for a batch.  The row's order is 0.  The token must be one that no
    record names yet."""
    partition, _ = place_of(token, key)
    return Write(partition, key, wire.encode_staged(value, wid), version)
