"""Checks of calls without credentials: a page of another site must not make them through a browser.

    body      only `application/json`: a browser sends it to another site only after a preflight
    Origin    the service's own, if the browser sends one
    Host      an IP address, localhost, the host of the public URL or an allowed host.  This stops
              DNS rebinding: the name of another site that resolves to this service

The health check is exempt: it reveals nothing, and load balancers may use any host name.  Used by
dispatch.py.
"""

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any, Final

from graveler.api.front import Front, host_of
from graveler.errors import Invalid, Refused

_EXEMPT: Final = "healthCheck"
ANY_HOST: Final = "*"


def check(
    front: Front, operation: str, scope: Any, headers: Mapping[bytes, bytes], *, has_body: bool
) -> None:
    """Raises `Refused` for a wrong host or origin, and `Invalid` for a body of another type."""
    if operation == _EXEMPT:
        return
    if sum(name == b"host" for name, _ in scope["headers"]) > 1:  # not every server refuses that
        raise Invalid("request has an error: it has the header host twice")
    host = headers.get(b"host", b"").decode("latin-1").lower()
    if not knows(front, host):
        raise Refused(f"host is not allowed: allow it with --allowed-host: host={host[:200]!r}")
    named = headers.get(b"origin", b"").decode("latin-1").lower()
    if named and named.partition("://")[2] not in (host, front.origin(scope).host.lower()):
        raise Refused("cross-site request refused: the header Origin names another site")
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if has_body and kind != b"application/json":
        raise Invalid("request body has an error: its Content-Type must be application/json")


def knows(front: Front, host: str) -> bool:
    """Whether a `Host` header is a name of the service; an empty one is accepted.  Pure."""
    known = {name.lower() for name in front.hosts}
    if ANY_HOST in known or not host:  # every browser sends a host
        return True
    name = host_of(host).removesuffix(".")
    public = host_of(front.public_url.partition("://")[2])
    return name in known | {"localhost", public} or name.endswith(".localhost") or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
