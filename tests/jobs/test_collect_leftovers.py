"""What jobs on Spark have left goes with the collections of workers, too."""

from pathlib import Path

from graveler.core import limits
from graveler.engine.bulk.job import Mode
from graveler.engine.gc import leftovers
from tests.engine.bulk_world import begin
from tests.engine.lake import Lake
from tests.engine.storage import DAY, Storage
from tests.jobs.aged import aged, ordered, runs_of

JOBS = "_graveler/jobs/"


def put(storage: Storage, name: str) -> str:
    storage.blocks.put(f"{storage.repo.namespace}/{name}", [b"bytes"])
    return name


def kept(storage: Storage) -> set[str]:
    """The files of jobs and the hash files that are stored."""
    found = set()
    for folder in (JOBS, "_graveler/gc/hashes/"):
        page = storage.blocks.list(f"{storage.repo.namespace}/{folder}", "", 1_000)
        found |= {each.address.removeprefix(f"{storage.repo.namespace}/") for each in page.lines}
    return found


def test_a_collection_removes_old_files_of_ended_jobs_alone(tmp_path: Path) -> None:
    storage = aged(tmp_path)
    put(storage, f"{JOBS}ended/part-1-0")
    put(storage, f"{JOBS}ended/part-1-1")
    storage.wait(limits.collect_min_age_seconds)
    alive = begin(Lake(storage.ports, storage.repo), Mode.MERGE).job.id
    young = {put(storage, f"{JOBS}young/part-1-0"), put(storage, f"{JOBS}{alive}/part-1-0")}
    storage.wait(1)
    runs_of(storage, ordered(storage))
    assert kept(storage) == young
    storage.wait(DAY + limits.collect_min_age_seconds)
    runs_of(storage, ordered(storage))
    assert kept(storage) == set()


def test_the_files_of_a_job_that_may_still_land_stay_however_old(tmp_path: Path) -> None:
    storage = aged(tmp_path)
    alive = begin(Lake(storage.ports, storage.repo), Mode.MERGE).job.id
    names = {put(storage, f"{JOBS}{alive}/part-1-0")}
    line = next(leftovers.of_jobs(storage.blocks, storage.repo.namespace, (), 1 << 63))
    assert line.endswith(f"{alive}/part-1-0")
    assert not [*leftovers.of_jobs(storage.blocks, storage.repo.namespace, {alive}, 1 << 63)]
    assert leftovers.remove(storage.opened) == 0 and kept(storage) == names
