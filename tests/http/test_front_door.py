"""Crafted requests on raw sockets, judged by RFC 9110 and RFC 9112."""

import asyncio
import json
import logging
import re
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import md5
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from graveler.api.app import Graveler
from graveler.gateway.route import S3Route
from graveler.gateway.signatures import Authentication
from graveler.http.connections import Admission, ConnectionLimits
from graveler.http.protocol import Connection
from graveler.http.service import Service
from tests.api.serving import API, Served, basic, next_answer, served
from tests.gateway.serving import S3Client

CONTENT = b"0123456789\r\n\r\nGET /_health HTTP/1.1\r\n\r\n"
MD5 = md5(CONTENT).hexdigest().encode()
FORM = b"".join(
    (b'--b\r\nContent-Disposition: form-data; name="content"\r\n\r\n', CONTENT, b"\r\n--b--\r\n")
)
HEALTH = b"GET /_health HTTP/1.1\r\nHost: localhost\r\n\r\n"
UPGRADES = {
    "plain": (),
    "h2c": (
        "Upgrade: h2c",
        "Connection: Upgrade, HTTP2-Settings",
        "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA",
    ),
    "websocket": (
        "Connection: upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ),
}
DOORS = ("api", "form", "s3", "signed")
# A connection that is not ended by the server stays open, and the test fails.
FOREVER = ConnectionLimits(linger_seconds=3_600, progress_seconds=3_600)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The API and the gateway, which wait for slow clients."""

    def route(service: Service) -> S3Route:
        return S3Route(service, (), Authentication(()))

    store = tmp_path_factory.mktemp("door") / "store"
    with served(store, further=route, bounds=FOREVER) as running:
        body = {"name": "door", "storage_namespace": "local://door/x"}
        assert running.client.send("POST", "/repositories", body=body).status == 201
        yield running


@dataclass(frozen=True)
class Door:
    """A way to upload `CONTENT`; `headers` have neither Host nor a length."""

    method: str
    target: str
    headers: tuple[str, ...]
    body: bytes
    status: int
    host: str
    path: str

    def request(
        self,
        *more: str,
        framing: str = "length",
        version: str = "HTTP/1.1",
        hosts: Sequence[str] = ("{}",),
        target: str = "{}",
    ) -> bytes:
        body, lines = self.body, [f"Content-Length: {len(self.body)}"]
        if framing == "chunked":
            lines = ["Transfer-Encoding: chunked"]
        if not framing or framing == "chunked":
            parts = (self.body[:9], self.body[9:])
            body = b"".join(b"%x;a=b\r\n%b\r\n" % (len(part), part) for part in parts)
            body += b"0\r\nX-Trailer: x\r\n\r\n"
        return (
            "\r\n".join(
                (
                    f"{self.method} {target.format(self.target)} {version}",
                    *(f"Host: {host.format(self.host)}" for host in hosts),
                    *self.headers,
                    *more,
                    *(lines if framing else ()),
                    "\r\n",
                )
            ).encode("latin-1")
            + body
        )


def _door(live: Served, name: str) -> Door:
    """A door, and a path of its own."""
    repo, host = "door", f"{live.client.host}:{live.client.port}"
    path = f"a{next(live.names)}"
    objects = f"{API}/repositories/{repo}/branches/main/objects?path={path}"
    authorization = f"Authorization: {live.client.authorization}"
    if name == "api":
        return Door("POST", objects, (authorization,), CONTENT, 201, host, path)
    if name == "form":
        kind = "Content-Type: multipart/form-data; boundary=b"
        return Door("POST", objects, (authorization, kind), FORM, 201, host, path)
    if name == "s3":
        s3 = S3Client(live.client.host, live.client.port)
        signed = s3.signed("PUT", f"/{repo}/main/{path}", body=CONTENT)
        lines = tuple(f"{key}: {value}" for key, value in signed.items() if key != "Content-Length")
        return Door("PUT", f"/{repo}/main/{path}", lines, CONTENT, 200, host, path)
    backing = f"/repositories/{repo}/branches/main/staging/backing"
    given = live.client.send("GET", backing, {"path": path, "presign": "true"}).json
    target = given["presigned_url"].removeprefix(live.client.url)
    return Door("PUT", target, (), CONTENT, 200, host, path)


def _connected(live: Served) -> socket.socket:
    raw = socket.create_connection((live.client.host, live.client.port), timeout=60)
    raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return raw


def _sent(raw: socket.socket, request: bytes, segments: int) -> None:
    """Send a request in one piece, in its head and its body, or byte by byte."""
    head = request.index(b"\r\n\r\n") + 4
    pieces = {
        1: [request],
        2: [request[:head], request[head:]],
        3: [request[at : at + 1] for at in range(len(request))],
    }
    for piece in pieces[segments]:
        raw.sendall(piece)


def _rest(raw: socket.socket) -> bytes:
    """All that comes until the server ends the connection; the client keeps its side open."""
    return b"".join(iter(lambda: raw.recv(65_536), b""))


def _answers(live: Served, request: bytes, segments: int = 1) -> bytes:
    """All answers to requests of which the last one ends the connection."""
    with _connected(live) as raw:
        _sent(raw, request, segments)
        return _rest(raw)


def _status(answer: bytes) -> int:
    return int(answer.split()[1])


def _count(answers: bytes) -> int:
    return len(re.findall(rb"HTTP/1\.1 \d\d\d ", answers))


def _is_stored(live: Served, path: str) -> bool:
    where = "/repositories/door/refs/main/objects/stat"
    return live.client.send("GET", where, {"path": path}).status == 200


# ---- framing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("segments", [1, 2, 3])
@pytest.mark.parametrize("upgrade", UPGRADES)
@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("door", DOORS)
def test_an_upload_is_stored_whole_however_it_is_framed(
    live: Served, door: str, framing: str, upgrade: str, segments: int
) -> None:
    """Also if it asks for another protocol, and if other requests follow it (RFC 9110, 7.8)."""
    way = _door(live, door)
    request = way.request(*UPGRADES[upgrade], framing=framing)
    last = HEALTH.replace(b"localhost", b"localhost\r\nConnection: close")
    said = _answers(live, request + HEALTH + last, segments)
    if door == "s3" and framing == "chunked":  # S3 asks for a length
        assert _status(said) == 411 and not _is_stored(live, way.path)
        return
    statuses = [int(each[:3]) for each in said.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [way.status, 200, 200]
    assert MD5 in said.split(b"HTTP/1.1 ")[1]


@pytest.mark.parametrize("upgrade", UPGRADES)
def test_a_request_without_a_body_may_ask_for_an_upgrade(live: Served, upgrade: str) -> None:
    lines = "\r\n".join(("", *UPGRADES[upgrade])).encode()
    request = HEALTH.replace(b"\r\n\r\n", lines + b"\r\n\r\n")
    with _connected(live) as raw, raw.makefile("rb") as stream:
        for _ in range(2):
            raw.sendall(request * 2)
            assert [next_answer(stream)[0] for _ in range(2)] == [200, 200]


REFUSED: dict[str, tuple[int, dict[str, Any]]] = {
    "gzip": (501, {"more": ["Transfer-Encoding: gzip"], "framing": ""}),
    "gzip, chunked": (501, {"more": ["Transfer-Encoding: gzip, chunked"], "framing": ""}),
    "gzip and chunked": (
        501,
        {"more": ["Transfer-Encoding: gzip", "Transfer-Encoding: chunked"], "framing": ""},
    ),
    "identity": (501, {"more": ["Transfer-Encoding: identity"], "framing": ""}),
    "xchunked": (501, {"more": ["Transfer-Encoding: xchunked"], "framing": ""}),
    "chunked, gzip": (400, {"more": ["Transfer-Encoding: chunked, gzip"], "framing": ""}),
    "chunked twice": (400, {"more": ["Transfer-Encoding: chunked, chunked"], "framing": ""}),
    "chunked and chunked": (
        400,
        {"more": ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"], "framing": ""},
    ),
    "coding and length": (400, {"more": ["Transfer-Encoding: chunked"]}),
    "length and coding": (400, {"more": ["Content-Length: 1"], "framing": "chunked"}),
    "two lengths": (400, {"more": ["Content-Length: 1"]}),
    "a list of lengths": (400, {"more": ["Content-Length: 3, 3"], "framing": ""}),
    "signed length": (400, {"more": ["Content-Length: +3"], "framing": ""}),
    "coding in HTTP/1.0": (400, {"framing": "chunked", "version": "HTTP/1.0"}),
    "HTTP/0.9": (505, {"version": "HTTP/0.9"}),
    "HTTP/2.0": (505, {"version": "HTTP/2.0"}),
    "HTTP/3.0": (505, {"version": "HTTP/3.0"}),
    "RTSP/1.0": (505, {"version": "RTSP/1.0"}),
    "RTSP/1.1": (505, {"version": "RTSP/1.1"}),
    "ICE/1.0": (505, {"version": "ICE/1.0"}),
    "http/1.1": (400, {"version": "http/1.1"}),
    "no host": (400, {"hosts": []}),
    "two hosts": (400, {"hosts": ["{}", "{}"]}),
    "user in host": (400, {"hosts": ["user@{}"]}),
    "odd host": (400, {"hosts": ["a\xfcb"]}),
    "list of hosts": (400, {"hosts": ["{}, localhost"]}),
    "path in host": (400, {"hosts": ["localhost/a"]}),
    "fragment": (400, {"target": "{}#a"}),
    "raw UTF-8": (400, {"target": "{}\xc3\xbc"}),
    "absolute with user": (400, {"target": "http://user@localhost{}"}),
    "absolute without host": (400, {"target": "http://{}"}),
    "other scheme": (400, {"target": "ftp://localhost{}"}),
    "two dates": (400, {"more": ["If-Modified-Since: x", "If-Modified-Since: y"]}),
    "two ranges": (400, {"more": ["Range: bytes=0-1", "Range: bytes=2-3"]}),
    "two types": (400, {"more": ["Content-Type: text/csv", "Content-Type: text/html"]}),
    "expectation": (417, {"more": ["Expect: 200-ok"]}),
    "folded line": (400, {"more": ["X-Folded: a\r\n b"]}),
    "blank before colon": (400, {"more": ["X-Blank : a"]}),
    "many lines": (431, {"more": ["A:"] * 300}),
}


@pytest.mark.parametrize("segments", [1, 2])
@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("door", ["api", "s3", "signed"])
def test_a_head_that_two_readers_could_read_apart_is_refused(
    live: Served, door: str, case: str, segments: int
) -> None:
    """The client sees the end of the connection behind the answer, and nothing is stored."""
    way = _door(live, door)
    status, changes = REFUSED[case]
    more = changes.get("more", ())
    rest = {name: value for name, value in changes.items() if name != "more"}
    said = _answers(live, way.request(*more, **rest) + HEALTH, segments)
    assert (_status(said), _count(said)) == (status, 1), said
    assert b"connection: close" in said
    assert not _is_stored(live, way.path)


@pytest.mark.parametrize(
    ("line", "status", "reason"),
    [
        (b"CONNECT localhost:80 HTTP/1.1", 501, "CONNECT"),
        (b"FROB / HTTP/1.1", 501, "method is unknown"),
        (b"get / HTTP/1.1", 501, "method is unknown"),
        (b"DESCRIBE / HTTP/1.1", 501, "method is unknown"),
        (b"DESCRIBE / RTSP/1.0", 505, "version"),
        (b"PRI * HTTP/2.0", 505, "version"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", 400, "TLS"),
        (b"GET /a b HTTP/1.1", 400, "%20"),
        (b"GET /\xc3\xbc HTTP/1.1", 400, "percent-encoded"),
        (b"GET /a#b HTTP/1.1", 400, "%23"),
        (b"GET * HTTP/1.1", 400, "target"),
        (b"GET a HTTP/1.1", 400, "target"),
        (b"GET /", 505, "version"),
    ],
)
def test_the_refusal_of_a_request_line_says_why(
    live: Served, line: bytes, status: int, reason: str
) -> None:
    request = line + b"\r\nHost: localhost\r\nContent-Length: 49\r\n\r\n" + HEALTH
    said = _answers(live, request)
    assert (_status(said), _count(said)) == (status, 1)
    assert reason in json.loads(said.partition(b"\r\n\r\n")[2])["message"]


def test_a_fragment_deletes_no_other_object(live: Served) -> None:
    way = _door(live, "api")
    assert live.client.upload("door", way.path, b"x").status == 201
    delete = replace(way, method="DELETE", target=way.target + "#1", body=b"")
    assert _status(_answers(live, delete.request())) == 400
    assert _is_stored(live, way.path)


def test_a_later_minor_version_is_answered(live: Served) -> None:
    request = HEALTH.replace(b"HTTP/1.1", b"HTTP/1.2\r\nConnection: close")
    assert _status(_answers(live, request)) == 200


@pytest.mark.parametrize("name", ["Authorization", "Cookie"])
def test_two_credentials_are_refused_or_joined(live: Served, name: str) -> None:
    """Two cookie lines are one list; nobody is logged in by the one that another reader skips."""
    way = replace(_door(live, "api"), headers=(f"{name}: a=b", f"{name}: c=d"))
    said = _answers(live, way.request("Connection: close"))
    assert _status(said) == (400 if name == "Authorization" else 401)


def test_lines_of_a_list_are_read_together(live: Served) -> None:
    way = _door(live, "api")
    etag = live.client.upload("door", way.path, CONTENT).json["checksum"]
    read = replace(way, method="GET", target=way.target.replace("branches", "refs"), body=b"")
    tags = (f'If-None-Match: "{etag}"', 'If-None-Match: "x"')
    assert _status(_answers(live, read.request(*tags, "Connection: close"))) == 304
    assert _status(_answers(live, read.request(*tags[::-1], "Connection: close"))) == 304


# ---- host ----------------------------------------------------------------------------------------


def _login(live: Served, hosts: Sequence[str], target: str = "{}") -> int:
    body = b'{"access_key_id":"a","secret_access_key":"b"}'
    kind = "Content-Type: application/json"
    way = Door("POST", f"{API}/auth/login", (kind,), body, 200, "localhost", "")
    return _status(_answers(live, way.request("Connection: close", hosts=hosts, target=target)))


def test_the_host_of_a_login_cannot_be_said_twice(live: Served) -> None:
    assert _login(live, ["localhost"]) == 401
    assert _login(live, ["evil.example"]) == 403
    assert _login(live, ["evil.example", "localhost"]) == 400
    assert _login(live, ["localhost"], "http://evil.example{}") == 403
    assert _login(live, ["evil.example"], "http://localhost{}") == 401
    assert _login(live, [], "http://localhost{}") == 400


def test_an_old_client_needs_no_host(live: Served) -> None:
    assert _status(_answers(live, b"GET /_health HTTP/1.0\r\n\r\n")) == 200


@pytest.mark.parametrize("door", DOORS)
def test_an_absolute_target_is_served(live: Served, door: str) -> None:
    way = _door(live, door)
    said = _answers(live, way.request("Connection: close", target=f"HTTP://{way.host}{{}}"))
    assert _status(said) == way.status and MD5 in said


# ---- expectations and blanks ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expect", "version", "continues"),
    [
        ("100-continue", "HTTP/1.1", True),
        (" \t100-Continue \t", "HTTP/1.1", True),
        ("", "HTTP/1.1", False),
        ("100-continue", "HTTP/1.0", False),
        ("200-ok", "HTTP/1.0", False),
    ],
)
def test_what_a_client_expects(live: Served, expect: str, version: str, continues: bool) -> None:
    way = _door(live, "api")
    request = way.request(f"Expect: {expect}", "Connection: close", version=version)
    said = _answers(live, request)
    assert said.startswith(b"HTTP/1.1 100 Continue\r\n\r\n") == continues
    assert b"HTTP/1.1 201 " in said and MD5 in said


@pytest.mark.parametrize("key", ["", "AKIAWRONG"])
def test_an_empty_body_is_asked_for_as_well(live: Served, key: str) -> None:
    """botocore takes a final answer in its place for the beginning of the next one, and waits."""
    way = replace(_door(live, "api"), body=b"")
    lines = ("Expect: 100-continue", "Connection: close")
    if key:
        way = replace(way, headers=(f"Authorization: {basic(key, key)}",))
    said = _answers(live, way.request(*lines))
    status = b"401" if key else b"201"
    assert said.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 " + status)


def test_blanks_around_values_mean_nothing(live: Served) -> None:
    way = _door(live, "api")
    lines = (
        *("Content-Type:\t text/csv \t", "x-lakefs-meta-a:  b\t", "If-None-Match: * \t"),
        *("Transfer-Encoding:  Chunked \t", "Connection: close\t "),
    )
    request = way.request(*lines, framing="")
    entry = json.loads(_answers(live, request).partition(b"\r\n\r\n")[2])
    assert (entry["content_type"], entry["metadata"]) == ("text/csv", {"a": "b"})
    assert _status(_answers(live, request)) == 412


# ---- ends ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("segments", [1, 2])
@pytest.mark.parametrize("door", DOORS)
def test_a_client_that_sends_nothing_more_gets_its_answers(
    live: Served, door: str, segments: int
) -> None:
    way = _door(live, door)
    with _connected(live) as raw:
        _sent(raw, way.request() + HEALTH * 3, segments)
        raw.shutdown(socket.SHUT_WR)
        said = _rest(raw)
    assert _status(said) == way.status and said.count(b"HTTP/1.1 200 ") >= 3


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("door", DOORS)
def test_an_upload_that_ends_early_is_not_stored(live: Served, door: str, framing: str) -> None:
    way = _door(live, door)
    with _connected(live) as raw:
        raw.sendall(way.request(framing=framing)[:-1])
        raw.shutdown(socket.SHUT_WR)
        said = _rest(raw)
    assert _status(said) in (400, 411)
    assert not _is_stored(live, way.path)


@pytest.mark.parametrize("pieces", [[CONTENT[:-1]], [CONTENT[:9], CONTENT[9:-1]], [CONTENT + b"x"]])
@pytest.mark.parametrize("door", ["api", "s3", "signed"])
def test_a_body_of_another_length_is_not_stored_whatever_the_server_says(
    live: Served, door: str, pieces: list[bytes]
) -> None:
    """Another server, or a proxy, may cut a body off and call it whole."""
    way = _door(live, door)
    path, _, query = way.target.partition("?")
    lines = [line.partition(": ") for line in (f"Host: {way.host}", *way.headers)]
    lines.append(("Content-Length", "", str(len(CONTENT))))
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    messages[-1]["more_body"] = False
    scope = {
        **{"type": "http", "method": way.method, "scheme": "http", "path": path},
        **{"raw_path": path.encode(), "query_string": query.encode()},
        "headers": [(name.lower().encode(), value.encode()) for name, _, value in lines],
    }
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    route = S3Route(live.service, (), Authentication(()))
    asyncio.run(Graveler().use(live.service, route)(scope, receive, send))
    assert sent[0]["status"] == 400
    assert not _is_stored(live, way.path)


def test_half_a_head_is_answered(live: Served) -> None:
    with _connected(live) as raw:
        raw.sendall(HEALTH + HEALTH[:-2])
        raw.shutdown(socket.SHUT_WR)
        said = _rest(raw)
    assert (said.count(b"HTTP/1.1 200 "), said.count(b"HTTP/1.1 400 ")) == (1, 1)


def test_the_answer_ends_the_connection_before_the_body_has_come(live: Served) -> None:
    way = replace(_door(live, "api"), headers=())
    with _connected(live) as raw:
        raw.sendall(way.request()[:-1])
        assert _status(_rest(raw)) == 401
        raw.sendall(b"x")


def test_a_hundred_requests_at_once_are_answered_in_order(live: Served) -> None:
    way = _door(live, "api")
    uploads = [replace(way, target=f"{way.target}{number}").request() for number in range(100)]
    with _connected(live) as raw, raw.makefile("rb") as stream:
        raw.sendall(b"".join(uploads))
        paths = [json.loads(next_answer(stream)[1])["path"] for _ in uploads]
    assert paths == [f"{way.path}{number}" for number in range(100)]


# ---- one connection, without a socket: every segmentation ----------------------------------------


class _Wire(asyncio.Transport):
    """What was written, and whether the end was sent."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.is_over = False
        self.is_paused = False

    def write(self, data: Any) -> None:
        assert not self.is_over
        self.written += data

    def write_eof(self) -> None:
        self.is_over = True

    def close(self) -> None:
        self.is_over = True

    abort = close

    def is_closing(self) -> bool:
        return self.is_over

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


@dataclass
class _Echo:
    """An application that says what it was asked, and a connection to it."""

    asked: list[tuple[Any, ...]] = field(default_factory=list)

    async def application(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, more = body + message["body"], message["more_body"]
        path, query = scope["raw_path"], scope["query_string"]
        self.asked.append((scope["method"], path, query, scope["headers"], body))
        headers = [(b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    async def hear(self, pieces: Sequence[bytes], config: uvicorn.Config) -> bytes:
        loop, admission = asyncio.get_running_loop(), Admission(ConnectionLimits())
        connection = Connection(config, ServerState(), {}, loop, admission=admission)
        wire = _Wire()
        connection.connection_made(wire)
        for piece in pieces:
            while wire.is_paused and not wire.is_over:
                await asyncio.sleep(0)
            if wire.is_over:
                break
            connection.data_received(piece)
        for _ in range(20):
            await asyncio.sleep(0)
        connection.connection_lost(None)
        return bytes(wire.written)


async def _heard(many: Sequence[Sequence[bytes]]) -> list[tuple[list[tuple[Any, ...]], bytes]]:
    """What the application was asked, and what the client got, for each way to cut a stream."""
    echo = _Echo()
    config = uvicorn.Config(echo.application, log_config=None, interface="asgi3", date_header=False)
    heard = []
    for pieces in many:
        echo.asked = []
        written = await echo.hear(pieces, config)
        heard.append((echo.asked, written))
    return heard


def _post(*lines: bytes, body: bytes = b"") -> bytes:
    return b"\r\n".join((b"POST /a?b HTTP/1.1", b"Host: x", *lines, b"", b"")) + body


_UPGRADE = (b"Upgrade: h2c", b"Connection: upgrade")
_CHUNKED = b"3;x=y\r\na\r\n\r\n5\r\n\r\n0\r\n\r\n2\r\n\r\n\r\n0\r\nT: u\r\n\r\n"
STREAMS: dict[str, tuple[list[bytes], bytes]] = {
    "requests": ([b"", b"", b""], HEALTH * 3),
    "line breaks": ([b"", b""], b"\r\n\r\n" + HEALTH + b"\r\n" + HEALTH),
    "length": ([b"\r\n\r\nGET", b""], _post(b"Content-Length: 7", body=b"\r\n\r\nGET") + HEALTH),
    "empty": ([b"", b""], _post(b"Content-Length: 0") + HEALTH),
    "chunked": (
        [b"a\r\n\r\n0\r\n\r\n", b""],
        _post(b"Transfer-Encoding: chunked", body=_CHUNKED) + HEALTH,
    ),
    "upgrade": ([b"hello", b""], _post(*_UPGRADE, b"Content-Length: 5", body=b"hello") + HEALTH),
    "upgrade, chunked": (
        [b"a\r\n\r\n0\r\n\r\n", b""],
        _post(*_UPGRADE, b"Transfer-Encoding: chunked", body=_CHUNKED) + HEALTH,
    ),
    "upgrade, empty": ([b"", b"", b""], _post(*_UPGRADE) * 2 + HEALTH),
    "blank behind a coding": (
        [b"a\r\n\r\n0\r\n\r\n", b""],
        _post(b"Transfer-Encoding: chunked \t", body=_CHUNKED) + HEALTH,
    ),
    "close in a trailer": (
        [b"", b""],
        _post(b"Transfer-Encoding: chunked", body=b"0\r\nConnection: close\r\n\r\n") + HEALTH,
    ),
    "refused later": (
        [b"hi"],
        _post(b"Content-Length: 2", body=b"hi") + HEALTH.replace(b"1.1", b"2.0") + HEALTH,
    ),
    "connect": ([], b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n1234" + HEALTH),
    "RTSP": ([], HEALTH.replace(b"HTTP/1.1", b"RTSP/1.1") * 2),
    "coding": ([], _post(b"Transfer-Encoding: gzip, chunked", body=_CHUNKED) + HEALTH),
    "broken chunk": ([], _post(b"Transfer-Encoding: chunked", body=b"zz\r\n") + HEALTH),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_means_the_same_however_it_is_cut(name: str) -> None:
    bodies, stream = STREAMS[name]
    cuts = [[stream[:at], stream[at:]] for at in range(1, len(stream))]
    cuts.append([stream[at : at + 1] for at in range(len(stream))])
    whole, *others = asyncio.run(_heard([[stream], *cuts]))
    assert [each[-1] for each in whole[0]] == bodies
    for pieces, heard in zip(cuts, others, strict=True):
        assert heard == whole, pieces


def test_warnings_name_the_client_and_are_few(caplog: pytest.LogCaptureFixture) -> None:
    admission = Admission(ConnectionLimits(warnings_per_minute_max=3))

    async def refuse() -> None:
        config = uvicorn.Config(_Echo().application, log_config=None, interface="asgi3")
        for _ in range(9):
            loop = asyncio.get_running_loop()
            connection = Connection(config, ServerState(), {}, loop, admission=admission)
            wire = _Wire()
            wire._extra = {"peername": ("192.0.2.7", 1)}  # type: ignore[attr-defined]
            connection.connection_made(wire)
            connection.data_received(b"GET /a#b HTTP/1.1\r\nHost: x\r\n\r\n")
            connection.connection_lost(None)

    with caplog.at_level(logging.WARNING):
        asyncio.run(refuse())
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 3 and all("192.0.2.7" in line and "%23" in line for line in lines)


# ---- values of headers ---------------------------------------------------------------------------


def _type_of(live: Served, path: str) -> str:
    where = "/repositories/door/refs/main/objects"
    return live.client.send("GET", where, {"path": path}).headers["content-type"]


@pytest.mark.parametrize("kind", ["text/plain; name=\xfc", "text/plain; name=\xc3\xbc\xc3\x9f"])
@pytest.mark.parametrize("door", ["api", "s3"])
def test_a_content_type_comes_back_as_it_was_sent(live: Served, door: str, kind: str) -> None:
    way = _door(live, door)
    said = _answers(live, way.request(f"Content-Type: {kind}", "Connection: close"))
    assert _status(said) == way.status
    assert _type_of(live, way.path) == kind


def test_a_content_type_that_no_answer_could_have_is_refused(live: Served) -> None:
    way = _door(live, "form")
    body = FORM.replace(b"\r\n\r\n", "\r\nContent-Type: a/\u20ac\r\n\r\n".encode(), 1)
    said = _answers(live, replace(way, body=body).request("Connection: close"))
    assert _status(said) == 400 and b"ISO 8859-1" in said
    where, query = "/repositories/door/branches/main/staging/backing", {"path": way.path}
    given = live.client.send("GET", where, {**query, "presign": "true"}).json
    live.client.raw("PUT", given["presigned_url"].removeprefix(live.client.url), CONTENT)
    written = {"checksum": MD5.decode(), "size_bytes": len(CONTENT)}
    link = {"staging": {"physical_address": given["physical_address"]}, **written}
    for kind in ("a/\u20ac", "a/b\r\nX: y"):
        reply = live.client.send("PUT", where, query, body={**link, "content_type": kind})
        assert reply.status == 400 and "ISO 8859-1" in reply.message
    assert not _is_stored(live, way.path)
