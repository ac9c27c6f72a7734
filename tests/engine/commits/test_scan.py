"""Commits on a branch with many sealed tokens, as resets and failed commits leave them."""

import pytest

from graveler.core import limits
from graveler.core.errors import Conflict, Contended, NoChanges, Unavailable
from graveler.core.ids import BranchId, CommitId
from graveler.engine.bulk import job
from graveler.engine.bulk.job import Mode, NewBulk
from graveler.engine.commits import heads, log, reset
from graveler.engine.commits.search import Once
from tests.engine.lake import Lake
from tests.support.faults import Fault, FaultyStore
from tests.support.interposer import Script

MAIN = BranchId("main")


def _messages(lake: Lake) -> list[str]:
    entries, _ = log.log(lake.opened, "main", log.LogRequest(amount=1_000))
    return [entry.commit.message for entry in entries][:-1]


def _reset_path(lake: Lake, path: str) -> None:
    lake.put(path, "1")
    reset.reset_path(lake.opened, "main", path)


def _fill(lake: Lake) -> None:
    """Commits that end after their seal, until the branch bears no more of them."""
    broken = lake.with_kv(
        lambda kv: FaultyStore(
            kv, lambda _, verb: Fault.REFUSED if verb == "set_many" else Fault.NONE
        )
    )
    for number in range(limits.sealed_token_count_max + 3):
        lake.put("a", str(number))
        with pytest.raises(Unavailable):
            broken.commit()
    assert len(lake.record().sealed) == limits.sealed_token_count_max


@pytest.mark.parametrize("resets", [32, limits.reset_token_count_max // 2])
@pytest.mark.parametrize("late", [False, True])
def test_a_commit_after_many_resets_is_one_commit(lake: Lake, resets: int, late: bool) -> None:
    lake.put("a", "1")
    for number in range(resets):
        _reset_path(lake, f"r/{number}")
    if late:
        lake.put("b", "1")
    made = lake.commit("mine")
    assert made.id == lake.head() and _messages(lake) == ["mine"]
    assert lake.tree() == ({"a": "1", "b": "1"} if late else {"a": "1"})
    assert lake.record().sealed == ()


def test_a_cluster_commits_after_many_resets(lake: Lake) -> None:
    lake.put("a", "1")
    for number in range(32):
        _reset_path(lake, f"r/{number}")
    new = NewBulk(Mode.COMMIT)
    assert len(job.begin(lake.opened, "main", new).tokens) == 65


def test_commits_that_keep_failing_seal_no_more_than_a_record_holds(lake: Lake) -> None:
    _fill(lake)
    lake.put("b", "1")
    made = lake.commit("mine")
    assert made.id == lake.head() and _messages(lake) == ["mine", "mine"]
    assert lake.tree()["b"] == "1" and lake.uncommitted() == []


def test_at_the_bound_a_commit_with_nothing_in_the_open_token_is_one(lake: Lake) -> None:
    _fill(lake)
    lake.ports.kv.delete(*_open_row(lake, "a"))
    made = lake.commit("mine", allow_empty=True)
    assert made.id == lake.head() and _messages(lake) == ["mine"]


def _open_row(lake: Lake, path: str) -> tuple[bytes, list[bytes]]:
    return f"s/{lake.record().staging}/0".encode(), [path.encode()]


def test_at_the_bound_rows_that_say_nothing_do_not_hide_the_first_commit(lake: Lake) -> None:
    _fill(lake)
    value = str(limits.sealed_token_count_max)  # it came late into the token sealed last, too
    lake.put("a", value)
    made = lake.commit("mine")
    assert made.id == lake.head() and _messages(lake) == ["mine"]
    assert lake.tree() == {"a": value}


def test_at_the_bound_a_mark_is_that_of_the_commit_that_holds_everything(lake: Lake) -> None:
    _fill(lake)
    lake.put("b", "1")
    once = Once("job", "7", CommitId(lake.head()))
    made = lake.commit("mine", metadata={"job": "7", "x": "y"}, once=once)
    assert lake.commit("mine", metadata={"job": "7"}, once=once).id == made.id
    entries, _ = log.log(lake.opened, "main", log.LogRequest())
    assert [entry.commit.metadata.get("job", "") for entry in entries] == ["7", "", ""]
    assert "b" in lake.tree(made.id)


def test_at_the_bound_nothing_new_is_no_changes(lake: Lake) -> None:
    lake.commit_of(a="1")
    for _ in range(limits.sealed_token_count_max):
        lake.put("a", "1")
        job.begin(lake.opened, "main", NewBulk(Mode.COMMIT))
    lake.put("a", "1")
    with pytest.raises(NoChanges):
        lake.commit()
    assert lake.record().sealed == ()


def test_at_the_bound_a_commit_that_loses_every_try_seals_nothing(lake: Lake) -> None:
    _fill(lake)
    lake.put("b", "1")

    swaps: list[str] = []

    def plan(_: int, request: str) -> Fault:
        swaps.extend([request] if request == "set_if" else [])
        if request == "set_if" and len(swaps) <= limits.commit_round_count_max:
            # Another client replaces the record first.
            seen = heads.fresh(lake.opened, MAIN)
            other = seen.branch._replace(rev=seen.branch.rev + 1)
            assert heads.swap(lake.opened, MAIN, seen, other) is not None
        return Fault.NONE

    with pytest.raises(Contended):
        lake.with_kv(lambda kv: FaultyStore(kv, plan)).commit()
    assert len(lake.record().sealed) == limits.sealed_token_count_max
    assert lake.commit("mine").id == lake.head() and lake.tree()["b"] == "1"


def test_at_the_bound_a_reset_between_the_folds_leaves_nothing(
    lake: Lake, scripted: tuple[Lake, Script]
) -> None:
    _fill(lake)
    mine, script = scripted
    script.before("set_many", lambda: reset.reset(lake.opened, "main"))
    with pytest.raises((NoChanges, Conflict)):
        mine.commit()
    assert script.finished and lake.tree() == {}
