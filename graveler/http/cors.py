"""Cross-origin requests (CORS) of browser pages for signed URLs.

No page of another origin may make them unless the operator has named its origin.

    OPTIONS with Origin and Access-Control-Request-Method     preflight: what the page may send
    any other request with Origin                             the page may read the answer

A signed URL carries its own rights, so cookies and passwords never count: no answer allows
credentials.  Pure.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

Lines = tuple[tuple[bytes, bytes], ...]  # headers, names in lower case

ANY: Final = "*"
_REQUEST_METHOD: Final = b"access-control-request-method"
_METHODS: Final = (b"access-control-allow-methods", b"GET, HEAD, PUT, POST, DELETE")
_MAX_AGE: Final = (b"access-control-max-age", b"600")
_EXPOSED: Final = (b"access-control-expose-headers", b"*")  # all, of requests without credentials
_NAMES: Final = re.compile(rb"[0-9A-Za-z!#$%&'*+.^_`|~, -]{1,2048}")


def is_preflight(method: str, headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a browser asks what a page of another origin may send."""
    names = {name for name, _ in headers}
    return method == "OPTIONS" and b"origin" in names and _REQUEST_METHOD in names


def preflight(origins: Sequence[str], headers: Iterable[tuple[bytes, bytes]]) -> Lines:
    """The headers that say what the page may send; none if its origin is not named."""
    if not _allowed(origins, headers):
        return ()
    requested = dict(headers).get(b"access-control-request-headers", b"")
    named = ((b"access-control-allow-headers", requested),) if _NAMES.fullmatch(requested) else ()
    return (_METHODS, *named, _MAX_AGE)


def shared(origins: Sequence[str], headers: Iterable[tuple[bytes, bytes]]) -> Lines:
    """The headers by which a page may read an answer.  None if no origin is named at all."""
    if not origins:
        return ()
    vary = (b"vary", b"Origin")
    origin = _allowed(origins, headers)
    return (vary, (b"access-control-allow-origin", origin), _EXPOSED) if origin else (vary,)


def _allowed(origins: Sequence[str], headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The origin of the page if it is allowed; else empty."""
    origin = dict(headers).get(b"origin", b"")
    if not origin:
        return b""
    if ANY in origins:
        return ANY.encode()
    return origin if origin.decode("latin-1").lower() in origins else b""
