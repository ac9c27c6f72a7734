"""Measures how fast schedules run, by family and profile: `python -m simulator.rates`.

It measures the processor time of one process, and takes the best of several rounds over the same
seeds, so that a busy machine does not look like slow code.  The last line is one JSON object.  The
measurement never fails.  With --collections N it instead runs and judges N seeds of each profile of
garbage collection, and fails if anything was wrong.  For tests and measurements only.
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
    """Run Python's garbage collector once every few dozen runs, and never over the objects that
    exist now.

    For processes that do nothing but run schedules: their memory stays within some tens of
    megabytes.
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
    """The seconds that a schedule takes, with its checks, for each family and profile."""
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
    """Schedules per second: a table; then, as JSON, the mean over the cells of the protocol's
    design and over all cells, each cell with equal weight."""
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
    """A hash over every step of `seeds` seeds of each cell.  It is the same wherever they run,
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
    """Run and judge `seeds` seeds of each profile of garbage collection.

    Returns the number of `runs`, of `deleted` files, of `faults`, and of runs in which something
    was `wrong`; each of those is also written to stderr.
    """
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
