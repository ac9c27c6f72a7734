"""The queue of a transfer: what waits, what may begin, and which small items are under way.

    parts        of items that are open, taken first
    large items  one thread does one at a time
    small items  one thread sends several, and takes the answers as they come; the other threads
                 help while its steps take long: a slow disk, a new connection

For transfer.py.
"""

import select
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from graveler.clock import Clock
from graveler.errors import GravelerError

LOOK_SECONDS: Final = 0.1
_AHEAD: Final = 1_000
# The other threads help the one of small items while a step takes longer than the first, and for a
# second after so many steps took longer than the second on average.
_STEP_SECONDS_MAX: Final = 0.01
_MEAN_SECONDS_MAX: Final = 0.002
_STEPS: Final = 16
_HELP_SECONDS: Final = 1.0
_NEVER: Final = float("inf")


class Split(NamedTuple):
    """An item in parts, which threads do at the same time.

    `finish` follows the last part; it is given the first error of a part, or none, and raises the
    error of the item."""

    parts: Sequence[Callable[[], None]]
    finish: Callable[[GravelerError | OSError | None], None]


class PendingItem(NamedTuple):
    """A small item whose request is under way.

    `fileno`: readable when its answer has begun.  `deadline`: by the steady clock, until when it
    must have.  `finish`: takes the answer, or raises the error of the item; after the deadline it
    does not wait for its beginning.  `drop`: gives the answer up."""

    fileno: int
    deadline: float
    finish: Callable[[], None]
    drop: Callable[[], None]


@dataclass
class OpenItem:
    """A split item whose parts are not all done."""

    name: str
    left: int
    finish: Callable[[GravelerError | OSError | None], None]
    error: GravelerError | OSError | None = None


class Task(NamedTuple):
    """What one thread does at a time: an item, or a part of one."""

    work: Callable[[], Split | PendingItem | None]
    name: str
    item: OpenItem | None = None


class Tasks:
    """The tasks that wait, items at most 1,000.  Parts are taken first, so that few items are open.
    Small items begin only while no other item waits.

    A task begins while fewer than `limit` are under way, a small one while fewer than twice as many
    are: the server then has the next ones before the answers to the last ones are read.  If the
    steps of the thread of small items take long, what it has under way keeps no other thread
    waiting.  With a limit of 1 there is one task at a time."""

    def __init__(self, stop: threading.Event, limit: int, clock: Clock) -> None:
        self._stop, self._limit, self._clock = stop, limit, clock
        self._limit_small = limit if limit == 1 else 2 * limit
        self._step_began = _NEVER  # of the thread of small items
        self._steps, self._steps_seconds = 0, 0.0
        self._helped_until = -_NEVER
        lock = threading.Lock()
        self._changed, self._room = threading.Condition(lock), threading.Condition(lock)
        self._small_changed = threading.Condition(lock)
        self._items: deque[Task] = deque()
        self._parts: deque[Task] = deque()
        self._small: deque[Task] = deque()
        self._running = 0
        self._is_closed = False

    def put(self, task: Task, *, is_small: bool) -> None:
        """Add an item.  Once 1,000 wait, this waits until half of them are taken, so that the
        threads wake the caller seldom."""
        with self._changed:
            if self._waiting() >= _AHEAD:
                while self._waiting() > _AHEAD // 2 and not self._stop.is_set():
                    self._room.wait(LOOK_SECONDS)
            if is_small:
                self._small.append(task)
                self._small_changed.notify()
            else:
                self._items.append(task)
                self._changed.notify()

    def split(self, tasks: Iterable[Task]) -> None:
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

    def take(self) -> Task | None:
        """The next task; a small one only while their thread needs help.  None at the end, or after
        an interrupt.  `done` follows each task."""
        with self._changed:
            while not self._stop.is_set():
                if self._parts or self._items:
                    if self._running < self._limit or self._needs_help():
                        return self._taken(self._parts or self._items)
                elif self._small:
                    if self._needs_help():
                        return self._taken(self._small)
                elif self._is_closed and not self._running:  # nothing that runs can be split
                    break
                self._changed.wait(LOOK_SECONDS)
            return None

    def take_small(self, *, wait: bool) -> Task | None:
        """The next small item, for their thread; none if it cannot begin now, or after an
        interrupt.  `wait`: until it can; none at the end.  `done` follows each."""
        with self._small_changed:
            while not self._stop.is_set():
                is_last = not (self._parts or self._items)
                if self._small and is_last and self._running < self._limit_small:
                    return self._taken(self._small)
                if not wait or (self._is_closed and not self._small):
                    break
                self._small_changed.wait(LOOK_SECONDS)
            return None

    @contextmanager
    def small_step(self) -> Iterator[None]:
        """A step of the thread of small items.  Others help it if its steps take long."""
        began = self._step_began = self._clock.steady_seconds()
        try:
            yield
        finally:
            self._step_began = _NEVER
            self._measure(began)

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

    def _needs_help(self) -> bool:
        now = self._clock.steady_seconds()
        is_slow = now < self._helped_until or now - self._step_began > _STEP_SECONDS_MAX
        return is_slow and self._limit > 1

    def _measure(self, began: float) -> None:
        """Count a step.  Steps beside helpers are not counted: they wait for their turn of the
        interpreter too."""
        now = self._clock.steady_seconds()
        if now < self._helped_until:
            return
        self._steps += 1
        self._steps_seconds += now - began
        if self._steps == _STEPS:
            if self._steps_seconds > _STEPS * _MEAN_SECONDS_MAX:
                self._helped_until = now + _HELP_SECONDS
                with self._changed:
                    self._changed.notify_all()
            self._steps, self._steps_seconds = 0, 0.0

    def _waiting(self) -> int:
        return len(self._items) + len(self._small)

    def _taken(self, tasks: deque[Task]) -> Task:
        self._running += 1
        task = tasks.popleft()
        if self._waiting() == _AHEAD // 2:
            self._room.notify()
        return task


class UnderWay:
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

    def answered(self, *, wait: bool) -> Iterator[tuple[PendingItem, str]]:
        """Remove and return the items whose answers have begun, or are too late.  `wait`: for one,
        but not long, because more items may be there to send."""
        ready = [fileno for fileno, _ in self._poll.poll(LOOK_SECONDS * 1e3 if wait else 0)]
        now = self._clock.steady_seconds()
        for fileno, (sent, _) in self._items.items():  # in the order of their deadlines
            if sent.deadline > now:
                break
            ready.append(fileno)
        for fileno in dict.fromkeys(ready):
            self._poll.unregister(fileno)
            yield self._items.pop(fileno)

    def drop(self) -> None:
        """Give all answers up."""
        for sent, _ in self._items.values():
            sent.drop()
        self._items.clear()
