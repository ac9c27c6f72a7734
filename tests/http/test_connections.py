"""Bounds of connections: heads, bodies and trailers in size and time, and how many there may be."""

import asyncio
import http.client
import select
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from graveler.core.records import ABSENT
from graveler.http.connections import Admission, Admittance, ConnectionLimits
from graveler.http.front import Front, network
from graveler.http.protocol import Connection
from graveler.http.service import ServiceSettings
from tests.api.serving import API, Served, next_answer, served
from tests.tls import certified
from tests.waiting import until

SOON = ConnectionLimits(
    head_seconds=0.2,
    progress_seconds=0.3,
    linger_seconds=0.5,
    linger_bytes_max=1024 * 1024,
    idle_seconds=2,
)
IDLE = 75
FOREVER = 1e9
SENT_MAX = 256 * 1024 * 1024  # by a test that waits for the service to hang up


@pytest.fixture(scope="module", params=["http", "https"])
def hasty(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A service that waits for nobody."""
    folder = tmp_path_factory.mktemp("hasty")
    tls = certified(folder) if request.param == "https" else ABSENT
    with served(folder / "store", bounds=SOON, tls=tls) as running:
        yield running


def _connected(live: Served) -> socket.socket:
    """A new connection; another one if this client was too slow for its handshake."""
    made: list[socket.socket] = []

    def is_made() -> bool:
        with suppress(ssl.SSLEOFError, ConnectionError):
            made.append(live.client.connected())
        return bool(made)

    until(is_made, "the handshake is in time")
    return made[0]


def _head(live: Served, method: str, target: str, *more: str, authorized: bool = True) -> bytes:
    kind = "Content-Type: application/json"
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost", kind, *more]
    if authorized:
        lines.append(f"Authorization: {live.client.authorization}")
    return "\r\n".join([*lines, "", ""]).encode()


def _answer(raw: socket.socket) -> tuple[int, str, bytes]:
    with closing(http.client.HTTPResponse(raw)) as answer:
        answer.begin()
        return answer.status, answer.headers.get("connection", ""), answer.read()


def _told(raw: socket.socket, last: int) -> list[int]:
    """The statuses of the answers up to the one that is `last`.  Their number is bounded."""
    statuses: list[int] = []
    with raw.makefile("rb") as stream:
        while last not in statuses[-1:] and len(statuses) < 1_000:
            statuses.append(next_answer(stream)[0])
    return statuses


def _gone(live: Served) -> None:
    """Wait until the service has no connection."""
    until(lambda: not live.server.server_state.connections, "every connection is closed")


def test_a_silent_connection_is_closed(hasty: Served) -> None:
    with _connected(hasty) as raw:
        assert raw.recv(10) == b""
    _gone(hasty)


@pytest.mark.parametrize("sent", [b"G", b"GET / HTTP/1.1\r\nHost: x\r\n", b"GET / HT"])
def test_a_head_that_does_not_end_is_answered_408(hasty: Served, sent: bytes) -> None:
    with _connected(hasty) as raw:
        raw.sendall(sent)
        status, connection, body = _answer(raw)
        assert (status, connection) == (408, "close") and b"too slowly" in body
        assert raw.recv(10) == b""


def test_a_second_head_has_the_same_time(hasty: Served) -> None:
    with _connected(hasty) as raw:
        raw.sendall(_head(hasty, "GET", "/_health") * 2 + b"GET /_he")
        said = b"".join(iter(lambda: raw.recv(65_536), b""))
        assert (said.count(b"HTTP/1.1 200 "), said.count(b"HTTP/1.1 408 ")) == (2, 1)


@pytest.mark.parametrize("long", ["/" + "x" * 100_000, "/_health"])
def test_a_head_is_refused_behind_the_answers_before_it(live: Served, long: str) -> None:
    """However far the server is with these when the head proves too long."""
    more = "X-Long: " + "x" * 100_000
    with _connected(live) as raw:
        raw.sendall(_head(live, "GET", "/_health") * 3 + _head(live, "GET", long, more))
        assert _told(raw, 431) == [200, 200, 200, 431]


@pytest.mark.parametrize("before", [0, 1])
def test_a_line_break_ends_no_deadline(hasty: Served, before: int) -> None:
    with _connected(hasty) as raw:
        raw.sendall(_head(hasty, "GET", "/_health") * before + b"\r\n")
        said = b"".join(iter(lambda: raw.recv(65_536), b""))
        assert said.count(b"HTTP/1.1 200 ") == before
    _gone(hasty)


def test_a_head_that_is_too_long_and_has_no_end_is_refused_however_it_arrives(live: Served) -> None:
    whole = _head(live, "GET", "/_health")
    for pieces in ([whole + b"GET /" + b"x" * 70_000], [whole, b"G", b"ET /" + b"x" * 70_000]):
        with _connected(live) as raw:
            for piece in pieces:
                raw.sendall(piece)
            assert _told(raw, 431) == [200, 431]


def test_a_body_that_stops_is_refused_behind_the_answer_that_is_given(
    hasty: Served, bodies: dict[str, tuple[str, str]]
) -> None:
    with _connected(hasty) as raw:
        late = _head(hasty, *bodies["json"], "Content-Length: 3000000")
        raw.sendall(_head(hasty, "GET", "/_health") * 2 + late)
        said = b"".join(iter(lambda: raw.recv(65_536), b""))
        assert (said.count(b"HTTP/1.1 200 "), said.count(b"HTTP/1.1 408 ")) == (2, 1)


def test_garbage_behind_a_request_is_refused_behind_its_answer(hasty: Served) -> None:
    with _connected(hasty) as raw:
        raw.sendall(_head(hasty, "GET", "/_health") + b"\x00\x01 garbage\r\n\r\n")
        said = b"".join(iter(lambda: raw.recv(65_536), b""))
        assert (said.count(b"HTTP/1.1 200 "), said.count(b"HTTP/1.1 400 ")) == (1, 1)


@pytest.fixture(scope="module")
def bodies(hasty: Served) -> dict[str, tuple[str, str]]:
    """A request of every way in which bodies are read."""
    repo = hasty.fresh_repository()
    backing = f"/repositories/{repo}/branches/main/staging/backing"
    given = hasty.client.send("GET", backing, {"path": "s", "presign": "true"}).json
    return {
        "json": ("POST", f"{API}/repositories"),
        "login": ("POST", f"{API}/auth/login"),
        "upload": ("POST", f"{API}/repositories/{repo}/branches/main/objects?path=u"),
        "signed": ("PUT", given["presigned_url"].removeprefix(hasty.client.url)),
        "page": ("POST", "/"),
    }


@pytest.mark.parametrize("way", ["json", "login", "upload", "signed"])
@pytest.mark.parametrize("sent", [b"", b'{"', b"x" * 200_000])
def test_a_body_that_stops_is_answered_408(
    hasty: Served, bodies: dict[str, tuple[str, str]], way: str, sent: bytes
) -> None:
    with _connected(hasty) as raw:
        length = 9_000 if way == "login" else 3_000_000  # of what strangers may send at all
        raw.sendall(_head(hasty, *bodies[way], f"Content-Length: {length}") + sent[: length - 1])
        status, connection, _ = _answer(raw)
        assert (status, connection) == (408, "close")
    _gone(hasty)


def test_a_reader_that_takes_nothing_is_dropped(hasty: Served) -> None:
    repo = hasty.fresh_repository()
    hasty.client.upload(repo, "long", b"x" * 20 * 1024 * 1024)
    with _connected(hasty) as raw:
        raw.sendall(_head(hasty, "GET", f"{API}/repositories/{repo}/refs/main/objects?path=long"))
        assert raw.recv(13) == b"HTTP/1.1 200 "  # before, the service may have no connection yet
        _gone(hasty)


def _flood(raw: socket.socket, piece: bytes) -> None:
    """Send until the service hangs up."""
    for _ in range(SENT_MAX // len(piece)):
        try:
            raw.sendall(piece)
        except OSError:
            return
    raise AssertionError("everything was taken")


@pytest.mark.parametrize("ending", [b"\r\n", b""])
def test_trailers_after_an_early_answer_end_the_connection(hasty: Served, ending: bytes) -> None:
    head = _head(hasty, "POST", f"{API}/repositories", "Transfer-Encoding: chunked",
                 authorized=False)  # fmt: skip
    with _connected(hasty) as raw:
        raw.sendall(head)
        status, connection, _ = _answer(raw)
        assert (status, connection) == (401, "close")
        raw.sendall(b"1\r\nx\r\n0\r\n")
        _flood(raw, b"X-Trailer: " + b"a" * 8_000 + ending)


def test_trailers_of_a_request_that_is_answered_later_are_bounded(
    hasty: Served, bodies: dict[str, tuple[str, str]]
) -> None:
    with _connected(hasty) as raw:
        raw.sendall(_head(hasty, *bodies["upload"], "Transfer-Encoding: chunked"))
        raw.sendall(b"1\r\nx\r\n0\r\nX-Trailer: ")
        _flood(raw, b"a" * 8_000)


def test_few_trailers_are_dropped(live: Served, repo: str) -> None:
    target = f"{API}/repositories/{repo}/branches/main/objects?path=a"
    with _connected(live) as raw:
        raw.sendall(_head(live, "POST", target, "Transfer-Encoding: chunked"))
        raw.sendall(b"2\r\nab\r\n0\r\nX-LakeFS-Meta-Late: yes\r\n\r\n")
        assert _answer(raw)[:2] == (201, "")
        raw.sendall(_head(live, "GET", "/_health"))
        assert _answer(raw)[0] == 200


def test_a_body_after_an_early_answer_is_dropped_up_to_a_limit(
    hasty: Served, bodies: dict[str, tuple[str, str]]
) -> None:
    for way, expected in (("json", 401), ("page", 404)):
        head = _head(hasty, *bodies[way], f"Content-Length: {10**12}", authorized=False)
        with _connected(hasty) as raw:
            raw.sendall(head)
            assert _answer(raw)[:2] == (expected, "close")
            _flood(raw, b"x" * 65_536)


def test_a_client_that_sends_all_before_it_reads_gets_the_early_answer(live: Served) -> None:
    body = b"x" * 8 * 1024 * 1024
    head = _head(live, "POST", f"{API}/repositories", f"Content-Length: {len(body)}",
                 authorized=False)  # fmt: skip
    with _connected(live) as raw:
        raw.sendall(head + body)
        assert _answer(raw)[:2] == (401, "close")
        assert raw.recv(10) == b""


def test_a_head_that_arrives_at_once_has_the_same_limit(live: Served) -> None:
    with _connected(live) as raw:
        raw.sendall(_head(live, "GET", "/_health", "X-Long: " + "a" * 66_000))
        status, connection, body = _answer(raw)
        assert (status, connection) == (431, "close") and b"65536 bytes" in body


@contextmanager
def _few(store: Path, linger_seconds: float = 60.0, **settings: Any) -> Iterator[Served]:
    """A service of four connections, two of them of one address."""
    bounds = ConnectionLimits(connections_max=4, per_address_max=2, linger_seconds=linger_seconds)
    with served(store, settings=ServiceSettings(**settings), bounds=bounds) as running:
        yield running


def _healthy(raw: socket.socket) -> int:
    raw.sendall(b"GET /_health HTTP/1.1\r\nHost: x\r\n\r\n")
    return _answer(raw)[0]


def test_one_address_has_so_many_connections(tmp_path: Path) -> None:
    with _few(tmp_path / "store") as live, _connected(live) as one:
        with _connected(live) as two:
            assert [_healthy(one), _healthy(two)] == [200, 200]
            with _connected(live) as three:
                status, connection, body = _answer(three)
                assert (status, connection) == (429, "close") and b"this address" in body
            assert [_healthy(one), _healthy(two)] == [200, 200]  # who is there stays

        def taken_again() -> bool:
            with _connected(live) as again:
                try:
                    return _healthy(again) == 200
                except OSError:
                    return False

        until(taken_again, "the address may connect again")


def test_a_trusted_proxy_has_as_many_as_there_are(tmp_path: Path) -> None:
    front = Front(trusted_proxies=(network("127.0.0.0/8"),))
    with _few(tmp_path / "store", front=front) as live:
        taken = [_connected(live) for _ in range(4)]
        assert [_healthy(each) for each in taken] == [200] * 4
        with _connected(live) as more:
            status, connection, body = _answer(more)
            assert (status, connection) == (503, "close") and b"try again" in body
        assert [_healthy(each) for each in taken] == [200] * 4
        for each in taken:
            each.close()


@pytest.mark.parametrize(("proxies", "expected"), [("10.0.0.0/8", 429), ("127.0.0.0/8", 503)])
def test_a_refused_client_that_sends_first_and_slowly_reads_its_answer(
    tmp_path: Path, proxies: str, expected: int
) -> None:
    front = Front(trusted_proxies=(network(proxies),))
    with _few(tmp_path / "store", front=front) as live, ExitStack() as taken:
        for _ in range(2 if expected == 429 else 4):
            assert _healthy(taken.enter_context(_connected(live))) == 200
        with _connected(live) as late:
            assert late.recv(1, socket.MSG_PEEK) == b"H"  # it is refused already
            length = f"Content-Length: {200 * 8_000}"
            late.sendall(_head(live, "POST", f"{API}/repositories", length))
            for _ in range(200):
                late.sendall(b"x" * 8_000)
            assert _answer(late)[:2] == (expected, "close")
            assert late.recv(10) == b""


def test_a_refused_client_that_neither_ends_nor_sends_is_closed(tmp_path: Path) -> None:
    with _few(tmp_path / "store", linger_seconds=0.2) as live, ExitStack() as taken:
        held = [taken.enter_context(_connected(live)) for _ in range(3)]
        assert [_healthy(held[0]), _healthy(held[1])] == [200, 200]
        assert held[2].recv(1, socket.MSG_PEEK) == b"H"
        connections = live.server.server_state.connections
        until(lambda: len(connections) == 2, "the third is closed")
        _flood(held[2], b"x" * 65_536)


def test_a_refused_client_that_sends_too_much_is_closed(tmp_path: Path) -> None:
    with _few(tmp_path / "store", linger_seconds=FOREVER) as live, ExitStack() as taken:
        held = [taken.enter_context(_connected(live)) for _ in range(3)]
        assert [_healthy(held[0]), _healthy(held[1])] == [200, 200]
        _flood(held[2], b"x" * 65_536)


def test_only_so_many_refused_clients_are_waited_for() -> None:
    async def run() -> None:
        config = uvicorn.Config(_nothing, ws="none", lifespan="off", log_config=None)
        admission = Admission(ConnectionLimits(connections_max=0, refused_max=1))

        def refused() -> tuple[Connection, _Wire]:
            wire = _Wire()
            made = Connection(config, ServerState(), {}, _Clockwork(), admission=admission)
            made.connection_made(wire)
            assert wire.written.startswith(b"HTTP/1.1 503 ")
            return made, wire

        first, waits = refused()
        assert waits.ended and not waits.closed
        second, other = refused()
        assert other.closed
        second.connection_lost(None)
        assert refused()[1].closed
        first.connection_lost(None)
        assert not refused()[1].closed

    asyncio.run(run())


async def _nothing(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("a connection that is refused asks for nothing")


def test_addresses_of_one_client_are_counted_together() -> None:
    bounds = ConnectionLimits(connections_max=100, per_address_max=1)
    admission = Admission(bounds, Front(trusted_proxies=(network("10.0.0.0/8"),)))
    for address, expected in (
        ("2001:db8::1", Admittance.YES),
        ("2001:db8::2", Admittance.TOO_MANY),
        ("2001:db8:0:1::1", Admittance.YES),
        ("9.9.9.9", Admittance.YES),
        ("9.9.9.9", Admittance.TOO_MANY),
        ("::ffff:9.9.9.8", Admittance.YES),
        ("::ffff:9.9.9.8", Admittance.TOO_MANY),
        ("10.1.1.1", Admittance.YES),
        ("10.1.1.1", Admittance.YES),
        ("", Admittance.YES),
        ("", Admittance.YES),
    ):
        assert admission.enter(address) is expected, address
    assert admission.count == 8
    admission.leave("2001:db8::1")
    assert admission.enter("2001:db8::9") is Admittance.YES


class _Clockwork:
    """The running loop, but for its time, which a test moves."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._now = 0.0
        self._timers: list[tuple[float, Callable[[], None], Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def time(self) -> float:
        return self._now

    def call_later(self, seconds: float, call: Callable[..., None], *arguments: Any) -> Any:
        handle = asyncio.Handle(call, arguments, self._loop)
        self._timers.append((self._now + seconds, handle._run, handle))
        return handle

    async def pass_by(self, seconds: float) -> None:
        """So much later, with everything done that was due."""
        self._now += seconds
        due = [each for each in self._timers if each[0] <= self._now]
        self._timers = [each for each in self._timers if each[0] > self._now]
        for _, run, handle in sorted(due, key=lambda each: each[0]):
            if not handle.cancelled():
                run()
        for _ in range(5):
            await asyncio.sleep(0)


class _Wire(asyncio.Transport):
    """What was written, and whether it is open."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.closed, self.aborted, self.waiting = b"", False, False, 0
        self.ended = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def write_eof(self) -> None:
        self.ended = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.closed or self.aborted

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


def _slow(test: Callable[[_Clockwork, Connection, _Wire], Any], drains: bool = True) -> None:
    """Run `test` with a connection whose application answers once it has read the body."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        while drains and (message := await receive())["type"] == "http.request":
            if not message["more_body"]:
                await send({"type": "http.response.start", "status": 204, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
        if not drains:
            await asyncio.Event().wait()

    async def run() -> None:
        bounds = ConnectionLimits(
            head_seconds=20,
            progress_seconds=20,
            rate_bytes_min=10,
            linger_seconds=5,
            idle_seconds=IDLE,
        )
        config = uvicorn.Config(application, ws="none", lifespan="off", log_config=None)  # type: ignore[arg-type]
        loop, wire = _Clockwork(), _Wire()
        connection = Connection(config, ServerState(), {}, loop, admission=Admission(bounds))
        connection.connection_made(wire)
        await test(loop, connection, wire)
        for task in list(connection.tasks):
            task.cancel()

    asyncio.run(run())


_PUT = b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"


def test_a_body_may_take_as_long_as_it_likes_at_the_least_rate() -> None:
    async def test(loop: _Clockwork, connection: Connection, wire: _Wire) -> None:
        connection.data_received(_PUT)
        for _ in range(100_000 // 200):
            connection.data_received(b"x" * 200)
            await loop.pass_by(20)
            assert wire.closed is False
        assert wire.written.startswith(b"HTTP/1.1 204 ")

    _slow(test)


def test_a_body_below_the_least_rate_is_cut() -> None:
    async def test(loop: _Clockwork, connection: Connection, wire: _Wire) -> None:
        connection.data_received(_PUT + b"x" * 500)
        await loop.pass_by(20)
        connection.data_received(b"x" * 199)
        await loop.pass_by(19)
        assert wire.written == b""
        await loop.pass_by(1)
        assert wire.written.startswith(b"HTTP/1.1 408 ")
        await loop.pass_by(5)
        assert wire.closed
        await loop.pass_by(5)
        assert wire.aborted  # it would not even take the answer

    _slow(test)


def test_a_client_that_waits_for_us_is_not_slow() -> None:
    async def test(loop: _Clockwork, connection: Connection, wire: _Wire) -> None:
        connection.data_received(_PUT + b"x" * 70_000)  # more than is taken in unread
        for _ in range(10):
            await loop.pass_by(20)
        assert not wire.is_closing() and wire.written == b""

    _slow(test, drains=False)


def test_the_time_of_a_body_begins_with_its_request() -> None:
    async def test(loop: _Clockwork, connection: Connection, wire: _Wire) -> None:
        short = b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n"
        connection.data_received(short + b"ab")
        await loop.pass_by(15)
        connection.data_received(b"cd")
        await loop.pass_by(0)
        connection.data_received(short + b"ab")
        await loop.pass_by(15)
        assert wire.written.count(b"HTTP/1.1") == wire.written.count(b"HTTP/1.1 204 ") == 1
        await loop.pass_by(5)
        assert wire.written.count(b"HTTP/1.1 408 ") == 1

    _slow(test)


def test_an_answer_that_is_read_slowly_but_read_is_sent() -> None:
    async def test(loop: _Clockwork, connection: Connection, wire: _Wire) -> None:
        connection.data_received(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        wire.waiting = 1_000
        connection.pause_writing()
        for left in (800, 600, 400):
            wire.waiting = left
            await loop.pass_by(20)
            assert not wire.aborted
        wire.waiting = 201
        await loop.pass_by(20)
        assert wire.aborted

    _slow(test, drains=False)


def test_a_connection_is_closed_when_it_was_idle_for_so_long() -> None:
    async def test(loop: _Clockwork, connection: Connection, wire: _Wire) -> None:
        get = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
        for count in range(1, 4):  # further requests put the end off, before or after the timer
            connection.data_received(get)
            await loop.pass_by(0)
            assert wire.written.count(b"HTTP/1.1 204 ") == count
            await loop.pass_by(IDLE - 1)
            assert not wire.closed
        connection.data_received(get[:-2])  # a request under way is not idle
        await loop.pass_by(2)
        connection.data_received(get[-2:])
        await loop.pass_by(0)
        await loop.pass_by(IDLE - 1)
        assert not wire.closed
        await loop.pass_by(1)
        assert wire.closed

    _slow(test)


def test_a_lost_connection_with_requests_behind_another_is_no_error_of_the_service(
    hasty: Served, caplog: pytest.LogCaptureFixture
) -> None:
    repo = hasty.fresh_repository()
    where = f"{API}/repositories/{repo}"
    upload = _head(hasty, "POST", f"{where}/branches/main/objects?path=a", "Content-Length: 1")
    listing = _head(hasty, "GET", f"{where}/refs/main/objects/ls")
    for _ in range(30):
        with _connected(hasty) as raw:
            raw.sendall(upload + b"a" + 5 * listing)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            until(partial(_has_begun, hasty, raw), "the upload has begun")
    _gone(hasty)
    until(lambda: not hasty.server.server_state.tasks, "all requests have ended")
    assert "Exception in ASGI application" not in caplog.text


def _has_begun(live: Served, raw: socket.socket) -> bool:
    """Whether a request runs, or an answer has come."""
    return bool(live.server.server_state.tasks or select.select([raw], [], [], 0)[0])
