"""The S3 gateway beside the HTTP API, and under parallel transfers.

    requests    HEAD, GET, PUT and LIST on 8 connections, each beside the verb of the API, in
                alternating rounds; objects have 64 bytes, a list has 100 lines
    transfers   PUT and GET of one large object, beside those of the API and beside the MD5 that a
                PUT needs, in alternating rounds
    memory      peak memory of the server while 8 clients send and 8 receive large objects

Figures are medians of the rounds, and a share is the median of the shares of the rounds.  The
client of both sides is the same (load.py, s3.py).  Each line has the goal that it must hold.
Run: python -m benchmarks.gateway
"""

import hashlib
import itertools
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks import s3, served, single
from benchmarks.load import Target, repeated, run
from benchmarks.single import Line

CONNECTIONS, PARALLEL = 8, 8
MIB = 1 << 20
ROOT = f"/{served.REPO}/main"
_PIECE = MIB  # what a hash takes at a time
_SETTLE_SECONDS = 1.0


@dataclass(frozen=True)
class Scale:
    """The duration of a round, the number of rounds, and the size of a large object.  `parallel`:
    that of the objects that are transferred at once."""

    seconds: float = 2.0
    rounds: int = 5
    size: int = 1024 * MIB
    transfers: int = 3
    parallel: int = 1024 * MIB


FULL = Scale()
QUICK = Scale(seconds=1.0, rounds=3, size=256 * MIB, transfers=3, parallel=128 * MIB)

REQUEST_GOALS = {"HEAD": 0.60, "GET": 0.70, "PUT": 0.85, "LIST 100": 0.60}
MD5_GOAL = 0.6  # of the speed of a PUT
PUT_GOAL_MB, GET_GOAL_MB = 200.0, 500.0
MEMORY_GOAL_MB = 64.0


def measure(scale: Scale = FULL) -> list[Line]:
    """Measure all lines."""
    with tempfile.TemporaryDirectory() as name, served.prepared(Path(name)) as (target, pid):
        lines = requests(target, scale)
        lines += transfers(target, Path(name), scale)
        return [*lines, *memory(target, pid, Path(name), scale)]


# ---- requests ------------------------------------------------------------------------------------


def requests(target: Target, scale: Scale) -> list[Line]:
    """Requests per second of each operation, of the verb of the API, and the share."""
    served.checked(run(target, 1, [iter([_put(target, "small")])]))
    listing = "list-type=2&max-keys=100&prefix=main%2Ftables%2F"
    api_list = {"prefix": "tables/", "amount": "100"}
    api_get = {"path": "small"}
    pairs: dict[str, tuple[Callable[[], bytes], Callable[[], bytes]]] = {
        "HEAD": (
            partial(s3.signed, target, "HEAD", f"{ROOT}/small"),
            partial(target.request, "GET", f"{served.WHERE}/refs/main/objects/stat", api_get),
        ),
        "GET": (
            partial(s3.signed, target, "GET", f"{ROOT}/small"),
            partial(target.request, "GET", f"{served.WHERE}/refs/main/objects", api_get),
        ),
        "LIST 100": (
            partial(s3.signed, target, "GET", f"/{served.REPO}", listing),
            partial(target.request, "GET", f"{served.WHERE}/refs/main/objects/ls", api_list),
        ),
    }
    lines = []
    for name, makers in pairs.items():
        # A request is made again for each round: a signature is valid for minutes only.
        rates = [
            [_rate(target, partial(repeated, make(), scale.seconds)) for make in makers]
            for _ in range(scale.rounds)
        ]
        lines += _pair(name, rates)
    counter = itertools.count()
    uploads = (partial(_put, target), partial(served.upload, target, "main"))
    rates = [
        [_rate(target, partial(_fresh, make, counter, scale.seconds)) for make in uploads]
        for _ in range(scale.rounds)
    ]
    return [*lines, *_pair("PUT", rates)]


def _put(target: Target, path: str) -> bytes:
    return s3.signed(target, "PUT", f"{ROOT}/{path}", body=b"x" * 64)


def _fresh(
    make: Callable[[str], bytes], counter: "itertools.count[int]", seconds: float
) -> Iterator[bytes]:
    """Uploads of new paths, which are made (and signed) before the first is sent."""
    count = int(4_000 * seconds / CONNECTIONS) + 1
    return _until([make(f"fresh/{next(counter)}") for _ in range(count)], seconds)


def _until(made: list[bytes], seconds: float) -> Iterator[bytes]:
    end = time.perf_counter() + seconds  # from the first one on
    for request in made:
        if time.perf_counter() >= end:
            return
        yield request


def _rate(target: Target, make: Callable[[], Iterator[bytes]]) -> float:
    return served.checked(run(target, CONNECTIONS, [make() for _ in range(CONNECTIONS)])).rate


def _pair(name: str, rates: list[list[float]]) -> list[Line]:
    ours, theirs = zip(*rates, strict=True)
    return [
        single.line(f"{name}, {CONNECTIONS} connections", statistics.median(ours), "requests/s"),
        single.line(f"{name}: the same verb of the API", statistics.median(theirs), "requests/s"),
        single.share(f"{name} as a share of the API's", rates, REQUEST_GOALS[name]),
    ]


# ---- transfers -----------------------------------------------------------------------------------


def transfers(target: Target, folder: Path, scale: Scale) -> list[Line]:
    """MB/s of one large object.  Each round measures every line once, so a slow moment of the
    machine meets all of them."""
    file = folder / "large"
    _fill(file, scale.size)
    head = partial(s3.signed, target, length=scale.size)
    api = f"{served.WHERE}/branches/main/objects"
    ways: dict[str, Callable[[], float]] = {
        "PUT": lambda: s3.send(target, head("PUT", f"{ROOT}/large", payload=s3.UNSIGNED), file),
        "PUT by the API": lambda: s3.send(target, api_head(target, "POST", api, scale.size), file),
        "GET": lambda: s3.receive(target, head("GET", f"{ROOT}/large"))[0],
        "GET by the API": lambda: s3.receive(
            target, api_head(target, "GET", f"{served.WHERE}/refs/main/objects")
        )[0],
        "MD5, one core": partial(_hashed, file),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(scale.transfers):
        for name, measured in ways.items():
            seconds[name].append(measured())
    file.unlink()
    return _transfer_lines(scale.size, seconds)


def _transfer_lines(size: int, seconds: dict[str, list[float]]) -> list[Line]:
    mb_per_s = {name: [size / 1e6 / each for each in took] for name, took in seconds.items()}
    size_text = f"{size // MIB:,} MiB"
    least = {"PUT": PUT_GOAL_MB, "GET": GET_GOAL_MB}
    lines = [
        single.line(
            f"{name}: {size_text}", statistics.median(speeds), "MB/s", least=least.get(name)
        )
        for name, speeds in mb_per_s.items()
    ]
    shares = (
        ("PUT", "MD5, one core", MD5_GOAL),
        ("PUT", "PUT by the API", None),
        ("GET", "GET by the API", None),
    )
    for name, other, goal in shares:
        pairs = list(zip(mb_per_s[name], mb_per_s[other], strict=True))
        lines.append(single.share(f"{name} as a share of `{other}`", pairs, goal))
    return lines


def _fill(file: Path, size: int) -> None:
    """Bytes that do not repeat within a block of the file system."""
    piece = os.urandom(_PIECE)
    with file.open("wb") as out:
        for _ in range(size // _PIECE):
            out.write(piece)
        os.fsync(out.fileno())


def _hashed(file: Path) -> float:
    began, digest = time.perf_counter(), hashlib.md5(usedforsecurity=False)
    with file.open("rb") as source:
        while piece := source.read(_PIECE):
            digest.update(piece)
    return time.perf_counter() - began


def api_head(target: Target, method: str, where: str, length: int = 0) -> bytes:
    """The head of a request of the API; its body follows."""
    head = target.request(method, where, {"path": "large"})
    if not length:
        return head
    cut = head.index(b"Content-Type")  # of no body
    kind = b"Content-Type: application/octet-stream\r\n"
    return head[:cut] + kind + b"Content-Length: %d\r\n\r\n" % length


# ---- memory --------------------------------------------------------------------------------------


def memory(target: Target, pid: int, folder: Path, scale: Scale) -> list[Line]:
    """Peak memory that 8 PUTs and 8 GETs at once add."""
    file = folder / "parallel"
    _fill(file, scale.parallel)
    length = scale.parallel
    head = s3.signed(target, "PUT", f"{ROOT}/parallel", length=length, payload=s3.UNSIGNED)
    s3.send(target, head, file)
    s3.receive(target, s3.signed(target, "GET", f"{ROOT}/parallel"))
    time.sleep(_SETTLE_SECONDS)
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak begins anew
    before = served.memory_mb(pid)
    began = time.perf_counter()
    _together(
        [partial(_sent, target, file, length, number) for number in range(PARALLEL)]
        + [partial(_received, target, length)] * PARALLEL
    )
    took = time.perf_counter() - began
    peak = served.memory_mb(pid, "VmHWM")
    file.unlink()
    what = f"{PARALLEL} PUTs and {PARALLEL} GETs of {length // MIB:,} MiB at once"
    return [
        single.line(f"{what}: memory before", before, "MB"),
        single.line(f"{what}: peak memory", peak, "MB"),
        single.line(f"{what}: added", peak - before, "MB", most=MEMORY_GOAL_MB),
        single.line(f"{what}: all transfers", 2 * PARALLEL * length / 1e6 / took, "MB/s"),
    ]


def _sent(target: Target, file: Path, length: int, number: int) -> None:
    path = f"{ROOT}/parallel/{number}"
    s3.send(target, s3.signed(target, "PUT", path, length=length, payload=s3.UNSIGNED), file)


def _received(target: Target, length: int) -> None:
    _, got = s3.receive(target, s3.signed(target, "GET", f"{ROOT}/parallel"))
    if got != length:
        raise RuntimeError(f"the object has {got} bytes, not {length}")


def _together(calls: Sequence[Callable[[], None]]) -> None:
    failed: list[Exception] = []

    def guarded(call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


if __name__ == "__main__":
    single.print_lines("gateway", __doc__, measure, QUICK, FULL)
