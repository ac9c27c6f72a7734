"""The soak: everything at once on all cores: `python -m simulator.soak.run --minutes 40`.

Every core runs random schedules of the verbs.  Beside them, all tracks of tracks.py run at lower
priority.  The last line is one JSON object; the exit code is 1 if anything was wrong.  The seed of
a failure is appended to a file that the tests replay from then on.  SIGINT, SIGTERM and SIGHUP end
the soak within seconds, with the totals so far and the exit code 128 plus the signal.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import queue
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.context import SpawnProcess
from multiprocessing.synchronize import Event
from pathlib import Path
from types import FrameType
from typing import Any

from simulator.soak.leash import SIGNALS
from simulator.soak.load import Sample
from simulator.soak.tracks import TRACKS, Failure, Report, Reports, perform

SEEDS = {
    "simulation": Path("tests/simulation/seeds/soak.txt"),
    "fuzz": Path("tests/fuzz/seeds/soak.txt"),
    "engine": Path("tests/engine/seeds/soak.txt"),
}
_SAY_SECONDS = 30.0
_GRACE_SECONDS = 300.0
_HURRIED_SECONDS = 4.0  # of grace period after a signal
_SHOWN = 20
_REMOVALS = 100


@dataclass(slots=True)
class Totals:
    """The sum of all reports of the tracks."""

    counts: Counter[str] = field(default_factory=Counter)
    traces: set[int] = field(default_factory=set)
    failures: list[Failure] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)

    def add(self, report: Report) -> None:
        self.counts.update(report.counts)
        self.traces.update(report.traces)
        self.failures += report.failures
        self.samples += report.samples
        for failure in report.failures:
            keep(failure)
            _say(f"WRONG {failure.kind} {failure.seed}: {failure.said}"[:2_000])

    def figures(self, minutes: float, processes: int) -> dict[str, object]:
        """The figures that are printed last."""
        last = self.samples[-1]._asdict() if self.samples else {}
        return {
            "minutes": round(minutes, 1),
            "processes": processes,
            "cores": os.cpu_count() or 1,
            **dict(sorted(self.counts.items())),
            "distinct_interleavings": len(self.traces),
            "violations": len(self.failures),
            "last_sample": {name: round(value, 2) for name, value in last.items()},
        }


def keep(failure: Failure, folder: Path = Path()) -> None:
    """Append the seed of a failure to the file of its kind, below `folder`, unless the file has
    it."""
    if not failure.kind:
        return
    file = folder / SEEDS[failure.kind]
    file.parent.mkdir(parents=True, exist_ok=True)
    known = file.read_text().splitlines() if file.exists() else []
    if failure.seed not in known:
        file.write_text("\n".join([*known, failure.seed]) + "\n")


class Signals:
    """Inside the `with` block, a signal requests an early end; `number` is the signal, 0 if none
    came."""

    def __init__(self) -> None:
        self.number = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Signals":
        for number in SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self.number = self.number or number


def run(minutes: float, cores: int, signals: Signals) -> tuple[Totals, dict[str, object]]:
    """Run all tracks for `minutes`, or until a signal."""
    context = multiprocessing.get_context("spawn")
    reports: Reports = context.Queue()
    ended = context.Event()
    names = [*TRACKS, *["schedules"] * max(1, cores)]
    totals = Totals()
    begun = time.monotonic()
    with _folder() as folder:
        processes = [
            context.Process(target=perform, args=(name, reports, ended, folder), name=name)
            for name in names
        ]
        try:
            for process in processes:
                process.start()
            _collect(totals, reports, Running(processes, ended, signals, begun + 60 * minutes))
        finally:
            ended.set()
            for process in processes:
                if process.pid is not None:
                    process.kill()
                    process.join()
    return totals, totals.figures((time.monotonic() - begun) / 60, len(names))


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A folder that is removed at the end.  The programs of a track that was killed end a moment
    after it, and may add files meanwhile."""
    folder = Path(tempfile.mkdtemp(prefix="graveler-soak-"))
    try:
        yield folder
    finally:
        for _ in range(_REMOVALS):
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                break
            time.sleep(0.1)


@dataclass(slots=True)
class Running:
    """The processes of a soak, and the conditions that end them."""

    processes: list[SpawnProcess]
    ended: Event
    signals: Signals
    deadline: float

    def over(self) -> bool:
        """Whether waiting is over.  Asks the processes to end when the deadline has passed."""
        now = time.monotonic()
        if self.signals.number and not self.ended.is_set():
            self.deadline = min(self.deadline, now)
        if now > self.deadline:
            self.ended.set()
        grace = _HURRIED_SECONDS if self.signals.number else _GRACE_SECONDS
        return now > self.deadline + grace or not any(each.is_alive() for each in self.processes)

    def failures(self) -> Iterator[Failure]:
        """The failures of the processes themselves; after a signal they may be late."""
        for process in self.processes:
            if process.is_alive() and not self.signals.number:
                yield Failure("", "", f"{process.name} did not come to an end")
            elif process.exitcode:
                yield Failure("", "", f"{process.name} died: exit code {process.exitcode}")


def _collect(totals: Totals, reports: Reports, running: Running) -> None:
    """Add reports as they arrive, until all processes have ended or the grace period is over."""
    said = time.monotonic()
    while not running.over():
        if time.monotonic() > said + _SAY_SECONDS:
            said = time.monotonic()
            _say(" ".join(f"{name}={count}" for name, count in sorted(totals.counts.items())))
        _drain(totals, reports, seconds=0.5)
    _drain(totals, reports, seconds=0.1)
    totals.add(Report(failures=list(running.failures())))


def _drain(totals: Totals, reports: Reports, *, seconds: float) -> None:
    until = time.monotonic() + 2 * seconds
    try:
        while time.monotonic() < until:
            totals.add(reports.get(timeout=seconds))
    except queue.Empty:
        return


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="soak", description="Everything at once, for long.")
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    with Signals() as signals:
        totals, figures = run(options.minutes, options.cores, signals)
        for failure in totals.failures[:_SHOWN]:
            _say(f"WRONG {failure.kind} {failure.seed}: {failure.said}")
        _say("\n".join(f"{name:24} {value}" for name, value in figures.items()))
        early = {"signal": signals.number} if signals.number else {}
        _say(json.dumps(figures | early))
        return 128 + signals.number if signals.number else int(bool(totals.failures))


def _say(line: str) -> None:
    # After a hang-up, standard output may be closed.
    with contextlib.suppress(OSError):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
