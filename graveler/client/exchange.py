"""One request on a connection, and its answer.

    send ──► PendingAnswer ──► its head ──► Response: status, headers, body in pieces
      │           │
      └───────────┴─► what fails closes the connection:
                      Unavailable for a read, OutcomeUnknown for a write

Whoever sends waits for the answer at once, or has several requests under way.  For this package,
and for commands that transfer objects.
"""

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection, InvalidURL
from typing import Final, NamedTuple, Protocol

from graveler.client import request_lines
from graveler.client.answer_heads import PlainResponse
from graveler.client.origins import Origin
from graveler.client.request_lines import Body
from graveler.clock import Clock
from graveler.errors import GravelerError, Internal, Invalid, OutcomeUnknown, Unavailable

READ: Final = ("GET", "HEAD")
PIECE_BYTES: Final = 1 << 18
_SETTING_SECONDS: Final = 1.0  # of the time for an answer; less gone is not worth a call
_SECONDS_MIN: Final = 0.01


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


Connection = HTTPConnection | HTTPSConnection  # it connects; request_lines.py writes


class Pool(Protocol):
    """What an exchange needs of the pool of its connection: connections.py."""

    @property
    def clock(self) -> Clock:
        """Tells how long an exchange takes."""
        ...

    @property
    def seconds(self) -> float:
        """To connect, and for each read or write."""
        ...

    def tell(self, exchange: Exchange) -> None:
        """An answer has begun."""
        ...

    def give_back(self, origin: Origin, connection: Connection, reusable: bool) -> None:
        """An answer was read, or given up."""
        ...


class Lost(NamedTuple):
    """What the loss of an answer means."""

    method: str
    origin: Origin

    def error(self, reason: object) -> GravelerError:
        kind = Unavailable if self.method in READ else OutcomeUnknown
        return kind(f"the server's answer was lost: {reason!r} url={self.origin}")


class Response:
    """An answer whose body is read in pieces.  Close it, or use it in a `with` block."""

    def __init__(self, answer: PlainResponse, release: Callable[[bool], None], lost: Lost) -> None:
        self.status: Final = answer.status
        self.headers: Final[Mapping[str, str]] = answer.head
        self._answer = answer
        self._release: Callable[[bool], None] | None = release
        self._lost = lost

    def read(self, amount: int = PIECE_BYTES) -> bytes:
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


class Head(NamedTuple):
    """How a request begins: its target, and its headers."""

    target: str
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class PendingAnswer:
    """A request that was sent, and whose answer was not read yet.  `answer` follows once, or
    `close`.  So one thread can have several requests under way.

    `lost`: what it means if no answer comes.  `is_sent`: all of it was.  `began`, `deadline`: by
    the steady clock of the pool, when it began, and until when the answer must have begun."""

    pool: Pool = field(repr=False)
    connection: Connection = field(repr=False)
    request: Request
    lost: Lost
    is_sent: bool
    began: float
    deadline: float

    def fileno(self) -> int:
        """The descriptor of the connection.  Without TLS, it is readable when the answer has begun,
        or the connection is lost."""
        return self.connection.sock.fileno()

    def answer(self) -> Response:
        """The answer.  Waits for it, to the deadline.  Raises what `Connections.send` raises."""
        sock, clock, seconds = self.connection.sock, self.pool.clock, self.pool.seconds
        left = self.deadline - clock.steady_seconds()
        is_late = left < seconds - _SETTING_SECONDS
        with _closing(self.connection, self.lost):
            if is_late:
                sock.settimeout(max(left, _SECONDS_MIN))
            answer = _answer(sock, self.request.method)
            if is_late:
                sock.settimeout(seconds)
        took, id = clock.steady_seconds() - self.began, answer.head.get("X-Request-Id", "")
        self.pool.tell(Exchange(self.request.method, self.request.url, answer.status, took, id))
        return Response(answer, self._release, self.lost)

    def close(self) -> None:
        """Give the answer up."""
        self.connection.close()

    def _release(self, reusable: bool) -> None:
        self.pool.give_back(self.lost.origin, self.connection, reusable and self.is_sent)


def send(
    pool: Pool, connection: Connection, origin: Origin, request: Request, head: Head
) -> PendingAnswer:
    """Send a request on an open connection, which is closed if that fails.  Raises what
    `Connections.send` raises.  For connections.py."""
    began, lost = pool.clock.steady_seconds(), Lost(request.method, origin)
    with _closing(connection, lost):
        is_sent = _write(connection.sock, request, head)
    deadline = pool.clock.steady_seconds() + pool.seconds
    return PendingAnswer(pool, connection, request, lost, is_sent, began, deadline)


@contextmanager
def _closing(connection: Connection, lost: Lost) -> Iterator[None]:
    """Part of an exchange: if it fails, close the connection, and raise what that means."""
    try:
        yield
    except request_lines.BodyFailed as failed:
        connection.close()
        raise failed.error from failed.error.__cause__
    except InvalidURL as error:
        connection.close()
        raise Invalid(f"URL invalid: url={lost.origin}") from error
    except (OSError, HTTPException) as error:
        connection.close()
        raise lost.error(error) from error
    except ValueError as error:  # of a header
        connection.close()
        raise Invalid(f"the request cannot be sent: {error}") from error
    except BaseException:
        connection.close()
        raise


def _write(sock: socket.socket, request: Request, head: Head) -> bool:
    """Send the request, and return whether all of it was sent.  A server may answer before it has
    read a body; then its answer counts, so a broken pipe is no failure here."""
    body = request.body
    try:
        request_lines.write(sock, request.method, head.target, head.headers, body)
    except BrokenPipeError:
        if not body:
            raise
    except ConnectionResetError:
        if isinstance(body, bytes) and len(body) < PIECE_BYTES:
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
