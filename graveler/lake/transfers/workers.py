"""Runs the items of a transfer in threads, and counts what was done.

    items ──► queue, 1,000 ahead ──► threads: one item at a time ──► done, skipped or failed
                 ▲                       │
                 └── parts, taken first ─┘  the thread that does the last part finishes the item

One failure stops no other item, and no other part.  An interrupt stops all.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple, TypeAlias, TypeVar

from graveler.core.clock import SystemClock
from graveler.core.errors import GravelerError, Invalid, Unauthenticated

T = TypeVar("T")
Failure: TypeAlias = GravelerError | OSError
THREADS: Final = 16
_AHEAD: Final = 1_000
_LOOK_SECONDS: Final = 0.1


class Interrupted(Exception):
    """The transfer was interrupted; this item ends here."""


@dataclass
class Tally:
    """What was transferred so far.  Threads share it."""

    files: int = 0
    bytes_moved: int = 0
    skipped: int = 0
    deleted: int = 0
    files_expected: int = 0
    bytes_expected: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)
    errors: list[GravelerError] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def expect(self, length: int) -> None:
        """Another item, of this length, will come."""
        with self.lock:
            self.files_expected += 1
            self.bytes_expected += length

    def moved(self, length: int) -> None:
        """Bytes were transferred.  Raises `Interrupted` after an interrupt."""
        if self.stop.is_set():
            raise Interrupted
        with self.lock:
            self.bytes_moved += length

    def pieces(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The pieces, counted as they are taken."""
        for piece in pieces:
            self.moved(len(piece))
            yield piece

    def ended(self, *, skipped: bool = False, length: int = 0) -> None:
        """An item is done.  `length`: of an item that was skipped."""
        with self.lock:
            self.files += not skipped
            self.skipped += skipped
            self.bytes_expected -= length

    def failed(self, name: str, error: Failure) -> None:
        """An item failed."""
        if isinstance(error, GravelerError):
            stored, reason = error, error.fields.get("reason", "") or str(error)
        else:
            stored = Invalid(f"{name}: {error.strerror}")
            reason = error.strerror or str(error)
        with self.lock:
            self.failures.append((name, reason))
            self.errors.append(stored)


class Split(NamedTuple):
    """An item in parts, which threads do at the same time.  `finish` follows the last part; it is
    given the first error of a part, or none, and raises the error of the item."""

    parts: Sequence[Callable[[], None]]
    finish: Callable[[Failure | None], None]


class Item(NamedTuple):
    """A transfer of one file.  `work` reports to the tally what it moved, and that it ended."""

    name: str
    size: int
    work: Callable[[Tally], Split | None]


def run(
    items: Iterable[Item], tally: Tally, threads: int = THREADS, *, patience_seconds: float = 0.0
) -> None:
    """Do all items; their failures are in the tally.  After an interrupt, or an error of `items`,
    it waits so long for the threads to end what they do.

    Raises the error of `items`, an `Unauthenticated`, because every other item would fail as well,
    and what is no `GravelerError`: a bug must not look like success."""
    queue, fatal = _Queue(tally.stop), list[BaseException]()
    workers = [
        threading.Thread(
            target=_work, args=(queue, tally, fatal), name=f"transfer-{n}", daemon=True
        )
        for n in range(threads)
    ]
    try:
        for worker in workers:
            worker.start()
        for item in items:
            tally.expect(item.size)
            queue.put(partial(_do, item, queue, tally))
        queue.close()
        for worker in workers:
            while worker.is_alive():
                worker.join(_LOOK_SECONDS)
    except BaseException:
        tally.stop.set()
        clock = SystemClock()
        end = clock.steady_seconds() + patience_seconds
        for worker in workers:
            if worker.ident is not None:
                worker.join(max(end - clock.steady_seconds(), 0.0))
        raise
    if fatal:
        raise fatal[0]


class _Queue:
    """The tasks that wait: parts first, so that few items are open; items, at most 1,000."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        lock = threading.Lock()
        self._changed, self._room = threading.Condition(lock), threading.Condition(lock)
        self._items: deque[Callable[[], None]] = deque()
        self._parts: deque[Callable[[], None]] = deque()
        self._running = 0
        self._is_closed = False

    def put(self, task: Callable[[], None]) -> None:
        """Add an item.  Once 1,000 wait, this waits until half of them are taken, so that the
        threads wake the caller seldom."""
        with self._changed:
            if len(self._items) >= _AHEAD:
                while len(self._items) > _AHEAD // 2 and not self._stop.is_set():
                    self._room.wait(_LOOK_SECONDS)
            self._items.append(task)
            self._changed.notify()

    def split(self, tasks: Iterable[Callable[[], None]]) -> None:
        """Add parts of an item that runs."""
        with self._changed:
            self._parts.extend(tasks)
            self._changed.notify_all()

    def close(self) -> None:
        """No more items follow."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def take(self) -> Callable[[], None] | None:
        """The next task; none at the end, or after an interrupt.  `done` follows each."""
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


def _work(queue: _Queue, tally: Tally, fatal: list[BaseException]) -> None:
    while (task := queue.take()) is not None:
        try:
            task()
        except Interrupted:
            return
        except BaseException as error:
            fatal.append(error)
            tally.stop.set()
        finally:
            queue.done()


def _do(item: Item, queue: _Queue, tally: Tally) -> None:
    """Do an item to its end; parts of it become tasks."""
    begun, error = _tried(partial(item.work, tally))
    if begun is not None and begun.parts:
        split = _OpenItem(item.name, begun.finish, len(begun.parts))
        queue.split(partial(split.do, part, tally) for part in begun.parts)
        return
    if begun is not None:
        _, error = _tried(partial(begun.finish, None))
    _report(item.name, error, tally)


class _OpenItem:
    """A split item whose parts are not all done."""

    def __init__(self, name: str, finish: Callable[[Failure | None], None], left: int) -> None:
        self._name, self._finish, self._left = name, finish, left
        self._error: Failure | None = None
        self._lock = threading.Lock()

    def do(self, part: Callable[[], None], tally: Tally) -> None:
        _, error = _tried(part)
        with self._lock:
            self._left -= 1
            self._error = self._error or error
            if self._left:
                return
        _, error = _tried(partial(self._finish, self._error))
        _report(self._name, error, tally)


def _tried(work: Callable[[], T]) -> tuple[T | None, Failure | None]:
    """What `work` returns, or how it failed.  Raises what every other item would meet."""
    try:
        return work(), None
    except Unauthenticated:
        raise
    except (GravelerError, OSError) as error:
        return None, error


def _report(name: str, error: Failure | None, tally: Tally) -> None:
    if error is not None and not tally.stop.is_set():
        tally.failed(name, error)
