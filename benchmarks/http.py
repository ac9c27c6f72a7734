"""The HTTP service under load: requests per second, latencies, long operations, memory.

    rates       stat, get, list 100, branch, upload at 8 and 64 connections
    unsynced    upload again, by a server with `--sync off`
    daily       the verbs by the number of objects, committers, long histories (daily.py)
    contention  merges into one branch, and a mixed load (contention.py)
    bulk        a commit of many staged, a list over many tombstones, a bulk delete, imports
    beside      stat on one connection, beside 8 that upload and one that lists over the tombstones

The server is a separate process on a fresh store (served.py); this process generates the load.
Run: python -m benchmarks.http
"""

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import contention, crowd, daily, served, single
from benchmarks.load import Load, Target, repeated, run, varied
from benchmarks.served import WHERE, Line, branched, checked, connected, line, loaded, upload


@dataclass(frozen=True)
class Scale:
    """The duration and the size of a run."""

    seconds: float = 4.0
    rounds: int = 3
    verbs: int = 7  # rounds
    sizes: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    jobs: int = 20_000
    repositories: int = 1_000
    objects: int = 100_000
    files: int = 200_000
    mixed: float = 30.0


FULL = Scale()
QUICK = Scale(
    seconds=0.8,
    rounds=1,
    verbs=3,
    sizes=(1_000, 10_000),
    jobs=200,
    repositories=50,
    objects=5_000,
    files=10_000,
    mixed=5.0,
)

# name -> connections -> lakeFS's (answers per second, p50 ms, p99 ms)
LAKEFS_RATES: dict[str, dict[int, tuple[float, float, float]]] = {
    "stat": {8: (1822, 4.4, 6.1), 64: (6657, 8.8, 34)},
    "get object": {8: (1805, 0, 0), 64: (5505, 0, 0)},
    "list 100": {8: (1522, 0, 0), 64: (2418, 0, 0)},
    "get branch": {8: (1998, 0, 0)},
    "upload of 64 bytes": {8: (686, 11.4, 0), 64: (5186, 0, 0)},
}
# Goals of our own, where they ask for more than lakeFS's figures do, or lakeFS has none.
GOAL_RATES = {
    ("get object", 64): 7_000,
    ("list 100", 64): 4_000,
    ("get branch", 64): 10_000,
    ("upload of 64 bytes", 8): 2_500,
    ("upload of 64 bytes", 64): 3_000,
}
GOAL_TOMBSTONES_S, GOAL_DELETE_S = 0.15, 2.0  # for 100,000
GOAL_P99_MS, GOAL_BESIDE = 5.0, 200
GOAL_PEAK_MB = 300


def measure(scale: Scale = FULL) -> list[Line]:
    """Measure all lines."""
    with tempfile.TemporaryDirectory() as folder, served.prepared(Path(folder)) as (target, pid):
        own = Path(folder) / "served"
        lines = [line for group in GROUPS.values() for line in group(target, scale, own)]
        now, peak = served.memory_mb(pid), served.memory_mb(pid, "VmHWM")
    lower: dict[str, Any] = {"better": "lower", "scales": "none"}
    return [
        *lines,
        line("server memory after all this", now, "MB", 1_400, **lower),
        line("server memory, peak", peak, "MB", goal=GOAL_PEAK_MB, **lower),
        *unsynced(scale),
    ]


def rates(target: Target, scale: Scale) -> list[Line]:
    """Rates under a steady load of one kind of request."""
    get = {"path": served.path_of(500)}
    listing = {"prefix": "tables/", "amount": "100"}
    requests = {
        "stat": served.stat(target),
        "get object": target.request("GET", f"{WHERE}/refs/main/objects", get),
        "list 100": target.request("GET", f"{WHERE}/refs/main/objects/ls", listing),
        "get branch": target.request("GET", f"{WHERE}/branches/main"),
    }
    found = []
    for name, connections in itertools.product(requests, (8, 64)):
        streams = (
            [repeated(requests[name], scale.seconds)] * connections for _ in range(scale.rounds)
        )
        found.append(_rate_line(name, connections, [run(target, connections, s) for s in streams]))
    for connections, loads in _uploads(target, scale):
        found.append(_rate_line("upload of 64 bytes", connections, loads, scales="sync"))
    return found


def unsynced(scale: Scale) -> list[Line]:
    """The uploads again, on a store of their own that syncs nothing."""
    reason = "`--sync off`, for tests only"
    with (
        tempfile.TemporaryDirectory() as folder,
        served.prepared(Path(folder), "--sync", "off") as (target, _pid),
    ):
        return [
            loaded(
                f"upload of 64 bytes, {connections} connections, sync off",
                [checked(load) for load in loads],
                reason=reason,
            )
            for connections, loads in _uploads(target, scale)
        ]


def _uploads(target: Target, scale: Scale) -> Iterator[tuple[int, list[Load]]]:
    """Uploads of 64 bytes to new paths: the number of connections, and the rounds."""
    branch = branched(target, "uploads")
    counter = itertools.count()
    for connections in (8, 64):
        loads = []
        for _ in range(scale.rounds):
            fresh = varied(
                lambda _number: upload(target, branch, f"fresh/{next(counter)}"),
                0,
                1,
                scale.seconds,
            )
            loads.append(run(target, connections, [fresh] * connections))
        yield connections, loads


def _rate_line(name: str, connections: int, loads: list[Load], scales: str = "cpu") -> Line:
    for load in loads:
        checked(load)
    peer = LAKEFS_RATES[name].get(connections, (0.0, 0.0, 0.0))
    goal = GOAL_RATES.get((name, connections))
    more: dict[str, Any] = {"goal": goal} if goal else {}
    found = loaded(f"{name}, {connections} connections", loads, peer[0], scales=scales, **more)
    return {**found, "lakefs_p50_ms": peer[1], "lakefs_p99_ms": peer[2]}


def daily_verbs(target: Target, scale: Scale, folder: Path) -> list[Line]:
    """The lines of daily.py."""
    found = []
    for size in scale.sizes:
        root = folder / "import" / f"of-{size}"
        _import_files(target, root, size, in_a_folder=1_000)
        found += daily.verbs(target, root.name, size, scale.verbs)
        if size in (10_000, scale.sizes[-1]):
            found += daily.committers(target, root.name, size, max(2 * scale.seconds, 3))
    found += daily.history(target, scale.jobs, scale.repositories)
    return found + daily.written(10_000)


def bulk(target: Target, scale: Scale, folder: Path) -> list[Line]:
    """Long single operations.

    lakeFS's figures are for 100,000 objects and 200,000 files, and are scaled in proportion.
    """
    share = scale.objects / 100_000
    branch = branched(target, "bulk")
    paths = [f"bulk/{number:06d}" for number in range(scale.objects)]
    uploads = (upload(target, branch, path) for path in paths)
    checked(run(target, 64, [uploads] * 64))
    commit_s = served.commit(target, branch)
    deletions = [
        target.request(
            "POST",
            f"{WHERE}/branches/{branch}/objects/delete",
            body={"paths": paths[start : start + 1_000]},
        )
        for start in range(0, len(paths), 1_000)
    ]
    delete_s = checked(run(target, 1, [iter(deletions)])).elapsed
    listing = target.request("GET", f"{WHERE}/refs/{branch}/objects/ls", {"prefix": "bulk/"})
    with connected(target) as ask:
        list_s = statistics.median(ask(listing) for _ in range(3))
    lower: dict[str, Any] = {"better": "lower"}
    return [
        line(f"commit of {scale.objects:,} staged", commit_s, "s", 0.47 * share, **lower),
        line(
            f"list over {scale.objects:,} tombstones",
            list_s,
            "s",
            0.35 * share,
            goal=GOAL_TOMBSTONES_S * share,
            **lower,
        ),
        line(
            f"bulk delete of {scale.objects:,}",
            delete_s,
            "s",
            7.4 * share,
            goal=GOAL_DELETE_S * share,
            **lower,
        ),
        imported(target, scale, folder / "import" / "deep", in_a_folder=1_000),
        imported(target, scale, folder / "import" / "flat", in_a_folder=scale.files),
    ]


def imported(target: Target, scale: Scale, root: Path, in_a_folder: int) -> Line:
    """An import of local files, `in_a_folder` of them in each folder."""
    took = _import_files(target, root, scale.files, in_a_folder)
    where_they_lie = "" if in_a_folder < scale.files else " in one folder"
    name = f"import of {scale.files:,} local files{where_they_lie}"
    return line(name, took, "s", 5.0 * scale.files / 200_000, better="lower")


def _import_files(target: Target, root: Path, files: int, in_a_folder: int) -> float:
    """Make empty files and import them to a new branch with the name of their folder.  Returns the
    seconds that the import took."""
    root.mkdir()
    for number in range(files):
        inner = root / f"part-{number // in_a_folder:03d}"
        if number % in_a_folder == 0:
            inner.mkdir()
        (inner / f"{number:06d}").touch()
    branch = branched(target, root.name)
    where = f"{WHERE}/branches/{branch}/import"
    source = {"type": "common_prefix", "path": f"local://{root}/", "destination": "imported/"}
    began = time.perf_counter()
    body = {"paths": [source], "commit": {"message": "imported"}}
    job = served.make(target, "POST", where, body)["id"]
    while not (found := served.make(target, "GET", where, query={"id": job}))["completed"]:
        assert "error" not in found, found
        time.sleep(0.02)
    return time.perf_counter() - began


def beside(target: Target, scale: Scale) -> list[Line]:
    """Look-ups and uploads beside each other; the medians of several rounds.

    Runs after `bulk`, because the lister lists its tombstones.
    """
    rounds = [
        crowd.crowded(target, "bulk", served.path_of(500), scale.seconds)
        for _ in range(scale.rounds)
    ]
    for found in rounds:
        checked(found.stat)
    p99_ms = statistics.median(found.stat.percentile_ms(0.99) for found in rounds)
    uploads = statistics.median(found.uploads_per_s for found in rounds)
    name = "stat beside 8 uploads and a long list, p99"
    return [
        line(name, p99_ms, "ms", goal=GOAL_P99_MS, better="lower"),
        line("uploads beside them", uploads, "requests/s", goal=GOAL_BESIDE),
    ]


# The groups of lines of one server, in the order in which they run: `beside` needs `bulk`.
GROUPS: dict[str, Callable[[Target, Scale, Path], list[Line]]] = {
    "rates": lambda target, scale, _folder: rates(target, scale),
    "daily": lambda target, scale, folder: daily_verbs(target, scale, folder),
    "contention": lambda target, scale, _folder: [
        *contention.merges(target, scale.rounds),
        *contention.mixed(target, scale.mixed),
    ],
    "bulk": bulk,
    "beside": lambda target, scale, _folder: beside(target, scale),
}


if __name__ == "__main__":
    single.print_lines("http", __doc__, measure, QUICK, FULL)
