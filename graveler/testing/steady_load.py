"""A mixed load on one served store, sampled from outside: memory, files, disk, latency.

The load works on a bounded set of paths at a bounded rate for as long as it is asked, so whatever
grows with the number of requests shows.  Disk grows, for history is kept; so what is judged of it
is how many bytes a change takes.  For tests only.
"""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from typing import NamedTuple

from graveler.testing.http_client import Answered, Client
from graveler.testing.live_service import LiveService, serving

CLIENTS = 4
PATHS = 400
_PAUSE_SECONDS = 0.01
_SAMPLES_MIN = 24
_FULL_MIB = 640.0  # the process with all its caches full; until then they fill, which is no leak
_REPOSITORY = "/repositories/steady"
_MAIN = f"{_REPOSITORY}/branches/main"


class Sample(NamedTuple):
    """What was seen in one interval; latencies of all requests of it."""

    seconds: float
    memory_mib: float
    open_files: int
    disk_mib: float
    changes: int
    requests: int
    median_ms: float
    high_ms: float  # of 100 requests one takes longer


@dataclass(slots=True)
class SteadyLoad:
    """The load, its samples, and what was found wrong."""

    folder: Path
    seed: int
    interval_seconds: float = 10.0
    samples: list[Sample] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    requests: int = 0
    changes: int = 0
    _latencies: list[float] = field(default_factory=list)

    def run(self, ended: Callable[[], bool]) -> None:
        """Until `ended`; judged if it was long enough."""
        with serving(self.folder / "store", self.folder / "log") as service:
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
            self._sample(service, ended)
            stop.set()
            for thread in threads:
                thread.join()
            if service.end() != 0:
                self.wrong.append("the service did not stop gracefully")
        self.wrong += judged(self.samples)

    def _sample(self, service: LiveService, ended: Callable[[], bool]) -> None:
        begun = time.monotonic()
        while not ended():
            time.sleep(self.interval_seconds)
            taken, self._latencies = sorted(self._latencies), []
            if not taken:
                self.wrong.append("no request was answered for a whole interval")
                return
            self.samples.append(
                Sample(
                    time.monotonic() - begun,
                    service.memory_bytes() / 2**20,
                    service.open_files(),
                    bytes_below(self.folder / "store") / 2**20,
                    self.changes,
                    len(taken),
                    1000 * taken[len(taken) // 2],
                    1000 * taken[len(taken) * 99 // 100],
                )
            )

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

    def _expect(self, answer: Answered, *allowed: int) -> None:
        if answer.status not in allowed:
            self.wrong.append(f"answered {answer.status}: {answer.body[:300]!r}")


Verb = Callable[[Client, Random], tuple[Answered, tuple[int, ...]]]


def _path(random: Random) -> dict[str, str]:
    return {"path": f"p/{random.randrange(20):02}/{random.randrange(PATHS // 20):02}"}


def _write(client: Client, random: Random) -> tuple[Answered, tuple[int, ...]]:
    body = random.randbytes(200)
    return client.send("POST", f"{_MAIN}/objects", _path(random), body), (201,)


def _read(client: Client, random: Random) -> tuple[Answered, tuple[int, ...]]:
    where = f"{_REPOSITORY}/refs/main/objects"
    return client.send("GET", where, _path(random)), (200, 404)


def _list(client: Client, random: Random) -> tuple[Answered, tuple[int, ...]]:
    where = f"{_REPOSITORY}/refs/main/objects/ls"
    query = {"prefix": f"p/{random.randrange(20):02}/", "amount": "50"}
    return client.send("GET", where, query), (200,)


def _commit(client: Client, random: Random) -> tuple[Answered, tuple[int, ...]]:
    return client.send("POST", f"{_MAIN}/commits", body={"message": "m"}), (201, 400)


def _diff(client: Client, random: Random) -> tuple[Answered, tuple[int, ...]]:
    where = f"{_REPOSITORY}/refs/main~2/diff/main"
    return client.send("GET", where, {"amount": "50"}), (200, 404)


def _delete(client: Client, random: Random) -> tuple[Answered, tuple[int, ...]]:
    return client.send("DELETE", f"{_MAIN}/objects", _path(random)), (204,)


def _merge(client: Client, random: Random) -> tuple[Answered, tuple[int, ...]]:
    """A branch, a change, a merge: all of it counts as one request."""
    name = f"b{random.randrange(1 << 60):x}"
    where = f"{_REPOSITORY}/branches/{name}"
    client.send("POST", f"{_REPOSITORY}/branches", body={"name": name, "source": "main"})
    client.send("POST", f"{where}/objects", _path(random), random.randbytes(100))
    client.send("POST", f"{where}/commits", body={"message": "m"})
    body = {"strategy": "source-wins"}
    answer = client.send("POST", f"{_REPOSITORY}/refs/{name}/merge/main", body=body)
    client.send("DELETE", where)
    return answer, (200, 400)  # the destination may have uncommitted changes


# ---- judging ----


def judged(samples: list[Sample]) -> list[str]:
    """What grew from the second quarter of the time to the last one; nothing of a run too short to
    tell."""
    if len(samples) < _SAMPLES_MIN:
        return []
    quarter = len(samples) // 4
    early, late = samples[quarter : 2 * quarter], samples[-quarter:]
    wrong = []
    for name, factor, slack in (
        ("memory_mib", 1.15, 32.0),
        ("open_files", 1.2, 16.0),
        ("median_ms", 1.75, 5.0),
        ("high_ms", 2.0, 100.0),
    ):
        before = median(getattr(sample, name) for sample in early)
        after = median(getattr(sample, name) for sample in late)
        if name == "memory_mib" and after <= _FULL_MIB:
            continue
        if after > before * factor + slack:
            wrong.append(f"{name} grew: from {before:.1f} to {after:.1f}")
    before, after = _mib_per_change(early), _mib_per_change(late)
    if after > before * 1.5 + 0.002:
        wrong.append(f"disk for a change grew: from {before:.4f} to {after:.4f} MiB")
    return wrong


def _mib_per_change(samples: list[Sample]) -> float:
    first, last = samples[0], samples[-1]
    return (last.disk_mib - first.disk_mib) / max(1, last.changes - first.changes)


def bytes_below(folder: Path) -> int:
    """The size of all files in a folder; those that vanish meanwhile do not count."""
    total = 0
    for at, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(at, name)).st_size
            except FileNotFoundError:
                continue
    return total
