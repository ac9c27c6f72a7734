"""Bodies that arrive: pieces, the spool they go to, and threads that never wait for a client."""

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import Any

import pytest

from graveler.block import bodies
from graveler.block.bodies import Spool
from graveler.core.errors import Invalid, StorageFull, Unavailable
from graveler.http.intake import PLAIN, Disconnected, Framing, Piece, counted, next_piece, spooled
from graveler.http.pools import BoundedPool

PIECE = 512 * 1024


class Sender:
    """A client that sends `count` chunks and notes how far it came."""

    def __init__(self, count: int, chunk: bytes, *, gone_after: int = -1) -> None:
        self.sent = 0
        self._count = count
        self._chunk = chunk
        self._gone_after = gone_after

    async def receive(self) -> MutableMapping[str, Any]:
        await asyncio.sleep(0)
        if self.sent == self._gone_after:
            return {"type": "http.disconnect"}
        self.sent += 1
        more = self.sent < self._count
        return {"type": "http.request", "body": self._chunk, "more_body": more}


class NotedSpool(Spool):
    """Notes whether it was closed, and may be full."""

    def __init__(self, room: int = 1 << 40) -> None:
        with bodies.spool().whole() as file:  # the class that the drivers use
            super().__init__(type(file)(max_size=1_000))
        self.is_closed = False
        self._room = room

    def write(self, chunk: bytes) -> None:
        if self.size + len(chunk) > self._room:
            raise StorageFull("no room")
        super().write(chunk)

    def close(self) -> None:
        super().close()
        self.is_closed = True


class _Through(Framing):
    """A content that a function makes of the chunks."""

    def __init__(self, function: Callable[[Iterable[bytes]], Iterable[bytes]]) -> None:
        self.function = function

    def content(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        return iter(self.function(chunks))


def _spooled(
    sender: Sender,
    spool: Spool,
    content: Callable[[Iterable[bytes]], Iterable[bytes]] = lambda chunks: chunks,
    store: Callable[[Spool], Any] = lambda spool: b"".join(spool),
) -> Any:
    async def run() -> Any:
        pool = BoundedPool(2, 8, "body")
        try:
            first = await next_piece(sender.receive)
            return await spooled(
                pool, sender.receive, first, _Through(content), lambda: spool, store
            )
        finally:
            pool.close()

    return asyncio.run(run())


def test_a_short_body_is_one_piece() -> None:
    sender = Sender(500, b"abc")
    assert asyncio.run(next_piece(sender.receive)) == Piece(b"abc" * 500, True)


def test_a_long_body_is_taken_piece_by_piece() -> None:
    sender = Sender(100, b"x" * 100_000)
    body, is_last = asyncio.run(next_piece(sender.receive))
    assert (len(body), is_last, sender.sent) == (600_000, False, 6)


def test_all_bytes_arrive_in_order_with_their_checksums() -> None:
    spool = NotedSpool()

    def store(spool: Spool) -> tuple[bytes, str, int]:
        return b"".join(spool), spool.checksum, spool.size

    whole, checksum, size = _spooled(Sender(100, bytes(range(200)) * 500), spool, store=store)
    assert whole == bytes(range(200)) * 50_000 and size == len(whole)
    assert checksum == hashlib.md5(whole).hexdigest()
    assert spool.is_closed


def test_the_sender_is_never_far_ahead_of_the_store() -> None:
    sender, spool = Sender(200, b"x" * 100_000), NotedSpool()
    ahead: list[int] = []

    def content(feed: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in feed:
            ahead.append(sender.sent * 100_000 - spool.size)
            yield chunk

    assert len(_spooled(sender, spool, content)) == 20_000_000
    assert max(ahead) <= 2 * PIECE


def test_no_thread_works_while_the_client_sends_nothing() -> None:
    async def run() -> bytes:
        pool, stalled, resumed = BoundedPool(1, 8, "body"), asyncio.Event(), asyncio.Event()
        sender = Sender(30, b"x" * 100_000)

        async def receive() -> MutableMapping[str, Any]:
            if sender.sent == 20:
                stalled.set()
                await resumed.wait()
            return await sender.receive()

        first = await next_piece(receive)
        upload = asyncio.create_task(spooled(pool, receive, first, PLAIN, NotedSpool, b"".join))
        await stalled.wait()
        assert await pool.start(lambda: "free") == "free"
        resumed.set()
        try:
            return await upload
        finally:
            pool.close()

    assert len(asyncio.run(run())) == 3_000_000


def test_a_client_that_goes_away_stores_nothing() -> None:
    spool = NotedSpool()
    with pytest.raises(Disconnected):
        _spooled(Sender(30, b"x" * 100_000, gone_after=20), spool, store=lambda _: pytest.fail())
    assert spool.is_closed


@pytest.mark.parametrize("kind", [Invalid, StorageFull])
def test_a_failure_ends_the_upload_at_once(kind: type[Exception]) -> None:
    sender = Sender(100_000, b"x" * 100_000)
    spool = NotedSpool(1_000_000 if kind is StorageFull else 1 << 40)

    def content(feed: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in feed:
            if spool.size > 2_000_000:
                raise Invalid("wrong")
            yield chunk

    with pytest.raises(kind):
        _spooled(sender, spool, content)
    assert sender.sent < 100 and spool.is_closed


def test_an_upload_that_is_cancelled_closes_its_spool() -> None:
    spool = NotedSpool()

    async def run() -> None:
        pool = BoundedPool(1, 8, "body")
        begun = asyncio.Event()

        async def receive() -> MutableMapping[str, Any]:
            begun.set()
            return await asyncio.get_running_loop().create_future()

        upload = asyncio.create_task(
            spooled(pool, receive, Piece(b"x", False), PLAIN, lambda: spool, list)
        )
        await begun.wait()
        upload.cancel()
        with pytest.raises(asyncio.CancelledError):
            await upload
        await pool.start(lambda: None)
        pool.close()

    asyncio.run(run())
    assert spool.is_closed


def test_a_pool_that_stops_ends_the_upload() -> None:
    spool = NotedSpool()

    async def run() -> None:
        pool = BoundedPool(1, 8, "body")
        sender = Sender(30, b"x" * 100_000)

        async def receive() -> MutableMapping[str, Any]:
            pool.close()
            return await sender.receive()

        await spooled(pool, receive, Piece(b"x", False), PLAIN, lambda: spool, list)

    with pytest.raises(Unavailable):
        asyncio.run(run())
    assert spool.is_closed


@pytest.mark.parametrize("behind", [[], [b""]], ids=["whole", "an empty message behind it"])
@pytest.mark.parametrize("pieces", [[b"abc"], [b"a", b"bc"], [b"x" * 2 * PIECE]], ids=len)
def test_a_body_ends_with_the_last_byte_that_is_stated(
    pieces: list[bytes], behind: list[bytes]
) -> None:
    """A server may send an empty message behind a body: nobody waits for it."""
    messages = [*pieces, *behind]

    async def receive() -> MutableMapping[str, Any]:
        body = messages.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(messages)}

    async def run() -> Piece:
        stated = {b"content-length": b"%d" % sum(map(len, pieces))}
        return await next_piece(counted(receive, stated))

    assert asyncio.run(run()) == Piece(b"".join(pieces), True)
    assert messages == behind


@pytest.mark.parametrize("stated", [2, 4])
def test_a_body_of_another_length_than_stated_is_refused(stated: int) -> None:
    sender = Sender(1, b"abc")
    with pytest.raises(Invalid, match="Content-Length"):
        asyncio.run(next_piece(counted(sender.receive, {b"content-length": b"%d" % stated})))
