"""Dumps that are cut off go on where they were, and write what one run would have written."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graveler.committed import verify
from graveler.committed.dumps import DumpTables
from graveler.committed.ranges import Keyspace
from graveler.core import limits, wire
from graveler.core.ids import JobId, MetarangeId, RangeId
from graveler.core.records import JobState, RangeRef
from graveler.engine import dump, names
from graveler.jobs.requests import ask_dump
from tests.engine.lake import Lake
from tests.engine.storage import DAY, Storage, new_storage
from tests.jobs.aged import puts
from tests.jobs.cut_off import Worker, result_of, run_of, runs_of, status, steps_of
from tests.jobs.world import World

COMMITS = 40
ROWS = 4  # commits of a step
KINDS = ("branches", "tags", "commits")


def grown(scratch: Path, seconds_max: int = limits.dump_seconds_max) -> Storage:
    """Many commits, a branch and a tag."""
    storage = new_storage(scratch)
    storage.change_settings(step_row_count=ROWS, dump_seconds_max=seconds_max)
    for number in range(COMMITS):
        storage.commit(a=f"{number}")
    names.create_branch(storage.opened, "side", "main~3")
    names.create_tag(storage.opened, "v1", "main~5")
    return storage


def ordered(storage: Storage) -> JobId:
    return ask_dump(World(Lake(storage.ports, storage.repo)).scheduler).id


def undisturbed(scratch: Path) -> tuple[Storage, JobId, Worker]:
    """A dump of one worker."""
    whole = grown(scratch)
    first = ordered(whole)
    [worker] = runs_of(whole, first)
    return whole, first, worker


def tables(storage: Storage, job: JobId) -> tuple[str, ...]:
    """The ids of what a dump wrote; each is sound."""
    made = result_of(storage, job)
    for kind in KINDS:
        assert not list(verify.metarange_damages(space(storage), MetarangeId(made[kind]))), kind
    return tuple(made[kind] for kind in KINDS)


def space(storage: Storage) -> Keyspace:
    return Keyspace(DumpTables(storage.blocks, {}), storage.repo.namespace, storage.repo.breaks)


@pytest.mark.parametrize("dies", [True, False])
def test_a_dump_cut_off_anywhere_writes_what_one_run_writes(tmp_path: Path, dies: bool) -> None:
    whole, first, worker = undisturbed(tmp_path)
    assert len(puts(worker, "/commits-")) > 3 and steps_of(whole) == []
    for at in range(1, len(worker.requests) + 1, 3):
        storage = grown(tmp_path)
        job = ordered(storage)
        run_of(storage, job, at, dies=dies)
        runs_of(storage, job)
        assert status(storage, job).state is JobState.DONE, (at, status(storage, job))
        assert tables(storage, job) == tables(whole, first), at
        files = dump.files_in_use(storage.opened)
        assert files == dump.files_in_use(whole.opened), at


def asked(worker: Worker, verb: str, part: str) -> list[str]:
    """The addresses of requests of a verb that hold something."""
    return [name for each, name in worker.requests if each == verb and part in name]


# ---- what happens between the runs ---------------------------------------------------------------


def cut_off(
    scratch: Path, steps: int = 3, seconds_max: int = limits.dump_seconds_max
) -> tuple[Storage, JobId]:
    """A dump whose worker died when it had noted so many steps."""
    storage = grown(scratch, seconds_max)
    job = ordered(storage)
    for _ in range(steps):
        run_of(storage, job, dies=True, after_put="/commits-")
    assert len(steps_of(storage)) == steps
    return storage, job


def test_collection_keeps_what_a_dump_wrote_in_several_runs(tmp_path: Path) -> None:
    storage, job = cut_off(tmp_path)
    storage.clock.sleep(5 * 3_600)
    storage.collect()
    runs_of(storage, job)
    made = tables(storage, job)
    storage.commit(a="later")
    storage.wait(3 * DAY)
    storage.collected()
    for id in made:
        assert not list(verify.metarange_damages(space(storage), MetarangeId(id)))


# ---- what is not believed ------------------------------------------------------------------------


def changed(change: Callable[[dict[str, Any]], object]) -> Callable[[Storage], None]:
    """The second step, sound as a file, says something else."""

    def act(storage: Storage) -> None:
        place = f"{storage.repo.namespace}/_graveler/steps/{steps_of(storage)[1]}"
        whole = json.loads(gzip.decompress(storage.blocks.read(place, 0, 1 << 20)))
        change(whole)
        storage.blocks.put(place, [gzip.compress(json.dumps(whole).encode())])

    return act


def says(**other: Any) -> Callable[[Storage], None]:
    return changed(lambda whole: whole["said"].update(other))


def rows(*made: Any) -> Callable[[Storage], None]:
    return changed(lambda whole: whole.update(rows=list(made)))


def row(low: str, high: str, id: str = "0" * 64) -> str:
    """A range in a step."""
    ref = RangeRef(RangeId(id), low.encode(), high.encode(), 1, 1)
    return wire.encode_range(ref)[1].hex()


ID, NAMES = "0" * 64, ["1" * 64]
DAMAGES = [
    changed(lambda whole: whole.update(job="dump-other")),
    changed(lambda whole: whole["rows"].append(whole["rows"][0])),
    says(begins=""), says(begins=None), says(refs=None), says(refs=[]), says(refs=[1, 2]),
    says(refs=[[ID, NAMES], ["x", NAMES]]), says(refs=[[ID, NAMES], [ID, "x"]]),
    says(refs=[[ID, NAMES], [ID, NAMES]]), says(refs=[[ID, [1]], [ID, NAMES]]),
    rows(), rows("zz"), rows("00"), rows(1), rows(row("x", "y")), rows(row("f" * 64, "e" * 64)),
    rows(row("f" * 64, "f" * 64, "../x")),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(DAMAGES)))
def test_a_step_that_is_not_what_was_written_is_not_believed(tmp_path: Path, number: int) -> None:
    whole, first, _ = undisturbed(tmp_path)
    storage, job = cut_off(tmp_path)
    DAMAGES[number](storage)
    [last] = runs_of(storage, job)
    assert len(asked(last, "read", "/steps/")) == 2  # the first counts, what is behind does not
    assert tables(storage, job) == tables(whole, first)
