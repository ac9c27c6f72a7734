"""A repository with much to collect, its collections as jobs, and what they found.

For the tests of this folder.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from graveler.committed.ranges import Keyspace
from graveler.core import limits
from graveler.core.identity import frame
from graveler.core.ids import JobId, MetarangeId
from graveler.core.records import JobState
from graveler.engine.commits import reset
from graveler.engine.gc import retention
from graveler.engine.gc.content import NO_FILE
from graveler.jobs import rounds
from graveler.refs import commits
from graveler.refs.garbage import Retention
from tests.engine.lake import Lake
from tests.engine.storage import DAY, Storage, new_storage
from tests.jobs.cut_off import Worker, result_of, run_of, runs_of, status
from tests.jobs.world import World

STEP_ROWS = 6


def aged(
    scratch: Path, step_rows: int = STEP_ROWS, page_max: int = limits.page_count_max
) -> Storage:
    """Commits that have expired, commits that are kept, and files that nothing names: objects, a
    range, a metarange.  `step_rows`: with so many rows, a step is full.
    `page_max`: of a list of objects, for workers."""
    storage = new_storage(scratch)
    storage.change_settings(step_row_count=step_rows)
    storage.page_max = page_max
    retention.set_rule(storage.opened, Retention(default_days=7))
    for number in range(4):
        storage.commit(**{f"{letter}{number}": f"{number}" for letter in "abcdef"})
    storage.commit(a0="other", b1="other")
    storage.put(z="never committed")
    reset.reset(storage.opened, "main")
    for key in (b"1", b"2"):
        ref = storage.ports.ranges.write_range(storage.repo.namespace, [(key, frame(b"", b""))])
    storage.ports.ranges.write_metarange(storage.repo.namespace, [ref])
    storage.wait(8 * DAY)
    storage.commit(a0="new", f3="new")
    storage.wait(2 * DAY)
    return storage


def ordered(storage: Storage, *, dry_run: bool = False) -> JobId:
    """A collection is ordered; no worker is told."""
    scheduler = World(Lake(storage.ports, storage.repo)).scheduler
    return (rounds.rehearse(scheduler) if dry_run else rounds.order(scheduler)).id


def lines(storage: Storage, job: JobId, name: str = "condemned-") -> list[dict[str, Any]]:
    """What the lists of a job's run say."""
    folder = result_of(storage, job)["candidates"]
    pages = storage.blocks.list(f"{folder}{name}", "", 100).lines
    raw = b"".join(b"".join(storage.blocks.get(each.address).chunks) for each in pages)
    return [json.loads(line) for line in raw.splitlines()]


def totals(storage: Storage, job: JobId) -> dict[str, Any]:
    """What the result of a job counts."""
    found = result_of(storage, job)
    return {key: value for key, value in found.items() if key not in ("run", "candidates")}


def reads(workers: list[Worker], kept: set[str]) -> Counter[str]:
    """How many of the workers asked for each of some files."""
    return Counter(name for worker in workers for name in worker.read() & kept)


def metaranges_in_use(storage: Storage) -> set[str]:
    """Those of all commits."""
    found = commits.list_all(storage.ports.kv, storage.repo)
    return {each.commit.metarange for each in found} - {*NO_FILE}


def ranges_in_use(storage: Storage) -> set[str]:
    """Those that any commit names."""
    space = Keyspace(storage.ports.ranges, storage.repo.namespace, storage.repo.breaks)
    metaranges = map(MetarangeId, metaranges_in_use(storage))
    return {ref.id for metarange in metaranges for ref in space.metarange(metarange).ranges}


def tables_in_use(storage: Storage) -> set[str]:
    """Both."""
    return metaranges_in_use(storage) | ranges_in_use(storage)


def puts(worker: Worker, part: str) -> list[int]:
    """The numbers of the requests that put something whose address holds that."""
    asked = enumerate(worker.requests, 1)
    return [number for number, (verb, name) in asked if verb == "put" and part in name]


def due(scratch: Path) -> tuple[Storage, JobId]:
    """What one run has condemned may go; the job that deletes it is ordered."""
    storage = aged(scratch)
    storage.collect()
    storage.commit(a0="newest")
    storage.wait(DAY)
    return storage, ordered(storage)


class Cut(NamedTuple):
    """A collection that nobody disturbed, and its worker; and the same one, cut off."""

    whole: Storage
    first: JobId
    undisturbed: Worker
    storage: Storage
    job: JobId

    def check_same(self) -> None:
        """Both have ended, and found the same."""
        assert status(self.storage, self.job).state is JobState.DONE
        assert lines(self.storage, self.job) == lines(self.whole, self.first) != []
        assert totals(self.storage, self.job) == totals(self.whole, self.first)


def undisturbed(
    scratch: Path,
    *,
    dry_run: bool = False,
    step_rows: int = STEP_ROWS,
    page_max: int = limits.page_count_max,
) -> tuple[Storage, JobId, Worker]:
    """A collection of one worker."""
    whole = aged(scratch, step_rows, page_max)
    first = ordered(whole, dry_run=dry_run)
    [worker] = runs_of(whole, first)
    return whole, first, worker


def cut_behind(
    scratch: Path, part: str, *, dry_run: bool = False, step_rows: int = STEP_ROWS
) -> Cut:
    """Its worker died when it had put the last of what has `part` in its address."""
    whole, first, worker = undisturbed(scratch, dry_run=dry_run, step_rows=step_rows)
    storage = aged(scratch, step_rows)
    job = ordered(storage, dry_run=dry_run)
    run_of(storage, job, puts(worker, part)[-1] + 1, dies=True)
    return Cut(whole, first, worker, storage, job)
