"""A server that answers what it was told to, over real sockets, and keeps what it was asked."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.http_server import QuietHandler, http_server


class Said(NamedTuple):
    """One answer.  Status 0: none, the connection is closed when the request has been read.
    `before`: runs between the request and its answer."""

    status: int
    body: bytes = b"{}"
    headers: tuple[tuple[str, str], ...] = ()
    before: Callable[[], None] = lambda: None


class Asked(NamedTuple):
    """One request."""

    method: str
    path: str
    authorization: str
    body: bytes


@dataclass
class Scripted:
    """The answers that are left, and the requests so far."""

    url: str = ""
    answers: list[Said] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    codings: list[str] = field(default_factory=list)  # that each request takes


@contextmanager
def scripted(answers: Sequence[Said], *, keeps: bool = False) -> Iterator[Scripted]:
    """Serve them in turn until the block ends.  `keeps`: connections stay open."""
    script = Scripted(answers=list(answers))

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1" if keeps else "HTTP/1.0"

        def answer(self) -> None:
            if "Content-Length" in self.headers or "Transfer-Encoding" not in self.headers:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            else:
                body = b"".join(self.chunks())
            authorization = self.headers.get("Authorization", "")
            said = script.answers.pop(0)
            script.asked.append(Asked(self.command, self.path, authorization, body))
            script.codings.append(self.headers.get("Accept-Encoding", ""))
            said.before()
            if not said.status:
                self.close_connection = True
                return
            self.send_response(said.status)
            for name, value in {
                "Content-Length": str(len(said.body)),
                **dict(said.headers),
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(said.body)

        def chunks(self) -> Iterator[bytes]:
            while length := int(self.rfile.readline() or b"0", 16):
                yield self.rfile.read(length)
                self.rfile.readline()
            self.rfile.readline()

        do_GET = do_POST = do_PUT = do_DELETE = answer

    with http_server(Handler) as script.url:
        yield script
