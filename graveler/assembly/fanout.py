"""Independent calls at the same time, on a bounded pool of threads.  For this folder."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")

FANOUT_THREADS = 16


class ThreadFanout:
    """`Fanout` on a bounded pool of threads: writers that wait for the same sync share it.

    A call that hands over calls itself runs them one after the other: if it waited for threads,
    all threads might be waiting so.
    """

    def __init__(self, threads: int = FANOUT_THREADS) -> None:
        self._here = threading.local()
        self._pool = ThreadPoolExecutor(
            threads, thread_name_prefix="fanout", initializer=self._mark_thread
        )

    def map(self, function: Callable[[A], B], items: Iterable[A]) -> list[B]:
        if getattr(self._here, "is_ours", False):
            return [function(item) for item in items]
        futures = [self._pool.submit(function, item) for item in items]
        wait(futures)
        return [future.result() for future in futures]

    def close(self) -> None:
        """Let what runs end; take nothing more."""
        self._pool.shutdown(wait=True)

    def _mark_thread(self) -> None:
        self._here.is_ours = True
