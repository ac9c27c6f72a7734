"""The addresses of the service and of its clients, and which pages of browsers may call it.  Pure.

    client ── https ──► proxy ── http, X-Forwarded-* ──► this process

A forwarded header counts only on a connection from a trusted proxy.  If a public URL is configured,
URLs and cookies depend on it alone.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from email.utils import formatdate
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from graveler.core.errors import Invalid

Network = IPv4Network | IPv6Network
_HOST: Final = re.compile(r"[A-Za-z0-9.:_\[\]-]{1,255}")
_DOMAIN: Final = re.compile(r"(?=.{1,253}$)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*", re.ASCII)
_SCHEMES: Final = ("http", "https")


class Origin(NamedTuple):
    """The URL by which the sender of one request reaches the service, and the sender's address.

    `client` is empty if the server does not know the address.
    """

    scheme: str
    host: str
    client: str

    @property
    def url(self) -> str:
        """The base URL to which paths of the service are appended."""
        return f"{self.scheme}://{self.host}"

    @property
    def secure(self) -> bool:
        """Whether the sender uses TLS."""
        return self.scheme == "https"


class Front(NamedTuple):
    """The proxies and names in front of the service.

    - `public_url`: scheme and authority that clients use.  If empty, the request decides.
    - `trusted_proxies`: networks whose forwarded headers are trusted.
    - `hosts`: additional host names that calls without credentials may use; `*`: any.
    - `tls_only`: other machines must use TLS, which ends here or at a trusted proxy.
    - `cors_origins`: origins whose pages may use signed URLs; `*`: any.
    - `own_hosts`: names of the service that `Host` does not have, because a CDN replaces it.
    """

    public_url: str = ""
    trusted_proxies: tuple[Network, ...] = ()
    hosts: tuple[str, ...] = ()
    tls_only: bool = False
    cors_origins: tuple[str, ...] = ()
    own_hosts: tuple[str, ...] = ()

    @property
    def serves_others(self) -> bool:
        """Whether other machines may reach the service: by plain HTTP, or through a proxy."""
        return not self.tls_only or bool(self.trusted_proxies)

    def origin(self, scope: Mapping[str, Any]) -> Origin:
        """The origin of the request with this ASGI scope."""
        scheme: str = scope["scheme"]
        headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
        host = _last(headers, b"host")
        if self.trusts(_peer(scope)):
            scheme, host = _forwarded(headers, scheme, host)
        if self.public_url:
            scheme, _, host = self.public_url.partition("://")
        return Origin(scheme, host, self.client(scope))

    def client(self, scope: Mapping[str, Any]) -> str:
        """The address of the sender of a request; empty if the server does not know it."""
        peer = _peer(scope)
        if not self.trusted_proxies or not self.trusts(peer):
            return peer
        return self._client(scope["headers"], peer)

    def refuses(self, scope: Mapping[str, Any]) -> bool:
        """Whether a request came over the network by plain HTTP, and must use TLS."""
        if not self.tls_only:
            return False
        peer, headers = _peer(scope), scope["headers"]
        if not self.trusts(peer):
            return scope["scheme"] != "https" and not _is_loopback(peer)
        reported = _last(headers, b"x-forwarded-proto").lower()
        if reported == "https" or (not reported and self.public_url.startswith("https:")):
            return False
        return not _is_loopback(self._client(headers, peer))

    def trusts(self, address: str) -> bool:
        """Whether `address` belongs to a trusted proxy."""
        if not self.trusted_proxies:
            return False
        try:
            client = ip_address(address)
        except ValueError:
            return False
        mapped = getattr(client, "ipv4_mapped", None)
        return any((mapped or client) in network for network in self.trusted_proxies)

    def _client(self, headers: Iterable[tuple[bytes, bytes]], peer: str) -> str:
        """The last forwarded address that is not a trusted proxy.

        The client can forge the addresses before it.  If every address is a trusted proxy, the
        result is the first one.  A malformed address ends the search: the result is the proxy that
        reported it.
        """
        text = b",".join(value for name, value in headers if name == b"x-forwarded-for")
        client = peer
        for hop in reversed(text.decode("latin-1").split(",")):
            address = hop.strip()
            try:
                client = str(ip_address(address))
            except ValueError:
                return client
            if not self.trusts(client):
                return client
        return client


DIRECT: Final = Front()  # no proxy


def public_url(text: str) -> str:
    """A public URL in normal form.  Raises `Invalid` unless it is `http[s]://HOST[:PORT]`."""
    parts = urlsplit(text)
    try:
        whole = bool(parts.hostname) and parts.port != 0
    except ValueError:
        whole = False
    if not whole or parts.scheme not in _SCHEMES or not _HOST.fullmatch(parts.netloc):
        raise Invalid(f"public URL invalid: it must be http[s]://HOST[:PORT]: {text!r}")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise Invalid(f"public URL invalid: it must have no path and no query: {text!r}")
    usual = ":443" if parts.scheme == "https" else ":80"
    return f"{parts.scheme}://{parts.netloc.lower().removesuffix(usual)}"


def cors_origin(text: str) -> str:
    """An origin of browser pages, or `*`.  Raises `Invalid`."""
    try:
        return text if text == "*" else public_url(text)
    except Invalid as error:
        rule = "it must be http[s]://HOST[:PORT], or * for any"
        raise Invalid(f"origin invalid: {rule}: {text!r}") from error


def domain(text: str) -> str:
    """A host name in lower case.  Raises `Invalid` for anything else, such as one with a port."""
    name = text.lower().rstrip(".")
    if not _DOMAIN.fullmatch(name):
        raise Invalid(f"domain invalid: it must be a host name without a port: {text!r}")
    return name


def host_of(authority: str) -> str:
    """The host in `HOST[:PORT]`, in lower case and without brackets.  Pure."""
    if authority.startswith("["):
        return authority[1:].partition("]")[0].lower()
    return authority.partition(":")[0].lower()


def network(text: str) -> Network:
    """A network from CIDR notation or from one address.  Raises `Invalid`."""
    try:
        return ip_network(text)
    except ValueError as error:
        raise Invalid(f"trusted proxy invalid: it must be ADDRESS[/BITS]: {error}") from error


def is_loopback(address: str) -> bool:
    """Whether an address is one of this machine alone.  False for anything but an address."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    return (getattr(parsed, "ipv4_mapped", None) or parsed).is_loopback


def _is_loopback(address: str) -> bool:
    return address == "127.0.0.1" or is_loopback(address)  # the usual one needs no parsing


def _peer(scope: Mapping[str, Any]) -> str:
    """The address of the other end of the connection; empty if the server does not know it."""
    peer = scope.get("client")
    return peer[0] if peer else ""


def _forwarded(headers: Iterable[tuple[bytes, bytes]], scheme: str, host: str) -> tuple[str, str]:
    """Scheme and host that the nearest proxy reports."""
    proto = _last(headers, b"x-forwarded-proto").lower()
    named = _last(headers, b"x-forwarded-host")
    return (proto if proto in _SCHEMES else scheme, named if _HOST.fullmatch(named) else host)


def _last(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str:
    """The last element of a header; empty if the request does not have the header."""
    value = b""
    for header, text in headers:
        if header == name:
            value = text
    return value.rpartition(b",")[2].strip().decode("latin-1")


# ---- the session cookie --------------------------------------------------------------------------

COOKIE: Final = "internal_auth_session"
_SECURE_COOKIE: Final = "__Host-" + COOKIE
_SAFE_METHODS: Final = ("GET", "HEAD")
_OWN_SITES: Final = (b"same-origin", b"none")
PAGE_HEADER: Final = b"x-graveler-page"  # no form can add it, and no other site without asking


def cookie_name(origin: Origin) -> str:
    """The name of the cookie for a client that reaches the service by `origin`."""
    return _SECURE_COOKIE if origin.secure else COOKIE


def session_cookie(origin: Origin, token: str, now_seconds: int, life_seconds: int) -> bytes:
    """The `Set-Cookie` value that starts a session."""
    until = formatdate(now_seconds + life_seconds, usegmt=True)
    return _cookie(origin, token, f"Expires={until}; Max-Age={life_seconds}; ")


def ended_cookie(origin: Origin) -> bytes:
    """The `Set-Cookie` value that makes a browser delete its session."""
    return _cookie(origin, "", "Max-Age=0; ")


def token_of_cookie(
    front: Front, scope: Mapping[str, object], headers: Mapping[bytes, bytes], method: str
) -> str:
    """The session token in the cookie of a request; empty if there is no valid one.

    For a write it is empty too, unless the request comes from a page of the service and has the
    header `X-Graveler-Page`.
    """
    if not headers.get(b"cookie"):
        return ""
    if method not in _SAFE_METHODS and not is_of_page(front, scope, headers):
        return ""
    return _token(front.origin(scope), headers)


def is_of_page(front: Front, scope: Mapping[str, object], headers: Mapping[bytes, bytes]) -> bool:
    """Whether the script of the page of this service made the request.  Pure."""
    return bool(
        headers.get(PAGE_HEADER)
        and bool(headers.get(b"origin") or headers.get(b"sec-fetch-site"))
        and not _is_foreign(front, front.origin(scope), headers)
    )


def is_of_no_page(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a program or the reader made the request, not a link, a form or a script.  Pure."""
    return headers.get(b"sec-fetch-site", b"none") == b"none" and not headers.get(b"origin")


def _token(origin: Origin, headers: Mapping[bytes, bytes]) -> str:
    own = cookie_name(origin)
    for piece in headers[b"cookie"].decode("latin-1").split(";"):
        key, _, value = piece.strip().partition("=")
        if key == own:
            return value
    return ""


def _is_foreign(front: Front, origin: Origin, headers: Mapping[bytes, bytes]) -> bool:
    if headers.get(b"sec-fetch-site", b"none") not in _OWN_SITES:
        return True
    page = headers.get(b"origin", b"").decode("latin-1")
    if not page:
        return False
    if front.public_url:
        return page != front.public_url
    return page.partition("://")[2] not in (origin.host, *front.own_hosts)


def _cookie(origin: Origin, value: str, life: str) -> bytes:
    secure = "Secure; " if origin.secure else ""
    return f"{cookie_name(origin)}={value}; Path=/; {life}{secure}HttpOnly; SameSite=Strict".encode(
        "ascii"
    )


# ---- pages of other origins (CORS), for signed URLs ----------------------------------------------

CorsHeaders = tuple[tuple[bytes, bytes], ...]  # headers, names in lower case

ANY_ORIGIN: Final = "*"
_REQUEST_METHOD: Final = b"access-control-request-method"
_METHODS: Final = (b"access-control-allow-methods", b"GET, HEAD, PUT, POST, DELETE")
_MAX_AGE: Final = (b"access-control-max-age", b"600")
_EXPOSED: Final = (b"access-control-expose-headers", b"*")  # all, of requests without credentials
_NAMES: Final = re.compile(rb"[0-9A-Za-z!#$%&'*+.^_`|~, -]{1,2048}")


def is_preflight(method: str, headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a browser asks what a page of another origin may send."""
    names = {name for name, _ in headers}
    return method == "OPTIONS" and b"origin" in names and _REQUEST_METHOD in names


def preflight_headers(
    origins: Sequence[str], headers: Iterable[tuple[bytes, bytes]]
) -> CorsHeaders:
    """The headers that say what the page may send; none if its origin is not named."""
    if not _allowed(origins, headers):
        return ()
    requested = dict(headers).get(b"access-control-request-headers", b"")
    named = ((b"access-control-allow-headers", requested),) if _NAMES.fullmatch(requested) else ()
    return (_METHODS, *named, _MAX_AGE)


def cors_headers(origins: Sequence[str], headers: Iterable[tuple[bytes, bytes]]) -> CorsHeaders:
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
    if ANY_ORIGIN in origins:
        return ANY_ORIGIN.encode()
    return origin if origin.decode("latin-1").lower() in origins else b""
