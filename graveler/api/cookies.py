"""The session cookie of a browser.

Over TLS the cookie is `Secure` and has the prefix `__Host-`.  Browsers accept such a cookie only
from this host, without a domain and with the path `/`, so no other host of the domain can set one.
Over plain HTTP, which is for local use, browsers would refuse such a cookie, so it has the name
that lakeFS uses.

A browser adds the cookie to requests that other sites make it send.  So for a write the cookie
alone is not enough.  The request also needs a header that only the browser sets, and it must name a
page of the service:

    Origin            the service's own URL
    Sec-Fetch-Site    same-origin, or none: the user typed the address

If both are present, both must agree.  Programs that are no browsers send the token in the header
`Authorization`.  Used by session.py, pages.py and dispatch.py.
"""

from collections.abc import Mapping
from email.utils import formatdate
from typing import Final

from graveler.api.front import Front, Origin

COOKIE: Final = "internal_auth_session"
_SECURE_COOKIE: Final = "__Host-" + COOKIE
_SAFE_METHODS: Final = ("GET", "HEAD")
_OWN_SITES: Final = (b"same-origin", b"none")


def name(origin: Origin) -> str:
    """The name of the cookie for a client that reaches the service by `origin`."""
    return _SECURE_COOKIE if origin.secure else COOKIE


def begun(origin: Origin, token: str, now_seconds: int, life_seconds: int) -> bytes:
    """The `Set-Cookie` value that starts a session."""
    until = formatdate(now_seconds + life_seconds, usegmt=True)
    return _cookie(origin, token, f"Expires={until}; Max-Age={life_seconds}; ")


def ended(origin: Origin) -> bytes:
    """The `Set-Cookie` value that makes a browser delete its session."""
    return _cookie(origin, "", "Max-Age=0; ")


def session(
    front: Front, scope: Mapping[str, object], headers: Mapping[bytes, bytes], method: str
) -> str:
    """The session token in the cookie of a request; empty if there is no valid one.

    For a write it is empty too, unless the request comes from a page of the service.
    """
    if not headers.get(b"cookie"):
        return ""
    origin = front.origin(scope)
    if method not in _SAFE_METHODS and not (
        _names_its_page(headers) and not _is_foreign(front, origin, headers)
    ):
        return ""
    return _token(origin, headers)


def is_foreign(front: Front, scope: Mapping[str, object], headers: Mapping[bytes, bytes]) -> bool:
    """Whether the browser says that a page of another site made the request.  Pure."""
    return _is_foreign(front, front.origin(scope), headers)


def _token(origin: Origin, headers: Mapping[bytes, bytes]) -> str:
    own = name(origin)
    for piece in headers[b"cookie"].decode("latin-1").split(";"):
        key, _, value = piece.strip().partition("=")
        if key == own:
            return value
    return ""


def _names_its_page(headers: Mapping[bytes, bytes]) -> bool:
    return bool(headers.get(b"origin") or headers.get(b"sec-fetch-site"))


def _is_foreign(front: Front, origin: Origin, headers: Mapping[bytes, bytes]) -> bool:
    if headers.get(b"sec-fetch-site", b"none") not in _OWN_SITES:
        return True
    page = headers.get(b"origin", b"").decode("latin-1")
    if not page:
        return False
    if front.public_url:
        return page != front.public_url
    return page.partition("://")[2] != origin.host


def _cookie(origin: Origin, value: str, life: str) -> bytes:
    secure = "Secure; " if origin.secure else ""
    return f"{name(origin)}={value}; Path=/; {life}{secure}HttpOnly; SameSite=Lax".encode("ascii")
