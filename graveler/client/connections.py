"""A pool of HTTP connections: sends one request, and streams the answer.

    send ──► an idle connection to the same origin, else a new one
                │
                ├─► request not sent          Unavailable, nothing happened
                ├─► no answer                 Unavailable for a read; OutcomeUnknown for a write
                └─► Response: status, headers, body in pieces ──► fully read: idle again
                                                                  closed early: closed

Redirects are returned, never followed, because credentials must not go to another address.  The TLS
context is made once.  `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` apply.  Threads may share a pool;
a forked process opens connections of its own.  Only the standard library is needed.  For the
modules of this package, and for commands that transfer objects.
"""

import os
import select
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection, InvalidURL
from typing import TYPE_CHECKING, Final, NamedTuple

from graveler.client import request_lines
from graveler.client.answer_heads import PlainResponse
from graveler.client.origins import Origin, authority, origin_of, parted, proxy_for, proxy_headers
from graveler.client.request_lines import Body
from graveler.clock import Clock, SystemClock
from graveler.errors import Code, GravelerError, Internal, Invalid, OutcomeUnknown, Unavailable

if TYPE_CHECKING:
    from ssl import SSLContext

READ: Final = ("GET", "HEAD")
REPEATABLE: Final = (*READ, "PUT", "DELETE")
_USUAL: Final = {"User-Agent": "graveler", "Accept-Encoding": "identity"}  # unless others are given
_SECONDS: Final = 60.0
_IDLE_SECONDS: Final = 20.0  # servers close idle connections after about a minute
_IDLE_MAX: Final = 64
_PIECE_BYTES: Final = 1 << 18
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


@dataclass(frozen=True, slots=True)
class Request:
    """One request.  `url` is absolute and escaped.  A `body` that is no bytes is sent in pieces and
    cannot be sent twice; `length` is its size in bytes."""

    method: str
    url: str = field(repr=False)  # may be signed
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: Body = b""
    length: int = -1


class Exchange(NamedTuple):
    """What an observer is shown: a request and the beginning of its answer."""

    method: str
    url: str
    status: int
    seconds: float
    request_id: str


Observer = Callable[[Exchange], None]


class Response:
    """An answer whose body is read in pieces.  Close it, or use it in a `with` block."""

    def __init__(
        self, answer: PlainResponse, release: Callable[[bool], None], lost: "_Lost"
    ) -> None:
        self.status: Final = answer.status
        self.headers: Final[Mapping[str, str]] = answer.head
        self._answer = answer
        self._release: Callable[[bool], None] | None = release
        self._lost = lost

    def read(self, amount: int = _PIECE_BYTES) -> bytes:
        """The next bytes of the body, at most `amount`; empty at its end.  If the connection breaks
        or the body is shorter than announced, raises the error of an answer that was lost."""
        try:
            piece = self._answer.read(amount)
        except (OSError, HTTPException) as error:
            raise self._broken(error) from error
        if not piece and amount:
            self._check_end()
        return piece

    def read_into(self, buffer: memoryview) -> int:
        """As `read`, into `buffer`; returns the number of bytes, 0 at the end."""
        try:
            count = self._answer.readinto(buffer)
        except (OSError, HTTPException) as error:
            raise self._broken(error) from error
        if not count and len(buffer):
            self._check_end()
        return count

    def read_all(self, length_max: int) -> bytes:
        """The whole body.  Raises `Internal` if it is longer than `length_max`."""
        pieces, length = [], 0
        while piece := self.read():
            length += len(piece)
            if length > length_max:
                raise Internal(f"the answer is longer than {length_max} bytes")
            pieces.append(piece)
        return b"".join(pieces)

    def close(self) -> None:
        """End the exchange.  Its connection is used again only if the body was read to its end."""
        if self._release is not None:
            release, self._release = self._release, None
            release(self._answer.isclosed() and not self._answer.will_close)
            self._answer.close()

    def __enter__(self) -> "Response":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_end(self) -> None:
        if self._answer.length:
            raise self._broken(f"{self._answer.length} bytes are missing")

    def _broken(self, reason: object) -> GravelerError:
        self._answer.close()
        if self._release is not None:
            release, self._release = self._release, None
            release(False)
        return self._lost.error(reason)


class _Lost(NamedTuple):
    """What the loss of an answer means."""

    method: str
    origin: Origin

    def error(self, reason: object) -> GravelerError:
        kind = Unavailable if self.method in READ else OutcomeUnknown
        return kind(f"the server's answer was lost: {reason!r} url={self.origin}")


Connection = HTTPConnection | HTTPSConnection  # it connects; request_lines.py writes


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
        self._clock = clock or SystemClock()
        self._observer = observer
        self._seconds = seconds
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
        origin, target = parted(request.url)
        if origin.scheme not in ("http", "https") or not origin.host:
            raise Invalid("URL invalid: it must begin with http://HOST or https://HOST")
        idle = self._take(origin)
        if idle is not None:
            try:
                return self._exchange(idle, origin, target, request)
            except Unavailable as error:
                whole = isinstance(request.body, bytes)
                stale = isinstance(error.__cause__, ConnectionError)
                if not (stale and whole and request.method in REPEATABLE):
                    raise
        return self._exchange(self._connect(origin), origin, target, request)

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

    def _exchange(
        self, connection: Connection, origin: Origin, target: str, request: Request
    ) -> Response:
        start = self._clock.steady_seconds()
        lost = _Lost(request.method, origin)
        try:
            headers = _headers(request, origin)
            proxy = self._proxy(origin)
            if proxy is not None and origin.scheme == "http":
                target = str(origin) + target
                headers |= proxy_headers(proxy)
            is_sent = _write(connection.sock, target, request, headers)
            answer = _answer(connection.sock, request.method)
        except request_lines.BodyFailed as failed:
            connection.close()
            raise failed.error from failed.error.__cause__
        except InvalidURL as error:
            connection.close()
            raise Invalid(f"URL invalid: url={origin}") from error
        except (OSError, HTTPException) as error:
            connection.close()
            raise lost.error(error) from error
        except ValueError as error:  # of a header
            connection.close()
            raise Invalid(f"the request cannot be sent: {error}") from error
        except BaseException:
            connection.close()
            raise

        def release(reusable: bool) -> None:
            self._give_back(origin, connection, reusable and is_sent)

        if self._observer is not None:
            seconds = self._clock.steady_seconds() - start
            id = answer.head.get("X-Request-Id", "")
            self._observer(Exchange(request.method, request.url, answer.status, seconds, id))
        return Response(answer, release, lost)

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
            return HTTPConnection(at.host, at.port, timeout=self._seconds, blocksize=_PIECE_BYTES)
        connection = HTTPSConnection(
            *(at.host, at.port),
            timeout=self._seconds,
            blocksize=_PIECE_BYTES,
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
                oldest = self._clock.steady_seconds() - _IDLE_SECONDS
                while several:
                    idle = several.pop()
                    if idle.since >= oldest and _is_quiet(idle.connection):
                        return idle.connection
                    dropped.append(idle)
                return None
        finally:
            for idle in dropped:
                idle.connection.close()

    def _give_back(self, origin: Origin, connection: Connection, reusable: bool) -> None:
        if reusable:
            with self._lock:
                several = self._idle.setdefault(origin, [])
                if self._process == os.getpid() and len(several) < _IDLE_MAX:
                    several.append(_Idle(connection, self._clock.steady_seconds()))
                    return
        connection.close()


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


def _write(sock: socket.socket, target: str, request: Request, headers: dict[str, str]) -> bool:
    """Send the request, and return whether all of it was sent.  A server may answer before it has
    read a body; then its answer counts, so a broken pipe is no failure here."""
    body = request.body
    try:
        request_lines.write(sock, request.method, target, headers, body)
    except BrokenPipeError:
        if not body:
            raise
    except ConnectionResetError:
        if isinstance(body, bytes) and len(body) < _PIECE_BYTES:
            raise
    else:
        return True
    return False


def _answer(sock: socket.socket, method: str) -> PlainResponse:
    """The answer of which the head has arrived."""
    answer = PlainResponse(sock, method=method)
    try:
        answer.begin()
    except BaseException:
        answer.close()
        raise
    return answer


def _is_quiet(connection: Connection) -> bool:
    """Whether nothing has arrived on an idle connection.  A closed one, or one with bytes that
    nobody asked for, is of no use."""
    sock: socket.socket | None = connection.sock
    if sock is None:
        return False
    watch = select.poll()
    watch.register(sock, select.POLLIN | select.POLLPRI)
    return not watch.poll(0)
