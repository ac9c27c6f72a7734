"""The audit trail: its lines, the port, and the trail of an embedded store in files.

    {"audit": 1, "time": "2026-01-31T23:59:59.123456Z", "request_id": "…", "user": "ada", …}
    audit/001769903999123.jsonl           named after the time of its first line, in milliseconds
    audit/001769903999123-denied.jsonl    the lines of denials

The fields of `Line` are all that enters the trail: no header, body, text of an error, or query
parameter that names no resource.  A trail never fails a request: a line that cannot be written is
an error in the log.

In files, a request adds its line to a queue; a thread appends what waits, ten times a second at
most.  A crash of the process loses the last tenth of a second.  A file of `file_bytes_max`, or one
that is a day old, is followed by a new one.  Then files go whose lines are older than `days`, and
the oldest while their kind exceeds its bytes: so denials never push out the lines of changes.
"""

import json
import logging
import os
import re
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Protocol

from graveler.core import limits
from graveler.core.clock import Clock
from graveler.core.errors import Invalid, Unavailable, Unsupported
from graveler.core.limits import SECOND_NS
from graveler.core.records import ABSENT, Absent

VERSION: Final = 1
_MARK: Final = "audit"
_ENCODE: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Outcome(StrEnum):
    """What became of a request."""

    DONE = "done"  # or accepted: a job does it
    DENIED = "denied"
    FAILED = "failed"  # nothing changed
    UNKNOWN = "unknown"  # it may have changed something, or be going on


class Line(NamedTuple):
    """One line.

    - `time`: of the answer, RFC 3339 in UTC with six decimals, so that texts sort as times do.
    - `user`, `uid`: the caller; empty if it was not identified.  Another user of the same name has
      another uid.
    - `address`: from where; empty if the server does not know it.
    - `operation`: its name in the OpenAPI document.
    - `resources`: what the permissions of the request name.
    - `missing`: the first permission that the caller lacked, `action on resource`.
    - `status`, `code`: of the answer; 0 if the service stopped before it.
    - `unrecorded`: requests before this one that have no line, because their callers had too many.
    - `left_out`: resources that the lines of the request do not name, because they are too many.
    """

    time: str
    request_id: str
    user: str
    uid: str
    address: str
    operation: str
    resources: tuple[str, ...]
    outcome: Outcome
    status: int
    code: str = ""
    missing: str = ""
    unrecorded: int = 0
    left_out: int = 0


class Question(NamedTuple):
    """Which lines: those that agree with all that is not empty.

    `resource`: the beginning of one of the resources.  `since_ns` belongs to the span of time,
    `until_ns` does not.
    """

    since_ns: int
    until_ns: int
    user: str = ""
    operation: str = ""
    outcome: Outcome | Literal[Absent.ABSENT] = ABSENT
    resource: str = ""

    def admits(self, line: Line) -> bool:
        """Whether this is one of the lines."""
        since, until = _span(self.since_ns, self.until_ns)
        return (
            since <= line.time < until
            and self.user in ("", line.user)
            and self.operation in ("", line.operation)
            and self.outcome in (ABSENT, line.outcome)
            and (
                not self.resource or any(each.startswith(self.resource) for each in line.resources)
            )
        )


@lru_cache(maxsize=8)
def _span(since_ns: int, until_ns: int) -> tuple[str, str]:
    return moment(since_ns), moment(until_ns)


def moment(time_ns: int) -> str:
    """A time as lines have it."""
    seconds, rest = divmod(time_ns, SECOND_NS)
    return f"{_second(seconds)}.{rest // 1_000:06}Z"


@lru_cache(maxsize=8)
def _second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def line_parts(line: Line) -> Iterator[Line]:
    """The line, or several if it has more resources than a line may have."""
    most = limits.audit_line_resources_max
    if len(line.resources) <= most:
        yield line
        return
    yield line._replace(resources=line.resources[:most])
    further = line._replace(unrecorded=0, left_out=0)
    for start in range(most, len(line.resources), most):
        yield further._replace(resources=line.resources[start : start + most])


def mapping(line: Line) -> dict[str, Any]:
    """The line as the object that the log has.  Empty fields are left out."""
    values: dict[str, Any] = {_MARK: VERSION}
    for name, value in zip(_NAMES, line, strict=True):
        if value:
            values[name] = value
    return values


def encode(line: Line) -> bytes:
    """The line as JSON, with a line break."""
    return _ENCODE(mapping(line)).encode("utf-8", "replace") + b"\n"


def decode(text: bytes | str) -> Line | Literal[Absent.ABSENT]:
    """The line in a JSON text; `ABSENT` if there is none, as at the end of a file that a crash cut
    off."""
    try:
        return read_line(json.loads(text))
    except (ValueError, RecursionError):
        return ABSENT


def read_line(document: Any) -> Line | Literal[Absent.ABSENT]:
    """The line in an object of the log; `ABSENT` if it is none."""
    if not isinstance(document, Mapping) or document.get(_MARK) != VERSION:
        return ABSENT
    values = {name: document[name] for name in _NAMES if name in document}
    try:
        values["resources"] = tuple(map(str, values.get("resources", ())))
        values["outcome"] = Outcome(values["outcome"])
        values["status"] = int(values.get("status", 0))
        return Line(**{**_EMPTY, **values})
    except (KeyError, TypeError, ValueError):
        return ABSENT


_NAMES: Final = Line._fields
_EMPTY: Final = dict.fromkeys(("time", "request_id", "user", "uid", "address", "operation"), "")


# ---- trail ---------------------------------------------------------------------------------------

LOG_NAME: Final = "graveler.audit"
_LOG: Final = logging.getLogger(LOG_NAME)


class LinePage(NamedTuple):
    """A page of lines, oldest first.  `following`: where the next page begins; empty: nothing
    follows.  A page may be short, or empty, and yet not the last."""

    lines: tuple[Line, ...]
    following: str


class Trail(Protocol):
    """Keeps the lines of the last days."""

    def write(self, line: Line) -> None:
        """Add a line.  Only the thread of the event loop calls this; it does not wait, and sends no
        request.  Raises nothing."""
        ...

    def read(self, question: Question, after: str, count_max: int) -> LinePage:
        """A page of the lines that a question asks for.  `after`: `following` of the page before;
        empty: the first page.

        Every line that this process wrote before is seen, unless the log is a service of its own.
        Errors: `Invalid` for an unknown `after`, `Unsupported` if this trail cannot be read here,
        `Unavailable`.
        """
        ...


class LoggedTrail:
    """Lines in the log of the process, one JSON object each, and nowhere else."""

    def write(self, line: Line) -> None:
        if _LOG.isEnabledFor(logging.INFO):
            for part in line_parts(line):
                _LOG.info(mapping(part))

    def read(self, question: Question, after: str, count_max: int) -> LinePage:
        """Always raises `Unsupported`."""
        raise Unsupported("audit trail not readable here: its lines are in the log of the service")


# ---- files ---------------------------------------------------------------------------------------

AUDIT_FOLDER: Final = "audit"  # in the folder of a store
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


class FileBounds(NamedTuple):
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

    def append(self, lines: Sequence[Line]) -> None:
        """Append lines, of which there is at least one.

        A file that were named after the time of the write would be later than its lines, and a
        reader would pass them over.
        """
        first = (datetime.fromisoformat(lines[0].time) - _EPOCH) // timedelta(milliseconds=1)
        text = b"".join(map(encode, chain.from_iterable(map(line_parts, lines))))
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
                yield decode(text[offset:end]), _Place(name, offset), _Place(name, end)
                offset = end

    def _files(self) -> list[int]:
        """The names of the files, oldest first."""
        names: list[int] = []
        for name in os.listdir(self._folder):
            match = _NAME.fullmatch(name)
            if match and (match[2] or "") == self._kind:
                names.append(int(match[1]))
        return sorted(names)

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
        question = question._replace(since_ns=max(question.since_ns, oldest))
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
            others: list[Line] = []
            denied: list[Line] = []
            for _ in range(len(self._waiting)):
                line = self._waiting.popleft()
                (denied if line.outcome is Outcome.DENIED else others).append(line)
            lost, self._lost = self._lost, 0
            for files, lines in ((self._changes, others), (self._denials, denied)):
                try:
                    if lines:
                        files.append(lines)
                except OSError as error:
                    lost += len(lines)
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


def _time(head: tuple[Line | Literal[Absent.ABSENT], _Place, _Place] | None) -> str:
    return "" if head is None or head[0] is ABSENT else head[0].time


def _places(text: str) -> tuple[_Place, _Place]:
    match = _PLACES.fullmatch(text)
    if not match:
        raise Invalid("page not found: use the next_offset of the page before")
    changes, offset, denials, denied_offset = map(int, match.groups("0"))
    return _Place(changes, offset), _Place(denials, denied_offset)
