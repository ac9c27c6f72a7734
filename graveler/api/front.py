"""How clients reach the service, and who they are, when proxies may stand between.

    client ── https ──► proxy ── http, X-Forwarded-* ──► this process

Always: a forwarded header counts only if the connection comes from a trusted proxy; anybody else's
is ignored.  A public URL, where there is one, decides alone how URLs and cookies are made.  Pure;
for api/ and the commands.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from graveler.errors import Invalid

Network = IPv4Network | IPv6Network
_HOST: Final = re.compile(r"[A-Za-z0-9.:_\[\]-]{1,255}")
_SCHEMES: Final = ("http", "https")


class Origin(NamedTuple):
    """Of one request: how its sender reaches the service, and the sender's address (empty if the
    server does not know it)."""

    scheme: str
    host: str
    client: str

    @property
    def url(self) -> str:
        """What the paths of the service are appended to."""
        return f"{self.scheme}://{self.host}"

    @property
    def secure(self) -> bool:
        """Whether the sender uses TLS."""
        return self.scheme == "https"


@dataclass(frozen=True, slots=True)
class Front:
    """What stands before the service.  `public_url`: scheme and authority that clients use; empty:
    whatever they name.  `trusted_proxies`: networks whose forwarded headers are believed.
    `hosts`: further names that calls without credentials may be sent to; `*`: any."""

    public_url: str = ""
    trusted_proxies: tuple[Network, ...] = ()
    hosts: tuple[str, ...] = ()

    def origin(self, scope: Mapping[str, Any]) -> Origin:
        """Of the request with this ASGI scope."""
        peer = scope.get("client")
        client: str = peer[0] if peer else ""
        scheme: str = scope["scheme"]
        headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
        host = _last(headers, b"host")
        if self.trusts(client):
            client = self._client(headers, client)
            scheme, host = _forwarded(headers, scheme, host)
        if self.public_url:
            scheme, _, host = self.public_url.partition("://")
        return Origin(scheme, host, client)

    def trusts(self, address: str) -> bool:
        """Whether `address` is a trusted proxy's."""
        if not self.trusted_proxies:
            return False
        try:
            found = ip_address(address)
        except ValueError:
            return False
        mapped = getattr(found, "ipv4_mapped", None)
        return any((mapped or found) in network for network in self.trusted_proxies)

    def _client(self, headers: Iterable[tuple[bytes, bytes]], peer: str) -> str:
        """The last address that no trusted proxy has: those before it are the client's claims."""
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


DIRECT: Final = Front()  # nothing stands between


def public_url(text: str) -> str:
    """A public URL as it is kept.  Raises `Invalid` unless it is `http[s]://HOST[:PORT]`."""
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


def network(text: str) -> Network:
    """A network in CIDR notation, or one address.  Raises `Invalid`."""
    try:
        return ip_network(text)
    except ValueError as error:
        raise Invalid(f"trusted proxy invalid: it must be ADDRESS[/BITS]: {error}") from error


def _forwarded(headers: Iterable[tuple[bytes, bytes]], scheme: str, host: str) -> tuple[str, str]:
    """Scheme and host as the nearest proxy names them."""
    proto = _last(headers, b"x-forwarded-proto").lower()
    named = _last(headers, b"x-forwarded-host")
    return (
        proto if proto in _SCHEMES else scheme,
        named if _HOST.fullmatch(named) else host,
    )


def _last(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str:
    """The last element of a header; empty if it is not there."""
    value = b""
    for found, text in headers:
        if found == name:
            value = text
    return value.rpartition(b",")[2].strip().decode("latin-1")
