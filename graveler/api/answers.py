"""JSON answers of the API, and the types of their fields.  Pure."""

from collections.abc import Sequence
from enum import Enum
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from graveler.core import limits
from graveler.http.answers import NOSNIFF, Answer, Headers

Pairs = dict[str, str]
Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1, extra_json_schema={"format": "int64"})]
Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Message = Annotated[str, Meta(max_length=limits.message_length_bytes_max)]
Bytes64 = Annotated[str, Meta(description="Base64")]

WHOLE: Final = r"(?!\n)"  # behind the `$` of a pattern, which else lets a newline follow


def matching(pattern: str, **rules: Any) -> Meta:
    """The rule that the whole of a string matches `pattern`, which begins with `^` and ends with
    `$`."""
    return Meta(pattern=pattern + WHOLE, **rules)


ByteRange = Annotated[
    str,
    matching(
        "^bytes=[0-9]*-[0-9]*(, ?[0-9]*-[0-9]*)*,? ?$", max_length=limits.range_header_length_max
    ),
]
Checksum = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=limits.checksum_length_bytes_max,
        description="The checksum that the storage returned for the write",
    ),
]
Size = Annotated[int, Meta(ge=0, le=limits.object_size_bytes_max)]
SECONDS_MAX: Final = (2**63 - 1) // limits.SECOND_NS  # records hold 64 bits of nanoseconds
Seconds = Annotated[int, Meta(ge=0, le=SECONDS_MAX, extra_json_schema={"format": "int64"})]
_ENCODE = msgspec.json.Encoder().encode
_ENCODE_LINES = msgspec.json.Encoder().encode_lines

HOOKS_OFF: Final[Headers] = ((b"x-graveler-hooks", b"off"),)  # no action file has an effect
JSON: Headers = ((b"content-type", b"application/json"), NOSNIFF)
PLAIN: Headers = ((b"content-type", b"text/plain; charset=utf-8"), NOSNIFF)
HTML: Headers = (
    (b"content-type", b"text/html; charset=utf-8"),
    NOSNIFF,
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
)


class Shape(msgspec.Struct, frozen=True):
    """The base of the types of JSON answers.  Its text shows no field: some are secrets."""

    __repr__ = object.__repr__


class MediaType(Enum):
    """An answer that is not JSON."""

    NOTHING = ""
    TEXT = "text/plain"
    BYTES = "application/octet-stream"


AnswerType = Any  # a type of `Shape` or of another JSON value, or a `MediaType`


class Pagination(Shape, frozen=True):
    """Where a page ends.  `next_offset`: the continuation token of the next page."""

    has_more: bool
    max_per_page: Integer
    next_offset: str
    results: Integer


class Page(Shape, frozen=True):
    """The base of the types of pages, which add `results`."""

    pagination: Pagination


class Error(Shape, frozen=True):
    """An error in the form that clients expect."""

    message: str


class _AnyPage(Page, frozen=True):
    results: Sequence[Any] | msgspec.Raw


def json(value: Any, status: int = 200, headers: Headers = ()) -> Answer:
    """A JSON answer."""
    return Answer(status, JSON + headers, _ENCODE(value))


def message(status: int, text: str, headers: Headers = ()) -> Answer:
    """An error in the form that clients expect."""
    return json(Error(text), status, headers)


def page(results: Sequence[Any], more: bool, last: str) -> Answer:
    """A page of a listing.  `last`: continuation token, the last name of this page."""
    return json(_AnyPage(pagination(len(results), last if more else ""), results))


def page_of_lines(lines: Sequence[bytes], more: bool, last: str) -> Answer:
    """As `page`, with results that are JSON already."""
    results = msgspec.Raw(b"[%b]" % b",".join(lines))
    return json(_AnyPage(pagination(len(lines), last if more else ""), results))


def lines(results: Sequence[Shape]) -> list[bytes]:
    """Results of a page, each as JSON."""
    # JSON has no line end but those between the documents.
    return _ENCODE_LINES(results).splitlines() if results else []


def pagination(count: int, following: str, count_max: int = limits.page_count_max) -> Pagination:
    """The place of a page with `count` results.  `following`: continuation token; empty: nothing
    follows."""
    return Pagination(bool(following), count_max, following, count)
