"""The options of the commands that serve, and the records that they become.

Imports no slow module.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import click

from graveler.cli.support.options import Checked
from graveler.core import limits
from graveler.core.errors import Invalid
from graveler.core.records import ABSENT, Absent
from graveler.core.settings import (
    NO_HOOK_SETTINGS,
    NO_IDENTITY_SETTINGS,
    Deployment,
    HookSettings,
    IdentitySettings,
    TlsFiles,
)
from graveler.http.front import DIRECT, Front, cors_origin, domain, host_of, network, public_url

FOLDER: Final = click.Path(path_type=Path)
LISTEN_DEFAULT: Final = "127.0.0.1:8000"
PORT_MAX = 65_535
_RATE_MAX: Final = 1_000_000


class Listen(NamedTuple):
    """The address where a service listens.  Port 0: any free port."""

    host: str
    port: int
    scheme: str = "http"

    @property
    def authority(self) -> str:
        """The address as it is written in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL for clients on this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"{self.scheme}://{Listen(host, self.port).authority}"


@dataclass(frozen=True, slots=True)
class S3Options:
    """How S3 clients reach the service.  `domains`: host names whose requests are for the S3
    gateway.  `signature_v2`: also for writes, not only in presigned URLs that read."""

    domains: tuple[str, ...] = ()
    signature_v2: bool = False

    def check(self, listen: Listen, front: Front) -> None:
        """Raises `Invalid` for a domain that has a host name of the API: at that name the gateway
        would answer, and nobody could reach the API."""
        public = front.public_url.partition("://")[2]
        for host in (listen.host, host_of(public), *front.hosts):
            name = host.lower().rstrip(".")
            for taken in self.domains:
                if name and taken.lower().rstrip(".") in (name, name.partition(".")[2]):
                    raise Invalid(
                        f"--s3-domain must not cover a host name of the API: {taken} covers "
                        f"{name}; give S3 clients a name of their own, such as s3.{name}"
                    )


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """`graveler gateway`.  `owns_cache`: the command makes a folder for its cache, and removes it
    at its end."""

    deployment: Deployment
    listen: Listen
    front: Front = DIRECT
    s3: S3Options = field(default_factory=S3Options)
    owns_cache: bool = True
    tls: TlsFiles | Literal[Absent.ABSENT] = ABSENT  # ABSENT: plain HTTP


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """`graveler serve`."""

    store: Path
    listen: Listen
    import_roots: tuple[Path, ...] = ()
    collect_hours: int = 0  # 0: never collect
    commit_rows_max: int = 0  # 0: no limit
    front: Front = DIRECT  # the proxy between clients and the service
    setup_token: str = field(default="", repr=False)  # empty: a fresh one
    hooks: HookSettings = NO_HOOK_SETTINGS
    identities: IdentitySettings = NO_IDENTITY_SETTINGS
    audit_bytes_max: int = limits.audit_bytes_max  # of all files of the trail
    s3: S3Options = field(default_factory=S3Options)
    user_requests_per_second: int = 0  # 0: no limit
    synced: bool = True  # false: for data that may be lost
    tls: TlsFiles | Literal[Absent.ABSENT] = ABSENT  # ABSENT: plain HTTP


def parse_listen(text: str) -> Listen:
    """`HOST:PORT`, or `[ADDRESS]:PORT` for IPv6.  Raises `Invalid`."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise Invalid(f"listen address invalid: put an IPv6 address in brackets: {text!r}")
    if not colon or not host:
        raise Invalid(f"listen address invalid: it must be HOST:PORT: {text!r}")
    if not port.isascii() or not port.isdigit() or int(port) > PORT_MAX:
        raise Invalid(f"listen address invalid: the port must be 0 to {PORT_MAX}: {text!r}")
    return Listen(host, int(port))


# ---- options that the commands of services share -------------------------------------------------

LISTEN: Final = click.option(
    "--listen",
    type=Checked("HOST:PORT", parse_listen),
    default=LISTEN_DEFAULT,
    metavar="HOST:PORT",
    help=f"where to listen (default: {LISTEN_DEFAULT}; port 0: any free port)",
)
INSECURE_HTTP: Final = click.option(
    "--insecure-http",
    is_flag=True,
    help="serve other machines by plain HTTP, which shows credentials to the network (default: "
    "only this machine, and trusted proxies whose clients use TLS)",
)
_TLS_CERTIFICATE: Final = click.option(
    "--tls-certificate",
    type=FOLDER,
    metavar="FILE",
    help="serve https alone, with the certificate in this PEM file, before those that lead to its "
    "authority; a file that changes is read again (default: plain HTTP)",
)
_TLS_KEY: Final = click.option(
    "--tls-key",
    type=FOLDER,
    metavar="FILE",
    help="the private key of the certificate, in PEM form without a password",
)
_PUBLIC_URL: Final = click.option(
    "--public-url",
    type=Checked("URL", public_url),
    metavar="URL",
    help="the URL at which clients reach the service: http[s]://HOST[:PORT].  Signed URLs and "
    "cookies use it, and clients use signed URLs (default: the host that each request names)",
)
_TRUSTED_PROXY: Final = click.option(
    "--trusted-proxy",
    "trusted_proxies",
    type=Checked("CIDR", network),
    multiple=True,
    metavar="CIDR",
    help="trust the X-Forwarded-* headers of proxies in this network (repeatable; default: trust "
    "none)",
)
_CORS_ORIGIN: Final = click.option(
    "--cors-origin",
    "cors_origins",
    type=Checked("ORIGIN", cors_origin),
    multiple=True,
    metavar="ORIGIN",
    help="pages of this origin, http[s]://HOST[:PORT], may use signed URLs in a browser; *: any "
    "page that has one (repeatable; default: none)",
)
_S3_DOMAIN: Final = click.option(
    "--s3-domain",
    "s3_domains",
    type=Checked("NAME", domain),
    multiple=True,
    metavar="NAME",
    help="a host name at which S3 clients reach the service; the names one label below it are "
    "buckets (repeatable; signed requests of S3 clients are recognised at any host)",
)
_S3_SIGNATURE_V2: Final = click.option(
    "--s3-signature-v2",
    is_flag=True,
    help="accept Signature Version 2 in headers, and in presigned URLs that write objects "
    "(default: only in URLs that read)",
)


def reached(function: Callable[..., int]) -> Callable[..., int]:
    """Add the options that say how clients reach a service: those that `listen_of`, `front_of` and
    `s3_of` read."""
    tls = (LISTEN, INSECURE_HTTP, _TLS_CERTIFICATE, _TLS_KEY)
    proxy = (_PUBLIC_URL, _TRUSTED_PROXY, _CORS_ORIGIN)
    for option in reversed((*tls, *proxy, _S3_DOMAIN, _S3_SIGNATURE_V2)):
        function = option(function)
    return function


def listen_of(parameters: Mapping[str, Any]) -> Listen:
    """Where a service listens."""
    listen: Listen = parameters["listen"]
    return listen if tls_of(parameters) is ABSENT else listen._replace(scheme="https")


def tls_of(parameters: Mapping[str, Any]) -> TlsFiles | Literal[Absent.ABSENT]:
    """The files of the certificate.  Raises `Invalid` if one of both options is given."""
    certificate, key = parameters["tls_certificate"], parameters["tls_key"]
    if not certificate and not key:
        return ABSENT
    if not certificate or not key:
        raise Invalid("TLS needs both --tls-certificate FILE and --tls-key FILE")
    if (parameters["public_url"] or "").startswith("http:"):
        raise Invalid("public URL invalid: with --tls-certificate it must be https://HOST[:PORT]")
    return TlsFiles(certificate, key)


def front_of(parameters: Mapping[str, Any], hosts: tuple[str, ...] = ()) -> Front:
    """The proxies and names in front of a service.  `hosts`: as for `Front`."""
    return Front(
        parameters["public_url"] or "",
        parameters["trusted_proxies"],
        hosts,
        tls_only=not parameters["insecure_http"],
        cors_origins=parameters["cors_origins"],
    )


def s3_of(parameters: Mapping[str, Any]) -> S3Options:
    """How S3 clients reach a service."""
    return S3Options(parameters["s3_domains"], parameters["s3_signature_v2"])


def rate(default: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Add `--user-requests-per-second`; `default` says what holds without it."""
    return click.option(
        "--user-requests-per-second",
        type=click.IntRange(1, _RATE_MAX),
        metavar="N",
        help="answer 429 (SlowDown to S3 clients) to a user who sends more than N requests a "
        f"second for long, whatever keys it uses (default: {default})",
    )
