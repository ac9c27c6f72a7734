"""The interface for fan-out: independent calls that may run concurrently.

Assembly or a simulator passes in an implementation.  Every module may import this.

Threads that wait for numbered events, of which one event serves many, such as syncs of a file.

Whoever makes an event then wakes those that it serves, and one of the others, to make the next
event.  All the rest sleep on: waking them would cost each one two switches of threads for nothing.
"""

import threading
from collections.abc import Callable, Iterable
from itertools import starmap
from typing import Final, Protocol, TypeVar

# ---- fanout ----------------------------------------------------------------------------------

A = TypeVar("A")
B = TypeVar("B")


class Fanout(Protocol):
    """Runs independent calls, some of them concurrently."""

    def map(self, function: Callable[[A], B], items: Iterable[A]) -> list[B]:
        """The results in the order of `items`.  If a call fails, all calls end first; then the
        first error is raised."""
        ...


class Sequential:
    """Runs one call after the other: for simulations, and where concurrency gains nothing."""

    def map(self, function: Callable[[A], B], items: Iterable[A]) -> list[B]:
        return [function(item) for item in items]


SEQUENTIAL: Final = Sequential()


# ---- sync waiters ----------------------------------------------------------------------------


class SyncWaiters:
    """The threads that wait under `lock`.  Callers of all methods hold it."""

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._waiting: list[tuple[int, threading.Lock]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def wait(self, number: int) -> None:
        """Release the lock, sleep until `wake`, and take the lock again.

        The caller then finds out whether event `number` has come, whether another thread makes the
        next one, or whether it is its own turn to make it.
        """
        gate = threading.Lock()
        gate.acquire()
        own = (number, gate)
        self._waiting.append(own)
        released: list[None] = []
        interrupt: BaseException | None = None
        try:
            # One call, so that no interrupt comes between the release and its note.
            released.extend(starmap(self._lock.release, ((),)))
            gate.acquire()
        except BaseException as error:  # of the main thread
            interrupt = error
        if released:
            interrupt = _take(self._lock) or interrupt
        if interrupt is None:
            return
        if own in self._waiting:
            self._waiting.remove(own)
        else:
            self.wake(0)  # another one takes its turn
        raise interrupt

    def wake(self, reached: float) -> None:
        """Wake all that wait for an event up to `reached`, and the first of the others."""
        waiting, self._waiting = self._waiting, []
        has_maker = False
        for number, gate in waiting:
            if number <= reached:
                gate.release()
            elif not has_maker:
                has_maker = True
                gate.release()
            else:
                self._waiting.append((number, gate))


def _take(lock: threading.Lock) -> BaseException | None:
    """Take a lock, however often the thread is interrupted meanwhile; returns the last interrupt.
    The callers of `wait` release the lock, so they must have it, also when they are interrupted."""
    taken: list[bool] = []
    interrupt: BaseException | None = None
    while not taken:
        try:
            # One call, so that no interrupt comes after the lock is taken and before that is noted.
            taken.extend(map(lock.acquire, (True,)))
        except BaseException as error:
            interrupt = error
    return interrupt
