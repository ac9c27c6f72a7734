"""Writes XML: every value is escaped where it enters a template.

    _KEY = Template("<Key>{}</Key>")
    _KEY("a&b")                      Markup('<Key>a&amp;b</Key>')

A template is a constant of a module.  Its values are texts and numbers, which are escaped, or
`Markup`, which came from a template.  So no text of a client becomes an element.

A carriage return becomes `&#13;`, because a parser makes a line feed of a plain one.  XML 1.0 has
no form for other control characters: they become U+FFFD.  Pure.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from graveler.api.answers import Answer, Headers

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
