"""A bounded queue for a request body: the event loop receives it, a thread reads it.

    client ──► receive() ──► Feed (at most `_HELD_BYTES_MAX`) ──► iterator in the engine's thread

The event loop waits while the feed is full.  So a fast client slows down to the speed of the store,
and memory stays bounded for a body of any size.  If the client disconnects, the reader gets
`Disconnected` and stores nothing.  If the reader stops early, the feed drops the rest of the body.
Used by uploads.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any, TypeVar

from graveler.errors import GravelerError

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

T = TypeVar("T")
Read = Callable[["Feed"], T]
Start = Callable[..., "asyncio.Future[Any]"]  # runs a function with arguments in a thread
_HELD_BYTES_MAX = 1024 * 1024


class Disconnected(GravelerError):
    """The client closed the connection before its request was complete."""


class Feed:
    """A bounded queue of bytes with one writer on the event loop and one reader in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Event()
        self._changed = threading.Condition()
        self._chunks: deque[bytes] = deque()
        self._held = 0
        self._ended = False
        self._gone = False
        self._closed = False

    async def pump(self, receive: Receive, first: bytes) -> None:
        """Receive until the body ends, the client disconnects, or the reader closes the feed.

        The server closes a connection whose body arrives too slowly (server.py).
        """
        self._put(first)
        while not self._is_over:
            while self._held >= _HELD_BYTES_MAX and not self._is_over:
                self._room.clear()
                if self._held >= _HELD_BYTES_MAX:
                    await self._room.wait()
            message = await receive()
            if message["type"] == "http.disconnect":
                self._end(gone=True)
                return
            self._put(message.get("body", b""))
            if not message.get("more_body", False):
                self._end(gone=False)
                return

    async def fill(self, receive: Receive, first: bytes, start: Start, read: Read[T]) -> T:
        """Receive a body, which begins with `first`, and return what `read` makes of this feed.

        `start` runs it in a thread.  Raises what the two raise; `Disconnected` if the client goes
        away first.
        """
        result: asyncio.Future[T] = start(self._read, read)
        result.add_done_callback(lambda _: self.abandon())  # it may be dropped before it begins
        try:
            await self.pump(receive, first)
        finally:
            self.abandon()
        try:
            return await result
        finally:
            del result  # its error refers to this call: they would keep each other

    def _read(self, read: Read[T]) -> T:
        try:
            return read(self)
        finally:
            self.close()

    def abandon(self) -> None:
        """The writer stops: the reader gets `Disconnected` unless the body had already ended.

        Called on the event loop."""
        self._end(gone=True)
        self._room.set()

    def close(self) -> None:
        """The reader stops, whether or not it has read everything."""
        with self._changed:
            self._closed = True
            self._chunks.clear()
            self._held = 0
        self._wake()

    def __iter__(self) -> Iterator[bytes]:
        while True:
            with self._changed:
                while not self._chunks and not self._ended:
                    self._changed.wait()
                if self._gone:
                    raise Disconnected("client disconnected before its request was complete")
                if not self._chunks:
                    return
                chunk = self._chunks.popleft()
                was_full = self._held >= _HELD_BYTES_MAX
                self._held -= len(chunk)
                wake = was_full and self._held < _HELD_BYTES_MAX
            if wake:
                self._wake()
            yield chunk

    @property
    def _is_over(self) -> bool:
        """Whether nobody reads any more of the body."""
        return self._closed or self._gone

    @property
    def held_bytes(self) -> int:
        """Number of bytes that are received and not yet read."""
        return self._held

    def _wake(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._room.set)

    def _put(self, chunk: bytes) -> None:
        if chunk:
            with self._changed:
                if not self._closed:
                    self._chunks.append(chunk)
                    self._held += len(chunk)
                self._changed.notify()

    def _end(self, *, gone: bool) -> None:
        with self._changed:
            if not self._ended:  # a complete body is never abandoned afterwards
                self._ended, self._gone = True, gone
            self._changed.notify()
