"""Requests that leave by way of a function of its own: handed over once, judged on both sides."""

import base64
import json
import socket
from dataclasses import dataclass, field
from typing import Any

import pytest

from graveler.core import limits
from graveler.core.aws import AwsSession, AwsSettings
from graveler.core.clock import Clock, SystemClock
from graveler.core.errors import Refused, Unavailable
from graveler.core.web import Outgoing, Reply, Sender
from graveler.hooks import egress
from graveler.hooks.egress import EgressRules, WebSender
from graveler.hooks.function import FunctionSender
from tests.hooks.web import Web, answering, served
from tests.support.clockwork import TickingClock

LOCAL = EgressRules(("127.0.0.1:*", "localhost:*"), loopback=True)
EVERY_BYTE = bytes(range(256))


@dataclass
class Lambda:
    """Stands in for the service: runs the function with `sender`, or answers what `before` has."""

    sender: Sender
    clock: Clock = field(default_factory=SystemClock)
    before: list[bytes] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)

    def react(self, connection: socket.socket, request: bytes) -> None:
        head, _, body = request.partition(b"\r\n\r\n")
        assert head.startswith(b"POST /2015-03-31/functions/lake-hooks/invocations ")
        self.events.append(json.loads(body))
        if self.before:
            connection.sendall(self.before.pop(0))
            return
        answer = egress.answered(self.events[-1], self.sender, self.clock)
        connection.sendall(ok(json.dumps(answer)))


def ok(text: str, head: str = "") -> bytes:
    """What the service answers with the payload of a function."""
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\n{head}\r\n{text}".encode()


def failed(status: int, code: str) -> bytes:
    """What the service answers if it runs no function."""
    text = json.dumps({"Reason": code, "message": "no"})
    head = f"HTTP/1.1 {status} X\r\nx-amzn-ErrorType: {code}\r\nContent-Length: {len(text)}\r\n"
    return f"{head}\r\n{text}".encode()


BUSY = failed(429, "TooManyRequestsException")

_SECONDS = 60  # the longest time of a hook: a slow machine is no failure


def sender_to(web: Web, rules: EgressRules = LOCAL, clock: Any = None) -> FunctionSender:
    endpoint = f"http://127.0.0.1:{web.port}"
    session = AwsSession(AwsSettings("us-east-1", endpoint, "test", "test"))
    return FunctionSender(session, "lake-hooks", rules, clock or SystemClock())


def _post(url: str, body: bytes = b"{}") -> Outgoing:
    return Outgoing("POST", url, {"X-Signature": "of the caller"}, body)


def _direct() -> WebSender:
    return WebSender(LOCAL, SystemClock())


def test_a_request_arrives_as_it_was_signed_and_its_answer_comes_back() -> None:
    service = Lambda(_direct())
    with served(answering(201, EVERY_BYTE)) as other, served(service.react) as web:
        assert sender_to(web).send(_post(other.url, EVERY_BYTE), _SECONDS) == Reply(201, EVERY_BYTE)
    (request,) = other.requests
    head, _, body = request.partition(b"\r\n\r\n")
    assert body == EVERY_BYTE and b"\r\nX-Signature: of the caller\r\n" in head
    (event,) = service.events
    assert 0 < event["seconds"] <= _SECONDS - 0.5  # it ends while the caller still listens


def test_what_the_caller_may_not_reach_is_never_handed_over() -> None:
    service = Lambda(_direct())
    with served(service.react) as web, pytest.raises(Refused, match="allow-list"):
        sender_to(web).send(_post("https://elsewhere.example/"), _SECONDS)
    assert service.events == []


def test_the_function_judges_by_its_own_rules() -> None:
    service = Lambda(WebSender(EgressRules(("localhost:*",), loopback=True), SystemClock()))
    with (
        served(answering()) as other,
        served(service.react) as web,
        pytest.raises(Refused, match="allow-list"),
    ):
        sender_to(web).send(_post(other.url), _SECONDS)
    assert len(service.events) == 1 and other.requests == []


def test_the_function_connects_to_public_addresses_alone() -> None:
    """The caller looks no name up: the one that connects does."""
    rules = EgressRules(("hooks.example.com",))
    names = lambda host, port, seconds: ["169.254.169.254"]  # noqa: E731
    service = Lambda(WebSender(rules, SystemClock(), names))
    with served(service.react) as web, pytest.raises(Refused, match="not public"):
        sender_to(web, rules).send(_post("https://hooks.example.com/"), _SECONDS)
    assert len(service.events) == 1


def test_what_went_wrong_outside_is_said() -> None:
    service = Lambda(_direct())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    with served(service.react) as web, pytest.raises(Unavailable, match="no answer: Connection"):
        sender_to(web).send(_post(url), _SECONDS)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (ok('{"errorMessage":"x"}', "X-Amz-Function-Error: Unhandled\r\n"), "function of hooks fa"),
        (failed(403, "AccessDeniedException"), "AccessDeniedException"),
        (failed(500, "ServiceException"), "ServiceException"),
        (ok(json.dumps("x" * limits.hook_envelope_length_bytes_max)), "function of hooks failed"),
        (b"", "may have sent the request"),
        (ok("[]"), "another form"),
        (ok("{"), "another form"),
        (ok("{}"), "another form"),
        (ok('{"status": true, "body": ""}'), "another form"),
        (ok('{"status": 200, "body": "?"}'), "another form"),
    ],
)
def test_a_request_that_may_have_been_sent_is_not_sent_again(answer: bytes, text: str) -> None:
    service = Lambda(_direct(), before=[answer])
    with served(service.react) as web, pytest.raises(Unavailable, match=text):
        sender_to(web).send(_post("http://127.0.0.1:1/"), _SECONDS)
    assert len(service.events) == 1


def test_a_request_waits_for_a_free_function() -> None:
    clock = TickingClock()
    service = Lambda(_direct(), clock, [BUSY, BUSY])
    with served(answering(200, b"ok")) as other, served(service.react) as web:
        assert sender_to(web, clock=clock).send(_post(other.url), 10) == Reply(200, b"ok")
    assert len(service.events) == 3 and len(other.requests) == 1
    assert service.events[2]["seconds"] < service.events[0]["seconds"]


def test_a_request_whose_caller_has_given_up_is_not_sent() -> None:
    """The function starts when nobody listens any more, as after a long cold start."""
    clock, late = TickingClock(), TickingClock()
    service = Lambda(Never(), late)
    with served(service.react) as web:
        late.sleep(9.6)
        with pytest.raises(Unavailable, match="too late, and was not sent"):
            sender_to(web, clock=clock).send(_post("http://127.0.0.1:1/"), 10)
    assert len(service.events) == 1


def test_time_on_the_way_is_time_of_the_exchange() -> None:
    asked: list[float] = []

    class Noting:
        def send(self, request: Outgoing, seconds: float) -> Reply:
            asked.append(seconds)
            return Reply(204, b"")

    clock, late = TickingClock(), TickingClock()
    with served(Lambda(Noting(), late).react) as web:
        late.sleep(4)
        assert sender_to(web, clock=clock).send(_post("http://127.0.0.1:1/"), 10).status == 204
    assert asked == [pytest.approx(5.5, abs=0.01)]


def test_it_does_not_wait_for_longer_than_its_time() -> None:
    service = Lambda(_direct(), before=[BUSY] * 50)
    with served(service.react) as web, pytest.raises(Unavailable, match="no function was free"):
        sender_to(web, clock=TickingClock()).send(_post("http://127.0.0.1:1/"), 1)
    assert 1 < len(service.events) < 10
    with served(service.react) as web, pytest.raises(Unavailable, match="no function was free"):
        sender_to(web).send(_post("http://127.0.0.1:1/"), 0)


def test_a_request_has_a_largest_size() -> None:
    service = Lambda(_direct())
    body = bytes(limits.hook_request_length_bytes_max)
    with served(service.react) as web, pytest.raises(Refused, match="too large"):
        sender_to(web).send(_post("http://127.0.0.1:1/", body), _SECONDS)
    assert service.events == []


# ---- what the function takes ---------------------------------------------------------------------

EVENT = {"method": "POST", "url": "http://127.0.0.1:1/", "headers": {}, "body": "", "seconds": 5}
EVENT |= {"end": 4e9}


class Never:
    """A `Sender` that must not be used."""

    def send(self, request: Outgoing, seconds: float) -> Reply:
        raise AssertionError(request)


@pytest.mark.parametrize(
    "event",
    [
        None,
        [],
        {},
        {**EVENT, "more": 1},
        {**EVENT, "method": "DELETE"},
        {**EVENT, "method": ["GET"]},
        {**EVENT, "url": 1},
        {**EVENT, "headers": []},
        {**EVENT, "headers": {"a": 1}},
        {**EVENT, "body": "?"},
        {**EVENT, "body": 1},
        {**EVENT, "seconds": "5"},
        {**EVENT, "seconds": True},
        {**EVENT, "seconds": 0},
        {**EVENT, "seconds": float("nan")},
        {**EVENT, "seconds": float("inf")},
        {**EVENT, "end": "5"},
        {**EVENT, "end": -1},
        {**EVENT, "end": float("nan")},
    ],
)
def test_the_function_sends_nothing_of_another_form(event: object) -> None:
    assert list(egress.answered(event, Never(), TickingClock())) == ["refused"]


def test_the_function_takes_no_longer_than_a_hook_may() -> None:
    asked: list[float] = []

    class Noting:
        def send(self, request: Outgoing, seconds: float) -> Reply:
            asked.append(seconds)
            return Reply(204, b"\xff")

    answer = egress.answered({**EVENT, "seconds": 1e9}, Noting(), TickingClock())
    assert asked == [limits.hook_seconds_max]
    assert answer == {"status": 204, "body": base64.b64encode(b"\xff").decode()}
