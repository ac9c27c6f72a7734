"""Conditions of a request (RFC 9110, section 13), in their order (section 13.2.2).

    If-Match ─► else If-Unmodified-Since ─► If-None-Match ─► else If-Modified-Since
       412              412                304, of a write 412       304, of reads only

`If-Match` compares entity tags strongly, `If-None-Match` weakly; both take a list, or `*`.  A tag
without quotes is accepted, as S3 does.  A date that cannot be read is ignored.  Pure.
"""

import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import formatdate, parsedate_to_datetime
from enum import Enum
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from graveler.block.adapter import CREATE, OVERWRITE
from graveler.engine.objects.rows import Condition, OnlyIf
from graveler.errors import Invalid
from graveler.limits import SECOND_NS
from graveler.records import ABSENT, Absent, Entry

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
    """Raises `Invalid` for a list without an entity tag, which would be no condition."""
    for name in (_MATCH, _NONE_MATCH):
        if name in headers and not _tags(headers, name):
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
