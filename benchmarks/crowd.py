"""Latency of a look-up while other clients write and list: shows work that blocks the event loop.

One connection sends `stat` requests, one after the other.  8 connections upload; each answer needs
a sync.  One connection lists the whole branch over its uncommitted deletions, repeatedly.  The
writers and the lister are separate processes, so the measured time is only the server's.  For
`http.py`.
"""

import itertools
import os
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from benchmarks.load import Load, Target, repeated, run, varied

WRITERS = 8
WHERE = "/repositories/bench"


@dataclass(frozen=True)
class Crowded:
    """The load of the look-ups, and the upload rate during it."""

    stat: Load
    uploads_per_s: float


def crowded(target: Target, branch: str, path: str, seconds: float) -> Crowded:
    """Measure `stat` of `path` on `branch` on one connection, beside the writers and the lister."""
    spawn = get_context("spawn")
    beside = 1.5 * seconds + 2  # they start earlier and end later
    rates = spawn.Queue()
    others: list[Any] = [
        spawn.Process(target=_write, args=(target, WRITERS, beside, rates)),
        spawn.Process(target=_list, args=(target, branch, beside)),
    ]
    for each in others:
        each.start()
    stat = target.request("GET", f"{WHERE}/refs/{branch}/objects/stat", {"path": path})
    try:
        run(target, 1, [repeated(stat, 2.0)])  # until they are running
        load = run(target, 1, [repeated(stat, seconds)])
        return Crowded(load, rates.get(timeout=10 * beside))
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
