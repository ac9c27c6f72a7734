"""The soak: everything at once on all cores, for as many minutes as asked.

    python -m graveler.testing.soak --minutes 40 [--write-docs]

Random schedules of the verbs run on every core but one; beside them drawn requests, kills and a
mixed load, each on a served store of its own (soak_tracks.py).  Totals are printed, one JSON object
on the last line; the exit code is 1 if anything was wrong.  The seed of a failure is kept in a file
that the tests replay for ever.
"""

import argparse
import json
import multiprocessing
import os
import queue
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.context import SpawnProcess
from multiprocessing.synchronize import Event
from pathlib import Path

from graveler.testing import soak_report
from graveler.testing.cardinality import DistinctCount
from graveler.testing.soak_tracks import TRACKS, Failure, Report, Reports, perform
from graveler.testing.steady_load import Sample

SEEDS = {
    "simulation": Path("tests/simulation/seeds/soak.txt"),
    "fuzz": Path("tests/fuzz/seeds/soak.txt"),
}
_SAY_SECONDS = 30.0
_GRACE_SECONDS = 300.0
_SHOWN = 20


@dataclass(slots=True)
class Totals:
    """Everything that the tracks have reported."""

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
        """What is printed last."""
        return {
            "minutes": round(minutes, 1),
            "processes": processes,
            "cores": os.cpu_count() or 1,
            **dict(sorted(self.counts.items())),
            "distinct_interleavings": min(self.distinct.estimate(), self.counts["schedules"]),
            "violations": len(self.failures),
        }


def keep(failure: Failure, folder: Path = Path()) -> None:
    """Append the seed of a failure to the file of its kind, below `folder`; once."""
    if not failure.kind:
        return
    file = folder / SEEDS[failure.kind]
    file.parent.mkdir(parents=True, exist_ok=True)
    known = file.read_text().splitlines() if file.exists() else []
    if failure.seed not in known:
        file.write_text("\n".join([*known, failure.seed]) + "\n")


def run(minutes: float, cores: int) -> tuple[Totals, dict[str, object]]:
    """All tracks for so long."""
    context = multiprocessing.get_context("spawn")
    reports: Reports = context.Queue()
    ended = context.Event()
    names = [*TRACKS, *["schedules"] * max(1, cores - 1)]
    processes = [
        context.Process(target=perform, args=(name, reports, ended), name=name) for name in names
    ]
    totals = Totals()
    begun = time.monotonic()
    for process in processes:
        process.start()
    try:
        _collect(totals, reports, processes, ended, begun + 60 * minutes)
    finally:
        ended.set()
        for process in processes:
            process.kill()
            process.join()
    return totals, totals.figures((time.monotonic() - begun) / 60, len(names))


def _collect(
    totals: Totals,
    reports: Reports,
    processes: list[SpawnProcess],
    ended: Event,
    deadline: float,
) -> None:
    """Add what arrives, until all processes have come to their end after the deadline."""
    said = time.monotonic()
    while any(process.is_alive() for process in processes):
        now = time.monotonic()
        if now > deadline:
            ended.set()
        if now > deadline + _GRACE_SECONDS:
            late = [process.name for process in processes if process.is_alive()]
            totals.add(Report(failures=[Failure("", "", f"did not come to an end: {late}")]))
            return
        if now > said + _SAY_SECONDS:
            said = now
            _say(" ".join(f"{name}={count}" for name, count in sorted(totals.counts.items())))
        _drain(totals, reports, seconds=1.0)
    _drain(totals, reports, seconds=0.1)
    for process in processes:
        if process.exitcode:
            said_ = f"{process.name} died: exit code {process.exitcode}"
            totals.add(Report(failures=[Failure("", "", said_)]))


def _drain(totals: Totals, reports: Reports, *, seconds: float) -> None:
    try:
        while True:
            totals.add(reports.get(timeout=seconds))
    except queue.Empty:
        return


def main(arguments: list[str] | None = None) -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(prog="soak", description="Everything at once, for long.")
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--write-docs", action="store_true", help="put the figures into docs/reliability.md"
    )
    options = parser.parse_args(arguments)
    totals, figures = run(options.minutes, options.cores)
    for failure in totals.failures[:_SHOWN]:
        _say(f"WRONG {failure.kind} {failure.seed}: {failure.said}")
    text = soak_report.report(figures, totals.samples)
    _say(text)
    if options.write_docs:
        soak_report.write(Path("docs/reliability.md"), text)
    _say(json.dumps(figures | {"last_sample": _last(totals.samples)}))
    return 1 if totals.failures else 0


def _last(samples: list[Sample]) -> dict[str, float]:
    return (
        {name: round(value, 2) for name, value in samples[-1]._asdict().items()} if samples else {}
    )


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
