"""Threads for work that must not run on the event loop, with a bound on waiting requests.

A request beyond the bound is refused at once; the client may retry.  `Batches` lets one thread do
the work of many requests together, so that one sync serves them all.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

from graveler.core.clock import Clock
from graveler.core.errors import Internal, Unavailable
from graveler.core.records import ABSENT, Absent, Entry
from graveler.engine.objects.write import NewUpload
from graveler.kv.store import WouldWait

# ---- batches -------------------------------------------------------------------------------------

I = TypeVar("I")  # noqa: E741
R = TypeVar("R")
Results = Sequence[R | Exception]
# A quarter of a batch on a slow disk.  A batch may take far longer, as one that loses to commits.
WAIT_SECONDS_MAX: Final = 0.05
# A round reads what has arrived; the next one runs the tasks that queue it.
_ROUNDS: Final = 2


class _Waiting(NamedTuple):
    """One request: where its result goes, and its item."""

    future: "asyncio.Future[Any]"
    item: Any


class Batches(Generic[I, R]):
    """One thread that works on batches.  `start` and `close` are called from the loop.

    `work` takes the items of a batch and returns for each, at its index, its result or its error.
    The thread starts when it is first needed, and does not keep the process alive.
    """

    def __init__(
        self,
        work: Callable[[Sequence[I]], Results[R]],
        clock: Clock,
        *,
        batch_max: int,
        waiting_max: int,
        wait_seconds_max: float = WAIT_SECONDS_MAX,
    ) -> None:
        self._work = work
        self._clock = clock
        self._batch_max = batch_max
        self._waiting_max = waiting_max
        self._wait_seconds_max = wait_seconds_max
        self._changed = threading.Condition()
        self._queue: deque[_Waiting] = deque()
        self._thread: threading.Thread | None = None
        self._expected = 1  # the requests that a batch waits for
        self._wanted = 1  # the requests at which the thread wants to be woken
        self._rounds = 0  # of the loop, that `_ask_loop` has seen
        self._closed = False

    def start(self, item: I) -> "asyncio.Future[R]":
        """Queue an item.  Raises `Unavailable` if too many wait or the service stops."""
        if self._closed:
            raise Unavailable("the service is stopping; try again")
        if len(self._queue) >= self._waiting_max:
            raise Unavailable("too many requests are waiting; try again")
        if self._thread is None:
            self._thread = self._started()
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        with self._changed:
            self._queue.append(_Waiting(future, item))
            if len(self._queue) == self._wanted:
                self._changed.notify()
        return future

    def close(self) -> None:
        """Wait for the batch that runs, and drop what waits."""
        with self._changed:
            self._closed = True
            dropped = list(self._queue)
            self._queue.clear()
            self._changed.notify()
        for waiting in dropped:
            call_on_loop(waiting.future, waiting.future.cancel)
        if self._thread is not None:
            self._thread.join()

    def _started(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, name="batch", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise Unavailable("the system starts no thread; try again") from error
        return thread

    def _run(self) -> None:
        """Work until the end."""
        until = self._clock.steady_seconds()
        while batch := self._next(until):
            until = self._finish(batch)
            del batch  # while the thread waits, it keeps nothing alive

    def _next(self, until: float) -> list[_Waiting]:
        """The next batch; none at the end.  `until`: when to stop waiting for as many requests as
        are expected, as a time of the steady clock, unless the loop is about to queue more."""
        last = until + self._wait_seconds_max
        with self._changed:
            self._wanted = self._expected
            if self._expected > 1:
                self._wait_until(until, lambda: False)
            if not self._queue:
                self._wanted = 1
                while not (self._queue or self._closed):
                    self._changed.wait()
                self._wanted = self._expected
            while len(self._queue) < self._expected and self._brings_more(last):
                pass
            count = min(len(self._queue), self._batch_max)
            return [self._queue.popleft() for _ in range(count)]

    def _wait_until(self, end: float, is_over: Callable[[], bool]) -> None:
        """Wait for as many requests as are expected, but not longer than until `end`, or until
        `is_over`."""

        def has_come() -> bool:
            return self._closed or len(self._queue) >= self._expected or is_over()

        self._changed.wait_for(has_come, max(0.0, end - self._clock.steady_seconds()))

    def _brings_more(self, end: float) -> bool:
        """Whether the next rounds of the loop queue a further request; False at `end`."""
        count, rounds = len(self._queue), self._rounds
        if self._closed or self._clock.steady_seconds() >= end:
            return False
        call_on_loop(self._queue[0].future, self._ask_loop, _ROUNDS)
        self._wait_until(end, lambda: self._rounds != rounds)
        return len(self._queue) > count

    def _ask_loop(self, rounds: int) -> None:
        """Let the loop go on for this number of rounds, and wake the thread then."""
        if rounds:
            asyncio.get_running_loop().call_soon(self._ask_loop, rounds - 1)
            return
        with self._changed:
            self._rounds += 1
            self._changed.notify()

    def _finish(self, batch: list[_Waiting]) -> float:
        """Do the work, and hand the results to the loop, all in one call.  Returns when to
        stop waiting for the next requests, as a time of the steady clock."""
        begun = self._clock.steady_seconds()
        batch = [each for each in batch if not each.future.cancelled()]
        if not batch:
            return begun
        results: Sequence[R | BaseException]
        try:
            results = self._work([each.item for each in batch])
            if len(results) != len(batch):
                raise Internal(f"{len(batch)} requests have {len(results)} results")
        except BaseException as error:  # as of a pool: the thread works on
            results = [error] * len(batch)
        ended = self._clock.steady_seconds()
        with self._changed:
            waiting = sum(not each.future.cancelled() for each in self._queue)
            self._expected = min(len(batch) + waiting, self._batch_max)
        futures = [each.future for each in batch]
        call_on_loop(futures[0], _hand_over, futures, results)
        return ended + min((ended - begun) / 4, self._wait_seconds_max)


def _hand_over(
    futures: "list[asyncio.Future[Any]]", results: Sequence[Any | BaseException]
) -> None:
    for future, result in zip(futures, results, strict=True):
        if future.cancelled():
            continue
        if isinstance(result, StopIteration):  # which a future refuses
            future.set_exception(Internal(f"work ended with {result!r}"))
        elif isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)


def call_on_loop(
    future: "asyncio.Future[Any]", function: Callable[..., Any], *arguments: object
) -> None:
    """Call `function` on the loop of `future`.  A closed loop waits for nothing."""
    with suppress(RuntimeError):
        future.get_loop().call_soon_threadsafe(function, *arguments)


# ---- pools ---------------------------------------------------------------------------------------

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
