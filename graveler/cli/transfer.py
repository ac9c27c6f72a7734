"""Runs many transfers at once: threads, progress, failures, interrupts.

    items ──► queue, 1,000 ahead ──► threads: one item at a time ──► done, skipped or failed
                ▲                       │
                └── parts, taken first ─┘  an item that is a `Split`; the thread that does the last
                                           part of an item finishes the item

One failure stops no other item, and no other part.  Ctrl-C stops all: uploads break off, so the
server stores nothing of them but finished parts, and downloads keep a part that is not visible
under the name of the object.  For this folder.
"""

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

from graveler.cli.failures import PartlyDone
from graveler.cli.output import dumped, plain, plural, size
from graveler.clock import Clock, SystemClock
from graveler.errors import GravelerError, Invalid, Unauthenticated

T = TypeVar("T")
Progress = Literal["auto", "never", "json"]
THREADS: Final = 16
_AHEAD: Final = 1_000
_LOOK_SECONDS: Final = 0.1
_QUIET_SECONDS: Final = 0.5  # a short transfer shows no progress
_LINE_SECONDS: Final = 10.0
_JSON_SECONDS: Final = 1.0
_FAILURES_SHOWN: Final = 20


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

    def ended(self, *, skipped: bool = False, length: int = 0) -> None:
        """An item is done.  `length`: of an item that was skipped."""
        with self.lock:
            self.files += not skipped
            self.skipped += skipped
            self.bytes_expected -= length

    def failed(self, name: str, error: GravelerError | OSError) -> None:
        """An item failed."""
        stored = error if isinstance(error, GravelerError) else Invalid(f"{name}: {error.strerror}")
        with self.lock:
            self.failures.append((name, _reason(error)))
            self.errors.append(stored)

    def pieces(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The pieces, counted as they are taken."""
        for piece in pieces:
            self.moved(len(piece))
            yield piece

    def sentence(self, verb: str) -> str:
        """What was done, in words."""
        words = f"{verb} {plural(self.files, 'object')}, {size(self.bytes_moved)}"
        words += f"; {self.skipped:,} were the same" if self.skipped else ""
        return words + (f"; deleted {plural(self.deleted, 'file')}" if self.deleted else "")

    def check(self, verb: str) -> None:
        """Raises `PartlyDone` if an item failed."""
        if not self.failures:
            return
        shown = [f"{plain(name)}: {reason}" for name, reason in self.failures[:_FAILURES_SHOWN]]
        more = len(self.failures) - len(shown)
        lines = "\n  ".join([*shown, *([f"and {more:,} more"] if more > 0 else [])])
        raise PartlyDone(
            f"{plural(len(self.failures), 'object')} of {self.files_expected:,} not {verb}:\n"
            f"  {lines}",
            done=str(self.files + self.skipped + self.deleted),
        )


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

    def run(self, items: Callable[[Tally], Iterable[T]], tally: Tally | None = None) -> Tally:
        """Do all items, and return what was done, added to `tally`.  `items` calls `Tally.expect`
        for each item.

        Raises `KeyboardInterrupt`, the error of `items`, an `Unauthenticated`, because every other
        item would fail as well, and what no `GravelerError` is."""
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
        except BaseException:
            tally.stop.set()
            raise
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


def _part(work: Callable[[], None]) -> None:
    work()


def _reason(error: GravelerError | OSError) -> str:
    if isinstance(error, GravelerError):
        return error.fields.get("reason", "") or str(error)
    return error.strerror or str(error)


class Display:
    """Shows the progress on stderr: a bar on a terminal, else a line every 10 seconds; or a JSON
    object every second, and one at the end."""

    def __init__(self, tally: Tally, clock: Clock, *, as_json: bool = False) -> None:
        self._tally, self._clock, self._as_json = tally, clock, as_json
        self._start = clock.steady_seconds()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def start(self) -> None:
        """Begin; a short transfer shows nothing."""
        self._thread.start()

    def stop(self) -> None:
        """End, and leave the terminal as it was."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        if self._as_json:
            while not self._ended.wait(_JSON_SECONDS):
                self._print_json()
            self._print_json()
            return
        if self._ended.wait(_QUIET_SECONDS):
            return
        if sys.stderr.isatty():
            try:
                from rich import progress
            except ModuleNotFoundError:
                self._lines()
            else:
                self._bar(progress)
        else:
            self._lines()

    def _rate(self) -> float:
        """Bytes a second."""
        seconds = self._clock.steady_seconds() - self._start
        return self._tally.bytes_moved / max(seconds, 0.001)

    def _lines(self) -> None:
        while not self._ended.wait(_LINE_SECONDS):
            tally, rate = self._tally, self._rate()
            left = max(tally.bytes_expected - tally.bytes_moved, 0) / max(rate, 1)
            print(
                f"{tally.files:,} of {tally.files_expected:,} objects, {size(tally.bytes_moved)}, "
                f"{size(int(rate))}/s, {timedelta(seconds=round(left))} left",
                file=sys.stderr,
                flush=True,
            )

    def _print_json(self) -> None:
        tally = self._tally
        progress = {
            "objects": tally.files,
            "same": tally.skipped,
            "objects_expected": tally.files_expected,
            "size_bytes": tally.bytes_moved,
            "size_bytes_expected": tally.bytes_expected,
            "bytes_per_second": round(self._rate()),
            "failed": len(tally.failures),
        }
        print(dumped({"progress": progress}), file=sys.stderr, flush=True)

    def _bar(self, progress: Any) -> None:
        from rich.console import Console

        tally = self._tally
        bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.DownloadColumn(binary_units=True),
            progress.TransferSpeedColumn(),
            progress.TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        with bar:
            task = bar.add_task("", total=None)
            while not self._ended.wait(_LOOK_SECONDS):
                bar.update(
                    task,
                    description=f"{tally.files + tally.skipped:,}/{tally.files_expected:,}",
                    completed=tally.bytes_moved,
                    total=tally.bytes_expected,
                )
