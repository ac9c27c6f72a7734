"""Thread pools for work that must not run on the event loop, with a limit on the waiting requests.

Short writes, arriving bodies, reads, copies, imports and walks each have their own threads, so
uploads do not delay downloads, and long listings and copies do not delay commits.  If too many
requests wait for a pool, a new one is refused at once.  The client may retry, and memory stays
bounded.  Used by service.py and the endpoints.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Literal, NamedTuple, TypeVar

from graveler.api.batches import Batches, call_on_loop
from graveler.engine.objects.write import NewUpload
from graveler.errors import Internal, Unavailable
from graveler.kv.wait import WouldWait
from graveler.records import ABSENT, Absent, Entry

T = TypeVar("T")


class _Work(NamedTuple):
    """One call: where its result goes, and what to call."""

    future: "asyncio.Future[Any]"
    function: Callable[..., Any]
    arguments: tuple[object, ...]


class BoundedPool:
    """A thread pool for the event loop.  Called only from the thread of the loop.

    A result goes directly from its thread to the loop.  `loop.run_in_executor` would pass it
    through two futures, which takes longer.  Threads start when they are first needed.  They do not
    keep a process alive: what they acknowledged is durable, and `close` waits for the rest.
    """

    def __init__(self, threads: int, waiting_max: int, name: str) -> None:
        self._name = name
        self._threads_max = threads
        self._threads: list[threading.Thread] = []
        self._queue: SimpleQueue[_Work | None] = SimpleQueue()  # None ends a thread
        self._unfinished = 0
        self._unfinished_max = threads + waiting_max
        self._closed = False

    def start(self, function: Callable[..., T], *arguments: object) -> "asyncio.Future[T]":
        """Run `function` in a thread.  Raises `Unavailable` if too many requests wait."""
        if self._unfinished >= self._unfinished_max:
            raise Unavailable("too many requests are waiting; try again")
        return self.proceed(function, *arguments)

    def proceed(self, function: Callable[..., T], *arguments: object) -> "asyncio.Future[T]":
        """Run the next step of a request that was already accepted.  Never refuses."""
        if self._closed:
            raise Unavailable("the service is stopping; try again")
        if len(self._threads) < min(self._unfinished + 1, self._threads_max):
            self._start_thread()
        self._unfinished += 1
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        future.add_done_callback(self._count_down)
        self._queue.put(_Work(future, function, arguments))
        return future

    def close(self) -> None:
        """Wait for running work and drop waiting work."""
        self._closed = True
        with suppress(Empty):
            while (work := self._queue.get_nowait()) is not None:
                call_on_loop(work.future, work.future.cancel)
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _start_thread(self) -> None:
        """Raises `Unavailable` if the system starts no thread and the pool has none."""
        name = f"{self._name}_{len(self._threads)}"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            if not self._threads:
                raise Unavailable("the system starts no thread; try again") from error
            return  # the others do the work
        self._threads.append(thread)

    def _run(self) -> None:
        """Work until the pool is closed."""
        while (work := self._queue.get()) is not None:
            result: Any = None
            error: BaseException | None = None
            if not work.future.cancelled():
                try:
                    result = work.function(*work.arguments)
                except StopIteration as caught:  # a future cannot hold it
                    error = Internal(f"work ended with {caught!r}")
                except BaseException as caught:
                    error = caught
            call_on_loop(work.future, self._finish, work.future, result, error)
            del work, result, error  # while the thread waits, it keeps nothing alive

    def _finish(self, future: "asyncio.Future[T]", result: T, error: BaseException | None) -> None:
        """Give the result to the waiting request.  Runs on the loop."""
        if future.cancelled():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def _count_down(self, _future: "asyncio.Future[Any]") -> None:
        self._unfinished -= 1


class Pools(NamedTuple):
    """The pools: short writes, arriving bodies, reads of bodies, imports, scans or walks, look-ups
    that may wait, and copies and joins of bytes.  Look-ups have threads of their own, because
    commits that wait for their turn keep those of writers.

    `is_remote`: look-ups ask a network, so none of them runs on the event loop.
    `uploads`: small uploads that share syncs; `ABSENT` for a store that shares none.
    """

    writers: BoundedPool
    bodies: BoundedPool
    streams: BoundedPool
    imports: Executor
    walkers: BoundedPool
    lookups: BoundedPool
    copies: BoundedPool
    is_remote: bool = False
    uploads: Batches[NewUpload, Entry] | Literal[Absent.ABSENT] = ABSENT

    async def point(self, function: Callable[..., T], *arguments: object) -> T:
        """Run a look-up on the event loop if it does not have to wait; otherwise in a thread."""
        if self.is_remote:
            return await self.lookups.start(function, *arguments)
        try:
            return function(*arguments)
        except WouldWait:
            return await self.lookups.start(function, *arguments)

    def close(self) -> None:
        """Wait for running work in all pools, and drop waiting work."""
        if self.uploads is not ABSENT:
            self.uploads.close()
        self.writers.close()
        self.bodies.close()
        self.streams.close()
        self.walkers.close()
        self.lookups.close()
        self.copies.close()
        self.imports.shutdown(wait=True, cancel_futures=True)
