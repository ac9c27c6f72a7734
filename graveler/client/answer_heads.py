"""Reads the head of an answer, and what stands between its chunks, in place of `http.client`.

The parser of heads in `http.client` is that of mail, which takes longer than all else that a small
request needs.  Every line and number is bounded.  An answer whose head is ambiguous is refused, or
its connection is not used again.  For connections.py.
"""

from http import HTTPStatus
from http.client import HTTPException, HTTPMessage, HTTPResponse, UnknownProtocol
from typing import Any, Final

_HEADS_MAX: Final = 10  # "100 Continue" may precede the answer
_HEADERS_MAX: Final = 200
_LENGTH_DIGITS_MAX: Final = 20
_LINE_BYTES_MAX: Final = 1 << 16
_CHUNK_DIGITS_MAX: Final = 16
_HEX: Final = frozenset(b"0123456789abcdefABCDEF")
_NO_BODY: Final = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)


class PlainResponse(HTTPResponse):
    """Reads the head of an answer by itself: the parser of `http.client` is that of mail, which
    takes longer than all else that a small request needs."""

    def begin(self) -> None:
        """Read the head.  Raises `HTTPException` if it is none, or too long."""
        if getattr(self, "headers", None) is not None:  # read already
            return
        for _ in range(_HEADS_MAX):
            version, status, reason = self._read_status()  # type: ignore[attr-defined]
            headers = _read_headers(self.fp)
            if status == HTTPStatus.SWITCHING_PROTOCOLS:
                raise HTTPException("the server switches to another protocol")
            if status >= 200:
                break
        else:
            raise HTTPException("no answer follows many of status 100 to 199")
        if not version.startswith("HTTP/1."):
            raise UnknownProtocol(version)
        self.version = 10 if version == "HTTP/1.0" else 11
        self.code = self.status = status
        self.reason = reason.strip()
        self.headers = self.msg = headers
        encodings, length = headers.get_all("Transfer-Encoding", []), _announced(headers)
        if [each.lower() for each in encodings] not in ([], ["chunked"]):
            raise HTTPException(f"the answer has another transfer encoding: {encodings}")
        has_body = status not in _NO_BODY and self._method != "HEAD"  # type: ignore[attr-defined]
        self.chunked = bool(encodings) and has_body
        self.chunk_left = None
        self.length = (None if encodings else length) if has_body else 0
        closes = self._check_close()  # type: ignore[attr-defined]
        is_ambiguous = bool(encodings) and length is not None
        self.will_close = closes or is_ambiguous or (not self.chunked and self.length is None)

    def _read_next_chunk_size(self) -> int:
        """Read the line before a chunk.  Raises `HTTPException` if it names no length."""
        digits = self.fp.readline(_LINE_BYTES_MAX + 1).partition(b";")[0].strip()
        if not 0 < len(digits) <= _CHUNK_DIGITS_MAX or not _HEX.issuperset(digits):
            raise HTTPException("a chunk of the answer has no length")
        return int(digits, 16)

    def _read_and_discard_trailer(self) -> None:
        """Read the lines after the last chunk.  Raises `HTTPException` for too many."""
        _read_headers(self.fp)


def _read_headers(source: Any) -> HTTPMessage:
    """The headers up to the empty line.  Raises `HTTPException` for too many, or too long ones."""
    headers: list[list[str]] = []
    for _ in range(_HEADERS_MAX):
        line = source.readline(_LINE_BYTES_MAX + 1)
        if line in (b"\r\n", b"\n"):
            break
        if not line.endswith(b"\n") and len(line) <= _LINE_BYTES_MAX:
            raise HTTPException("the head of the answer is cut off")
        if len(line) > _LINE_BYTES_MAX:
            raise HTTPException("a header of the answer is too long")
        text = line.decode("iso-8859-1")
        name, colon, value = text.partition(":")
        if text[0] in " \t" and headers:  # goes on with the header above
            headers[-1][1] += f" {text.strip()}"
        elif colon:
            headers.append([name.strip(), value.strip()])
    else:
        raise HTTPException("the answer has too many headers")
    message = HTTPMessage()
    for name, value in headers:
        message.set_raw(name, value)
    return message


def _announced(headers: HTTPMessage) -> int | None:
    """The length of the body, if the answer says it.  Raises `HTTPException` if it says no number,
    or two different ones."""
    lengths = set(headers.get_all("Content-Length", []))
    if not lengths:
        return None
    text = lengths.pop()
    if lengths or not (text.isascii() and text.isdecimal() and len(text) <= _LENGTH_DIGITS_MAX):
        raise HTTPException("the answer says no length, or several")
    return int(text)
