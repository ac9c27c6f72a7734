"""How import jobs end where the store does not answer, or somebody else ends them first."""

from dataclasses import replace
from typing import Any

import pytest

from graveler import assembly
from graveler.block.adapter import CREATE
from graveler.committed.ranges import Table
from graveler.core import limits
from graveler.core.errors import Invalid, NotFound, Unavailable
from graveler.core.ids import BranchId, JobId, RangeId
from graveler.core.records import BreakParameters, JobState
from graveler.engine import imports, janitor
from graveler.engine.imports import ImportPath, ImportRequest
from graveler.engine.jobs import record
from graveler.engine.jobs.record import Heartbeat
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from tests.engine.lake import COMMITTER, Lake
from tests.engine.overridden import Overridden
from tests.support.clockwork import SeededIds, TickingClock
from tests.support.faults import Fault, FaultPlan, FaultyStore

SOURCE = "mem://bucket/source/"
REQUEST = ImportRequest([ImportPath("common_prefix", SOURCE, "in/")], "import", COMMITTER)
OWNER = b"me"


@pytest.fixture
def lake() -> Lake:
    """With two objects to import, and the empty one that some tools note a folder by."""
    ports = assembly.open_memory(TickingClock(), SeededIds(1))
    repo = repository.create(ports, repository.NewRepository("lake", "mem://bucket/lake"))
    for name in ("", "a", "b/c"):
        ports.blocks.put(SOURCE + name, [b"bytes"], CREATE)
    return Lake(ports, repo)


def submitted(lake: Lake, owner: bytes = OWNER) -> JobId:
    return imports.submit(lake.opened, "main", REQUEST, owner=owner).id


def run(lake: Lake, job: JobId) -> None:
    imports.run(lake.opened, "main", REQUEST, job)


def state(lake: Lake, job: JobId) -> JobState:
    return imports.status(lake.opened, job).state


def faulty(lake: Lake, plan: FaultPlan) -> Lake:
    return lake.with_kv(lambda kv: FaultyStore(kv, plan))


def never_swaps(_: int, verb: str) -> Fault:
    return Fault.DROPPED if verb == "set_if" else Fault.NONE


def test_a_job_that_cannot_be_noted_is_not_started(lake: Lake) -> None:
    with pytest.raises(Unavailable):
        submitted(faulty(lake, never_swaps))


def test_a_job_that_cannot_be_cancelled_goes_on(lake: Lake) -> None:
    job = submitted(lake)
    with pytest.raises(Unavailable):
        imports.cancel(open_repository(faulty(lake, never_swaps).ports, lake.repo), "main", job)
    run(lake, job)
    assert state(lake, job) is JobState.DONE and set(lake.tree()) == {"in/a", "in/b/c"}


def test_a_cancellation_is_sent_again_until_it_is_answered(lake: Lake) -> None:
    job = submitted(lake)
    first = iter([Fault.DROPPED])

    def plan(_: int, verb: str) -> Fault:
        return next(first, Fault.NONE) if verb == "set_if" else Fault.NONE

    imports.cancel(open_repository(faulty(lake, plan).ports, lake.repo), "main", job)
    run(lake, job)
    assert state(lake, job) is JobState.CANCELLED and lake.tree() == {}


def test_the_record_of_a_job_that_waits_is_kept_however_old_it_is(lake: Lake) -> None:
    job = submitted(lake)
    for _ in range(3):
        lake.ports.clock.sleep(limits.job_record_keep_seconds + limits.import_seconds_max)
        assert janitor.sweep(lake.opened).jobs == 0
    run(lake, job)
    assert state(lake, job) is JobState.DONE and janitor.sweep(lake.opened).jobs == 0
    lake.ports.clock.sleep(limits.job_record_keep_seconds + 60)
    assert janitor.sweep(lake.opened).jobs == 1
    with pytest.raises(NotFound):
        state(lake, job)


def test_a_landing_that_cannot_be_noted_is_not_begun(lake: Lake) -> None:
    job = submitted(lake)
    run(faulty(lake, never_swaps), job)
    assert lake.tree() == {}
    assert state(lake, job) is JobState.RUNNING  # nobody could note its end either
    run(lake, job)
    assert state(lake, job) is JobState.DONE


def test_an_end_that_cannot_be_noted_leaves_the_job_to_the_next_start(lake: Lake) -> None:
    job = submitted(lake)
    down = iter([Fault.NONE])  # the first look; nothing answers from then on
    run(faulty(lake, lambda *_: next(down, Fault.REFUSED)), job)
    assert state(lake, job) is JobState.RUNNING and lake.tree() == {}
    assert [each.id for each in record.free_all(lake.opened)] == [job]


def test_an_error_that_is_none_of_ours_ends_the_job_and_is_raised(lake: Lake) -> None:
    job = submitted(lake)

    def broken(prefix: str, after: str, limit: int) -> object:
        raise ZeroDivisionError

    blocks: Any = Overridden(lake.ports.blocks, list=broken)
    with pytest.raises(ZeroDivisionError):
        run(Lake(replace(lake.ports, blocks=blocks), lake.repo), job)
    found = imports.status(lake.opened, job)
    assert (found.state, found.error) == (JobState.FAILED, "internal error")


def test_a_source_beside_repositories_is_accepted_and_one_inside_is_not(lake: Lake) -> None:
    inside = ImportPath("common_prefix", "mem://bucket/lake/data/", "in/")
    with pytest.raises(Invalid, match="inside a repository"):
        imports.submit(lake.opened, "main", REQUEST._replace(paths=[inside]), owner=OWNER)
    with pytest.raises(NotFound):
        imports.status(lake.opened, "none")
    assert state(lake, submitted(lake)) is JobState.RUNNING


def test_an_import_over_many_ranges_ends_with_its_time(lake: Lake) -> None:
    run(lake, submitted(lake))
    lake.ports.blocks.put(SOURCE + "more", [b"bytes"], CREATE)
    before, ranges = lake.tree(), lake.ports.ranges

    def slow(namespace: str, range_id: RangeId) -> Table:
        lake.ports.clock.sleep(limits.import_seconds_max + 1)
        return ranges.open_range(namespace, range_id)

    job = submitted(lake)
    mine: Any = Overridden(ranges, open_range=slow)
    run(Lake(replace(lake.ports, ranges=mine), lake.repo), job)
    found = imports.status(lake.opened, job)
    assert found.state is JobState.FAILED and "import took too long" in found.error
    assert lake.tree() == before


def test_a_source_that_does_not_exist_is_refused(lake: Lake) -> None:
    """Also the prefix of a name, which is read as a folder."""
    for path in ("mem://bucket/sauce/", "mem://bucket/sour"):
        gone = ImportPath("common_prefix", path, "in/")
        with pytest.raises(
            Invalid, match=r"no object is below it: path=mem://bucket/(sauce|sour)/:"
        ):
            imports.submit(lake.opened, "main", REQUEST._replace(paths=[gone]), owner=OWNER)
    missing = ImportPath("object", SOURCE + "none", "in/one")
    with pytest.raises(Invalid, match="not found"):
        imports.submit(lake.opened, "main", REQUEST._replace(paths=[missing]), owner=OWNER)


def test_a_source_that_vanishes_fails_the_job_and_changes_nothing(lake: Lake) -> None:
    run(lake, submitted(lake))
    before, job = lake.tree(), submitted(lake)
    assert len(before) == 2
    for name in ("", "a", "b/c"):
        lake.ports.blocks.delete(SOURCE + name)
    run(lake, job)
    failed = imports.status(lake.opened, job)
    assert failed.state is JobState.FAILED and SOURCE in failed.error
    assert lake.tree() == before


def test_an_empty_folder_of_a_bucket_is_one_with_an_empty_object_of_its_name(lake: Lake) -> None:
    run(lake, submitted(lake))
    for name in ("a", "b/c"):
        lake.ports.blocks.delete(SOURCE + name)
    job = submitted(lake)
    run(lake, job)
    assert state(lake, job) is JobState.DONE and lake.tree() == {}


def test_names_that_no_path_can_have_are_skipped_and_counted(lake: Lake) -> None:
    """Of every attempt and every checkpoint, and each name once."""
    far = "in/" + "x" * 600 + "/"
    deep = "y" * 500
    for number in range(12):
        lake.ports.blocks.put(f"{SOURCE}{number:02}{deep}", [b"x"], CREATE)
    request = REQUEST._replace(paths=[ImportPath("common_prefix", SOURCE, far)])
    job = imports.submit(lake.opened, "main", request, owner=OWNER)
    once = record.once(job.id, record.ordered(lake.opened, job.id))
    resumed = imports.ImportState(once, spill_count=1)
    for _ in range(2):  # the second attempt reads the checkpoints of the first
        landed = imports.work(
            lake.opened, BranchId("main"), request, Heartbeat(lake.opened, job.id), resumed
        )
        metadata = landed.commit.metadata
        assert metadata[imports.SKIPPED_KEY] == "12"
        examples = metadata[imports.SKIPPED_EXAMPLES_KEY].splitlines()
        assert len(examples) == limits.import_skipped_examples_max
        assert examples[0].startswith("'00yyy") and "path is too long" in examples[0]
    assert set(lake.tree()) == {far + "a", far + "b/c"}


def test_an_import_into_an_empty_branch_sets_how_long_ranges_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "range_raggedness_default", 1)
    ports = assembly.open_memory(TickingClock(), SeededIds(1))
    new = repository.NewRepository(
        "lake", "mem://bucket/lake", breaks=BreakParameters(raggedness=1, salt=b"import")
    )
    lake = Lake(ports, repository.create(ports, new))
    for number in range(9):
        ports.blocks.put(f"{SOURCE}{number}", [b"bytes"], CREATE)
    run(lake, submitted(lake))
    assert repository.read_breaks(lake.opened).raggedness == 12
    for number in range(9, 100):
        ports.blocks.put(f"{SOURCE}{number}", [b"bytes"], CREATE)
    run(lake, submitted(lake))
    assert repository.read_breaks(lake.opened).raggedness == 12
    assert len(lake.tree()) == 100
