"""The protocol HTTP/1.1 of one connection: bytes to requests, answers to bytes.

A connection has one request at a time, and every one is limited in size and time (connections.py).
Private names of uvicorn stand only here (tests/http/test_uvicorn.py names what is gone of them).
"""

import json
import logging
import sys
from asyncio import BaseTransport, Event, TimerHandle, Transport
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Final, cast
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from graveler.http import connections
from graveler.http.connections import BAD_REQUEST, CHUNKED, Admission, Admittance, BadHead, Head
from graveler.http.file_bodies import FileSender, Write

# ---- one request and its answer ------------------------------------------------------------------

_NAMES_MAX: Final = 512
_CONTROL: Final = bytes(code for code in (*range(32), 127) if code != ord("\t"))
_BREAK: Final = b"\r\n"
_CLOSE: Final = b"connection: close"


class Cycle(RequestResponseCycle):
    """One request and its answer, which it takes directly too (`dispatch.DirectSender`).

    The connection closes after an answer that begins before the request has arrived in full.
    """

    sends_files = False

    async def send(self, message: Any) -> None:
        if not self.response_started and self.more_body:
            self.keep_alive = False
        await super().send(message)

    async def send_file(self, write: Write, _: object) -> None:
        if self.disconnected:
            return
        if not await self.transport.send_file(write, self.expected_content_length):  # type: ignore[attr-defined]
            self.disconnected = True
            return
        self.expected_content_length = 0
        await super().send({"type": "http.response.body", "body": b"", "more_body": False})

    async def send_whole(self, start: Mapping[str, Any], body: bytes) -> None:
        # uvicorn does this in two steps
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if self.more_body:
            self.keep_alive = False
        ending = () if self.keep_alive else (_CLOSE,)
        answer = _head(start["status"], self.default_headers, start["headers"], ending)
        self.response_started, self.waiting_for_100_continue = True, False
        self.transport.write(answer + body if self.scope["method"] != "HEAD" else answer)
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()


def _head(
    status: int,
    defaults: Iterable[tuple[bytes, bytes]],
    headers: Iterable[tuple[bytes, bytes]],
    ending: Iterable[bytes],
) -> bytes:
    """The head of an answer.  Raises `ValueError` for a name or a value that could end its line."""
    lines: list[bytes] = []
    for name, value in (*defaults, *headers):
        lines.append(_named(name) + value)
    lines += ending
    text = _BREAK.join(lines)
    if len(text.translate(None, _CONTROL)) != len(text) - len(_BREAK) * (len(lines) - 1):
        raise ValueError("header has a control character in its value")
    return STATUS_LINE[status] + text + _BREAK + _BREAK


@lru_cache(maxsize=_NAMES_MAX)
def _named(name: bytes) -> bytes:
    """The beginning of the line of a header.  Raises `ValueError`."""
    if HEADER_RE.search(name):
        raise ValueError("header has a character that no name may have")
    return name.lower() + b": "


# ---- connections ---------------------------------------------------------------------------------

_LOG = logging.getLogger("graveler.api")
_WRITE_BYTES: Final = 64 * 1024  # that wait for the client, as without TLS; then answers pause
_TLS_END_SECONDS: Final = 1.0
_LINE_END: Final = b"\r\n"
_HEAD_END: Final = _LINE_END * 2
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_LINE_KEPT: Final = 32  # bytes; longer than the version, and than any method
_CHUNKED_FRAMING: Final = b"Transfer-Encoding: chunked"


def _refusal(status: str, message: str, *headers: bytes) -> bytes:
    body = json.dumps({"message": message}).encode("ascii")
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
_INCOMPLETE: Final = _refusal(BAD_REQUEST, "request has an error: it ended before it was complete")
_FAILED: Final = _refusal("500 Internal Server Error", "internal error")
_NO_TLS: Final = "request has an error: this port serves only https"
_RETRY: Final = b"retry-after: 1"
_REFUSED: Final = {
    Admittance.FULL: _refusal(
        "503 Service Unavailable", "too many connections are open; try again", _RETRY
    ),
    Admittance.TOO_MANY: _refusal(
        "429 Too Many Requests", "too many connections of this address; try again", _RETRY
    ),
}


class Connection(HttpToolsProtocol):
    """One connection of a client, within the limits of `admission`.

    The parser gets pieces of which none reaches beyond the end of a request.  The bytes behind a
    request wait, unparsed and bounded, until it is answered.
    """

    def __init__(self, *arguments: Any, admission: Admission, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.parser = self._new_parser()
        self.bounds = admission.bounds
        self._admission = admission
        self._admitted = Admittance.FULL
        self._refused_stays = False
        self._address: str | None = None  # None: not counted yet
        self._has_tls = False
        # the request that arrives
        self._in_head = False
        self._in_body = False
        self._length = 0  # of the body of the last request, as its head says
        self._head_bytes = 0  # of its header lines
        self._body_bytes = 0
        self._body_bytes_seen = 0  # `_body_bytes` when the window began
        self._body_left = 0  # bytes of a body that have not arrived; 0 for a chunked one
        self._loose_bytes = 0  # received since the last head or piece of a body ended
        self._first_line = b""  # the end of it, and what arrived with it
        self._tail = b""  # last bytes of a head or of a chunked body, of which more follows
        self._parser_stops = False  # behind the present head, although HTTP goes on
        self._is_reframed = False
        self._held = b""  # bytes behind a request that is not answered yet
        # the end of the connection
        self._ending = False  # answered: further bytes are dropped
        self._deaf = False  # further bytes are not parsed
        self._at_eof = False  # the client sends nothing more
        self._reading: TimerHandle | None = None
        self._awaits: Callable[[], None] | None = None  # the call that `_reading` makes
        self._writing: TimerHandle | None = None
        self._idling: TimerHandle | None = None  # one for many requests
        self._sender: FileSender | None = None
        self._idle_since: float | None = None  # None: a request is under way

    def connection_made(self, transport: BaseTransport) -> None:
        expects_tls = self._address is not None
        if not expects_tls:
            peer = transport.get_extra_info("peername")
            self.admit(peer[0] if isinstance(peer, tuple) else "")
        super().connection_made(transport)  # type: ignore[arg-type]
        self.flow = self._flow = _Flow(self.transport)
        # With `close` and `send_file`, what a request takes for its transport.
        self.write, self.is_closing = self.transport.write, self.transport.is_closing
        self._has_tls = self.transport.get_extra_info("sslcontext") is not None
        if self._has_tls:
            self.transport.set_write_buffer_limits(_WRITE_BYTES)
        sends_files = sys.platform == "linux" and not self._has_tls
        sends_files = sends_files and self.transport.get_extra_info("socket")
        self._sends_files = bool(sends_files)
        if self._admitted is not Admittance.YES:
            self._turn_away(_REFUSED[self._admitted])
        elif expects_tls and not self._has_tls:
            self.warn(_NO_TLS)
            self._turn_away(_refusal(BAD_REQUEST, _NO_TLS))
        else:
            self._await(self.bounds.head_seconds, self._close)

    @property
    def is_made(self) -> bool:
        """Whether `connection_made` was called."""
        transport: Transport | None = self.transport
        return transport is not None

    def admit(self, address: str) -> bool:
        """Count a new connection, before its handshake if it begins with one.  Returns False if it
        must be closed without an answer.  The caller calls `release` if it calls no
        `connection_made`."""
        self._address = address
        self._admitted = self._admission.enter(address)
        if self._admitted is Admittance.YES:
            return True
        self._refused_stays = self._admission.enter_refused()
        return self._refused_stays

    def release(self) -> None:
        """The connection counts no longer."""
        if self._admitted is Admittance.YES:
            self._admission.leave(self._address or "")
        if self._refused_stays:
            self._admission.leave_refused()
        self._admitted, self._refused_stays = Admittance.FULL, False

    @property
    def open_connections(self) -> set[Any]:
        """All connections of the server.  A stop calls `shutdown` of each, and waits until there
        is none."""
        return self.connections

    def shutdown(self) -> None:
        """The server stops: close the connection, after the answer that is under way."""
        request: RequestResponseCycle | None = self.cycle
        if request is None or request.response_complete:
            self._close()
        else:
            request.keep_alive = False

    def _turn_away(self, answer: bytes) -> None:
        """Refuse a new connection before its first request.

        The client may send its request before it reads this answer, so the server drops the request
        for a while instead of closing.
        """
        self._deaf = self._ending = True
        self.transport.write(answer)
        if self._refused_stays or self._admitted is Admittance.YES:
            self._linger()
        else:
            self._close()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._sender is not None:
            self._sender.lose()
        self.release()
        self._await(0.0, None)
        for timer in (self._writing, self._idling):
            if timer is not None:
                timer.cancel()
        # Each of these refers to the connection.  Without them it is freed when its last request
        # ends, and not when Python's collector comes.
        self.cycle = None  # type: ignore[assignment]
        self._held = b""

    def eof_received(self) -> bool:  # type: ignore[override]  # uvicorn always closes
        """The client sends nothing more.  A request that is complete still gets its answer; not
        over TLS, whose layer closes the connection now."""
        self._at_eof = True
        self._flow.is_over = True
        if not self._answering:
            self._close_at_eof()
        return not self._has_tls

    def _close_at_eof(self) -> None:
        if self._in_head or self._in_body:
            self._refuse(_INCOMPLETE)
        self._close()

    def close(self) -> None:
        """End the connection behind an answer.  The rest of its request is read and dropped."""
        if self._ending or not self._in_body:
            self._close()
            return
        self._ending = True
        self._deaf = self._length == CHUNKED  # to parse what is dropped would cost too much
        self._loose_bytes = 0
        self._linger()

    def _unset_keepalive_if_required(self) -> None:
        self._idle_since = None

    def on_response_complete(self) -> None:
        """After an answer: wait for the next request, unless it has arrived.

        uvicorn does the same, but sets a timer after each answer and cancels it at each request.
        """
        self.server_state.total_requests += 1
        if self._ending or self.transport.is_closing():
            return
        self._idle_since = self.loop.time()
        if self._idling is None:
            self._idling = self.loop.call_later(self.bounds.idle_seconds, self._check_idle)
        if self.flow.read_paused:
            self._flow.release()
        if self._held:
            held, self._held = self._held, b""
            self.data_received(held)
        if self._at_eof and not self._answering:
            self._close_at_eof()

    def _check_idle(self) -> None:
        self._idling = None
        if self._idle_since is None:
            return  # the answer that is under way sets the timer again
        left = self._idle_since + self.bounds.idle_seconds - self.loop.time()
        if left > 0:
            self._idling = self.loop.call_later(left, self._check_idle)
        else:
            self._close()

    def _close(self) -> None:
        """Send the answer that is still buffered, for a limited time, and close."""
        if not self.transport.is_closing():
            seconds = self.bounds.linger_seconds
            if self._has_tls and self._idle_since is not None:
                idle = self.loop.time() - self._idle_since
                # Many clients leave the end of TLS unanswered.  Nothing else is under way.
                seconds = min(seconds, _TLS_END_SECONDS) if idle > _TLS_END_SECONDS else seconds
            self.transport.close()
            self._await(seconds, self.transport.abort)

    def _linger(self) -> None:
        """Tell the client that no more follows, and drop what it still sends, for a limited
        time."""
        if not self._has_tls:  # where only all can end
            self.transport.write_eof()
        self._flow.release()
        self._await(self.bounds.linger_seconds, self._close)

    def _refuse(self, answer: bytes) -> None:
        """Send `answer` in place of the application's answer, unless that one has begun."""
        if self._ending or self.transport.is_closing():
            self._deaf = True
            return
        self._deaf = self._ending = True
        self._loose_bytes = 0
        request: RequestResponseCycle | None = self.cycle
        begun = False
        if request is not None and not request.response_complete:
            request.disconnected, request.waiting_for_100_continue = True, False
            request.message_event.set()
            begun = request.response_started
        if not begun:
            self.transport.write(answer)
        self._linger()

    @property
    def _answering(self) -> bool:
        """Whether the application answers a request that has arrived in full."""
        request: RequestResponseCycle | None = self.cycle
        return not (request is None or request.more_body or request.response_complete)

    async def send_file(self, write: Write, length: int) -> bool:
        """As `FileSender.send`."""
        if self._sender is None:
            self._sender = FileSender(self.loop, self.transport, self.flow.drain, self.bounds)
        return await self._sender.send(write, length)

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
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None
        super().resume_writing()

    def _await_writing(self) -> None:
        waiting = self.transport.get_write_buffer_size()
        seconds = self.bounds.progress_seconds
        self._writing = self.loop.call_later(seconds, self._check_writing, waiting)

    def _check_writing(self, before: int) -> None:
        if before - self.transport.get_write_buffer_size() < self.bounds.progress_bytes_min:
            self.transport.abort()
        else:
            self._await_writing()

    # ---- bytes to requests ----

    def _new_parser(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self)
        parser.set_dangerous_leniencies(
            lenient_data_after_close=True,  # it is not parsed
            lenient_version=True,  # `check_head` checks it
        )
        return parser

    def _feed(self, data: bytes) -> None:
        at, size = 0, len(data)
        while at < size:
            if self._deaf or self.transport.is_closing():
                self._loose_bytes += size - at
                return
            if self._answering:
                self._held += data[at:]
                self._flow.hold()
                return
            left = self._body_left
            if left:
                end = min(size, at + left)
                self._body_left = at + left - end
                self._loose_bytes += end - at
                self._parse(data if end - at == size else memoryview(data)[at:end])
            else:
                piece = self._next_piece(data, at)
                end = at + len(piece)
                self._loose_bytes += len(piece)
                self._parse(piece)
            at = end

    def _next_piece(self, data: bytes, at: int) -> bytes:
        """The next piece of a head or of a chunked body.  Both end with `_HEAD_END`, so no request
        ends inside a piece.  Of the piece stays what its successor and `check_head` need."""
        straddling = (self._tail + data[at : at + 3]).find(_HEAD_END) if self._tail else -1
        if straddling >= 0:
            end = at + straddling + len(_HEAD_END) - len(self._tail)
        else:
            end = data.find(_HEAD_END, at) + len(_HEAD_END)
            end = len(data) if end < len(_HEAD_END) else end
        piece = data[at:end]
        self._tail = b"" if piece.endswith(_HEAD_END) else (self._tail + piece[-3:])[-3:]
        if not self._first_line:
            self._first_line = piece.lstrip(_LINE_END)
        elif not self._in_body and _LINE_END not in self._first_line:
            self._first_line = self._first_line[-_LINE_KEPT:] + piece
        return piece

    def _parse(self, piece: bytes | memoryview) -> None:
        in_body = self._in_body
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            if not self._deaf:
                self._reframe()
        except httptools.HttpParserCallbackError as error:
            _LOG.error("request failed before it began", exc_info=error)
            self._refuse(_FAILED)
        except httptools.HttpParserError as error:
            if self._in_body and not in_body:
                self._reframe()  # the parser does not know the coding for a blank behind it
            else:
                self._refuse_head(connections.bad_line(str(error), self._first_line))

    def _reframe(self) -> None:
        """Go on behind a head at which the parser stopped, with the length that `check` found."""
        self._parser_stops = False
        self._is_reframed = True
        if self._length == 0:
            self.on_message_complete()
            return
        events = SimpleNamespace(
            on_body=self.on_body,
            on_chunk_header=self.on_chunk_header,
            on_message_complete=self.on_message_complete,
        )
        self.parser = httptools.HttpRequestParser(events)
        is_chunked = self._length == CHUNKED
        framing = _CHUNKED_FRAMING if is_chunked else b"Content-Length: %d" % self._length
        self.parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n\r\n" % framing)

    def on_chunk_header(self) -> None:
        """The line before a piece of a chunked body; also called before trailers."""
        if not self._ending:
            self._loose_bytes = 0

    def on_message_complete(self) -> None:
        if self._parser_stops:
            return
        self._in_body = False
        self._first_line = b""
        if self._is_reframed or not self.parser.should_keep_alive():
            # A parser drops all that follows `Connection: close`, which may stand in a trailer.
            self._is_reframed = False
            self.parser = self._new_parser()
        if self._ending:
            if not self._deaf:  # else more may follow what was refused
                self._close()
            return
        self._loose_bytes = 0
        self.cycle.more_body = False
        self.cycle.message_event.set()

    def _refuse_head(self, error: BadHead) -> None:
        if not self._ending:
            self.warn(str(error))
        self._refuse(_refusal(error.status, str(error)))

    def warn(self, reason: str) -> None:
        """Log why the client is refused, within a limit."""
        if self._admission.may_warn(self.loop.time()):
            _LOG.warning("request refused: address=%s %s", self._address, reason)

    def data_received(self, data: bytes) -> None:
        self._idle_since = None
        if self._deaf:
            self._loose_bytes += len(data)
        else:
            self._feed(data)
        if self.transport.is_closing():
            return
        if self._ending:
            if self._loose_bytes > self.bounds.linger_bytes_max:
                # The layer of TLS would read on until the client ends it, or its time is over.
                self.transport.abort() if self._has_tls else self._close()
        elif self._loose_bytes > self.bounds.head_bytes_max:
            self._refuse_long(f"{self.bounds.head_bytes_max} bytes")
        else:
            self._watch()
            if self._awaits is None and not self._answering:
                # A lone line break begins no request; the connection must still have a deadline.
                self._await(self.bounds.idle_seconds, self._close)

    def on_message_begin(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # trailers are ignored
            self._head_bytes += len(name) + len(value)
            lines = self.headers
            if len(lines) < self.bounds.head_lines_max:
                lines.append((name.lower(), value.strip()))
            elif not self._ending:
                self._refuse_long(f"{self.bounds.head_lines_max} lines")

    def on_headers_complete(self) -> None:
        assert not self._answering, "a piece ends with its request"
        self._in_head = False
        if not self._ending and len(self.url) + self._head_bytes > self.bounds.head_bytes_max:
            self._refuse_long(f"{self.bounds.head_bytes_max} bytes")
        if self._ending:
            return
        line = self._first_line
        end = line.find(_LINE_END)
        protocol = line[line.rfind(b" ", 0, end) + 1 : end]
        method = self.parser.get_method().decode("ascii")
        try:
            head = connections.check_head(method, self.url, protocol, self.headers)
        except BadHead as error:
            self._refuse_head(error)
            return
        self._in_body = True
        self._length = head.length
        self._body_left = max(head.length, 0)
        self._body_bytes = self._body_bytes_seen = self._loose_bytes = 0
        self._parser_stops = self.parser.should_upgrade()
        self._begin(method, head, is_old=protocol == b"HTTP/1.0")

    def _begin(self, method: str, head: Head, *, is_old: bool) -> None:
        """Let the application answer a request."""
        scope: Any = self.scope
        path = head.path.decode("ascii")
        if head.continues and head.length == 0:
            # A final answer in place of this one leaves botocore's connection in a state in which
            # it misreads the next answer, and waits a minute for its end.
            self.transport.write(_CONTINUE)
        scope["method"] = method
        if is_old:
            scope["http_version"] = "1.0"
        scope["path"] = unquote(path) if "%" in path else path
        scope["raw_path"] = head.path
        scope["query_string"] = head.query
        scope["headers"] = head.lines
        self.cycle = Cycle(
            scope=scope,
            transport=self,  # type: ignore[arg-type]
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=Event(),
            expect_100_continue=head.continues and head.length != 0,
            keep_alive=not is_old and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        self.cycle.sends_files = self._sends_files
        self._start_asgi_task(self.cycle, self.app)

    def on_body(self, body: bytes) -> None:
        if self._ending:
            return
        self._loose_bytes = 0
        self._body_bytes += len(body)
        cycle = self.cycle
        held = cast("bytes | bytearray", cycle.body)
        if not held:
            cycle.body = body  # type: ignore[assignment]  # uvicorn would copy it twice
        else:
            if not isinstance(held, bytearray):
                cycle.body = bytearray(held)  # many small pieces are appended in place
            cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self._flow.pause_reading()
        cycle.message_event.set()

    def _refuse_long(self, most: str) -> None:
        message = f"request head has an error: it must have at most {most}"
        self._refuse(_refusal(_TOO_LONG, message))

    # ---- deadlines ----

    def _watch(self) -> None:
        """Set the timer for the current state.  A request that arrives in full at once needs
        none."""
        if self._in_head:
            if self._awaits != self._late:
                self._await(self.bounds.head_seconds, self._late)
        elif self._in_body and not self.cycle.response_complete:
            if self._awaits != self._check_body:
                self._await(self.bounds.progress_seconds, self._check_body)
        elif self._awaits is not None and self.cycle is not None:
            self._await(0.0, None)

    def _late(self) -> None:
        if self._flow.taken_pause():
            self._await(self.bounds.head_seconds, self._late)
        else:
            self._refuse(_LATE)

    def _check_body(self) -> None:
        """Check the rate of the body at the end of a window.

        A window counts as on time if the server itself paused reading in it, or if the client still
        waits for `100 Continue`.
        """
        cycle = self.cycle
        held_up = self._flow.taken_pause() or cycle.waiting_for_100_continue
        moved = self._body_bytes - self._body_bytes_seen
        if cycle.response_complete or not cycle.more_body:
            self._await(0.0, None)
        elif held_up or moved >= self.bounds.progress_bytes_min:
            self._body_bytes_seen = self._body_bytes
            self._await(self.bounds.progress_seconds, self._check_body)
        else:
            self._refuse(_LATE)


class _Flow(FlowControl):
    """Flow control that remembers pauses: whether the server stopped reading from the client."""

    _paused = False
    _is_held = False
    is_over = False  # the client sends nothing more: the transport must not read again

    def hold(self) -> None:
        """Stop reading until `release`."""
        self.pause_reading()
        self._is_held = True

    def release(self) -> None:
        """Read again."""
        self._is_held = False
        self.resume_reading()

    def pause_reading(self) -> None:
        self._paused = True
        if not self.is_over:
            super().pause_reading()

    def resume_reading(self) -> None:
        if not self._is_held and not self.is_over:
            super().resume_reading()

    def taken_pause(self) -> bool:
        """Whether reading was paused at any time since the last call."""
        paused, self._paused = self._paused or self.read_paused, False
        return paused
