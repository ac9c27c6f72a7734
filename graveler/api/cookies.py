"""The session cookie of a browser.

Over TLS the cookie is `Secure` and has the prefix `__Host-`.  Browsers accept such a cookie only
from this host, without a domain and with the path `/`, so no other host of the domain can set one.
Over plain HTTP, which is for local use, browsers would refuse such a cookie, so it has the name
that lakeFS uses.  For writes, a session counts only if the request comes from a page of the
service: a request with another `Origin` comes from a form of another site.  Used by session.py,
pages.py and dispatch.py.
"""

from collections.abc import Mapping
from email.utils import formatdate
from typing import Final

from graveler.api.front import Front, Origin

COOKIE: Final = "internal_auth_session"
_SECURE_COOKIE: Final = "__Host-" + COOKIE
_SAFE_METHODS: Final = ("GET", "HEAD")


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

    For a write from a page of another site it is empty too.
    """
    raw = headers.get(b"cookie", b"")
    if not raw:
        return ""
    origin = front.origin(scope)
    if method not in _SAFE_METHODS and not _same_site(front, origin, headers):
        return ""
    own = name(origin)
    for piece in raw.decode("latin-1").split(";"):
        key, _, value = piece.strip().partition("=")
        if key == own:
            return value
    return ""


def _same_site(front: Front, origin: Origin, headers: Mapping[bytes, bytes]) -> bool:
    named = headers.get(b"origin", b"").decode("latin-1")
    if not named:
        return True
    if front.public_url:
        return named == front.public_url
    return named.partition("://")[2] == origin.host


def _cookie(origin: Origin, value: str, life: str) -> bytes:
    secure = "Secure; " if origin.secure else ""
    return f"{name(origin)}={value}; Path=/; {life}{secure}HttpOnly; SameSite=Lax".encode("ascii")
