"""Requests of one kind that a thread does together: what waits while a batch runs is the next one.

    start(item) ─► queue ─► thread: all that waits, at most a batch ─► work(items) ─► the loop

A store that syncs once for many writes answers many requests at the price of one.

- A lone request begins at once.
- After a batch of several, the thread waits for as many, at most a quarter of the time that the
  batch took.  Its clients send their next requests in that moment.  If the first of them was a
  batch, the others would wait for two batches.

Used by pools.py and the endpoints.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, NamedTuple, TypeVar

from graveler.clock import Clock
from graveler.errors import Unavailable

I = TypeVar("I")  # noqa: E741
R = TypeVar("R")
Results = Sequence[R | Exception]


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
    ) -> None:
        self._work = work
        self._clock = clock
        self._batch_max = batch_max
        self._waiting_max = waiting_max
        self._changed = threading.Condition()
        self._queue: deque[_Waiting] = deque()
        self._thread: threading.Thread | None = None
        self._expected = 1  # the requests that a batch waits for
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
            if len(self._queue) == 1 or len(self._queue) == self._expected:
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
            _call(waiting.future, waiting.future.cancel)
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
        pause = 0.0
        while batch := self._next(pause):
            begun = self._clock.steady_seconds()
            self._finish(batch)
            pause = (self._clock.steady_seconds() - begun) / 4

    def _next(self, pause: float) -> list[_Waiting]:
        """The next batch; none at the end.  `pause`: the longest wait for a batch of the size of
        the last one, in seconds."""
        with self._changed:
            while not (self._queue or self._closed):
                self._changed.wait()
            if len(self._queue) < self._expected and not self._closed:
                self._changed.wait(pause)
            count = min(len(self._queue), self._batch_max)
            batch = [self._queue.popleft() for _ in range(count)]
            self._expected = max(1, count)
        return batch

    def _finish(self, batch: list[_Waiting]) -> None:
        """Do the work, and hand the results to the loop, all in one call."""
        batch = [each for each in batch if not each.future.cancelled()]
        if not batch:
            return
        results: Results[R]
        try:
            results = self._work([each.item for each in batch])
        except Exception as error:
            results = [error] * len(batch)
        futures = [each.future for each in batch]
        _call(futures[0], _hand_over, futures, results)


def _hand_over(futures: "list[asyncio.Future[Any]]", results: Results[Any]) -> None:
    for future, result in zip(futures, results, strict=True):
        if future.cancelled():
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)


def _call(future: "asyncio.Future[Any]", function: Callable[..., Any], *arguments: object) -> None:
    """Call `function` on the loop of `future`.  A closed loop waits for nothing."""
    with suppress(RuntimeError):
        future.get_loop().call_soon_threadsafe(function, *arguments)
