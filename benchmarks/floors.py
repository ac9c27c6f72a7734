"""What the machine allows: small programs that do one thing each, without Graveler.

The lines of the other tables are made of such things.  `docs/explanation/performance.md` says of
which, and how far each line is from its parts.  Each time is the median of several rounds.
Run: python -m benchmarks.floors
"""

import argparse
import asyncio
import hashlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import cramjam
import google_crc32c
import httptools
import uvloop
from rocksdict import Options, Rdict, WriteOptions

from benchmarks.load import Target, repeated, run
from benchmarks.served import Line, line

HEADING: Final = "What the machine allows"
ABOUT = (
    "`make bench` writes this section; `make bench ARGS='--only floors'` measures only it.\n"
    "Small programs without Graveler; times are medians.\n"
    "docs/explanation/performance.md says which lines are made of them."
)
QUICK, FULL = 0.5, 3.0  # seconds
_ROUNDS: Final = 5
_BLOCK: Final = 64 << 10
_ANSWER: Final = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
_REQUEST: Final = b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic eDp5\r\n\r\n"


def measure(seconds: float = 1.0) -> list[Line]:
    """Measure all lines.  `seconds`: of each load of the smallest server."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = [*_hashes(), *_files(folder), *_turns()]
        lines += [*_database(folder), *_smallest_server(seconds)]
    return lines


def _line(name: str, value: float, unit: str) -> Line:
    return line(name, value, unit, reason="of the machine")


def _each_us(work: Callable[[], object], times: int) -> float:
    """Microseconds of one call: the median of rounds of `times` calls."""
    taken = []
    for _ in range(_ROUNDS):
        begin = time.perf_counter()
        for _ in range(times):
            work()
        taken.append((time.perf_counter() - begin) / times)
    return statistics.median(taken) * 1e6


# ---- computing -----------------------------------------------------------------------------------


def _hashes() -> list[Line]:
    small, large = b"x" * 64, os.urandom(1 << 20)
    text = (b"data/gqssm3rnkg5iv0eakp3g/%012d tables/events/date=2025-003" * 2_000)[:_BLOCK]
    packed = bytes(cramjam.snappy.compress_raw(text))
    mib = 1e6 / (1 << 20)
    return [
        _line(
            "SHA-256 of 64 bytes", _each_us(lambda: hashlib.sha256(small).digest(), 100_000), "µs"
        ),
        _line("SHA-256", 1 / mib / _each_us(lambda: hashlib.sha256(large), 10) * 1e6, "MB/s"),
        _line("CRC-32C", 1 / mib / _each_us(lambda: google_crc32c.value(large), 20) * 1e6, "MB/s"),
        _line(
            "Snappy: pack 64 KiB", _each_us(lambda: cramjam.snappy.compress_raw(text), 500), "µs"
        ),
        _line(
            "Snappy: unpack 64 KiB",
            _each_us(lambda: cramjam.snappy.decompress_raw(packed), 500),
            "µs",
        ),
        _line("HTTP: parse a request", _each_us(_parsed, 20_000), "µs"),
    ]


class _Nothing:
    """Takes what the parser finds, and keeps nothing."""

    def on_url(self, url: bytes) -> None:
        """The path."""

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""


def _parsed() -> None:
    httptools.HttpRequestParser(_Nothing()).feed_data(_REQUEST)


# ---- files ---------------------------------------------------------------------------------------


def _files(folder: Path) -> list[Line]:
    names = folder / "names"
    names.mkdir()
    for number in range(1_000):
        (names / f"{number:06d}").touch()
    one = str(names / "000500")
    counter = iter(range(1 << 30))
    at = os.open(folder, os.O_RDONLY)
    descriptor = os.open(one, os.O_RDWR)

    def overwritten() -> None:
        os.pwrite(descriptor, b"x" * 4096, 0)
        os.fsync(descriptor)

    def placed() -> None:
        name = folder / f"new-{next(counter)}"
        with name.open("wb") as file:
            file.write(b"x" * 64)
            file.flush()
            os.fsync(file.fileno())
        name.rename(folder / f"placed-{next(counter)}")
        os.fsync(at)

    def read() -> None:
        file = os.open(one, os.O_RDONLY)
        os.fstat(file)
        os.pread(file, 4096, 0)
        os.close(file)

    lines = [
        _line("a name and the stat of its file, in a folder of 1,000", _named_us(names), "µs"),
        _line("open, stat, read and close a small file", _each_us(read, 2_000), "µs"),
        _line(
            "read 4 KiB of an open file",
            _each_us(partial(os.pread, descriptor, 4096, 0), 5_000),
            "µs",
        ),
        _line("write 4 KiB and sync", _each_us(overwritten, 40), "µs"),
        _line("a new file: write, sync, rename, sync its folder", _each_us(placed, 40), "µs"),
    ]
    os.close(descriptor)
    os.close(at)
    return lines


def _named_us(names: Path) -> float:
    def listed() -> None:
        for entry in sorted(os.scandir(names), key=lambda entry: entry.name):
            entry.stat()

    return _each_us(listed, 5) / 1_000


# ---- threads and the loop ------------------------------------------------------------------------


def _turns() -> list[Line]:
    with ThreadPoolExecutor(1) as pool:
        hop = _each_us(lambda: pool.submit(int).result(), 2_000)

        async def hops() -> float:
            loop = asyncio.get_running_loop()
            begin = time.perf_counter()
            for _ in range(2_000):
                await loop.run_in_executor(pool, int)
            return (time.perf_counter() - begin) / 2_000 * 1e6

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            loop_hop = statistics.median(runner.run(hops()) for _ in range(_ROUNDS))
    return [
        _line("to another thread and back", hop, "µs"),
        _line("from the event loop to a thread and back", loop_hop, "µs"),
    ]


# ---- the embedded database -----------------------------------------------------------------------


def _database(folder: Path) -> list[Line]:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    database = Rdict(str(folder / "database"), options)
    counter = iter(range(1 << 30))
    synced = WriteOptions()
    synced.sync = True
    for number in range(100_000):
        database[b"%08d" % number] = b"v" * 200

    def put() -> None:
        database.put(b"%08d" % next(counter), b"v" * 200, write_opt=synced)

    lines = [
        _line("RocksDB: get", _each_us(lambda: database.get(b"%08d" % 4_711), 20_000), "µs"),
        _line("RocksDB: put and sync", _each_us(put, 40), "µs"),
    ]
    database.close()
    return lines


# ---- the smallest server -------------------------------------------------------------------------


class _Smallest(asyncio.Protocol):
    """Parses each request, and answers the same."""

    def connection_made(self, transport: Any) -> None:
        """Keep where to write."""
        self._transport = transport
        self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        """Parse; `on_message_complete` answers."""
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        """Answer."""
        self._transport.write(_ANSWER)


def _serve() -> None:
    async def serve() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(_Smallest, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())


@contextmanager
def _answering() -> Iterator[Target]:
    command = [sys.executable, "-m", "benchmarks.floors", "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield Target("127.0.0.1", int(server.stdout.readline()), "x", "y")
        finally:
            server.kill()


def _smallest_server(seconds: float) -> list[Line]:
    lines = []
    with _answering() as target:
        for connections in (8, 64):
            load = run(target, connections, [repeated(_REQUEST, seconds)] * connections)
            name = f"the smallest server, {connections} connections"
            found = _line(name, load.rate, "requests/s")
            lines.append({**found, "client": round(load.client, 2)})
    pair = socket.socketpair()

    def echoed() -> None:
        pair[0].send(b"x")
        pair[1].recv(1)

    lines.append(_line("a byte through a socket", _each_us(echoed, 5_000), "µs"))
    for each in pair:
        each.close()
    return lines


# ---- its section of the document -----------------------------------------------------------------


def main() -> None:
    """Measure, and print a JSON object a line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.floors",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--serve", action="store_true", help="be the smallest server instead")
    if parser.parse_args().serve:
        _serve()
        return
    for found in measure():
        print(json.dumps(found))


if __name__ == "__main__":
    main()
