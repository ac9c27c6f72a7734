"""Runs many transfers at once: threads, failures, interrupts.  What was done is in a tally.

    items ──► queue, 1,000 ahead ──► threads: one item at a time ──► done, skipped or failed
                ▲                       │
                └── parts, taken first ─┘  an item that is a `Split`; the thread that does the last
                                           part of an item finishes the item

One failure stops no other item, and no other part.  Ctrl-C stops all: uploads break off, so the
server stores nothing of them but finished parts, and downloads keep a part that is not visible
under the name of the object.  For this folder.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, Generic, Literal, NamedTuple, TypeVar

from graveler.cli.progress import Display
from graveler.cli.tally import Interrupted, Tally
from graveler.clock import Clock, SystemClock
from graveler.errors import GravelerError, Unauthenticated

T = TypeVar("T")
Progress = Literal["auto", "never", "json"]
THREADS: Final = 16
_AHEAD: Final = 1_000
_LOOK_SECONDS: Final = 0.1


class Split(NamedTuple):
    """An item in parts, which threads do at the same time.

    `finish` follows the last part; it is given the first error of a part, or none, and raises the
    error of the item."""

    parts: Sequence[Callable[[], None]]
    finish: Callable[[GravelerError | OSError | None], None]


@dataclass
class _Open:
    """A split item whose parts are not all done."""

    name: str
    left: int
    finish: Callable[[GravelerError | OSError | None], None]
    error: GravelerError | OSError | None = None


class _Task(NamedTuple):
    """What one thread does at a time: an item, or a part of one."""

    work: Callable[[], Split | None]
    name: str
    item: _Open | None = None


class _Tasks:
    """The tasks that wait, items at most 1,000.  Parts are taken first, so that few items are
    open."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        lock = threading.Lock()
        self._changed, self._room = threading.Condition(lock), threading.Condition(lock)
        self._items: deque[_Task] = deque()
        self._parts: deque[_Task] = deque()
        self._running = 0
        self._is_closed = False

    def put(self, task: _Task) -> None:
        """Add an item.  Once 1,000 wait, this waits until half of them are taken, so that the
        threads wake the caller seldom."""
        with self._changed:
            if len(self._items) >= _AHEAD:
                while len(self._items) > _AHEAD // 2 and not self._stop.is_set():
                    self._room.wait(_LOOK_SECONDS)
            self._items.append(task)
            self._changed.notify()

    def split(self, tasks: Iterable[_Task]) -> None:
        """Add parts of an item that runs."""
        with self._changed:
            self._parts.extend(tasks)
            self._changed.notify_all()

    def close(self) -> None:
        """No more items follow."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def take(self) -> _Task | None:
        """The next task; none at the end, or after an interrupt.  `done` follows each task."""
        with self._changed:
            while not self._stop.is_set():
                if self._parts or self._items:
                    self._running += 1
                    task = (self._parts or self._items).popleft()
                    if len(self._items) == _AHEAD // 2:
                        self._room.notify()
                    return task
                if self._is_closed and not self._running:  # nothing that runs can be split
                    break
                self._changed.wait(_LOOK_SECONDS)
            return None

    def done(self) -> None:
        """A task has ended."""
        with self._changed:
            self._running -= 1
            if self._is_closed and not self._running:
                self._changed.notify_all()


class Transfer(Generic[T]):
    """Several threads that do `work` for each item.  An item that `work` returns as a `Split` is
    done in parts."""

    def __init__(
        self,
        work: Callable[[T, Tally], Split | None],
        name: Callable[[T], str],
        threads: int = THREADS,
        progress: Progress = "auto",
        clock: Clock | None = None,
    ) -> None:
        self._work, self._name = work, name
        self._threads = threads
        self._progress = progress
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._fatal: list[BaseException] = []

    def run(
        self,
        items: Callable[[Tally], Iterable[T]],
        tally: Tally | None = None,
        *,
        state: Callable[[Tally], str] = Tally.resumable,
    ) -> Tally:
        """Do all items, and return what was done, added to `tally`.  `items` calls `Tally.expect`
        for each item.  `state`: says what an interrupt leaves.

        Raises `KeyboardInterrupt` with the words of `state`, the error of `items`, an
        `Unauthenticated`, because every other item would fail as well, and what no `GravelerError`
        is."""
        tally = tally or Tally()
        tasks = _Tasks(tally.stop)
        workers = [
            threading.Thread(
                target=self._worker, args=(tasks, tally), name=f"transfer-{n}", daemon=True
            )
            for n in range(self._threads)
        ]
        shown = None
        if self._progress != "never":
            shown = Display(tally, self._clock, as_json=self._progress == "json")
        try:
            with _stopping(tally, state):
                for worker in workers:
                    worker.start()
                if shown is not None:
                    shown.start()
                for item in items(tally):
                    tasks.put(_Task(partial(self._work, item, tally), self._name(item)))
                tasks.close()
                for worker in workers:
                    while worker.is_alive():
                        worker.join(_LOOK_SECONDS)
        finally:
            if shown is not None:
                shown.stop()
        if self._fatal:
            raise self._fatal[0]
        return tally

    def _worker(self, tasks: _Tasks, tally: Tally) -> None:
        while (task := tasks.take()) is not None:
            try:
                self._do(task, tasks, tally)
            except Interrupted:
                return
            except BaseException as error:  # a bug: it must not look like success
                self._end(error, tally)
            finally:
                tasks.done()

    def _do(self, task: _Task, tasks: _Tasks, tally: Tally) -> None:
        error: GravelerError | OSError | None = None
        try:
            split = task.work()
            if split is not None:
                item = _Open(task.name, len(split.parts), split.finish)
                tasks.split(_Task(partial(_part, part), task.name, item) for part in split.parts)
                if not split.parts:
                    split.finish(None)
        except Unauthenticated:
            raise
        except (GravelerError, OSError) as failure:
            error = failure
        if task.item is not None:
            error = self._ended_part(task.item, error)
        if error is not None and not tally.stop.is_set():
            tally.failed(task.name, error)

    def _ended_part(
        self, item: _Open, error: GravelerError | OSError | None
    ) -> GravelerError | OSError | None:
        """After the last part of an item: finish it, and return its error."""
        with self._lock:
            item.left -= 1
            item.error = item.error or error
            if item.left:
                return None
        try:
            item.finish(item.error)
        except Unauthenticated:
            raise
        except (GravelerError, OSError) as failure:
            return failure
        return None

    def _end(self, error: BaseException, tally: Tally) -> None:
        self._fatal.append(error)
        tally.stop.set()


@contextmanager
def _stopping(tally: Tally, state: Callable[[Tally], str]) -> Iterator[None]:
    """An error of the block stops all threads.  An interrupt says how far they came."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        tally.stop.set()
        raise KeyboardInterrupt(state(tally)) from interrupt
    except BaseException:
        tally.stop.set()
        raise


def _part(work: Callable[[], None]) -> None:
    work()
