"""One process that serves the application over HTTP/1.1 until it is told to stop.

Stops gracefully: no new connections, requests in flight are finished (for a bounded time), then the
application closes what it owns.  The head of a request is bounded before it is parsed.  For the
commands.
"""

from collections.abc import Callable
from typing import Any, Final

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_HEAD_BYTES_MAX: Final = 64 * 1024
_MESSAGE: Final = b'{"message":"request head has an error: it must have at most 65536 bytes"}'
_TOO_LARGE: Final = b"\r\n".join(
    (
        b"HTTP/1.1 431 Request Header Fields Too Large",
        b"content-type: application/json",
        b"content-length: %d" % len(_MESSAGE),
        b"connection: close",
        b"",
        _MESSAGE,
    )
)
_KEEP_ALIVE_SECONDS: Final = 75
_STOP_SECONDS: Final = 20
_BACKLOG: Final = 1_024
_CONNECTIONS_MAX: Final = 2_000


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 whose request heads have a limit."""

    _head_bytes = 0
    _in_head = True

    def data_received(self, data: bytes) -> None:
        before = self._in_head
        super().data_received(data)
        if self._in_head and before:
            self._head_bytes += len(data)
            if self._head_bytes > _HEAD_BYTES_MAX and not self.transport.is_closing():
                self.transport.write(_TOO_LARGE)
                self.transport.close()

    def on_message_begin(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()


class Server(uvicorn.Server):
    """A server that tells when it is ready."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[int], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        if self.started and not self.should_exit:
            self._on_ready(self.servers[0].sockets[0].getsockname()[1])


def make_server(
    application: FastAPI, host: str, port: int, on_ready: Callable[[int], None]
) -> Server:
    """A server for `application`; `run()` blocks until SIGINT or SIGTERM.  `on_ready` is given the
    port (`port` 0: any free one)."""
    config = uvicorn.Config(
        application,
        host=host,
        port=port,
        http=BoundedProtocol,
        loop="uvloop",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        date_header=True,
        backlog=_BACKLOG,
        limit_concurrency=_CONNECTIONS_MAX,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_STOP_SECONDS,
    )
    return Server(config, on_ready)
