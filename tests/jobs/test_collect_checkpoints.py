"""Collections that are cut off go on where they were, and find what one run would have found."""

from collections.abc import Callable
from pathlib import Path

import pytest

from graveler.core.errors import NotFound
from graveler.core.records import ABSENT, JobState
from graveler.engine import names
from graveler.engine.commits import reset
from graveler.engine.gc import collect, retention
from graveler.engine.objects import copies
from graveler.engine.objects import read as object_reads
from graveler.engine.repositories import verify
from graveler.refs import commits
from graveler.refs.garbage import Retention
from tests.engine.storage import DAY, Storage
from tests.jobs.aged import (
    aged,
    cut_behind,
    due,
    lines,
    metaranges_in_use,
    ordered,
    puts,
    reads,
    tables_in_use,
    totals,
    undisturbed,
)
from tests.jobs.cut_off import folder_of, result_of, run_of, runs_of, status, steps_of

# ---- the same result -----------------------------------------------------------------------------


@pytest.mark.parametrize(("dies", "dry_run"), [(True, False), (False, False), (True, True)])
def test_a_collection_cut_off_anywhere_finds_what_one_run_finds(
    tmp_path: Path, dies: bool, dry_run: bool
) -> None:
    whole, first, worker = undisturbed(tmp_path, dry_run=dry_run)
    assert steps_of(whole) == []
    for at in range(1, len(worker.requests) + 1, 5):
        storage = aged(tmp_path)
        job = ordered(storage, dry_run=dry_run)
        run_of(storage, job, at, dies=dies)
        runs_of(storage, job)
        ended = status(storage, job)
        assert ended.state is JobState.DONE, (at, ended)
        assert storage.stored() == whole.stored(), at
        noted = collect.list_runs(storage.opened)
        assert len(noted) == (0 if dry_run else 1), at
        if dry_run or result_of(storage, job)["run"]:  # else it died when it had just noted it
            assert totals(storage, job) == totals(whole, first), at
            assert lines(storage, job) == lines(whole, first), at
        if steps_of(storage):  # it died while it tidied up
            runs_of(storage, ordered(storage))
        assert steps_of(storage) == [], at


@pytest.mark.parametrize("dies", [True, False])
def test_workers_that_never_have_time_for_all_finish(tmp_path: Path, dies: bool) -> None:
    cut = cut_behind(tmp_path, "/uses-", dry_run=True, step_rows=2)
    whole, first = cut.whole, cut.first
    used, last = tables_in_use(whole), run_of(cut.storage, cut.job)
    least = len(last.requests) - len(puts(cut.undisturbed, "/steps/"))  # all is read, none removed
    for more in (4, 20):
        storage = aged(tmp_path, step_rows=2)
        job = ordered(storage, dry_run=True)
        workers = runs_of(storage, job, least + more, dies=dies)
        assert status(storage, job).state is JobState.DONE, status(storage, job)
        assert totals(storage, job) == totals(whole, first), more
        assert lines(storage, job) == lines(whole, first), more
        assert len(workers) >= 2, more
        assert reads(workers, used).total() < len(used) + len(workers), more


@pytest.mark.parametrize("dies", [True, False])
@pytest.mark.parametrize(("part", "least"), [("/uses-", 13), ("/metaranges-", 6), ("/listed-", 13)])
def test_cut_off_after_every_step_each_file_is_listed_and_each_table_read_once(
    tmp_path: Path, dies: bool, part: str, least: int
) -> None:
    whole, first, worker = undisturbed(tmp_path, step_rows=2, page_max=2)  # each table is a step
    used, storage = tables_in_use(whole), aged(tmp_path, step_rows=2, page_max=2)
    job = ordered(storage)
    workers = runs_of(storage, job, dies=dies, after_put=part)
    assert len(workers) == len(puts(worker, part)) + 1 > least  # more than may add nothing
    assert totals(storage, job) == totals(whole, first)
    assert lines(storage, job) == lines(whole, first)
    assert reads(workers, used) == dict.fromkeys(used, 1)
    assert storage.stored() == whole.stored() and steps_of(storage) == []


def test_a_second_run_lists_and_reads_only_what_no_step_has(
    tmp_path: Path,
) -> None:
    for part in ("/listed-", "/uses-"):
        cut = cut_behind(tmp_path, part, step_rows=2)
        storage, job = cut.storage, cut.job
        steps = steps_of(storage)
        second = run_of(storage, job)
        asked = [(verb, address) for verb, address in second.requests if "/steps/" in address]
        folder = f"{storage.repo.namespace}/_graveler/steps/"
        assert asked[0] == ("list", f"{folder}{folder_of(storage, job)}/")
        assert asked[1] == ("list", folder)
        read = [address.removeprefix(folder) for verb, address in asked if verb == "read"]
        assert read == steps and len(steps) > 10
        listed = [
            address
            for verb, address in second.requests
            if verb == "list" and "/_graveler/" not in address
        ]
        assert len(listed) == 1 and listed[0].endswith("/data/")
        if part == "/uses-":
            assert not second.read() & tables_in_use(storage)
            assert not [
                name for verb, name in second.requests if verb == "put" and "/steps/" in name
            ]


def test_files_that_are_no_metaranges_are_not_looked_into_again(
    tmp_path: Path,
) -> None:
    cut = cut_behind(tmp_path, "/metaranges-", step_rows=1)
    orphans = cut.undisturbed.read() - tables_in_use(cut.whole)
    found = lines(cut.whole, cut.first)
    said = {each["address"].rpartition("/")[2]: each for each in found}
    kinds = {id: (said[id]["kind"], said[id]["reason"]) for id in orphans}
    assert sorted(kinds.values()) == [
        ("metarange", "expired"),
        ("range", "expired"),  # which that metarange names
        ("range", "unused"),
    ]
    [second] = runs_of(cut.storage, cut.job)
    named = {id for id, kind in kinds.items() if kind == ("range", "expired")}
    assert not second.read() & (orphans - named | metaranges_in_use(cut.storage))
    cut.check_same()


# ---- what happens between the runs ---------------------------------------------------------------


def _commit(storage: Storage, old: str) -> None:
    storage.commit(a0="between", new="between")


def _branch(storage: Storage, old: str) -> None:
    names.create_branch(storage.opened, "saved", old)


def _stage(storage: Storage, old: str) -> None:
    source = copies.Source(old, "b1")
    copies.copy(storage.opened, "main", "copied", source)


def _hard_reset(storage: Storage, old: str) -> None:
    reset.hard_reset(storage.opened, "main", old)


def _longer_rule(storage: Storage, old: str) -> None:
    retention.set_rule(storage.opened, Retention(default_days=100))


ACTS = [_commit, _branch, _stage, _hard_reset, _longer_rule]


@pytest.mark.parametrize("act", ACTS)
def test_what_is_used_between_the_runs_is_kept(
    tmp_path: Path, act: Callable[[Storage, str], None]
) -> None:
    _, _, worker = undisturbed(tmp_path)
    first, last = puts(worker, "/listed-")[0], puts(worker, "/uses-")[-1]
    for at in range(first, last + 2, 9):
        storage = aged(tmp_path)
        old = next(
            entry.id
            for entry in commits.list_all(storage.ports.kv, storage.repo)
            if "'b1': '1'" in entry.commit.message
        )
        job = ordered(storage)
        run_of(storage, job, at, dies=True)
        act(storage.restarted(), old)
        heads = contents(storage)
        runs_of(storage, job)
        storage.wait(DAY)
        runs_of(storage, ordered(storage))
        fresh = storage.restarted()
        assert contents(fresh) == heads, at
        if act in (_branch, _hard_reset, _longer_rule):
            assert fresh.read(old, "b1") == b"1", at
        assert not list(verify.verify(fresh.ports, objects=True)), at


def test_what_expires_between_the_runs_goes_although_an_earlier_one_would_have_kept_it(
    tmp_path: Path,
) -> None:
    """A step says what a range names, never that it is to be kept."""
    whole, first, worker = undisturbed(tmp_path)
    storage = aged(tmp_path)
    retention.set_rule(storage.opened, Retention(default_days=100))
    job = ordered(storage)
    run_of(storage, job, puts(worker, "/uses-")[-1] + 1, dies=True)
    retention.set_rule(storage.opened, Retention(default_days=7))
    [second] = runs_of(storage, job)
    assert lines(storage, job) == lines(whole, first) != []
    assert len(second.read() & tables_in_use(storage)) <= 2  # of the step that was not full


def test_another_collection_that_deletes_meanwhile_does_no_harm(tmp_path: Path) -> None:
    """As one without a job, from the command line."""
    whole, first = due(tmp_path)
    [worker] = runs_of(whole, first)
    storage, job = due(tmp_path)
    run_of(storage, job, puts(worker, "/closed-")[0], dies=True)
    storage.collect()
    assert storage.stored() == whole.stored()
    heads = contents(storage)
    runs_of(storage, job)
    storage.wait(DAY)
    runs_of(storage, ordered(storage))
    assert contents(storage.restarted()) == heads and storage.stored() == whole.stored()


def contents(storage: Storage) -> dict[tuple[str, str], bytes]:
    """The bytes of every path of every branch."""
    found = {}
    repo = storage.opened
    for branch in ("main", "saved"):
        try:
            page = object_reads.list_objects(repo, branch, object_reads.ListQuery(amount=1_000))
        except NotFound:
            continue
        for path, entry in page.lines:
            if entry is not ABSENT:
                found[branch, path] = storage.read(branch, path)
    return found
