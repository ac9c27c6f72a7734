"""Where requests lead: the origin of a URL, and the proxy on the way to it.

    URL ──► origin (scheme, host, port) ──► the proxy for it, by HTTP_PROXY, HTTPS_PROXY, NO_PROXY
        └─► target: path and query; a fragment is not sent

Only the standard library is needed.  For connections.py, and for `graveler doctor`.
"""

import re
from base64 import b64encode
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from graveler.errors import Invalid
from graveler.variables import environment

_ORIGINS_KEPT: Final = 64
# Scheme and host, then path and query.
_URL: Final = re.compile("([^:/?#]+://[^/?#]*)([^#]*)", re.DOTALL)


class Origin(NamedTuple):
    """Where a connection leads."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        standard = self.port == (443 if self.scheme == "https" else 80)
        return f"{self.scheme}://{host}" + ("" if standard else f":{self.port}")


def parted(url: str) -> tuple[Origin, str]:
    """Where a URL leads, and the target of its request there.  Raises `Invalid`."""
    match = _URL.match(url)
    if match is None:
        return Origin("", "", 0), ""
    target = match[2]
    return origin_of(match[1]), target if target[:1] == "/" else f"/{target}"


@lru_cache(_ORIGINS_KEPT)  # nearly all requests go to one
def origin_of(url: str) -> Origin:
    """The origin of a URL.  Raises `Invalid`."""
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError as error:
        raise Invalid("URL invalid: its host or its port") from error
    return Origin(parts.scheme, parts.hostname or "", port)


@lru_cache(_ORIGINS_KEPT)
def authority(origin: Origin) -> str:
    """The host, and the port unless it is the standard one, as the header `Host` names them."""
    return str(origin).partition("://")[2]


def proxy_of(url: str) -> str | None:
    """The proxy through which requests to `url` go, by the environment, without its credentials."""
    proxy = proxy_for(origin_of(url))
    return None if proxy is None else str(origin_of(proxy))


def proxy_for(origin: Origin) -> str | None:
    """The URL of the proxy for an origin, by the environment."""
    if not any(name.lower().endswith("_proxy") for name in environment()):
        return None
    import urllib.request as proxies

    if proxies.proxy_bypass_environment(f"{origin.host}:{origin.port}"):  # type: ignore[attr-defined]
        return None
    url = proxies.getproxies_environment().get(origin.scheme)
    if not url:
        return None
    return url if "://" in url else f"http://{url}"


def proxy_headers(proxy: str) -> dict[str, str]:
    """The headers that a proxy needs, by the credentials in its URL.  Raises `Invalid`."""
    origin_of(proxy)  # refuses what is no URL
    parts = urlsplit(proxy)
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Proxy-Authorization": "Basic " + b64encode(pair.encode()).decode()}
