"""Dumps that are cut off go on where they were, and write what one run would have written."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graveler.committed import reader
from graveler.committed.dumps import DumpTables
from graveler.committed.ranges import Keyspace
from graveler.core import limits, wire
from graveler.core.identity import identity_of
from graveler.core.ids import JobId, MetarangeId, RangeId
from graveler.core.records import JobState, RangeRef
from graveler.engine import dump, janitor, names
from graveler.engine.jobs import record
from graveler.engine.jobs.record import Ending
from graveler.jobs.schedule import ask_dump
from tests.engine.lake import Lake
from tests.engine.storage import DAY, Storage, new_storage
from tests.jobs.aged import puts
from tests.jobs.cut_off import Worker, folder_of, result_of, run_of, runs_of, status, steps_of
from tests.jobs.world import World

COMMITS = 40
ROWS = 4  # commits of a step
KINDS = ("branches", "tags", "commits")


def keys(storage: Storage, job: JobId, kind: str) -> dict[str, str]:
    """Names or ids, and what they name."""
    rows = reader.scan(space(storage), MetarangeId(result_of(storage, job)[kind]))
    return {key.decode(): identity_of(value).decode() for key, value in rows}


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
        assert not list(reader.metarange_damages(space(storage), MetarangeId(made[kind]))), kind
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


def test_cut_off_after_every_step_refs_are_read_once_and_commits_read_on(tmp_path: Path) -> None:
    whole, first, alone = undisturbed(tmp_path)
    storage = grown(tmp_path)
    job = ordered(storage)
    workers = runs_of(storage, job, dies=True, after_put="/commits-")
    steps = len(puts(alone, "/commits-"))
    assert len(workers) == steps + 1 > 4
    assert tables(storage, job) == tables(whole, first) and steps_of(storage) == []
    scans = [worker.requests.count(("scan", "")) for worker in workers]
    assert scans == [3, *[1] * steps]
    for number, worker in enumerate(workers):
        assert len(asked(worker, "read", "/steps/")) == number
        assert len(asked(worker, "put", "/steps/")) == (number < steps)
        refs = {result_of(storage, job)[kind] for kind in ("branches", "tags")}
        wrote = {name[-64:] for name in asked(worker, "put", "/_lakefs/")}
        assert refs <= wrote if number == 0 else not refs & wrote
    rewritten = [len(asked(worker, "put", "/_lakefs/")) for worker in workers]
    assert rewritten == sorted(rewritten, reverse=True)


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


def test_what_refs_named_at_first_is_dumped_with_its_ancestors(tmp_path: Path) -> None:
    storage, job = cut_off(tmp_path)
    repo = storage.opened
    before = {name: names.get_branch(repo, name).branch.commit for name in ("main", "side")}
    made = [storage.commit(a=f"late {number}") for number in range(20)]
    names.delete_branch(repo, "side")
    names.create_branch(repo, "late", "main")
    runs_of(storage, job)
    assert keys(storage, job, "branches") == before
    assert set(keys(storage, job, "tags")) == {"v1"}
    there = keys(storage, job, "commits")
    assert len(there) > COMMITS  # those that came late and have an id behind the last step
    assert {*before.values()} <= set(there)
    found = set(there) - set(made)
    assert len(found) == COMMITS + 1
    tables(storage, job)


def test_a_dump_that_lasts_too_long_begins_anew(tmp_path: Path) -> None:
    storage, job = cut_off(tmp_path, seconds_max=3_600)
    storage.clock.sleep(3_000)
    late = run_of(storage, job, dies=True, after_put="/commits-")
    assert len(asked(late, "read", "/steps/")) == 3
    storage.clock.sleep(500)
    head = storage.commit(a="late")
    again = run_of(storage, job, dies=True, after_put="/commits-")
    assert not asked(again, "read", "/steps/")
    [last] = runs_of(storage, job)
    assert len(asked(last, "read", "/steps/")) == 1
    assert keys(storage, job, "branches")["main"] == head
    assert steps_of(storage) == []
    tables(storage, job)


def test_the_time_of_a_dump_counts_from_its_first_run(tmp_path: Path) -> None:
    """It is over in the middle of a later one, which then begins anew."""
    storage, job = cut_off(tmp_path, seconds_max=3_600)
    storage.clock.sleep(3_000)
    worker = Worker(storage, act=lambda: storage.clock.sleep(700))
    lake = worker.lake()
    worker.requests.clear()
    worker.at = 30
    World(lake).work(job, lake)
    assert status(storage, job).state is JobState.DONE
    assert worker.requests.count(("scan", "")) == 1 + 3
    tables(storage, job)


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
        assert not list(reader.metarange_damages(space(storage), MetarangeId(id)))


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


def test_steps_of_an_older_job_of_the_same_request_count_for_nothing(tmp_path: Path) -> None:
    """A worker died when its job had ended; days later the same is asked for again."""
    storage, job = cut_off(tmp_path)
    repo = storage.opened
    record.end(repo, job, Ending(JobState.DONE))
    storage.wait(3 * DAY)
    janitor.sweep(repo)
    names.create_branch(repo, "late", storage.commit(a="late"))
    left = steps_of(storage)
    again = ordered(storage)
    assert again != job and len(left) == 3
    [worker] = runs_of(storage, again)
    assert not asked(worker, "read", "/steps/")
    heads = {name: names.get_branch(repo, name).branch.commit for name in ("main", "late")}
    assert keys(storage, again, "branches").items() >= heads.items()
    assert heads["late"] in keys(storage, again, "commits")
    assert steps_of(storage) == left  # the next collection removes them


def test_a_step_that_nobody_wrote_is_none(tmp_path: Path) -> None:
    whole, first, _ = undisturbed(tmp_path)
    storage, job = cut_off(tmp_path)
    folder = f"{storage.repo.namespace}/_graveler/steps/{folder_of(storage, job)}"
    storage.blocks.put(f"{folder}/commits-x.json.gz", [b""])
    runs_of(storage, job)
    assert tables(storage, job) == tables(whole, first)


def test_a_small_dump_keeps_no_steps(tmp_path: Path) -> None:
    storage = grown(tmp_path)
    storage.change_settings(step_row_count=limits.step_row_count)
    worker = run_of(storage, ordered(storage))
    asked_of = [verb for verb, address in worker.requests if "/steps/" in address]
    assert asked_of == ["list", "list"]
