"""A mixed load on one served store, sampled from outside: memory, files, disk, latency.

The load works on a fixed set of paths at a limited rate for as long as it runs, so everything that
grows with the number of requests becomes visible (growth.py).  The disk grows because history is
kept.  So the disk is judged by the bytes for each change, and in a separate load by what remains
after a garbage collection.  For tests only.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median

from simulator.service.http_client import Client, HttpAnswer
from simulator.service.process import LiveService, command, serving
from simulator.soak import heap_room
from simulator.soak.fixed_work import FixedWork
from simulator.soak.growth import Sample, judged
from simulator.soak.stored_bytes import StoredBytes

CLIENTS = 4
PATHS = 400
# So short that the process gets, within 40 minutes, the 130,000 requests after which the free room
# in its heap is level.
_PAUSE_SECONDS = 0.005
_FULL_MIB = 240.0  # the process with small caches that are full
_FREE_MIB = 16.0  # in its heap, between blocks in use
_COLLECTED_MIB = 24.0  # of 400 paths with 200 bytes each, their tables and rows
# Small caches, which are full within minutes: later growth is not a cache.
_SMALL_CACHES = (
    "from functools import lru_cache; from graveler import wire; "
    "wire.recent_entry = lru_cache(maxsize=500)(wire.decode_entry); "
    "from graveler.http.answers import RenderedLines; "
    "RenderedLines.__init__.__defaults__ = (200_000,); "
    "from graveler.committed.sstable import SstRangeStore; "
    "SstRangeStore.__init__.__defaults__ = (2 << 20, 2 << 20, 0); "
    "from graveler.assembly import embedded; embedded.RECORD_CACHE_BYTES = 1 << 20; "
    "from graveler.refs import cache; "
    "cache.RefCache.__init__.__defaults__ = (500, 1 << 20); cache._SHORT_LIVED_COUNT = 200; "
    "from functools import partial; "
    "embedded.RocksSettings = partial(embedded.RocksSettings, write_buffer_bytes=1 << 20, "
    "write_buffer_count=2, block_cache_bytes=1 << 20, open_files_max=24); "
)
_SLICE_SECONDS = 0.5
_SAMPLES_FOR_A_LOOK = 3  # at the disk: it takes longer the more is stored
_DAYS_LATER = (
    "import time; real = time.time_ns; time.time_ns = lambda: real() + %d * 86_400 * 10**9; "
)
_REPOSITORY = "/repositories/steady"
_MAIN = f"{_REPOSITORY}/branches/main"


OnSample = Callable[[Sample], None]


@dataclass(slots=True)
class SteadyLoad:
    """The load, its samples, and the violations."""

    folder: Path
    seed: int
    interval_seconds: float = 10.0
    samples: list[Sample] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    requests: int = 0
    changes: int = 0
    collected_mib: float = 0.0
    _latencies: list[float] = field(default_factory=list)

    @property
    def _heap_room(self) -> Path:
        return self.folder / "heap-room"

    def run(self, ended: Callable[[], bool], on_sample: OnSample = lambda _: None) -> None:
        """Run until `ended` returns true; judge the samples if the run was long enough."""
        prelude = _SMALL_CACHES + heap_room.prelude(self._heap_room)
        with serving(self.folder / "store", self.folder / "log", prelude) as service:
            with service.client() as client:
                given = {"name": "steady", "storage_namespace": "local://steady/"}
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
        self.wrong += judged(self.samples)
        if self.samples and self.samples[-1].memory_mib > _FULL_MIB:
            self.wrong.append(f"memory is more than its caches: {self.samples[-1]}")
        free = max((each.free_mib for each in self.samples), default=0.0)
        if free > _FREE_MIB:
            self.wrong.append(f"free room in the heap is more than {_FREE_MIB:g} MiB: {free:.1f}")

    def collect(self) -> None:
        """Collect garbage after a load, and check that the remaining disk is bounded by what is in
        use."""
        failed = _collected(self.folder)
        self.collected_mib = StoredBytes(self.folder / "store").now() / 2**20
        if failed:
            self.wrong.append(failed)
        elif self.collected_mib > _COLLECTED_MIB:
            self.wrong.append(f"disk after collection: {self.collected_mib:.1f} MiB")

    def _sample(self, service: LiveService, ended: Callable[[], bool], on_sample: OnSample) -> None:
        begun = time.monotonic()
        work, stored = FixedWork(self.folder), StoredBytes(self.folder / "store")
        disk, changes = 0, 0
        while not ended():
            fixed = self._passed(work, ended)
            taken, self._latencies = sorted(self._latencies), []
            if ended():
                break
            if not taken:
                self.wrong.append("no request was answered for a whole interval")
                break
            memory = service.memory()
            if len(self.samples) % _SAMPLES_FOR_A_LOOK == 0:
                disk, changes = stored.now(), self.changes
            sample = Sample(
                time.monotonic() - begun,
                memory.resident / 2**20,
                memory.of_files / 2**20,
                heap_room.told(self._heap_room) / 2**20,
                service.open_files(),
                disk / 2**20,
                changes,
                len(taken),
                1000 * taken[len(taken) // 2],
                1000 * taken[len(taken) * 99 // 100],
                fixed,
            )
            self.samples.append(sample)
            on_sample(sample)
        work.close()

    def _passed(self, work: FixedWork, ended: Callable[[], bool]) -> float:
        """Wait for one interval; return the median time of the fixed work in it."""
        until = time.monotonic() + self.interval_seconds
        taken = [work.milliseconds()]
        while time.monotonic() < until and not ended():
            time.sleep(_SLICE_SECONDS)
            taken.append(work.milliseconds())
        return median(taken)

    # ---- load ----

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
        if verb in (_write, _delete, _commit, _merge) and answer.status < 300:
            self.changes += 1

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


# ---- disk ----


def _collected(folder: Path) -> str:
    """Collect garbage with clocks some days later; return the error, "" if there is none."""
    store = str(folder / "store")
    rule = ("retention", "--store", store, "--repository", "steady", "--days", "1", "--yes")
    said = command(*rule, "--unreachable-days", "1")
    for days in (10, 12, 14):
        said = said or command(
            "gc", "--store", store, "--delete", "--yes", prelude=_DAYS_LATER % days
        )
    return f"collection failed: {said}" if said else ""
