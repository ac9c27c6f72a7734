"""The bounded queue between the event loop and a thread."""

import asyncio
import threading
from collections.abc import MutableMapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from graveler.api.feed import Disconnected, Feed

MEGABYTE = 1024 * 1024


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


async def _fed(sender: Sender, read: Any) -> Any:
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as pool:
        start = partial(loop.run_in_executor, pool)
        return await Feed().fill(sender.receive, b"first", start, read)


def test_all_bytes_arrive_in_order() -> None:
    whole = asyncio.run(_fed(Sender(500, b"abc"), lambda feed: b"".join(feed)))
    assert whole == b"first" + b"abc" * 500


def test_a_slow_reader_holds_the_sender_back() -> None:
    sender = Sender(200, b"x" * 100_000)  # 20 MB
    ahead = 0

    def read(feed: Feed) -> int:
        nonlocal ahead
        length = 0
        for chunk in feed:
            length += len(chunk)
            ahead = max(ahead, feed.held_bytes)
            if length < 3_000_000:
                threading.Event().wait(0.005)
        return length

    assert asyncio.run(_fed(sender, read)) == 5 + 20_000_000
    assert ahead <= MEGABYTE + 100_000


def test_a_sender_is_stopped_while_nobody_reads() -> None:
    sender = Sender(10_000, b"x" * 100_000)

    async def fill() -> int:
        feed = Feed()
        pumping = asyncio.ensure_future(feed.pump(sender.receive, b""))
        for _ in range(1_000):
            await asyncio.sleep(0)
        sent = sender.sent
        feed.close()
        await pumping
        return sent

    assert asyncio.run(fill()) == 11


def test_a_client_that_goes_away_is_noticed() -> None:
    def read(feed: Feed) -> int:
        length = 0
        with pytest.raises(Disconnected):
            for chunk in feed:
                length += len(chunk)
        return length

    assert asyncio.run(_fed(Sender(10, b"abc", gone_after=4), read)) <= 5 + 12


def test_a_reader_that_gives_up_releases_the_sender() -> None:
    sender = Sender(100_000, b"x" * 100_000)
    assert asyncio.run(_fed(sender, lambda feed: next(iter(feed)))) == b"first"
    assert sender.sent < 100


def test_a_reader_that_fails_releases_the_sender() -> None:
    def read(feed: Feed) -> bytes:
        raise ValueError(next(iter(feed)))

    sender = Sender(100_000, b"x" * 100_000)
    with pytest.raises(ValueError, match="first"):
        asyncio.run(_fed(sender, read))
    assert sender.sent < 100


def test_an_abandoned_feed_ends_its_reader() -> None:
    async def abandon() -> None:
        feed = Feed()
        with ThreadPoolExecutor(1) as pool:
            reading = asyncio.get_running_loop().run_in_executor(pool, list, feed)
            feed.abandon()
            with pytest.raises(Disconnected):
                await reading

    asyncio.run(abandon())


def test_a_server_that_stops_waiting_cuts_no_body_short() -> None:
    async def whole() -> bytes:
        feed, gate = Feed(), threading.Event()

        def read(feed: Feed) -> bytes:
            assert gate.wait(60)
            return b"".join(feed)

        with ThreadPoolExecutor(1) as pool:
            reading = asyncio.get_running_loop().create_future()
            running: list[Future[bytes]] = []

            def start(*work: Any) -> asyncio.Future[Any]:
                running.append(pool.submit(*work))
                return reading

            filling = feed.fill(Sender(5, b"abc").receive, b"first", start, read)
            waiting = asyncio.create_task(filling)
            while feed.held_bytes < len(b"first" + 5 * b"abc"):
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert reading.cancelled()
            gate.set()
            return await asyncio.wrap_future(running[0])

    assert asyncio.run(whole()) == b"first" + 5 * b"abc"


def test_a_reader_that_is_dropped_before_it_begins_releases_the_sender() -> None:
    async def dropped() -> int:
        sender = Sender(100_000, b"x" * 100_000)
        waits = asyncio.get_running_loop().create_future()

        def start(*_: Any) -> asyncio.Future[Any]:
            return waits

        filling = asyncio.create_task(Feed().fill(sender.receive, b"first", start, list))
        for _ in range(1_000):
            await asyncio.sleep(0)
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(filling, 60)
        return sender.sent

    assert asyncio.run(dropped()) < 100
