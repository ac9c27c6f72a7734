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
    ordered,
    puts,
    reads,
    tables_in_use,
    totals,
    undisturbed,
)
from tests.jobs.cut_off import result_of, run_of, runs_of, status, steps_of

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
