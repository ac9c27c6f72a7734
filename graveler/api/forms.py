"""A streaming parser for multipart/form-data (RFC 7578): finds one part by name without holding it.

    preamble CRLF --boundary CRLF headers CRLF CRLF body CRLF --boundary-- epilogue

Memory is bounded by a chunk of the source plus the boundary.  Headers and skipped parts have size
limits.  The body ends at a delimiter.  If the source ends without one, the reader of the body gets
`Invalid`, so a truncated upload is never accepted as complete.  Pure.  Used by uploads.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from graveler.errors import Invalid

_HEADER_LENGTH_MAX = 16 * 1024
_SKIPPED_LENGTH_MAX = 1024 * 1024
_PART_COUNT_MAX = 32
_BOUNDARY = re.compile(r";\s*boundary=(?:\"([^\"]{1,70})\"|([^\s;\"]{1,70}))", re.IGNORECASE)
_NAME = re.compile(r";\s*name=(?:\"([^\"]*)\"|([^\s;\"]+))", re.IGNORECASE)


class Part(NamedTuple):
    """A part: its content type (empty if it declares none) and its bytes."""

    content_type: str
    chunks: Iterator[bytes]


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


def open_part(source: Iterable[bytes], boundary: bytes, name: str) -> Part:
    """Read up to the first part named `name`.  Raises `Invalid` if there is none."""
    reader = _Reader(iter(source), boundary)
    reader.skip_preamble()
    for _ in range(_PART_COUNT_MAX):
        headers = reader.headers()
        if not headers:
            break
        if _name_of(headers.get("content-disposition", "")) == name:
            return Part(headers.get("content-type", ""), reader.body())
        reader.skip_body()
    raise _broken(f'part "{name}" is missing')


class _Reader:
    """A window over the source, and the position in the grammar."""

    def __init__(self, source: Iterator[bytes], boundary: bytes) -> None:
        self._source = source
        self._window = bytearray(b"\r\n")  # so that it finds a boundary at the very start
        self._delimiter = b"\r\n--" + boundary

    def skip_preamble(self) -> None:
        """Read past the first boundary."""
        for _ in self._until_delimiter(_HEADER_LENGTH_MAX):
            pass

    def headers(self) -> dict[str, str]:
        """The headers of the next part; empty after the last one."""
        while len(self._window) < 2:
            self._fill()
        if self._window[:2] == b"--":
            return {}
        while (end := self._window.find(b"\r\n\r\n")) < 0:
            if len(self._window) > _HEADER_LENGTH_MAX:
                raise _broken(f"headers of a part are too long: at most {_HEADER_LENGTH_MAX} bytes")
            self._fill()
        lines = bytes(self._window[:end]).decode("utf-8", "replace").split("\r\n")
        del self._window[: end + 4]
        pairs = (line.partition(":") for line in lines if line.strip())
        return {key.strip().lower(): value.strip() for key, _, value in pairs} or {"": ""}

    def body(self) -> Iterator[bytes]:
        """The bytes of the part."""
        return self._until_delimiter(0)

    def skip_body(self) -> None:
        """Skip the body of a part that is not needed."""
        for _ in self._until_delimiter(_SKIPPED_LENGTH_MAX):
            pass

    def _until_delimiter(self, length_max: int) -> Iterator[bytes]:
        length = 0
        keep = len(self._delimiter) - 1
        while True:
            index = self._window.find(self._delimiter)
            ready = index if index >= 0 else max(0, len(self._window) - keep)
            if ready:
                length += ready
                if length_max and length > length_max:
                    raise _broken(f"an unused part is too long: at most {length_max} bytes")
                yield bytes(self._window[:ready])
                del self._window[:ready]
            if index >= 0:
                del self._window[: len(self._delimiter)]
                return
            self._fill()

    def _fill(self) -> None:
        for chunk in self._source:
            if chunk:
                self._window += chunk
                return
        raise _broken("body ended before its last boundary")


def _name_of(disposition: str) -> str:
    match = _NAME.search(disposition)
    return "" if match is None else match[1] if match[1] is not None else match[2]


def _broken(rule: str) -> Invalid:
    return Invalid(f"request body has an error: multipart {rule}")
