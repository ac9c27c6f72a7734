"""Runs many transfers at once: threads, failures, interrupts.  What was done is in a tally.

    items ──► queue, 1,000 ahead ──► threads: one item at a time ──► done, skipped or failed
       │        ▲                       │
       │        └── parts, taken first ─┘  an item that is a `Split`; the thread that does the last
       │                                   part of an item finishes the item
       └─ small ─► one thread: sends several items, and takes the answers as they come

For small items, threads would take longer to wait for each other than for the server.

One failure stops no other item, and no other part.  Ctrl-C stops all: uploads break off, so the
server stores nothing of them but finished parts, and downloads keep a part that is not visible
under the name of the object.  For this folder.
"""

import select
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
R = TypeVar("R")
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


class PendingItem(NamedTuple):
    """A small item whose request is under way.

    `fileno`: readable when its answer has come.  `deadline`: by the steady clock, until when it
    must have.  `finish`: takes the answer, or raises the error of the item; it does not wait after
    the deadline.  `drop`: gives the answer up."""

    fileno: int
    deadline: float
    finish: Callable[[], None]
    drop: Callable[[], None]


@dataclass
class _Open:
    """A split item whose parts are not all done."""

    name: str
    left: int
    finish: Callable[[GravelerError | OSError | None], None]
    error: GravelerError | OSError | None = None


class _Task(NamedTuple):
    """What one thread does at a time: an item, or a part of one."""

    work: Callable[[], Split | PendingItem | None]
    name: str
    item: _Open | None = None


class _Tasks:
    """The tasks that wait, items at most 1,000.  `limit`: how many are done at a time.  Parts are
    taken first, so that few items are open; small items last, because they take least.

    Twice as many may be under way while small items are sent: the server then has the next ones
    before the answers to the last ones are read."""

    def __init__(self, stop: threading.Event, limit: int) -> None:
        self._stop, self._limit = stop, limit
        self._limit_small = limit if limit == 1 else 2 * limit
        lock = threading.Lock()
        self._changed, self._room = threading.Condition(lock), threading.Condition(lock)
        self._small_changed = threading.Condition(lock)
        self._items: deque[_Task] = deque()
        self._parts: deque[_Task] = deque()
        self._small: deque[_Task] = deque()
        self._running = 0
        self._is_closed = False

    def put(self, task: _Task, *, is_small: bool) -> None:
        """Add an item.  Once 1,000 wait, this waits until half of them are taken, so that the
        threads wake the caller seldom."""
        with self._changed:
            if self._waiting() >= _AHEAD:
                while self._waiting() > _AHEAD // 2 and not self._stop.is_set():
                    self._room.wait(_LOOK_SECONDS)
            if is_small:
                self._small.append(task)
                self._small_changed.notify()
            else:
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
            self._small_changed.notify()

    def take(self) -> _Task | None:
        """The next task, but no small one; none at the end, or after an interrupt.  `done` follows
        each task."""
        with self._changed:
            while not self._stop.is_set():
                if (self._parts or self._items) and self._running < self._limit:
                    return self._taken(self._parts or self._items)
                if self._is_closed and not self._running:  # nothing that runs can be split
                    break
                self._changed.wait(_LOOK_SECONDS)
            return None

    def take_small(self, *, wait: bool) -> _Task | None:
        """The next small item; none if it cannot be done now, or after an interrupt.  `wait`: until
        it can; none at the end.  `done` follows each."""
        with self._small_changed:
            while not self._stop.is_set():
                is_last = not (self._parts or self._items)
                if self._small and is_last and self._running < self._limit_small:
                    return self._taken(self._small)
                if not wait or (self._is_closed and not self._small):
                    break
                self._small_changed.wait(_LOOK_SECONDS)
            return None

    def done(self) -> None:
        """A task has ended."""
        with self._changed:
            self._running -= 1
            if self._is_closed and not self._running:
                self._changed.notify_all()
            elif self._parts or self._items:
                self._changed.notify()
            if self._small:
                self._small_changed.notify()

    def _waiting(self) -> int:
        return len(self._items) + len(self._small)

    def _taken(self, tasks: deque[_Task]) -> _Task:
        self._running += 1
        task = tasks.popleft()
        if self._waiting() == _AHEAD // 2:
            self._room.notify()
        return task


class Transfer(Generic[T]):
    """Several threads that do `work` for each item.  An item that `work` returns as a `Split` is
    done in parts.

    `is_small`: whether `work` takes little time until it returns a `PendingItem`, or nothing; one
    thread does all of these."""

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
        tasks = _Tasks(tally.stop, self._threads)
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
                    task = _Task(partial(self._work, item, tally), self._name(item))
                    tasks.put(task, is_small=is_small)
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

    def _small_worker(self, tasks: _Tasks, tally: Tally) -> None:
        under_way = _UnderWay(self._clock)
        try:
            while not tally.stop.is_set():
                task = tasks.take_small(wait=not under_way)
                if task is not None:
                    sent = self._tried(task.work, task.name, tally)
                    if isinstance(sent, PendingItem):
                        under_way.add(sent, task.name)
                    else:
                        tasks.done()
                elif not under_way:
                    return
                else:
                    for sent, name in under_way.answered():
                        self._tried(sent.finish, name, tally)
                        tasks.done()
        except Interrupted:
            return
        except BaseException as error:  # a bug: it must not look like success
            self._end(error, tally)
        finally:
            under_way.drop()

    def _tried(self, work: Callable[[], R], name: str, tally: Tally) -> R | None:
        """What `work` returns.  A failure of the item is in the tally."""
        try:
            return work()
        except Unauthenticated:
            raise
        except (GravelerError, OSError) as error:
            if not tally.stop.is_set():
                tally.failed(name, error)
        return None

    def _do(self, task: _Task, tasks: _Tasks, tally: Tally) -> None:
        error: GravelerError | OSError | None = None
        try:
            split = task.work()
            if isinstance(split, Split):
                item = _Open(task.name, len(split.parts), split.finish)
                tasks.split(_Task(partial(_part, part), task.name, item) for part in split.parts)
                if not split.parts:
                    split.finish(None)
            elif split is not None:
                split.finish()
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


class _UnderWay:
    """Small items that were sent, in their order."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._poll = select.poll()
        self._items: dict[int, tuple[PendingItem, str]] = {}

    def __len__(self) -> int:
        return len(self._items)

    def add(self, sent: PendingItem, name: str) -> None:
        """An item was sent."""
        self._items[sent.fileno] = sent, name
        self._poll.register(sent.fileno, select.POLLIN)

    def answered(self) -> Iterator[tuple[PendingItem, str]]:
        """Remove and return the items whose answers have come, or are too late.  Waits for one, but
        not long, because more items may be there to send."""
        ready = [fileno for fileno, _ in self._poll.poll(_LOOK_SECONDS * 1e3)]
        if not ready:
            now = self._clock.steady_seconds()
            ready = [n for n, (sent, _) in self._items.items() if sent.deadline <= now]
        for fileno in ready:
            self._poll.unregister(fileno)
            yield self._items.pop(fileno)

    def drop(self) -> None:
        """Give all answers up."""
        for sent, _ in self._items.values():
            sent.drop()
        self._items.clear()


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
