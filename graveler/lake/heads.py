"""Heads of HTTP/1.1: a request's as bytes, an answer's from a socket.

`http.client` reads the headers of an answer as those of an e-mail, and writes a request header by
header: a large part of the time of a small request.  The bodies of answers stay its own.
"""

import re
from collections.abc import Iterator, Mapping
from http.client import (
    BadStatusLine,
    HTTPException,
    HTTPResponse,
    InvalidURL,
    RemoteDisconnected,
)
from typing import Final

_LINE_BYTES_MAX: Final = 65_536
_LINES_MAX: Final = 100
_CONTINUE: Final = b"100"
_CONTINUES_MAX: Final = 16  # as many may come before the answer
_WITHOUT_BODY: Final = (204, 304)
_END: Final = b"\r\n\r\n"
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.([0-9]) +([1-9][0-9]{2})(?: ([^\r\n]*))?")
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LENGTH: Final = re.compile(r"[0-9]{1,19}")
_CONTROL: Final = re.compile(r"[\0\r\n]")
_NO_TARGET: Final = re.compile(r"[\0-\x20\x7f]")


def request_head(method: str, target: str, host: str, headers: Mapping[str, str]) -> bytes:
    """The head of a request.  `host`: for a request whose headers name none.  Raises `InvalidURL`
    and, for what no header can be, `ValueError`."""
    if _NO_TARGET.search(target):
        raise InvalidURL("a URL must have no control characters and no spaces")
    names = {name.lower() for name in headers}
    lines = [f"{method} {target} HTTP/1.1"]
    if "host" not in names:
        lines.append(f"Host: {host}")
    if "accept-encoding" not in names:
        lines.append("Accept-Encoding: identity")
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"invalid name of a header: {name!r}")
        if _CONTROL.search(value):
            raise ValueError(f"invalid value of a header: {name}")
        lines.append(f"{name}: {value}")
    lines.append("\r\n")
    target.encode("ascii")  # or an error
    return "\r\n".join(lines).encode("latin-1")


class Headers(Mapping[str, str]):
    """The headers of an answer, by names in any case.  A name that came twice has its first
    value here."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            self._values.setdefault(name.lower(), []).append(value)

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()][0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def get_all(self, name: str) -> list[str]:
        """All values of a name."""
        return self._values.get(name.lower(), [])


class Reply(HTTPResponse):
    """An answer: `begin` reads its head.  It raises `RemoteDisconnected`, and `HTTPException` for
    what is no head."""

    def begin(self) -> None:
        for _ in range(_CONTINUES_MAX + 1):
            first, *lines = self._lines()
            match = _matched(first)
            if match[2] != _CONTINUE:
                break
        else:
            raise HTTPException("the server says 100 again and again, and sends no answer")
        status = int(match[2])
        is_old = match[1] == b"0"
        headers = _headers(lines)
        self.code, self.status, self.reason = status, status, (match[3] or b"").decode("latin-1")
        self.version = 10 if is_old else 11
        self.headers = self.msg = headers  # type: ignore[assignment]  # what is read of it is here
        self.chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        self.chunk_left = None
        length = headers.get("content-length", "")
        has_length = not self.chunked and _LENGTH.fullmatch(length) is not None
        self.length = int(length) if has_length else None
        if status in _WITHOUT_BODY or status < 200 or self._method == "HEAD":  # type: ignore[attr-defined]
            self.length = 0
        connection = headers.get("connection", "").lower()
        ends = "keep-alive" not in connection if is_old else "close" in connection
        self.will_close = ends or not (self.chunked or self.length is not None)

    def _lines(self) -> list[bytes]:
        """The lines of the head, without their ends: mostly all of it has arrived."""
        arrived = self.fp.peek()  # of a socket it is a buffered reader
        end = arrived.find(_END)
        if end >= 0:
            lines: list[bytes] = arrived[:end].split(b"\r\n")
            if arrived.count(b"\n", 0, end) == len(lines) - 1 <= _LINES_MAX:
                self.fp.read(end + len(_END))
                return lines
        lines = []
        while (line := self.fp.readline(_LINE_BYTES_MAX + 1)) not in (b"\r\n", b"\n"):
            if not line and not lines:
                raise RemoteDisconnected("the server closed the connection without an answer")
            if not line.endswith(b"\n"):
                raise HTTPException("the head of the answer is cut off, or a line is too long")
            lines.append(line.rstrip(b"\r\n"))
            if len(lines) > _LINES_MAX:
                raise HTTPException(f"the answer has more than {_LINES_MAX} headers")
        if not lines:
            raise BadStatusLine("an empty line")
        return lines


def _matched(line: bytes) -> re.Match[bytes]:
    """The parts of a line of a status: minor version, status, reason."""
    match = _STATUS_LINE.fullmatch(line)
    if match is None:
        raise BadStatusLine(repr(line))
    return match


def _headers(lines: list[bytes]) -> Headers:
    pairs: list[tuple[str, str]] = []
    for line in lines:
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon or not _NAME.fullmatch(name):
            raise HTTPException(f"the answer has a line that is no header: {line!r}")
        pairs.append((name, value.strip(" \t")))
    return Headers(pairs)
