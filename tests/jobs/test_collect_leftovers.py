"""What jobs on Spark have left goes with the collections of workers, too."""

from pathlib import Path

import pytest

from graveler.core import limits
from graveler.core.errors import GravelerError, Refused, Unavailable, Unsupported
from graveler.core.records import ABSENT, JobState
from graveler.engine.bulk.job import Mode
from graveler.engine.gc import leftovers
from graveler.engine.jobs import record
from graveler.engine.jobs.record import Stopped, StopReason
from graveler.refs import garbage
from tests.engine.bulk_world import begin
from tests.engine.lake import Lake
from tests.engine.storage import DAY, Storage
from tests.jobs.aged import aged, ordered, ranges_in_use, runs_of

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


def test_hash_files_go_with_their_ranges(tmp_path: Path) -> None:
    storage = aged(tmp_path)
    put(storage, "_lakefs/actions/log/run/00.log")  # beside the ranges, and no range
    used = sorted(ranges_in_use(storage))
    hashes = {put(storage, f"_graveler/gc/hashes/{name}") for name in used}
    for name in ("0" * 64, "ac" + "0" * 62, "f" * 64):
        put(storage, f"_graveler/gc/hashes/{name}")
    runs_of(storage, ordered(storage))
    assert kept(storage) == hashes


def test_one_collection_removes_so_many(tmp_path: Path) -> None:
    storage = aged(tmp_path)
    names = [put(storage, f"{JOBS}ended/part-1-{number}") for number in range(5)]
    storage.wait(2 * limits.collect_min_age_seconds)
    assert leftovers.remove(storage.opened, 3) == 3 and len(kept(storage)) == len(names) - 3
    assert leftovers.remove(storage.opened, 3) == 2 and kept(storage) == set()


FAILURES = [
    *(kind("delete object: not possible") for kind in (Refused, Unavailable, Unsupported)),
    Stopped(StopReason.OUT_OF_TIME),
]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
def test_files_that_cannot_be_deleted_stop_no_collection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, failure: Exception
) -> None:
    storage = aged(tmp_path)
    name = put(storage, f"{JOBS}ended/part-1-0")
    storage.wait(2 * limits.collect_min_age_seconds)

    def delete(address: str, version: str = "") -> None:
        if JOBS in address:
            # The collection comes first.
            assert garbage.find_size(storage.ports.kv, storage.repo) is not ABSENT
            raise failure
        storage.blocks.delete(address, version)

    denied = storage.with_blocks(delete=delete)
    job = ordered(denied)
    assert len(runs_of(denied, job)) == 1
    assert record.status(denied.opened, job).state is JobState.DONE
    assert kept(storage) == {name}
    assert ("files of jobs on Spark stay" in caplog.text) == isinstance(failure, GravelerError)


def test_a_dry_run_removes_nothing(tmp_path: Path) -> None:
    storage = aged(tmp_path)
    name = put(storage, f"{JOBS}ended/part-1-0")
    storage.wait(2 * limits.collect_min_age_seconds)
    runs_of(storage, ordered(storage, dry_run=True))
    assert kept(storage) == {name}
