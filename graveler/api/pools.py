"""Threads for what must not run on the event loop, with a bound on what may wait for them.

Short writes, long bodies, imports and walks have threads of their own, so that slow clients and
long listings cannot hold up commits.  What would wait behind too many others is refused at once:
the client may come back, and memory stays bounded.  For service.py and the endpoints.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from graveler.errors import Unavailable
from graveler.kv.wait import WouldWait

T = TypeVar("T")


class BoundedPool:
    """A pool of threads to which the event loop gives work.  Used from the loop's thread only."""

    def __init__(self, threads: int, waiting_max: int, name: str) -> None:
        self._executor = ThreadPoolExecutor(threads, name)
        self._unfinished = 0
        self._unfinished_max = threads + waiting_max

    def start(self, function: Callable[..., T], *arguments: object) -> "asyncio.Future[T]":
        """Have `function` run.  Raises `Unavailable` if too much is waiting."""
        if self._unfinished >= self._unfinished_max:
            raise Unavailable("too many requests are waiting; try again")
        return self.proceed(function, *arguments)

    def proceed(self, function: Callable[..., T], *arguments: object) -> "asyncio.Future[T]":
        """The next step of a request that was taken on: never refused."""
        self._unfinished += 1
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._executor, function, *arguments)
        future.add_done_callback(self._finished)
        return future

    def close(self) -> None:
        """Wait for what runs; what still waits is dropped."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _finished(self, _future: "asyncio.Future[T]") -> None:
        self._unfinished -= 1


class Pools(NamedTuple):
    """Threads for short work, for bodies, for imports, and for what scans or walks."""

    writers: BoundedPool
    streams: BoundedPool
    imports: Executor
    walkers: BoundedPool

    async def point(self, function: Callable[..., T], *arguments: object) -> T:
        """Look something up: at once on the event loop if nothing has to be waited for, else in a
        thread."""
        try:
            return function(*arguments)
        except WouldWait:
            return await self.writers.start(function, *arguments)

    def close(self) -> None:
        """Wait for what runs."""
        self.writers.close()
        self.streams.close()
        self.walkers.close()
        self.imports.shutdown(wait=True, cancel_futures=True)
