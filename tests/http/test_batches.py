"""Batches behind the event loop: what waits together is done together."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from graveler.core.clock import SystemClock
from graveler.core.errors import Internal, Unavailable
from graveler.http.pools import Batches
from tests.support.clockwork import TickingClock
from tests.waiting import PATIENCE_SECONDS


class Work:
    """Doubles numbers; refuses 0; fails whole for a negative one; loses the results of one above
    90.  Waits while the gate is closed."""

    def __init__(self, *, is_open: bool = True) -> None:
        self.failure: BaseException = ZeroDivisionError()
        self.batches: list[list[int]] = []
        self.entered, self.gate = threading.Event(), threading.Event()
        if is_open:
            self.gate.set()

    def __call__(self, items: Sequence[int]) -> list[int | Exception]:
        self.batches.append(list(items))
        self.entered.set()
        assert self.gate.wait(60)
        if min(items) < 0:
            raise self.failure
        if max(items) > 90:
            return []
        return [2 * item if item else KeyError(item) for item in items]

    def batched(self, batch_max: int = 4, waiting_max: int = 8) -> Batches[int, int]:
        return Batches(self, SystemClock(), batch_max=batch_max, waiting_max=waiting_max)


async def entered(work: Work) -> None:
    await asyncio.get_running_loop().run_in_executor(None, work.entered.wait, 60)


def test_what_waits_during_a_batch_is_done_together() -> None:
    async def whole() -> None:
        work = Work(is_open=False)
        batches = work.batched()
        first = batches.start(1)
        await entered(work)
        others = [batches.start(number) for number in range(2, 8)]
        work.gate.set()
        assert await asyncio.gather(first, *others) == [2, 4, 6, 8, 10, 12, 14]
        assert work.batches == [[1], [2, 3, 4, 5], [6, 7]]
        assert await batches.start(9) == 18
        batches.close()

    asyncio.run(whole())


def test_each_item_has_its_own_error_and_a_batch_that_fails_is_not_the_last() -> None:
    async def whole() -> None:
        work = Work(is_open=False)
        batches = work.batched()
        first = batches.start(1)
        await entered(work)
        zero, three = batches.start(0), batches.start(3)
        work.gate.set()
        assert await first == 2 and await three == 6
        with pytest.raises(KeyError):
            await zero
        with pytest.raises(ZeroDivisionError):
            await batches.start(-1)
        assert await batches.start(4) == 8
        batches.close()

    asyncio.run(whole())


def test_more_than_the_limit_are_refused_and_room_comes_back() -> None:
    async def whole() -> None:
        work = Work(is_open=False)
        batches = work.batched(waiting_max=2)
        first = batches.start(1)
        await entered(work)
        waiting = [batches.start(2), batches.start(3)]
        with pytest.raises(Unavailable, match="too many requests"):
            batches.start(4)
        work.gate.set()
        assert await asyncio.gather(first, *waiting) == [2, 4, 6]
        assert await batches.start(4) == 8
        batches.close()

    asyncio.run(whole())


def test_an_abandoned_item_is_not_begun() -> None:
    async def whole() -> None:
        work = Work(is_open=False)
        batches = work.batched()
        first = batches.start(1)
        await entered(work)
        abandoned, kept = batches.start(2), batches.start(3)
        abandoned.cancel()
        first.cancel()  # it runs already: its result has no taker
        work.gate.set()
        assert await kept == 6
        assert work.batches == [[1], [3]]
        batches.close()

    asyncio.run(whole())


def test_a_close_waits_for_what_runs_and_drops_what_waits() -> None:
    async def whole() -> None:
        work = Work(is_open=False)
        batches = work.batched()
        running = batches.start(1)
        await entered(work)
        waiting = batches.start(2)
        threading.Timer(0.05, work.gate.set).start()
        batches.close()
        assert await running == 2
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with pytest.raises(Unavailable, match="stopping"):
            batches.start(3)
        assert work.batches == [[1]]
        batches.close()

    asyncio.run(whole())


@pytest.mark.parametrize("failure", [SystemExit(), KeyboardInterrupt(), StopIteration()])
def test_the_thread_works_on_after_any_failure(failure: BaseException) -> None:
    async def whole() -> None:
        work = Work()
        work.failure = failure
        batches = work.batched()
        with pytest.raises(Internal if isinstance(failure, StopIteration) else type(failure)):
            await batches.start(-1)
        with pytest.raises(Internal, match="1 requests have 0 results"):
            await batches.start(91)
        assert await batches.start(4) == 8
        batches.close()

    asyncio.run(whole())


def test_a_lone_request_after_a_pause_begins_at_once() -> None:
    async def whole() -> None:
        work, clock = Work(is_open=False), TickingClock()

        def slow(items: Sequence[int]) -> list[int | Exception]:
            if len(items) > 1:
                clock.sleep(4_000)
            return work(items)

        batches = Batches(slow, clock, batch_max=4, waiting_max=8)
        first = batches.start(1)
        await entered(work)
        others = [batches.start(number) for number in (2, 3, 4)]
        work.gate.set()
        assert await asyncio.gather(first, *others) == [2, 4, 6, 8]
        clock.sleep(4_000)  # nobody comes for longer than a quarter of what the batch took
        assert await asyncio.wait_for(batches.start(5), PATIENCE_SECONDS) == 10
        batches.close()

    asyncio.run(whole())


def test_clients_that_came_during_a_batch_and_those_of_the_batch_become_one_group() -> None:
    async def whole() -> None:
        work, clock = Work(is_open=False), TickingClock()

        def slow(items: Sequence[int]) -> list[int | Exception]:
            clock.sleep(4 * PATIENCE_SECONDS)
            return work(items)

        batches = Batches(
            slow, clock, batch_max=4, waiting_max=8, wait_seconds_max=PATIENCE_SECONDS
        )
        first = batches.start(1)
        await entered(work)
        second = batches.start(2)
        work.gate.set()
        assert await first == 2
        third = batches.start(3)
        assert await asyncio.gather(second, third) == [4, 6]
        assert work.batches == [[1], [2, 3]]
        batches.close()

    asyncio.run(whole())


def test_a_batch_that_took_long_delays_the_next_one_by_a_moment() -> None:
    async def whole() -> None:
        work, clock = Work(is_open=False), TickingClock()

        def slow(items: Sequence[int]) -> list[int | Exception]:
            clock.sleep(40 * PATIENCE_SECONDS)
            return work(items)

        batches = Batches(slow, clock, batch_max=4, waiting_max=8)
        first = batches.start(1)
        await entered(work)
        second = batches.start(2)
        work.gate.set()
        assert await first == 2  # and its client sends nothing more
        assert await asyncio.wait_for(second, PATIENCE_SECONDS) == 4
        batches.close()

    asyncio.run(whole())


def test_a_batch_waits_for_what_the_loop_is_about_to_queue() -> None:
    async def whole() -> None:
        work = Work(is_open=False)  # and the time to wait for clients is over at once
        batches = Batches(work, TickingClock(), batch_max=4, waiting_max=8)
        first = batches.start(1)
        await entered(work)
        others = [batches.start(number) for number in (2, 3)]
        work.gate.set()
        assert await first == 2
        others.append(batches.start(4))
        assert await asyncio.gather(*others) == [4, 6, 8]
        assert work.batches == [[1], [2, 3, 4]]
        batches.close()

    asyncio.run(whole())


def test_a_batch_does_not_wait_for_a_loop_that_queues_nothing() -> None:
    async def whole() -> None:
        work = Work(is_open=False)
        batches = Batches(
            work, TickingClock(), batch_max=4, waiting_max=8, wait_seconds_max=2 * PATIENCE_SECONDS
        )
        first = batches.start(1)
        await entered(work)
        others = [batches.start(number) for number in (2, 3)]
        work.gate.set()
        assert await first == 2  # and its client sends nothing more
        assert await asyncio.wait_for(asyncio.gather(*others), PATIENCE_SECONDS) == [4, 6]
        batches.close()

    asyncio.run(whole())


def test_a_close_of_what_never_began() -> None:
    Work().batched().close()


def test_a_system_that_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def whole() -> None:
        batches = Work().batched()
        with monkeypatch.context() as patched, pytest.raises(Unavailable, match="no thread"):
            patched.setattr(threading.Thread, "start", refuse)
            batches.start(1)
        assert await batches.start(1) == 2
        batches.close()

    asyncio.run(whole())
