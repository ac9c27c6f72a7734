"""Serves a handler of requests over real sockets, in threads of this process."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

_POLL_SECONDS: Final = 0.02  # until it sees that it must end


class QuietHandler(BaseHTTPRequestHandler):
    """A handler that prints no line for each request."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing if the client went away.  The library prints on `sys.stderr`, which may be
        that of the command under test."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def http_server(handler: type[QuietHandler]) -> Iterator[str]:
    """The URL of a server on a free port of 127.0.0.1, until the block ends."""
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(_POLL_SECONDS,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
