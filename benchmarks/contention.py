"""Many clients on one branch: merges, and a mixed load.

    merges      40 branches with a commit each, merged into one branch at the same time
    mixed       32 connections that read, upload and commit in a random order

Each line counts the requests that failed.  A commit that finds nothing staged, because another one
has taken it, is answered 400; that is no failure.  For http.py.
"""

import itertools
import random
import time
from collections.abc import Iterator

from benchmarks import served
from benchmarks.load import Load, Target, run
from benchmarks.served import WHERE, Line, branched, checked, commit_request, line, loaded, upload

MERGES, MIXED = 40, 32
GOAL_MERGES = 100
GOAL_MIXED = 1_500  # requests a second
READS, UPLOADS, COMMITS = "reads", "uploads", "commits"
SHARES = {READS: 80, UPLOADS: 15, COMMITS: 5}
_MIX = 100  # requests in which the shares are exact
_FINE = (200, 201, 204, 400)


def _failed(load: Load) -> int:
    return sum(count for status, count in load.statuses.items() if status not in _FINE)


def merges(target: Target, rounds: int) -> list[Line]:
    """Branches that are merged into one at the same time; a round takes fresh branches."""
    loads = []
    for number in range(rounds):
        into = branched(target, f"into-{number}")
        sources = [branched(target, f"from-{number}-{one}") for one in range(MERGES)]
        for source in sources:
            checked(run(target, 1, [iter([upload(target, source, f"merged/{source}")])]))
            served.commit(target, source)
        requests = [
            iter([target.request("POST", f"{WHERE}/refs/{source}/merge/{into}", body={})])
            for source in sources
        ]
        loads.append(run(target, MERGES, requests))
    failed = sum(map(_failed, loads))
    name = f"{MERGES} merges into one branch at once"
    return [
        loaded(name, loads, unit="merges/s", goal=GOAL_MERGES),
        line(f"{name}: failed", failed, "requests", goal=0, better="lower"),
    ]


def mixed(target: Target, seconds: float) -> list[Line]:
    """80 % reads, 15 % uploads and 5 % commits on 32 connections, on one branch."""
    branch = branched(target, "mixed")
    counter = itertools.count()
    where = f"{WHERE}/refs/{branch}/objects"
    listing = {"prefix": "tables/", "amount": "100"}
    reads = [
        target.request("GET", f"{where}/stat", {"path": served.path_of(500)}),
        target.request("GET", where, {"path": served.path_of(400)}),
        target.request("GET", f"{where}/ls", listing),
    ]
    commit, kinds = commit_request(target, branch), dict.fromkeys(reads, READS)
    kinds[commit] = COMMITS

    def one(seed: int) -> Iterator[bytes]:
        chance, end = random.Random(seed), time.perf_counter() + seconds
        order = [kind for kind, share in SHARES.items() for _ in range(share * _MIX // 100)]
        while True:
            chance.shuffle(order)
            for kind in order:
                if time.perf_counter() >= end:
                    return
                if kind == UPLOADS:
                    yield upload(target, branch, f"mixed/{next(counter)}")
                else:
                    yield commit if kind == COMMITS else chance.choice(reads)

    streams = [one(seed) for seed in range(MIXED)]
    load = run(target, MIXED, streams, lambda request: kinds.get(request, UPLOADS))
    return _mixed_lines(load)


def _mixed_lines(load: Load) -> list[Line]:
    name = f"mixed load, {MIXED} connections"
    lines = [loaded(f"{name}: all", [load], goal=GOAL_MIXED)]
    for kind, share in SHARES.items():
        part = load.kinds[kind]
        lines.append(loaded(f"{name}: {kind}", [part], goal=GOAL_MIXED * share / 100))
    return [*lines, line(f"{name}: failed", _failed(load), "requests", goal=0, better="lower")]
