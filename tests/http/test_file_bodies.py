"""Bodies that the system sends from files: the same bytes, limits and ends as of other bodies."""

import asyncio
import os
import random
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from uvicorn.protocols.http.flow_control import FlowControl

from graveler.core.errors import Corrupt
from graveler.http.connections import ConnectionLimits
from graveler.http.file_bodies import FileSender, Socket, Write
from tests.api.serving import API, Served, next_answer, served
from tests.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the system sends no files")
MEGABYTE = 1024 * 1024
BODY = random.Random(7).randbytes(24 * MEGABYTE)
WINDOW = ConnectionLimits(progress_seconds=0.5, rate_bytes_min=1024 * 1024)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("files") / "store", bounds=WINDOW) as running:
        yield running


@pytest.fixture(scope="module")
def path(live: Served) -> str:
    """The target of a request for an object with `BODY`."""
    repo = live.fresh_repository()
    assert live.client.upload(repo, "long", BODY).status == 201
    return f"{API}/repositories/{repo}/refs/main/objects?path=long"


def _request(live: Served, path: str, *headers: str) -> bytes:
    authorization = f"Authorization: {live.client.authorization}"
    return "\r\n".join(
        (f"GET {path} HTTP/1.1", "Host: x", authorization, *headers, "", "")
    ).encode()


def _connected(live: Served) -> socket.socket:
    return socket.create_connection((live.client.host, live.client.port), PATIENCE_SECONDS)


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_connection_sends_one_file_after_the_other(
    live: Served, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[int] = []
    send = FileSender.send

    async def noted(self: FileSender, write: Write, length: int) -> bool:
        lengths.append(length)
        return await send(self, write, length)

    monkeypatch.setattr(FileSender, "send", noted)
    part, head = f"Range: bytes={MEGABYTE + 1}-{9 * MEGABYTE}", "/_health"
    with _connected(live) as raw, raw.makefile("rb") as stream:
        for _ in range(2):
            requests = (path,), (path, part), (head,), (path,)
            raw.sendall(b"".join(_request(live, *each) for each in requests))
            assert next_answer(stream) == (200, BODY)
            assert next_answer(stream) == (206, BODY[MEGABYTE + 1 : 9 * MEGABYTE + 1])
            assert next_answer(stream)[0] == 200
            assert next_answer(stream) == (200, BODY)
        raw.sendall(_request(live, path, "Connection: close"))
        assert next_answer(stream) == (200, BODY)
        assert stream.read(1) == b""
    whole = len(BODY)
    assert lengths == [whole, 8 * MEGABYTE, whole] * 2 + [whole]


def test_clients_that_go_away_leave_no_descriptor(live: Served, path: str) -> None:
    assert live.client.raw("GET", path).body == BODY  # the file and its table stay open from here
    until(lambda: not live.server.server_state.connections, "every connection is closed")
    before = _descriptors()
    for _ in range(24):  # more than there are threads for streams
        with _connected(live) as raw:
            raw.sendall(_request(live, path))
            assert raw.recv(100).startswith(b"HTTP/1.1 200 ")
    until(lambda: not live.server.server_state.connections, "every connection is closed")
    until(lambda: _descriptors() <= before, "every descriptor is closed")
    assert live.client.raw("GET", path).body == BODY


def test_readers_that_take_nothing_hold_nobody_up_and_are_dropped(live: Served, path: str) -> None:
    with ExitStack() as stack:
        readers = [stack.enter_context(_connected(live)) for _ in range(24)]
        for raw in readers:
            raw.sendall(_request(live, path))
        for raw in readers:  # every answer has begun, so every connection was accepted
            assert raw.recv(13) == b"HTTP/1.1 200 "
        assert live.client.raw("GET", path).body == BODY
        until(lambda: not live.server.server_state.connections, "every connection is closed")


def test_an_error_of_the_file_keeps_no_descriptor() -> None:
    """Whoever holds the error would keep the connection open."""
    given: list[Socket] = []

    async def write(socket: Socket, _most: int) -> int:
        given.append(socket)
        raise Corrupt("object ended early while being read")

    async def send() -> None:
        with socket.socket() as raw:
            await _sender(raw, asyncio.get_running_loop(), WINDOW).send(write, 100)

    with pytest.raises(Corrupt):
        asyncio.run(send())
    assert given[0].descriptor == -1


def test_a_file_that_ends_early_ends_the_connection() -> None:
    """Nothing more will come: to ask again would never end."""
    sent = [40, 0]

    async def write(_socket: Socket, _most: int) -> int:
        return sent.pop(0)

    async def is_whole() -> bool:
        with socket.socket() as raw:
            return await _sender(raw, asyncio.get_running_loop(), WINDOW).send(write, 100)

    assert not asyncio.run(is_whole()) and not sent


def test_a_client_at_the_minimum_rate_is_served_and_a_slower_one_is_not() -> None:
    """A full socket takes a few bytes long before the system says that it takes some."""

    async def served_at(rate: int) -> bool:
        """Whether all is sent to a client that takes `rate` bytes in each window."""
        loop = _Clockwork()
        left = [8, 0]  # room in the socket, and the window in which it was last made

        async def write(_socket: Socket, most: int) -> int:
            window = int(loop.time() / bounds.progress_seconds)
            left[0] += (window - left[1]) * rate
            left[1] = window
            count = min(left[0], most)
            if not count:
                raise BlockingIOError
            left[0] -= count
            return count

        with socket.socket() as raw:
            return await _sender(raw, loop, bounds).send(write, 100)

    bounds = ConnectionLimits(progress_seconds=20, rate_bytes_min=0.5)
    assert asyncio.run(served_at(10))
    assert not asyncio.run(served_at(9))


def _sender(raw: socket.socket, loop: Any, bounds: ConnectionLimits) -> FileSender:
    wire = _Wire(raw)
    return FileSender(loop, wire, FlowControl(wire).drain, bounds)


class _Clockwork:
    """A loop whose time passes at once, and whose sockets never say that they take bytes."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._now = 0.0
        self.create_future = self._loop.create_future

    def time(self) -> float:
        return self._now

    def call_at(self, when: float, call: Callable[[], None]) -> asyncio.Handle:
        self._now = max(self._now, when)
        return self._loop.call_soon(call)

    def add_writer(self, descriptor: int, call: Callable[[], None]) -> None: ...
    def remove_writer(self, descriptor: int) -> None: ...


class _Wire(asyncio.Transport):
    """A transport over a real socket that sends nothing."""

    def __init__(self, raw: socket.socket) -> None:
        super().__init__({"socket": raw})

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def abort(self) -> None: ...
