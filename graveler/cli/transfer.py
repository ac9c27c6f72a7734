"""Runs many transfers at once: threads, failures, interrupts.  What was done is in a tally.

    items ──► queue, 1,000 ahead ──► threads: one item at a time ──► done, skipped or failed
       │        ▲                       │
       │        └── parts, taken first ─┘  an item that is a `Split`; the thread that does the last
       │                                   part of an item finishes the item
       └─ small ─► one thread: sends several items, and takes the answers as they come; the others
                   help it while its steps take long

Threads that do one small item each wait longer for each other than for the server.

One failure stops no other item, and no other part.  Ctrl-C stops all: uploads break off, so the
server stores nothing of them but finished parts, and small items that were sent whole; downloads
keep a part that is not visible under the name of the object.  For this folder.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, Generic, Literal, TypeVar

from graveler.cli.support.progress import Display, Interrupted, Tally
from graveler.cli.transfer_tasks import (
    LOOK_SECONDS,
    OpenItem,
    PendingItem,
    Split,
    Task,
    Tasks,
    UnderWay,
)
from graveler.clock import Clock, SystemClock
from graveler.errors import GravelerError, Unauthenticated

T = TypeVar("T")
R = TypeVar("R")
Progress = Literal["auto", "never", "json"]
THREADS: Final = 16


class Transfer(Generic[T]):
    """Several threads that do `work` for each item.  An item that `work` returns as a `Split` is
    done in parts.

    `is_small`: whether `work` of an item returns a `PendingItem`, or nothing; one thread does these
    as long as it is fast."""

    def __init__(
        self,
        work: Callable[[T, Tally], Split | PendingItem | None],
        name: Callable[[T], str],
        threads: int = THREADS,
        progress: Progress = "auto",
        clock: Clock | None = None,
        is_small: Callable[[T], bool] | None = None,
    ) -> None:
        self._work, self._name, self._is_small = work, name, is_small
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
        tasks = Tasks(tally.stop, self._threads, self._clock)
        works = [self._worker] * self._threads
        works += [self._small_worker] if self._is_small else []
        workers = [
            threading.Thread(target=work, args=(tasks, tally), name=f"transfer-{n}", daemon=True)
            for n, work in enumerate(works)
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
                    is_small = self._is_small is not None and self._is_small(item)
                    task = Task(partial(self._work, item, tally), self._name(item))
                    tasks.put(task, is_small=is_small)
                tasks.close()
                for worker in workers:
                    while worker.is_alive():
                        worker.join(LOOK_SECONDS)
        finally:
            if shown is not None:
                shown.stop()
        if self._fatal:
            raise self._fatal[0]
        return tally

    def _worker(self, tasks: Tasks, tally: Tally) -> None:
        while (task := tasks.take()) is not None:
            try:
                self._do(task, tasks, tally)
            except Interrupted:
                return
            except BaseException as error:  # a bug: it must not look like success
                self._end(error, tally)
            finally:
                tasks.done()

    def _small_worker(self, tasks: Tasks, tally: Tally) -> None:
        under_way = UnderWay(self._clock)
        try:
            while not tally.stop.is_set():
                task = tasks.take_small(wait=not under_way)
                if task is not None and self._send(task, tasks, under_way, tally):
                    continue
                if task is None and not under_way:
                    return
                for sent, name in under_way.answered(wait=task is None):
                    with tasks.small_step():
                        self._tried(sent.finish, name, tally)
                    tasks.done()
        except Interrupted:
            return
        except BaseException as error:  # a bug: it must not look like success
            self._end(error, tally)
        finally:
            under_way.drop()

    def _send(self, task: Task, tasks: Tasks, under_way: UnderWay, tally: Tally) -> bool:
        """Send a small item.  Returns whether it is under way, and was neither left out nor
        failed."""
        with tasks.small_step():
            sent = self._tried(task.work, task.name, tally)
        if sent is None:
            tasks.done()
            return False
        assert isinstance(sent, PendingItem), "a small item has no parts"
        under_way.add(sent, task.name)
        return True

    def _tried(self, work: Callable[[], R], name: str, tally: Tally) -> R | None:
        """What `work` returns.  A failure of the item is in the tally."""
        result, error = _outcome(work)
        if error is not None and not tally.stop.is_set():
            tally.failed(name, error)
        return result

    def _do(self, task: Task, tasks: Tasks, tally: Tally) -> None:
        _, error = _outcome(partial(_whole, task, tasks))
        if task.item is not None:
            error = self._ended_part(task.item, error)
        if error is not None and not tally.stop.is_set():
            tally.failed(task.name, error)

    def _ended_part(
        self, item: OpenItem, error: GravelerError | OSError | None
    ) -> GravelerError | OSError | None:
        """After the last part of an item: finish it, and return its error."""
        with self._lock:
            item.left -= 1
            item.error = item.error or error
            if item.left:
                return None
        _, failure = _outcome(partial(item.finish, item.error))
        return failure

    def _end(self, error: BaseException, tally: Tally) -> None:
        self._fatal.append(error)
        tally.stop.set()


def _outcome(work: Callable[[], R]) -> tuple[R | None, GravelerError | OSError | None]:
    """What `work` returns, or how it failed.  Raises what every other item would meet."""
    try:
        return work(), None
    except Unauthenticated:
        raise
    except (GravelerError, OSError) as error:
        return None, error


def _whole(task: Task, tasks: Tasks) -> None:
    """Do a task to its end, but for the parts of an item, which become tasks."""
    begun = task.work()
    if isinstance(begun, Split):
        item = OpenItem(task.name, len(begun.parts), begun.finish)
        tasks.split(Task(partial(_part, part), task.name, item) for part in begun.parts)
        if not begun.parts:
            begun.finish(None)
    elif begun is not None:
        begun.finish()


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
