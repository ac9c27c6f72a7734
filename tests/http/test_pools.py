"""The pool of threads behind the event loop: results, errors, limits, closing."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from graveler.core.errors import Internal, Unavailable
from graveler.http.pools import BoundedPool, Pools
from graveler.kv.store import WouldWait


class Gate:
    """Work that waits until it is let through."""

    def __init__(self) -> None:
        self.entered, self.open = threading.Event(), threading.Event()

    def pass_through(self) -> str:
        self.entered.set()
        assert self.open.wait(60)
        return "passed"


async def entered(gate: Gate) -> None:
    await asyncio.get_running_loop().run_in_executor(None, gate.entered.wait, 60)


def test_results_and_errors_reach_their_caller() -> None:
    pool = BoundedPool(3, 100, "test")

    def divide(above: int, below: int) -> float:
        return above / below

    async def whole() -> None:
        results = await asyncio.gather(*(pool.start(divide, n, 2) for n in range(50)))
        assert results == [n / 2 for n in range(50)]
        with pytest.raises(ZeroDivisionError):
            await pool.start(divide, 1, 0)
        assert await pool.start(divide, 4, 2) == 2  # the thread of the error still works
        pool.close()

    asyncio.run(whole())


def test_work_beyond_the_limit_is_refused_and_room_comes_back() -> None:
    pool, gate = BoundedPool(1, 1, "test"), Gate()

    async def whole() -> None:
        running, waiting = pool.start(gate.pass_through), pool.start(gate.pass_through)
        with pytest.raises(Unavailable, match="too many requests"):
            pool.start(gate.pass_through)
        accepted = pool.proceed(gate.pass_through)  # a request that was accepted earlier
        gate.open.set()
        assert await asyncio.gather(running, waiting, accepted) == ["passed"] * 3
        assert await pool.start(gate.pass_through) == "passed"
        pool.close()

    asyncio.run(whole())


def test_work_of_a_cancelled_request_is_not_begun() -> None:
    pool, gate = BoundedPool(1, 9, "test"), Gate()
    calls: list[int] = []

    async def whole() -> None:
        running = pool.start(gate.pass_through)
        dropped = pool.start(calls.append, 1)
        dropped.cancel()
        behind = pool.start(calls.append, 2)
        gate.open.set()
        await asyncio.gather(running, behind)
        assert calls == [2]
        pool.close()

    asyncio.run(whole())


def test_closing_waits_for_running_work_and_drops_waiting_work() -> None:
    pool, gate = BoundedPool(1, 9, "test"), Gate()
    calls: list[int] = []

    async def whole() -> None:
        running, waiting = pool.start(gate.pass_through), pool.start(calls.append, 1)
        await entered(gate)
        closing = asyncio.get_running_loop().run_in_executor(None, pool.close)
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not closing.done()
        gate.open.set()
        await closing
        assert await running == "passed"
        assert not calls

    asyncio.run(whole())


def test_a_cancelled_request_makes_room_at_once() -> None:
    pool, gate = BoundedPool(1, 1, "test"), Gate()

    async def whole() -> None:
        running, waiting = pool.start(gate.pass_through), pool.start(gate.pass_through)
        waiting.cancel()
        await asyncio.sleep(0)
        behind = pool.start(gate.pass_through)
        gate.open.set()
        assert await asyncio.gather(running, behind) == ["passed"] * 2
        pool.close()

    asyncio.run(whole())


def test_a_closed_pool_refuses_work() -> None:
    pool = BoundedPool(1, 1, "test")

    async def whole() -> None:
        assert await pool.start(len, "abc") == 3
        pool.close()
        with pytest.raises(Unavailable, match="stopping"):
            pool.start(len, "abc")

    asyncio.run(whole())


def test_a_system_without_threads_refuses_and_the_pool_recovers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = BoundedPool(1, 1, "test")

    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def whole() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", fail)
            with pytest.raises(Unavailable, match="no thread"):
                pool.start(len, "abc")
        assert await pool.start(len, "abc") == 3
        pool.close()

    asyncio.run(whole())


def test_a_result_that_a_future_cannot_hold_is_an_error() -> None:
    pool = BoundedPool(1, 1, "test")

    async def whole() -> None:
        with pytest.raises(Internal):
            await pool.start(next, iter(()))
        pool.close()

    asyncio.run(whole())


def test_a_loop_that_is_gone_does_not_end_the_thread() -> None:
    pool, gate = BoundedPool(1, 9, "test"), Gate()

    async def begin(function: Callable[[], str]) -> None:
        pool.start(function)
        await entered(gate)

    asyncio.run(begin(gate.pass_through))
    gate.open.set()

    async def again() -> None:
        assert await pool.start(gate.pass_through) == "passed"
        pool.close()

    asyncio.run(again())


def pools(*, is_remote: bool = False) -> Pools:
    names = ("write", "body", "stream", "walk", "lookup", "copy")
    short, bodies, streams, walks, lookups, copies = (BoundedPool(1, 1, name) for name in names)
    return Pools(short, bodies, streams, ThreadPoolExecutor(1), walks, lookups, copies, is_remote)


def test_look_ups_of_a_remote_store_run_in_threads_and_others_on_the_loop() -> None:
    async def where(opened: Pools) -> int:
        found = await opened.point(threading.get_ident)
        opened.close()
        return found

    assert asyncio.run(where(pools(is_remote=False))) == threading.get_ident()
    assert asyncio.run(where(pools(is_remote=True))) != threading.get_ident()


@pytest.mark.parametrize("is_remote", [False, True])
def test_a_look_up_that_may_wait_passes_writers_that_wait(is_remote: bool) -> None:
    gate, opened = Gate(), pools(is_remote=is_remote)
    loop_thread = threading.get_ident()

    def look_up() -> str:
        if threading.get_ident() == loop_thread:
            raise WouldWait
        return "found"

    async def ask() -> None:
        held = opened.writers.start(gate.pass_through)
        assert await opened.point(look_up) == "found"
        gate.open.set()
        await held
        opened.close()

    asyncio.run(ask())
