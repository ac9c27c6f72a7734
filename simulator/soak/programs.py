"""Tracks of the soak: random programs against the model, and exhaustive search over small programs.

For tracks.py, and for tests that replay a kept path.
"""

import random
import time
from multiprocessing.synchronize import Event

from graveler import assembly
from graveler.engine.ports import Ports
from simulator import exhaustive
from simulator.exhaustive import Bound, PathChoices
from simulator.programs import programs as random_programs
from simulator.programs.world import Mismatch
from simulator.soak.records import Failure, Report, Reports
from simulator.stage import build_stage
from tests.support.clockwork import SeededIds, TickingClock

_PROGRAMS = 20
_VERBS = range(40)
_DEEPER = (Bound(preemptions=3, faults=0), Bound(preemptions=2, faults=1))
_REPORT_SECONDS = 5.0


def programs(reports: Reports, ended: Event) -> None:
    """Run one program after another, each with a fresh seed."""
    chance = random.SystemRandom()
    while not ended.is_set():
        report = Report({"programs": 0, "program_verbs": 0})
        for _ in range(_PROGRAMS):
            seed = chance.randrange(1 << 40)
            report.counts["programs"] += 1
            report.counts["program_verbs"] += len(_VERBS)
            try:
                random_programs.run(_memory, seed, _VERBS)
            except Mismatch:
                said = str(random_programs.shrink(_memory, seed, _VERBS))
                report.failures.append(Failure("engine", str(seed), said))
        reports.put(report)


def _memory() -> Ports:
    return assembly.open_memory(TickingClock(), SeededIds(0))


def exhausted(reports: Reports, ended: Event) -> None:
    """Run every schedule of every small program within one bound, then within the next."""
    stage = build_stage()
    for bound in _DEEPER:
        name = f"exhausted_{bound.preemptions}_preemptions_{bound.faults}_faults"
        for program in (*exhaustive.PROGRAMS, *exhaustive.MORE_PROGRAMS):
            report, said = Report({"exhaustive_schedules": 0}), time.monotonic()
            for wrong, path in exhaustive.schedules(stage, program, bound):
                report.counts["exhaustive_schedules"] += 1
                if wrong:
                    line = path_line(program, bound, path)
                    report.failures.append(Failure("fuzz", line, str(wrong[:3])))
                    break
                if time.monotonic() > said + _REPORT_SECONDS:
                    reports.put(report)
                    report, said = Report({"exhaustive_schedules": 0}), time.monotonic()
                if ended.is_set():
                    reports.put(report)
                    return
            else:
                report.counts[name] = 1
            reports.put(report)


def path_line(program: str, bound: Bound, path: list[int]) -> str:
    """The line by which a schedule of a small program is kept."""
    return f"path {','.join(map(str, bound))} {','.join(map(str, path))} {program}"


def follow(bound: str, path: str, program: str) -> list[str]:
    """Replay a schedule that `path_line` wrote; return what is wrong."""
    numbers = Bound(*map(int, bound.split(",")))
    choices = PathChoices(numbers, [int(each) for each in path.split(",")])
    return exhaustive.run_path(build_stage(), program, choices)
