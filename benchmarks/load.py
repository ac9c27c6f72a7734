"""A load generator: a number of connections, one request at a time on each, for a given time.

It writes and reads raw HTTP/1.1 on sockets under epoll, without a client library, so that the cost
of a client does not enter the figures.  It runs in its own process, beside the server's, and says
which share of a core it took: near 1, it would have measured itself.
"""

import base64
import json
import select
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import quote, urlencode

_END = b"\r\n\r\n"
_LENGTH = b"content-length: "
_READ_BYTES = 1 << 18
_PATIENCE_SECONDS = 600


@dataclass(frozen=True)
class Target:
    """The address of the server, and the credentials of the client."""

    host: str
    port: int
    key: str
    secret: str

    def request(
        self, method: str, path: str, query: dict[str, str] | None = None, body: object = None
    ) -> bytes:
        """The bytes of a whole request.  A body that is not bytes is sent as JSON."""
        raw = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        token = base64.b64encode(f"{self.key}:{self.secret}".encode()).decode()
        target = "/api/v1" + quote(path, safe="/~^@$") + ("?" + urlencode(query) if query else "")
        head = (
            f"{method} {target} HTTP/1.1\r\nHost: {self.host}\r\nAuthorization: Basic {token}\r\n"
        )
        if raw or method in ("POST", "PUT"):
            head += f"Content-Type: {kind}\r\nContent-Length: {len(raw)}\r\n"
        return head.encode() + b"\r\n" + raw


@dataclass
class Load:
    """The results of a run: seconds of every answer in order of arrival, and the statuses.

    `kinds`: the same for each kind of request, if the run told them apart.  `client`: the share of
    a core that the client took.
    """

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    elapsed: float = 0.0
    client: float = 0.0
    kinds: "dict[str, Load]" = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.seconds) / self.elapsed

    def percentile_ms(self, share: float) -> float:
        """Milliseconds within which `share` of the answers arrived."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1e3

    def add(self, seconds: float, status: int) -> None:
        """Count one answer."""
        self.seconds.append(seconds)
        self.statuses[status] += 1


class _Connection:
    """One connection: sends the next request as soon as the answer to the last one is complete."""

    def __init__(self, target: Target, requests: Iterator[bytes]) -> None:
        self.sock = socket.create_connection((target.host, target.port), _PATIENCE_SECONDS)
        self.sock.settimeout(None)  # with one, each call would poll first; `run` keeps the time
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.request = b""
        self.sent = 0.0
        self._requests = requests
        self._received = b""
        self._wanted = 0
        self._status = 0

    def send(self) -> bool:
        """Send the next request.  Returns whether there was one."""
        self.request = next(self._requests, b"")
        if not self.request:
            self.sock.close()
            return False
        self.sent = time.perf_counter()
        self.sock.sendall(self.request)
        return True

    def receive(self, room: memoryview) -> int:
        """Read what has arrived, through `room`.  Returns the status of an answer that is complete
        now, else 0."""
        data = bytes(room[: self.sock.recv_into(room)])
        if not data:
            raise RuntimeError(f"the server closed a connection: {self.request[:200]!r}")
        received = self._received + data if self._received else data
        if not self._wanted:
            end = received.find(_END)
            if end < 0:
                self._received = received
                return 0
            self._status = int(received[9:12])
            self._wanted = end + len(_END) + self._length(received, end)
        if len(received) < self._wanted:
            self._received = received
            return 0
        self._received, self._wanted = b"", 0
        return self._status

    def _length(self, received: bytes, end: int) -> int:
        at = received.find(_LENGTH, 0, end)
        if at < 0 or self.request.startswith(b"HEAD "):  # the length is that of bytes not sent
            return 0
        return int(received[at + len(_LENGTH) : received.index(b"\r", at)])


def run(
    target: Target,
    connections: int,
    requests: list[Iterator[bytes]],
    kind_of: Callable[[bytes], str] | None = None,
) -> Load:
    """Run one connection for each iterator of requests, until all are exhausted.

    `kind_of`: tells kinds of requests apart, for a load of several.
    """
    assert len(requests) == connections
    load, poll, waiting = Load(), select.epoll(), dict[int, _Connection]()
    room = memoryview(bytearray(_READ_BYTES))
    began, processor = time.perf_counter(), time.process_time()
    for stream in requests:
        connection = _Connection(target, stream)
        number = connection.sock.fileno()
        if connection.send():
            waiting[number] = connection
            poll.register(number, select.EPOLLIN)
    while waiting:
        for number, _ in poll.poll(_PATIENCE_SECONDS) or _nothing():
            connection = waiting[number]
            status = connection.receive(room)
            if not status:
                continue
            seconds = time.perf_counter() - connection.sent
            load.add(seconds, status)
            if kind_of:
                load.kinds.setdefault(kind_of(connection.request), Load()).add(seconds, status)
            if not connection.send():  # a closed socket leaves the poll
                del waiting[number]
    poll.close()
    load.elapsed = time.perf_counter() - began
    load.client = (time.process_time() - processor) / load.elapsed
    for kind in load.kinds.values():
        kind.elapsed = load.elapsed
    return load


def _nothing() -> list[tuple[int, int]]:
    raise RuntimeError(f"no answer arrived within {_PATIENCE_SECONDS} s")


def repeated(request: bytes, seconds: float) -> Iterator[bytes]:
    """The same request until `seconds` have passed."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        yield request


def varied(make: Callable[[int], bytes], start: int, step: int, seconds: float) -> Iterator[bytes]:
    """Requests `make(start)`, `make(start + step)`, … until `seconds` have passed."""
    end, number = time.perf_counter() + seconds, start
    while time.perf_counter() < end:
        yield make(number)
        number += step
