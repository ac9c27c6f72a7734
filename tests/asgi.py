"""A door into the application without sockets: one request at a time, as a server would hand it on.

    door = Door(Graveler().use(service), loop)
    door.send(Ask("GET", "/repositories"))

What the application raises passes on to the caller, who is a test.  For tests only.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, NamedTuple

from graveler.api.operation import API_PREFIX

Message = MutableMapping[str, Any]
Application = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]


class Ask(NamedTuple):
    """A request: `target` lies below the API, quoted already; `body`: the pieces it arrives in."""

    method: str
    target: str
    body: tuple[bytes, ...] = ()
    headers: Mapping[str, str] = {}

    @classmethod
    def json(cls, method: str, target: str, value: Any) -> "Ask":
        """A request with a JSON body."""
        kind = {"Content-Type": "application/json"}
        return cls(method, target, (json.dumps(value).encode(),), kind)


class Heard(NamedTuple):
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Door:
    """Sends requests with `headers` added to their own."""

    def __init__(
        self,
        application: Application,
        loop: asyncio.AbstractEventLoop,
        headers: Mapping[str, str],
    ) -> None:
        self._application = application
        self._loop = loop
        self._headers = headers

    def send(self, ask: Ask) -> Heard:
        """One request and its answer."""
        pieces = list(ask.body or (b"",))
        sent: list[Message] = []

        async def receive() -> Message:
            if not pieces:
                await asyncio.Event().wait()  # the client stays
            piece = pieces.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

        async def send(message: Message) -> None:
            sent.append(message)

        self._loop.run_until_complete(self._application(self._scope(ask), receive, send))
        start, *bodies = sent
        found = {name.decode(): value.decode() for name, value in start["headers"]}
        return Heard(start["status"], found, b"".join(each["body"] for each in bodies))

    def get(self, target: str) -> Any:
        """The JSON of an answer that must be 200."""
        heard = self.send(Ask("GET", target))
        assert heard.status == 200, f"{target}: {heard}"
        return heard.json

    def _scope(self, ask: Ask) -> Message:
        path, _, query = (API_PREFIX + ask.target).partition("?")
        given = {**self._headers, **ask.headers}
        return {
            "type": "http",
            "method": ask.method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode("latin-1"),
            "query_string": query.encode("latin-1"),
            "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
        }
