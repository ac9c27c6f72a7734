"""Many clients on one branch: committers, merges, and a mixed load.

    committers  8 committers, each with a fresh upload before each commit; on a small branch, and on
                one with many objects in its last commit
    merges      40 branches with a commit each, merged into one branch at the same time
    mixed       32 connections that read, upload and commit in a random order

Each line counts the requests that failed.  A commit that finds nothing staged, because another one
has taken it, is answered 400; that is no failure.  For http.py.
"""

import itertools
import random
import time
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks import served
from benchmarks.load import Load, Target, run
from benchmarks.served import WHERE, Line, branched, checked, commit_request, line, loaded, upload

COMMITTERS, MERGES, MIXED = 8, 40, 32
LAKEFS_COMMITS, LAKEFS_FAILED_PERCENT, LAKEFS_WORST_S = 56, 5.0, 3.7
GOAL_COMMITS, GOAL_COMMITS_LARGE, GOAL_FAILED_PERCENT, GOAL_WORST_S = 300, 100, 0.0, 0.5
GOAL_MERGES = 100
GOAL_MIXED = 1_500  # requests a second
READS, UPLOADS, COMMITS = "reads", "uploads", "commits"
SHARES = {READS: 80, UPLOADS: 15, COMMITS: 5}
SHOWN = (0.5, 0.75, 0.9, 0.95, 0.99, 0.999)  # of the latencies that the graph shows
_MIX = 100  # requests in which the shares are exact
_FINE = (200, 201, 204, 400)


def measure(target: Target, seconds: float, rounds: int, objects: int) -> list[Line]:
    """The committers on a small and on a large branch, and the merges."""
    small = branched(target, "hot")
    large = branched(target, "hot-large")
    uploads = (upload(target, large, f"filled/{number}") for number in range(objects))
    checked(run(target, 64, [uploads] * 64))
    served.commit(target, large)
    name = f"{COMMITTERS} committers on a branch of {objects:,} objects"
    few = f"{COMMITTERS} committers on one branch"
    return [
        *committers(target, small, spell(seconds), few, GOAL_COMMITS),
        *committers(target, large, spell(seconds), name, GOAL_COMMITS_LARGE),
        *merges(target, rounds),
    ]


def spell(seconds: float) -> float:
    """How long committers work, where other loads last `seconds`."""
    return max(2 * seconds, 3)


def committers(target: Target, branch: str, seconds: float, name: str, goal: int) -> list[Line]:
    """Uploads and commits of 8 clients, in turn.  `goal`: commits a second."""
    counter = itertools.count()
    commit = commit_request(target, branch)

    def one() -> Iterator[bytes]:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            yield upload(target, branch, f"hot/{next(counter)}")
            yield commit

    def kind_of(request: bytes) -> str:
        return COMMITS if request is commit else UPLOADS

    load = run(target, COMMITTERS, [one() for _ in range(COMMITTERS)], kind_of)
    commits = load.kinds[COMMITS]
    commits.client = load.client
    failed = 100 * _failed(load) / len(load.seconds)
    made = Load(commits.seconds, commits.statuses, commits.elapsed, load.client)
    rate = loaded(name, [made], LAKEFS_COMMITS, "commits/s", scales="sync", goal=goal)
    rate["value"] = round(commits.statuses[201] / load.elapsed, 1)
    lower: dict[str, Any] = {"better": "lower"}
    return [
        rate,
        line(
            f"{name}: failed",
            failed,
            "%",
            LAKEFS_FAILED_PERCENT,
            scales="none",
            goal=GOAL_FAILED_PERCENT,
            **lower,
        ),
        line(
            f"{name}: worst",
            max(load.seconds),
            "s",
            LAKEFS_WORST_S,
            scales="sync",
            goal=GOAL_WORST_S,
            **lower,
        ),
    ]


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
        found = loaded(f"{name}: {kind}", [part], goal=GOAL_MIXED * share / 100)
        lines.append({**found, "percentiles_ms": percentiles(part, SHOWN)})
    return [*lines, line(f"{name}: failed", _failed(load), "requests", goal=0, better="lower")]


def percentiles(load: Load, shares: Sequence[float]) -> list[float]:
    """Latencies of these shares of the answers, in milliseconds."""
    return [round(load.percentile_ms(share), 3) for share in shares]
