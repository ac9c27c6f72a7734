"""What a soak does at the same time, each a process of its own, until it is told to end.

    schedules   the production verbs under random schedules, and readers of bytes under fuzzing
    requests    drawn requests against a served store
    kills       a served store that is killed
    steady      a mixed load on a served store

A track reports `Report`s as it goes.  For soak.py.
"""

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from random import Random
from typing import Any, TypeAlias
from zlib import crc32

from graveler.testing import malformed
from graveler.testing import sim_collect_programs as collecting
from graveler.testing.api_fuzz import Fuzzer
from graveler.testing.families import FAMILIES, PROFILES
from graveler.testing.invariants import check_seed
from graveler.testing.kill_loop import KillLoop
from graveler.testing.live_service import serving
from graveler.testing.sim_collect_stage import build_collect_stage
from graveler.testing.stage import build_stage
from graveler.testing.steady_load import Sample, SteadyLoad

COLLECT = "collect"  # the family of garbage collection
_BATCH = 100
REQUESTS = 2_000
_KILLS = 10  # of one store
_FUZZES: dict[str, malformed.Fuzz] = {
    "tables": malformed.fuzz_tables,
    "blocks": malformed.fuzz_blocks,
    "records": malformed.fuzz_records,
    "framing": malformed.fuzz_framing,
    "refs": malformed.fuzz_refs,
}
FUZZ_COUNT = 2_000


@dataclass(frozen=True, slots=True)
class Failure:
    """Something wrong, and the seed line that shows it again; `kind` is where it is kept, empty if
    no seed determines it."""

    kind: str
    seed: str
    said: str


@dataclass(slots=True)
class Report:
    """What a track did since its last report."""

    counts: dict[str, int] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    traces: list[int] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)


Reports: TypeAlias = "Queue[Any]"


def schedules(reports: Reports, ended: Event) -> None:
    """Cells in random order, each with fresh seeds; every so often a round of fuzzing."""
    chance = random.SystemRandom()
    stage, collected = build_stage(), build_collect_stage()
    cells = [(family, profile) for family in FAMILIES for profile in PROFILES]
    cells += [(COLLECT, profile) for profile in collecting.PROFILES]
    while not ended.is_set():
        report = Report({"schedules": 0, "faults": 0})
        family, profile = chance.choice(cells)
        first = chance.randrange(1 << 40)
        for seed in range(first, first + _BATCH):
            if family == COLLECT:
                run = collecting.check_collect_seed(collected, profile, seed)
                wrong, world = run.wrong, run.world
            else:
                verdict = check_seed(stage, family, profile, seed)
                wrong, world = verdict.wrong, verdict.run.world
            report.counts["schedules"] += 1
            report.counts["faults"] += world.faults
            report.traces.append(world.trace ^ crc32(family.encode()) << 32)
            if wrong:
                line = f"{family} {profile} {seed}"
                kind = "fuzz" if family == COLLECT else "simulation"
                report.failures.append(Failure(kind, line, str(wrong[:3])))
        reports.put(report)
        if chance.random() < 0.1:
            reports.put(fuzzed(chance.choice(list(_FUZZES)), chance.randrange(1 << 32)))


def fuzzed(name: str, seed: int) -> Report:
    """One round of a fuzzer of bytes."""
    wrong = _FUZZES[name](Random(seed), FUZZ_COUNT)
    failures = [Failure("fuzz", f"{name} {seed}", each) for each in wrong[:3]]
    return Report({"malformed_inputs": FUZZ_COUNT}, failures)


def requests(reports: Reports, ended: Event) -> None:
    """Streams of requests, each from a seed of its own, on one store."""
    with _folder() as folder, serving(folder / "store", folder / "log") as service:
        while not ended.is_set():
            seed = random.SystemRandom().randrange(1 << 32)
            fuzzer = Fuzzer(service.host, service.port, service.authorization)
            fuzzer.run(Random(seed), REQUESTS, ended.is_set)
            fuzzer.close()
            failures = [Failure("fuzz", f"requests {seed}", each) for each in fuzzer.wrong[:3]]
            if service.process.poll() is not None:
                failures.append(Failure("fuzz", f"requests {seed}", "the service ended"))
            sent = sum(fuzzer.statuses.values())
            reports.put(Report({"api_requests": sent}, failures))
            if failures:
                return


def kills(reports: Reports, ended: Event) -> None:
    """One kill after the other."""
    while not ended.is_set():
        seed = random.SystemRandom().randrange(1 << 32)
        with _folder() as folder:
            loop = KillLoop(folder, Random(seed))
            loop.run(_KILLS, ended.is_set)
            counts = {"kills": loop.kills, "acknowledged_commits": len(loop.promises)}
            reports.put(Report(counts))
            reports.put(Report(failures=[Failure("", "", each) for each in loop.wrong[:5]]))
            if loop.wrong:
                return


def steady(reports: Reports, ended: Event) -> None:
    """One load for the whole time."""
    with _folder() as folder:
        load = SteadyLoad(folder, random.SystemRandom().randrange(1 << 32))
        load.run(ended.is_set)
        failures = [Failure("", "", each) for each in load.wrong[:5]]
        reports.put(Report({"load_requests": load.requests}, failures, [], load.samples))


TRACKS: dict[str, Callable[[Reports, Event], None]] = {
    "requests": requests,
    "kills": kills,
    "steady": steady,
}


def perform(name: str, reports: Reports, ended: Event) -> None:
    """A track to its end, whatever ends it."""
    begun = time.monotonic()
    try:
        {**TRACKS, "schedules": schedules}[name](reports, ended)
    except Exception as error:
        seconds = time.monotonic() - begun
        said = f"{name} broke off after {seconds:.0f} s: {type(error).__name__}: {error}"
        reports.put(Report(failures=[Failure("", "", said)]))


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="graveler-soak-") as name:
        yield Path(name)
