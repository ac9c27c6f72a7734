"""A table file in block storage, read by byte ranges.

The first request fetches the end of the file (64 KiB), which is kept until bytes before it are
read.  A file that is not longer than that is never requested again.

A listing's forward walk through a table: decides how many bytes each request asks for.

If each request costs a round trip, further requests of a reader ask for more bytes, and for all
that may lie ahead once it has jumped.  A walk that meets a damaged block opens the table again,
once, and goes on behind the last block that it has passed.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from graveler.block.adapter import BlockStore
from graveler.committed.blocks import Block
from graveler.committed.cache import BudgetedCache
from graveler.committed.table_end import TAIL_LENGTH, length_told
from graveler.core.errors import Corrupt, RangeUnsatisfiable
from graveler.core.records import ABSENT, Absent, Record

# ---- remote ----------------------------------------------------------------------------------

_TAILS_LENGTH = 64 * TAIL_LENGTH  # the ends of files that were just opened and not read further

Tails = BudgetedCache["RemoteFile", bytes]


def room_for_tails() -> Tails:
    """A cache for the fetched ends of the files of one store."""
    return BudgetedCache(_TAILS_LENGTH)


class RemoteFile:
    """See `table.Source`.  Safe for any number of threads: a race costs only one more request."""

    def __init__(self, blocks: BlockStore, address: str, tails: Tails) -> None:
        self._blocks = blocks
        self.name = address
        self._size = -1
        self._whole = b""
        self._tails = tails
        self._is_tail_passed = False  # bytes before the fetched end were read

    @classmethod
    def written(
        cls, blocks: BlockStore, address: str, tails: Tails, content: Sequence[bytes]
    ) -> "RemoteFile":
        """The file that was just stored with this content, as if its first request was made."""
        file = cls(blocks, address, tails)
        file._hold(sum(map(len, content)), _end_of(content))
        return file

    def size(self) -> int:
        """The length in bytes.  Raises `NotFound`, `Corrupt`.  Cost: one request, the first
        time."""
        if self._size < 0:
            tail = self._blocks.read(self.name, -TAIL_LENGTH, TAIL_LENGTH)
            try:
                size = length_told(tail) if len(tail) == TAIL_LENGTH else len(tail)
            except Corrupt as error:
                raise Corrupt(f"{error}: table={self.name}") from error
            self._hold(size, tail)
        return self._size

    def _hold(self, size: int, tail: bytes) -> None:
        if size == len(tail):
            self._whole = tail
        else:
            self._tails.put(self, tail, len(tail))
        self._size = size

    @property
    def held(self) -> int:
        """The number of bytes that stay in memory as long as this object exists."""
        return len(self._whole)

    def read(self, offset: int, length: int) -> bytes:
        """These bytes.  Only bytes that are not in memory are requested."""
        if self._is_tail_passed:
            return self._asked(offset, length)
        tail = self._tail()
        begin = self.size() - len(tail)  # where the bytes in memory begin
        if not tail or offset + length <= begin:
            self._tails.forget(self)
            self._is_tail_passed = True
            return self._asked(offset, length)
        missing = max(0, begin - offset)
        at = max(0, offset - begin)
        known = exactly(tail[at : offset + length - begin], length - missing, self.name)
        return self._asked(offset, missing) + known if missing else known

    def _tail(self) -> bytes:
        """The bytes in memory: the whole file, its end, or nothing."""
        return self._whole or self._tails.get(self) or b""

    def _asked(self, offset: int, length: int) -> bytes:
        try:
            raw = self._blocks.read(self.name, offset, length)
        except RangeUnsatisfiable:  # the file ends before `offset`
            raw = b""
        return exactly(raw, length, self.name)

    def missing(self, offset: int, length: int) -> int:
        """How many of these bytes are not in memory."""
        tail = self._tail()
        return max(0, min(length, self.size() - len(tail) - offset)) if tail else length

    def whole(self) -> bytes | Absent:
        """All bytes, if they are in memory; otherwise ABSENT."""
        return self._whole if 0 <= self._size == len(self._whole) else ABSENT


def _end_of(content: Sequence[bytes]) -> bytes:
    """The last `TAIL_LENGTH` bytes, or all of them."""
    pieces: list[bytes] = []
    missing = TAIL_LENGTH
    for piece in reversed(content):
        if not missing:
            break
        pieces.append(piece[-missing:])
        missing -= len(pieces[-1])
    return b"".join(reversed(pieces))


def exactly(raw: bytes, length: int, name: str) -> bytes:
    """`raw`, if it has this length.  Otherwise raises `Corrupt`."""
    if len(raw) != length:
        raise Corrupt(f"table is shorter than its index states: table={name}")
    return raw


# ---- walk ------------------------------------------------------------------------------------

_WANTED_LENGTH_MAX = 320 * 1024
_AHEAD_LENGTH = 160 * 1024
_SPAN_LENGTH = 1024 * 1024
_SOUGHT_LENGTH = 8 * 1024 * 1024
_KEPT_COUNT = 64  # blocks of one walk that stay cached: the next page begins where this one ends


class Reaches(NamedTuple):
    """The lengths that requests ask for, in bytes.  `steps`: of consecutive requests; the last
    value is for all that follow.  `sought`: after a jump."""

    steps: tuple[int, ...]
    sought: int


NEAR = Reaches((*(0,) * 32, _SPAN_LENGTH), 0)


def far(first: int, ahead: int) -> Reaches:
    """The lengths for a walk whose first request asks for `first` bytes, and which may then read
    `ahead` bytes."""
    begun = min(first, _SOUGHT_LENGTH)
    reach = min(max(ahead, _AHEAD_LENGTH), _WANTED_LENGTH_MAX)
    then = (_AHEAD_LENGTH, _SPAN_LENGTH)
    return Reaches((begun, *then) if begun >= reach else (begun, reach, *then), _SOUGHT_LENGTH)


class WalkedTable(Protocol):
    """The part of a table that a walk needs.  Blocks are identified by their index."""

    @property
    def blocks_count(self) -> int:
        """The number of blocks."""
        ...

    def reopened(self) -> "WalkedTable":
        """The table, opened again: the same records, perhaps in other blocks."""
        ...

    def position(self, key: bytes) -> int:
        """The first block whose bound is not below `key`."""
        ...

    def cached(self, index: int) -> Block | None:
        """A block, if it is cached; from then on it stays parsed."""
        ...

    def span(self, index: int, reach: int) -> list[bytes]:
        """The stored bytes of blocks from `index` on: as many as fit in `reach` bytes, but at least
        one.  One request."""
        ...

    def opened(self, index: int, stored: bytes, *, is_cached: bool = True) -> Block:
        """A block from its stored bytes, checked; cached if `is_cached`."""
        ...


class TableWalk:
    """See `ranges.Walk`.  Keeps the blocks of the last request until it has passed them."""

    __slots__ = (
        "_asked",
        "_at",
        "_first",
        "_floor",
        "_is_reopened",
        "_is_sought",
        "_reaches",
        "_span",
        "_table",
        "_walked",
    )

    def __init__(self, table: WalkedTable, reaches: Reaches) -> None:
        self._table = table
        self._reaches = reaches
        self._at = self._asked = self._walked = 0
        self._is_sought = False
        self._is_reopened = False
        self._floor = b""  # all records with smaller keys were passed
        self._first = 0  # where the span begins
        self._span: list[bytes] = []

    def seek(self, key: bytes) -> None:
        self._floor = max(self._floor, key)
        place = self._table.position(key)
        if place > self._at:
            self._at, self._is_sought = place, True

    def records(self) -> Sequence[Record]:
        """See `ranges.Walk`."""
        try:
            records = self._next()
        except Corrupt:
            if self._is_reopened:
                raise
            records = self._reopened()
        if records:
            self._floor = records[-1][0] + b"\0"
        return records

    def _reopened(self) -> Sequence[Record]:
        """As `_next`, from the table as it is now."""
        floor = self._floor
        self._table, self._is_reopened = self._table.reopened(), True
        self._at = self._table.position(floor)
        self._first, self._span = 0, []  # the blocks that were read are numbered otherwise
        records = self._next()
        while records and records[-1][0] < floor:
            records = self._next()
        return records[bisect_left(records, (floor, b"")) :]

    def _next(self) -> Sequence[Record]:
        while self._at < self._table.blocks_count:
            records = self._block(self._at).records()
            self._at += 1
            if records:
                return records
        return ()

    def _reach(self) -> int:
        steps = self._reaches.steps
        reach = steps[min(self._asked, len(steps) - 1)]
        if self._is_sought and self._asked:
            return max(reach, self._reaches.sought)
        self._asked += 1
        return reach

    def _block(self, index: int) -> Block:
        block = self._table.cached(index)
        if block is not None:
            self._is_sought = False
            return block
        if index >= self._first + len(self._span):
            self._first, self._span = index, self._table.span(index, self._reach())
        self._is_sought = False
        self._walked += 1
        is_cached = self._walked <= _KEPT_COUNT
        return self._table.opened(index, self._span[index - self._first], is_cached=is_cached)
