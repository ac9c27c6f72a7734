"""What a transfer shows: how far it is, on stderr, and at its end what was done and what failed."""

import sys
import threading
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, Final, Literal

from graveler.cli.support.failures import PartlyDone
from graveler.cli.support.output import dumped, plain, plural, unguarded
from graveler.core.clock import Clock, SystemClock
from graveler.lake.show import size
from graveler.lake.transfers import workers
from graveler.lake.transfers.workers import Item, Tally

Progress = Literal["auto", "never", "json"]
_FAILURES_SHOWN: Final = 20
_QUIET_SECONDS: Final = 0.5  # a short transfer shows no progress
_LINE_SECONDS: Final = 10.0
_JSON_SECONDS: Final = 1.0
_REDRAW_SECONDS: Final = 0.1


# ---- words ---------------------------------------------------------------------------------------


def sentence(tally: Tally, verb: str) -> str:
    """What was done."""
    words = f"{verb} {plural(tally.files, 'object')}, {size(tally.bytes_moved)}"
    words += f"; {tally.skipped:,} were the same" if tally.skipped else ""
    return words + (f"; deleted {plural(tally.deleted, 'file')}" if tally.deleted else "")


def state(tally: Tally, verb: str = "done") -> str:
    """How far an interrupted transfer came."""
    failed = f", {len(tally.failures):,} failed" if tally.failures else ""
    return f"{plural(tally.files + tally.skipped, 'object')} {verb}{failed}"


def resumable(tally: Tally) -> str:
    """As `state`, for a transfer that leaves out what is done if it is repeated."""
    return f"{state(tally)}; repeat the command to do the rest"


def check(tally: Tally, verb: str) -> None:
    """Raises `PartlyDone` if an item failed."""
    if not tally.failures:
        return
    shown = [f"{plain(name)}: {plain(reason)}" for name, reason in tally.failures[:_FAILURES_SHOWN]]
    more = len(tally.failures) - len(shown)
    lines = "\n  ".join([*shown, *([f"and {more:,} more"] if more > 0 else [])])
    raise PartlyDone(
        f"{plural(len(tally.failures), 'object')} of {tally.files_expected:,} not {verb}:\n"
        f"  {lines}",
        done=str(tally.files + tally.skipped + tally.deleted),
    )


# ---- while it runs -------------------------------------------------------------------------------


def transfer(
    items: Iterable[Item],
    tally: Tally,
    threads: int,
    progress: Progress,
    interrupted: Callable[[Tally], str] = resumable,
    *,
    patience_seconds: float = 0.0,
) -> None:
    """Run the items of a transfer and show its progress.  Raises what `workers.run` raises; a
    `KeyboardInterrupt` has the words of `interrupted`."""
    display = Display(tally, SystemClock(), as_json=progress == "json")
    if progress != "never":
        display.start()
    try:
        workers.run(items, tally, threads, patience_seconds=patience_seconds)
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(interrupted(tally)) from interrupt
    finally:
        if progress != "never":
            display.stop()


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
