"""What another client does between two requests of a commit or a merge: the protocol's traps.

The rival acts through ports with caches of its own, at an exact point of the verb under test.
"""

import contextlib

import pytest

from graveler.core.errors import Conflict, DirtyBranch, NoChanges, NotFound
from graveler.core.ids import BranchId, CommitId
from graveler.engine import names
from graveler.engine.commits import reset
from graveler.engine.commits.search import holder
from tests.engine.lake import Lake
from tests.support.interposer import Script

# --- committers against everybody ---


def test_a_commit_that_another_one_took_along_is_answered_with_that_one(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    mine, script = scripted
    lake.put("a", "1")
    theirs = []
    script.before("set_many", lambda: theirs.append(rival.commit("theirs")))
    made = mine.commit("mine")
    assert script.finished
    assert made.id == theirs[0].id
    assert lake.tree("main@") == {"a": "1"} and lake.record().sealed == ()


def test_a_commit_between_seal_and_swap_makes_the_other_build_on_it(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    """The other takes my sealed token and more; what was sealed after mine stays for the next."""
    mine, script = scripted
    lake.put("a", "1")
    script.after("set_if", lambda: rival.commit_of(b="2"))
    made = mine.commit("mine")
    assert lake.tree("main@") == {"a": "1", "b": "2"}
    assert lake.tree(made.id) == {"a": "1", "b": "2"}


def test_a_merge_between_seal_and_swap_is_not_undone_by_the_commit(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    """What is staged equals the head, so the merge may land; the commit is built again on it."""
    lake.commit_of(a="1", b="1")
    lake.branch("dev")
    lake.commit_of("dev", a="2")
    lake.put("b", "1")
    mine, script = scripted
    script.after("set_if", lambda: rival.merge("dev"))
    taken_along = mine.commit("nothing of its own")
    assert taken_along.id == lake.head(), "the merge holds all that was staged"
    assert lake.tree() == lake.tree("main@") == {"a": "2", "b": "1"}


def test_a_change_that_cancels_out_against_the_old_head_is_kept_on_the_new_one(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    """a0 -> a3 by another commit, while this one holds "a0" as a change that says nothing."""
    lake.commit_of(a="0")
    mine, script = scripted
    lake.put("a", "0")
    lake.put("b", "1")

    def rebase() -> None:
        rival.put("a", "3")
        rival.commit("three")

    script.before("set_many", rebase)
    mine.commit("mine")
    assert lake.tree() == {"a": "3", "b": "1"}
    assert lake.tree("main@") == {"a": "3", "b": "1"}


def test_a_commit_that_sees_nothing_staged_looks_again_before_it_says_so(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    """Written and sealed by another after its look: its second read tells."""
    lake.commit_of(a="0")
    mine, script = scripted

    def write_and_seal() -> None:
        rival.put("a", "3")
        reset.reset_path(rival.opened, "main", "a")
        rival.put("a", "4")

    script.after("scan", write_and_seal)
    made = mine.commit("mine")
    assert lake.tree(made.id) == {"a": "4"}


def test_no_changes_is_only_answered_of_the_head_as_it_is(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    """a0 is staged where a0 is committed; another commits a3 below it before the answer."""
    lake.commit_of(a="0")
    lake.put("a", "0")
    mine, script = scripted

    def seal_and_commit() -> None:
        rival.put("a", "3")
        rival.commit("three")

    script.before("set_many", seal_and_commit)
    with contextlib.suppress(NoChanges):
        mine.commit("mine")
    assert lake.tree() == lake.tree("main@") == {"a": "3"}


def test_a_commit_whose_changes_were_reset_fails(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    lake.put("a", "1")
    mine, script = scripted
    script.after("set_if", lambda: reset.reset(rival.opened, "main"))
    before = lake.head()
    with pytest.raises(Conflict, match="reset"):
        mine.commit("mine")
    assert lake.head() == before and lake.tree() == {}


def test_a_commit_on_a_branch_that_was_made_again_fails(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    lake.branch("dev")
    lake.put("a", "1", "dev")
    mine, script = scripted

    def again() -> None:
        names.delete_branch(rival.opened, "dev")
        rival.branch("dev")

    script.after("set_if", again)
    with pytest.raises(Conflict):
        mine.commit("mine", "dev")
    assert lake.tree("dev") == {}


def test_a_commit_on_a_branch_that_was_deleted_is_not_found(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    lake.branch("dev")
    lake.put("a", "1", "dev")
    mine, script = scripted
    script.after("set_if", lambda: names.delete_branch(rival.opened, "dev"))
    with pytest.raises(NotFound):
        mine.commit("mine", "dev")


def test_two_commits_that_allow_empty_make_two_commits(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    mine, script = scripted
    theirs = []
    script.before(
        "set_if", lambda: theirs.append(rival.commit("same", allow_empty=True, created_ns=10**18))
    )
    made = mine.commit("same", allow_empty=True, created_ns=10**18)
    assert made.id != theirs[0].id
    assert lake.head() == made.id and made.commit.parents == (theirs[0].id,)


def test_writes_after_the_seal_stay_uncommitted(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    lake.put("a", "1")
    mine, script = scripted
    script.after("set_if", lambda: rival.put("b", "2"))
    made = mine.commit("mine")
    assert lake.tree(made.id) == {"a": "1"}
    assert lake.tree() == {"a": "1", "b": "2"}
    assert lake.uncommitted() == [("added", "b")]


def test_equal_commits_on_two_branches_within_one_second_keep_both_branches_changes(
    lake: Lake,
) -> None:
    """They share an id; each branch's tokens are on record all the same."""
    lake.branch("dev")
    at = 1_700_000_000 * 10**9
    for branch in ("main", "dev"):
        lake.put("a", "1", branch)
    one = lake.commit("same", "main", created_ns=at)
    other = lake.commit("same", "dev", created_ns=at + 5)
    same_value = one.commit.metarange == other.commit.metarange
    assert (one.id == other.id) == same_value
    for branch in ("main", "dev"):
        assert lake.tree(branch) == {"a": "1"}
        assert lake.record(branch).sealed == ()
        with pytest.raises(NoChanges):
            lake.commit("again", branch)


# --- merges ---


def test_a_write_between_the_look_and_the_swap_of_a_merge_stays(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    lake.commit_of(a="1")
    lake.branch("dev")
    lake.commit_of("dev", b="2")
    mine, script = scripted
    script.before("set_if", lambda: rival.put("c", "3"))
    mine.merge("dev")
    assert lake.tree() == {"a": "1", "b": "2", "c": "3"}
    assert lake.tree("main@") == {"a": "1", "b": "2"}


def test_a_staged_row_that_says_what_the_head_says_does_not_undo_a_merge(lake: Lake) -> None:
    lake.commit_of(a="1")
    lake.branch("dev")
    lake.commit_of("dev", a="2")
    lake.put("a", "1")
    assert lake.uncommitted() == []
    lake.merge("dev")
    assert lake.tree() == {"a": "2"}
    assert lake.uncommitted() == []


def test_a_write_while_a_merge_takes_off_rows_that_say_nothing_is_kept_or_refuses_the_merge(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    lake.commit_of(a="1")
    lake.branch("dev")
    lake.commit_of("dev", a="2")
    lake.put("a", "1")
    mine, script = scripted
    script.before("set_if", lambda: rival.put("x", "9"))
    with pytest.raises(DirtyBranch):
        mine.merge("dev")
    assert lake.tree() == {"a": "1", "x": "9"}


def test_a_merge_onto_a_head_that_moved_is_made_again(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    lake.commit_of(a="1")
    lake.branch("dev")
    lake.commit_of("dev", b="2")
    mine, script = scripted
    script.before("set_if", lambda: rival.commit_of(c="3"))
    mine.merge("dev")
    assert lake.tree("main@") == {"a": "1", "b": "2", "c": "3"}


def test_a_dirty_branch_refuses_a_merge_and_a_hard_reset_and_keeps_its_changes(
    lake: Lake,
) -> None:
    first = lake.commit_of(a="1")
    lake.branch("dev")
    lake.commit_of("dev", b="2")
    lake.put("c", "3")
    with pytest.raises(DirtyBranch):
        lake.merge("dev")
    with pytest.raises(DirtyBranch):
        reset.hard_reset(lake.opened, "main", first)
    assert lake.tree() == {"a": "1", "c": "3"}


def test_a_commit_beside_a_hard_reset_is_not_answered_with_an_older_commit(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    """Its row equals the head, so the reset may seal it.  The target has another value there."""
    lake.commit_of(a="v")
    lake.branch("other")
    lake.commit_of("other", a="z")
    target = lake.commit_of("other", b="2")
    lake.put("a", "v")
    mine, script = scripted
    script.before("set_if", lambda: reset.hard_reset(rival.opened, "main", "other"))
    with pytest.raises((NoChanges, Conflict)):
        mine.commit("mine")
    assert script.finished and lake.head() == target


def test_the_target_of_a_hard_reset_does_not_count_as_the_commit_of_the_rows_before_it(
    lake: Lake,
) -> None:
    since = lake.commit_of(a="v")
    lake.branch("other")
    lake.commit_of("other", a="z")
    lake.put("a", "v")
    token = lake.record().staging
    reset.hard_reset(lake.opened, "main", "other")
    with pytest.raises(NoChanges):
        holder(lake.opened, BranchId("main"), token, CommitId(since))
