"""Commits of more rows than one process may scan: a bulk job waits for a cluster to make them."""

from collections.abc import Callable
from dataclasses import replace
from math import inf

import pytest

from graveler import assembly
from graveler.core import limits
from graveler.core.errors import Conflict, HandedOver, NoChanges, Unavailable
from graveler.core.ids import BranchId, CommitId, StagingToken
from graveler.core.records import CommitEntry
from graveler.core.requests import Counts, counted_store
from graveler.engine.bulk import job as bulk
from graveler.engine.bulk import job as handover
from graveler.engine.bulk import land
from graveler.engine.bulk.job import Bulk, Mode
from graveler.engine.bulk.land import Finish
from graveler.engine.commits import reset, search
from graveler.engine.commits.commit import Once
from graveler.engine.repositories import repository
from tests.engine.bulk.test_rows import scanned
from tests.engine.bulk_world import MAIN, begin, finish, landings, status
from tests.engine.lake import Lake
from tests.support.clockwork import SeededIds, TickingClock
from tests.support.faults import Fault, FaultyStore, nth

ROWS_MAX = 3
PATHS = {"a": "1", "b": "1", "c": "1", "d": "1"}


def bounded(lake: Lake, rows_max: float = ROWS_MAX) -> Lake:
    """The same store, whose commits scan so many rows."""
    return lake.with_settings(commit_rows_max=rows_max)


@pytest.fixture(params=[1, 3], ids=["one shard", "shards"])
def lake(request: pytest.FixtureRequest) -> Lake:
    """Something committed; by a clock that moves when it is told to."""
    ports = assembly.open_memory(TickingClock(), SeededIds(1))
    new = repository.NewRepository("lake", "mem://bucket/lake", staging_shards=request.param)
    made = Lake(ports, repository.create(ports, new))
    made.commit_of(old="1")
    return bounded(made)


def staged(lake: Lake) -> Lake:
    """One row too many."""
    for path, identity in PATHS.items():
        lake.put(path, identity)
    return lake


def handed_over(lake: Lake) -> Bulk:
    """The job that a commit names, of a branch that looks as before."""
    head, tree, uncommitted = lake.head(), lake.tree(), lake.uncommitted()
    with pytest.raises(HandedOver, match=r"graveler\.spark\.commit") as caught:
        lake.commit("asked", metadata={"k": "v"})
    assert f'"lake/main", job="{caught.value.job}")' in str(caught.value)
    assert (lake.head(), lake.tree(), lake.uncommitted()) == (head, tree, uncommitted)
    return bulk.status(lake.opened, MAIN, caught.value.job)


def test_so_many_rows_are_committed_and_one_more_is_handed_over(lake: Lake) -> None:
    for number in range(ROWS_MAX):
        lake.put(f"p/{number}", "1")
    lake.commit()
    job = handed_over(staged(lake))
    assert job.mode is Mode.COMMIT and job.base.id == lake.head()
    assert (job.new.message, job.new.metadata) == ("asked", {"k": "v"})
    assert [each.token for each in job.tokens] == list(lake.record().sealed)


def test_rows_are_those_of_all_tokens_and_deletions_count(lake: Lake) -> None:
    lake.put("a", "1")
    lake.put("b", "1")
    begin(lake, Mode.COMMIT)
    lake.put("a", "2")
    lake.delete("b")
    assert len(handed_over(lake).tokens) == 2


def test_a_cluster_makes_the_commit_and_commits_go_on(lake: Lake) -> None:
    job = handed_over(staged(lake))
    lake.put("later", "2")
    made = finish(lake, job, scanned(lake, job))
    assert lake.tree(made) == {"old": "1", **PATHS}
    assert lake.uncommitted() == [("added", "later")]
    assert lake.commit().commit.parents == (made,)
    assert lake.tree() == {"old": "1", **PATHS, "later": "2"}


def test_who_asks_again_is_told_of_the_same_job_and_nothing_more_is_sealed(lake: Lake) -> None:
    job = handed_over(staged(lake))
    record = lake.record()
    lake.put("later", "2")
    for seen in (lake, lake.another_process()):
        assert handed_over(seen).job == job.job
        with pytest.raises(HandedOver):
            seen.commit("other", allow_empty=True)
    assert lake.record() == record


def test_what_it_costs_to_hand_over_and_to_be_told_again() -> None:
    counts = Counts()
    ports = assembly.open_memory(TickingClock(), SeededIds(1))
    ports = replace(ports, kv=counted_store(ports.kv, counts))
    new = repository.NewRepository("lake", "mem://bucket/lake")
    lake = bounded(Lake(ports, repository.create(ports, new)))
    lake.commit_of(old="1")
    staged(lake)

    def cost() -> dict[str, int]:
        before = counts.snapshot()
        with pytest.raises(HandedOver):
            lake.commit()
        return dict(counts.since(before))

    # record; is there a row; seal; the rows; is there a job; the job with its order
    assert cost() == {"get": 1, "scan": 3, "set_if": 2}
    assert cost() == {"get": 1, "scan": 1}


@pytest.mark.parametrize("end", ["cancelled", "expired"])
def test_a_job_that_cannot_land_is_followed_by_another(lake: Lake, end: str) -> None:
    first = handed_over(staged(lake))
    if end == "cancelled":
        bulk.cancel(lake.opened, MAIN, first.job.id)
    else:
        lake.ports.clock.sleep(limits.import_seconds_max)
    second = handed_over(lake)
    assert second.job.id != first.job.id and set(first.tokens) <= set(second.tokens)
    with pytest.raises(Conflict, match=end):
        finish(lake, first, scanned(lake, first))
    assert lake.tree(finish(lake, second, scanned(lake, second))) == {"old": "1", **PATHS}


def test_without_a_bound_the_commit_is_made_and_the_job_finds_it(lake: Lake) -> None:
    job = handed_over(staged(lake))
    metarange = scanned(lake, job)
    made = bounded(lake, inf).commit()
    assert lake.tree(made.id) == {"old": "1", **PATHS}
    lake.commit_of(next="1")
    assert finish(lake, job, metarange) == made.id
    assert status(lake, job).job.commit == made.id and landings(lake) == 0


def test_two_who_hand_over_at_the_same_time_name_one_job(lake: Lake) -> None:
    staged(lake)
    told: list[str] = []

    def commit(seen: Lake) -> None:
        with pytest.raises(HandedOver) as caught:
            seen.commit()
        told.append(caught.value.job)

    mine, script = lake.interposed()
    script.before("set_if", lambda: commit(lake.another_process()), 2)  # the job's
    commit(mine)
    assert script.finished and len(set(told)) == 1
    job = bulk.status(lake.opened, MAIN, told[0])
    finish(lake, job, scanned(lake, job))
    assert lake.tree() == {"old": "1", **PATHS} and lake.uncommitted() == []


def test_one_who_is_told_late_is_told_of_the_job_that_was_begun_meanwhile(lake: Lake) -> None:
    staged(lake)
    told: list[str] = []

    def rival() -> None:
        told.append(handed_over(lake.another_process()).job.id)

    mine, script = lake.interposed()
    script.after("set_if", rival, 1)  # sealed, and not looked for a job yet
    with pytest.raises(HandedOver) as caught:
        mine.commit()
    assert told == [caught.value.job]


def test_a_branch_full_of_sealed_tokens_is_handed_over(lake: Lake) -> None:
    for number in range(limits.sealed_token_count_max):
        lake.put("a", str(number))
        begin(lake, Mode.COMMIT)
    job = handed_over(lake)
    assert len(job.tokens) == limits.sealed_token_count_max
    made = finish(lake, job, scanned(lake, job))
    assert lake.tree(made)["a"] == str(limits.sealed_token_count_max - 1)


def test_a_commit_that_is_to_be_made_once_is_found_by_its_mark(lake: Lake) -> None:
    once = Once("batch", "7", CommitId(lake.head()))
    staged(lake)

    def commit() -> CommitEntry:
        return lake.commit(metadata={"batch": "7"}, once=once)

    with pytest.raises(HandedOver) as caught:
        commit()
    job = bulk.status(lake.opened, MAIN, caught.value.job)
    asked = Finish(scanned(lake, job), "r", job.new.message, "spark", job.new.metadata)
    made = land.finish(lake.opened, MAIN, job.job.id, asked)
    assert commit().id == made.id


def test_whichever_call_fails_one_job_is_begun_and_it_lands_once() -> None:
    for number in range(1, 12):
        for fault in (Fault.LOST, Fault.DROPPED, Fault.REFUSED):
            ports = assembly.open_memory(TickingClock(), SeededIds(1))
            new = repository.NewRepository("lake", "mem://bucket/lake")
            lake = staged(bounded(Lake(ports, repository.create(ports, new))))
            plan = nth({number: fault})
            with pytest.raises(Unavailable):
                lake.with_kv(lambda kv, plan=plan: FaultyStore(kv, plan)).commit()  # type: ignore[misc]
            job = handed_over(lake)
            assert job.job.id.endswith("-000000")
            finish(lake, job, scanned(lake, job))
            assert landings(lake) == 1 and lake.tree() == PATHS


def test_who_holds_a_token(lake: Lake) -> None:
    since = CommitId(lake.head())

    def holder(token: StagingToken) -> object:
        return search.holder(lake.opened, BranchId(MAIN), token, since)

    lake.put("a", "1")
    token = lake.record().staging
    assert holder(token) is handover.ABSENT
    made = lake.commit()
    assert holder(token) == made
    lake.commit_of(b="1")
    assert holder(token) == made


def test_nobody_holds_what_said_nothing_or_was_reset(lake: Lake) -> None:
    since = CommitId(lake.head())
    calls: list[tuple[type[Exception], Callable[[], object]]] = [
        (NoChanges, lake.commit),
        (Conflict, lambda: reset.reset(lake.opened, MAIN)),
    ]
    for kind, end in calls:
        lake.put("old", "1")
        token = lake.record().staging
        if kind is NoChanges:
            with pytest.raises(NoChanges):
                end()
        else:
            end()
        with pytest.raises(kind):
            search.holder(lake.opened, BranchId(MAIN), token, since)
