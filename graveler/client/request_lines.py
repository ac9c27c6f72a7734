"""Writes requests on a socket, in place of `http.client`.

The methods of `http.client` check and encode each header by itself, which takes longer than to send
a small request.  Here a head is one text, which is checked and encoded once.  The head of a request
goes together with the first piece of its body: one call of the system, and one arrival at the
server, for a small body.  For connections.py.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from http.client import InvalidURL
from typing import Final, Protocol

Body = bytes | Iterable[bytes]

_TARGET: Final = re.compile("[!-~]+")
_NAME: Final = re.compile("[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_WITHOUT_BODY: Final = ("GET", "HEAD")
_CHUNKED: Final = {"Transfer-Encoding": "chunked"}


class BodyFailed(Exception):
    """The pieces of a body raised `error`: an error of its source, and none of the socket."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error: Final = error


class Sink(Protocol):
    """A socket, as far as requests are written on it."""

    def sendall(self, data: bytes, /) -> object:
        """Send all of the bytes."""
        ...


def write(sink: Sink, method: str, target: str, headers: Mapping[str, str], body: Body) -> None:
    """Send a request.  A body in pieces is sent in chunks, unless the headers have its length.

    Raises `InvalidURL` for a target, and `ValueError` for a header, that would end its line, or
    that cannot be encoded, and for headers that contradict each other; then nothing was sent.
    Raises the errors of the socket, and `BodyFailed` for those of the pieces; if the first piece
    fails, nothing was sent.
    """
    names = {name.lower() for name in headers}
    if len(names) < len(headers) or "transfer-encoding" in names:
        raise ValueError("a header is there twice, or decides how the body is sent")
    has_length = "content-length" in names
    if isinstance(body, bytes):
        is_told = not has_length and (body or method not in _WITHOUT_BODY)
        framing = {"Content-Length": str(len(body))} if is_told else {}
        sink.sendall(_head(method, target, {**framing, **headers}) + body)
        return
    head = _head(method, target, headers if has_length else {**_CHUNKED, **headers})
    pieces = _checked(body)
    for piece in pieces if has_length else _chunks(pieces):
        sink.sendall(head + piece if head else piece)
        head = b""
    if head:
        sink.sendall(head)


def _checked(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces; raises `BodyFailed`."""
    try:
        yield from pieces
    except Exception as error:
        raise BodyFailed(error) from error


def _head(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    if not _TARGET.fullmatch(target):
        raise InvalidURL("a URL must not have control characters")
    if not all(map(_NAME.fullmatch, headers)):
        raise ValueError("the name of a header is invalid")
    lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
    text = f"{method} {target} HTTP/1.1\r\n{''.join(lines)}\r\n"
    ends = len(lines) + 2
    if text.count("\n") != ends or text.count("\r") != ends:
        raise ValueError("the value of a header must not have ends of lines")
    return text.encode("latin-1")


def _chunks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        if piece:
            yield b"%X\r\n%b\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"
