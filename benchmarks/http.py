"""The HTTP service under load: requests per second, latencies, long operations, memory.

    rates       stat, get, list 100, branch, upload at 8 and 64 connections
    verbs       one at a time: create branch, commit one, diff one, merge one
    committers  8 committers on one branch, each with a fresh upload
    bulk        a commit of many staged, a list over many tombstones, a bulk delete, an import
    beside      stat on one connection, beside 8 that upload and one that lists over the tombstones

The server is a separate process (`graveler serve` on a fresh store); this process generates the
load.  Every line is a dictionary with lakeFS's figure and the calibration that scales it: `cpu`
(hashing) or `sync` (synced writes).  Run: python -m benchmarks.http
"""

import argparse
import http.client
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import crowd
from benchmarks.load import Load, Target, repeated, run, varied

KEY, SECRET = "BENCHMARKKEY", "benchmark secret key of 32 characters"
REPO, WHERE = "bench", "/repositories/bench"
PATHS = 1_000
Line = dict[str, Any]


@dataclass(frozen=True)
class Scale:
    """The duration and the size of a run."""

    seconds: float = 5.0
    rounds: int = 3
    verbs: int = 60
    objects: int = 100_000
    files: int = 200_000


FULL, QUICK = Scale(), Scale(seconds=1.5, rounds=1, verbs=25, objects=10_000, files=10_000)

# name -> connections -> lakeFS's (answers per second, p50 ms, p99 ms)
LAKEFS_RATES: dict[str, dict[int, tuple[float, float, float]]] = {
    "stat": {8: (1822, 4.4, 6.1), 64: (6657, 8.8, 34)},
    "get object": {8: (1805, 0, 0), 64: (5505, 0, 0)},
    "list 100": {8: (1522, 0, 0), 64: (2418, 0, 0)},
    "get branch": {8: (1998, 0, 0)},
    "upload of 64 bytes": {8: (686, 11.4, 0), 64: (5186, 0, 0)},
}
LAKEFS_VERBS_MS = {"create branch": 15.0, "commit one": 20.0, "diff one": 6.2, "merge one": 10.0}


def measure(scale: Scale = FULL) -> list[Line]:
    """Measure all lines."""
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as (target, pid):
        prepare(target)
        lines = [*rates(target, scale), *verbs(target, scale), *committers(target, scale)]
        lines += bulk(target, scale, Path(folder))
        lines += beside(target, scale)
        lines.append(
            _line("server memory after all this", memory_mb(pid), "MB", 1_400, better="lower")
        )
        return lines


@contextmanager
def serving(folder: Path) -> Iterator[tuple[Target, int]]:
    """A running server on a fresh store, and its process id."""
    (folder / "import").mkdir()
    command = [sys.executable, "-c", "import sys; from graveler.cli.main import main; main()"]
    command += ["serve", "--store", str(folder / "store"), "--listen", "127.0.0.1:0"]
    command += ["--import-root", str(folder / "import")]
    environment = {
        **os.environ,
        "GRAVELER_ACCESS_KEY_ID": KEY,
        "GRAVELER_SECRET_ACCESS_KEY": SECRET,
    }
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert server.stdout is not None
        for said in server.stdout:
            if "ready at" in said:
                port = int(said.partition("ready at ")[2].split()[0].rpartition(":")[2])
                break
        else:
            raise RuntimeError("the server did not start")
        yield Target("127.0.0.1", port, KEY, SECRET), server.pid
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)


def prepare(target: Target) -> None:
    """Create a repository with 1,000 committed paths."""
    body = {"name": REPO, "storage_namespace": f"local://{REPO}/data"}
    _once(target, "POST", "/repositories", body=body)
    uploads = (upload(target, "main", _path(number)) for number in range(PATHS))
    checked(run(target, 8, [uploads] * 8))
    _commit(target, "main")


def rates(target: Target, scale: Scale) -> list[Line]:
    """Rates under a steady load of one kind of request."""
    get = target.request("GET", f"{WHERE}/refs/main/objects", {"path": _path(500)})
    listing = {"prefix": "tables/", "amount": "100"}
    requests = {
        "stat": stat(target),
        "get object": get,
        "list 100": target.request("GET", f"{WHERE}/refs/main/objects/ls", listing),
        "get branch": target.request("GET", f"{WHERE}/branches/main"),
    }
    found = []
    for name, connections in itertools.product(requests, (8, 64)):
        loads = [
            run(target, connections, [repeated(requests[name], scale.seconds)] * connections)
            for _ in range(scale.rounds)
        ]
        found.append(_rate_line(name, connections, loads))
    _once(target, "POST", f"{WHERE}/branches", body={"name": "uploads", "source": "main"})
    counter = itertools.count()
    for connections in (8, 64):
        loads = []
        for _ in range(scale.rounds):
            fresh = varied(
                lambda _number: upload(target, "uploads", f"fresh/{next(counter)}"),
                0,
                1,
                scale.seconds,
            )
            loads.append(run(target, connections, [fresh] * connections))
        found.append(_rate_line("upload of 64 bytes", connections, loads, scales="sync"))
    return found


def verbs(target: Target, scale: Scale) -> list[Line]:
    """The median latency of each verb, one at a time, on one connection."""
    seconds: dict[str, list[float]] = {name: [] for name in LAKEFS_VERBS_MS}
    with _connected(target) as ask:
        for number in range(scale.verbs):
            branch, path = f"verb{number}", f"verbs/{number}"
            body = {"name": branch, "source": "main"}
            made = target.request("POST", f"{WHERE}/branches", body=body)
            seconds["create branch"].append(ask(made))
            ask(upload(target, branch, path))
            message = {"message": "one"}
            commit = target.request("POST", f"{WHERE}/branches/{branch}/commits", body=message)
            seconds["commit one"].append(ask(commit))
            seconds["diff one"].append(
                ask(target.request("GET", f"{WHERE}/refs/main/diff/{branch}"))
            )
            merge = target.request("POST", f"{WHERE}/refs/{branch}/merge/main", body={})
            seconds["merge one"].append(ask(merge))
    return [
        _line(
            f"{name}, p50",
            statistics.median(found) * 1e3,
            "ms",
            LAKEFS_VERBS_MS[name],
            better="lower",
            scales="cpu" if name == "diff one" else "sync",
        )
        for name, found in seconds.items()
    ]


def committers(target: Target, scale: Scale) -> list[Line]:
    """Eight committers on one branch.  Each one uploads, then commits, repeatedly."""
    _once(target, "POST", f"{WHERE}/branches", body={"name": "hot", "source": "main"})
    body = {"message": "hot"}
    commit = target.request("POST", f"{WHERE}/branches/hot/commits", body=body)
    counter = itertools.count()
    seconds = max(scale.seconds * 2, 3)

    def one() -> Iterator[bytes]:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            yield upload(target, "hot", f"hot/{next(counter)}")
            yield commit

    load = run(target, 8, [one() for _ in range(8)])
    commits = load.statuses[201] / 2
    failed = sum(count for status, count in load.statuses.items() if status not in (201, 400))
    return [
        _line("8 committers on one branch", commits / load.elapsed, "commits/s", 56, scales="sync"),
        _line("8 committers: failed", float(failed), "requests", 0, better="lower"),
        _line("8 committers: worst", max(load.seconds), "s", 3.7, better="lower", scales="sync"),
    ]


def bulk(target: Target, scale: Scale, folder: Path) -> list[Line]:
    """Long single operations.

    lakeFS's figures are for 100,000 objects and 200,000 files, and are scaled in proportion.
    """
    share = scale.objects / 100_000
    _once(target, "POST", f"{WHERE}/branches", body={"name": "bulk", "source": "main"})
    uploads = (upload(target, "bulk", f"bulk/{number:06d}") for number in range(scale.objects))
    checked(run(target, 64, [uploads] * 64))
    commit_s = _commit(target, "bulk")
    paths = [f"bulk/{number:06d}" for number in range(scale.objects)]
    began = time.perf_counter()
    with _connected(target) as ask:
        for start in range(0, len(paths), 1_000):
            body = {"paths": paths[start : start + 1_000]}
            ask(target.request("POST", f"{WHERE}/branches/bulk/objects/delete", body=body))
    delete_s = time.perf_counter() - began
    listing = target.request("GET", f"{WHERE}/refs/bulk/objects/ls", {"prefix": "bulk/"})
    with _connected(target) as ask:
        list_s = statistics.median(ask(listing) for _ in range(3))
    lower: dict[str, Any] = {"better": "lower"}
    return [
        _line(f"commit of {scale.objects:,} staged", commit_s, "s", 0.47 * share, **lower),
        _line(f"list over {scale.objects:,} tombstones", list_s, "s", 0.35 * share, **lower),
        _line(f"bulk delete of {scale.objects:,}", delete_s, "s", 7.4 * share, **lower),
        _import_line(target, scale, folder / "import"),
    ]


def beside(target: Target, scale: Scale) -> list[Line]:
    """Look-ups and uploads beside each other; the medians of several rounds.

    Runs after `bulk`, because the lister lists its tombstones.
    """
    rounds = [
        crowd.crowded(target, "bulk", _path(500), scale.seconds, listers=1)
        for _ in range(scale.rounds)
    ]
    for found in rounds:
        checked(found.stat)
    p99_ms = statistics.median(found.stat.percentile_ms(0.99) for found in rounds)
    uploads = statistics.median(found.uploads_per_s for found in rounds)
    return [
        _line("stat beside 8 uploads and a long list, p99", p99_ms, "ms", 0, better="lower"),
        _line("uploads beside them", uploads, "requests/s", 0, scales="sync"),
    ]


def _import_line(target: Target, scale: Scale, root: Path) -> Line:
    for number in range(scale.files):
        if number % 1_000 == 0:
            inner = root / f"part-{number // 1_000:03d}"
            inner.mkdir()
        (inner / f"{number:06d}").touch()
    where = f"{WHERE}/branches/main/import"
    source = {"type": "common_prefix", "path": f"local://{root}/", "destination": "imported/"}
    began = time.perf_counter()
    body = {"paths": [source], "commit": {"message": "imported"}}
    job = _once(target, "POST", where, body=body)["id"]
    while not (found := _once(target, "GET", where, {"id": job}))["completed"]:
        assert "error" not in found, found
        time.sleep(0.02)
    took = time.perf_counter() - began
    name = f"import of {scale.files:,} local files"
    return _line(name, took, "s", 5.0 * scale.files / 200_000, better="lower")


def memory_mb(pid: int) -> float:
    """Resident memory of a process in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _rate_line(name: str, connections: int, loads: list[Load], scales: str = "cpu") -> Line:
    for load in loads:
        checked(load)
    middle = sorted(loads, key=lambda load: load.rate)[len(loads) // 2]
    peer = LAKEFS_RATES[name].get(connections, (0.0, 0.0, 0.0))
    line = _line(
        f"{name}, {connections} connections", middle.rate, "requests/s", peer[0], scales=scales
    )
    line["p50_ms"], line["p99_ms"] = (
        round(middle.percentile_ms(0.5), 2),
        round(middle.percentile_ms(0.99), 2),
    )
    line["lakefs_p50_ms"], line["lakefs_p99_ms"] = peer[1], peer[2]
    return line


def _line(
    name: str,
    value: float,
    unit: str,
    lakefs: float,
    *,
    better: str = "higher",
    scales: str = "cpu",
) -> Line:
    return {
        "name": name,
        "value": round(value, 3 if value < 10 else 0 if value > 1000 else 1),
        "unit": unit,
        "lakefs": lakefs,
        "better": better,
        "scales": scales,
    }


def _path(number: int) -> str:
    return f"tables/events/date=2025-001/part-{number:05d}-c000.snappy.parquet"


def make(target: Target, method: str, path: str, body: object) -> Any:
    """Send one request with a JSON body.  Returns the JSON of the answer."""
    return _once(target, method, path, body=body)


def upload(target: Target, branch: str, path: str) -> bytes:
    """The bytes of a request that uploads 64 bytes."""
    return target.request("POST", f"{WHERE}/branches/{branch}/objects", {"path": path}, b"x" * 64)


def stat(target: Target) -> bytes:
    """The bytes of a request that looks one object up."""
    return target.request("GET", f"{WHERE}/refs/main/objects/stat", {"path": _path(500)})


def _commit(target: Target, branch: str) -> float:
    began = time.perf_counter()
    where = f"{WHERE}/branches/{branch}/commits"
    _once(target, "POST", where, body={"message": "all of it"})
    return time.perf_counter() - began


def checked(load: Load) -> Load:
    """The same, unless a request failed: then raises `RuntimeError`."""
    wrong = {status: count for status, count in load.statuses.items() if status >= 300}
    if wrong:
        raise RuntimeError(f"the server answered {wrong}")
    return load


def _once(
    target: Target,
    method: str,
    path: str,
    query: dict[str, str] | None = None,
    body: object = None,
) -> Any:
    """Send one request on its own connection.  Returns the JSON of the answer."""
    with _connected(target) as ask:
        ask(target.request(method, path, query, body))
        return json.loads(ask.body) if ask.body[:1] in (b"{", b"[") else None


class _Asking:
    """One connection.  A call sends a request and returns the seconds until its answer."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        connection.connect()
        self._connection = connection
        self.body = b""

    def __call__(self, request: bytes) -> float:
        began = time.perf_counter()
        sock = self._connection.sock
        sock.sendall(request)
        answer = http.client.HTTPResponse(sock, method=request.split(b" ", 1)[0].decode())
        answer.begin()
        self.body = answer.read()
        took = time.perf_counter() - began
        if answer.status >= 300:
            raise RuntimeError(f"the server answered {answer.status}: {self.body[:200]!r}")
        return took


@contextmanager
def _connected(target: Target) -> Iterator[_Asking]:
    connection = http.client.HTTPConnection(target.host, target.port, timeout=600)
    try:
        yield _Asking(connection)
    finally:
        connection.close()


def main() -> None:
    """Measure, and print a JSON object a line."""
    argparse.ArgumentParser(
        prog="python -m benchmarks.http",
        description=__doc__,
        epilog="QUICK=1 measures for a shorter time.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ).parse_args()
    for line in measure(QUICK if os.environ.get("QUICK") else FULL):
        print(json.dumps(line))


if __name__ == "__main__":
    main()
