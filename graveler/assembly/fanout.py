"""Runs independent calls concurrently on a bounded pool of threads."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")

FANOUT_THREADS = 16


class ThreadFanout:
    """`Fanout` on a bounded pool of threads.  Concurrent writers that wait for the same sync share
    it.

    If a call running on the pool uses the fan-out again, its calls run one after the other in its
    own thread.  Otherwise all threads could wait for a free thread (a deadlock).
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
        """Accept no more calls, and wait for the running ones to end."""
        self._pool.shutdown(wait=True)

    def _mark_thread(self) -> None:
        self._here.is_ours = True
