"""A pool of HTTP connections: sends one request, and streams the answer (exchange.py).

    begin ──► an idle connection to the same origin, else a new one
                 │
                 ├─► request not sent         Unavailable, nothing happened
                 ├─► no answer                Unavailable for a read; OutcomeUnknown for a write
                 └─► PendingAnswer ──► Response: status, headers, body ──► fully read: idle again
                                                                           closed early: closed
    send  =  begin, then its answer

Redirects are returned, never followed, because credentials must not go to another address.  The TLS
context is made once.  `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` apply.  Threads may share a pool;
a forked process opens connections of its own.  Only the standard library is needed.  For the
modules of this package, and for commands that transfer objects.
"""

import os
import select
import socket
import threading
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection, InvalidURL
from typing import TYPE_CHECKING, Final, NamedTuple

from graveler.client.exchange import (
    PIECE_BYTES,
    READ,
    Connection,
    Exchange,
    Head,
    Observer,
    PendingAnswer,
    Request,
    Response,
    send,
)
from graveler.client.origins import Origin, authority, origin_of, parted, proxy_for, proxy_headers
from graveler.clock import Clock, SystemClock
from graveler.errors import Code, Invalid, Unavailable

if TYPE_CHECKING:
    from ssl import SSLContext

REPEATABLE: Final = (*READ, "PUT", "DELETE")
_USUAL: Final = {"User-Agent": "graveler", "Accept-Encoding": "identity"}  # unless others are given
_SECONDS: Final = 60.0
_IDLE_SECONDS: Final = 20.0  # servers close idle connections after about a minute
_IDLE_MAX: Final = 256
# What OpenSSL says, by its release, if the other side answers without TLS.
_OF_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")

_TRUST: Final = (
    "if you trust who issued it (your company, or its proxy): SSL_CERT_FILE=FILE, with the "
    "certificate of the issuer in PEM"
)
_HOSTS: Final = "is the URL right? The certificate is for other hosts"
# By the codes X509_V_ERR_… of OpenSSL.
_CERTIFICATE_REMEDIES: Final[Mapping[int, str]] = {
    9: "is the clock of this machine right? The certificate is not valid yet",
    10: "renew the certificate of the server, if the clock of this machine is right",
    62: _HOSTS,
    64: _HOSTS,
}


class _Idle(NamedTuple):
    connection: Connection
    since: float


class Connections:
    """The pool (see the module).  `observer` is called after each answer has begun.  `seconds`: to
    connect, and for each read or write; the server has 30 to answer."""

    def __init__(
        self,
        clock: Clock | None = None,
        observer: Observer | None = None,
        *,
        seconds: float = _SECONDS,
    ) -> None:
        self.clock: Final = clock or SystemClock()
        self._observer = observer
        self.seconds: Final = seconds
        self._lock = threading.Lock()
        self._idle: dict[Origin, list[_Idle]] = {}
        self._proxies: dict[Origin, str | None] = {}
        self._process = os.getpid()
        self._context: SSLContext | None = None

    def __del__(self) -> None:
        self.close()

    def __reduce__(self) -> tuple[type["Connections"], tuple[()]]:
        return Connections, ()  # a copy in another process has no connections

    def send(self, request: Request) -> Response:
        """Send a request and return its answer.  A read that meets a connection which the server
        has closed meanwhile is sent once more.

        Errors: `Invalid` if the URL or a header cannot be sent.  `Unavailable` if the request was
        not sent, or a read has no answer; its code is CERTIFICATE_REFUSED if the certificate of the
        server is not trusted.  `OutcomeUnknown` if a write has no answer.
        """
        origin, head = self._prepared(request)
        idle = self._take(origin)
        if idle is not None:
            try:
                return send(self, idle, origin, request, head).answer()
            except Unavailable as error:
                whole = isinstance(request.body, bytes)
                stale = isinstance(error.__cause__, ConnectionError)
                if not (stale and whole and request.method in REPEATABLE):
                    raise
        return send(self, self._connect(origin), origin, request, head).answer()

    def begin(self, request: Request) -> PendingAnswer:
        """Send a request once, and do not wait for its answer.  A body that fills the buffers of
        the system waits for the server to read.  Errors: as `send`."""
        origin, head = self._prepared(request)
        connection = self._take(origin) or self._connect(origin)
        return send(self, connection, origin, request, head)

    def close(self) -> None:
        """Close all idle connections."""
        with self._lock:
            taken, self._idle = self._idle, {}
        for idle in (each for several in taken.values() for each in several):
            idle.connection.close()

    def _proxy(self, origin: Origin) -> str | None:
        """The proxy for an origin, by the environment as it was at the first request."""
        if origin not in self._proxies:
            self._proxies[origin] = proxy_for(origin)
        return self._proxies[origin]

    def _prepared(self, request: Request) -> tuple[Origin, Head]:
        """Where a request goes, and its head.  Raises `Invalid`."""
        origin, target = parted(request.url)
        if origin.scheme not in ("http", "https") or not origin.host:
            raise Invalid("URL invalid: it must begin with http://HOST or https://HOST")
        headers = _headers(request, origin)
        proxy = self._proxy(origin)
        if proxy is not None and origin.scheme == "http":
            target = str(origin) + target
            headers |= proxy_headers(proxy)
        return origin, Head(target, headers)

    def tell(self, exchange: Exchange) -> None:
        """Show the observer an exchange.  For exchange.py."""
        if self._observer is not None:
            self._observer(exchange)

    def _connect(self, origin: Origin) -> Connection:
        try:
            connection = self._new(origin)
        except InvalidURL as error:
            raise Invalid("URL invalid: its host has control characters") from error
        try:
            connection.connect()
        except UnicodeError as error:  # of a name that DNS cannot have
            connection.close()
            raise Invalid(f"URL invalid: no host can have this name: {origin.host!r}") from error
        except (OSError, HTTPException) as error:
            connection.close()
            fault = getattr(error, "verify_message", "")
            if fault:
                raise _refused(fault, getattr(error, "verify_code", 0), origin) from error
            reason = error.strerror if isinstance(error, OSError) else ""
            if getattr(error, "reason", "") in _OF_NO_TLS:
                reason = f"it speaks no TLS; try http://{authority(origin)}"
            raise Unavailable(
                f"the server does not answer: {reason or error} url={origin}"
            ) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def _new(self, origin: Origin) -> Connection:
        proxy = self._proxy(origin)
        at = origin if proxy is None else origin_of(proxy)
        if origin.scheme == "http":
            return HTTPConnection(at.host, at.port, timeout=self.seconds, blocksize=PIECE_BYTES)
        connection = HTTPSConnection(
            *(at.host, at.port),
            timeout=self.seconds,
            blocksize=PIECE_BYTES,
            context=self._tls(),
        )
        if proxy is not None:
            connection.set_tunnel(origin.host, origin.port, proxy_headers(proxy))
        return connection

    def _tls(self) -> "SSLContext":
        with self._lock:
            if self._context is None:
                import ssl

                self._context = ssl.create_default_context()
            return self._context

    def _take(self, origin: Origin) -> Connection | None:
        dropped: list[_Idle] = []
        try:
            with self._lock:
                if self._process != os.getpid():
                    self._process, self._idle = os.getpid(), {}
                several = self._idle.get(origin, [])
                oldest = self.clock.steady_seconds() - _IDLE_SECONDS
                while several:
                    idle = several.pop()
                    if idle.since >= oldest and _is_quiet(idle.connection):
                        return idle.connection
                    dropped.append(idle)
                return None
        finally:
            for idle in dropped:
                idle.connection.close()

    def give_back(self, origin: Origin, connection: Connection, reusable: bool) -> None:
        """Keep a connection that can be used again; close another.  For exchange.py."""
        closed = connection
        if reusable:
            with self._lock:
                several, now = self._idle.setdefault(origin, []), self.clock.steady_seconds()
                if self._process == os.getpid() and len(several) < _IDLE_MAX:
                    several.append(_Idle(connection, now))
                    if several[0].since >= now - _IDLE_SECONDS:
                        return
                    closed = several.pop(0).connection  # one that nobody will use
        closed.close()


def _refused(fault: str, verify_code: int, origin: Origin) -> Unavailable:
    """The error of a certificate that OpenSSL does not accept."""
    return Unavailable(
        f"the certificate of the server is refused: {fault.rstrip('.')} url={origin}",
        Code.CERTIFICATE_REFUSED,
        remedy=_CERTIFICATE_REMEDIES.get(verify_code, _TRUST),
    )


def _headers(request: Request, origin: Origin) -> dict[str, str]:
    """The headers of a request: those that it names, the usual ones unless it names them, and the
    length of a body in pieces if it is known.  Names count in any case."""
    # "Host" names the origin, also if the connection leads to a proxy.
    usual = {**_USUAL, "Host": authority(origin)}
    named = {name.lower() for name in request.headers}
    headers = {name: value for name, value in usual.items() if name.lower() not in named}
    headers |= request.headers
    if not isinstance(request.body, bytes) and request.length >= 0:
        headers["Content-Length"] = str(request.length)
    return headers


def _is_quiet(connection: Connection) -> bool:
    """Whether nothing has arrived on an idle connection.  A closed one, or one with bytes that
    nobody asked for, is of no use."""
    sock: socket.socket | None = connection.sock
    if sock is None:
        return False
    watch = select.poll()
    watch.register(sock, select.POLLIN | select.POLLPRI)
    return not watch.poll(0)
