"""Sequences that are read in order: cursors over keys.

A `Cursor` is at the smallest key that it has not passed yet; `seek` skips keys without visiting
them.  `Overlay` merges cursors: for each key, the first cursor that has it wins.  `list_page` turns
a cursor into one page of a listing with common prefixes.  `Prefixes` is a set of prefixes.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from operator import itemgetter
from typing import Final, Generic, NamedTuple, Protocol, TypeVar, cast

from graveler.core.records import TOMBSTONE, StagedValue


class End(Enum):
    """The type of `END`."""

    END = "end"


END: Final = End.END  # no key is left
_HELD_COUNT: Final = 256  # an overlay asks a cursor for so many items at a time, or for more
_key_of = itemgetter(0)

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


C = TypeVar("C", bound=Cursor)


class _Source(Generic[C]):
    """A cursor of an `Overlay`, and the items that were taken from it and are in no result yet."""

    __slots__ = ("_at", "_front", "_items", "cursor")

    def __init__(self, cursor: C) -> None:
        self.cursor = cursor
        self._items: Sequence[Item] = ()  # from `_at` on: what comes before the cursor's next item
        self._at = 0
        self._front: Item | None = None  # the present item; None: not read since the last move

    @property
    def is_read(self) -> bool:
        """Whether the present item is here already."""
        return self._front is not None or self._at < len(self._items)

    def front(self) -> Item | End:
        """The present item."""
        if self._front is not None:
            return self._front
        item = self._items[self._at] if self._at < len(self._items) else self.cursor.peek()
        if item is not END:
            self._front = item
        return item

    def seek(self, key: bytes) -> None:
        """See `Cursor`."""
        if self._front is not None and key <= self._front[0]:
            return
        self._front = None
        if self._at < len(self._items) and key <= self._items[-1][0]:
            self._at = bisect_left(self._items, key, self._at, key=_key_of)
        else:
            self._items = ()
            self.cursor.seek(key)

    def advance(self) -> None:
        """See `Cursor`."""
        self._front = None
        if self._at < len(self._items):
            self._at += 1
        else:
            self.cursor.advance()

    def hold(self, count: int, end: bytes) -> bytes | None:
        """Take items with keys < `end`, without another read.  The result is the key up to which
        all items are held; None if the present item is not below `end`."""
        if self._at >= len(self._items):
            self._items, self._at = self.cursor.take(count, end), 0
        elif end and self._items[-1][0] >= end:
            last = bisect_left(self._items, end, self._at, key=_key_of) - 1
            return self._items[last][0] if last >= self._at else None
        return self._items[-1][0] if self._items else None

    def held(self, last: bytes) -> Sequence[Item]:
        """The items that are held, up to the key `last`."""
        items = self._items
        if not items or items[-1][0] <= last:
            return items[self._at :] if self._at else items
        return items[self._at : bisect_right(items, last, self._at, key=_key_of)]

    def pass_on(self, last: bytes) -> None:
        """Move past the items that are held, up to the key `last`."""
        self._front = None
        if self._items and self._items[-1][0] <= last:
            self._items, self._at = (), 0
        else:
            self._at = bisect_right(self._items, last, self._at, key=_key_of)


class Overlay(Generic[C]):
    """Several cursors merged into one.  For each key, the first cursor that has it wins."""

    def __init__(self, cursors: Sequence[C]) -> None:
        self._sources = [_Source(cursor) for cursor in cursors]  # without those that have ended
        self._least: Item | None = None

    @property
    def unread(self) -> list[C]:
        """The cursors whose items the next `peek` reads."""
        return [source.cursor for source in self._sources if not source.is_read]

    def seek(self, key: bytes) -> None:
        self._least = None
        for source in self._sources:
            source.seek(key)

    def peek(self) -> Item | End:
        least = self._least
        if least is not None:
            return least
        ended: list[_Source[C]] = []
        for source in self._sources:
            front = source.front()
            if front is END:
                ended.append(source)
            elif least is None or front[0] < least[0]:
                least = front
        for source in ended:
            self._sources.remove(source)
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
        for source in self._sources:
            front = source.front()
            if front is not END and front[0] == key:
                source.advance()

    def take(self, count: int, end: bytes) -> Sequence[Item]:
        least = self.peek()
        if least is END or (end and least[0] >= end):
            return ()
        self._least = None
        # What the cursors have read is merged up to the key that all of them have read.
        reaches = [source.hold(max(count, _HELD_COUNT), end) for source in self._sources]
        reach = min([key for key in reaches if key is not None])
        parts = [part for source in self._sources if (part := source.held(reach)[:count])]
        items = (parts[0] if len(parts) == 1 else _merged(parts))[:count]
        for source in self._sources:
            source.pass_on(items[-1][0])
        return items


def _merged(parts: Sequence[Sequence[Item]]) -> Sequence[Item]:
    """The items of sorted parts, in key order.  For each key, the first part that has it wins."""
    together: dict[bytes, StagedValue] = {}
    for part in reversed(parts):
        together.update(part)
    return parts[0] if len(together) == len(parts[0]) else sorted(together.items(), key=_key_of)


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
    common prefix), and the cursor seeks past them.  Tombstones are skipped.  After a seek, the
    first `take` asks for one item, and each further one for twice as many.
    """
    cursor.seek(max(prefix, _start_after(prefix, delimiter, after)))
    if not delimiter:
        return _flat_page(cursor, successor(prefix), amount)
    lines: list[ListingLine] = []
    items: Sequence[Item] = ()
    at, count, end = 0, 1, successor(prefix)
    while True:
        if at >= len(items):
            items, at = cursor.take(count, end), 0
            count = min(2 * count, _HELD_COUNT)
            if not items:
                return Page(tuple(lines), False)
        key, value = items[at]
        at += 1
        if value is TOMBSTONE:
            continue
        if len(lines) == amount:
            return Page(tuple(lines), True)
        cut = key.find(delimiter, len(prefix))
        if cut < 0:
            lines.append((key, value))
            continue
        stem = key[: cut + len(delimiter)]
        lines.append((stem, b""))
        beyond = successor(stem)
        if not beyond:
            return Page(tuple(lines), False)
        at = bisect_left(items, beyond, at, key=_key_of)
        if at >= len(items):
            cursor.seek(beyond)
            count = 1


def _flat_page(cursor: Cursor, end: bytes, amount: int) -> Page:
    """A page without a delimiter: the items are taken many at a time."""
    lines: list[ListingLine] = []
    while len(lines) <= amount:
        items = cursor.take(amount + 1 - len(lines), end)
        if not items:
            return Page(tuple(lines), False)
        # the items themselves, not copies: kept lines are found by identity (http/answers.py)
        lines += cast("list[ListingLine]", [i for i in items if i[1] is not TOMBSTONE])
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


class Prefixes:
    """Prefixes in order, as one set of keys.  A prefix below another one is left out, so no key is
    below two of them."""

    def __init__(self, prefixes: Iterable[bytes] = ()) -> None:
        self._prefixes: list[bytes] = []
        for prefix in sorted(prefixes):
            if not self._prefixes or not prefix.startswith(self._prefixes[-1]):
                self._prefixes.append(prefix)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._prefixes)

    def __bool__(self) -> bool:
        return bool(self._prefixes)

    def __contains__(self, key: bytes) -> bool:
        """Whether a key is below one of the prefixes."""
        at = bisect_right(self._prefixes, key)
        return at > 0 and key.startswith(self._prefixes[at - 1])

    def meet(self, first: bytes, last: bytes) -> bool:
        """Whether a key from `first` to `last`, both included, can be below one of the prefixes."""
        at = bisect_right(self._prefixes, last)
        if not at:
            return False
        end = successor(self._prefixes[at - 1])
        return not end or end > first
