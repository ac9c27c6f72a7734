"""Independent calls at the same time, on a bounded pool of threads.  For this folder."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")

FANOUT_THREADS = 16


class ThreadFanout:
    """`Fanout` on a bounded pool of threads: writers that wait for the same sync share it."""

    def __init__(self, threads: int = FANOUT_THREADS) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="fanout")

    def map(self, function: Callable[[A], B], items: Iterable[A]) -> list[B]:
        futures = [self._pool.submit(function, item) for item in items]
        wait(futures)
        return [future.result() for future in futures]

    def close(self) -> None:
        """Let what runs end; take nothing more."""
        self._pool.shutdown(wait=True)
