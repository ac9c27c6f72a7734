"""Sequences that are read in order: cursors over keys.

A `Cursor` is at the smallest key that it has not passed yet; `seek` skips keys without visiting
them.  `Overlay` merges cursors: for each key, the first cursor that has it wins.  `list_page` turns
a cursor into one page of a listing with common prefixes.  Pure; every module may import this.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple, Protocol

from graveler.records import TOMBSTONE, StagedValue


class End(Enum):
    """The type of `END`."""

    END = "end"


END: Final = End.END  # no key is left

Item = tuple[bytes, StagedValue]


class Cursor(Protocol):
    """An ordered sequence of (key, framed value or tombstone), keys strictly increasing."""

    def seek(self, key: bytes) -> None:
        """Move to the first key >= `key`.  Never moves backwards: a `key` smaller than the present
        one changes nothing."""
        ...

    def peek(self) -> Item | End:
        """The present item; the cursor does not move."""
        ...

    def advance(self) -> None:
        """Move past the present item."""
        ...

    def take(self, count: int, end: bytes) -> "Sequence[Item]":
        """The next items with keys < `end` (empty: no limit), at most `count`; move past them.

        Returns fewer items where more would cost another read.  It returns no item only if there
        is none.  `count` is at least 1.
        """
        ...


class Overlay:
    """Several cursors merged into one.  For each key, the first cursor that has it wins."""

    def __init__(self, cursors: Sequence[Cursor]) -> None:
        self._cursors = list(cursors)  # without the cursors that have reached their end
        # The item of each cursor, so that none is read twice; None: not read since it moved.
        self._fronts: list[Item | None] = [None] * len(self._cursors)
        self._least: Item | None = None

    def seek(self, key: bytes) -> None:
        self._least = None
        for place, cursor in enumerate(self._cursors):
            front = self._fronts[place]
            if front is None or front[0] < key:
                self._fronts[place] = None
                cursor.seek(key)

    def peek(self) -> Item | End:
        least = self._least
        if least is not None:
            return least
        ended = False
        for place, cursor in enumerate(self._cursors):
            front = self._fronts[place]
            if front is None:
                item = cursor.peek()
                if item is END:
                    ended = True
                    continue
                self._fronts[place] = front = item
            if least is None or front[0] < least[0]:
                least = front
        if ended:
            self._drop_ended()
        if least is None:
            return END
        self._least = least
        return least

    def advance(self) -> None:
        least = self.peek()
        if least is END:
            return
        self._least = None
        key = least[0]
        for place, front in enumerate(self._fronts):
            if front is not None and front[0] == key:
                self._fronts[place] = None
                self._cursors[place].advance()

    def take(self, count: int, end: bytes) -> Sequence[Item]:
        least = self.peek()
        if least is END or (end and least[0] >= end):
            return ()
        # By key and place: where the soak compiles this code, tuples have no identity.
        fronts = [
            (place, front[0]) for place, front in enumerate(self._fronts) if front is not None
        ]
        place = next(place for place, key in fronts if key == least[0])
        bound = min((key for at, key in fronts if at != place), default=end)
        if end and end < bound:
            bound = end
        if bound == least[0]:  # another cursor has this key too
            self.advance()
            return (least,)
        self._fronts[place] = self._least = None
        return self._cursors[place].take(count, bound)

    def _drop_ended(self) -> None:
        open_places = [place for place, front in enumerate(self._fronts) if front is not None]
        self._cursors = [self._cursors[place] for place in open_places]
        self._fronts = [self._fronts[place] for place in open_places]


ListingLine = tuple[bytes, bytes]
"""One line of a listing: a key with its framed value, or a common prefix with an empty value.  No
framed value is empty."""


class Page(NamedTuple):
    """One page of a listing.  `more`: a further page has at least one line."""

    lines: tuple[ListingLine, ...]
    more: bool


def list_page(cursor: Cursor, prefix: bytes, delimiter: bytes, after: bytes, amount: int) -> Page:
    """At most `amount` lines of `cursor` below `prefix`, in byte order, after the line `after`.

    With a `delimiter`, all keys with the same text up to its next occurrence become one line (a
    common prefix), and the cursor seeks past them.  Tombstones are skipped.  Cost: one visit per
    line, one per tombstone, one seek per common prefix.
    """
    cursor.seek(max(prefix, _start_after(prefix, delimiter, after)))
    if not delimiter:
        return _flat_page(cursor, successor(prefix), amount)
    lines: list[ListingLine] = []
    while True:
        item = cursor.peek()
        if item is END or not item[0].startswith(prefix):
            return Page(tuple(lines), False)
        key, value = item
        if value is TOMBSTONE:
            cursor.advance()
            continue
        if len(lines) == amount:
            return Page(tuple(lines), True)
        cut = key.find(delimiter, len(prefix))
        if cut < 0:
            lines.append((key, value))
            cursor.advance()
        else:
            stem = key[: cut + len(delimiter)]
            lines.append((stem, b""))
            beyond = successor(stem)
            if not beyond:
                return Page(tuple(lines), False)
            cursor.seek(beyond)


def _flat_page(cursor: Cursor, end: bytes, amount: int) -> Page:
    """A page without a delimiter: the items are taken many at a time."""
    lines: list[ListingLine] = []
    while len(lines) <= amount:
        items = cursor.take(amount + 1 - len(lines), end)
        if not items:
            return Page(tuple(lines), False)
        lines += [(key, value) for key, value in items if value is not TOMBSTONE]
    return Page(tuple(lines[:amount]), True)


def _start_after(prefix: bytes, delimiter: bytes, after: bytes) -> bytes:
    if not after:
        return b""
    if (
        delimiter
        and after.startswith(prefix)
        and after.endswith(delimiter)
        and len(after) > len(prefix)
    ):
        return successor(after) or after + b"\xff" * 1025
    return after + b"\0"


def successor(prefix: bytes) -> bytes:
    """The smallest key greater than every key with `prefix`; empty if there is none."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else b""
