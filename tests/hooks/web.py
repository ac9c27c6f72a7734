"""A real HTTP server on loopback, as the other side of hooks, for this folder."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

Reaction = Callable[[socket.socket, bytes], None]


def answering(status: int = 200, body: bytes = b"ok", head: str = "") -> Reaction:
    """Answer with these."""

    def react(connection: socket.socket, _request: bytes) -> None:
        lines = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{head}\r\n"
        connection.sendall(lines.encode() + body)

    return react


def sending(raw: bytes) -> Reaction:
    """Send these bytes."""
    return lambda connection, _request: connection.sendall(raw)


@dataclass
class Web:
    """`requests` has every request that arrived whole."""

    port: int
    react: Reaction
    requests: list[bytes] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"


@contextmanager
def served(react: Reaction) -> Iterator[Web]:
    """A server until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        web = Web(listener.getsockname()[1], react)
        thread = threading.Thread(target=_serve, args=(listener, web), daemon=True)
        thread.start()
        try:
            yield web
        finally:
            web.stopped.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def _serve(listener: socket.socket, web: Web) -> None:
    while not web.stopped.is_set():
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            request = _whole(connection)
            web.requests.append(request)
            try:
                web.react(connection, request)
            except OSError:
                continue  # the client has gone


def _whole(connection: socket.socket) -> bytes:
    raw = b""
    while b"\r\n\r\n" not in raw:
        piece = connection.recv(65_536)
        if not piece:
            return raw
        raw += piece
    head, _, body = raw.partition(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    )
    while len(body) < length:
        piece = connection.recv(65_536)
        if not piece:
            break
        body += piece
    return head + b"\r\n\r\n" + body
