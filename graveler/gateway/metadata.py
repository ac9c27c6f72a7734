"""The description of an object: headers of S3 to the fields of an entry, and back.  Pure.

Content-Type: text/csv              content_type
x-amz-meta-Color: Blue              metadata["X-Amz-Meta-color"]
Cache-Control: no-cache             metadata["Cache-Control"]
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from email.errors import HeaderParseError
from email.header import decode_header
from typing import Final, NamedTuple

from graveler.core.records import Entry
from graveler.gateway.errors import S3Error
from graveler.http.answers import Headers, is_header_value, text_header

PREFIX: Final = "X-Amz-Meta-"
_HEADER: Final = b"x-amz-meta-"
_MISSING: Final = b"x-amz-missing-meta"
_LENGTH_BYTES_MAX: Final = 2 * 1024  # of all names and values, as S3 has it
_SENT_BYTES_MAX: Final = 4 * _LENGTH_BYTES_MAX  # of the same as they are sent, with encoded words
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_WORD: Final = re.compile(r"=\?[^?]*\?[bBqQ]\?[^?]*\?=")
# A closed list: Python has codecs that are slow, and some that make texts that are no Unicode.
_CHARSETS: Final[Mapping[str | None, str]] = {
    "us-ascii": "ascii",
    "iso-8859-1": "latin-1",
    "utf-8": "utf-8",
}

# Headers that describe the content, by their name in an entry.
CONTENT_HEADERS: Final[Mapping[str, bytes]] = {
    "Cache-Control": b"cache-control",
    "Content-Disposition": b"content-disposition",
    "Content-Encoding": b"content-encoding",
    "Content-Language": b"content-language",
    "Expires": b"expires",
}
_CONTENT: Final = frozenset(CONTENT_HEADERS.values())
_CHUNKED: Final = "aws-chunked"  # a framing of the request, no encoding of the content


class Description(NamedTuple):
    """What a request says of the object that it writes.  `content_type`: empty if it says none."""

    content_type: str
    metadata: dict[str, str]


def description_of(headers: Mapping[bytes, bytes]) -> Description:
    """The description in the headers of a request.  Raises `S3Error`: MetadataTooLarge."""
    metadata = _user_metadata(headers)
    if not _CONTENT.isdisjoint(headers):
        metadata |= _content_metadata(headers)
    return Description(headers.get(b"content-type", b"").decode("latin-1"), metadata)


def _user_metadata(headers: Mapping[bytes, bytes]) -> dict[str, str]:
    sent = [(name, value) for name, value in headers.items() if name.startswith(_HEADER)]
    if not sent:
        return {}
    if sum(len(name) - len(_HEADER) + len(value) for name, value in sent) > _SENT_BYTES_MAX:
        raise S3Error("MetadataTooLarge")
    read = [(name[len(_HEADER) :].decode("latin-1"), _decoded(value)) for name, value in sent]
    if sum(len(short) + len(text.encode()) for short, text in read) > _LENGTH_BYTES_MAX:
        raise S3Error("MetadataTooLarge")
    return {PREFIX + short: text for short, text in read}


def _content_metadata(headers: Mapping[bytes, bytes]) -> dict[str, str]:
    metadata = {}
    for shown, header in CONTENT_HEADERS.items():
        text = headers.get(header, b"").decode("latin-1")
        if header == b"content-encoding":
            text = _without_chunks(text)
        if text:
            metadata[shown] = text
    return metadata


def _without_chunks(encoding: str) -> str:
    """The encoding of the content, without the framing of the request."""
    encodings = [each.strip() for each in encoding.split(",")]
    return ", ".join(each for each in encodings if each and each.lower() != _CHUNKED)


def headers_of(entry: Entry) -> Headers:
    """The headers that describe the content of an object, and its user metadata."""
    if not entry.metadata:
        return ()
    content = [
        text_header(header, entry.metadata[shown])
        for shown, header in CONTENT_HEADERS.items()
        if entry.metadata.get(shown) and is_header_value(entry.metadata[shown])
    ]
    return (*content, *_user_headers(entry.metadata))


def _user_headers(metadata: Mapping[str, str]) -> Sequence[tuple[bytes, bytes]]:
    named = {
        (name[len(PREFIX) :] if _is_own(name) else name).lower(): value
        # Of two names that become the same header, the one of a client of S3 wins.
        for name, value in sorted(metadata.items(), key=lambda pair: _is_own(pair[0]))
        if name not in CONTENT_HEADERS
    }
    sendable = {name: value for name, value in named.items() if _TOKEN.fullmatch(name)}
    headers = [(_HEADER + name.encode(), _encoded(value)) for name, value in sendable.items()]
    missing = len(named) - len(sendable)
    missing += sum(not is_header_value(metadata.get(shown, "")) for shown in CONTENT_HEADERS)
    return [*headers, (_MISSING, b"%d" % missing)] if missing else headers


def _is_own(name: str) -> bool:
    return name[: len(PREFIX)].lower() == PREFIX.lower()


def _decoded(raw: bytes) -> str:
    """The text of a header: plain, UTF-8, or with encoded words."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    try:
        return "".join(_pieces(text))
    except (HeaderParseError, LookupError, ValueError):
        return text


def _pieces(text: str) -> Iterable[str]:
    """A text without its encoded words, and what they stand for.

    Blanks between two words belong to neither.  A character may begin in one word and end in the
    next.  Time is proportional to the length: the words are found first, and decoded one by one.
    """
    run, charset, at = b"", "", 0
    for match in _WORD.finditer(text):
        between, at = text[at : match.start()], match.end()
        if charset and not between.strip():
            between = ""
        word, named = _word(match[0])
        if between or named != charset:
            yield run.decode(charset or "ascii")
            yield between
            run = b""
        run, charset = run + word, named
    yield run.decode(charset or "ascii")
    yield text[at:]


def _word(encoded: str) -> tuple[bytes, str]:
    """The bytes of an encoded word, and their charset."""
    [(word, charset)] = decode_header(encoded)
    if not isinstance(word, bytes):
        raise ValueError("no encoded word")
    return word, _CHARSETS[charset]


def _encoded(text: str) -> bytes:
    """The value of a header: as it is if it is printable ASCII, else one encoded word."""
    plain = text.isascii() and text.isprintable() and text == text.strip()
    if plain and not _WORD.search(text):
        return text.encode()
    return b"=?UTF-8?B?" + b64encode(text.encode("utf-8", "replace")) + b"?="
