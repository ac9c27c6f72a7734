"""A listing's way through a table, forward: how much it asks for at once.

Where each request costs a round trip, who reads on gets more with each; who has jumped within a
table will jump again, and gets all that may lie ahead.  Where requests cost next to nothing, blocks
are read one by one.  For `table.py`.
"""

from typing import NamedTuple, Protocol

from graveler.committed.blocks import Block
from graveler.records import Record

_WANTED_LENGTH_MAX = 320 * 1024
_AHEAD_LENGTH = 160 * 1024
_SPAN_LENGTH = 1024 * 1024
_SOUGHT_LENGTH = 8 * 1024 * 1024
_KEPT_COUNT = 64  # blocks of one walk that stay cached: the next page begins where this one ends


class Reaches(NamedTuple):
    """Lengths to ask for: of one request after the other (the last for all that follow), and after
    a jump."""

    steps: tuple[int, ...]
    sought: int


NEAR = Reaches((*(0,) * 32, _SPAN_LENGTH), 0)


def far(first: int, wanted: int) -> Reaches:
    """For a walk whose first request is for `first` bytes and that may read `wanted` on."""
    begun = min(first, _SOUGHT_LENGTH)
    reach = min(max(wanted, _AHEAD_LENGTH), _WANTED_LENGTH_MAX)
    then = (_AHEAD_LENGTH, _SPAN_LENGTH)
    return Reaches((begun, *then) if begun >= reach else (begun, reach, *then), _SOUGHT_LENGTH)


class WalkedTable(Protocol):
    """What a walk needs of a table; blocks are known by their number."""

    @property
    def blocks_count(self) -> int:
        """How many blocks."""
        ...

    def position(self, key: bytes) -> int:
        """The first block whose bound is not below `key`."""
        ...

    def cached(self, index: int) -> Block | None:
        """A block, if it is at hand."""
        ...

    def span(self, index: int, reach: int) -> list[bytes]:
        """Blocks as they are stored, at least one.  One request."""
        ...

    def opened(self, index: int, stored: bytes, *, kept: bool = True) -> Block:
        """A block from its bytes, checked."""
        ...


class TableWalk:
    """See `ranges.Walk`; keeps what it was given until it has passed it."""

    __slots__ = (
        "_asked",
        "_at",
        "_first",
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
        self._first = 0  # where the span begins
        self._span: list[bytes] = []

    def seek(self, key: bytes) -> None:
        place = self._table.position(key)
        if place > self._at:
            self._at, self._is_sought = place, True

    def records(self) -> list[Record]:
        while self._at < self._table.blocks_count:
            keys, values = self._block(self._at).columns()
            self._at += 1
            if keys:
                return list(zip(keys, values, strict=True))
        return []

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
        kept = self._walked <= _KEPT_COUNT
        return self._table.opened(index, self._span[index - self._first], kept=kept)
