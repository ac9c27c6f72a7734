"""Conditions of a read, in the order of RFC 9110 (section 13.2.2), and the range that is left.

    If-Match ─► else If-Unmodified-Since ─► If-None-Match ─► else If-Modified-Since ─► If-Range
       412            412                        304                304               whole

An entity tag without quotes is accepted, as S3 does.  A date that cannot be read is ignored.  Pure.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from graveler.api import conditions
from graveler.api.conditions import Window
from graveler.errors import RangeUnsatisfiable
from graveler.gateway.errors import S3Error
from graveler.limits import SECOND_NS
from graveler.records import ABSENT, Entry

READ_CONDITIONS: Final = ("if-match", "if-none-match", "if-modified-since", "if-unmodified-since")
_HEADERS: Final = frozenset(name.encode() for name in READ_CONDITIONS)
_ANY: Final = "*"
_WEAK: Final = "W/"


class Decision(Enum):
    """What the conditions of a read say."""

    PROCEED = "proceed"
    NOT_MODIFIED = "not modified"


def decide(headers: Mapping[bytes, bytes], entry: Entry) -> Decision:
    """Evaluate the conditions of a read.  Raises `S3Error`: PreconditionFailed."""
    if _HEADERS.isdisjoint(headers):
        return Decision.PROCEED
    if_match = _text(headers, b"if-match")
    if if_match:
        if not names(if_match, entry.checksum, weakly=False):
            raise S3Error("PreconditionFailed")
    elif _later(entry, _text(headers, b"if-unmodified-since")):
        raise S3Error("PreconditionFailed")
    if_none_match = _text(headers, b"if-none-match")
    if if_none_match:
        unchanged = names(if_none_match, entry.checksum, weakly=True)
    else:
        since = conditions.seconds_of(_text(headers, b"if-modified-since"))
        unchanged = since is not ABSENT and entry.modified_ns // SECOND_NS <= since
    return Decision.NOT_MODIFIED if unchanged else Decision.PROCEED


def names(header: str, checksum: str, *, weakly: bool) -> bool:
    """Whether a list of entity tags, or `*`, names an object with this checksum.  `weakly`: a tag
    that is marked as weak may name it too."""
    for tag in (each.strip() for each in header.split(",")):
        if tag.startswith(_WEAK):
            if not weakly:
                continue
            tag = tag.removeprefix(_WEAK)
        if tag == _ANY or tag.strip('"') == checksum:
            return True
    return False


def window_of(headers: Mapping[bytes, bytes], entry: Entry) -> Window:
    """The bytes that a read asks for.

    Two ranges and a malformed one mean the whole object, as does a range whose `If-Range` does not
    hold.  Raises `RangeUnsatisfiable`.
    """
    whole, size = Window(0, entry.size, False), entry.size
    if b"range" not in headers:
        return whole
    header = _text(headers, b"range")
    header = header[:6].lower() + header[6:]
    if not header or not conditions.is_range(header) or not _in_range(headers, entry):
        return whole
    window = conditions.window(header, size)
    if isinstance(window, Window):
        return window
    if window.several or _is_backwards(header):
        return whole
    raise RangeUnsatisfiable(f"range outside the object: size={size}", size)


def _is_backwards(header: str) -> bool:
    first, _, last = header.removeprefix("bytes=").strip(" ,").partition("-")
    return bool(first) and bool(last) and int(first) > int(last)


def _in_range(headers: Mapping[bytes, bytes], entry: Entry) -> bool:
    """Whether `If-Range` holds: the object is the one that the client has a part of."""
    header = _text(headers, b"if-range")
    if not header:
        return True
    since = conditions.seconds_of(header)
    if since is not ABSENT:
        return entry.modified_ns // SECOND_NS == since
    return header != _ANY and names(header, entry.checksum, weakly=False)


def _later(entry: Entry, date: str) -> bool:
    """Whether the object was modified after a date."""
    seconds = conditions.seconds_of(date)
    return seconds is not ABSENT and entry.modified_ns // SECOND_NS > seconds


def _text(headers: Mapping[bytes, bytes], name: bytes) -> str:
    return headers.get(name, b"").decode("latin-1").strip()
