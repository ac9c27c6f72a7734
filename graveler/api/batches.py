"""Requests of one kind that a thread does together: what waits while a batch runs is the next one.

    start(item) ─► queue ─► thread: all that waits, at most a batch ─► work(items) ─► the loop

A store that syncs once for many writes answers many requests at the price of one.

- A request that comes after a pause begins at once.
- After a batch, the thread waits for as many requests as the batch had and as came meanwhile, at
  most a quarter of the time that it took, and no longer than `WAIT_SECONDS_MAX`.  The clients of
  the batch send their next requests in that moment.  If those that wait already were a batch, the
  clients would stay two groups that take turns, and each sync would serve half of them.
- The loop may need longer than that to read them.  So the thread waits on, for at most
  `WAIT_SECONDS_MAX` more, while each round of the loop brings requests.  If it worked meanwhile, it
  and the loop would take the interpreter from each other, and batches would be smaller.

Used by pools.py and the endpoints.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Generic, NamedTuple, TypeVar

from graveler.clock import Clock
from graveler.errors import Internal, Unavailable

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
