"""A mixed load on one served store, sampled from outside: memory, open files, latency, disk.

The load works on a fixed set of paths, so what grows with the number of requests shows.
"""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from typing import Final, NamedTuple

from simulator.service.process import Client, HttpAnswer, LiveService, command, serving

CLIENTS, PATHS = 4, 400
LEAST_SECONDS: Final = 1_800.0  # a shorter run is not judged
_PAUSE_SECONDS = 0.005
_MEMORY_MIB_MAX = 240.0  # of the process with small caches that are full
_COLLECTED_MIB_MAX = 24.0  # of 400 paths with 200 bytes each, their tables and rows
_CHANGE_KIB_MAX = 48.0  # of disk for each change; history is kept
# Small caches, which are full within minutes: later growth is not a cache.
_SMALL_CACHES = (
    "from functools import partial; "
    "from graveler.assembly import embedded; embedded.RECORD_CACHE_BYTES = 1 << 20; "
    "from graveler.committed.sstable import SstRangeStore; "
    "SstRangeStore.__init__.__defaults__ = (2 << 20, 2 << 20, 0); "
    "from graveler.refs.cache import RefCache; RefCache.__init__.__defaults__ = (500, 1 << 20); "
    "embedded.RocksSettings = partial(embedded.RocksSettings, write_buffer_bytes=1 << 20, "
    "write_buffer_count=2, block_cache_bytes=1 << 20, open_files_max=24); "
)
_DAYS_LATER = (
    "import time; real = time.time_ns; time.time_ns = lambda: real() + %d * 86_400 * 10**9; "
)
_REPOSITORY = "/repositories/load"
_MAIN = f"{_REPOSITORY}/branches/main"


class Sample(NamedTuple):
    """The measurements of one interval; latencies are those of all its requests."""

    seconds: float
    memory_mib: float  # resident, without pages of files
    open_files: int
    requests: int
    median_ms: float
    high_ms: float  # the 99th percentile


class Allowed(NamedTuple):
    """How much higher a quantity may be in the last third of a run than in the third `since`."""

    since: int
    more: float
    share: float = 0.0


# Caches fill in the first third.  A machine that becomes busier slows every request.
ALLOWED: Final = {
    "memory_mib": Allowed(1, 6.0),
    "open_files": Allowed(1, 12.0),
    "median_ms": Allowed(0, 2.0, 1.0),
    "high_ms": Allowed(0, 40.0, 1.0),
}


def growth(samples: list[Sample]) -> list[str]:
    """The quantities that grew; none of a run that is too short."""
    third = len(samples) // 3
    if not third or samples[-1].seconds < LEAST_SECONDS:
        return []
    found = []
    for name, (since, more, share) in ALLOWED.items():
        parts = samples[since * third : (since + 1) * third], samples[2 * third :]
        before, after = (median(getattr(each, name) for each in part) for part in parts)
        if after > before * (1 + share) + more:
            found.append(
                f"{name} grows: {before:.1f} in third {since + 1}, {after:.1f} in the last"
            )
    return found


def stored_mib(folder: Path) -> float:
    """The size of all files below a folder."""
    total = 0
    for at, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(at, name)).st_size
            except FileNotFoundError:
                continue
    return total / 2**20


@dataclass(slots=True)
class Load:
    """The load, its samples, and the violations."""

    folder: Path
    seed: int
    interval_seconds: float = 10.0
    samples: list[Sample] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    requests: int = 0
    changes: int = 0
    disk_mib: float = 0.0
    _latencies: list[float] = field(default_factory=list)

    def run(
        self, ended: Callable[[], bool], on_sample: Callable[[Sample], None] = lambda _: None
    ) -> None:
        """Run until `ended` returns true; then judge what was measured."""
        with serving(self.folder / "store", self.folder / "log", _SMALL_CACHES) as service:
            with service.client() as client:
                given = {"name": "load", "storage_namespace": "local://load/"}
                self._expect(client.send("POST", "/repositories", body=given), 201)
            stop = threading.Event()
            threads = [
                threading.Thread(target=self._work, args=(service, number, stop))
                for number in range(CLIENTS)
            ]
            for thread in threads:
                thread.start()
            self._sample(service, ended, on_sample)
            stop.set()
            for thread in threads:
                thread.join()
            if service.end() != 0:
                self.wrong.append("the service did not stop gracefully")
        self._judge()

    def _judge(self) -> None:
        self.wrong += growth(self.samples)
        if self.samples and self.samples[-1].memory_mib > _MEMORY_MIB_MAX:
            self.wrong.append(f"memory is more than its caches: {self.samples[-1]}")
        self.disk_mib = stored_mib(self.folder / "store")
        kib = 1024 * self.disk_mib / max(1, self.changes)
        if self.changes > 1_000 and kib > _CHANGE_KIB_MAX:
            self.wrong.append(f"disk for a change: {kib:.1f} KiB")

    def collect(self) -> None:
        """Collect garbage after a load, and check that the remaining disk is bounded by what is in
        use."""
        store = str(self.folder / "store")
        rule = ("retention", "--store", store, "--repository", "load", "--days", "1", "--yes")
        said = command(*rule, "--unreachable-days", "1")
        for days in (10, 12, 14):
            said = said or command(
                "gc", "--store", store, "--delete", "--yes", prelude=_DAYS_LATER % days
            )
        self.disk_mib = stored_mib(self.folder / "store")
        if said:
            self.wrong.append(f"collection failed: {said}")
        elif self.disk_mib > _COLLECTED_MIB_MAX:
            self.wrong.append(f"disk after collection: {self.disk_mib:.1f} MiB")

    def _sample(
        self, service: LiveService, ended: Callable[[], bool], on_sample: Callable[[Sample], None]
    ) -> None:
        begun = time.monotonic()
        while not ended():
            until = time.monotonic() + self.interval_seconds
            while time.monotonic() < until and not ended():
                time.sleep(0.5)
            taken, self._latencies = sorted(self._latencies), []
            if ended():
                return
            if not taken:
                self.wrong.append("no request was answered for a whole interval")
                return
            memory = service.memory()
            sample = Sample(
                time.monotonic() - begun,
                (memory.resident - memory.of_files) / 2**20,
                service.open_files(),
                len(taken),
                1000 * taken[len(taken) // 2],
                1000 * taken[len(taken) * 99 // 100],
            )
            self.samples.append(sample)
            on_sample(sample)

    def _work(self, service: LiveService, number: int, stop: threading.Event) -> None:
        random = Random(f"{self.seed}/{number}")
        verbs = (_write, _write, _write, _read, _read, _list, _commit, _diff, _delete, _merge)
        try:
            with service.client() as client:
                while not stop.wait(_PAUSE_SECONDS):
                    self._one(random.choice(verbs), client, random)
        except Exception as error:
            self.wrong.append(f"client {number}: {type(error).__name__}: {error}")

    def _one(self, verb: "Verb", client: Client, random: Random) -> None:
        begun = time.monotonic()
        answer, allowed = verb(client, random)
        self._latencies.append(time.monotonic() - begun)
        self._expect(answer, *allowed)
        self.requests += 1
        self.changes += verb in (_write, _delete, _commit, _merge) and answer.status < 300

    def _expect(self, answer: HttpAnswer, *allowed: int) -> None:
        if answer.status not in allowed:
            self.wrong.append(f"answered {answer.status}: {answer.body[:300]!r}")


Verb = Callable[[Client, Random], tuple[HttpAnswer, tuple[int, ...]]]


def _path(random: Random) -> dict[str, str]:
    return {"path": f"p/{random.randrange(20):02}/{random.randrange(PATHS // 20):02}"}


def _write(client: Client, random: Random) -> tuple[HttpAnswer, tuple[int, ...]]:
    body = random.randbytes(200)
    return client.send("POST", f"{_MAIN}/objects", _path(random), body), (201,)


def _read(client: Client, random: Random) -> tuple[HttpAnswer, tuple[int, ...]]:
    where = f"{_REPOSITORY}/refs/main/objects"
    return client.send("GET", where, _path(random)), (200, 404)


def _list(client: Client, random: Random) -> tuple[HttpAnswer, tuple[int, ...]]:
    where = f"{_REPOSITORY}/refs/main/objects/ls"
    query = {"prefix": f"p/{random.randrange(20):02}/", "amount": "50"}
    return client.send("GET", where, query), (200,)


def _commit(client: Client, random: Random) -> tuple[HttpAnswer, tuple[int, ...]]:
    return client.send("POST", f"{_MAIN}/commits", body={"message": "m"}), (201, 400)


def _diff(client: Client, random: Random) -> tuple[HttpAnswer, tuple[int, ...]]:
    where = f"{_REPOSITORY}/refs/main~2/diff/main"
    return client.send("GET", where, {"amount": "50"}), (200, 404)


def _delete(client: Client, random: Random) -> tuple[HttpAnswer, tuple[int, ...]]:
    return client.send("DELETE", f"{_MAIN}/objects", _path(random)), (204,)


def _merge(client: Client, random: Random) -> tuple[HttpAnswer, tuple[int, ...]]:
    """A branch, a change and a merge; together they count as one request."""
    name = f"b{random.randrange(1 << 60):x}"
    where = f"{_REPOSITORY}/branches/{name}"
    client.send("POST", f"{_REPOSITORY}/branches", body={"name": name, "source": "main"})
    client.send("POST", f"{where}/objects", _path(random), random.randbytes(100))
    client.send("POST", f"{where}/commits", body={"message": "m"})
    body = {"strategy": "source-wins"}
    answer = client.send("POST", f"{_REPOSITORY}/refs/{name}/merge/main", body=body)
    client.send("DELETE", where)
    return answer, (200, 400)  # the destination may have uncommitted changes
