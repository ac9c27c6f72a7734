"""A streaming parser for multipart/form-data (RFC 7578): finds one part by name without holding it.

    preamble CRLF --boundary CRLF headers CRLF CRLF body CRLF --boundary-- epilogue

A boundary is a whole line, but for blanks at its end; a line that only begins like one belongs to
the body.  Memory is bounded by a chunk of the source plus the boundary.  Headers and skipped parts
have size limits.  The body ends at a delimiter.  If the source ends without one, the reader of the
body gets `Invalid`, so a truncated upload is never accepted as complete.  Pure.  Used by uploads.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal

from graveler.errors import Invalid
from graveler.records import ABSENT, Absent

_HEADER_LENGTH_MAX = 16 * 1024
_SKIPPED_LENGTH_MAX = 1024 * 1024
_PART_COUNT_MAX = 32
# Behind a boundary: two hyphens if it is the last one, blanks, and the break or the end of all.
_DELIMITER_END: Final = re.compile(rb"(--)?[ \t]*(\r\n)?")
_BOUNDARY = re.compile(r";\s*boundary=(?:\"([^\"]{1,70})\"|([^\s;\"]{1,70}))", re.IGNORECASE)
_NAME = re.compile(r";\s*name=(?:\"([^\"]*)\"|([^\s;\"]+))", re.IGNORECASE)


def boundary_of(content_type: str) -> bytes:
    """The boundary in a content type; empty if it is not multipart/form-data.

    Raises `Invalid` if a multipart content type has no valid boundary.
    """
    if content_type.partition(";")[0].strip().lower() != "multipart/form-data":
        return b""
    match = _BOUNDARY.search(content_type)
    if match is None:
        raise _broken("content type must name a boundary of 1 to 70 characters")
    return (match[1] or match[2]).encode("latin-1")


class Part:
    """The first part of a form that has this name."""

    def __init__(self, boundary: bytes, name: str) -> None:
        self.content_type = ""  # that the part declares; known once its first byte is
        self._boundary = boundary
        self._name = name

    def of(self, source: Iterable[bytes]) -> Iterator[bytes]:
        """The bytes of the part, from a source that is read to its end.

        An empty chunk of the source is passed on.  Raises `Invalid`.
        """
        reader = _Reader(iter(source), self._boundary)
        for _ in reader.until_delimiter(_HEADER_LENGTH_MAX):  # the preamble
            yield b""
        for _ in range(_PART_COUNT_MAX):
            if reader.is_closed:
                break
            while (headers := reader.headers()) is ABSENT:
                yield from reader.more()
            if _name_of(headers.get("content-disposition", "")) == self._name:
                self.content_type = headers.get("content-type", "")
                yield from reader.until_delimiter(0, len(b"\r\n"))
                yield from reader.rest()
                return
            for _ in reader.until_delimiter(_SKIPPED_LENGTH_MAX, len(b"\r\n")):
                yield b""
        raise _broken(f'part "{self._name}" is missing')


class _Reader:
    """A window over the source, and the position in the grammar."""

    def __init__(self, source: Iterator[bytes], boundary: bytes) -> None:
        self._source = source
        self._window = bytearray(b"\r\n")  # so that it finds a boundary at the very start
        self._delimiter = b"\r\n--" + boundary
        self._is_ended = False  # the source
        self.is_closed = False  # the last delimiter was found

    def headers(self) -> Mapping[str, str] | Literal[Absent.ABSENT]:
        """The headers of the next part; ABSENT until more of it has arrived."""
        end = self._window.find(b"\r\n\r\n")
        if end < 0:
            if len(self._window) > _HEADER_LENGTH_MAX:
                raise _broken(f"headers of a part are too long: at most {_HEADER_LENGTH_MAX} bytes")
            return ABSENT
        lines = bytes(self._window[:end]).decode("utf-8", "replace").split("\r\n")
        del self._window[: end + 2]  # a delimiter may begin with the second break
        pairs = (line.partition(":") for line in lines if line.strip())
        return {key.strip().lower(): value.strip() for key, _, value in pairs}

    def until_delimiter(self, length_max: int, lead: int = 0) -> Iterator[bytes]:
        """The bytes up to the next delimiter, and past it.  `length_max`: 0 for any number.
        `lead`: so many bytes before the first one are left out."""
        length = 0
        while True:
            ready, behind = self._find()
            if ready:
                length += ready
                if length_max and length > length_max:
                    raise _broken(f"an unused part is too long: at most {length_max} bytes")
                left_out = min(lead, ready)
                lead -= left_out
                yield bytes(self._window[left_out:ready])
                del self._window[:ready]
            if behind:
                del self._window[: behind - ready]
                return
            yield from self.more()

    def more(self) -> Iterator[bytes]:
        """Read on in the source; yields an empty chunk as often as the source does."""
        for chunk in self._source:
            if chunk:
                self._window += chunk
                return
            yield chunk
        if self._is_ended:
            raise _broken("body ended before its last boundary")
        self._is_ended = True

    def rest(self) -> Iterator[bytes]:
        """Drop all that follows."""
        self._window.clear()
        for _ in self._source:
            yield b""

    def _find(self) -> tuple[int, int]:
        """How many bytes of the window are certainly before the next delimiter, and where what
        follows the delimiter begins; 0 if it is not known yet."""
        at = 0
        while (start := self._window.find(self._delimiter, at)) >= 0:
            match = _DELIMITER_END.match(self._window, start + len(self._delimiter))
            assert match is not None, "it matches nothing as well"
            hyphens, line_break = match.groups(b"")
            rest = bytes(self._window[match.end() : match.end() + 2])
            if line_break or (hyphens and self._is_ended and rest in (b"", b"\r")):
                self.is_closed = bool(hyphens)
                return start, match.end() - len(line_break)
            if rest in (b"", b"\r", b"-"):
                if match.end() - start > _HEADER_LENGTH_MAX:
                    raise _broken("boundary has too many blanks behind it")
                return start, 0
            at = start + 1  # a line that only begins like a boundary
        return max(0, len(self._window) - len(self._delimiter) + 1), 0


def _name_of(disposition: str) -> str:
    match = _NAME.search(disposition)
    return "" if match is None else match[1] if match[1] is not None else match[2]


def _broken(rule: str) -> Invalid:
    return Invalid(f"request body has an error: multipart {rule}")
