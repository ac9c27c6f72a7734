"""What commands print: results on stdout, everything else on stderr.

    a list     a table on a terminal · TSV in a pipe · `--json` one array · `--jsonl` a line an item
    a record   text · `--json` the object of the API

On a terminal, ids have 12 characters, times are local and sizes are rounded.  TSV and JSON have
whole ids, UTC times and bytes.

Texts of others may hold characters that control a terminal, or turn the direction of its text.
`plain` escapes them where a text is placed; `guard` escapes what is left in all that a terminal or
a pager is sent.
"""

import json
import re
import shlex
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from dataclasses import field as field_of
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any, Final, Literal, NamedTuple, Protocol, TextIO, TypeAlias, cast

import click

from graveler.cli.support.interrupts import interrupt_ignored
from graveler.core.errors import Invalid
from graveler.core.settings import environment
from graveler.lake.show import size

Kind = Literal["text", "id", "time", "size", "count"]
Color = Literal["auto", "always", "never"]
_ID_LENGTH: Final = 12
_FIRST_ROWS: Final = 1_000  # of a table: they decide the widths of its columns
_CONTROLS: Final = (*range(32), *range(127, 160))
# They turn the direction of the text behind them, or end its line.
_TURNS: Final = (0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_UNPRINTABLE: Final = {
    **{number: f"\\x{number:02x}" for number in _CONTROLS},
    **{number: f"\\u{number:04x}" for number in _TURNS},
}
_IN_LINES: Final = {key: text for key, text in _UNPRINTABLE.items() if chr(key) not in "\n\t"}
_IN_JSON: Final = {  # JSON escapes the rest
    number: f"\\u{number:04x}" for number in (*range(127, 160), *_TURNS)
}
_STYLE: Final = re.compile(r"(\x1b\[(?:0|1|2|3[0-7]|9[0-7])m)")  # what `Output.style` writes
# In TSV, these three separate; others stay as they are.
_TSV: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


# A field, and the style of the row of an item by the value of it.
Styles: TypeAlias = tuple[str, Mapping[str, Mapping[str, Any]]]


class Column(NamedTuple):
    """A column of a list: its title, how to find its value in an item, and the kind of value."""

    title: str
    value: Callable[[Mapping[str, Any]], Any]
    kind: Kind = "text"


def field(name: str, kind: Kind = "text", title: str = "") -> Column:
    """A column with a field of the item; empty if the item lacks it."""
    return Column(title or name.upper().replace("_", " "), lambda item: item.get(name, ""), kind)


class Told(Protocol):
    """What the library returns: it has the object of the API of which it was made."""

    @property
    def answer(self) -> Mapping[str, Any]: ...


class Styled(str):
    """A line that is printed as it is: its parts are `plain` already, and some are in colour."""


@dataclass(frozen=True, slots=True)
class Output:
    """How to print.  `terminal`: stdout is one.  `past`: the refs that were read as they were at a
    time; JSON has them below `graveler`."""

    form: Literal["human", "json", "jsonl"] = "human"
    terminal: bool = False
    color: bool = False
    quiet: bool = False
    utc: bool = False
    past: list[Mapping[str, Any]] = field_of(default_factory=list)

    # ---- results ---------------------------------------------------------------------------------

    def items(
        self,
        columns: Sequence[Column],
        items: "Iterable[Mapping[str, Any] | Told]",
        styles: "Styles | None" = None,
        *,
        none: str = "",
    ) -> int:
        """Print a list, and return its length.  A record of the library is shown as the API told
        it.  `styles`: of rows in colour.  `none`: the note for an empty list."""
        rows = map(_told, items)
        if self.form != "human":
            return self._json_items(rows)
        count = self._table(columns, rows, styles) if self.terminal else self._tsv(columns, rows)
        if not count and none:
            self.note(none)
        return count

    def record(self, record: Any, lines: Iterable[str]) -> None:
        """Print a record: as JSON, else as `lines`."""
        record = _told(record)
        if self.form != "human":
            print(dumped(self._with_past(record), indent=2 if self.form == "json" else None))
            return
        for line in lines:
            click.echo(self._shown(line), color=self.color)

    def pairs(self, record: "Mapping[str, Any] | Told", columns: Sequence[Column]) -> None:
        """Print a record: as JSON, else as lines of a title and a value."""
        fields: Mapping[str, Any] = _told(record)
        width = max(len(column.title) for column in columns) + 2
        cells = [(column, self.cell(column.value(fields), column.kind)) for column in columns]
        self.record(
            fields,
            [f"{column.title.lower() + ':':<{width}} {cell}" for column, cell in cells if cell],
        )

    # ---- everything else -------------------------------------------------------------------------

    @property
    def prints_notes(self) -> bool:
        """Whether `note` prints anything."""
        return not self.quiet and self.form == "human"

    def note(self, text: str) -> None:
        """Say something to a person on stderr."""
        if self.prints_notes:
            click.echo(plain_lines(text), err=True)

    def done(self, text: str, **record: Any) -> None:
        """Report a change that has no record: to a person on stderr.  In JSON, `graveler.done` has
        the first line, beside the fields of `record`."""
        if self.form == "human":
            self.note(text)
        else:
            self.record({**record, "graveler": {"done": first_line(text)}}, ())

    def style(self, text: str, **style: Any) -> str:
        """The text in colour, if there is colour."""
        return click.style(text, **style) if self.color else text

    # ---- values ----------------------------------------------------------------------------------

    def cell(self, value: Any, kind: Kind = "text") -> str:
        """One value as text."""
        if value is None or value == "":
            return ""
        if kind == "time" and (seconds := _seconds(value)) is not None:
            return self.time(seconds)
        if kind == "size":
            return size(int(value)) if self.terminal else str(value)
        if kind == "count":
            return f"{value:,}" if self.terminal else str(value)
        if kind == "id" and self.terminal:
            return plain(str(value))[:_ID_LENGTH]
        if isinstance(value, bool):
            return "yes" if value else "no"
        return plain(str(value)) if self.terminal else str(value)

    def id(self, id: str) -> str:
        """An id of a commit."""
        return plain(id)[:_ID_LENGTH] if self.terminal else id

    def time(self, seconds: int) -> str:
        """A time: local with its offset on a terminal, else RFC 3339 in UTC.  The number itself if
        no calendar has it."""
        try:
            moment = datetime.fromtimestamp(seconds, UTC)
            if not self.terminal:
                return moment.isoformat().replace("+00:00", "Z")
            shown = moment if self.utc else moment.astimezone()
            return shown.strftime("%Y-%m-%d %H:%M:%S %z")
        except (OverflowError, ValueError, OSError):
            return str(seconds)

    def _shown(self, line: str) -> str:
        """A line of a record: on a terminal without what would control it."""
        return plain_lines(line) if self.terminal and not isinstance(line, Styled) else line

    # ---- forms of a list -------------------------------------------------------------------------

    def _with_past(self, item: Any) -> Any:
        if not self.past:
            return item
        return {**item, "graveler": {**item.get("graveler", {}), "at": self.past}}

    def _json_items(self, items: Iterable[Mapping[str, Any]]) -> int:
        count = 0
        for item in items:
            line = dumped(self._with_past(item))
            if self.form == "jsonl":
                print(line, flush=True)
            else:
                print("[" if not count else ",")
                print("  " + line, end="")
            count += 1
        if self.form == "json":
            print("\n]" if count else "[]")
        return count

    def _tsv(self, columns: Sequence[Column], items: Iterable[Mapping[str, Any]]) -> int:
        count = 0
        for item in items:
            cells = (self.cell(column.value(item), column.kind) for column in columns)
            print(tsv(cells))
            count += 1
        return count

    def _table(
        self,
        columns: Sequence[Column],
        items: Iterable[Mapping[str, Any]],
        styles: "Styles | None",
    ) -> int:
        rest = iter(items)
        rows = [(item, self._cells(columns, item)) for item in islice(rest, _FIRST_ROWS)]
        if not rows:
            return 0
        titles = [column.title for column in columns]
        columns_of_cells = zip(titles, *(cells for _, cells in rows), strict=True)
        widths = [max(map(len, cells)) for cells in columns_of_cells]
        print(self.style(_aligned(titles, widths, columns), bold=True))
        count = 0
        for item, cells in chain(rows, ((each, self._cells(columns, each)) for each in rest)):
            line = _aligned(cells, widths, columns)
            if styles:
                line = self.style(line, **styles[1].get(item[styles[0]], {}))
            print(line)
            count += 1
        return count

    def _cells(self, columns: Sequence[Column], item: Mapping[str, Any]) -> list[str]:
        return [self.cell(column.value(item), column.kind) for column in columns]


def _told(item: Any) -> Any:
    return getattr(item, "answer", item)


def _aligned(cells: Sequence[str], widths: Sequence[int], columns: Sequence[Column]) -> str:
    together = zip(cells, widths, columns, strict=True)
    padded = [
        cell.rjust(width) if column.kind in ("size", "count") else cell.ljust(width)
        for cell, width, column in together
    ]
    return "  ".join(padded).rstrip()


def dumped(value: Any, indent: int | None = None) -> str:
    """JSON, without characters that would control a terminal."""
    return json.dumps(value, ensure_ascii=False, indent=indent).translate(_IN_JSON)


def tsv(cells: Iterable[str]) -> str:
    """A line of TSV."""
    return "\t".join(cell.translate(_TSV) for cell in cells)


def _seconds(value: int | str) -> int | None:
    """A time of the API: seconds since 1970, or RFC 3339.  Nothing if it is neither."""
    try:
        return int(value)
    except (ValueError, OverflowError):
        pass
    try:
        return int(datetime.fromisoformat(str(value)).timestamp())
    except (ValueError, OverflowError):
        return None


def plain(text: str) -> str:
    """A text of somebody else for a terminal: without characters that would control it."""
    return text.translate(_UNPRINTABLE)


def plain_lines(text: str) -> str:
    """As `plain`, for a text of several lines or columns."""
    return text.translate(_IN_LINES)


class Guard:
    """A text stream to a terminal, which is sent nothing that controls it but our colours.
    `unguarded`: the stream itself."""

    def __init__(self, stream: TextIO) -> None:
        self.unguarded = stream

    def write(self, text: str) -> int:
        parts = enumerate(_STYLE.split(text))
        return self.unguarded.write(
            "".join(part if number % 2 else plain_lines(part) for number, part in parts)
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unguarded, name)


def guard() -> None:
    """Guard stdout and stderr, for the rest of the process, where they are terminals."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream.isatty() and not isinstance(stream, Guard):
            setattr(sys, name, Guard(stream))


def unguarded(stream: TextIO) -> TextIO:
    """A stream for a text of our own that moves the cursor."""
    return stream.unguarded if isinstance(stream, Guard) else stream


def print_content(pieces: Iterable[bytes]) -> None:
    """Print bytes: on a terminal as text, else as they are."""
    if sys.stdout.isatty():
        decoder = getincrementaldecoder("utf-8")("backslashreplace")
        for piece in pieces:
            sys.stdout.write(decoder.decode(piece).replace("\r\n", "\n"))
        sys.stdout.write(decoder.decode(b"", final=True))
        return
    sys.stdout.flush()
    for piece in pieces:
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def first_line(message: str) -> str:
    """The first line of a message; empty if it has none."""
    return (message.splitlines() or [""])[0]


def plural(count: int, noun: str, several: str = "") -> str:
    """`1 object`, `2 objects`."""
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"


def wants_color(choice: Color, stream: TextIO) -> bool:
    """Whether to print in colour: as `choice` says, else by NO_COLOR, FORCE_COLOR and TERM."""
    variables = environment()
    if choice != "auto":
        return choice == "always"
    if variables.get("NO_COLOR"):
        return False
    if variables.get("FORCE_COLOR"):
        return True
    return stream.isatty() and variables.get("TERM") != "dumb"


@contextmanager
def paged(output: Output) -> Iterator[None]:
    """Send what is printed through a pager: `PAGER`, else `less -FRX`.  Only on a terminal.
    Raises `Invalid`."""
    try:
        words = shlex.split(environment().get("PAGER", "less"))
    except ValueError as error:
        raise Invalid(f"PAGER is no command: {error}") from error
    if not output.terminal or output.form != "human" or not words or words == ["cat"]:
        yield
        return
    import subprocess

    variables = {"LESS": "FRX", **environment()}
    try:
        pager = subprocess.Popen(
            words, stdin=subprocess.PIPE, env=variables, text=True, errors="backslashreplace"
        )
    except OSError:  # no such program
        yield
        return
    before = sys.stdout
    assert pager.stdin is not None
    sys.stdout = cast(TextIO, Guard(cast(TextIO, pager.stdin)))
    try:
        yield
    except BrokenPipeError:  # the reader has seen enough
        pass
    finally:
        sys.stdout = before
        with interrupt_ignored():  # it is the pager's: a command that ended would leave it behind
            with suppress(BrokenPipeError):
                pager.stdin.close()
            pager.wait()
