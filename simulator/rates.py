"""How fast schedules are run, by family and profile: `python -m simulator.rates`.

Processor time of one process is what counts, and of some rounds over the same seeds the best one,
so that a busy machine does not look like slow code.  The last line is one JSON object.  Reports,
never fails.  With --collections N it runs and judges N seeds of each profile of garbage collection
instead, and fails if anything was wrong.  For tests and measurements only.
"""

import argparse
import gc
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from itertools import product

from simulator.families import DESIGNED_FAMILIES, DESIGNED_PROFILES, FAMILIES, PROFILES
from simulator.gc.programs import PROFILES as COLLECT_PROFILES
from simulator.gc.programs import check_collect_seed
from simulator.gc.stage import build_collect_stage
from simulator.invariants import check_seed
from simulator.machine_code import is_running
from simulator.stage import Stage, build_stage

_YOUNG_MAX = 50_000  # objects between two collections: a run makes a few thousand, in cycles
Cell = tuple[str, str]


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Collect garbage once every few dozen runs, and never look at what is there already.

    For processes that do nothing but run schedules: memory stays within some tens of megabytes.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_MAX, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def measure(stage: Stage, seeds: int, rounds: int) -> dict[Cell, float]:
    """Seconds that a schedule takes, checks and all, for each family and profile."""
    best: dict[Cell, float] = {}
    for _ in range(rounds):
        for family in FAMILIES:
            for profile in PROFILES:
                begun = time.process_time()
                for seed in range(seeds):
                    check_seed(stage, family, profile, seed)
                spent = (time.process_time() - begun) / seeds
                best[family, profile] = min(spent, best.get((family, profile), spent))
    return best


def report(seconds: dict[Cell, float]) -> str:
    """Schedules a second: a table, then as JSON the cells of the protocol's design, and all cells,
    each with equal weight."""
    lines = [f"{'':10}" + "".join(f"{profile:>8}" for profile in PROFILES)]
    for family in FAMILIES:
        cells = [f"{1 / seconds[family, profile]:8.0f}" for profile in PROFILES]
        lines.append(f"{family:10}" + "".join(cells))
    designed = {cell: seconds[cell] for cell in product(DESIGNED_FAMILIES, DESIGNED_PROFILES)}
    figures = {
        "schedules_per_second_per_core": _rate(designed),
        "of_all_cells": _rate(seconds),
        "compiled": is_running(),
    }
    lines.append(json.dumps(figures))
    return "\n".join(lines)


def _rate(seconds: dict[Cell, float]) -> int:
    return round(len(seconds) / sum(seconds.values()))


def fingerprint(stage: Stage, seeds: int) -> str:
    """What so many seeds of each cell did, step by step, as one hash: the same wherever they run,
    compiled or not."""
    digest = sha256()
    for family in FAMILIES:
        for profile in PROFILES:
            for seed in range(seeds):
                wrong, run, clients = check_seed(stage, family, profile, seed)
                world = run.world
                calls = [(call.start, call.end, call.answer) for each in clients for call in each]
                done = (world.trace, world.step, world.serial, world.faults, wrong, calls)
                digest.update(repr(done).encode())
    return digest.hexdigest()


def collections(seeds: int) -> dict[str, int]:
    """Run and judge so many seeds of each profile of garbage collection: how many `runs`, what they
    `deleted`, the `faults` in them, and in how many something was `wrong`, each told on stderr."""
    stage = build_collect_stage()
    total = {"runs": 0, "deleted": 0, "faults": 0, "wrong": 0}
    for profile in COLLECT_PROFILES:
        for seed in range(seeds):
            run = check_collect_seed(stage, profile, seed)
            total["runs"] += 1
            total["deleted"] += run.deleted
            total["faults"] += run.world.faults
            total["wrong"] += bool(run.wrong)
            if run.wrong:
                sys.stderr.write(f"collect {profile} {seed}: {run.wrong[:3]}\n")
    return total


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=24, help="of each cell")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--fingerprint", action="store_true", help="of what the seeds do, instead of their speed"
    )
    parser.add_argument("--collections", type=int, default=0, help="seeds of each profile")
    options = parser.parse_args()
    if options.collections:
        with rarely_collected():
            total = collections(options.collections)
        sys.stdout.write(json.dumps(total) + "\n")
        sys.exit(total["wrong"] > 0)
    stage = build_stage()
    if options.fingerprint:
        sys.stdout.write(fingerprint(stage, options.seeds) + "\n")
        return
    with rarely_collected():
        sys.stdout.write(report(measure(stage, options.seeds, options.rounds)) + "\n")


if __name__ == "__main__":
    main()
