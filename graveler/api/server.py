"""The HTTP/1.1 server: one process that serves the application until it gets SIGINT or SIGTERM.

A stop is graceful.  The server accepts no new connections, finishes requests in flight (for at most
`_STOP_SECONDS`), and then the application closes its resources.  Every connection is limited in
size, time and number, as connections.py describes.  Used by the commands.

If an answer is sent before its request has arrived in full, the server closes the connection
after it.  It first reads and drops the rest of the request, up to a limit.  If it closed with
unread bytes, the operating system would reset the connection, and the client would lose the answer.
"""

from asyncio import BaseTransport, TimerHandle
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from graveler.api.connections import Admission, Admittance, ConnectionLimits
from graveler.api.cycles import Cycle
from graveler.api.file_bodies import FileSender
from graveler.api.front import DIRECT, Front
from graveler.api.responses import FILE_BODIES
from graveler.api.start import Application

_STOP_SECONDS: Final = 20
_HEAD_END: Final = b"\r\n\r\n"
_BACKLOG: Final = 1_024
BOUNDS: Final = ConnectionLimits()


def _refusal(status: str, message: str, *headers: bytes) -> bytes:
    body = b'{"message":"%s"}' % message.encode("ascii")
    lines = (
        b"HTTP/1.1 " + status.encode("ascii"),
        b"content-type: application/json",
        b"content-length: %d" % len(body),
        b"connection: close",
        *headers,
    )
    return b"\r\n".join((*lines, b"", body))


_TOO_LONG: Final = "431 Request Header Fields Too Large"
_LATE: Final = _refusal("408 Request Timeout", "request has an error: it arrives too slowly")
_RETRY: Final = b"retry-after: 1"
_REFUSED: Final = {
    Admittance.FULL: _refusal(
        "503 Service Unavailable", "too many connections are open; try again", _RETRY
    ),
    Admittance.TOO_MANY: _refusal(
        "429 Too Many Requests", "too many connections of this address; try again", _RETRY
    ),
}


class _Connection(HttpToolsProtocol):
    """The life of a connection: whether it may stay, how it is closed, and the minimum rate at
    which its client reads."""

    def __init__(self, *arguments: Any, admission: Admission, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._admission = admission
        self._bounds = admission.bounds
        self._admitted = Admittance.FULL
        self._refused_stays = False
        self._in_head = False
        self._head_bytes = 0
        self._loose_bytes = 0  # received since the last head or piece of a body ended
        self._body_bytes = 0
        self._body_bytes_seen = 0  # `_body_bytes` when the window began
        self._ending = False  # answered: further bytes are dropped
        self._deaf = False  # refused: further bytes are not parsed
        self._begun = False  # a head began in the bytes received last
        self._answering: RequestResponseCycle | None = None  # the request that has begun last
        self._bodies_bytes = 0  # bytes of bodies among the bytes received last
        self._owed = b""  # a refusal to send after the current answer
        self._reading: TimerHandle | None = None
        self._awaits: Callable[[], None] | None = None  # the call that `_reading` makes
        self._writing: TimerHandle | None = None
        self._idling: TimerHandle | None = None  # one for many requests
        self._idle_since: float | None = None  # None: a request is under way

    def connection_made(self, transport: BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        self.flow = _Flow(self.transport)
        self._sender = FileSender(self.loop, self.transport, self.flow, self._bounds)
        self._extensions: dict[str, Any] = {FILE_BODIES: {}} if self._sender.serves else {}
        self._outlet = _Outlet(self, self._sender)
        self._admitted = self._admission.enter(self._address)
        if self._admitted is Admittance.YES:
            self._await(self._bounds.head_seconds, self._close)
        else:
            self._turn_away(_REFUSED[self._admitted])

    def _turn_away(self, answer: bytes) -> None:
        """Refuse a new connection before its first request.

        The client may send its request before it reads this answer, so the server drops the request
        for a while instead of closing.
        """
        self._deaf = self._ending = True
        self.transport.write(answer)
        self._refused_stays = self._admission.enter_refused()
        if self._refused_stays:
            self.transport.write_eof()
            self._await(self._bounds.linger_seconds, self._close)
        else:
            self._close()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._sender.lose()
        if self._admitted is Admittance.YES:
            self._admission.leave(self._address)
        if self._refused_stays:
            self._admission.leave_refused()
        self._admitted, self._refused_stays = Admittance.FULL, False
        self._await(0.0, None)
        self._cancel_writing()
        if self._idling is not None:
            self._idling.cancel()
        if self._answering is not None and not self._answering.response_complete:
            # uvicorn tells only the newest request, which may still wait behind this one.
            self._answering.disconnected = True
            self._answering.message_event.set()
        # Each of these refers to the connection.  Without them it is freed when its last request
        # ends, and not when Python's collector comes.
        self.cycle = self._answering = self._outlet = None  # type: ignore[assignment]
        self.pipeline.clear()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def end(self) -> None:
        """Close the connection after the rest of the request has been read and dropped."""
        request = self._request
        if self._ending or request is None or not request.more_body:
            self._close()
            return
        self._ending = True
        self._loose_bytes = 0
        self.flow.resume_reading()
        self._await(self._bounds.linger_seconds, self._close)

    def _unset_keepalive_if_required(self) -> None:
        self._idle_since = None

    def _go_on(self) -> None:
        """After an answer: begin the next request that has arrived, or wait for one.

        uvicorn does the same, but sets a timer after each answer and cancels it at each request.
        """
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        self._idle_since = self.loop.time()
        if self._idling is None:
            self._idling = self.loop.call_later(self._bounds.idle_seconds, self._check_idle)

    def _check_idle(self) -> None:
        self._idling = None
        if self._idle_since is None:
            return  # the answer that is under way sets the timer again
        left = self._idle_since + self._bounds.idle_seconds - self.loop.time()
        if left > 0:
            self._idling = self.loop.call_later(left, self._check_idle)
        else:
            self._close()

    def _close(self) -> None:
        """Send the answer that is still buffered, for a limited time, and close."""
        if not self.transport.is_closing():
            self.transport.close()
            self._await(self._bounds.linger_seconds, self.transport.abort)

    def _refuse(self, answer: bytes) -> None:
        """Send `answer` in place of the application's answer, unless that one has begun.

        If the application is still answering a complete request, `answer` refuses the bytes behind
        that request, and is sent after its answer.
        """
        if self._deaf or self.transport.is_closing():
            return
        self._deaf = self._ending = True
        self._loose_bytes = 0
        request = self._request
        answering = request is not None and not request.response_complete
        if request is not None and answering and (self.pipeline or not request.more_body):
            if self.pipeline and request.more_body:
                self.pipeline.popleft()  # the refused request, which has not begun
            self._owed = answer
            self._await(0.0, None)
            return
        if request is not None and answering:
            request.disconnected = True
            request.message_event.set()
        if not answering or request is None or not request.response_started:
            self.transport.write(answer)
        self.flow.resume_reading()
        self._await(self._bounds.linger_seconds, self._close)

    @property
    def _request(self) -> RequestResponseCycle | None:
        """The last request whose head was complete; None before the first."""
        return self.cycle

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""

    def _await(self, seconds: float, call: Callable[[], None] | None) -> None:
        """Set the read timer: `call` after `seconds`.  It replaces the previous timer.  `call`
        None: no timer."""
        if self._reading is not None:
            self._reading.cancel()
        self._awaits = call
        self._reading = None if call is None else self.loop.call_later(seconds, call)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_writing()

    def resume_writing(self) -> None:
        self._cancel_writing()
        super().resume_writing()

    def _await_writing(self) -> None:
        waiting = self.transport.get_write_buffer_size()
        seconds = self._bounds.progress_seconds
        self._writing = self.loop.call_later(seconds, self._check_writing, waiting)

    def _check_writing(self, before: int) -> None:
        if before - self.transport.get_write_buffer_size() < self._bounds.progress_bytes_min:
            self.transport.abort()
        else:
            self._await_writing()

    def _cancel_writing(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None


class BoundedProtocol(_Connection):
    """HTTP/1.1 within the limits of `admission`: the sizes of requests and their deadlines."""

    def data_received(self, data: bytes) -> None:
        self._loose_bytes += len(data)
        self._begun, self._bodies_bytes = False, 0
        if not self._deaf:
            super().data_received(data)
        if self._begun and self._in_head:
            # The parser does not report where the head begins.  It begins behind all bodies and
            # other heads in these bytes.
            heads = data.rfind(_HEAD_END)
            others = max(self._bodies_bytes, 0 if heads < 0 else heads + len(_HEAD_END))
            self._loose_bytes = len(data) - others
        if self.transport.is_closing():
            return
        if self._ending:
            if self._loose_bytes > self._bounds.linger_bytes_max:
                self._close()
        elif self._loose_bytes > self._bounds.head_bytes_max:
            self._refuse_long()
        else:
            self._watch()
            request = self._request
            if self._awaits is None and (request is None or request.response_complete):
                # A lone line break begins no request; the connection must still have a deadline.
                self._await(self._bounds.idle_seconds, self._close)

    def send_400_response(self, msg: str) -> None:
        self._refuse(_refusal("400 Bad Request", "request has an error: it must be HTTP/1.1"))

    def on_message_begin(self) -> None:
        self._in_head = self._begun = True
        self._head_bytes = 0
        if not self._ending:
            self._loose_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._head_bytes += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # trailers are ignored
            self._head_bytes += len(name) + len(value)
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if not self._ending and self._head_bytes > self._bounds.head_bytes_max:
            self._refuse_long()
        elif not self._ending and len(self.pipeline) >= self._bounds.pipeline_count_max:
            self._refuse(_REFUSED[Admittance.TOO_MANY])
        self._in_head = False
        self._body_bytes = self._body_bytes_seen = 0
        if self._ending:
            return
        self._loose_bytes = 0
        super().on_headers_complete()
        self.scope["extensions"] = self._extensions
        self.cycle.__class__ = Cycle  # uvicorn has no setting for this class
        self.cycle.transport = self._outlet  # type: ignore[assignment]

    def on_chunk_header(self) -> None:
        """The line before a piece of a chunked body; also called before trailers."""
        if not self._ending:
            self._loose_bytes = 0

    def on_body(self, body: bytes) -> None:
        if self._ending:
            return
        self._loose_bytes = 0
        self._bodies_bytes += len(body)
        self._body_bytes += len(body)
        cycle = self.cycle
        held = cast("bytes | bytearray", cycle.body)
        if not held:
            cycle.body = body  # type: ignore[assignment]  # uvicorn would copy it twice
            body = b""
        elif not isinstance(held, bytearray):
            cycle.body = bytearray(held)  # many small pieces are appended in place
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._ending:
            super().on_message_complete()
        elif not self._owed:
            self._close()

    def on_response_complete(self) -> None:
        if self._ending and not self.pipeline:
            self.server_state.total_requests += 1
            if self._owed and not self.transport.is_closing():
                self.transport.write(self._owed)
                self._close()
        else:  # requests before a refused head are answered first
            self._go_on()
            if self.pipeline:
                self.flow.pause_reading()
            if not self._ending:
                self._watch()

    def _refuse_long(self) -> None:
        count_max = self._bounds.head_bytes_max
        message = f"request head has an error: it must have at most {count_max} bytes"
        self._refuse(_refusal(_TOO_LONG, message))

    # ---- deadlines ----

    def _watch(self) -> None:
        """Set the timer for the current state.  A request that arrives in full at once needs
        none."""
        request = self._request
        if self._in_head:
            if self._awaits != self._late:
                self._await(self._bounds.head_seconds, self._late)
        elif request is not None and request.more_body and not request.response_complete:
            if self._awaits != self._check_body:
                self._await(self._bounds.progress_seconds, self._check_body)
        elif self._awaits is not None and request is not None:
            self._await(0.0, None)

    def _late(self) -> None:
        if self._taken_pause():
            self._await(self._bounds.head_seconds, self._late)
        else:
            self._refuse(_LATE)

    def _check_body(self) -> None:
        """Check the rate of the body at the end of a window.

        A window counts as on time if the server itself paused reading in it, or if the client still
        waits for `100 Continue`.
        """
        cycle = self.cycle
        held_up = self._taken_pause() or cycle.waiting_for_100_continue
        moved = self._body_bytes - self._body_bytes_seen
        if cycle.response_complete or not cycle.more_body:
            self._await(0.0, None)
        elif held_up or moved >= self._bounds.progress_bytes_min:
            self._body_bytes_seen = self._body_bytes
            self._await(self._bounds.progress_seconds, self._check_body)
        else:
            self._refuse(_LATE)

    def _taken_pause(self) -> bool:
        flow = self.flow
        assert isinstance(flow, _Flow)
        return flow.taken_pause()


class _Flow(FlowControl):
    """Flow control that remembers pauses: whether the server stopped reading from the client."""

    _paused = False

    def pause_reading(self) -> None:
        self._paused = True
        super().pause_reading()

    def taken_pause(self) -> bool:
        """Whether reading was paused at any time since the last call."""
        paused, self._paused = self._paused or self.read_paused, False
        return paused


class _Outlet:
    """The transport to which the answers of a connection are written."""

    def __init__(self, connection: _Connection, sender: FileSender) -> None:
        self._connection = connection
        self.send_file = sender.send
        self.write = connection.transport.write
        self.is_closing = connection.transport.is_closing

    def close(self) -> None:
        self._connection.end()


class Server(uvicorn.Server):
    """A server that calls `on_ready` with its port when it listens."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[int], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self.started and not self.should_exit:
            self._on_ready(self.servers[0].sockets[0].getsockname()[1])


def make_server(
    application: Application,
    host: str,
    port: int,
    on_ready: Callable[[int], None],
    *,
    bounds: ConnectionLimits = BOUNDS,
    front: Front = DIRECT,
) -> Server:
    """A server for `application`.

    `run()` blocks until SIGINT or SIGTERM.  `on_ready` gets the port.  `port` 0 means any free
    port.
    """
    protocol: Any = partial(BoundedProtocol, admission=Admission(bounds, front))
    config = uvicorn.Config(
        application,
        host=host,
        port=port,
        http=protocol,
        loop="uvloop",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        date_header=True,
        backlog=_BACKLOG,
        timeout_keep_alive=bounds.idle_seconds,
        timeout_graceful_shutdown=_STOP_SECONDS,
    )
    return Server(config, on_ready)
