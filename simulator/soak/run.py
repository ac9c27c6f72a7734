"""The soak: everything at once on all cores, for the given number of minutes.

    python -m simulator.soak.run --minutes 40 [--write-docs]

Every core runs random schedules of the verbs.  Beside them, all tracks of tracks.py run at lower
priority, each on its own served store.  The totals are printed; the last line is one JSON object.
The exit code is 1 if anything was wrong.  The seed of a failure is appended to a file that the
tests replay from then on.

SIGINT, SIGTERM and SIGHUP end the soak early: within seconds all of its processes have ended, its
temporary folder is removed, the totals so far are printed, and the exit code is 128 plus the number
of the signal.  A long soak runs its schedules from compiled code (machine_code.py), if there is a
compiler.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import queue
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.context import SpawnProcess
from multiprocessing.synchronize import Event
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from graveler.records import ABSENT, Absent
from simulator import machine_code
from simulator.soak import report as soak_report
from simulator.soak.cardinality import DistinctCount
from simulator.soak.growth import Sample
from simulator.soak.leash import SIGNALS
from simulator.soak.records import Failure, Report, Reports
from simulator.soak.tracks import TRACKS, perform

SEEDS = {
    "simulation": Path("tests/simulation/seeds/soak.txt"),
    "fuzz": Path("tests/fuzz/seeds/soak.txt"),
    "engine": Path("tests/engine/seeds/soak.txt"),
}
_SAY_SECONDS = 30.0
_GRACE_SECONDS = 300.0
_HURRIED_SECONDS = 4.0  # of grace period after a signal
_SHOWN = 20
COMPILED = Path("build/compiled")
_COMPILED_FROM_MINUTES = 10.0
_COMPILING_SECONDS = 1_200.0


@dataclass(slots=True)
class Totals:
    """The sum of all reports of the tracks."""

    counts: Counter[str] = field(default_factory=Counter)
    distinct: DistinctCount = field(default_factory=DistinctCount)
    failures: list[Failure] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)

    def add(self, report: Report) -> None:
        self.counts.update(report.counts)
        for trace in report.traces:
            self.distinct.add(trace)
        self.failures += report.failures
        self.samples += report.samples
        for failure in report.failures:
            keep(failure)
            _say(f"WRONG {failure.kind} {failure.seed}: {failure.said}"[:2_000])

    def figures(self, minutes: float, processes: int) -> dict[str, object]:
        """The figures that are printed last."""
        return {
            "minutes": round(minutes, 1),
            "processes": processes,
            "cores": os.cpu_count() or 1,
            **dict(sorted(self.counts.items())),
            "distinct_interleavings": min(self.distinct.estimate(), self.counts["schedules"]),
            "violations": len(self.failures),
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


def run(
    minutes: float,
    cores: int,
    signals: Signals,
    flows: Path | Literal[Absent.ABSENT] = ABSENT,
    defects: Iterable[Failure] = (),
) -> tuple[Totals, dict[str, object]]:
    """Run all tracks for `minutes`, or until a signal; the schedules from compiled `flows`, if
    given.  `defects` that are known before count as well."""
    context = multiprocessing.get_context("spawn")
    reports: Reports = context.Queue()
    ended = context.Event()
    names = [name for name, track in TRACKS.items() for _ in range(track.copies)]
    names += ["schedules"] * max(1, cores)
    totals = Totals()
    totals.add(Report(failures=list(defects)))
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="graveler-soak-", ignore_cleanup_errors=True) as folder:
        processes = [
            context.Process(target=perform, args=(name, reports, ended, Path(folder)), name=name)
            for name in names
        ]
        try:
            for process in processes:
                with machine_code.imported_from(ABSENT if process.name in TRACKS else flows):
                    process.start()
            _collect(totals, reports, Running(processes, ended, signals, begun + 60 * minutes))
        finally:
            ended.set()
            for process in processes:
                if process.pid is not None:
                    process.kill()
                    process.join()
    return totals, totals.figures((time.monotonic() - begun) / 60, len(names))


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
    parser.add_argument(
        "--write-docs", action="store_true", help="put the figures into docs/measured/soak.md"
    )
    options = parser.parse_args(arguments)
    with Signals() as signals:
        flows = _flows(options.minutes, signals)
        defects = [flows] if isinstance(flows, Failure) else []
        used = ABSENT if isinstance(flows, Failure) else flows
        totals, figures = run(options.minutes, options.cores, signals, used, defects)
        for failure in totals.failures[:_SHOWN]:
            _say(f"WRONG {failure.kind} {failure.seed}: {failure.said}")
        _say(soak_report.report(figures, totals.samples))
        if options.write_docs and not signals.number:
            command = f"make soak MINUTES={options.minutes:g} ARGS=--write-docs"
            soak_report.write(Path("docs/measured/soak.md"), command, figures, totals.samples)
        early = {"signal": signals.number} if signals.number else {}
        _say(json.dumps(figures | early | {"last_sample": _last(totals.samples)}))
        return 128 + signals.number if signals.number else int(bool(totals.failures))


def _flows(minutes: float, signals: Signals) -> Path | Failure | Literal[Absent.ABSENT]:
    """The compiled code for the schedules of a long soak; ABSENT: run the sources.

    A failure if the sources cannot be compiled, or do something else when they are compiled.
    """
    if minutes < _COMPILED_FROM_MINUTES:
        return ABSENT
    _say("compiling the flows for the schedules, which takes minutes the first time")
    try:
        found = machine_code.kept(COMPILED, _COMPILING_SECONDS, lambda: bool(signals.number))
    except machine_code.Refused as error:
        return Failure("", "", f"the flows cannot be compiled: {error}")
    if found is ABSENT:
        _say("not compiled: the schedules run the sources, at two thirds of the speed")
    elif not machine_code.does_the_same(found):
        return Failure("", "", "what is compiled does something else than the sources")
    return found


def _last(samples: list[Sample]) -> dict[str, float]:
    return (
        {name: round(value, 2) for name, value in samples[-1]._asdict().items()} if samples else {}
    )


def _say(line: str) -> None:
    # After a hang-up, standard output may be closed.
    with contextlib.suppress(OSError):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
