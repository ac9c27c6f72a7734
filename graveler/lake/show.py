"""How the objects of the library look: a line of text, or HTML in a notebook.

A representation may ask the server, and never raises: what cannot be had is left out.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, overload

from graveler.core.clock import SystemClock
from graveler.core.errors import Invalid
from graveler.core.limits import SECOND_NS
from graveler.lake.errors import Raising

T = TypeVar("T")
SHOWN: Final = 20  # items of a list
_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB")
_STEPS: Final = ((86_400 * 365, "year"), (86_400, "day"), (3_600, "hour"), (60, "minute"))


def size(count: int | None) -> str:
    """A size in bytes, as people read it: `512 B`, `1.5 MiB`; empty if it is not known."""
    if count is None:
        return ""
    if count < 1024:
        return f"{count} B"
    value, units = count / 1024, iter(_UNITS)
    unit = next(units)
    while value >= 1023.95 and (larger := next(units, "")):  # more would be shown as 1024.0
        value, unit = value / 1024, larger
    return f"{value:.1f} {unit}"


def age(moment: datetime | None) -> str:
    """How long ago a moment was."""
    if moment is None:
        return ""
    seconds = max(SystemClock().now_ns() / SECOND_NS - moment.timestamp(), 0)
    for length, name in _STEPS:
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {name}{'s' if count > 1 else ''} ago"
    return "now"


def printable(text: object) -> str:
    """A text in which no character steers a terminal."""
    shown = (each if each.isprintable() else repr(each)[1:-1] for each in str(text))
    return "".join(shown)


def rows_text(rows: Sequence[Sequence[object]]) -> str:
    """Rows in columns."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )
    return "\n".join(lines)


def rows_html(title: str, names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table."""
    from html import escape

    left = "text-align:left"
    drawn = f"{left};white-space:pre;font-family:monospace"  # a column without a name
    styles = [left if name else drawn for name in names]
    head = "".join(f"<th style='{left}'>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>"
        + "".join(
            f"<td style='{style}'>{escape(printable(cell))}</td>"
            for style, cell in zip(styles, row, strict=False)
        )
        + "</tr>"
        for row in rows
    )
    caption = f"<caption style='{left};white-space:nowrap'>{escape(printable(title))}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def paragraph(text: str) -> str:
    """A text."""
    from html import escape

    return f"<p>{escape(text)}</p>"


class Listing(Raising, Generic[T]):
    """Items that the server lists in pages.  Each iteration asks again; nothing is kept.

    `for item in listing`, `listing.all()`, `listing.first()`, `listing[0]`, `listing[:10]`; true if
    there is an item.
    """

    def __init__(
        self,
        fetch: Callable[[], Iterator[T]],
        title: str,
        names: Sequence[str],
        row: Callable[[T], Sequence[object]],
    ) -> None:
        self._fetch, self._title, self._names, self._row = fetch, title, names, row
        self._named = title

    def __iter__(self) -> Iterator[T]:
        yield from self._fetch()

    def __bool__(self) -> bool:
        return self.first() is not None

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> list[T]: ...
    def __getitem__(self, at: int | slice) -> T | list[T]:
        """The item at a place from the beginning, or some items.  Lists what is before it."""
        if isinstance(at, slice):
            return list(islice(iter(self), at.start, at.stop, at.step))
        if at < 0:
            raise Invalid("a listing has no end to count from: use all()")
        for item in islice(iter(self), at, None):
            return item
        raise IndexError(f"{self._title}: there are not so many: {at}")

    if not TYPE_CHECKING:  # for type checkers it has none

        def __len__(self) -> int:
            raise TypeError(f"{self._title}: only the server knows how many: len(listing.all())")

    def all(self) -> list[T]:
        """All items."""
        return list(self)

    def first(self) -> T | None:
        """The first item, or None.  One request."""
        return next(iter(self), None)

    def _shown(self) -> tuple[list[Sequence[object]], bool]:
        found = list(islice(iter(self), SHOWN + 1))
        return [self._row(item) for item in found[:SHOWN]], len(found) > SHOWN

    def __repr__(self) -> str:
        try:
            rows, more = self._shown()
        except Exception as error:  # a representation never raises
            return f"{self._title}: {printable(error)}"
        if not rows:
            return f"{self._title}: none"
        return f"{self._title}:\n{rows_text(rows)}" + ("\n…" if more else "")

    def _repr_html_(self) -> str:
        try:
            rows, more = self._shown()
        except Exception as error:  # a representation never raises
            return paragraph(printable(f"{self._title}: {error}"))
        if not rows:
            return paragraph(printable(f"{self._title}: none"))
        last: list[Sequence[object]] = [["…"]] if more else []
        return rows_html(self._title, self._names, [*rows, *last])


def safe(function: Callable[[], Any], otherwise: Any = "") -> Any:
    """What `function` returns; `otherwise` if it fails, as a representation never does."""
    try:
        return function()
    except Exception:
        return otherwise
