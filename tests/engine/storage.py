"""A repository whose ranges are files in memory, with a clock that leaps: to test collection."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from graveler.assembly.drivers import Drivers, ports_of
from graveler.block.memory import MemoryBlocks
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import StoredFiles
from graveler.core import limits
from graveler.core.records import BreakParameters, Repository
from graveler.engine import janitor
from graveler.engine.commits import commit
from graveler.engine.gc import collect
from graveler.engine.gc.collect import CollectionResult
from graveler.engine.objects import read as reads
from graveler.engine.objects import write
from graveler.engine.ports import OpenRepository, Ports, Sequential, open_repository
from graveler.engine.repositories import repository
from graveler.kv.memory import MemoryStore
from tests.engine.overridden import Overridden, OverriddenBlocks
from tests.support.clockwork import SeededIds, TickingClock

HOUR = 3600
DAY = 24 * HOUR


@dataclass
class Storage:
    """One repository, what is stored for it, and its time."""

    ports: Ports
    blocks: MemoryBlocks
    clock: TickingClock
    scratch: Path
    page_max: int = limits.page_count_max  # objects on a page of a list

    @property
    def opened(self) -> OpenRepository:
        return open_repository(self.ports, self.repo)

    @property
    def repo(self) -> Repository:
        return repository.get(self.ports, "lake")

    def restarted(self) -> "Storage":
        """The same store with empty caches."""
        fresh = _opened(self.ports.kv, self.blocks, self.clock, self.scratch)  # type: ignore[arg-type]
        fresh.ports = replace(fresh.ports, settings=self.ports.settings)
        return fresh

    def with_blocks(self, **verbs: Callable[..., object]) -> "Storage":
        """The same, but these verbs of the object store are the test's."""
        blocks: Any = OverriddenBlocks(self.blocks, **verbs)
        return replace(self, ports=replace(self.ports, blocks=blocks), blocks=blocks)

    def with_kv(self, **verbs: Callable[..., object]) -> "Storage":
        """The same, but these verbs of the key-value store are the test's."""
        kv: Any = Overridden(self.ports.kv, **verbs)
        return replace(self, ports=replace(self.ports, kv=kv))

    def change_settings(self, **changes: float) -> None:
        """Of the engine."""
        settings = self.ports.settings._replace(**changes)  # type: ignore[arg-type]
        self.ports = replace(self.ports, settings=settings)

    def put(self, branch: str = "main", **contents: str) -> None:
        for path, content in contents.items():
            upload = write.Upload([content.encode()])
            write.upload(self.opened, branch, path, upload)

    def commit(self, branch: str = "main", **contents: str) -> str:
        self.put(branch, **contents)
        request = commit.CommitRequest(f"{contents}", "tester")
        return commit.commit(self.opened, branch, request).id

    def wait(self, seconds: float) -> None:
        """Let time pass; the janitor comes by, often enough to finish."""
        for part in (0.0, 0.25, 0.25, 0.25, 0.25):
            self.clock.sleep(seconds * part)
            janitor.sweep(self.opened)

    def collect(self, *, delete: bool = True) -> CollectionResult:
        return collect.collect(self.opened, delete=delete)

    def collected(self) -> int:
        """Two runs with the undo period between; how many files are gone."""
        before = len(self.stored())
        self.collect()
        self.wait(DAY)
        self.collect()
        return before - len(self.stored())

    def stored(self) -> set[str]:
        """Addresses below the namespace, without collection's own."""
        page = self.blocks.list("mem://bucket/lake/", "", 10_000)
        names = (line.address.removeprefix("mem://bucket/lake/") for line in page.lines)
        return {name for name in names if not name.startswith("_graveler/")}

    def read(self, ref: str, path: str) -> bytes:
        entry = reads.stat(self.opened, ref, path)
        return b"".join(reads.open_body(self.opened, entry).chunks)


def new_storage(scratch: Path) -> Storage:
    """A fresh one."""
    clock = TickingClock()
    made = _opened(MemoryStore(), MemoryBlocks(clock), clock, scratch)
    breaks = BreakParameters(raggedness=3, salt=b"lake")
    repository.create(
        made.ports, repository.NewRepository("lake", "mem://bucket/lake", breaks=breaks)
    )
    return made


def _opened(kv: MemoryStore, blocks: MemoryBlocks, clock: TickingClock, scratch: Path) -> Storage:
    ranges = SstRangeStore(StoredFiles(blocks))
    drivers = Drivers(kv, blocks, ranges, clock, SeededIds(clock.now_ns()), Sequential())
    return Storage(ports_of(drivers, bytes(32)), blocks, clock, scratch)


def kinds(found: CollectionResult) -> Counter[tuple[str, str]]:
    """How many of each kind were condemned, for which reason."""
    return Counter((each.kind, each.reason) for each in found.condemned)
