"""Who is woken when a shared event has come, and who sleeps on."""

import signal
import threading
from collections.abc import Callable
from typing import cast

import pytest

from graveler.core.fanout import SyncWaiters
from tests.waiting import PATIENCE_SECONDS, until


class Sleepers:
    """Threads that wait for numbered events."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.waiters = SyncWaiters(self.lock)
        self.woken: list[int] = []
        self._threads: list[threading.Thread] = []

    def add(self, number: int) -> None:
        def sleep() -> None:
            with self.lock:
                self.waiters.wait(number)
                self.woken.append(number)

        before = len(self.waiters)
        self._threads.append(threading.Thread(target=sleep))
        self._threads[-1].start()
        until(lambda: len(self.waiters) > before, "the thread sleeps")

    def wake(self, reached: float, count: int) -> list[int]:
        """The numbers that woke; there must be `count`."""
        with self.lock:
            self.waiters.wake(reached)
        until(lambda: len(self.woken) >= count, "they woke")
        woken, self.woken = sorted(self.woken), []
        return woken

    def end(self) -> None:
        with self.lock:
            self.waiters.wake(float("inf"))
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive()


def test_an_event_wakes_those_that_it_serves_and_the_maker_of_the_next_one() -> None:
    sleepers = Sleepers()
    for number in (1, 2, 2, 2, 1):
        sleepers.add(number)
    assert sleepers.wake(1, count=3) == [1, 1, 2]
    assert len(sleepers.waiters) == 2
    assert sleepers.wake(0, count=1) == [2]
    assert sleepers.wake(2, count=1) == [2]
    assert sleepers.wake(2, count=0) == []
    sleepers.end()


@pytest.mark.parametrize("is_chosen", [False, True])
def test_an_interrupted_thread_passes_its_turn_on(is_chosen: bool) -> None:
    """Only the main thread is interrupted, so it waits here."""
    sleepers = Sleepers()

    class Interrupted(BaseException):
        pass

    def interrupt(*_details: object) -> None:
        if is_chosen:  # the lock is free, because the main thread sleeps
            _held(sleepers.lock, lambda: sleepers.waiters.wake(0))
        raise Interrupted

    def signal_main() -> None:
        until(lambda: len(sleepers.waiters) == 1, "the main thread sleeps")
        sleepers.add(7)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        other = threading.Thread(target=signal_main)
        other.start()
        with pytest.raises(Interrupted), sleepers.lock:
            sleepers.waiters.wait(5)
        other.join(PATIENCE_SECONDS)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not sleepers.lock.locked()
    if is_chosen:
        until(lambda: sleepers.woken == [7], "the other one has the turn")
    else:
        assert (len(sleepers.waiters), sleepers.woken) == (1, [])
    sleepers.end()


class InterruptedLock:
    """A lock whose next `interrupts` waits are interrupted."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.interrupts = 0
        self.release = self.lock.release
        self.locked = self.lock.locked

    def acquire(self, blocking: bool = True) -> bool:
        if self.interrupts:
            self.interrupts -= 1
            raise KeyboardInterrupt
        return self.lock.acquire(blocking)

    __enter__ = acquire

    def __exit__(self, *_error: object) -> None:
        self.release()


def test_an_interrupt_before_the_lock_is_taken_again_leaves_no_lock_to_others() -> None:
    sleepers = Sleepers()
    held = InterruptedLock()
    sleepers.lock = cast(threading.Lock, held)
    sleepers.waiters = SyncWaiters(sleepers.lock)

    def wake_main() -> None:
        until(lambda: len(sleepers.waiters) == 1, "the main thread sleeps")
        sleepers.add(7)
        with held.lock:
            held.interrupts = 2
            sleepers.waiters.wake(0)

    other = threading.Thread(target=wake_main)
    other.start()
    with pytest.raises(KeyboardInterrupt), sleepers.lock:
        sleepers.waiters.wait(5)
    other.join(PATIENCE_SECONDS)
    assert held.interrupts == 0
    until(lambda: sleepers.woken == [7], "the other one has the turn")
    assert not held.locked()
    sleepers.end()


def _held(lock: threading.Lock, call: Callable[[], None]) -> None:
    with lock:
        call()
