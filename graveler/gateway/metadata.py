"""The description of an object: headers of S3 to the fields of an entry, and back.

    Content-Type: text/csv              content_type
    x-amz-meta-Color: Blue              metadata["X-Amz-Meta-color"]
    Cache-Control: no-cache             metadata["Cache-Control"]

Names of `x-amz-meta-` are kept in lower case.  A value that is not printable ASCII travels as an
encoded word of RFC 2047.  Other pairs of an entry, which clients of the API have written, are shown
as `x-amz-meta-` too; a name that no header can have is counted in `x-amz-missing-meta`.  Pure.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from email.errors import HeaderParseError
from email.header import decode_header
from typing import Final, NamedTuple

from graveler.api.answers import Headers, text_header
from graveler.gateway.errors import S3Error
from graveler.records import Entry

PREFIX: Final = "X-Amz-Meta-"
_HEADER: Final = b"x-amz-meta-"
_MISSING: Final = b"x-amz-missing-meta"
_LENGTH_BYTES_MAX: Final = 2 * 1024  # of all names and values, as S3 has it
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_WORD: Final = re.compile(r"=\?[^?]*\?[bBqQ]\?[^?]*\?=")

# Headers that describe the content, by their name in an entry.
CONTENT_HEADERS: Final[Mapping[str, bytes]] = {
    "Cache-Control": b"cache-control",
    "Content-Disposition": b"content-disposition",
    "Content-Encoding": b"content-encoding",
    "Content-Language": b"content-language",
    "Expires": b"expires",
}
_CHUNKED: Final = "aws-chunked"  # a framing of the request, no encoding of the content


class Description(NamedTuple):
    """What a request says of the object that it writes.  `content_type`: empty if it says none."""

    content_type: str
    metadata: dict[str, str]


def description_of(headers: Mapping[bytes, bytes]) -> Description:
    """The description in the headers of a request.  Raises `S3Error`: MetadataTooLarge."""
    metadata: dict[str, str] = {}
    length = 0
    for name, value in headers.items():
        if name.startswith(_HEADER):
            short, text = name[len(_HEADER) :].decode("latin-1"), _decoded(value)
            length += len(short) + len(text.encode())
            metadata[PREFIX + short] = text
    if length > _LENGTH_BYTES_MAX:
        raise S3Error("MetadataTooLarge")
    for shown, header in CONTENT_HEADERS.items():
        text = headers.get(header, b"").decode("latin-1")
        if header == b"content-encoding":
            text = _without_chunks(text)
        if text:
            metadata[shown] = text
    return Description(headers.get(b"content-type", b"").decode("latin-1"), metadata)


def _without_chunks(encoding: str) -> str:
    """The encoding of the content, without the framing of the request."""
    encodings = [each.strip() for each in encoding.split(",")]
    return ", ".join(each for each in encodings if each and each.lower() != _CHUNKED)


def headers_of(entry: Entry) -> Headers:
    """The headers that describe the content of an object, and its user metadata."""
    content = [
        text_header(header, entry.metadata[shown])
        for shown, header in CONTENT_HEADERS.items()
        if entry.metadata.get(shown)
    ]
    return (*content, *_user_headers(entry.metadata))


def _user_headers(metadata: Mapping[str, str]) -> Sequence[tuple[bytes, bytes]]:
    named = {
        _short(name).lower(): value
        for name, value in sorted(metadata.items(), key=_own_last)
        if name not in CONTENT_HEADERS
    }
    sendable = {name: value for name, value in named.items() if _TOKEN.fullmatch(name)}
    headers = [(_HEADER + name.encode(), _encoded(value)) for name, value in sendable.items()]
    missing = len(named) - len(sendable)
    return [*headers, (_MISSING, b"%d" % missing)] if missing else headers


def _own_last(pair: tuple[str, str]) -> bool:
    """Of two names that become the same header, the one of a client of S3 wins."""
    return _is_own(pair[0])


def _is_own(name: str) -> bool:
    return name[: len(PREFIX)].lower() == PREFIX.lower()


def _short(name: str) -> str:
    return name[len(PREFIX) :] if _is_own(name) else name


def _decoded(raw: bytes) -> str:
    """The text of a header: plain, UTF-8, or with encoded words."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    if not _WORD.search(text):
        return text
    try:
        return "".join(_pieces(decode_header(text)))
    except (HeaderParseError, LookupError, UnicodeDecodeError):
        return text


def _pieces(words: Iterable[tuple[bytes | str, str | None]]) -> Iterable[str]:
    for word, charset in words:
        yield word if isinstance(word, str) else word.decode(charset or "latin-1")


def _encoded(text: str) -> bytes:
    """The value of a header: as it is if it is printable ASCII, else one encoded word."""
    plain = text.isascii() and text.isprintable() and text == text.strip()
    if plain and not _WORD.search(text):
        return text.encode()
    return b"=?UTF-8?B?" + b64encode(text.encode("utf-8", "replace")) + b"?="
