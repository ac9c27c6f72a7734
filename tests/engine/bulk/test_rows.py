"""Bulk jobs that commit: the rows that a cluster has scanned leave the branch as they land."""

from contextlib import suppress
from typing import Any

import pytest

from graveler.committed.apply import apply
from graveler.core import limits
from graveler.core.errors import Conflict, NoChanges, Unavailable
from graveler.core.ids import BranchId, CommitId, MetarangeId
from graveler.core.records import Entry
from graveler.engine import staged_rows
from graveler.engine.bulk import job as bulk
from graveler.engine.bulk.job import Bulk, Mode
from graveler.engine.commits import heads, log, reset
from graveler.engine.objects import write
from graveler.engine.ports import keyspace
from tests.engine.bulk_world import MAIN, begin, finish, landings, status
from tests.engine.lake import Lake, new_lake
from tests.support.faults import Fault, FaultyStore


def scanned(lake: Lake, job: Bulk) -> MetarangeId:
    """What a cluster makes of a commit's base and of the rows that stand in its tokens."""
    rows: dict[bytes, Any] = {}
    for token in reversed(job.tokens):
        for shard in range(token.shards):
            after, more = "", True
            while more:
                page = staged_rows.page(lake.opened, MAIN, token.token, shard, after, 2)
                rows |= {path.encode(): row.value for path, row in page.rows}
                more, after = page.more, page.rows[-1][0] if page.rows else ""
    base = job.base.commit.metarange
    return apply(keyspace(lake.opened), base, sorted(rows.items())).metarange_id


@pytest.fixture(params=[1, 3], ids=["one shard", "shards"])
def staged(request: pytest.FixtureRequest) -> Lake:
    """Something committed, something staged on top."""
    lake = new_lake(request.param)
    lake.commit_of(**{"a": "1", "b": "1", "c": "1"})
    for path, identity in {"a": "2", "new": "2", "x/1": "2", "x/2": "2"}.items():
        lake.put(path, identity)
    lake.delete("b")
    return lake


STAGED = {"a": "2", "c": "1", "new": "2", "x/1": "2", "x/2": "2"}


def test_a_commit_takes_in_what_was_staged_before_it_began(staged: Lake) -> None:
    job = begin(staged, Mode.COMMIT)
    assert all(token.sealed for token in job.tokens) and len(job.tokens) == 1
    staged.put("later", "3")
    metarange = scanned(staged, job)
    made = finish(staged, job, metarange)
    assert staged.tree(made) == STAGED
    assert staged.tree() == {**STAGED, "later": "3"}
    assert staged.uncommitted() == [("added", "later")]
    assert staged.record().sealed == ()
    assert finish(staged.another_process(), job, metarange) == made
    staged.commit_of(z="1")
    assert staged.tree()["later"] == "3" and staged.head() != made


def test_a_commit_lands_on_a_head_that_others_moved(staged: Lake) -> None:
    staged.branch("side")
    staged.put("c", "1")  # says what the base says; to be said again on a head that says otherwise
    job = begin(staged, Mode.COMMIT)
    metarange = scanned(staged, job)
    staged.commit_of("side", **{"c": "9", "a": "9", "o": "9"})
    other = put_on_side(staged)
    assert staged.head() == other
    made = finish(staged, job, metarange)
    assert staged.tree(made) == {**STAGED, "o": "9"} == staged.tree()
    assert log.get_commit(staged.opened, made).commit.parents == (other,)


def put_on_side(lake: Lake) -> str:
    """Put the branch on what `side` says, by hand: while rows are staged no verb does so."""
    side = lake.head("side")
    seen = heads.fresh(lake.opened, BranchId(MAIN))
    wanted = seen.branch._replace(rev=seen.branch.rev + 1, commit=CommitId(side))
    assert heads.swap(lake.opened, BranchId(MAIN), seen, wanted)
    return side


def test_a_commit_that_somebody_else_made_is_the_answer(staged: Lake) -> None:
    job = begin(staged, Mode.COMMIT)
    metarange = scanned(staged, job)
    theirs = staged.another_process().commit_of(late="3")
    assert finish(staged, job, metarange) == theirs
    assert status(staged, job).job.commit == theirs
    assert staged.tree() == {**STAGED, "late": "3"}


def test_a_commit_whose_rows_were_reset_is_refused(staged: Lake) -> None:
    job = begin(staged, Mode.COMMIT)
    metarange = scanned(staged, job)
    reset.reset(staged.opened, MAIN)
    with pytest.raises(Conflict, match="reset during the commit"):
        finish(staged, job, metarange)
    assert staged.tree() == {"a": "1", "b": "1", "c": "1"}


def test_a_commit_of_nothing(lake: Lake) -> None:
    lake.commit_of(a="1")
    with pytest.raises(NoChanges):
        begin(lake, Mode.COMMIT)
    lake.put("a", "1")
    job = begin(lake, Mode.COMMIT)
    head = lake.head()
    with pytest.raises(NoChanges):
        finish(lake, job, scanned(lake, job))
    assert lake.head() == head and lake.record().sealed == ()
    with pytest.raises(Conflict, match="failed"):
        finish(lake, job, job.base.commit.metarange)


def test_a_commit_that_others_began_as_well_takes_in_both(staged: Lake) -> None:
    one = begin(staged, Mode.COMMIT)
    staged.put("later", "3")
    two = begin(staged, Mode.COMMIT)
    assert len(two.tokens) == 2
    first, second = scanned(staged, one), scanned(staged, two)
    made = finish(staged, two, second)
    assert finish(staged, one, first) == made
    assert staged.tree(made) == {**STAGED, "later": "3"}


def test_part_of_what_was_scanned_is_begun_anew(staged: Lake) -> None:
    one = begin(staged, Mode.COMMIT)
    staged.put("later", "3")
    two = begin(staged, Mode.COMMIT)
    first, second = scanned(staged, one), scanned(staged, two)
    finish(staged, one, first)
    with pytest.raises(Conflict, match="begin again"):
        finish(staged, two, second)
    assert staged.tree() == {**STAGED, "later": "3"}
    bulk.cancel(staged.opened, MAIN, two.job.id)
    again = begin(staged, Mode.COMMIT)
    assert staged.tree(finish(staged, again, scanned(staged, again))) == staged.tree()


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.DROPPED, Fault.REFUSED])
def test_whichever_call_fails_the_same_request_commits_once(fault: Fault) -> None:
    for number in range(1, 40):
        lake = new_lake()
        lake.commit_of(a="1")
        lake.put("b", "2")
        job = begin(lake, Mode.COMMIT)
        metarange = scanned(lake, job)

        def plan(at: int, _: str, number: int = number) -> Fault:
            return fault if at == number else Fault.NONE

        with_fault = lake.with_kv(lambda kv, plan=plan: FaultyStore(kv, plan))  # type: ignore[misc]
        made = ""
        with suppress(Unavailable):
            made = finish(with_fault, job, metarange)
        again = finish(lake.another_process(), job, metarange)
        assert made in ("", again)
        assert landings(lake) == 1 and lake.tree() == {"a": "1", "b": "2"}
        assert lake.record().sealed == ()


def test_so_much_is_sealed_that_a_commit_must_come_first(lake: Lake) -> None:
    for number in range(limits.sealed_token_count_max):
        lake.put("a", str(number))
        begin(lake, Mode.COMMIT)
    lake.put("a", "last")
    with pytest.raises(Conflict, match="commit first"):
        begin(lake, Mode.COMMIT)
    lake.commit()
    assert lake.tree() == {"a": "last"}


def test_a_page_of_large_rows_is_cut_short(lake: Lake) -> None:
    large = Entry("data/1", 1, "1", 1, metadata={"key": "v" * 8_000})
    count = 3 * limits.bulk_page_bytes_max // 8_000
    paths = [f"p/{number:04}" for number in range(count)]
    for path in paths:
        write.stage(lake.opened, "main", path, large)
    lake.delete("p/0003")
    (token,) = staged_rows.tokens(lake.opened, MAIN)
    found: list[str] = []
    after, more, pages = "", True, 0
    while more:
        page = staged_rows.page(lake.opened, MAIN, token.token, 0, after, 1_000)
        found += [path for path, _ in page.rows]
        after, more, pages = found[-1], page.more, pages + 1
    assert found == paths and pages > 3
