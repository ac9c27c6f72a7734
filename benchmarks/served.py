"""A served store for the benchmarks: starts it, and sends it single requests.

The server is a separate process (`graveler serve` on a fresh store).  `line` makes what the tables
show: a dictionary with lakeFS's figure and the calibration that scales it: `cpu` (hashing), `sync`
(synced writes) or `none`.
"""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from benchmarks.load import Load, Target, run
from graveler.core.records import ABSENT, Absent

KEY, SECRET = "BENCHMARKKEY", "benchmark secret key of 32 characters"
REPO, WHERE = "bench", "/repositories/bench"
PATHS = 1_000
Line = dict[str, Any]


@contextmanager
def serving(
    folder: Path, *options: str, checkout: Path | Literal[Absent.ABSENT] = ABSENT
) -> Iterator[tuple[Target, int]]:
    """A running server on a fresh store, and its process id.  `options`: more of `serve`.
    `checkout`: the one that serves, with its own environment, instead of this one."""
    (folder / "import").mkdir()
    python = sys.executable if checkout is ABSENT else str(checkout / ".venv" / "bin" / "python")
    where = None if checkout is ABSENT else checkout  # `python -c` imports from there first
    command = [python, "-c", "import sys; from graveler.cli.main import main; main()"]
    command += ["serve", "--store", str(folder / "store"), "--listen", "127.0.0.1:0"]
    command += ["--import-root", str(folder / "import"), *options]
    environment = {
        **os.environ,
        "GRAVELER_ACCESS_KEY_ID": KEY,
        "GRAVELER_SECRET_ACCESS_KEY": SECRET,
    }
    server = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, cwd=where
    )
    assert server.stdout is not None
    try:
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
        server.stdout.close()


@contextmanager
def prepared(folder: Path, *options: str) -> Iterator[tuple[Target, int]]:
    """As `serving`, in a folder of its own below `folder`, with the repository of `prepare`."""
    own = folder / "served"
    own.mkdir()
    with serving(own, *options) as (target, pid):
        prepare(target)
        yield target, pid


def prepare(target: Target) -> None:
    """Create a repository with 1,000 committed paths."""
    body = {"name": REPO, "storage_namespace": f"local://{REPO}/data"}
    make(target, "POST", "/repositories", body=body)
    uploads = (upload(target, "main", path_of(number)) for number in range(PATHS))
    checked(run(target, 8, [uploads] * 8))
    commit(target, "main")


def memory_mb(pid: int, field: str = "VmRSS") -> float:
    """Resident memory of a process in MiB; with the field `VmHWM`, its peak."""
    for text in Path(f"/proc/{pid}/status").read_text().splitlines():
        if text.startswith(f"{field}:"):
            return int(text.split()[1]) / 1024
    return 0.0


def line(
    name: str,
    value: float,
    unit: str,
    lakefs: float = 0.0,
    *,
    better: str = "higher",
    scales: str = "cpu",
    **more: Any,
) -> Line:
    """One line of the table.  `more`: a `goal` of its own, or the `reason` why it has no floor."""
    return {
        "name": name,
        "value": round(value, 3 if value < 10 else 0 if value > 1000 else 1),
        "unit": unit,
        "lakefs": lakefs,
        "better": better,
        "scales": scales,
        **more,
    }


def loaded(
    name: str, loads: Sequence[Load], lakefs: float = 0.0, unit: str = "requests/s", **more: Any
) -> Line:
    """The line of the round with the median rate: its rate, latencies and the client's share."""
    middle = sorted(loads, key=lambda load: load.rate)[len(loads) // 2]
    found = line(name, middle.rate, unit, lakefs, **more)
    found |= {
        "p50_ms": round(middle.percentile_ms(0.5), 2),
        "p99_ms": round(middle.percentile_ms(0.99), 2),
    }
    if middle.client:
        found["client"] = round(middle.client, 2)
    return found


def path_of(number: int) -> str:
    """The path of a committed object."""
    return f"tables/events/date=2025-001/part-{number:05d}-c000.snappy.parquet"


def upload(target: Target, branch: str, path: str) -> bytes:
    """The bytes of a request that uploads 64 bytes."""
    return target.request("POST", f"{WHERE}/branches/{branch}/objects", {"path": path}, b"x" * 64)


def stat(target: Target) -> bytes:
    """The bytes of a request that looks one object up."""
    return target.request("GET", f"{WHERE}/refs/main/objects/stat", {"path": path_of(500)})


def branched(target: Target, name: str) -> str:
    """A new branch from `main`.  Returns its name."""
    make(target, "POST", f"{WHERE}/branches", {"name": name, "source": "main"})
    return name


def commit_request(target: Target, branch: str) -> bytes:
    """The bytes of a request that commits what is staged."""
    where = f"{WHERE}/branches/{branch}/commits"
    return target.request("POST", where, body={"message": "all of it"})


def commit(target: Target, branch: str) -> float:
    """Commit what is staged.  Returns the seconds that it took."""
    with connected(target) as ask:
        return ask(commit_request(target, branch))


def checked(load: Load) -> Load:
    """The same, unless a request failed: then raises `RuntimeError`."""
    wrong = {status: count for status, count in load.statuses.items() if status >= 300}
    if wrong:
        raise RuntimeError(f"the server answered {wrong}")
    return load


def make(
    target: Target,
    method: str,
    path: str,
    body: object = None,
    query: dict[str, str] | None = None,
) -> Any:
    """Send one request on its own connection.  Returns the JSON of the answer."""
    with connected(target) as ask:
        ask(target.request(method, path, query, body))
        return json.loads(ask.body) if ask.body[:1] in (b"{", b"[") else None


class Asking:
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
def connected(target: Target) -> Iterator[Asking]:
    """One open connection."""
    connection = http.client.HTTPConnection(target.host, target.port, timeout=600)
    try:
        yield Asking(connection)
    finally:
        connection.close()
