"""The result of an endpoint: status, headers and body, ready to be sent.

Pure except for orjson.  Used by the modules of api/.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from graveler import limits

Headers = tuple[tuple[bytes, bytes], ...]

JSON: Headers = ((b"content-type", b"application/json"), (b"x-content-type-options", b"nosniff"))
PLAIN: Headers = ((b"content-type", b"text/plain; charset=utf-8"),)
HTML: Headers = (
    (b"content-type", b"text/html; charset=utf-8"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
)


class StreamedBody(NamedTuple):
    """A body of exactly `length` bytes.  A pool thread reads its chunks while it is sent."""

    chunks: Iterator[bytes]
    length: int


class Answer(NamedTuple):
    """A complete answer.  By default the body is empty, and no content type is sent."""

    status: int
    headers: Headers = ()
    body: bytes | StreamedBody = b""


NO_CONTENT = Answer(204)


def json(value: Any, status: int = 200, headers: Headers = ()) -> Answer:
    """A JSON answer."""
    return Answer(status, JSON + headers, orjson.dumps(value))


def message(status: int, text: str, headers: Headers = ()) -> Answer:
    """An error in the form that clients expect."""
    return json({"message": text}, status, headers)


def page(results: Sequence[Mapping[str, Any]], more: bool, last: str) -> Answer:
    """A page of a listing.  `last`: continuation token, the last name of this page."""
    return json({"pagination": pagination(len(results), last if more else ""), "results": results})


def pagination(
    count: int, following: str, count_max: int = limits.page_count_max
) -> dict[str, Any]:
    """The place of a page with `count` results.  `following`: continuation token; empty: nothing
    follows."""
    return {
        "has_more": bool(following),
        "max_per_page": count_max,
        "next_offset": following,
        "results": count,
    }


def text_header(name: bytes, value: str) -> tuple[bytes, bytes]:
    """A header whose value comes from outside.  Characters that a header cannot carry become
    `?`."""
    if not (value.isascii() and value.isprintable()):
        value = "".join(each if " " <= each <= "~" else "?" for each in value)
    return name, value.encode("ascii")
