"""The tracks of a soak: they run at the same time, each in its own process, until they must end.

schedules   the production verbs under random schedules, and readers of bytes under fuzzing
programs    random programs, compared with the model step by step
exhaustive  all schedules of the small programs, with greater bounds than in the tests
requests    drawn requests against a served store
kills       a served store that is killed
load        a mixed load on a served store
collection  a short mixed load; then garbage is collected, with a clock days later
"""

import gc
import math
import os
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
from typing import Any, NamedTuple, TypeAlias
from zlib import crc32

from graveler import assembly
from graveler.engine.ports import Ports
from simulator import damage, exhaustive
from simulator.access import check_access
from simulator.exhaustive import Bound, PathChoices
from simulator.families import FAMILIES, PROFILES
from simulator.gc import run as collecting
from simulator.gc.stage import CollectStage, build_collect_stage
from simulator.invariants import check_seed
from simulator.logins import check_first_logins, check_logins
from simulator.programs import programs as random_programs
from simulator.programs.world import Mismatch
from simulator.schedule import World
from simulator.service.process import serving
from simulator.service.requests import Fuzzer
from simulator.soak.kill_loop import KillLoop
from simulator.soak.leash import end_with_parent
from simulator.soak.load import Load, Sample
from simulator.stage import Stage, build_stage
from tests.support.clockwork import SeededIds, TickingClock

COLLECT = "collect"  # the family of garbage collection
AUTH = {"access": check_access, "logins": check_logins, "first_logins": check_first_logins}
FUZZES: dict[str, damage.Fuzz] = {
    "tables": damage.fuzz_tables,
    "blocks": damage.fuzz_blocks,
    "records": damage.fuzz_records,
    "framing": damage.fuzz_framing,
    "refs": damage.fuzz_refs,
}
FUZZ_COUNT = 2_000
REQUESTS = 2_000
_BATCH = 100  # of schedules
_PROGRAMS, _VERBS = 20, range(40)
_DEEPER = (Bound(preemptions=3, faults=0), Bound(preemptions=2, faults=1))
_REPORT_SECONDS = 5.0
_KILLS = 10  # of one store
_COLLECTED_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Failure:
    """A violation, and the seed line that reproduces it.  `kind` selects the file where the seed is
    kept; empty if no seed reproduces the failure."""

    kind: str
    seed: str
    said: str


@dataclass(slots=True)
class Report:
    """The results of a track since its last report."""

    counts: dict[str, int] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    traces: list[int] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)


Reports: TypeAlias = "Queue[Any]"
Stages = tuple[Stage, CollectStage]


# ---- without a service ---------------------------------------------------------------------------


def play(family: str, profile: str, seed: int, stages: Stages) -> tuple[list[str], World]:
    """Run one schedule; return what is wrong with it, and its world."""
    if family == COLLECT:
        run = collecting.check_collect_seed(stages[1], profile, seed)
        return run.wrong, run.world
    if family in AUTH:
        used = AUTH[family](profile, seed)
        return used.wrong, used.world
    verdict = check_seed(stages[0], family, profile, seed)
    return verdict.wrong, verdict.run.world


def schedules(reports: Reports, ended: Event) -> None:
    """Run cells in random order, each with fresh seeds; now and then a round of fuzzing."""
    chance = random.SystemRandom()
    stages = build_stage(), build_collect_stage()
    cells = [(family, profile) for family in (*FAMILIES, *AUTH) for profile in PROFILES]
    cells += [(COLLECT, profile) for profile in collecting.PROFILES]
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)  # a run makes a few thousand objects, in cycles
    while not ended.is_set():
        reports.put(_batch(stages, chance.choice(cells), chance.randrange(1 << 40)))
        if chance.random() < 0.1:
            reports.put(fuzzed(chance.choice(list(FUZZES)), chance.randrange(1 << 32)))


def _batch(stages: Stages, cell: tuple[str, str], first: int) -> Report:
    """Run a batch of schedules of one family and profile, from seed `first` on."""
    family, profile = cell
    report = Report(dict.fromkeys(("schedules", "faults", "collection_schedules"), 0))
    for seed in range(first, first + _BATCH):
        try:
            wrong, world = play(family, profile, seed, stages)
            report.counts["schedules"] += 1
            report.counts["collection_schedules"] += family == COLLECT
            report.counts["faults"] += world.faults
            report.traces.append(world.trace ^ crc32(family.encode()) << 32)
        except Exception as error:
            wrong = [f"{type(error).__name__}: {error}"]
        if wrong:
            kind = "simulation" if family in FAMILIES else "fuzz"
            report.failures.append(Failure(kind, f"{family} {profile} {seed}", str(wrong[:3])))
    return report


def fuzzed(name: str, seed: int) -> Report:
    """Run one round of a fuzzer of bytes."""
    wrong = FUZZES[name](Random(seed), FUZZ_COUNT)
    failures = [Failure("fuzz", f"{name} {seed}", each) for each in wrong[:3]]
    return Report({"malformed_inputs": FUZZ_COUNT}, failures)


def programs(reports: Reports, ended: Event) -> None:
    """Run one program after another, each with a fresh seed."""
    chance = random.SystemRandom()
    while not ended.is_set():
        report = Report({"programs": _PROGRAMS, "program_verbs": _PROGRAMS * len(_VERBS)})
        for _ in range(_PROGRAMS):
            seed = chance.randrange(1 << 40)
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
        for program in (*exhaustive.PROGRAMS, *exhaustive.MORE_PROGRAMS):
            count, said = 0, time.monotonic()
            for wrong, path in exhaustive.schedules(stage, program, bound):
                count += 1
                if wrong:
                    line = path_line(program, bound, path)
                    reports.put(Report(failures=[Failure("fuzz", line, str(wrong[:3]))]))
                    break
                if ended.is_set() or time.monotonic() > said + _REPORT_SECONDS:
                    reports.put(Report({"exhaustive_schedules": count}))
                    count, said = 0, time.monotonic()
                if ended.is_set():
                    return
            reports.put(Report({"exhaustive_schedules": count, "exhausted_programs": 1}))


def path_line(program: str, bound: Bound, path: list[int]) -> str:
    """The line by which a schedule of a small program is kept."""
    return f"path {','.join(map(str, bound))} {','.join(map(str, path))} {program}"


def follow(bound: str, path: str, program: str) -> list[str]:
    """Replay a schedule that `path_line` wrote; return what is wrong."""
    numbers = Bound(*map(int, bound.split(",")))
    choices = PathChoices(numbers, [int(each) for each in path.split(",")])
    return exhaustive.run_path(build_stage(), program, choices)


# ---- on a served store ---------------------------------------------------------------------------


def requests(reports: Reports, ended: Event) -> None:
    """Send streams of requests to one store, each stream with its own seed."""
    with _folder() as folder, serving(folder / "store", folder / "log") as service:
        while not ended.is_set():
            seed = random.SystemRandom().randrange(1 << 32)
            fuzzer = Fuzzer(service.host, service.port, service.authorization)
            fuzzer.run(Random(seed), REQUESTS, ended.is_set)
            fuzzer.close()
            failures = [Failure("fuzz", f"requests {seed}", each) for each in fuzzer.wrong[:3]]
            if service.process.poll() is not None:
                failures.append(Failure("fuzz", f"requests {seed}", "the service ended"))
            reports.put(Report({"api_requests": sum(fuzzer.statuses.values())}, failures))
            if failures:
                return


def kills(reports: Reports, ended: Event) -> None:
    """Run one kill loop after another, each on a fresh store."""
    while not ended.is_set():
        with _folder() as folder:
            loop = KillLoop(folder, Random(random.SystemRandom().randrange(1 << 32)))
            try:
                loop.run(_KILLS, ended.is_set)
            except Exception as error:
                said = (folder / "log").read_text()[-3_000:]
                loop.wrong.append(f"{type(error).__name__}: {error}; the service said: {said}")
            counts = {"kills": loop.kills, "acknowledged_commits": len(loop.promises)}
            reports.put(Report(counts, _unseeded(loop.wrong)))
            if loop.wrong:
                return


def load(reports: Reports, ended: Event) -> None:
    """Run one load for the whole time."""
    # The folder of the soak is removed with its hundred thousands of files; removing them here
    # would take minutes.
    folder = Path(tempfile.mkdtemp(prefix="graveler-soak-"))
    load = Load(folder, random.SystemRandom().randrange(1 << 32))
    load.run(
        ended.is_set,
        lambda sample: reports.put(Report({"load_requests": sample.requests}, samples=[sample])),
    )
    reports.put(Report(failures=_unseeded(load.wrong)))


def collection(reports: Reports, ended: Event) -> None:
    """Run a short load, then collect garbage and measure the disk that is left; once."""
    with _folder() as folder:
        load = Load(folder, random.SystemRandom().randrange(1 << 32), interval_seconds=5.0)
        until = time.monotonic() + _COLLECTED_SECONDS
        load.run(lambda: ended.is_set() or time.monotonic() > until)
        before = load.disk_mib
        if not ended.is_set():
            load.collect()
            counts = {"collected_mib_before": round(before)}
            reports.put(Report(counts | {"collected_mib_after": math.ceil(load.disk_mib)}))
        reports.put(Report(failures=_unseeded(load.wrong)))


def _unseeded(wrong: list[str]) -> list[Failure]:
    return [Failure("", "", each) for each in wrong[:5]]


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="graveler-soak-") as name:
        yield Path(name)


# ---- processes -----------------------------------------------------------------------------------


class Track(NamedTuple):
    """The function, and its `nice` value (plentiful work yields to the rest)."""

    run: Callable[[Reports, Event], None]
    nice: int = 0


TRACKS: dict[str, Track] = {
    "requests": Track(requests, 5),
    "kills": Track(kills, 5),
    "load": Track(load),
    "collection": Track(collection, 5),
    "programs": Track(programs, 10),
    "exhaustive": Track(exhausted, 10),
}
SCHEDULES = Track(schedules, 5)


def perform(name: str, reports: Reports, ended: Event, folder: Path) -> None:
    """Run a track to its end; all temporary files, also of its programs, lie below `folder`."""
    end_with_parent()
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    track = TRACKS.get(name, SCHEDULES)
    os.nice(track.nice)
    begun = time.monotonic()
    try:
        track.run(reports, ended)
    except Exception as error:
        seconds = time.monotonic() - begun
        said = f"{name} broke off after {seconds:.0f} s: {type(error).__name__}: {error}"
        reports.put(Report(failures=[Failure("", "", said)]))
