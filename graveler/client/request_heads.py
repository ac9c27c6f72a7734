"""Writes requests to a socket, in place of `http.client`, which takes longer for a head than all
else that a small request needs.

The head goes together with the first piece of the body: one call of the system, and one arrival at
the server, for a small body.  What could end a line is refused.  For connections.py.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from http.client import InvalidURL
from typing import Any, Final

PIECE_BYTES: Final = 1 << 18
_TARGET: Final = re.compile(r"[!-~]+")
_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_NO_VALUE: Final = re.compile(r"[\0\r\n]")
_LAST_CHUNK: Final = b"0\r\n\r\n"


def write_request(
    sock: Any,
    method: str,
    target: str,
    body: bytes | Iterable[bytes] | None,
    headers: Mapping[str, str],
) -> None:
    """Send a request.  A body in pieces is sent in chunks, unless `headers` have its length.

    Raises `InvalidURL` or `ValueError` if the target or a header cannot be sent."""
    if isinstance(body, bytes):
        head = _head(method, target, {**headers, "Content-Length": str(len(body))})
        pieces = iter((body,))
    elif body is None:
        head, pieces = _head(method, target, headers), iter(())
    elif "Content-Length" in headers:
        head, pieces = _head(method, target, headers), iter(body)
    else:
        head = _head(method, target, {**headers, "Transfer-Encoding": "chunked"})
        pieces = _chunks(body)
    first = next(pieces, b"")
    sock.sendall(head + first)
    for piece in pieces:
        sock.sendall(piece)


def _head(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    if not _TARGET.fullmatch(target):
        raise InvalidURL("the path has spaces or control characters")
    lines = [f"{method} {target} HTTP/1.1\r\n"]
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or _NO_VALUE.search(value):
            raise ValueError(f"header invalid: {name!r}")
        lines.append(f"{name}: {value}\r\n")
    lines.append("\r\n")
    return "".join(lines).encode("latin-1")


def _chunks(body: Iterable[bytes]) -> Iterator[bytes]:
    for piece in filter(None, body):
        yield b"%X\r\n%b\r\n" % (len(piece), piece)
    yield _LAST_CHUNK
