"""Answers: status, headers and body, ready to be sent; and kept lines of listings."""

import gzip
import re
import threading
from base64 import b64encode
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from sys import getsizeof
from types import MappingProxyType
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

from graveler.core import limits
from graveler.core.records import ABSENT, Absent, Record

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


# ---- lines of listings ---------------------------------------------------------------------------

C = TypeVar("C", bound=Hashable)
L = TypeVar("L", bound=bytes | str)
_LINE_COST: Final = 160  # bytes of memory: a line's place and its record, without their texts
_CONTEXT_COST: Final = 1_000  # the same for a context
_NONE: Final[Mapping[Any, Any]] = MappingProxyType({})


class _Generation(Generic[C, L]):
    """Lines that were used in one period, by context, and their cost."""

    __slots__ = ("contexts", "spent")

    def __init__(self) -> None:
        self.contexts: dict[C, dict[Record, L]] = {}
        self.spent = 0

    def lines(self, context: C) -> Mapping[Record, L]:
        """The lines of a context."""
        return self.contexts.get(context, _NONE)


class RenderedLines(Generic[C, L]):
    """Rendered lines within a budget of bytes.  When the lines that were used lately take half of
    it, those that were not used since the last time are dropped.  Safe for any number of
    threads."""

    def __init__(
        self,
        render: Callable[[C, Sequence[Record]], Sequence[L]],
        budget: int = limits.rendered_lines_bytes_max,
    ) -> None:
        """`render`: makes the lines of records in a context, one for each.  Pure."""
        self._render = render
        self._half = budget // 2
        self._young: _Generation[C, L] = _Generation()
        self._old: _Generation[C, L] = _Generation()
        self._lock = threading.Lock()

    def of(self, context: C, records: Iterable[Record]) -> Sequence[L]:
        """The lines of some records.  The missing ones are made together, and kept.  Raises what
        `render` raises."""
        page = list(records)
        lines: list[Any] = list(map(self._young.lines(context).get, page))
        if None not in lines:
            return lines
        moved = [at for at, line in enumerate(lines) if line is None]
        old = self._old.lines(context)
        for at in moved:
            lines[at] = old.get(page[at])
        missing = [at for at in moved if lines[at] is None]
        if missing:
            fresh = self._render(context, [page[at] for at in missing])
            for at, line in zip(missing, fresh, strict=True):
                lines[at] = line
        self._keep(context, [(page[at], lines[at]) for at in moved])
        return lines

    @property
    def spent(self) -> int:
        """The approximate memory that all lines take, in bytes; never more than the budget."""
        with self._lock:
            return self._young.spent + self._old.spent

    def _keep(self, context: C, lines: Iterable[tuple[Record, L]]) -> None:
        """Keep lines among the young, but for those that are larger than half of the budget."""
        with self._lock:
            for record, line in lines:
                cost = _LINE_COST + getsizeof(record[0]) + getsizeof(record[1]) + getsizeof(line)
                known = self._young.contexts.get(context)
                if cost + _CONTEXT_COST > self._half or (known is not None and record in known):
                    continue
                if known is None or self._young.spent + cost > self._half:
                    known = self._begin(context, cost)
                known[record] = line
                self._young.spent += cost

    def _begin(self, context: C, cost: int) -> dict[Record, L]:
        """A place for the lines of a context, with room for one of this cost.  Pages that are
        being made at this moment have their own lines, so the old ones may be dropped."""
        if self._young.spent + _CONTEXT_COST + cost > self._half:
            self._old, self._young = self._young, _Generation()
        known = self._young.contexts.get(context)
        if known is None:
            known = self._young.contexts[context] = {}
            self._young.spent += _CONTEXT_COST
        return known


Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Scope = MutableMapping[str, Any]

Headers = tuple[tuple[bytes, bytes], ...]
NOSNIFF = (b"x-content-type-options", b"nosniff")


_VALUE: Final = re.compile(r"[\t -~\x80-\xff]*")
_NO_VALUE: Final = re.compile(r"[^\t -~\x80-\xff]")
_CRC32C: Final = b"x-amz-checksum-crc32c"  # as S3 says it


def crc32c_headers(crc32c: int | Literal[Absent.ABSENT]) -> Headers:
    """The header with the CRC32C of all bytes of an object, if it is known.  A client verifies them
    many times faster by it than by the MD5."""
    return () if crc32c is ABSENT else ((_CRC32C, b64encode(crc32c.to_bytes(4, "big"))),)


class StreamedBody(NamedTuple):
    """A body of exactly `length` bytes.  A pool thread reads its chunks while it is sent; those of
    an asynchronous iterator, which only waits, are read on the event loop."""

    chunks: Iterator[bytes] | AsyncIterator[bytes]
    length: int


class Answer(NamedTuple):
    """A complete answer.  By default the body is empty, and no content type is sent."""

    status: int
    headers: Headers = ()
    body: bytes | StreamedBody = b""


NO_CONTENT = Answer(204)


_NOT_WANTED: Final = re.compile(rb"q=0(\.0*)?")
_PACKET_BYTES: Final = 1_400  # what a shorter body saves, nobody sees
GZIP: Final = (b"content-encoding", b"gzip")
BY_CODING: Final = (b"vary", b"Accept-Encoding")


def takes_gzip(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a client says that it takes an answer in gzip."""
    accepted = {}
    for member in headers.get(b"accept-encoding", b"").lower().split(b","):
        name, _, weight = member.partition(b";")
        accepted[name.strip()] = _NOT_WANTED.fullmatch(weight.strip()) is None
    return accepted.get(b"gzip", accepted.get(b"*", False))


def in_gzip(answer: Answer) -> Answer:
    """The answer, if its body is whole and longer than a packet, in gzip: fast rather than small.
    A page of a listing becomes a tenth."""
    status, headers, body = answer
    if isinstance(body, StreamedBody) or len(body) < _PACKET_BYTES:
        return answer
    return Answer(status, (*headers, GZIP, BY_CODING), gzip.compress(body, 1, mtime=0))


def is_header_value(text: str) -> bool:
    """Whether a header can carry a text: ISO 8859-1 without control characters."""
    return (text.isascii() and text.isprintable()) or _VALUE.fullmatch(text) is not None


def text_header(name: bytes, value: str) -> tuple[bytes, bytes]:
    """A header whose value comes from outside.  Characters that no header can carry become `?`:
    uploads refuse them, but a table that Spark wrote may have them."""
    if not is_header_value(value):
        value = _NO_VALUE.sub("?", value)
    return name, value.encode("latin-1")
