"""What another client does between two requests of a write or a read: the protocol's traps.

The rival acts through ports with caches of its own, at an exact point of the verb under test.
"""

import pytest

from graveler.block.adapter import Update
from graveler.core.errors import NotFound, PreconditionFailed
from graveler.engine import names
from graveler.engine.commits import reset
from graveler.engine.objects import read, write
from tests.engine.lake import Lake
from tests.support.interposer import Script

# --- writers against committers ---


def test_a_write_into_a_token_that_was_sealed_and_scanned_is_written_again(
    scripted: tuple[Lake, Script], rival: Lake
) -> None:
    mine, script = scripted
    mine.put("warm", "0")  # the branch record is cached from here on
    script.before("set_newer", lambda: rival.commit_of(other="1"))
    mine.put("a", "mine")
    assert script.finished
    assert rival.tree() == {"a": "mine", "other": "1", "warm": "0"}
    rival.commit("after")
    assert rival.tree("main@") == {"a": "mine", "other": "1", "warm": "0"}


def test_a_write_whose_token_is_sealed_before_its_second_read_is_in_the_next_commit(
    scripted: tuple[Lake, Script], rival: Lake
) -> None:
    mine, script = scripted
    script.after("set_newer", lambda: rival.commit_of(other="1"))
    mine.put("a", "mine")
    assert script.finished and script.seen.count("set_newer") == 2
    assert rival.tree() == {"a": "mine", "other": "1"}


def test_a_delete_whose_token_is_sealed_is_repeated_though_nothing_is_there_any_more(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    lake.commit_of(a="1")
    mine, script = scripted

    def commit_then_write() -> None:
        rival.commit_of(other="1")

    script.after("set_newer", commit_then_write)
    mine.delete("a")
    assert rival.tree() == {"other": "1"}
    rival.commit("the delete") if rival.uncommitted() else None
    assert rival.tree("main@") == {"other": "1"}


def test_a_delete_is_staged_without_looking_first(
    scripted: tuple[Lake, Script], rival: Lake
) -> None:
    mine, script = scripted
    mine.put("warm", "0")
    del script.seen[:]
    mine.delete("never/there")
    assert script.seen == ["set_newer", "get"]


def test_a_delete_of_many_is_repeated_for_all_paths_when_the_token_moves(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    lake.commit_of(a="1", b="2", c="3")
    mine, script = scripted
    script.after("set_newer", lambda: rival.commit_of(d="4"), nth=2)
    assert write.delete_many(mine.opened, "main", ["a", "b", "zzz"]) == []
    assert rival.tree() == {"c": "3", "d": "4"}
    assert script.seen.count("set_newer") == 6


def test_a_write_to_a_branch_that_is_deleted_meanwhile_is_refused(
    scripted: tuple[Lake, Script], rival: Lake
) -> None:
    mine, script = scripted
    rival.branch("dev")
    script.after("set_newer", lambda: names.delete_branch(rival.opened, "dev"))
    with pytest.raises(NotFound):
        mine.put("a", "1", "dev")
    rival.branch("dev")
    assert rival.tree("dev") == {}


def test_a_write_to_a_branch_that_is_deleted_and_made_again_meanwhile_lands_on_the_new_one(
    scripted: tuple[Lake, Script], rival: Lake
) -> None:
    mine, script = scripted
    rival.branch("dev")
    mine.put("old", "0", "dev")

    def again() -> None:
        names.delete_branch(rival.opened, "dev")
        rival.branch("dev")

    script.before("set_newer", again)
    mine.put("a", "1", "dev")
    assert rival.tree("dev") == {"a": "1"}


def test_a_reset_between_a_write_and_its_second_read_does_not_take_the_write(
    scripted: tuple[Lake, Script], rival: Lake
) -> None:
    mine, script = scripted
    script.after("set_newer", lambda: reset.reset(rival.opened, "main"))
    mine.put("a", "1")
    assert rival.tree() == {"a": "1"}


# --- conditional writes ---


def test_one_of_two_conditional_writes_wins(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    mine, script = scripted
    script.before("set_if", lambda: rival.put_if_absent("a", "theirs"))
    with pytest.raises(PreconditionFailed):
        mine.put_if_absent("a", "mine")
    assert lake.tree() == {"a": "theirs"}


def test_a_conditional_write_into_a_sealed_token_counts_for_itself(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    """Its own row, sealed and committed by another meanwhile, must not refuse it."""
    mine, script = scripted
    script.after("set_if", lambda: rival.commit("with mine"))
    mine.put_if_absent("a", "mine")
    assert lake.tree() == {"a": "mine"}


def test_a_conditional_write_against_one_that_is_committed_meanwhile_is_refused(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    mine, script = scripted
    script.before("set_if", lambda: rival.commit_of(a="theirs"))
    with pytest.raises(PreconditionFailed):
        mine.put_if_absent("a", "mine")
    assert lake.tree() == {"a": "theirs"}


def put_in_layer(lake: Lake, layer: str) -> None:
    """Let `a` stand in one layer."""
    lake.put("a", "1")
    if layer == "sealed":
        reset.reset_path(lake.opened, "main", "nothing")
        lake.put("b", "1")
        reset.reset_path(lake.opened, "main", "b")
    if layer == "committed":
        lake.commit()


@pytest.mark.parametrize("state", ["staged", "sealed", "committed"])
def test_a_conditional_write_sees_every_layer(lake: Lake, state: str) -> None:
    put_in_layer(lake, state)
    with pytest.raises(PreconditionFailed):
        lake.put_if_absent("a", "2")
    lake.delete("a")
    lake.put_if_absent("a", "3")
    assert lake.tree()["a"] == "3"


@pytest.mark.parametrize("state", ["staged", "sealed", "committed"])
def test_a_replacement_compares_with_every_layer(lake: Lake, state: str) -> None:
    put_in_layer(lake, state)
    with pytest.raises(PreconditionFailed, match=r"not satisfy the condition .*: path=a"):
        lake.put_over("a", "2", "0")
    with pytest.raises(NotFound, match="path not found: path=c"):
        lake.put_over("c", "2", "1")
    lake.put_over("a", "2", "1")
    assert lake.tree()["a"] == "2"
    lake.delete("a")
    with pytest.raises(NotFound):
        lake.put_over("a", "3", "2")


def test_one_of_two_replacements_of_one_value_wins(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    lake.put("a", "1")
    mine, script = scripted
    script.before("set_if", lambda: rival.put_over("a", "theirs", "1"))
    with pytest.raises(PreconditionFailed):
        mine.put_over("a", "mine", "1")
    assert lake.tree() == {"a": "theirs"}


def test_a_deletion_on_a_condition_deletes_no_newer_value(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    lake.put("a", "1")
    mine, script = scripted
    script.before("set_if", lambda: rival.put("a", "theirs"))
    with pytest.raises(PreconditionFailed):
        write.delete(mine.opened, "main", "a", Update("1"))
    assert script.finished and lake.tree() == {"a": "theirs"}


def test_a_deletion_on_a_condition_that_a_commit_passes_deletes_in_the_next_one(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    lake.put("a", "1")
    mine, script = scripted
    script.before("set_if", lambda: rival.commit("with 1"))
    write.delete(mine.opened, "main", "a", Update("1"))
    assert lake.tree("main@") == {"a": "1"} and lake.tree() == {}
    with pytest.raises(NotFound):
        write.delete(mine.opened, "main", "a", Update("1"))


def test_a_replacement_is_not_refused_by_a_commit_of_the_value_that_it_replaces(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    lake.put("a", "1")
    mine, script = scripted
    script.before("set_if", lambda: rival.commit("with 1"))
    mine.put_over("a", "mine", "1")
    assert lake.tree("main@") == {"a": "1"} and lake.tree() == {"a": "mine"}


def test_a_replacement_that_a_commit_took_in_is_not_refused_by_itself(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    lake.commit_of(a="1")
    mine, script = scripted
    script.after("set_if", lambda: rival.commit("with mine"))
    mine.put_over("a", "mine", "1")
    assert lake.tree("main@") == {"a": "mine"}


def test_a_replacement_of_a_value_that_is_deleted_meanwhile_is_refused(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    lake.commit_of(a="1")
    mine, script = scripted
    script.before("set_if", lambda: rival.commit_of(a=""))
    with pytest.raises(NotFound):
        mine.put_over("a", "mine", "1")
    assert lake.tree() == {}


def test_a_conditional_write_of_what_is_there_already_is_refused(lake: Lake) -> None:
    lake.commit_of(a="1")
    with pytest.raises(PreconditionFailed):
        lake.put_if_absent("a", "1")


# --- readers ---


def test_a_read_is_right_while_a_commit_takes_the_tokens_off(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    lake.put("a", "1")
    mine, script = scripted
    script.before("get_many", lambda: rival.commit("meanwhile"), nth=2)
    assert read.stat(mine.opened, "main", "a").checksum == "1"
    assert lake.tree() == {"a": "1"}


def test_a_list_is_of_one_moment(lake: Lake, scripted: tuple[Lake, Script], rival: Lake) -> None:
    """A merge that changes two keys while a page is read: both keys old, or both new."""
    lake.commit_of(k="old", l="old")
    lake.branch("dev")
    lake.commit_of("dev", k="new", l="new")
    mine, script = scripted
    script.before("scan", lambda: rival.merge("dev"))
    assert set(mine.tree().values()) == {"old"}
    assert set(mine.tree().values()) == {"new"}
