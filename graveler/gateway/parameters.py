"""Values of query parameters.  Pure."""

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import quote_plus

from graveler.gateway.errors import S3Error

_URL: Final = "url"
_SAFE: Final = "/*"


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


def shown_as(parameters: Mapping[str, str]) -> tuple[str, Callable[[str], str]]:
    """The encoding of names that a listing asks for, empty if none, and the function that encodes a
    name.  Raises `S3Error`."""
    encoding = parameters.get("encoding-type", "")
    if encoding not in ("", _URL):
        raise S3Error("InvalidArgument", "Invalid Encoding Method specified in Request")
    return encoding, _encoded if encoding else _plain


def _encoded(name: str) -> str:
    return quote_plus(name, safe=_SAFE)


def _plain(name: str) -> str:
    return name
