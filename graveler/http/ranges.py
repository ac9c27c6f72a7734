"""Which bytes of an object a request asks for (RFC 9110, section 14).

One range is served.  The whole object is the answer to several ranges, to a malformed range and to
one whose `If-Range` does not hold.  Pure.
"""

import re
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from graveler import limits
from graveler.errors import RangeUnsatisfiable
from graveler.http.conditions import Headers, Validators, allows_range
from graveler.records import ABSENT, Absent

_BYTES: Final = re.compile(r"\s*bytes\s*=(.*)", re.ASCII | re.IGNORECASE)
_RANGE: Final = re.compile(r"([0-9]*)-([0-9]*)", re.ASCII)
_BLANKS: Final = " \t"


class Window(NamedTuple):
    """The requested bytes, half-open.  `partial`: they are the answer to a range."""

    start: int
    end: int
    partial: bool

    def content_range(self, size: int) -> str:
        """The header of a partial answer."""
        return f"bytes {self.start}-{self.end - 1}/{size}"


class ByteRange(NamedTuple):
    """A range as it was sent.  Without `first`, the last `last` bytes; without `last`, all bytes
    from `first`."""

    first: int | Literal[Absent.ABSENT]
    last: int | Literal[Absent.ABSENT]


def window(headers: Headers, size: int, present: Validators) -> Window:
    """The bytes that the headers of a read ask for, of an object of `size` bytes.

    Raises `RangeUnsatisfiable` if no range of the request has a byte of the object.
    """
    if b"range" not in headers or not allows_range(headers, present):
        return Window(0, size, False)
    return window_of(headers[b"range"].decode("latin-1"), size)


def window_of(text: str, size: int) -> Window:
    """As `window`, for the text of a range."""
    ranges = parsed(text)
    windows = [part for byte_range in ranges if (part := _within(byte_range, size)) is not ABSENT]
    if ranges and not windows:
        raise RangeUnsatisfiable(f"range outside the object: size={size}", size)
    return windows[0] if len(windows) == 1 else Window(0, size, False)


def parsed(text: str) -> Sequence[ByteRange]:
    """The ranges that a text names; none if it is malformed, too long or of another unit."""
    match = _BYTES.fullmatch(text)
    if match is None or len(text) > limits.range_header_length_max:
        return ()
    ranges: list[ByteRange] = []
    for member in match[1].split(","):
        member = member.strip(_BLANKS)
        if member:  # a list may have empty members
            byte_range = _parsed(member)
            if byte_range is ABSENT:
                return ()
            ranges.append(byte_range)
    return ranges


def _parsed(member: str) -> ByteRange | Literal[Absent.ABSENT]:
    match = _RANGE.fullmatch(member)
    if match is None or member == "-":
        return ABSENT
    first, last = (int(digits) if digits else ABSENT for digits in match.groups())
    if first is not ABSENT and last is not ABSENT and first > last:
        return ABSENT
    return ByteRange(first, last)


def _within(byte_range: ByteRange, size: int) -> Window | Literal[Absent.ABSENT]:
    """The bytes of a range; ABSENT if the object has none of them."""
    first, last = byte_range
    if first is ABSENT:
        assert last is not ABSENT, "a range has one end at least"
        if not last:
            return ABSENT
        # The last bytes of an empty object are all of it, which no Content-Range can say.
        return Window(max(0, size - last), size, size > 0)
    if first >= size:
        return ABSENT
    return Window(first, size if last is ABSENT else min(last + 1, size), True)
