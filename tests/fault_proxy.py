"""A proxy in front of a service that fails on demand: what a network and a busy service do.

A fault decides what one request comes to.  It may forward it or not, once or twice, now or later,
and answers whatever it likes, or nothing.  Planned faults are used up in order, each by the next
request that it is meant for; requests without a fault pass through.  For tests of drivers.
"""

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.http_server import QuietHandler, http_server


class Request(NamedTuple):
    """What the client sent.  `operation`: of DynamoDB's protocol, else the method."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def operation(self) -> str:
        return self.headers.get("x-amz-target", self.method).rpartition(".")[2]


class Reply(NamedTuple):
    """What the client gets."""

    status: int
    headers: Mapping[str, str]
    body: bytes


Forward = Callable[[Request], Reply]
Fault = Callable[[Request, Forward], Reply | None]  # None: the connection is closed unanswered


def lost_request(request: Request, forward: Forward) -> Reply | None:
    """Nothing arrives."""
    return None


def lost_answer(request: Request, forward: Forward) -> Reply | None:
    """Applied; nobody says so."""
    forward(request)
    return None


def error_after(request: Request, forward: Forward) -> Reply | None:
    """Applied, and answered 500."""
    forward(request)
    return error_before(request, forward)


def error_before(request: Request, forward: Forward) -> Reply | None:
    """Not applied, and answered 500."""
    return refusal(500, "InternalServerError")(request, forward)


def twice(request: Request, forward: Forward) -> Reply | None:
    """Applied twice, as if something in between had sent it again; the second answer counts."""
    forward(request)
    return forward(request)


def cut(request: Request, forward: Forward) -> Reply | None:
    """Applied; the answer breaks off in its middle, though its length was announced."""
    reply = forward(request)
    headers = {**reply.headers, "content-length": str(len(reply.body))}
    return Reply(reply.status, headers, reply.body[: len(reply.body) // 2])


def slow_answer(seconds: float) -> Fault:
    """Applied, and answered too late."""

    def fault(request: Request, forward: Forward) -> Reply | None:
        reply = forward(request)
        time.sleep(seconds)
        return reply

    return fault


def refusal(status: int, code: str, **more: Any) -> Fault:
    """Not applied; answered in the form of DynamoDB's errors."""
    body = json.dumps({"__type": f"com.amazonaws.dynamodb#{code}", "message": code, **more})
    headers = {"content-type": "application/x-amz-json-1.0"}
    return lambda request, forward: Reply(status, headers, body.encode())


throttle = refusal(400, "ProvisionedThroughputExceededException")


def unprocessed(done: int) -> Fault:
    """Of a batch on one table only the first `done` rows are processed."""

    def fault(request: Request, forward: Forward) -> Reply | None:
        asked = json.loads(request.body)
        [(table, rows)] = asked["RequestItems"].items()
        reads = isinstance(rows, dict)
        todo = rows["Keys"] if reads else rows
        left = {**rows, "Keys": todo[done:]} if reads else todo[done:]
        answer: dict[str, Any] = {"Responses": {table: []}} if reads else {}
        if done:
            some = {**rows, "Keys": todo[:done]} if reads else todo[:done]
            body = json.dumps({**asked, "RequestItems": {table: some}}).encode()
            answer = json.loads(forward(request._replace(body=body)).body)
        answer["UnprocessedKeys" if reads else "UnprocessedItems"] = {table: left}
        return Reply(
            200, {"content-type": "application/x-amz-json-1.0"}, json.dumps(answer).encode()
        )

    return fault


class FaultProxy:
    """The proxy's switchboard.  Thread-safe."""

    def __init__(self, upstream: str) -> None:
        self._upstream = urlsplit(upstream).netloc
        self._lock = threading.Lock()
        self._planned: list[tuple[str, Fault]] = []
        self._held: list[Request] = []
        self.url = ""
        self.operations: list[str] = []

    def plan(self, *faults: Fault, operation: str = "") -> None:
        """Let the next requests, or the next of `operation`, meet these faults in turn."""
        with self._lock:
            self._planned += [(operation, fault) for fault in faults]

    def calm(self) -> None:
        """Forget what is planned and was met by nobody."""
        with self._lock:
            self._planned.clear()

    def hold(self, request: Request, forward: Forward) -> Reply | None:
        """A fault: answered 500 at once, delivered when `deliver` is called."""
        with self._lock:
            self._held.append(request)
        return error_before(request, forward)

    def deliver(self) -> list[Reply]:
        """What became of the requests that were held."""
        with self._lock:
            held, self._held = self._held, []
        return [self.forward(request) for request in held]

    def pending(self) -> int:
        """Faults that no request has met yet: a test that ends with some tested nothing."""
        with self._lock:
            return len(self._planned)

    def forward(self, request: Request) -> Reply:
        """Send it on, over a connection of its own."""
        connection = http.client.HTTPConnection(self._upstream, timeout=30)
        try:
            headers = {k: v for k, v in request.headers.items() if k not in _HOP}
            connection.request(request.method, request.path, request.body, headers)
            answer = connection.getresponse()
            body = answer.read()
            drop = _HOP - {"content-length"} if request.method == "HEAD" else _HOP
            kept = {k.lower(): v for k, v in answer.getheaders() if k.lower() not in drop}
            return Reply(answer.status, kept, body)
        finally:
            connection.close()

    def answer(self, request: Request) -> Reply | None:
        """What the client gets, by the next fault that is meant for the request."""
        with self._lock:
            self.operations.append(request.operation)
            meant = (
                i for i, (name, _) in enumerate(self._planned) if name in ("", request.operation)
            )
            at = next(meant, None)
            fault = None if at is None else self._planned.pop(at)[1]
        return self.forward(request) if fault is None else fault(request, self.forward)


_HOP = frozenset({"connection", "content-length", "keep-alive", "transfer-encoding"})


@contextmanager
def fault_proxy(upstream: str) -> Iterator[FaultProxy]:
    """A proxy before the URL `upstream`, on a free port of this machine."""
    proxy = FaultProxy(upstream)

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except ConnectionError:  # the client gave up waiting
                self.close_connection = True

        def _serve(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Request(self.command, self.path, headers, self.rfile.read(length))
            reply = proxy.answer(request)
            if reply is None:
                self.close_connection = True
                return
            self.send_response_only(reply.status)
            for name, value in {"content-length": str(len(reply.body)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)
            self.close_connection = len(reply.body) < int(reply.headers.get("content-length", 0))

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _serve

    with http_server(Handler) as proxy.url:
        yield proxy
