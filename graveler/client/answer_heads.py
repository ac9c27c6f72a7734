"""Reads the head of an answer, and the lines before its chunks, in place of `http.client`.

The parser of heads in `http.client` is that of mail, which takes longer than all else that a small
request needs.  Every line and number is bounded.  An answer whose head is ambiguous is refused, or
its connection is not used again.  For connections.py.
"""

from collections.abc import Iterable, Iterator, Mapping
from http.client import HTTPException, HTTPResponse, UnknownProtocol
from typing import Any, Final

_HEADS_MAX: Final = 10  # "100 Continue" may precede the answer
_HEADERS_MAX: Final = 200
_LENGTH_DIGITS_MAX: Final = 20
_LINE_BYTES_MAX: Final = 1 << 16
_CHUNK_DIGITS_MAX: Final = 16
_HEX: Final = frozenset(b"0123456789abcdefABCDEF")
_SWITCHING_PROTOCOLS: Final = 101
_NO_BODY: Final = (204, 304)
_BLANKS: Final = " \t"


class Headers(Mapping[str, str]):
    """The headers of an answer; names in any case.  Of several with one name, the last one counts;
    `get_all` has all of them."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._pairs = [(name.lower(), value) for name, value in pairs]
        self._values = dict(self._pairs)

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def get_all(self, name: str) -> list[str]:
        """All values of a name in lower case, in the order of the answer."""
        if name not in self._values:
            return []
        return [value for each, value in self._pairs if each == name]


class PlainResponse(HTTPResponse):
    """An answer whose head is read here.  `head`: its headers."""

    head: Headers

    def begin(self) -> None:
        """Read the head.  Raises `HTTPException` if it is none, or too long."""
        if getattr(self, "headers", None) is not None:  # read already
            return
        for _ in range(_HEADS_MAX):
            version, status, reason = self._read_status()  # type: ignore[attr-defined]
            headers = Headers(_read_headers(self.fp))
            if status == _SWITCHING_PROTOCOLS:
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
        self.headers = self.msg = self.head = headers  # type: ignore[assignment]
        encodings, length = headers.get_all("transfer-encoding"), _announced(headers)
        if [each.lower() for each in encodings] not in ([], ["chunked"]):
            raise HTTPException(f"the answer has another transfer encoding: {encodings}")
        has_body = status not in _NO_BODY and self._method != "HEAD"  # type: ignore[attr-defined]
        self.chunked = bool(encodings) and has_body
        self.chunk_left = None
        self.length = (None if encodings else length) if has_body else 0
        connection = ",".join(headers.get_all("connection")).lower()
        stays = "close" not in connection and (self.version == 11 or "keep-alive" in connection)
        is_ambiguous = bool(encodings) and (length is not None or self.version == 10)
        is_endless = not self.chunked and self.length is None
        self.will_close = not stays or is_ambiguous or is_endless

    def _read_next_chunk_size(self) -> int:
        """Read the line before a chunk.  Raises `HTTPException` if it names no length."""
        line = self.fp.readline(_LINE_BYTES_MAX + 1)
        digits = line.partition(b";")[0].strip()
        is_number = 0 < len(digits) <= _CHUNK_DIGITS_MAX and _HEX.issuperset(digits)
        if not is_number or not line.endswith(b"\n"):
            raise HTTPException("a chunk of the answer has no length, or too long a line before it")
        return int(digits, 16)

    def _read_and_discard_trailer(self) -> None:
        """Read the lines after the last chunk.  Raises `HTTPException` for too many."""
        _read_headers(self.fp)


def _read_headers(source: Any) -> list[tuple[str, str]]:
    """The headers up to the empty line.  A line without a colon is left out.  Raises
    `HTTPException` for too many, for too long ones, and for lines that others may read otherwise.
    """
    headers: list[tuple[str, str]] = []
    for _ in range(_HEADERS_MAX):
        line = source.readline(_LINE_BYTES_MAX + 1)
        if line in (b"\r\n", b"\n"):
            return headers
        if not line.endswith(b"\n") and len(line) <= _LINE_BYTES_MAX:
            raise HTTPException("the head of the answer is cut off")
        if len(line) > _LINE_BYTES_MAX:
            raise HTTPException("a header of the answer is too long")
        text = line.decode("iso-8859-1").removesuffix("\n").removesuffix("\r")
        name, colon, value = text.partition(":")
        goes_on = text[0] in _BLANKS
        is_odd = not headers if goes_on else bool(colon) and name != name.strip()
        if is_odd or "\r" in text:
            raise HTTPException("the head of the answer has a line that is no header")
        if goes_on:  # with the header above
            above, begun = headers.pop()
            headers.append((above, f"{begun} {text.strip(_BLANKS)}"))
        elif colon:
            headers.append((name, value.strip(_BLANKS)))
    raise HTTPException("the answer has too many headers")


def _announced(headers: Headers) -> int | None:
    """The length of the body, if the answer says it.  Raises `HTTPException` if it says no number,
    or two different ones."""
    lengths = headers.get_all("content-length")
    if not lengths:
        return None
    text, *others = lengths
    is_number = text.isascii() and text.isdecimal() and len(text) <= _LENGTH_DIGITS_MAX
    if not is_number or any(each != text for each in others):
        raise HTTPException("the answer says no length, or several")
    return int(text)
