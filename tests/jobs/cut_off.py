"""Workers that are cut off at a request that the test names, on a store with files in memory."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from graveler.assembly.drivers import Drivers, ports_of
from graveler.block.drivers import CreatesOneByOne, OneByOne
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import StoredFiles
from graveler.core.ids import JobId
from graveler.core.records import Job
from graveler.engine.jobs import record
from graveler.engine.ports import Sequential
from tests.engine.lake import Lake
from tests.engine.short_pages import ShortLists
from tests.engine.storage import Storage
from tests.jobs.world import LEASE_SECONDS, Killed, World
from tests.support.clockwork import SeededIds

LATE_SECONDS = 15 * 60
TIME_SECONDS = 14 * 60


class _Watched:
    """A driver each of whose calls is told first."""

    def __init__(self, driver: Any, tell: Callable[[str, str], None]) -> None:
        self._driver = driver
        self._tell = tell

    def __getattr__(self, verb: str) -> Any:
        call = getattr(self._driver, verb)

        def told(first: Any, *more: Any, **named: Any) -> Any:
            self._tell(verb, first if isinstance(first, str) else "")
            return call(first, *more, **named)

        return told


class _WatchedBlocks(CreatesOneByOne, OneByOne, _Watched):
    """Each of many creations or deletions is told, as if it were alone: a worker may die between
    two."""


@dataclass
class Worker:
    """A process of its own: nothing is cached.  `requests`: verbs, and addresses of objects.  It
    acts before request `at`, or in the beat after a put of what has `after_put` in its address."""

    storage: Storage
    requests: list[tuple[str, str]] = field(default_factory=list)
    at: int = 0
    after_put: str = ""
    beat_count: int = 0
    act: Callable[[], object] = lambda: None

    def _tell(self, verb: str, address: str) -> None:
        self.requests.append((verb, address))
        if len(self.requests) == self.at:
            self.act()
        if self.after_put and verb == "put" and self.after_put in address:
            self.at = len(self.requests) + self.beat_count

    def lake(self) -> Lake:
        storage = self.storage
        listed: Any = ShortLists(storage.blocks, storage.page_max)
        blocks: Any = _WatchedBlocks(listed, self._tell)
        kv: Any = _Watched(storage.ports.kv, self._tell)
        ranges = SstRangeStore(StoredFiles(blocks))
        clock = storage.clock
        drivers = Drivers(kv, blocks, ranges, clock, SeededIds(clock.now_ns()), Sequential())
        ports = replace(ports_of(drivers, bytes(32)), settings=storage.ports.settings)
        return Lake(ports, storage.repo)

    def read(self) -> set[str]:
        """The files of tables that were asked for."""
        parts = [address.partition("/_lakefs/") for verb, address in self.requests if verb != "put"]
        return {name for _, slash, name in parts if slash and len(name) == 64}


def run_of(
    storage: Storage, job: JobId, at: int = 0, *, dies: bool = False, after_put: str = ""
) -> Worker:
    """One worker is given the job; where it acts it dies, or its time is over."""
    worker = Worker(storage, at=at, after_put=after_put, beat_count=3 if dies else 2)

    def late() -> None:
        if dies:
            worker.requests.pop()  # it is not sent
            raise Killed
        storage.clock.sleep(LATE_SECONDS)

    worker.act = late
    lake = worker.lake()
    worker.requests.clear()
    try:
        World(lake).work(job, lake, seconds=TIME_SECONDS)
    except Killed:
        storage.clock.sleep(LEASE_SECONDS)
    return worker


def runs_of(
    storage: Storage, job: JobId, at: int = 0, *, dies: bool = False, after_put: str = ""
) -> list[Worker]:
    """One worker after the other, until the job has ended."""
    found = []
    while not status(storage, job).ended:
        assert len(found) < 400
        found.append(run_of(storage, job, at, dies=dies, after_put=after_put))
    return found


def status(storage: Storage, job: JobId) -> Job:
    return record.status(storage.opened, job)


def result_of(storage: Storage, job: JobId) -> dict[str, Any]:
    ordered = record.ordered(storage.opened, job)
    assert ordered.result, status(storage, job)
    found: dict[str, Any] = json.loads(ordered.result)
    return found


def folder_of(storage: Storage, job: JobId) -> str:
    """The name of the folder of a job's steps."""
    return f"{job}.{status(storage, job).created_ns:020}"


def steps_of(storage: Storage, below: str = "") -> list[str]:
    """The names of all steps that are stored."""
    folder = f"{storage.repo.namespace}/_graveler/steps/"
    lines = storage.blocks.list(folder + below, "", 10_000).lines
    return [line.address.removeprefix(folder) for line in lines]
