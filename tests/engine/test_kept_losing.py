"""A rival who wins every round: each verb gives up after its bound, and has written nothing.

The rival acts between the requests of the verb, through ports with caches of its own.
"""

from collections.abc import Callable

import pytest

from graveler import assembly
from graveler.core import limits
from graveler.core.errors import Contended, NotFound, OutcomeUnknown
from graveler.engine import names
from graveler.engine.commits import log, reset
from graveler.engine.commits.commit import CommitRequest, commit
from graveler.engine.objects import write
from graveler.engine.repositories import repository
from tests.engine.lake import COMMITTER, Lake
from tests.support.clockwork import SeededIds, TickingClock
from tests.support.interposer import Script

ROUNDS = 2 * limits.landing_round_count_max
GIVEN_UP = (Contended, OutcomeUnknown)
Act = Callable[[], object]


def always(script: Script, moment: str, verb: str, act: Act, count: int = ROUNDS) -> None:
    """`act` before or after each of the next requests of `verb`."""
    for number in range(1, count + 1):
        getattr(script, moment)(verb, act, number)


def a_commit(rival: Lake, branch: str = "main") -> Act:
    """An empty commit of the rival: the record of the branch is another one."""
    return lambda: rival.commit("rival", branch, allow_empty=True)


def a_reset(rival: Lake) -> Act:
    """The rival drops a path of its own: other tokens, the same commit, nobody's row is gone."""

    def act() -> None:
        rival.put("other/x", "rival")
        reset.reset_prefix(rival.opened, "main", "other/")

    return act


def test_deletion_of_a_branch(scripted: tuple[Lake, Script], rival: Lake) -> None:
    mine, script = scripted
    mine.branch("dev")
    always(script, "before", "set_if", a_commit(rival, "dev"))
    with pytest.raises(GIVEN_UP):
        names.delete_branch(mine.opened, "dev")
    assert rival.record("dev").live


def test_creation_of_a_branch(scripted: tuple[Lake, Script], rival: Lake) -> None:
    """Others create and delete the name each time."""
    mine, script = scripted
    rival.branch("dev")
    names.delete_branch(rival.opened, "dev")

    def act() -> None:
        rival.branch("dev")
        names.delete_branch(rival.opened, "dev")

    always(script, "before", "set_if", act)
    with pytest.raises(Contended):
        mine.branch("dev")
    with pytest.raises(NotFound):
        rival.record("dev")


def test_reset(scripted: tuple[Lake, Script], rival: Lake) -> None:
    mine, script = scripted
    mine.put("a", "1")
    always(script, "before", "set_if", a_reset(rival))
    with pytest.raises(GIVEN_UP):
        reset.reset(mine.opened, "main")
    assert rival.tree() == {"a": "1"}


def test_reset_of_a_prefix(scripted: tuple[Lake, Script], rival: Lake) -> None:
    mine, script = scripted
    mine.put("a", "1")
    always(script, "before", "set_if", a_reset(rival))
    with pytest.raises(GIVEN_UP):
        reset.reset_prefix(mine.opened, "main", "a")
    assert rival.tree() == {"a": "1"}


def test_a_commit_that_must_be_its_own_while_it_seals(
    scripted: tuple[Lake, Script], rival: Lake
) -> None:
    mine, script = scripted
    always(script, "before", "set_if", a_commit(rival))
    with pytest.raises(GIVEN_UP):
        mine.commit("mine", allow_empty=True)
    assert "mine" not in _messages(rival)


def test_a_commit_while_it_advances(scripted: tuple[Lake, Script], rival: Lake) -> None:
    mine, script = scripted
    mine.put("a", "1")
    script.after("set_if", lambda: always(script, "before", "set_if", a_reset(rival)))
    with pytest.raises(GIVEN_UP):
        mine.commit("mine")
    assert "mine" not in _messages(rival)
    assert rival.tree() == {"a": "1"} and rival.uncommitted() == [("added", "a")]


@pytest.mark.parametrize("verb", ["merge", "hard reset"])
@pytest.mark.usefixtures("forked")
def test_landing(scripted: tuple[Lake, Script], rival: Lake, verb: str) -> None:
    mine, script = scripted
    always(script, "before", "set_if", a_commit(rival))
    with pytest.raises(GIVEN_UP):
        if verb == "merge":
            mine.merge("dev")
        else:
            reset.hard_reset(mine.opened, "main", "dev")
    assert rival.tree("main@") == {"a": "1"}


@pytest.mark.usefixtures("forked")
def test_a_merge_that_loses_forty_times_lands(scripted: tuple[Lake, Script], rival: Lake) -> None:
    mine, script = scripted
    always(script, "before", "set_if", a_commit(rival), count=40)
    mine.merge("dev")
    assert script.finished and rival.tree("main@") == {"a": "1", "b": "2"}
    assert _messages(rival).count("rival") == 40


def test_a_conditional_write(scripted: tuple[Lake, Script], rival: Lake) -> None:
    mine, script = scripted
    always(
        script, "before", "set_if", a_commit(rival), count=2 * limits.conditional_round_count_max
    )
    with pytest.raises(GIVEN_UP):
        mine.put_if_absent("a", "1")
    assert rival.tree() == {}


def test_a_write_whose_token_is_sealed_each_time_is_of_unknown_outcome(
    scripted: tuple[Lake, Script], rival: Lake
) -> None:
    mine, script = scripted
    act = a_commit(rival)
    always(script, "after", "set_newer", act, count=2 * limits.write_attempt_count_max)
    with pytest.raises(OutcomeUnknown):
        mine.put("a", "1")
    with pytest.raises(OutcomeUnknown):
        mine.put("a", "2")


def test_deletions_whose_token_is_sealed_each_time_are_returned_as_unknown(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    lake.commit_of(a="1")
    mine, script = scripted
    act = a_commit(rival)
    always(script, "after", "set_newer", act, count=2 * limits.write_attempt_count_max)
    failed = write.delete_many(mine.opened, "main", ["a"])
    assert [(each.path, isinstance(each.error, OutcomeUnknown)) for each in failed] == [("a", True)]


def test_a_row_over_which_others_write_each_time_is_of_unknown_outcome(
    scripted: tuple[Lake, Script], rival: Lake
) -> None:
    mine, script = scripted

    def act() -> None:
        rival.put("a", "rival")
        script.before("set_newer", act)

    script.before("set_newer", act)
    with pytest.raises(OutcomeUnknown):
        mine.put("a", "mine")
    assert rival.tree() == {"a": "rival"}


def test_a_write_gives_up_after_a_time_too() -> None:
    clock = TickingClock()
    ports = assembly.open_memory(clock, SeededIds(1))
    repo = repository.create(ports, repository.NewRepository("lake", "mem://bucket/lake"))
    plain = Lake(ports, repo)
    mine, script = plain.interposed()
    rival = plain.another_process()

    def slowly() -> None:
        rival.commit("rival", allow_empty=True)
        clock.sleep(limits.write_attempt_seconds_max + 1)

    script.after("set_newer", slowly)
    with pytest.raises(OutcomeUnknown):
        mine.put("a", "1")
    assert script.seen.count("set_newer") == 1


def test_equal_commits_within_a_minute(lake: Lake) -> None:
    request = CommitRequest("equal", COMMITTER, allow_empty=True, created_ns=10**18)
    head = lake.head()
    made = set()
    for number in range(limits.equal_commit_count_max):
        lake.branch(f"b{number}", head)
        made.add(commit(lake.opened, f"b{number}", request).id)
    assert len(made) == limits.equal_commit_count_max
    lake.branch("late", head)
    with pytest.raises(Contended):
        commit(lake.opened, "late", request)
    assert lake.head("late") == head


def _messages(lake: Lake) -> list[str]:
    entries, more = log.log(lake.opened, "main", log.LogRequest(amount=1_000))
    assert not more
    return [entry.commit.message for entry in entries]
