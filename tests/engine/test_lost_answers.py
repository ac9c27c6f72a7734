"""A swap's answer is lost, or it fails, and others act in the same moment: what a verb may say."""

import pytest

from graveler.core import limits
from graveler.core.errors import NoChanges
from graveler.engine.commits import reset
from graveler.kv.store import Store
from tests.engine.lake import Lake
from tests.support.faults import Fault, FaultyStore
from tests.support.interposer import InterposedStore, Script


def losing(lake: Lake, number: int) -> tuple[Lake, Script]:
    """A process that loses the answer to its `number`-th conditional write, which was applied."""
    script, seen = Script(), [0]

    def plan(_: int, verb: str) -> Fault:
        seen[0] += verb == "set_if"
        return Fault.LOST if verb == "set_if" and seen[0] == number else Fault.NONE

    def wrap(kv: Store) -> Store:
        return FaultyStore(InterposedStore(kv, script), plan)

    return lake.with_kv(wrap), script


# ---- commit --------------------------------------------------------------------------------------


def test_rows_that_change_nothing_are_trimmed_by_a_rival_meanwhile(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    lake.commit_of(a="1")
    head = lake.head()
    mine, script = scripted
    mine.put("a", "1")

    def commits() -> None:
        with pytest.raises(NoChanges):
            rival.commit("rival")

    script.before("set_if", commits, 2)
    with pytest.raises(NoChanges):
        mine.commit("mine")
    assert script.finished and lake.head() == head and lake.record().sealed == ()


def test_rows_that_change_nothing_are_dropped_by_a_rival_meanwhile(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    lake.commit_of(a="1")
    mine, script = scripted
    mine.put("a", "1")
    script.before("set_if", lambda: reset.reset(rival.opened, "main"), 2)
    with pytest.raises(NoChanges):
        mine.commit("mine")
    assert script.finished


# ---- landing -------------------------------------------------------------------------------------


def _merged(lake: Lake, mine: Lake) -> None:
    mine.merge("dev")
    assert lake.tree("main@") == {"a": "1", "b": "2"}


def test_the_last_of_all_swaps_lands_and_its_answer_is_lost(forked: Lake, rival: Lake) -> None:
    last = limits.landing_round_count_max
    mine, script = losing(forked, last)
    for number in range(1, last):
        script.before("set_if", lambda: rival.commit("rival", allow_empty=True), number)
    _merged(forked, mine)
    assert script.finished and script.seen.count("set_if") == last


def test_a_landing_lost_against_more_commits_than_are_looked_through_is_done_anew(
    forked: Lake,
    scripted: tuple[Lake, Script],
    rival: Lake,
) -> None:
    mine, script = scripted
    mine = mine.with_settings(walk_count_max=3)

    def commits() -> None:
        for _ in range(5):
            rival.commit("rival", allow_empty=True)

    script.before("set_if", commits)
    _merged(forked, mine)
    assert script.finished


# ---- conditional writes --------------------------------------------------------------------------


def _resets(rival: Lake) -> None:
    """Seals what is open; the row under test stays where it is."""
    rival.put("other/x", "rival")
    reset.reset_prefix(rival.opened, "main", "other/")


def test_a_row_that_counted_before_others_wrote_over_it_was_written(
    lake: Lake, rival: Lake
) -> None:
    mine, script = losing(lake, 1)

    def acts() -> None:
        _resets(rival)
        rival.put("a", "rival")

    script.after("set_if", acts)
    mine.put_if_absent("a", "mine")
    assert script.finished and lake.tree() == {"a": "rival"}


def test_a_row_that_was_committed_before_its_token_was_written_by_a_late_rival_was_written(
    lake: Lake, rival: Lake
) -> None:
    mine, script = losing(lake, 1)
    late, third = rival.another_process(), lake.another_process()
    late.put("warm", "0")  # it has the branch record from here on

    def acts() -> None:
        third.commit("with the row")
        late.put("a", "late")

    script.after("set_if", acts)
    mine.put_if_absent("a", "mine")
    assert lake.tree("main@") == {"a": "mine", "warm": "0"}
    assert lake.tree() == {"a": "late", "warm": "0"}
