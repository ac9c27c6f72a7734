"""One request of a connection, and its answer: how the answer becomes bytes.

uvicorn writes the head of an answer and its body apart: two system calls and two packets, which
cost more than a look-up.  Here an answer whose body is complete is written at once.  Its start has
the key `BODY_FOLLOWS`, which other servers ignore.

A body that is in a file goes past this process (file_bodies.py).  A request may be answered so if
its scope has the extension `FILE_BODIES`.  Used by server.py.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HEADER_RE, STATUS_LINE, RequestResponseCycle

from graveler.api.file_bodies import Write
from graveler.api.responses import BODY_FOLLOWS, FILE_BODIES
from graveler.records import ABSENT, Absent

_NAMES_MAX: Final = 512
_CONTROL: Final = bytes(code for code in (*range(32), 127) if code != ord("\t"))
_BREAK: Final = b"\r\n"
_CLOSE: Final = b"connection: close"


class Cycle(RequestResponseCycle):
    """One request and its answer.

    The connection closes after an answer that begins before the request has arrived in full.
    """

    _start: Mapping[str, Any] | Absent = ABSENT  # of an answer that is written with its body

    async def send(self, message: Any) -> None:
        start = self._start
        if message["type"] == "http.response.start":
            whole = message.get(BODY_FOLLOWS, False)
            self._start = message if whole else ABSENT
            if whole:
                return
        elif start is not ABSENT:
            self._start = ABSENT
            await self._send_whole(start, message["body"])
            return
        if not self.response_started and self.more_body:
            self.keep_alive = False
        if message["type"] == FILE_BODIES:
            await self._send_file(message["write"])
        else:
            await super().send(message)

    async def _send_file(self, write: Write) -> None:
        """Send the whole body of an answer, whose head was sent."""
        if self.disconnected:
            return
        if not await self.transport.send_file(write, self.expected_content_length):  # type: ignore[attr-defined]
            self.disconnected = True
            return
        self.expected_content_length = 0
        await super().send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_whole(self, start: Mapping[str, Any], body: bytes) -> None:
        """Write an answer at once; what uvicorn does in two steps."""
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
    lines = [_named(name) + value for name, value in defaults]
    lines += [_named(name) + value for name, value in headers]
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
