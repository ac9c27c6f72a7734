"""What a transfer has done so far, and what failed.  For this folder."""

import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from graveler.cli.support.failures import PartlyDone
from graveler.cli.support.output import dumped, plain, plural, size, unguarded
from graveler.clock import Clock
from graveler.errors import GravelerError, Invalid

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

    def state(self, verb: str = "done") -> str:
        """How far an interrupted transfer came, in words."""
        failed = f", {len(self.failures):,} failed" if self.failures else ""
        return f"{plural(self.files + self.skipped, 'object')} {verb}{failed}"

    def resumable(self) -> str:
        """As `state`, for a transfer that leaves out what is done if it is repeated."""
        return f"{self.state()}; repeat the command to do the rest"

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


def _reason(error: GravelerError | OSError) -> str:
    if isinstance(error, GravelerError):
        return error.fields.get("reason", "") or str(error)
    return error.strerror or str(error)


_QUIET_SECONDS: Final = 0.5  # a short transfer shows no progress
_LINE_SECONDS: Final = 10.0
_JSON_SECONDS: Final = 1.0
_REDRAW_SECONDS: Final = 0.1


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
            progress.TextColumn("{task.fields[rate]}", style="progress.data.speed"),
            progress.TimeRemainingColumn(),
            console=Console(file=unguarded(sys.stderr)),
            transient=True,
            get_time=self._clock.steady_seconds,
        )
        with bar:
            task = bar.add_task("", total=None, rate=per_second(None))
            while not self._ended.wait(_REDRAW_SECONDS):
                bar.update(
                    task,
                    description=f"{tally.files + tally.skipped:,}/{tally.files_expected:,}",
                    completed=tally.bytes_moved,
                    total=tally.bytes_expected,
                    rate=per_second(bar.tasks[0].speed),
                )


def per_second(rate: float | None) -> str:
    """A rate in the units of sizes; None: not known yet."""
    return "?" if rate is None else f"{size(int(rate))}/s"
