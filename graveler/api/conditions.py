"""Conditions and byte ranges of a request for an object (RFC 9110), evaluated without reading it.

Pure.  Used by the endpoints of objects.
"""

import re
from email.utils import formatdate, parsedate_to_datetime
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from graveler import limits
from graveler.limits import SECOND_NS
from graveler.records import ABSENT, Absent


class Window(NamedTuple):
    """The requested bytes, half-open.  `partial`: the request named a range."""

    start: int
    end: int
    partial: bool


class Unsatisfiable(NamedTuple):
    """The range cannot be served.  `several`: the request asked for more than one range."""

    several: bool


RANGE_PATTERN: Final = re.compile(r"bytes=[0-9]*-[0-9]*(, ?[0-9]*-[0-9]*)*,? ?")
_DATES_MAX: Final = 4_096
SEVERAL: Final = Unsatisfiable(True)
OUTSIDE: Final = Unsatisfiable(False)


def http_date(nanoseconds: int) -> str:
    """A time in the format of `Last-Modified`."""
    return _date(nanoseconds // SECOND_NS)


@lru_cache(_DATES_MAX)  # an object is often read more than once
def _date(seconds: int) -> str:
    return formatdate(seconds, usegmt=True)


def is_range(header: str) -> bool:
    """Whether a `Range` header has the syntax that `window` parses, and an allowed length."""
    short = len(header) <= limits.range_header_length_max
    return short and RANGE_PATTERN.fullmatch(header) is not None


def window(header: str, size: int) -> Window | Unsatisfiable:
    """The bytes that a `Range` header requests of an object of `size` bytes.

    An empty header requests all of them.
    """
    if not header:
        return Window(0, size, False)
    ranges = [each.strip() for each in header.removeprefix("bytes=").split(",") if each.strip()]
    if len(ranges) != 1:
        return SEVERAL
    first, _, last = ranges[0].partition("-")
    if not first:
        length = int(last) if last else 0
        return Window(max(0, size - length), size, True) if length and size else OUTSIDE
    start = int(first)
    end = min(int(last) + 1, size) if last else size
    return Window(start, end, True) if start < end else OUTSIDE


def unchanged(if_none_match: str, if_modified_since: str, etag: str, modified_ns: int) -> bool:
    """Whether the client already has this version of the object.

    The etag decides.  The time decides only if the request names no etag.
    """
    if if_none_match:
        named = [each.strip().removeprefix("W/") for each in if_none_match.split(",")]
        return "*" in named or etag in named
    since = seconds_of(if_modified_since)
    return since is not ABSENT and modified_ns // SECOND_NS <= since


def seconds_of(date: str) -> float | Literal[Absent.ABSENT]:
    """The seconds since 1970 of a date; `ABSENT` for an empty text, and for one that is no date."""
    if not date:
        return ABSENT
    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return ABSENT
