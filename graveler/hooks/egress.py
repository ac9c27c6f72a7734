"""The requests that leave the service, and where they may go.

    URL ──► https, host and port on the allow-list ──► name resolved once ──► every address public
        ──► connection to that address ──► one request ──► one answer, not followed

A name is resolved once and the connection goes to an address that was checked, so a name cannot
mean another address a moment later.  Refused are private, loopback, link-local (the metadata
services of clouds), shared (RFC 6598), multicast and reserved addresses, also inside IPv6.  No
proxy of the environment is used.  The whole exchange has one time limit.  A deployment for local
tests may allow loopback addresses, for which http is enough.
"""

import base64
import http.client
import io
import ipaddress
import json
import math
import queue
import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from graveler.core import limits
from graveler.core.clock import Clock
from graveler.core.errors import Invalid, Refused, Unavailable
from graveler.core.limits import SECOND_NS
from graveler.core.web import Outgoing, Reply, Sender

_PORTS: Final = {"https": 443, "http": 80}
_ANY_PORT: Final = "*"
_OVERHEAD_BYTES_MAX: Final = 16 * 1024  # of the framing of a chunked body
_REFUSED_NETWORKS: Final = tuple(
    ipaddress.ip_network(network)
    for network in (
        # carry an IPv4 address; mapped ones are read as IPv4
        *("2002::/16", "2001::/32", "64:ff9b::/96", "64:ff9b:1::/48", "::/96"),
        # public in the judgement of some versions of Python
        *("192.0.0.0/24", "192.88.99.0/24", "100.64.0.0/10", "fec0::/10", "fc00::/7", "fe80::/10"),
        # public, but inside the machines of Azure its platform: metadata, certificates, DNS
        "168.63.129.16/32",
    )
)
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


Resolve = Callable[[str, int, float], Sequence[str]]


@dataclass(frozen=True, slots=True)
class EgressRules:
    """Where requests may go.

    `hosts`: `HOST` (port 443), `HOST:PORT`, or `HOST:*`.  `loopback`: whether a host may also have
    a loopback address, by http or https.
    """

    hosts: tuple[str, ...] = ()
    loopback: bool = False

    def check_url(self, url: str) -> SplitResult:
        """The parts of a URL that requests may go to.  Raises `Refused`."""
        try:
            parts = urlsplit(url)
            host, port = (parts.hostname or "").rstrip("."), port_of(parts)
        except ValueError as error:
            raise Refused("url is not valid") from error
        if parts.scheme != "https" and not (parts.scheme == "http" and self.loopback):
            raise Refused("url must begin with https://")
        allowed = {f"{host}:{port}", f"{host}:{_ANY_PORT}"}
        if port == _PORTS[parts.scheme]:
            allowed.add(host)
        if not host or not allowed.intersection(each.lower() for each in self.hosts):
            raise Refused(f"host is not on the allow-list of the deployment: host={host}:{port}")
        return parts

    def check_address(self, text: str, scheme: str) -> None:
        """Raises `Refused` for an address that is not public; loopback as the rules say."""
        address = _read(text)
        if self.loopback and address.is_loopback:
            return
        if scheme != "https":
            raise Refused("url must begin with https://, because its address is not loopback")
        is_refused = any(address in network for network in _REFUSED_NETWORKS)
        is_public = address.is_global and not address.is_multicast and not address.is_reserved
        if is_refused or not is_public:
            raise Refused("address of the host is not public")


def _read(text: str) -> Address:
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped


def port_of(parts: SplitResult) -> int:
    """The port of a URL.  Raises `ValueError`."""
    return parts.port or _PORTS.get(parts.scheme, 0)


def system_resolve(
    host: str, port: int, seconds: float, look_up: Callable[..., Any] = socket.getaddrinfo
) -> Sequence[str]:
    """The addresses of a host, from the resolver of the system.  `Unavailable` after `seconds`.

    The resolver itself takes no time limit, so it runs in a thread that may be left behind.
    """
    answers: queue.SimpleQueue[Sequence[str]] = queue.SimpleQueue()

    def ask() -> None:
        try:
            infos = look_up(host, port, type=socket.SOCK_STREAM)
        except OSError:
            infos = []
        answers.put([str(each[4][0]) for each in infos])

    threading.Thread(target=ask, name="resolve", daemon=True).start()
    try:
        return answers.get(timeout=max(0.0, seconds))
    except queue.Empty as error:
        raise Unavailable("host was not resolved in time") from error


class WebSender:
    """`Sender` on sockets of this machine."""

    def __init__(
        self,
        rules: EgressRules,
        clock: Clock,
        resolve: Resolve = system_resolve,
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        self._rules = rules
        self._clock = clock
        self._resolve = resolve
        self._tls = tls

    def send(self, request: Outgoing, seconds: float) -> Reply:
        parts = self._rules.check_url(request.url)
        limit = _Limit(self._clock, min(seconds, limits.hook_seconds_max))
        try:
            with closing(self._connected(parts, limit)) as connection:
                connection.settimeout(limit.remaining())
                connection.sendall(_head(request, parts) + request.body)
                return _reply(connection, limit, request.method)
        except TimeoutError as error:
            raise Unavailable("no answer in time") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unavailable(f"no answer: {type(error).__name__}") from error

    def _connected(self, parts: SplitResult, limit: "_Limit") -> socket.socket:
        host, port = parts.hostname or "", port_of(parts)
        addresses = self._resolve(host, port, limit.remaining())
        if not addresses:
            raise Unavailable("host has no address")
        for address in addresses:
            self._rules.check_address(address, parts.scheme)
        plain = socket.create_connection((addresses[0], port), limit.remaining())
        if parts.scheme == "http":
            return plain
        try:
            plain.settimeout(limit.remaining())
            return self._tls().wrap_socket(plain, server_hostname=host)
        except BaseException:
            plain.close()
            raise


class _Limit:
    """The time and the bytes that one exchange may take."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._end = clock.steady_seconds() + seconds
        self._bytes = (
            limits.hook_head_length_bytes_max
            + limits.hook_answer_length_bytes_max
            + _OVERHEAD_BYTES_MAX
        )

    def remaining(self) -> float:
        """The seconds that are left.  Raises `TimeoutError` if there are none."""
        seconds = self._end - self._clock.steady_seconds()
        if seconds <= 0:
            raise TimeoutError
        return seconds

    def take(self, count: int) -> None:
        """Note bytes that were received.  Raises `Unavailable` if they are too many."""
        self._bytes -= count
        if self._bytes < 0:
            raise Unavailable("answer is too large")


class _Received(io.RawIOBase):
    """What a connection receives, within a limit."""

    def __init__(self, connection: socket.socket, limit: _Limit) -> None:
        super().__init__()
        self._connection = connection
        self._limit = limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._connection.settimeout(self._limit.remaining())
        count = self._connection.recv_into(buffer)
        self._limit.take(count)
        return count


class _Reading:
    """The part of a socket that `http.client` reads an answer from."""

    def __init__(self, connection: socket.socket, limit: _Limit) -> None:
        self._received = _Received(connection, limit)

    def makefile(self, *_: object, **__: object) -> io.BufferedReader:
        return io.BufferedReader(self._received, 8 * 1024)


def _head(request: Outgoing, parts: SplitResult) -> bytes:
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    headers = {
        "Host": parts.netloc,
        "User-Agent": "graveler",
        **request.headers,
        "Content-Length": str(len(request.body)),
        "Connection": "close",
    }
    lines = [f"{request.method} {path} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
    if any(set(line) & set("\r\n\0") for line in lines):
        raise Refused("header has a control character")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _reply(connection: socket.socket, limit: _Limit, method: str) -> Reply:
    reading: Any = _Reading(connection, limit)
    response = http.client.HTTPResponse(reading, method=method)
    with closing(response):
        response.begin()
        body = response.read(limits.hook_answer_length_bytes_max + 1)
        if len(body) > limits.hook_answer_length_bytes_max:
            raise Unavailable("answer is too large")
        if response.length:  # what is missing of the announced length
            raise Unavailable("no answer: it ends too early")
        return Reply(response.status, body)


# ---- envelopes -----------------------------------------------------------------------------------

_METHODS: Final = ("GET", "POST")
_FIELDS: Final = {"method", "url", "headers", "body", "seconds", "end"}
_REASON_LENGTH_MAX: Final = 1_000


class Term(NamedTuple):
    """How long an exchange may take, and when it must be over, in seconds since 1970."""

    seconds: float
    end: float


def term(clock: Clock, seconds: float) -> Term:
    """The term that begins now."""
    return Term(seconds, clock.now_ns() / SECOND_NS + seconds)


def packed(request: Outgoing, term: Term) -> bytes:
    """The event for the function.  `Refused` if it has more than
    `limits.hook_request_length_bytes_max` bytes."""
    fields = {
        "method": request.method,
        "url": request.url,
        "headers": dict(request.headers),
        "body": base64.b64encode(request.body).decode(),
        "seconds": term.seconds,
        "end": term.end,
    }
    event = json.dumps(fields).encode()
    if len(event) > limits.hook_request_length_bytes_max:
        raise Refused("request of the hook is too large")
    return event


def answered(event: object, sender: Sender, clock: Clock) -> dict[str, Any]:
    """What the function answers: it sends the request of the event by `sender`, unless the end of
    the event has passed.

    Raises nothing that the event or the other side causes.  Cost: one request to the other side.
    """
    try:
        request, term = _unpacked_reply(event)
        left = term.end - clock.now_ns() / SECOND_NS
        if left <= 0:
            raise Unavailable("the request came to its function too late, and was not sent")
        reply = sender.send(request, min(term.seconds, left, limits.hook_seconds_max))
    except (Invalid, Refused) as error:
        return {"refused": str(error)[:_REASON_LENGTH_MAX]}
    except Unavailable as error:
        return {"unavailable": str(error)[:_REASON_LENGTH_MAX]}
    return {"status": reply.status, "body": base64.b64encode(reply.body).decode()}


def unpacked(answer: bytes) -> Reply:
    """The reply in an answer of the function.

    Errors: `Refused` or `Unavailable`, as the function's `Sender` raised them; `Unavailable` for an
    answer of another form."""
    try:
        fields = json.loads(answer)
        status, body = fields.get("status"), fields.get("body", "")
        if type(status) is int and isinstance(body, str):
            return Reply(status, base64.b64decode(body, validate=True))
        if isinstance(reason := fields.get("refused"), str):
            raise Refused(reason)
        if isinstance(reason := fields.get("unavailable"), str):
            raise Unavailable(reason)
    except (ValueError, AttributeError, RecursionError) as error:
        raise Unavailable("answer of the function of hooks has another form") from error
    raise Unavailable("answer of the function of hooks has another form")


def _unpacked_reply(event: object) -> tuple[Outgoing, Term]:
    """The request of an event, and its term.  Raises `Invalid`."""
    if not isinstance(event, dict) or set(event) | {"end"} != _FIELDS:
        raise Invalid("event must have these fields alone: " + ", ".join(sorted(_FIELDS)))
    method, url, headers = (event[name] for name in ("method", "url", "headers"))
    if method not in _METHODS or not isinstance(url, str):
        raise Invalid("event must have a method of hooks, and a url")
    if not isinstance(headers, dict) or not all(isinstance(it, str) for it in headers.values()):
        raise Invalid("headers of the event must be texts")
    seconds = _positive(event, "seconds")
    term = Term(seconds, _positive(event, "end"))
    try:
        body = base64.b64decode(event["body"], validate=True)
    except (ValueError, TypeError) as error:
        raise Invalid("body of the event must be Base64") from error
    return Outgoing(method, url, headers, body), term


def _positive(event: Mapping[str, Any], name: str) -> float:
    number = event[name]
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise Invalid(f"{name} of the event must be a number")
    if not math.isfinite(number) or number <= 0:
        raise Invalid(f"{name} of the event must be positive")
    return float(number)
