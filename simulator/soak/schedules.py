"""A track of the soak: the production verbs under random schedules, and fuzzed readers of bytes.

For tracks.py, and for tests that replay a kept seed.
"""

import random
from multiprocessing.synchronize import Event
from random import Random
from zlib import crc32

from simulator import damage
from simulator.access import check_access
from simulator.families import FAMILIES, PROFILES
from simulator.gc import programs as collecting
from simulator.gc.stage import CollectStage, build_collect_stage
from simulator.invariants import check_seed
from simulator.logins import check_logins
from simulator.machine_code import is_running
from simulator.rates import rarely_collected
from simulator.schedule import World
from simulator.soak.records import Failure, Report, Reports
from simulator.stage import Stage, build_stage

COLLECT = "collect"  # the family of garbage collection
ACCESS = "access"  # the family of access control
LOGINS = "logins"  # the family of logins by external principals
_OWN = (COLLECT, ACCESS, LOGINS)  # families with a world of their own
_BATCH = 100
_FUZZES: dict[str, damage.Fuzz] = {
    "tables": damage.fuzz_tables,
    "blocks": damage.fuzz_blocks,
    "records": damage.fuzz_records,
    "framing": damage.fuzz_framing,
    "refs": damage.fuzz_refs,
}
FUZZ_COUNT = 2_000


def play(
    family: str, profile: str, seed: int, stages: tuple[Stage, CollectStage]
) -> tuple[list[str], World]:
    """Run one schedule; return what is wrong with it, and its world."""
    if family == COLLECT:
        run = collecting.check_collect_seed(stages[1], profile, seed)
        return run.wrong, run.world
    if family in (ACCESS, LOGINS):
        used = (check_access if family == ACCESS else check_logins)(profile, seed)
        return used.wrong, used.world
    verdict = check_seed(stages[0], family, profile, seed)
    return verdict.wrong, verdict.run.world


def schedules(reports: Reports, ended: Event) -> None:
    """Run cells in random order, each with fresh seeds; now and then a round of fuzzing."""
    chance = random.SystemRandom()
    stages = build_stage(), build_collect_stage()
    cells = [(family, profile) for family in FAMILIES for profile in PROFILES]
    cells += [(COLLECT, profile) for profile in collecting.PROFILES]
    cells += [(family, profile) for family in (ACCESS, LOGINS) for profile in PROFILES]
    with rarely_collected():
        while not ended.is_set():
            _some(reports, stages, chance.choice(cells), chance.randrange(1 << 40))
            if chance.random() < 0.1:
                reports.put(fuzzed(chance.choice(list(_FUZZES)), chance.randrange(1 << 32)))


def _some(
    reports: Reports, stages: tuple[Stage, CollectStage], cell: tuple[str, str], first: int
) -> None:
    """Run a batch of schedules of one family and profile, from seed `first` on."""
    family, profile = cell
    counts = ("schedules", "faults", "compiled_schedules", "collection_schedules")
    report = Report(dict.fromkeys(counts, 0))
    for seed in range(first, first + _BATCH):
        try:
            wrong, world = play(family, profile, seed, stages)
            report.counts["schedules"] += 1
            report.counts["compiled_schedules"] += is_running()
            report.counts["collection_schedules"] += family == COLLECT
            report.counts["faults"] += world.faults
            report.traces.append(world.trace ^ crc32(family.encode()) << 32)
        except Exception as error:
            wrong = [f"{type(error).__name__}: {error}"]
        if wrong:
            line = f"{family} {profile} {seed}"
            kind = "fuzz" if family in _OWN else "simulation"
            report.failures.append(Failure(kind, line, str(wrong[:3])))
    reports.put(report)


def fuzzed(name: str, seed: int) -> Report:
    """Run one round of a fuzzer of bytes."""
    wrong = _FUZZES[name](Random(seed), FUZZ_COUNT)
    failures = [Failure("fuzz", f"{name} {seed}", each) for each in wrong[:3]]
    return Report({"malformed_inputs": FUZZ_COUNT}, failures)
