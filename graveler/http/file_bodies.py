"""Sends files to the client of one connection, without a copy through this process.

    write(socket) ──► the socket is full ──► wait until it takes bytes ──► write(socket) …

A client below the minimum rate is cut off.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Final

from graveler.http.connections import ConnectionLimits

Write = Callable[["Socket", int], Awaitable[int]]
"""Sends at most so many of the next bytes; returns how many.  Raises `BlockingIOError` if the
socket takes none now, and other errors."""

_TURN_BYTES_MAX: Final = 4 * 1024 * 1024  # then other answers get the thread


class Socket:
    """A second descriptor of a socket.

    `close` closes it.  If it may still be in use, it is closed when nothing refers to this object
    any more.
    """

    __slots__ = ("descriptor",)

    def __init__(self, descriptor: int) -> None:
        self.descriptor = os.dup(descriptor)

    def close(self) -> None:
        """Close the descriptor.  Idempotent."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


class FileSender:
    """Sends files to the client of one connection, one at a time.  For the event loop.

    `drain` waits until the transport takes more.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        drain: Callable[[], Awaitable[None]],
        bounds: ConnectionLimits,
    ) -> None:
        self._loop = loop
        self._transport = transport
        self._drain = drain
        self._bounds = bounds
        self._waiting: asyncio.Future[None] | None = None
        self._is_lost = False

    def lose(self) -> None:
        """The connection has ended."""
        self._is_lost = True
        self._wake()

    async def send(self, write: Write, length: int) -> bool:
        """Send `length` bytes.  Returns False if the connection ends before.  Raises what `write`
        raises."""
        await self._empty_transport()
        if self._is_lost:
            return False
        socket = Socket(self._transport.get_extra_info("socket").fileno())
        try:
            is_whole = await self._send_through(socket, write, length)
        except Exception:
            socket.close()  # the error refers to it, and the client waits for the end
            raise
        socket.close()  # not if the task is cancelled: a thread may be sending
        return is_whole

    async def _send_through(self, socket: Socket, write: Write, length: int) -> bool:
        window = _Window(self._loop.time() + self._bounds.progress_seconds)
        sent = 0
        while sent < length and not self._is_lost:
            try:
                count = await write(socket, min(length - sent, _TURN_BYTES_MAX))
                if not count:  # the file is shorter than the head of the answer says
                    self._transport.abort()
                    return False
                sent += count
            except BlockingIOError:
                if not self._is_in_time(window, sent):
                    self._transport.abort()
                    return False
                await self._writable(socket, window.end)
            except (ConnectionError, TimeoutError):  # the client has gone
                self._transport.abort()
                return False
        return sent == length

    async def _empty_transport(self) -> None:
        """Wait until the transport has sent everything."""
        self._transport.set_write_buffer_limits(high=0)
        try:
            await self._drain()
        finally:
            if not self._is_lost:
                self._transport.set_write_buffer_limits()

    def _is_in_time(self, window: "_Window", sent: int) -> bool:
        """Whether the client reads fast enough, now that the socket is full."""
        now = self._loop.time()
        if now < window.end:
            return True
        is_fast = sent - window.sent >= self._bounds.progress_bytes_min
        window.end, window.sent = now + self._bounds.progress_seconds, sent
        return is_fast

    async def _writable(self, socket: Socket, end: float) -> None:
        """Wait until the socket takes bytes, the connection ends, or the time `end`.

        The system says that a socket takes bytes only when much of it is free.  So at `end` the
        caller must try again before it judges.
        """
        self._waiting = self._loop.create_future()
        timer = self._loop.call_at(end, self._wake)
        self._loop.add_writer(socket.descriptor, self._wake)
        try:
            await self._waiting
        finally:
            self._loop.remove_writer(socket.descriptor)
            timer.cancel()
            self._waiting = None

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class _Window:
    """A window of the minimum rate: when it ends, and how much had been sent when it began."""

    __slots__ = ("end", "sent")

    def __init__(self, end: float) -> None:
        self.end = end
        self.sent = 0
