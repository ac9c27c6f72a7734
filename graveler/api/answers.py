"""The result of an endpoint: status, headers and body, ready to be sent.

`Shape` is the base of the types of JSON answers: clients get their fields, in order, without those
that are `UNSET`.  Pure.  Used by the modules of api/.
"""

import re
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator, Sequence
from enum import Enum
from typing import Any, Final, Literal, NamedTuple

import msgspec

from graveler import limits
from graveler.api.field_types import Integer
from graveler.records import ABSENT, Absent

Headers = tuple[tuple[bytes, bytes], ...]
_ENCODE = msgspec.json.Encoder().encode
_ENCODE_LINES = msgspec.json.Encoder().encode_lines

HOOKS_OFF: Final[Headers] = ((b"x-graveler-hooks", b"off"),)  # no action file has an effect
NOSNIFF = (b"x-content-type-options", b"nosniff")
JSON: Headers = ((b"content-type", b"application/json"), NOSNIFF)
PLAIN: Headers = ((b"content-type", b"text/plain; charset=utf-8"), NOSNIFF)
HTML: Headers = (
    (b"content-type", b"text/html; charset=utf-8"),
    NOSNIFF,
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
)


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


class Shape(msgspec.Struct, frozen=True):
    """The base of the types of JSON answers."""


class Content(Enum):
    """An answer that is not JSON."""

    NOTHING = ""
    TEXT = "text/plain"
    BYTES = "application/octet-stream"


AnswerType = Any  # a type of `Shape` or of another JSON value, or a `Content`


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


def is_header_value(text: str) -> bool:
    """Whether a header can carry a text: ISO 8859-1 without control characters."""
    return (text.isascii() and text.isprintable()) or _VALUE.fullmatch(text) is not None


def text_header(name: bytes, value: str) -> tuple[bytes, bytes]:
    """A header whose value comes from outside.  Characters that no header can carry become `?`:
    uploads refuse them, but a table that Spark wrote may have them."""
    if not is_header_value(value):
        value = _NO_VALUE.sub("?", value)
    return name, value.encode("latin-1")
