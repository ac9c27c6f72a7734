"""Conditions and ranges of requests (RFC 9110, sections 13 and 14).  Pure.

    If-Match ─► else If-Unmodified-Since ─► If-None-Match ─► else If-Modified-Since
       412              412                304, of a write 412       304, of reads only

`If-Match` compares entity tags strongly, `If-None-Match` weakly.  Tags may lack quotes.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC
from email.utils import formatdate, parsedate_to_datetime
from enum import Enum
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from graveler.block.adapter import CREATE, OVERWRITE
from graveler.core import limits
from graveler.core.errors import Invalid, PreconditionFailed, RangeUnsatisfiable
from graveler.core.limits import SECOND_NS
from graveler.core.records import ABSENT, Absent, Entry
from graveler.engine.objects.rows import Condition, OnlyIf

Headers = Mapping[bytes, bytes]  # by name in lower case

_MATCH: Final = b"if-match"
_NONE_MATCH: Final = b"if-none-match"
_MODIFIED: Final = b"if-modified-since"
_UNMODIFIED: Final = b"if-unmodified-since"
_OF_READS: Final = frozenset((_MATCH, _NONE_MATCH, _MODIFIED, _UNMODIFIED))
_OF_WRITES: Final = frozenset((_MATCH, _NONE_MATCH, _UNMODIFIED))
_ANY: Final = "*"
_WEAK: Final = "W/"
_MEMBER: Final = re.compile(r'(?:[^,"]|"[^"]*"?)+')  # of a list: a comma in quotes ends none
_DATES_MAX: Final = 4_096


class Validators(NamedTuple):
    """What identifies the present version of an object.  `etag`: without quotes."""

    etag: str
    modified_ns: int


class Outcome(Enum):
    """What the conditions of a read say."""

    PROCEED = "proceed"
    NOT_MODIFIED = "not modified"
    FAILED = "failed"


def validators_of(entry: Entry) -> Validators:
    """The validators of an entry."""
    return Validators(entry.checksum, entry.modified_ns)


# ---- reads and writes ----------------------------------------------------------------------------


def of_read(headers: Headers, present: Validators) -> Outcome:
    """Whether a GET or a HEAD of an object is answered with it."""
    if not is_conditional(headers):
        return Outcome.PROCEED
    if not _is_expected(headers, present):
        return Outcome.FAILED
    if _tags(headers, _NONE_MATCH):
        is_known = _names(headers, _NONE_MATCH, present.etag, weakly=True)
    else:
        since = seconds_of(_text(headers, _MODIFIED))
        is_known = since is not ABSENT and present.modified_ns // SECOND_NS <= since
    return Outcome.NOT_MODIFIED if is_known else Outcome.PROCEED


def is_conditional(headers: Headers) -> bool:
    """Whether a read has a condition."""
    return not _OF_READS.isdisjoint(headers)


def of_write(headers: Headers, *, finds: bool = False) -> Condition:
    """The condition of a write or a deletion, for the engine, which evaluates it at that moment.

    `finds`: `If-Match` without an object is `NotFound`, as S3 has it, and not `PreconditionFailed`.
    Raises `Invalid` for a list without an entity tag: an unset variable of a client must not
    replace an object.
    """
    if _OF_WRITES.isdisjoint(headers):
        return OVERWRITE
    check_tags(headers)
    named = {name: headers[name] for name in _OF_WRITES if name in headers}
    if named.keys() == {_NONE_MATCH} and _tags(named, _NONE_MATCH) == [_ANY]:
        return CREATE

    def holds(entry: Entry | Literal[Absent.ABSENT]) -> bool:
        return allows_write(named, ABSENT if entry is ABSENT else validators_of(entry))

    return OnlyIf(holds, finds=finds and _MATCH in named)


def check_tags(headers: Headers) -> None:
    """Raises `Invalid` for a list without an entity tag, which would be no condition, and for one
    like `'*'`, which no object has: a `*` was meant."""
    for name in (_MATCH, _NONE_MATCH):
        if name not in headers:
            continue
        tags = [tag.removeprefix(_WEAK).strip('"') for tag in _tags(headers, name)]
        if not tags or any(_ANY in tag and tag != _ANY for tag in tags):
            raise Invalid(
                f"condition has no entity tag: header={name.decode()}; it must be * or entity tags"
            )


def allows_write(headers: Headers, present: Validators | Literal[Absent.ABSENT]) -> bool:
    """Whether the conditions of a write hold for the present version; ABSENT: there is none."""
    if present is ABSENT:
        return not _tags(headers, _MATCH)
    is_named = _names(headers, _NONE_MATCH, present.etag, weakly=True)
    return not is_named and _is_expected(headers, present)


def allows_range(headers: Headers, present: Validators) -> bool:
    """Whether `If-Range` holds: the object is the one that the client has a part of."""
    text = _text(headers, b"if-range")
    if not text:
        return True
    since = seconds_of(text)
    if since is not ABSENT:
        return present.modified_ns // SECOND_NS == since
    return not text.startswith(_WEAK) and text.strip('"') == present.etag


def _is_expected(headers: Headers, present: Validators) -> bool:
    """Whether `If-Match` holds, or else `If-Unmodified-Since`."""
    if _tags(headers, _MATCH):
        return _names(headers, _MATCH, present.etag, weakly=False)
    since = seconds_of(_text(headers, _UNMODIFIED))
    return since is ABSENT or present.modified_ns // SECOND_NS <= since


# ---- entity tags and dates -----------------------------------------------------------------------


def _names(headers: Headers, name: bytes, etag: str, *, weakly: bool) -> bool:
    """Whether a list of entity tags, or `*`, names an object with this etag.  `weakly`: a tag that
    is marked as weak may name it too."""
    for tag in _tags(headers, name):
        if tag.startswith(_WEAK):
            if not weakly:
                continue
            tag = tag.removeprefix(_WEAK).strip('"')
        if tag in (_ANY, etag):
            return True
    return False


def _tags(headers: Headers, name: bytes) -> list[str]:
    """The entity tags of a header, without quotes; a weak one with its mark."""
    if name not in headers:
        return []
    members = (member.strip() for member in _MEMBER.findall(_text(headers, name)))
    return [tag for member in members if (tag := member.strip('"'))]


def _text(headers: Headers, name: bytes) -> str:
    return headers.get(name, b"").decode("latin-1").strip()


def http_date(nanoseconds: int) -> str:
    """A time in the format of `Last-Modified`."""
    return _date(nanoseconds // SECOND_NS)


@lru_cache(_DATES_MAX)  # an object is often read more than once
def _date(seconds: int) -> str:
    return formatdate(seconds, usegmt=True)


def seconds_of(date: str) -> float | Literal[Absent.ABSENT]:
    """The seconds since 1970 of a date; `ABSENT` for an empty text, and for one that is no date."""
    if not date:
        return ABSENT
    try:
        moment = parsedate_to_datetime(date)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return ABSENT


# ---- ranges --------------------------------------------------------------------------------------

_BYTES: Final = re.compile(r"\s*bytes\s*=(.*)", re.ASCII | re.IGNORECASE)
_RANGE: Final = re.compile(r"([0-9]*)-([0-9]*)", re.ASCII)
_BLANKS: Final = " \t"


class Window(NamedTuple):
    """The requested bytes, half-open.  `partial`: they are the answer to a range."""

    start: int
    end: int
    partial: bool

    @property
    def length(self) -> int:
        return self.end - self.start

    def content_range(self, size: int) -> str:
        """The header of a partial answer."""
        return f"bytes {self.start}-{self.end - 1}/{size}"


class ByteRange(NamedTuple):
    """A range as it was sent.  Without `first`, the last `last` bytes; without `last`, all bytes
    from `first`."""

    first: int | Literal[Absent.ABSENT]
    last: int | Literal[Absent.ABSENT]


def selected(
    headers: Headers, size: int, present: Validators
) -> Window | Literal[Outcome.NOT_MODIFIED]:
    """The bytes that a GET or a HEAD asks for, of an object of `size` bytes.

    Raises `PreconditionFailed`, and `RangeUnsatisfiable` if no range of the request has a byte of
    the object.
    """
    outcome = of_read(headers, present)
    if outcome is Outcome.FAILED:
        raise PreconditionFailed("object does not satisfy the condition of the request")
    if outcome is Outcome.NOT_MODIFIED:
        return outcome
    if b"range" not in headers or not allows_range(headers, present):
        return Window(0, size, False)
    return window_of_text(headers[b"range"].decode("latin-1"), size)


def window_of_text(text: str, size: int) -> Window:
    """The bytes that the text of a range names.  Raises `RangeUnsatisfiable`."""
    ranges = ranges_of(text)
    windows = [part for byte_range in ranges if (part := _within(byte_range, size)) is not ABSENT]
    if ranges and not windows:
        raise RangeUnsatisfiable(f"range outside the object: size={size}", size)
    return windows[0] if len(windows) == 1 else Window(0, size, False)


def ranges_of(text: str) -> Sequence[ByteRange]:
    """The ranges that a text names; none if it is malformed, too long or of another unit."""
    match = _BYTES.fullmatch(text)
    if match is None or len(text) > limits.range_header_length_max:
        return ()
    ranges: list[ByteRange] = []
    for member in match[1].split(","):
        member = member.strip(_BLANKS)
        if member:  # a list may have empty members
            byte_range = _range_of(member)
            if byte_range is ABSENT:
                return ()
            ranges.append(byte_range)
    return ranges


def _range_of(member: str) -> ByteRange | Literal[Absent.ABSENT]:
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
