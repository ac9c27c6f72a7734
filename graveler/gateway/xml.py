"""XML of answers: every value is escaped where it enters a template.  Pure."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from graveler.core.limits import SECOND_NS
from graveler.http.answers import Answer, Headers

_TEXTS_MAX: Final = 4_096


def timestamp(nanoseconds: int) -> str:
    """A time in the format of answers in XML."""
    return _text(nanoseconds // SECOND_NS)


@lru_cache(_TEXTS_MAX)  # the objects of a listing were often written in few seconds
def _text(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.000Z"


NAMESPACE: Final = "http://s3.amazonaws.com/doc/2006-03-01/"
DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'
XML_HEADERS: Headers = ((b"content-type", b"application/xml"),)
_SPECIAL: Final = re.compile("[&<>\"'\x00-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]")
_ESCAPES: Final = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&#34;",
    "'": "&#39;",
    "\r": "&#13;",
}
_UNPRINTABLE: Final = "\ufffd"


class Markup(str):
    """Text that is XML already.  Only `Template` and `joined` make it."""

    __slots__ = ()

    def __add__(self, other: str) -> "Markup":
        return Markup(str.__add__(self, other if isinstance(other, Markup) else escaped(other)))


class Template:
    """XML with places for values, each written `{}`."""

    __slots__ = ("_format",)

    def __init__(self, source: str) -> None:
        self._format = source.format

    def __call__(self, *values: str | int) -> Markup:
        return Markup(self._format(*map(_shown, values)))


def _shown(value: str | int) -> str:
    return value if isinstance(value, Markup) else escaped(str(value))


def escaped(text: str) -> str:
    """The text as content of an element."""
    return _SPECIAL.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[0], _UNPRINTABLE)


def joined(pieces: Iterable[Markup]) -> Markup:
    """The pieces, one after the other."""
    return Markup("".join(pieces))


def document(root: Markup, status: int = 200, headers: Headers = ()) -> Answer:
    """An answer with a whole document."""
    return Answer(status, XML_HEADERS + headers, (DECLARATION + root).encode())


def long_document(begin: Markup, lines: Sequence[bytes], end: bytes) -> Answer:
    """An answer with a whole document, most of which is lines that were encoded before."""
    return Answer(200, XML_HEADERS, b"".join(((DECLARATION + begin).encode(), *lines, end)))
