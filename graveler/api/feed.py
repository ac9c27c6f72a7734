"""Request bodies that arrive: a thread works only while there is something to write.

    client ──► receive() ──► one piece ──► the body is whole: it stays in memory
                                 │ more follows
                                 ▼
               Feed ──► content: unframed, verified ──► Spool    a turn of a thread for each piece

No thread waits for a client.  The event loop receives the next piece when the thread has written
the last one, so a fast client slows down to the speed of the store, and memory holds about three
pieces of a body of any size.  If the client disconnects, or the content is wrong, the spool is
discarded and nothing is stored.  Used by uploads.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from typing import Any, NamedTuple, TypeVar

from graveler.api.pools import BoundedPool
from graveler.block.bodies import Spool
from graveler.errors import GravelerError, Unavailable

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

T = TypeVar("T")
_PIECE_BYTES = 512 * 1024


class Disconnected(GravelerError):
    """The client closed the connection before its request was complete."""


class Piece(NamedTuple):
    """Consecutive bytes of a body.  `is_last`: the body ends with them."""

    body: bytes
    is_last: bool


async def next_piece(receive: Receive) -> Piece:
    """At least `_PIECE_BYTES` of a body, or its rest.  Raises `Disconnected`.

    The server closes a connection whose body arrives too slowly (server.py).
    """
    message = await _message(receive)
    body: bytes | bytearray = message.get("body", b"")
    while message.get("more_body", False):
        if len(body) >= _PIECE_BYTES:
            return Piece(bytes(body), False)
        message = await _message(receive)
        if not isinstance(body, bytearray):
            body = bytearray(body)
        body += message.get("body", b"")
    return Piece(bytes(body), True)


class Feed:
    """What has arrived of a body, as chunks: an empty one means that no more has arrived yet."""

    def __init__(self) -> None:
        self._piece = Piece(b"", False)

    def add(self, piece: Piece) -> None:
        """The next bytes have arrived; those before were read."""
        self._piece = piece

    @property
    def is_starved(self) -> bool:
        """Whether a reader waits for more."""
        return not self._piece.body and not self._piece.is_last

    def __iter__(self) -> Iterator[bytes]:
        while True:
            body, is_last = self._piece
            self._piece = Piece(b"", is_last)
            yield body
            if is_last:
                return


Content = Callable[[Feed], Iterable[bytes]]


async def spooled(
    pool: BoundedPool,
    receive: Receive,
    first: Piece,
    open_spool: Callable[[], Spool],
    content: Content,
    store: Callable[[Spool], T],
) -> T:
    """Spool a body that begins with `first`, and return what `store` makes of the spool.

    `content` reads a feed and yields the bytes to spool.  It passes on an empty chunk, and reads
    the feed to its end.  All work is done in `pool`.  Raises what the arguments raise.
    """
    feed, piece = Feed(), first
    spool = await pool.start(open_spool)
    try:
        chunks = iter(content(feed))
        hashing = pool.proceed(spool.hash, ())
        while True:
            feed.add(piece)
            written = await pool.proceed(_write, spool, feed, chunks)
            await hashing
            hashing = pool.proceed(spool.hash, written)
            if piece.is_last:
                break
            piece = await next_piece(receive)
        await hashing
        return await pool.proceed(store, spool)
    finally:
        _close(pool, spool)


def _write(spool: Spool, feed: Feed, chunks: Iterator[bytes]) -> list[bytes]:
    """Write what has arrived.  Returns it."""
    written: list[bytes] = []
    for chunk in chunks:
        if chunk:
            spool.write(chunk)
            written.append(chunk)
        elif feed.is_starved:
            break
    return written


def _close(pool: BoundedPool, spool: Spool) -> None:
    """Close the spool in a thread, because to remove a long file takes time; if the service stops,
    at once."""

    def closed(closing: "asyncio.Future[None]") -> None:
        if closing.cancelled():
            spool.close()

    try:
        pool.proceed(spool.close).add_done_callback(closed)
    except Unavailable:
        spool.close()


async def _message(receive: Receive) -> MutableMapping[str, Any]:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise Disconnected("client disconnected before its request was complete")
    return message
