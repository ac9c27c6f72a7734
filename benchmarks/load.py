"""A load generator: a number of connections, one request at a time on each, for a given time.

It speaks raw HTTP/1.1 over asyncio, without a client library, so that the cost of a client does not
enter the figures.  It runs in its own process, beside the server's.
"""

import asyncio
import base64
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import quote, urlencode

import uvloop

_END = b"\r\n\r\n"
_LENGTH = b"content-length: "


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
    """The results of a run: seconds of every answer in order of arrival, and the statuses."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    elapsed: float = 0.0

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.seconds) / self.elapsed

    def percentile_ms(self, share: float) -> float:
        """Milliseconds within which `share` of the answers arrived."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1e3


class Connection(asyncio.Protocol):
    """Sends the next request as soon as the answer to the last one is complete."""

    def __init__(self, load: Load, requests: Iterator[bytes], done: Callable[[], None]) -> None:
        self._load = load
        self._requests = requests
        self._done = done
        self._received = bytearray()
        self._wanted = 0
        self._status = 0
        self._sent = 0.0
        self._head_only = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._next()

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        if not self._wanted:
            end = received.find(_END)
            if end < 0:
                return
            self._status = int(received[9:12])
            at = received.find(_LENGTH, 0, end)
            length = 0
            if at >= 0 and not self._head_only:
                length = int(received[at + len(_LENGTH) : received.index(b"\r", at)])
            self._wanted = end + len(_END) + length
        if len(received) >= self._wanted:
            self._load.seconds.append(time.perf_counter() - self._sent)
            self._load.statuses[self._status] += 1
            received.clear()
            self._wanted = 0
            self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        self._done()

    def _next(self) -> None:
        request = next(self._requests, b"")
        if not request:
            self._transport.close()
            return
        self._head_only = request.startswith(b"HEAD ")  # the length is that of bytes not sent
        self._sent = time.perf_counter()
        self._transport.write(request)


def run(target: Target, connections: int, requests: list[Iterator[bytes]]) -> Load:
    """Run one connection for each iterator of requests, until all are exhausted."""
    assert len(requests) == connections

    async def whole() -> Load:
        loop = asyncio.get_running_loop()
        load, left, ended = Load(), connections, loop.create_future()

        def done() -> None:
            nonlocal left
            left -= 1
            if not left and not ended.done():
                ended.set_result(None)

        def failed(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            if not ended.done():
                ended.set_exception(context.get("exception") or RuntimeError(context["message"]))

        loop.set_exception_handler(failed)
        began = time.perf_counter()
        for each in requests:
            await loop.create_connection(
                lambda each=each: Connection(load, each, done),  # type: ignore[misc]
                target.host,
                target.port,
            )
        await ended
        load.elapsed = time.perf_counter() - began
        return load

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(whole())


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
