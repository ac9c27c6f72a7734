"""Latency of a look-up while other clients write and list: shows work that blocks the event loop.

One connection sends `stat` requests, one after the other.  8 connections upload; each answer needs
a sync.  One connection lists the whole branch over its uncommitted deletions, repeatedly.  The
writers and the lister are separate processes, so the measured time is only the server's.  `http.py`
reports the 99th percentile with all of them, and the upload rate.  `python -m benchmarks.crowd
[DELETIONS]` prints both for each combination.
"""

import argparse
import itertools
import os
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks import served
from benchmarks.load import Load, Target, repeated, run, varied

WRITERS = 8
WHERE = "/repositories/bench"


@dataclass(frozen=True)
class Crowded:
    """The load of the look-ups, and the upload rate during it."""

    stat: Load
    uploads_per_s: float


def crowded(
    target: Target, branch: str, path: str, seconds: float, *, writers: int = WRITERS, listers: int
) -> Crowded:
    """Measure `stat` of `path` on `branch` on one connection, beside the writers and listers."""
    spawn = get_context("spawn")
    beside = 1.5 * seconds + 2  # they start earlier and end later
    rates = spawn.Queue()
    others: list[Any] = []
    if writers:
        others.append(spawn.Process(target=_write, args=(target, writers, beside, rates)))
    others += [spawn.Process(target=_list, args=(target, branch, beside)) for _ in range(listers)]
    for each in others:
        each.start()
    stat = target.request("GET", f"{WHERE}/refs/{branch}/objects/stat", {"path": path})
    try:
        if others:
            run(target, 1, [repeated(stat, 2.0)])  # until they are running
        load = run(target, 1, [repeated(stat, seconds)])
        return Crowded(load, rates.get(timeout=10 * beside) if writers else 0.0)
    finally:
        for each in others:
            each.join()


def _write(target: Target, connections: int, seconds: float, rates: Any) -> None:
    run_id = os.getpid()
    counter = itertools.count()
    uploads = varied(
        lambda _number: target.request(
            "POST",
            f"{WHERE}/branches/main/objects",
            {"path": f"crowd/{run_id}/{next(counter)}"},
            b"x" * 64,
        ),
        0,
        1,
        seconds,
    )
    rates.put(run(target, connections, [uploads] * connections).rate)


def _list(target: Target, branch: str, seconds: float) -> None:
    listing = target.request("GET", f"{WHERE}/refs/{branch}/objects/ls", {"prefix": "bulk/"})
    run(target, 1, [repeated(listing, seconds)])


def deletions(target: Target, branch: str, count: int) -> str:
    """Stage, commit and delete `count` paths on a new branch.  Returns another path, which
    stays."""
    served.make(target, "POST", f"{WHERE}/branches", {"name": branch, "source": "main"})
    uploads = (served.upload(target, branch, f"bulk/{number:06d}") for number in range(count))
    run(target, 64, [uploads] * 64)
    served.make(target, "POST", f"{WHERE}/branches/{branch}/commits", {"message": "all of it"})
    for start in range(0, count, 1_000):
        paths = [f"bulk/{number:06d}" for number in range(start, min(start + 1_000, count))]
        served.make(target, "POST", f"{WHERE}/branches/{branch}/objects/delete", {"paths": paths})
    run(target, 1, [iter([served.upload(target, branch, "stays")])])
    return "stays"


def main() -> None:
    """Print a line for each combination of writers and listers."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crowd", description=main.__doc__)
    parser.add_argument("deletions", nargs="?", type=int, default=100_000)
    count = parser.parse_args().deletions
    with tempfile.TemporaryDirectory() as folder, served.serving(Path(folder)) as (target, _):
        served.prepare(target)
        path = deletions(target, "crowd", count)
        for name, writers, listers in _crowds():
            found = crowded(target, "crowd", path, 10.0, writers=writers, listers=listers)
            load = found.stat
            print(
                f"{name}: p50 {load.percentile_ms(0.5):.2f} ms, p99 {load.percentile_ms(0.99):.2f} "
                f"ms, worst {max(load.seconds) * 1e3:.1f} ms, mean "
                f"{statistics.fmean(load.seconds) * 1e3:.2f} ms, {len(load.seconds)} requests, "
                f"{dict(load.statuses)}, {found.uploads_per_s:.0f} uploads/s",
                flush=True,
            )


def _crowds() -> Iterator[tuple[str, int, int]]:
    yield "alone", 0, 0
    yield "8 writers", WRITERS, 0
    yield "one lister", 0, 1
    yield "8 writers and one lister", WRITERS, 1


if __name__ == "__main__":
    main()
