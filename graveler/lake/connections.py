"""A pool of connections over `http.client`: sends one request, and streams its answer.

Redirects are returned, never followed, because credentials must not go to another address.
`HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` apply.  Threads may share a pool; a forked process opens
connections of its own.  An answer that does not say clearly where it ends is a lost one.
"""

import os
import re
import select
import threading
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from http.client import (
    HTTPConnection,
    HTTPException,
    HTTPSConnection,
    InvalidURL,
)
from typing import TYPE_CHECKING, Final, NamedTuple, Self, cast
from urllib.parse import unquote, urlsplit

from graveler.core.clock import Clock, SystemClock
from graveler.core.errors import Code, GravelerError, Internal, Invalid, OutcomeUnknown, Unavailable
from graveler.core.settings import environment
from graveler.lake.heads import Headers, Reply, request_head

if TYPE_CHECKING:
    from ssl import SSLContext

READ: Final = ("GET", "HEAD")
REPEATABLE: Final = (*READ, "PUT", "DELETE")
Body = bytes | Iterable[bytes]
_WITH_BODY: Final = ("POST", "PUT", "PATCH")  # its length is told also if it is empty

_PIECE_BYTES: Final = 1 << 18
_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}
_SECONDS: Final = 60.0
_IDLE_SECONDS: Final = 20.0  # servers close idle connections after about a minute
_IDLE_MAX: Final = 256
_PARTS: Final = re.compile(r"((?:[^/?#]*://)?[^/?#]*)([^#]*).*", re.DOTALL)
_ORIGINS_KEPT: Final = 256
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
    cannot be sent twice; `length` is its size in bytes, or -1 for chunks."""

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


class Origin(NamedTuple):
    """Where a connection leads."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        is_usual = self.port == _PORTS[self.scheme]
        return f"{self.scheme}://{host}" + ("" if is_usual else f":{self.port}")


# ---- an answer -----------------------------------------------------------------------------------


class Pieces(ABC):
    """What an answer has, read in pieces."""

    @abstractmethod
    def read(self, amount: int = _PIECE_BYTES) -> bytes:
        """The next bytes, at most `amount`; empty at the end."""

    def read_all(self, length_max: int) -> bytes:
        """The whole body.  Raises `Internal` if it is longer than `length_max`."""
        pieces, length = [], 0
        while piece := self.read():
            length += len(piece)
            if length > length_max:
                raise Internal(f"the answer is longer than {length_max} bytes")
            pieces.append(piece)
        return b"".join(pieces)

    def duplicate(self) -> int | None:
        """A descriptor of the file of this machine that has the bytes, which the caller closes;
        None if they do not come from one.  A request over a network has none."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Nobody reads the rest."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Response(Pieces):
    """An answer whose body is read in pieces.  Close it, or use it in a `with` block.  Names of
    `headers` count in any case."""

    def __init__(
        self,
        answer: Reply,
        release: Callable[[bool], None],
        lost: Callable[[object], GravelerError],
    ) -> None:
        self.status: Final = answer.status
        self.headers: Final = cast(Mapping[str, str], answer.headers)
        self._answer, self._lost = answer, lost
        self._release: Callable[[bool], None] | None = release
        self._is_read = False  # to its end; one that is only closed, as by the collector, is not

    def read(self, amount: int = _PIECE_BYTES) -> bytes:
        """The next bytes of the body, at most `amount`; empty at its end.  If the connection breaks
        or the body is shorter than announced, raises the error of an answer that was lost."""
        answer = self._answer
        with self._breaking():
            # `read` of chunks trusts their lengths.
            piece = answer.read1(amount) if answer.chunked else answer.read(amount)
            self._note_end(len(piece), amount)
        return piece

    def read_into(self, buffer: memoryview) -> int:
        """As `read`, into `buffer`; returns the number of bytes, 0 at the end."""
        with self._breaking():
            count = self._answer.readinto(buffer)
            self._note_end(count, len(buffer))
        return count

    def close(self) -> None:
        """End the exchange.  Its connection is used again only if the body was read to its end."""
        self._end(self._is_read and not self._answer.will_close)

    def _note_end(self, count: int, wanted: int) -> None:
        if not count and wanted and self._answer.length:
            raise HTTPException(f"{self._answer.length} bytes are missing")
        self._is_read = self._answer.isclosed()

    @contextmanager
    def _breaking(self) -> Iterator[None]:
        try:
            yield
        except (OSError, HTTPException) as error:
            self._end(False)
            raise self._lost(error) from error

    def _end(self, reusable: bool) -> None:
        if self._release is not None:
            release, self._release = self._release, None
            self._answer.close()
            release(reusable)


def _fault(answer: Reply) -> str:
    """What is wrong with a head that is cut off, or that others may read otherwise."""
    headers = cast(Headers, answer.headers)
    lengths = headers.get_all("Content-Length")
    encodings = headers.get_all("Transfer-Encoding")
    if answer.status < 200:
        return f"the server switches to another protocol: status={answer.status}"
    if len(set(lengths)) > 1 or [value.lower() for value in encodings] not in ([], ["chunked"]):
        return "the answer has several lengths, or another encoding"
    if answer.length is None and not answer.chunked and not _says_close(answer):
        return "the answer has no length"
    if lengths and encodings:
        answer.will_close = True
    return ""


def _says_close(answer: Reply) -> bool:
    return answer.version == 10 or "close" in answer.headers.get("Connection", "").lower()


def _lost(request: Request, origin: Origin, reason: object) -> GravelerError:
    """What the loss of an answer means."""
    kind = Unavailable if request.method in READ else OutcomeUnknown
    return kind(f"the server's answer was lost: {reason!r} url={origin}")


# ---- the pool ------------------------------------------------------------------------------------


class _Idle(NamedTuple):
    connection: HTTPConnection
    since: float


class Connections:
    """The pool (see the module).  `observer` is called after each answer has begun.  `seconds`: to
    connect, and for each read or write; the server has 30 to answer."""

    in_process = False  # whether the store is in this process

    def __init__(
        self,
        clock: Clock | None = None,
        observer: Callable[[Exchange], None] | None = None,
        *,
        seconds: float = _SECONDS,
    ) -> None:
        self.clock: Final = clock or SystemClock()
        self.observer: Final = observer
        self.seconds: Final = seconds
        self._lock = threading.Lock()
        self._idle: dict[Origin, list[_Idle]] = {}
        self._proxies: dict[Origin, str | None] = {}  # by the environment at the first request
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
        origin, target = _parted(request.url)
        idle = self._take(origin)
        if idle is not None:
            try:
                return self._exchanged(idle, origin, target, request)
            except Unavailable as error:
                whole = isinstance(request.body, bytes)
                stale = isinstance(error.__cause__, ConnectionError)
                if not (stale and whole and request.method in REPEATABLE):
                    raise
        return self._exchanged(self._connect(origin), origin, target, request)

    def close(self) -> None:
        """Close all idle connections."""
        with self._lock:
            taken, self._idle = self._idle, {}
        for idle in (each for several in taken.values() for each in several):
            idle.connection.close()

    def _exchanged(
        self, connection: HTTPConnection, origin: Origin, target: str, request: Request
    ) -> Response:
        headers, proxy = _headers(request), self._proxy(origin)
        if proxy is not None and origin.scheme == "http":
            target = str(origin) + target
            headers |= _proxy_headers(proxy)
        began = self.clock.steady_seconds()
        with _closing(connection, request, origin):
            head = request_head(request.method, target, str(origin).partition("://")[2], headers)
            is_sent = _write(connection, head, request)
            answer = Reply(connection.sock, method=request.method)
            try:
                answer.begin()
                if fault := _fault(answer):
                    raise HTTPException(fault)
            except BaseException:
                answer.close()
                raise
        took, id = self.clock.steady_seconds() - began, answer.headers.get("X-Request-Id", "")
        if self.observer is not None:
            self.observer(Exchange(request.method, request.url, answer.status, took, id))
        give_back = partial(self._give_back, origin, connection, is_sent)
        return Response(answer, give_back, partial(_lost, request, origin))

    def _give_back(
        self, origin: Origin, connection: HTTPConnection, is_sent: bool, reusable: bool
    ) -> None:
        """Keep a connection that can be used again; close another."""
        closed = connection
        if is_sent and reusable:
            with self._lock:
                several, now = self._idle.setdefault(origin, []), self.clock.steady_seconds()
                if self._process == os.getpid() and len(several) < _IDLE_MAX:
                    several.append(_Idle(connection, now))
                    if several[0].since >= now - _IDLE_SECONDS:
                        return
                    closed = several.pop(0).connection  # one that nobody will use
        closed.close()

    def _proxy(self, origin: Origin) -> str | None:
        if origin not in self._proxies:
            self._proxies[origin] = _proxy_for(origin)
        return self._proxies[origin]

    def _connect(self, origin: Origin) -> HTTPConnection:
        try:
            connection = self._new(origin)
        except InvalidURL as error:
            raise Invalid("URL invalid: its host has control characters") from error
        try:
            connection.connect()
        except BaseException as error:
            connection.close()
            if isinstance(error, UnicodeError):  # of a name that DNS cannot have
                error = Invalid(f"URL invalid: no host can have this name: {origin.host!r}")
            elif isinstance(error, OSError | HTTPException):
                raise _unreachable(error, origin) from error
            raise error
        return connection

    def _new(self, origin: Origin) -> HTTPConnection:
        proxy = self._proxy(origin)
        at = origin if proxy is None else _parted(proxy)[0]
        if origin.scheme == "http":
            return HTTPConnection(at.host, at.port, timeout=self.seconds)
        secure = HTTPSConnection(at.host, at.port, timeout=self.seconds, context=self._tls())
        if proxy is not None:
            secure.set_tunnel(origin.host, origin.port, _proxy_headers(proxy))
        return secure

    def _tls(self) -> "SSLContext":
        with self._lock:
            if self._context is None:
                import ssl

                self._context = ssl.create_default_context()
            return self._context

    def _take(self, origin: Origin) -> HTTPConnection | None:
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


def _unreachable(error: OSError | HTTPException, origin: Origin) -> Unavailable:
    """The error of a connection that could not be opened."""
    fault = getattr(error, "verify_message", "")
    if fault:
        return Unavailable(
            f"the certificate of the server is refused: {fault.rstrip('.')} url={origin}",
            Code.CERTIFICATE_REFUSED,
            remedy=_CERTIFICATE_REMEDIES.get(getattr(error, "verify_code", 0), _TRUST),
        )
    reason: object = (error.strerror if isinstance(error, OSError) else "") or error
    if getattr(error, "reason", "") in _OF_NO_TLS:
        reason = f"it speaks no TLS; try {origin._replace(scheme='http')}"
    return Unavailable(f"the server does not answer: {reason} url={origin}")


def _is_quiet(connection: HTTPConnection) -> bool:
    """Whether nothing has arrived on an idle connection.  A closed one, or one with bytes that
    nobody asked for, is of no use; nor is one whose socket the garbage collector has closed."""
    if connection.sock is None or connection.sock.fileno() < 0:
        return False
    watch = select.poll()
    watch.register(connection.sock, select.POLLIN | select.POLLPRI)
    return not watch.poll(0)


# ---- a request -----------------------------------------------------------------------------------


class _BodyFailed(Exception):
    """The pieces of a body raised `error`: an error of its source, and none of the socket."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error: Final = error


def _pieces(body: Iterable[bytes]) -> Iterator[bytes]:
    try:
        yield from body
    except Exception as error:
        raise _BodyFailed(error) from error


def _headers(request: Request) -> dict[str, str]:
    headers, body = dict(request.headers), request.body
    if "user-agent" not in map(str.lower, headers):
        headers["User-Agent"] = "graveler"
    length = len(body) if isinstance(body, bytes) else request.length
    if length < 0:
        headers["Transfer-Encoding"] = "chunked"
    elif length or not isinstance(body, bytes) or request.method in _WITH_BODY:
        headers["Content-Length"] = str(length)
    return headers


def _write(connection: HTTPConnection, head: bytes, request: Request) -> bool:
    """Send the request, and return whether all of it was sent.  A server may answer before it has
    read a body; then its answer counts, so a broken pipe is no failure here.

    The head goes with the first piece of the body: a small one arrives at once, and if the first
    piece fails, nothing was sent."""
    body, send = request.body, connection.sock.sendall
    is_small = isinstance(body, bytes) and len(body) < _PIECE_BYTES
    pieces = iter((body,)) if isinstance(body, bytes) else _framed(request)
    try:
        send(head + next(pieces, b""))
        for piece in pieces:
            send(piece)
    except BrokenPipeError:
        if not body:
            raise
    except ConnectionResetError:
        if is_small:
            raise
    else:
        return True
    return False


def _framed(request: Request) -> Iterator[bytes]:
    """The pieces of a body as they are sent."""
    if request.length >= 0:
        yield from _pieces(cast(Iterable[bytes], request.body))
        return
    for piece in filter(None, _pieces(cast(Iterable[bytes], request.body))):
        yield b"%x\r\n%b\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"


@contextmanager
def _closing(connection: HTTPConnection, request: Request, origin: Origin) -> Iterator[None]:
    """Part of an exchange: if it fails, close the connection, and raise what that means."""
    try:
        yield
    except BaseException as error:
        connection.close()
        if isinstance(error, _BodyFailed):
            raise error.error from error.error.__cause__
        if isinstance(error, InvalidURL):
            raise Invalid(f"URL invalid: url={origin}") from error
        if isinstance(error, OSError | HTTPException):
            raise _lost(request, origin, error) from error
        if isinstance(error, ValueError):  # of a header
            raise Invalid(f"the request cannot be sent: {error}") from error
        raise


# ---- where requests lead -------------------------------------------------------------------------


def _parted(url: str) -> tuple[Origin, str]:
    """Where a URL leads, and the target of its request there.  Raises `Invalid`."""
    base, rest = _PARTS.fullmatch(url).groups()  # type: ignore[union-attr]  # fits any text
    return _origin(base), rest if rest.startswith("/") else f"/{rest}"


@lru_cache(_ORIGINS_KEPT)  # requests repeat it
def _origin(base: str) -> Origin:
    """Where URLs that begin so lead.  Raises `Invalid`."""
    try:
        parts = urlsplit(base)
        port = parts.port
    except ValueError as error:
        raise Invalid("URL invalid: its host or its port") from error
    is_whole = not (parts.path or parts.query or parts.fragment)
    if parts.scheme not in _PORTS or not parts.hostname or not is_whole:
        raise Invalid("URL invalid: it must begin with http://HOST or https://HOST")
    return Origin(parts.scheme, parts.hostname, port or _PORTS[parts.scheme])


def proxy_of(url: str) -> str | None:
    """The proxy through which requests to `url` go, by the environment, without its credentials."""
    proxy = _proxy_for(_parted(url)[0])
    return None if proxy is None else str(_parted(proxy)[0])


def _proxy_for(origin: Origin) -> str | None:
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


def _proxy_headers(proxy: str) -> dict[str, str]:
    """The headers that a proxy needs, by the credentials in its URL."""
    parts = urlsplit(proxy)
    if parts.username is None:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Proxy-Authorization": "Basic " + b64encode(pair.encode()).decode()}
