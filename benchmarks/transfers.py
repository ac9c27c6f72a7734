"""Transfers of the command line, beside the service's own rate and beside curl.

    small    `graveler upload -r` of a folder of small files, beside a load generator that sends
             the same bodies on as many connections as the command has, in alternating rounds
    large    `graveler upload` and `graveler download` of one large file, beside curl

A share is the median of the shares of the rounds.  The time of a command begins with its process.
Without curl on PATH, its lines are left out.  Run: python -m benchmarks.transfers
"""

import itertools
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks import served, single
from benchmarks.commands import Command, ended
from benchmarks.load import Target, run
from benchmarks.single import Line

SMALL_GOAL, LARGE_GOAL = 0.8, 0.9  # of the service's own rate, of curl's
CONNECTIONS: Final = 16  # as many threads as the command uploads with
_KIB, _MIB = 1 << 10, 1 << 20
_FOLDER_FILES: Final = 1_000
line, share = single.line, single.share


@dataclass(frozen=True)
class Scale:
    """The number of small files and their bytes, the bytes of the large one, the rounds, and the
    seconds of the load generator in each.  All rounds together leave about 13 GB in the temporary
    folder until the end."""

    files: int = 10_000
    bytes: int = 10 * _KIB
    large: int = 1024 * _MIB
    rounds: int = 5
    seconds: float = 3.0


FULL, QUICK = Scale(), Scale(files=1_000, large=128 * _MIB, rounds=3, seconds=1.0)


def measure(scale: Scale = FULL) -> list[Line]:
    """Measure all lines."""
    with tempfile.TemporaryDirectory() as name, served.prepared(Path(name)) as (target, _):
        command = Command(target, Path(name))
        return [
            *small(target, command, Path(name), scale),
            *large(target, command, Path(name), scale),
        ]


def small(target: Target, command: Command, folder: Path, scale: Scale) -> list[Line]:
    """Files per second of the command, of the service, and the share."""
    source = folder / "small"
    bodies = filled(source, scale)
    counter = itertools.count()
    pairs = []
    for turn in range(scale.rounds):
        taken = command("upload", "-r", str(source), f"{served.REPO}/main/command-{turn}/")
        loads = [
            uploads(target, counter, bodies[number], scale.seconds) for number in range(CONNECTIONS)
        ]
        load = served.checked(run(target, CONNECTIONS, loads))
        pairs.append((scale.files / taken, load.rate))
    shutil.rmtree(source)
    ours, service = zip(*pairs, strict=True)
    what = f"{scale.files:,} files of {scale.bytes // _KIB} KiB"
    return [
        line(f"`upload -r` of {what}", statistics.median(ours), "files/s"),
        line(f"the service, {CONNECTIONS} connections", statistics.median(service), "files/s"),
        share("`upload -r` as a share of the service's rate", pairs, SMALL_GOAL),
    ]


def filled(source: Path, scale: Scale) -> list[bytes]:
    """Write the small files.  Returns their bodies, one for each connection."""
    bodies = [os.urandom(scale.bytes) for _ in range(CONNECTIONS)]
    for number in range(scale.files):
        place = source / f"{number // _FOLDER_FILES:03}"
        if number % _FOLDER_FILES == 0:
            place.mkdir(parents=True)
        (place / f"{number:06}.bin").write_bytes(bodies[number % len(bodies)])
    return bodies


def uploads(
    target: Target, counter: "itertools.count[int]", body: bytes, seconds: float
) -> Iterator[bytes]:
    """Uploads of new paths."""
    end = time.perf_counter() + seconds
    where = f"{served.WHERE}/branches/main/objects"
    while time.perf_counter() < end:
        yield target.request("POST", where, {"path": f"service/{next(counter)}"}, body)


def large(target: Target, command: Command, folder: Path, scale: Scale) -> list[Line]:
    """MB/s of one large file, both ways."""
    file, copy = folder / "large", folder / "copy"
    with file.open("wb") as out:
        for _ in range(scale.large // _MIB):
            out.write(os.urandom(_MIB))
        os.fsync(out.fileno())
    address = f"{served.REPO}/main/large"
    ways: dict[str, Callable[[], float]] = {
        "upload": partial(command, "upload", str(file), address),
        "download": partial(command, "download", address, str(copy)),
    }
    if shutil.which("curl"):
        ways["upload by curl"] = partial(_curl, target, "POST", "branches/main", "-T", str(file))
        ways["download by curl"] = partial(_curl, target, "GET", "refs/main", "-o", str(copy))
    mb_per_s: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(scale.rounds):
        for name, run_once in ways.items():
            copy.unlink(missing_ok=True)
            mb_per_s[name].append(scale.large / 1e6 / run_once())
    size = f"{scale.large // _MIB:,} MiB"
    lines = [
        line(f"{name}: {size}", statistics.median(speeds), "MB/s")
        for name, speeds in mb_per_s.items()
    ]
    for name in ("upload", "download"):
        if f"{name} by curl" in ways:
            pairs = list(zip(mb_per_s[name], mb_per_s[f"{name} by curl"], strict=True))
            lines.append(share(f"{name} as a share of curl's speed", pairs, LARGE_GOAL))
    return lines


def _curl(target: Target, method: str, ref: str, *words: str) -> float:
    url = f"http://{target.host}:{target.port}/api/v1{served.WHERE}/{ref}/objects?path=large"
    command = ["curl", "-sSf", "-X", method, "-K", "-", *words, url]
    if method == "POST":
        command += ["-H", "Content-Type: application/octet-stream", "-H", "Expect:"]
    return ended(command, dict(os.environ), said=f'user = "{target.key}:{target.secret}"\n')


if __name__ == "__main__":
    single.print_lines("transfers", __doc__, measure, QUICK, FULL)
