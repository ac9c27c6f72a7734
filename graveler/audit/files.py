"""The audit trail of an embedded store: files of lines in a folder, the newest one growing.

    audit/001769903999123.jsonl           named after the time of its first line, in milliseconds
    audit/001769903999123-denied.jsonl    the lines of denials

A request only adds its line to a queue in memory.  A thread appends what waits, ten times a second
at most, so a change pays no write to the disk.  A stop writes everything; a crash of the process
loses the lines of the last tenth of a second, a crash of the machine those of some seconds, because
nothing waits for the disk.

A file of `file_bytes_max`, or one that is a day old, is followed by a new one.  Then files go whose
lines are all older than `days`, and the oldest ones while all of their kind exceed `bytes_max` or
`denied_bytes_max`: so denials never push out the lines of changes.

`write` belongs to the thread of the event loop; any thread reads.  For the commands and the tests.
"""

import logging
import os
import re
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Literal, NamedTuple

from graveler import limits
from graveler.audit import lines
from graveler.audit.lines import Line, Outcome, Question
from graveler.audit.trail import LinePage
from graveler.clock import Clock
from graveler.errors import Invalid, Unavailable
from graveler.records import ABSENT, Absent

AUDIT_FOLDER: Final = "audit"  # in the folder of a store
_LOG: Final = logging.getLogger("graveler.audit.files")
_MILLISECOND_NS: Final = 1_000_000
_DAY_MILLISECONDS: Final = 24 * 3600 * 1000
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_PAUSE_SECONDS: Final = 0.1
_CHANGES: Final = ""  # in the names of their files
_DENIALS: Final = "-denied"
_NAME: Final = re.compile(r"([0-9]{15})(-denied)?\.jsonl")
_PLACES: Final = re.compile(r"([0-9]{15})-([0-9]{1,12})(?:\.([0-9]{15})-([0-9]{1,12}))?", re.ASCII)
_MODE: Final = 0o600
_APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class FileBounds:
    """How much is kept, and how much one page looks at."""

    file_bytes_max: int = limits.audit_file_bytes_max
    bytes_max: int = limits.audit_bytes_max
    denied_bytes_max: int = limits.audit_denied_bytes_max
    days: int = limits.audit_days
    waiting_count_max: int = limits.audit_waiting_count_max
    scan_count_max: int = limits.audit_scan_count_max


class _Place(NamedTuple):
    """Where a line begins: the name of a file as a number, and an offset in it."""

    file: int
    offset: int

    def __str__(self) -> str:
        return f"{self.file:015}-{self.offset}"


_Lines = Iterator[tuple[Line | Literal[Absent.ABSENT], _Place, _Place]]
"""Lines, where each one begins and ends."""


class _Files:
    """Files of one kind, the newest one growing.  Lines are appended by one thread."""

    def __init__(
        self, folder: Path, clock: Clock, bounds: FileBounds, kind: str, most: int
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._bounds = bounds
        self._kind = kind
        self._bytes_max = most
        self._file = -1  # the name of the file that grows; -1: its end is to be looked at
        self._size = 0

    def append(self, text: bytes, first: int) -> None:
        """`first`: the time of the first line.  A file that were named after the time of the write
        would be later than its lines, and a reader would pass them over."""
        now = self._clock.now_ns() // _MILLISECOND_NS
        if self._file < 0:
            newest = max(self._files(), default=-1)
            if newest >= 0:
                self._size = self._mended(newest)
            self._file = newest
        is_old = now - self._file >= _DAY_MILLISECONDS
        if self._file < 0 or is_old or self._size >= self._bounds.file_bytes_max:
            self._file, self._size = max(first, self._file + 1), 0
            self._prune(now)
        file = os.open(self._path(self._file), _APPEND, _MODE)
        try:
            rest = memoryview(text)
            while rest:
                rest = rest[os.write(file, rest) :]
            self._size = os.fstat(file).st_size
        except OSError:
            self._file = -1
            raise
        finally:
            os.close(file)

    def _mended(self, name: int) -> int:
        """The size of the newest file.  A line that a crash or a full disk cut off gets its end, so
        that the next line is one of its own."""
        file = os.open(self._path(name), _APPEND & ~os.O_CREAT & ~os.O_WRONLY | os.O_RDWR)
        try:
            size = os.fstat(file).st_size
            if size and os.pread(file, 1, size - 1) != b"\n":
                size += os.write(file, b"\n")
            return size
        finally:
            os.close(file)

    def _prune(self, now: int) -> None:
        """Delete the files that are too old or too many."""
        files = self._files()
        oldest = now - self._bounds.days * _DAY_MILLISECONDS
        sizes = {}
        for name in files:
            with suppress(FileNotFoundError):
                sizes[name] = self._path(name).stat().st_size
        total = sum(sizes.values())
        for name, following in zip(files, [*files[1:], self._file], strict=False):
            if following > oldest and total <= self._bytes_max:
                return
            self._path(name).unlink(missing_ok=True)
            total -= sizes.get(name, 0)

    def lines_from(self, begin: _Place, since: int, until: int) -> _Lines:
        """Each line of the files that may have lines between two times."""
        files = self._files()
        for name, following in zip(files, [*files[1:], until + 1], strict=False):
            if name < begin.file or (following < since and name != files[-1]):
                continue
            if name > until:
                return
            offset = begin.offset if name == begin.file else 0
            try:
                text = self._path(name).read_bytes()
            except FileNotFoundError:
                continue  # deleted meanwhile, because it is too old
            while offset < len(text):
                end = text.find(b"\n", offset) + 1 or len(text)
                yield lines.decode(text[offset:end]), _Place(name, offset), _Place(name, end)
                offset = end

    def _files(self) -> list[int]:
        """The names of the files, oldest first."""
        matches = (_NAME.fullmatch(each) for each in os.listdir(self._folder))
        return sorted(
            int(match[1]) for match in matches if match and (match[2] or "") == self._kind
        )

    def _path(self, name: int) -> Path:
        return self._folder / f"{name:015}{self._kind}.jsonl"


class FileTrail:
    """A trail in a folder.  The caller closes it."""

    def __init__(self, folder: Path, clock: Clock, bounds: FileBounds | None = None) -> None:
        """Opens the folder, or makes it.  Raises `Unavailable` if it cannot be made."""
        self._folder = folder
        self._clock = clock
        self._bounds = bounds or FileBounds()
        self._waiting: deque[Line] = deque()
        self._ordered = False  # whether the thread will look at the queue again
        self._lost = 0
        self._writing = threading.Lock()  # held by the thread that appends
        self._ended = threading.Event()
        most = self._bounds.bytes_max
        denied_most = min(self._bounds.denied_bytes_max, most // 4)
        self._changes = _Files(folder, clock, self._bounds, _CHANGES, most)
        self._denials = _Files(folder, clock, self._bounds, _DENIALS, denied_most)
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise Unavailable(f"audit folder not made: path={folder}") from error
        self._thread = ThreadPoolExecutor(1, "audit")

    def write(self, line: Line) -> None:
        most = self._bounds.waiting_count_max
        if len(self._waiting) >= (most // 2 if line.outcome is Outcome.DENIED else most):
            self._lost += 1
            return
        self._waiting.append(line)
        if not self._ordered and not self._ended.is_set():
            self._ordered = True
            self._thread.submit(self._later)

    def read(self, question: Question, after: str, count_max: int) -> LinePage:
        begin = _places(after) if after else (_Place(0, 0), _Place(0, 0))
        self._flush()
        oldest = self._clock.now_ns() - self._bounds.days * _DAY_MILLISECONDS * _MILLISECOND_NS
        question = replace(question, since_ns=max(question.since_ns, oldest))
        since, until = (each // _MILLISECOND_NS for each in (question.since_ns, question.until_ns))
        results: list[Line] = []
        for seen, (line, places) in enumerate(self._lines_from(begin, since, until)):
            if len(results) == count_max or seen == self._bounds.scan_count_max:
                return LinePage(tuple(results), ".".join(map(str, places)))
            if line is not ABSENT and question.admits(line):
                results.append(line)
        return LinePage(tuple(results), "")

    def close(self) -> None:
        """Write what waits, and end the thread."""
        self._ended.set()
        self._thread.shutdown()
        self._flush()

    # ---- writing ---------------------------------------------------------------------------------

    def _later(self) -> None:
        self._ended.wait(_PAUSE_SECONDS)
        self._ordered = False  # before the queue is read: what comes later orders again
        self._flush()

    def _flush(self) -> None:
        """Append all lines that wait."""
        with self._writing:
            count = len(self._waiting)
            taken = [self._waiting.popleft() for _ in range(count)]
            lost, self._lost = self._lost, 0
            denied = [each for each in taken if each.outcome is Outcome.DENIED]
            others = [each for each in taken if each.outcome is not Outcome.DENIED]
            for files, written in ((self._changes, others), (self._denials, denied)):
                try:
                    if written:
                        parts = (part for each in written for part in lines.parts(each))
                        text = b"".join(map(lines.encode, parts))
                        files.append(text, _milliseconds(written[0]))
                except OSError as error:
                    lost += len(written)
                    _LOG.error("audit lines not written: reason=%s", type(error).__name__)
            if lost:
                _LOG.error("audit lines lost: count=%d", lost)

    # ---- reading ---------------------------------------------------------------------------------

    def _lines_from(
        self, begin: tuple[_Place, _Place], since: int, until: int
    ) -> Iterator[tuple[Line | Literal[Absent.ABSENT], tuple[_Place, ...]]]:
        """The lines of both kinds by time, and where each one and the next of the other kind
        begin."""
        kinds = (self._changes, self._denials)
        sources = [files.lines_from(at, since, until)
                   for files, at in zip(kinds, begin, strict=True)]  # fmt: skip
        heads = [next(source, None) for source in sources]
        places = [at if head is None else head[1]
                  for head, at in zip(heads, begin, strict=True)]  # fmt: skip
        while any(heads):
            number = min((n for n, head in enumerate(heads) if head), key=lambda n: _time(heads[n]))
            head = heads[number]
            assert head is not None
            yield head[0], tuple(places)
            heads[number] = following = next(sources[number], None)
            places[number] = head[2] if following is None else following[1]


def _milliseconds(line: Line) -> int:
    return (datetime.fromisoformat(line.time) - _EPOCH) // timedelta(milliseconds=1)


def _time(head: tuple[Line | Literal[Absent.ABSENT], _Place, _Place] | None) -> str:
    return "" if head is None or head[0] is ABSENT else head[0].time


def _places(text: str) -> tuple[_Place, _Place]:
    match = _PLACES.fullmatch(text)
    if not match:
        raise Invalid("page not found: use the next_offset of the page before")
    changes, offset, denials, denied_offset = map(int, match.groups("0"))
    return _Place(changes, offset), _Place(denials, denied_offset)
