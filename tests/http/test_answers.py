"""How answers become bytes: whole ones at once, and no header that ends its line."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from graveler.core.limits import SECOND_NS
from graveler.http.conditions import http_date
from graveler.http.connections import Admission, ConnectionLimits
from graveler.http.dispatch import direct_sender
from graveler.http.protocol import Connection

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LENGTH = (b"content-length", b"5")
SERVER_ERROR = b"HTTP/1.1 500 Internal Server Error\r\n"
Send = Callable[[dict[str, Any]], Coroutine[Any, Any, None]]
Steps = Callable[[Send], Coroutine[Any, Any, None]]


class _Wire(asyncio.Transport):
    """What was written, call by call, and whether it is open."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.closed = False

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


class _Conversation:
    """A connection whose application answers with `steps`."""

    def __init__(self, steps: Steps) -> None:
        async def application(_scope: Any, _receive: Any, send: Any) -> None:
            await steps(send)

        config = uvicorn.Config(application, ws="none", lifespan="off", log_config=None)  # type: ignore[arg-type]
        admission = Admission(ConnectionLimits())
        loop = asyncio.get_running_loop()
        self.wire = _Wire()
        self.connection = Connection(config, ServerState(), {}, loop, admission=admission)
        self.connection.connection_made(self.wire)

    async def ask(self, request: bytes = GET) -> list[bytes]:
        """All that was written, up to the answer of `request`."""
        self.connection.data_received(request)
        return await self.rest()

    async def rest(self) -> list[bytes]:
        """All that was written, once nothing more happens."""
        for _ in range(10):
            await asyncio.sleep(0)
        return self.wire.writes


def _asked(steps: Steps, request: bytes = GET) -> tuple[list[bytes], bool]:
    """The writes that answer a request, and whether the connection is closed after them."""

    async def run() -> tuple[list[bytes], bool]:
        conversation = _Conversation(steps)
        writes = await conversation.ask(request)
        closed = conversation.wire.closed
        conversation.connection.connection_lost(None)
        return writes, closed

    return asyncio.run(run())


def _start(*headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {"type": "http.response.start", "status": 200, "headers": [*headers]}


def _whole(*headers: tuple[bytes, bytes]) -> Steps:
    async def steps(send: Send) -> None:
        sender = direct_sender(send)
        assert sender is not None
        await sender.send_whole(_start(LENGTH, *headers), b"Hello")

    return steps


def test_a_whole_answer_is_written_at_once() -> None:
    assert _asked(_whole((b"X-Name", b"a\tb"))) == (
        [b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx-name: a\tb\r\n\r\nHello"],
        False,
    )


def test_a_connection_answers_one_request_after_the_other() -> None:
    writes, closed = _asked(_whole(), GET * 3)
    assert len(writes) == 3 and len(set(writes)) == 1
    assert not closed


def test_an_answer_to_head_has_no_body() -> None:
    (answer,), _ = _asked(_whole(), GET.replace(b"GET", b"HEAD"))
    assert answer.endswith(b"content-length: 5\r\n\r\n")


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nfour",
    ],
)
def test_an_answer_says_that_it_is_the_last(request_: bytes) -> None:
    (answer,), _ = _asked(_whole(), request_)
    assert answer.endswith(b"\r\nconnection: close\r\n\r\nHello")


@pytest.mark.parametrize(
    "header",
    [
        *((b"x", b"a" + each) for each in (b"\r\nb: c", b"\n", b"\r", b"\0", b"\x7f")),
        *((name, b"a") for name in (b"x\r\ny", b"x:", b"x y", b"x\0")),
    ],
)
def test_a_header_never_ends_its_line(header: tuple[bytes, bytes]) -> None:
    writes, _ = _asked(_whole(header))
    assert writes[0].startswith(SERVER_ERROR)
    assert b"Hello" not in b"".join(writes) and header[1] not in writes[0].split(b": ")


def test_an_answer_that_fails_before_it_begins_is_an_error() -> None:
    async def steps(send: Send) -> None:
        raise OSError("no answer")

    writes, _ = _asked(steps)
    assert writes[0].startswith(SERVER_ERROR)
    assert writes[1:] == [b"Internal Server Error"]


def test_a_streamed_answer_begins_before_its_body() -> None:
    async def steps(send: Send) -> None:
        await send(_start(LENGTH))
        await send({"type": "http.response.body", "body": b"Hel", "more_body": True})
        await send({"type": "http.response.body", "body": b"lo"})

    assert _asked(steps)[0][1:] == [b"Hel", b"lo"]


def test_an_answer_waits_while_the_client_does_not_read() -> None:
    async def run() -> None:
        conversation = _Conversation(_whole())
        conversation.connection.pause_writing()
        assert await conversation.ask() == []
        conversation.connection.resume_writing()
        assert len(await conversation.rest()) == 1
        conversation.connection.pause_writing()
        await conversation.ask()
        conversation.connection.connection_lost(None)
        assert len(await conversation.rest()) == 1  # nobody is there to read the second answer

    asyncio.run(run())


def test_times_are_in_the_format_of_http() -> None:
    assert http_date(784111777 * SECOND_NS + 999) == "Sun, 06 Nov 1994 08:49:37 GMT"
    assert http_date(0) == "Thu, 01 Jan 1970 00:00:00 GMT"
    assert http_date(-SECOND_NS) == "Wed, 31 Dec 1969 23:59:59 GMT"
