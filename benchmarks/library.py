"""The Python library, beside what does the same with less: on one local server.

    small    `read_bytes` of 64 bytes, beside a bare loop of http.client
    list     all entries of a branch
    table    `dataset(…).to_table()` of a server and of a store in this process, beside pyarrow on
             the same files in a folder: random numbers, which take the least to decode, and orders
             as users have them, of the same size in memory.  Beside a server: its bytes by HTTP
             alone, and by sendfile and recv_into, without any server of ours
    upload   `upload` of small files, beside a load generator with the same bodies

A share is the median of the shares of the rounds.  Run: python -m benchmarks.library
"""

import http.client
import itertools
import multiprocessing
import os
import shutil
import socket
import statistics
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy
import pyarrow
import pyarrow.dataset
import pyarrow.parquet

import graveler
from benchmarks import served, single, transfers
from benchmarks.load import Target, run
from graveler import Branch

READ_GOAL, TABLE_GOAL, UPLOAD_GOAL, LIST_GOAL_SECONDS = 0.7, 0.9, 0.8, 2.0
_FILES: Final = 16
_COLUMNS: Final = 8
_ORDER_BYTES: Final = 90  # in memory
_READERS: Final = 4
_PIECE_BYTES: Final = 8 << 20
Line = dict[str, Any]


@dataclass(frozen=True)
class Scale:
    """The seconds of a loop of reads, the entries of the list, the bytes of the table, the rounds,
    and what the upload sends."""

    seconds: float = 3.0
    entries: int = 100_000
    table: int = 1 << 30
    rounds: int = 5
    upload: transfers.Scale = transfers.FULL


FULL: Final = Scale()
QUICK: Final = Scale(0.5, 10_000, 64 << 20, 3, transfers.QUICK)


def measure(scale: Scale = FULL) -> list[Line]:
    """Measure all lines."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "served").mkdir()
        with served.serving(folder / "served") as (target, _):
            served.prepare(target)
            lake = graveler.connect(
                f"http://{target.host}:{target.port}", target.key, target.secret
            )
            main = lake.repository(served.REPO).branch("main")
            lines = [
                *small(target, main, scale),
                *listed(main, folder / "served" / "import", scale),
                *(line for of in DRAWN for line in table(main, folder, scale, "a server", of)),
                *upload(target, main, folder, scale),
            ]
        with graveler.open(folder / "embedded") as store:
            main = store.create_repository(served.REPO).branch("main")
            for of in DRAWN:
                lines += table(main, folder, scale, "a store in this process", of)
            return lines


def small(target: Target, main: Branch, scale: Scale) -> list[Line]:
    """Reads per second of the library, of a bare loop, and the share."""
    path = served.path_of(0)
    connection = http.client.HTTPConnection(target.host, target.port)
    pair = b64encode(f"{target.key}:{target.secret}".encode()).decode()
    where = f"/api/v1{served.WHERE}/refs/main/objects?path={path}"

    def bare() -> None:
        connection.request("GET", where, headers={"Authorization": f"Basic {pair}"})
        with connection.getresponse() as answer:
            answer.read()

    pairs = [
        (_rate(lambda: main.read_bytes(path), scale.seconds), _rate(bare, scale.seconds))
        for _ in range(scale.rounds)
    ]
    connection.close()
    ours, others = zip(*pairs, strict=True)
    return [
        transfers.line("`read_bytes` of 64 bytes", statistics.median(ours), "requests/s"),
        transfers.line("a bare loop of `http.client`", statistics.median(others), "requests/s"),
        transfers.share("`read_bytes` as a share of it", pairs, READ_GOAL),
    ]


def _rate(call: Callable[[], object], seconds: float) -> float:
    count, began, taken = 0, time.perf_counter(), 0.0
    while taken < seconds:
        call()
        count, taken = count + 1, time.perf_counter() - began
    return count / taken


def listed(main: Branch, imports: Path, scale: Scale) -> list[Line]:
    """The seconds of a list of all entries."""
    for number in range(scale.entries):
        place = imports / f"{number // 1_000:03}"
        if number % 1_000 == 0:
            place.mkdir()
        (place / f"{number:06}").touch()
    main.import_objects(f"local://{imports}/", "many/").wait()
    seconds = [_seconds(lambda: sum(1 for _ in main.list("many/"))) for _ in range(scale.rounds)]
    middle = statistics.median(seconds)
    line = transfers.line(f"`list` of {scale.entries:,} entries", middle, "s")
    return [line | {"goal": f"≤ {LIST_GOAL_SECONDS:g}", "held": middle <= LIST_GOAL_SECONDS}]


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _numbers(drawn: numpy.random.Generator, size: int, _: int) -> Any:
    """Random numbers: no two are equal, so they are stored as they are."""
    rows = size // (8 * _COLUMNS)
    return pyarrow.table({f"c{column}": drawn.random(rows) for column in range(_COLUMNS)})


def _orders(drawn: numpy.random.Generator, size: int, part: int) -> Any:
    """Ids, times, categories, texts and amounts."""
    rows = size // _ORDER_BYTES
    kinds = numpy.array(["retail", "wholesale", "online", "partner", "export"])
    first = numpy.datetime64("2026-01-01", "ms")
    orders = drawn.integers(0, 10**9, rows)
    seconds = numpy.sort(drawn.integers(0, 86_400_000 * 30, rows)).astype("timedelta64[ms]")
    return pyarrow.table(
        {
            "id": numpy.arange(part * rows, (part + 1) * rows),
            "customer": drawn.integers(0, 200_000, rows),
            "time": first + seconds,
            "kind": kinds[drawn.integers(0, len(kinds), rows)],
            "city": [f"city-{number % 3_000}" for number in drawn.zipf(1.5, rows)],
            "note": [f"order {number:09d} of customer" for number in orders],
            "amount": numpy.round(drawn.gamma(2, 50, rows), 2),
            "paid": drawn.random(rows) < 0.9,
        }
    )


DRAWN: Final[dict[str, Callable[[numpy.random.Generator, int, int], Any]]] = {
    "numbers": _numbers,
    "orders": _orders,
}


def table(main: Branch, folder: Path, scale: Scale, where: str, of: str) -> list[Line]:
    """MB/s of the files of a table in memory, of the lake and of the folder; of bytes that nobody
    decodes, from the lake, and if that is a server, from the folder through a socket."""
    source = folder / of
    source.mkdir()
    drawn = numpy.random.default_rng(1)
    memory = 0
    for number in range(_FILES):
        part = DRAWN[of](drawn, scale.table // _FILES, number)
        memory += part.nbytes
        pyarrow.parquet.write_table(part, source / f"{number:02}.parquet")
    main.upload(source, f"{of}/", progress=False)
    main.commit(f"a table of {of}")
    size = sum(file.stat().st_size for file in source.iterdir()) / 1e6
    pairs, bare, sockets = [], [], []
    sides: list[Callable[[], object]] = [
        lambda: main.dataset(f"{of}/").to_table(),
        lambda: _local(source),
    ]
    for side in sides:  # what was just written is not in the cache of the disk
        side()
    for turn in range(scale.rounds):  # by turns: the second one finds memory that the first made
        order = [0, 1] if turn % 2 == 0 else [1, 0]
        seconds = {at: _seconds(sides[at]) for at in order}
        pairs.append((size / seconds[0], size / seconds[1]))
        bare.append(size / _seconds(lambda: _dropped(main, of)))
        sockets.append(size / _through_sockets(sorted(source.iterdir())))
    shutil.rmtree(source)
    rates, others = zip(*pairs, strict=True)
    name = f"`dataset().to_table()` of {where}, {of}"
    lines = [
        transfers.line(
            f"{name}: {size:,.0f} MB, {memory / 1e6:,.0f} in memory",
            statistics.median(rates),
            "MB/s",
        ),
        transfers.line(f"pyarrow on the files, {of}", statistics.median(others), "MB/s"),
        transfers.share(f"{name}, as a share of it", pairs, TABLE_GOAL),
        transfers.line(f"the bytes of {where}, {of}, not decoded", statistics.median(bare), "MB/s"),
    ]
    if where != "a server":
        return lines
    alone = f"the same bytes by sendfile and recv_into alone, {of}"
    return [*lines, transfers.line(alone, statistics.median(sockets), "MB/s")]


def _local(source: Path) -> object:
    return pyarrow.dataset.dataset(source).to_table()


def _dropped(main: Branch, of: str) -> None:
    """Read all bytes of the table, into the same memory again and again."""

    def read(path: str) -> None:
        memory = bytearray(_PIECE_BYTES)
        with main.open(path, "rb") as file:
            while file.readinto(memory):  # type: ignore[attr-defined]
                pass

    with ThreadPoolExecutor(_READERS) as pool:
        list(pool.map(read, [entry.path for entry in main.list(f"{of}/")]))


def _through_sockets(files: list[Path]) -> float:
    """The seconds of all bytes of files from another process, as the least code does it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = multiprocessing.get_context("spawn").Process(
            target=_send_files, args=(listener, files), daemon=True
        )
        sender.start()
        near = [socket.create_connection(listener.getsockname()) for _ in range(_READERS)]
        for connection in near:  # it serves them from here on
            connection.recv(1)

        def drain(connection: socket.socket) -> None:
            memory = bytearray(_PIECE_BYTES)
            with connection:
                connection.sendall(b".")
                while connection.recv_into(memory):
                    pass

        with ThreadPoolExecutor(_READERS) as pool:
            taken = _seconds(lambda: list(pool.map(drain, near)))
        sender.join()
    return taken


def _send_files(listener: socket.socket, files: list[Path]) -> None:
    """Send each connection its share of the files, when it asks."""
    near = [listener.accept()[0] for _ in range(_READERS)]

    def send(number: int) -> None:
        with near[number] as connection:
            connection.recv(1)
            for file in files[number::_READERS]:
                with file.open("rb") as source, suppress(OSError):
                    at, end = 0, file.stat().st_size
                    while at < end:
                        at += os.sendfile(connection.fileno(), source.fileno(), at, end - at)

    for connection in near:
        connection.sendall(b".")
    with ThreadPoolExecutor(_READERS) as pool:
        list(pool.map(send, range(_READERS)))


def upload(target: Target, main: Branch, folder: Path, scale: Scale) -> list[Line]:
    """Files per second of the library, of the service, and the share."""
    what, source, counter = scale.upload, folder / "small", itertools.count()
    bodies = transfers.filled(source, what)
    pairs = []
    for turn in range(what.rounds):
        taken = _seconds(lambda: main.upload(source, f"library-{turn}/", progress=False))  # noqa: B023
        loads = [transfers.uploads(target, counter, each, what.seconds) for each in bodies]
        load = served.checked(run(target, len(loads), loads))
        pairs.append((what.files / taken, load.rate))
    ours, service = zip(*pairs, strict=True)
    name = f"`upload` of {what.files:,} files of {what.bytes >> 10} KiB"
    return [
        transfers.line(name, statistics.median(ours), "files/s"),
        transfers.line(
            f"the service, {len(bodies)} connections", statistics.median(service), "files/s"
        ),
        transfers.share("`upload` as a share of the service's rate", pairs, UPLOAD_GOAL),
    ]


if __name__ == "__main__":
    single.print_lines("library", __doc__, measure, QUICK, FULL)
