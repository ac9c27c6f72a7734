"""Thread pools for work that must not run on the event loop, with a limit on the waiting requests.

Short writes, long bodies, imports and walks each have their own threads, so slow clients and long
listings do not delay commits.  If too many requests wait for a pool, a new one is refused at once.
The client may retry, and memory stays bounded.  Used by service.py and the endpoints.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from graveler.errors import Unavailable
from graveler.kv.wait import WouldWait

T = TypeVar("T")


class BoundedPool:
    """A thread pool for the event loop.  Called only from the thread of the loop."""

    def __init__(self, threads: int, waiting_max: int, name: str) -> None:
        self._executor = ThreadPoolExecutor(threads, name)
        self._unfinished = 0
        self._unfinished_max = threads + waiting_max

    def start(self, function: Callable[..., T], *arguments: object) -> "asyncio.Future[T]":
        """Run `function` in a thread.  Raises `Unavailable` if too many requests wait."""
        if self._unfinished >= self._unfinished_max:
            raise Unavailable("too many requests are waiting; try again")
        return self.proceed(function, *arguments)

    def proceed(self, function: Callable[..., T], *arguments: object) -> "asyncio.Future[T]":
        """Run the next step of a request that was already accepted.  Never refuses."""
        self._unfinished += 1
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._executor, function, *arguments)
        future.add_done_callback(self._finished)
        return future

    def close(self) -> None:
        """Wait for running work and drop waiting work."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _finished(self, _future: "asyncio.Future[T]") -> None:
        self._unfinished -= 1


class Pools(NamedTuple):
    """The pools: short writes, bodies, imports, and scans or walks."""

    writers: BoundedPool
    streams: BoundedPool
    imports: Executor
    walkers: BoundedPool

    async def point(self, function: Callable[..., T], *arguments: object) -> T:
        """Run a look-up on the event loop if it does not have to wait; otherwise in a thread."""
        try:
            return function(*arguments)
        except WouldWait:
            return await self.writers.start(function, *arguments)

    def close(self) -> None:
        """Wait for running work in all pools, and drop waiting work."""
        self.writers.close()
        self.streams.close()
        self.walkers.close()
        self.imports.shutdown(wait=True, cancel_futures=True)
