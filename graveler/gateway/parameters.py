"""Values of query parameters.  Pure."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from typing import Final
from zlib import crc32

from graveler.gateway.errors import S3Error

_URL: Final = "url"
_OF_TOKENS: Final = b"page\0"
_SUM_LENGTH: Final = 4
_RESERVED: Final = re.compile(rb"[^A-Za-z0-9_.~/*-]")
_ENCODED: Final = {bytes((byte,)): b"%%%02X" % byte for byte in range(256)} | {b" ": b"+"}


def count_of(parameters: Mapping[str, str], name: str, greatest: int, *, least: int = 0) -> int:
    """A number of items; more than `greatest` means `greatest`, which is also the default.  Raises
    `S3Error` for what is no number, and for one below `least`."""
    text = parameters.get(name, "")
    if not text:
        return greatest
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(2**31)):
        raise S3Error("InvalidArgument", f"Argument {name} must be an integer from {least} on")
    if int(text) < least:
        raise S3Error("InvalidArgument", f"Argument {name} must be at least {least}")
    return min(int(text), greatest)


def token_of(name: str) -> str:
    """The continuation token of the page behind `name`.  It has a checksum, so that a token that
    another service made, or that was cut, begins no page."""
    raw = name.encode()
    return urlsafe_b64encode(_sum_of(raw) + raw).decode().rstrip("=")


def name_of_token(token: str) -> str:
    """The name behind which the page of a token begins.  Raises `S3Error` for a text that is no
    token of `token_of`."""
    try:
        raw = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        name = raw[_SUM_LENGTH:].decode()
    except (Base64Error, ValueError) as error:
        raise _wrong_token() from error
    if token_of(name) != token:
        raise _wrong_token()
    return name


def _sum_of(raw: bytes) -> bytes:
    return crc32(_OF_TOKENS + raw).to_bytes(_SUM_LENGTH, "big")


def _wrong_token() -> S3Error:
    return S3Error("InvalidArgument", "The continuation token provided is incorrect")


def shown_as(parameters: Mapping[str, str]) -> tuple[str, Callable[[str], str]]:
    """The encoding of names that a listing asks for, empty if none, and the function that encodes a
    name.  Raises `S3Error`."""
    encoding = parameters.get("encoding-type", "")
    if encoding not in ("", _URL):
        raise S3Error("InvalidArgument", "Invalid Encoding Method specified in Request")
    return encoding, url_encoded if encoding else _plain


def url_encoded(name: str) -> str:
    """A name in the encoding `url`.  A listing encodes each of its lines, so only the characters
    that change cost time."""
    return _RESERVED.sub(_encoded, name.encode()).decode("ascii")


def _encoded(match: re.Match[bytes]) -> bytes:
    return _ENCODED[match[0]]


def _plain(name: str) -> str:
    return name
