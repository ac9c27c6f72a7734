"""Shows how far a transfer is, on stderr.  transfer.py starts and stops it; for this folder."""

import sys
import threading
from datetime import timedelta
from typing import Any, Final

from graveler.cli.output import dumped, size, unguarded
from graveler.cli.tally import Tally
from graveler.clock import Clock

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
