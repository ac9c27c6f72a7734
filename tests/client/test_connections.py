"""The pool of connections over real sockets: when one is used again, and what is sent twice."""

import gc
import pickle
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import pytest

from graveler.core.errors import Internal, Invalid, OutcomeUnknown, Unavailable
from graveler.lake.connections import Connections, Exchange, Pieces, Request
from tests.support.clockwork import TickingClock
from tests.waiting import PATIENCE_SECONDS, until

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Request-Id: r1\r\n\r\nok"
CLOSES = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


@dataclass
class Peer:
    """A server that answers by script.  `connections`: the answers of each connection, in turn; it
    is closed after the last one."""

    url: str = ""
    requests: list[tuple[int, bytes]] = field(default_factory=list)
    closed: list[int] = field(default_factory=list)


@contextmanager
def peer(*connections: Sequence[bytes]) -> Iterator[Peer]:
    script = Peer()

    def serve(listener: socket.socket) -> None:
        for number, answers in enumerate(connections):
            try:
                connection, _ = listener.accept()
            except OSError:  # the test is over
                return
            with connection:
                for answer in answers:
                    request = _request(connection)
                    if not request:
                        break
                    script.requests.append((number, request))
                    connection.sendall(answer)
            script.closed.append(number)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_SECONDS)
        script.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield script


def _request(connection: socket.socket) -> bytes:
    """The next request with its body, if it says how long that is."""
    text = b""
    while b"\r\n\r\n" not in text:
        piece = connection.recv(65_536)
        if not piece:
            return text
        text += piece
    head, _, body = text.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    length = int(lengths[0].partition(b":")[2]) if lengths else 0
    while len(body) < length:
        piece = connection.recv(65_536)
        if not piece:
            return b""  # the client has given up
        body += piece
    return head + b"\r\n\r\n" + body


def ask(pool: Connections, url: str, method: str = "GET", body: bytes = b"") -> bytes:
    with pool.send(Request(method, url, {}, body)) as answer:
        return answer.read_all(1_000)


@pytest.fixture
def pool() -> Iterator[Connections]:
    connections = Connections()
    yield connections
    connections.close()


def test_a_connection_whose_answer_was_read_is_used_again(pool: Connections) -> None:
    with peer([OK, OK]) as server:
        assert [ask(pool, server.url), ask(pool, server.url)] == [b"ok", b"ok"]
        assert [number for number, _ in server.requests] == [0, 0]


def test_an_answer_that_was_not_read_closes_its_connection(pool: Connections) -> None:
    with peer([OK], [OK]) as server:
        pool.send(Request("GET", server.url)).close()
        assert ask(pool, server.url) == b"ok"
        assert [number for number, _ in server.requests] == [0, 1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_answer_that_the_collector_closed_is_not_one_that_was_read(pool: Connections) -> None:
    """In a cycle, the collector ends the answer of http.client before its owner can close it.  Its
    connection still has the rest, or no socket."""

    class Owner:
        def __init__(self, answer: Pieces) -> None:
            self.answer, self.cycle = answer, self

        def __del__(self) -> None:
            self.answer.close()

    with peer([OK + b"x"], [OK]) as server:
        owner = Owner(pool.send(Request("GET", server.url)))
        assert owner.answer.read(1)
        del owner
        gc.collect()
        with pool.send(Request("GET", server.url)) as answer:
            assert answer.status == 200
        assert [number for number, _ in server.requests] == [0, 1]


@pytest.mark.parametrize("last", [CLOSES, b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok"])
def test_a_connection_that_the_server_gives_up_is_not_used_again(
    pool: Connections, last: bytes
) -> None:
    with peer([last], [OK]) as server:
        assert ask(pool, server.url) == ask(pool, server.url) == b"ok"
        assert [number for number, _ in server.requests] == [0, 1]


@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_an_idle_connection_whose_socket_the_collector_closed_is_noticed(pool: Connections) -> None:
    """The collector may close the socket of an answer before it closes the answer."""
    with peer([OK], [OK]) as server:
        held: list[object] = [pool.send(Request("GET", server.url))]
        held.append(held)
        assert isinstance(held[0], Pieces) and held[0].read() == b"ok"
        del held
        gc.collect()
        assert ask(pool, server.url) == b"ok"


def test_an_idle_connection_that_was_closed_meanwhile_is_noticed(pool: Connections) -> None:
    """Also a POST, which could not be sent twice, gets a fresh connection."""
    with peer([OK], [OK]) as server:
        ask(pool, server.url)
        until(lambda: server.closed == [0], "the server has closed the connection")
        assert ask(pool, server.url, "POST", b"{}") == b"ok"
        assert [number for number, _ in server.requests] == [0, 1]


def test_a_connection_that_was_idle_for_long_is_not_used_again() -> None:
    clock = TickingClock()
    pool = Connections(clock)
    with peer([OK, OK], [OK]) as server:
        ask(pool, server.url)
        clock.sleep(60)
        ask(pool, server.url)
        assert [number for number, _ in server.requests] == [0, 1]
    pool.close()


def test_a_read_that_meets_a_dead_connection_is_sent_once_more(pool: Connections) -> None:
    """The server closes after it has read the request: the worst moment."""
    with peer([OK, b""], [OK]) as server:
        ask(pool, server.url)
        assert ask(pool, server.url) == b"ok"
        assert [number for number, _ in server.requests] == [0, 0, 1]


def test_a_post_that_meets_a_dead_connection_is_not(pool: Connections) -> None:
    with peer([OK, b""], [OK]) as server:
        ask(pool, server.url)
        with pytest.raises(OutcomeUnknown):
            ask(pool, server.url, "POST", b"{}")
        assert [number for number, _ in server.requests] == [0, 0]


def test_a_body_in_pieces_has_its_length_or_is_chunked(pool: Connections) -> None:
    with peer([OK], [OK]) as server:
        pieces = iter([b"ab", b"c"])
        with pool.send(Request("POST", server.url, {}, pieces, 3)) as answer:
            assert answer.status == 200
        head, _, body = server.requests[0][1].partition(b"\r\n\r\n")
        assert b"Content-Length: 3" in head and body == b"abc"
    with peer([OK]) as server, pool.send(Request("POST", server.url, {}, iter([b"ab"]))) as answer:
        assert answer.status == 200
        assert b"Transfer-Encoding: chunked" in server.requests[0][1]


@pytest.mark.parametrize("body", [b"{}", iter([b"{}"])])
def test_a_small_request_arrives_at_once(pool: Connections, body: bytes | Iterator[bytes]) -> None:
    """What the server receives first is the whole: it need not wait for a second packet."""
    first: list[bytes] = []

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            first.append(connection.recv(65_536))
            connection.sendall(CLOSES)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pool.send(Request("POST", url, {}, body, 2)) as answer:
            assert answer.read_all(9) == b"ok"
        thread.join()
    assert first[0].endswith(b"\r\n\r\n{}")


def test_an_answer_that_comes_before_the_body_is_read_counts(pool: Connections) -> None:
    """A server that refuses an upload answers and closes at once."""
    refusal = b"HTTP/1.1 401 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

    def body() -> Iterator[bytes]:
        yield b"first"
        until(lambda: server.closed == [0], "the server has answered and closed")
        for _ in range(40):
            yield bytes(100_000)

    with peer([refusal]) as server, pool.send(Request("POST", server.url, {}, body())) as answer:
        assert answer.status == 401


@pytest.mark.parametrize("error", [ConnectionResetError("of a source"), PermissionError(13, "no")])
@pytest.mark.parametrize("before", [0, 1])
def test_an_error_of_the_pieces_is_that_of_their_source(
    pool: Connections, before: int, error: OSError
) -> None:
    """The half of a body that was sent must not meet the next request on its connection."""
    kept = b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"

    def body() -> Iterator[bytes]:
        yield from [b"abc"] * before
        raise error

    with peer([OK, kept], [OK]) as server:
        ask(pool, server.url)
        with pytest.raises(type(error)) as caught:
            pool.send(Request("PUT", server.url, {}, body(), 100))
        assert caught.value is error
        ask(pool, server.url)
        assert server.requests[-1][0] == 1  # another connection


def test_a_name_of_a_header_may_be_written_in_any_case(pool: Connections) -> None:
    with peer([OK]) as server:
        given = {"user-agent": "mine", "HOST": "there"}
        with pool.send(Request("GET", server.url, given)) as answer:
            assert answer.status == 200
        head = server.requests[0][1].lower()
    assert head.count(b"user-agent: mine") == head.count(b"host: there") == 1
    assert (head.count(b"user-agent"), head.count(b"host:")) == (1, 1)


@pytest.mark.parametrize(("method", "kind"), [("GET", Unavailable), ("PUT", OutcomeUnknown)])
def test_a_body_that_is_cut_short_is_a_lost_answer(
    pool: Connections, method: str, kind: type[Exception]
) -> None:
    short = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok"
    with peer([short]) as server, pytest.raises(kind, match="answer was lost") as caught:
        ask(pool, server.url, method)
    assert type(caught.value) is kind


def test_a_part_can_be_read_into_a_buffer(pool: Connections) -> None:
    with peer([OK]) as server, pool.send(Request("GET", server.url)) as answer:
        buffer = memoryview(bytearray(10))
        assert answer.read_into(buffer) == 2 and bytes(buffer[:2]) == b"ok"
        assert answer.read_into(buffer) == 0
        assert answer.headers["x-REQUEST-id"] == "r1" and "X-C" not in answer.headers


def test_an_answer_has_a_bound(pool: Connections) -> None:
    with (
        peer([OK]) as server,
        pool.send(Request("GET", server.url)) as answer,
        pytest.raises(Internal, match="longer than 1 bytes"),
    ):
        answer.read_all(1)


def test_an_observer_sees_each_exchange() -> None:
    seen: list[Exchange] = []
    pool = Connections(TickingClock(), seen.append)
    with peer([OK]) as server:
        ask(pool, server.url + "/x?y=z")
    (exchange,) = seen
    assert (exchange.method, exchange.status, exchange.request_id) == ("GET", 200, "r1")
    assert exchange.url == server.url + "/x?y=z"
    pool.close()


def test_nobody_listens(pool: Connections) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(Unavailable, match="does not answer") as caught:
        ask(pool, f"http://127.0.0.1:{port}", "POST", b"{}")
    assert type(caught.value) is Unavailable


def test_a_server_without_tls_is_named(pool: Connections) -> None:

    def refuse(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_SECONDS)
        thread = threading.Thread(target=refuse, args=(listener,))
        thread.start()
        place = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(Unavailable, match=f"no TLS; try http://{place} url=https://{place}"):
            ask(pool, f"https://{place}")
        thread.join()


def test_a_proxy_gets_the_whole_url(pool: Connections, monkeypatch: pytest.MonkeyPatch) -> None:
    with peer([OK]) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//me:pass@"))
        monkeypatch.delenv("no_proxy", raising=False)
        assert ask(pool, "http://lake.example/x?y") == b"ok"
    request = proxy.requests[0][1]
    assert request.startswith(b"GET http://lake.example/x?y HTTP/1.1\r\n")
    assert b"Host: lake.example\r\n" in request
    assert b"Proxy-Authorization: Basic bWU6cGFzcw==" in request


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_whose_url_is_none_is_refused(
    pool: Connections, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setenv(f"{scheme}_proxy", "http://[::1")
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(Invalid, match="its host or its port"):
        ask(pool, f"{scheme}://lake.example/x")


def test_no_proxy_is_obeyed(pool: Connections, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with peer([OK]) as server:
        assert ask(pool, server.url) == b"ok"


def test_a_copy_of_a_pool_has_no_connections(pool: Connections) -> None:
    with peer([OK], [OK]) as server:
        ask(pool, server.url)
        copy = pickle.loads(pickle.dumps(pool))
        ask(copy, server.url)
        copy.close()
        assert [number for number, _ in server.requests] == [0, 1]


@pytest.mark.parametrize(
    "url",
    [
        "http://a..b/",
        f"http://{'a' * 64}.example/",
        "http://127.0.0.1:99999/",
        "http://127.0.0.1:port/",
        "http://[::1/",
        "http:///path",
        "/path",
        "ftp://127.0.0.1/",
        "http://a\x7fb/",
    ],
)
def test_a_url_that_leads_nowhere_is_invalid(pool: Connections, url: str) -> None:
    with pytest.raises(Invalid, match="URL invalid"):
        pool.send(Request("GET", url))


@pytest.mark.parametrize("headers", [{"a:b": "1"}, {"a": "1\n2"}, {"a": "\u0141"}])
def test_a_header_that_cannot_be_sent_is_invalid(
    pool: Connections, headers: dict[str, str]
) -> None:
    with peer([OK]) as server, pytest.raises(Invalid, match="cannot be sent"):
        pool.send(Request("GET", server.url + "/", headers))


def test_a_path_that_cannot_be_sent_is_invalid(pool: Connections) -> None:
    with peer([OK]) as server, pytest.raises(Invalid, match="URL invalid"):
        pool.send(Request("GET", server.url + "/a b"))


# ---- heads of answers ----------------------------------------------------------------------------

LENGTH: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
CHUNKED: Final = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
CHUNKS: Final = b"\r\n2\r\nok\r\n0\r\n\r\n"
KEPT: Final = (
    CHUNKED + CHUNKS,
    b"HTTP/1.1 200 OK\r\ncontent-length:2\r\n\r\nok",
    b"HTTP/1.1 100 Continue\r\nX-A: 1\r\n\r\n" + LENGTH + b"\r\nok",
    LENGTH + b"Content-Length: 2\r\n\r\nok",
    b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
    b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: Keep-Alive\r\n\r\nok",
)
CLOSED: Final = (
    b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    LENGTH + b"Connection: Close\r\n\r\nok",
    CHUNKED + b"Content-Length: 9\r\n" + CHUNKS,
)


@pytest.mark.parametrize(
    ("head", "is_kept"), [*((head, True) for head in KEPT), *((head, False) for head in CLOSED)]
)
def test_a_connection_is_used_again_if_the_end_of_its_answer_is_sure(
    head: bytes, is_kept: bool, pool: Connections
) -> None:
    with peer([head, head], [head]) as server:
        assert ask(pool, server.url) == ask(pool, server.url) == b"ok"
        assert [number for number, _ in server.requests] == [0, 0 if is_kept else 1]


def test_a_body_is_not_taken_for_a_head(pool: Connections) -> None:
    head = b"HTTP/1.1 200 OK\nContent-Length: 10\n\n"
    with peer([head + b"a: b\r\n\r\nok", OK]) as server:
        assert ask(pool, server.url) == b"a: b\r\n\r\nok" and ask(pool, server.url) == b"ok"


@pytest.mark.parametrize("count", [16, 17])
def test_an_answer_comes_after_at_most_sixteen_of_100(count: int, pool: Connections) -> None:
    goes_on = b"HTTP/1.1 100 Continue\r\n\r\n"
    with peer([goes_on * count + LENGTH + b"\r\nok"]) as server:
        if count == 16:
            assert ask(pool, server.url) == b"ok"
        else:
            with pytest.raises(Unavailable, match="100 again and again"):
                ask(pool, server.url, "POST")


def test_answers_without_a_body(pool: Connections) -> None:
    length = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n"
    with peer([length, b"HTTP/1.1 204 No Content\r\n\r\n", OK]) as server:
        assert ask(pool, server.url, "HEAD") == ask(pool, server.url) == b""
        assert ask(pool, server.url) == b"ok"
        assert len({number for number, _ in server.requests}) == 1


@pytest.mark.parametrize("reads_into", [True, False])
@pytest.mark.parametrize(
    "chunks", [b"-1\r\nok", b"-5\r\nok\r\n0\r\n\r\n", b"\r\n", b"g\r\n", b"1" * 70_000 + b"\r\nok"]
)
def test_chunks_that_are_none_are_a_lost_answer(
    chunks: bytes, reads_into: bool, pool: Connections
) -> None:
    with (
        peer([CHUNKED + b"\r\n" + chunks]) as server,
        pytest.raises(Unavailable),
        pool.send(Request("GET", server.url)) as answer,
    ):
        while answer.read_into(memoryview(bytearray(9))) if reads_into else answer.read(9):
            pass


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nX-Request-Id: r1\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\nX-Request-Id: r1\r\n",
        b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X-A: a\r\n" * 300 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX-A: a\r\n" + b" more\r\n" * 300 + b"\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\nContent-Length: 2\r\n\r\nok",
        LENGTH + b"Content-Length: 3\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nok",
        b"SSH-2.0-other\r\n",
    ],
)
def test_a_head_that_is_none_is_a_lost_answer(head: bytes, pool: Connections) -> None:
    for method, kind in (("GET", Unavailable), ("POST", OutcomeUnknown)):
        with peer([head]) as server, pytest.raises(kind) as raised:
            ask(pool, server.url, method)
        assert type(raised.value) is kind


@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
def test_a_head_may_arrive_in_pieces(end: bytes, pool: Connections) -> None:
    head = end.join((b"HTTP/1.1 200 OK", b"Content-Length: 2", b"X-A:  1 ", b"", b""))
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            near, _ = listener.accept()
            with near:
                near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                near.recv(10_000)
                for at in range(0, len(head), 7):
                    near.sendall(head[at : at + 7])
                near.sendall(b"ok")

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        with pool.send(Request("GET", url)) as got:
            assert (got.status, got.headers["x-a"], got.read()) == (200, "1", b"ok")
        thread.join()
