"""From the event loop to a thread: a body that one side receives and the other reads.

    client ──► receive() ──► Feed (at most `_HELD_BYTES_MAX`) ──► iterator in the engine's thread

The loop's side waits while the feed is full, so a fast client is slowed down to the speed of the
store and memory stays bounded whatever the size of the body.  When the client goes away, the
reader gets `Disconnected` and stores nothing; when the reader gives up, the rest is dropped.
For uploads.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any

from graveler.errors import GravelerError

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

_HELD_BYTES_MAX = 1024 * 1024


class Disconnected(GravelerError):
    """The client went away before its request was whole."""


class Feed:
    """A bounded queue of bytes with one writer on the loop and one reader in a thread."""

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
        """Receive until the body ends, the client goes away, or the reader has closed.  The server
        ends a connection whose body comes too slowly (server.py)."""
        self._put(first)
        while not self._closed:
            while self._held >= _HELD_BYTES_MAX and not self._closed:
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

    def abandon(self) -> None:
        """The loop's side gives up: the reader gets `Disconnected`."""
        self._end(gone=True)

    def close(self) -> None:
        """The reader is done, with or without having read all."""
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
                    raise Disconnected("client went away before its request was whole")
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
    def held_bytes(self) -> int:
        """What has been received and not read yet."""
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
            if not self._ended:  # what ended whole was not abandoned
                self._ended, self._gone = True, gone
            self._changed.notify()
