"""Swaps and rows whose answers are lost, which land late or never: what is said, and what is so."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from graveler.core import limits
from graveler.core.errors import (
    AlreadyExists,
    Corrupt,
    DirtyBranch,
    NoChanges,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    Unavailable,
)
from graveler.core.ids import CommitId
from graveler.engine import names, protection
from graveler.engine.commits import log, merge, reset
from graveler.engine.commits.search import Once
from graveler.engine.repositories import repository
from graveler.kv.store import Store
from tests.engine.lake import Lake
from tests.support.faults import Fault, FaultPlan, FaultyStore
from tests.support.interposer import Script

Act = Callable[[], object]


def with_faults(lake: Lake, plan: FaultPlan) -> tuple[Lake, FaultyStore]:
    """A process whose requests go wrong by plan, and its store."""
    stores: list[FaultyStore] = []

    def wrap(kv: Store) -> Store:
        stores.append(FaultyStore(kv, plan))
        return stores[0]

    return lake.with_kv(wrap), stores[0]


def loses(script: Script, act: Act, nth: int = 1) -> None:
    """The `nth` conditional write is not applied, `act` happens, and nobody is told of either."""

    def lose() -> None:
        act()
        raise OutcomeUnknown("no answer")

    script.before("set_if", lose, nth)


def takes_effect_unheard(script: Script, act: Act, nth: int = 1) -> None:
    """The `nth` conditional write is applied, `act` happens, and nobody is told of either."""

    def lost() -> None:
        act()
        raise OutcomeUnknown("no answer")

    script.after("set_if", lost, nth)


def seal(rival: Lake) -> None:
    """Another record of the branch and another open token; what was staged stays staged."""
    rival.put("other/x", "rival")
    reset.reset_prefix(rival.opened, "main", "other/")


# ---- landing -------------------------------------------------------------------------------------


class Late:
    """The first swap lands when the plan's `moment` is reached: so many requests of `verb` later.

    What the swap was to do happens then, though nobody was told.  `between` runs right after the
    swap was sent.
    """

    def __init__(self, lake: Lake, swap: int, verb: str, moment: int, between: Act) -> None:
        self._swaps, self._since, self._sent = 0, 0, False
        self._swap, self._verb, self._moment, self._between = swap, verb, moment, between
        self.lake, self._store = with_faults(lake, self._plan)

    def land(self) -> None:
        self._store.land()

    def _plan(self, _: int, verb: str) -> Fault:
        if self._sent and verb == self._verb:
            self._since += 1
            if self._since == self._moment:
                self.land()
        self._swaps += verb == "set_if"
        if not self._sent and self._swaps == self._swap:
            self._sent = True
            self._between()
            return Fault.LATE
        return Fault.NONE


def merges(lake: Lake) -> int:
    entries, _ = log.log(lake.opened, "main", log.LogRequest(amount=100))
    return sum(len(entry.commit.parents) == 2 for entry in entries)


@pytest.mark.parametrize("allow_empty", [True, False])
def test_a_landing_that_lands_while_it_is_tried_again_is_done_once(
    forked: Lake, allow_empty: bool
) -> None:
    """Staged rows that change nothing are taken off: each round seals first."""
    forked.put("a", "1")
    mine = Late(forked, 2, "set_if", 1, lambda: None).lake
    mine.merge("dev", allow_empty=allow_empty)
    assert forked.tree("main@") == {"a": "1", "b": "2"} and merges(forked) == 1


@pytest.mark.parametrize("lands", [True, False])
def test_a_landing_that_is_refused_when_it_is_tried_again(
    forked: Lake, rival: Lake, lands: bool
) -> None:
    """Somebody stages meanwhile.  What is refused can land no more."""
    late = Late(forked, 1, "get", 2 if lands else 1_000, lambda: rival.put("c", "3"))
    if lands:
        assert late.lake.merge("dev") == forked.head()
    else:
        with pytest.raises(DirtyBranch):
            late.lake.merge("dev")
        late.land()
    assert merges(forked) == lands
    assert forked.tree() == {"a": "1", **({"b": "2"} if lands else {}), "c": "3"}


def test_a_landing_that_lost_and_is_refused_then_has_not_happened(
    forked: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    mine, script = scripted

    def act() -> None:
        rival.commit_of(c="3")
        rival.put("d", "4")

    script.before("set_if", act)
    with pytest.raises(DirtyBranch):
        mine.merge("dev")
    assert script.finished and merges(forked) == 0
    assert forked.tree() == {"a": "1", "c": "3", "d": "4"}


def test_a_landing_where_a_rival_commits_what_is_to_be_taken_off(
    forked: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    forked.put("a", "1")
    mine, script = scripted
    script.before("set_if", lambda: rival.commit_of(c="3"))
    mine.merge("dev")
    assert script.finished and forked.tree("main@") == {"a": "1", "b": "2", "c": "3"}


@pytest.mark.parametrize("staged", [True, False])
def test_a_landing_that_a_hard_reset_takes_away_is_not_done_again_nor_denied(
    forked: Lake, scripted: tuple[Lake, Script], rival: Lake, staged: bool
) -> None:
    """A reader may have seen it, so it is no refusal; and whoever took it away wants it gone."""
    before = forked.head()
    mine, script = scripted

    def act() -> None:
        assert rival.tree() == {"a": "1", "b": "2"}
        reset.hard_reset(rival.opened, "main", before)
        if staged:
            rival.put("c", "3")

    takes_effect_unheard(script, act)
    with pytest.raises(OutcomeUnknown):
        mine.merge("dev")
    assert script.finished and forked.head() == before


def test_a_landing_whose_swap_lost_against_one_other_is_done_again(
    forked: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    """The first look shows one change, so the swap never landed; the next look shows more."""
    forked.branch("side")
    forked.commit_of("side", c="3")
    mine, script = scripted
    loses(script, lambda: rival.merge("side"))
    script.before("set_if", lambda: rival.commit("more", allow_empty=True), 2)
    mine.merge("dev")
    assert script.finished and forked.tree("main@") == {"a": "1", "b": "2", "c": "3"}
    assert merges(forked) == 2


@pytest.mark.parametrize("is_rewound", [True, False])
def test_a_landing_whose_swap_lost_against_many_is_done_again_unless_one_was_a_hard_reset(
    forked: Lake, scripted: tuple[Lake, Script], rival: Lake, is_rewound: bool
) -> None:
    """Without a hard reset every commit that was the head is in the history."""
    mine, script = scripted

    def act() -> None:
        for name in ("one", "two"):
            rival.commit(name, allow_empty=True)
        if is_rewound:
            reset.hard_reset(rival.opened, "main", "main~1")

    loses(script, act)
    if is_rewound:
        with pytest.raises(OutcomeUnknown):
            mine.merge("dev")
    else:
        mine.merge("dev")
    assert script.finished and merges(forked) == (0 if is_rewound else 1)


@pytest.mark.parametrize("allow_empty", [True, False])
def test_a_landing_after_a_hard_reset_to_less_history_is_found(
    forked: Lake, scripted: tuple[Lake, Script], rival: Lake, allow_empty: bool
) -> None:
    """The first swap is refused because of the reset, and the second one lands unheard."""
    shallow = forked.head()
    for number in range(5):
        forked.commit(f"{number}", allow_empty=True)
    mine, script = scripted
    script.before("set_if", lambda: reset.hard_reset(rival.opened, "main", shallow))
    takes_effect_unheard(script, lambda: None, 2)
    mine.merge("dev", allow_empty=allow_empty)
    assert script.finished and merges(forked) == 1


def test_a_landing_that_lost_against_one_reset_does_not_search_a_long_history(
    forked: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    forked.branch("long")
    for number in range(6):
        forked.commit(f"{number}", "long", allow_empty=True)
    mine, script = scripted
    loses(script, lambda: reset.hard_reset(rival.opened, "main", "long"))
    mine.with_settings(walk_count_max=3).merge("dev")
    assert script.finished and merges(forked) == 1


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_landing_on_a_branch_that_is_deleted_meanwhile(
    forked: Lake, scripted: tuple[Lake, Script], rival: Lake, is_lost: bool
) -> None:
    """A reader may have seen it before the deletion, unless the store refused the swap."""
    forked.branch("target")
    mine, script = scripted
    if is_lost:
        script.before("set_if", lambda: names.delete_branch(rival.opened, "target"))
    else:
        takes_effect_unheard(script, lambda: names.delete_branch(rival.opened, "target"))
    with pytest.raises(NotFound if is_lost else OutcomeUnknown):
        mine.merge("dev", "target")
    assert script.finished


@pytest.mark.parametrize("lands", [True, False])
def test_a_landing_that_fails_for_any_reason_lands_no_more(
    forked: Lake, monkeypatch: pytest.MonkeyPatch, lands: bool
) -> None:
    """Its swap is on its way: it lands before the record is renewed, or never."""
    late = Late(forked, 1, "set_if", 1 if lands else 1_000, lambda: None)
    whole, calls = merge.trees.merge, 0

    def broken(*arguments: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise Corrupt("bad bytes")
        return whole(*arguments, **more)

    monkeypatch.setattr(merge.trees, "merge", broken)
    if lands:
        assert late.lake.merge("dev") == forked.head()
    else:
        with pytest.raises(Corrupt):
            late.lake.merge("dev")
    late.land()
    assert merges(forked) == lands


def test_a_refusal_is_unknown_if_nobody_can_take_the_earlier_swap_away(
    forked: Lake, rival: Lake
) -> None:
    """The renewal of the record gets no answer, and does not happen; then the first swap lands."""
    swaps = 0

    def plan(_: int, verb: str) -> Fault:
        nonlocal swaps
        swaps += verb == "set_if"
        if verb == "set_if" and swaps == 1:
            rival.put("c", "3")
            return Fault.LATE
        return Fault.DROPPED if verb == "set_if" else Fault.NONE

    mine, store = with_faults(forked, plan)
    with pytest.raises(OutcomeUnknown):
        mine.merge("dev")
    store.land()
    assert merges(forked) == 1


@pytest.mark.parametrize(
    ("nth", "run"),
    [(1, lambda lake: lake.merge("dev")), (2, lambda lake: lake.commit("m"))],
    ids=["merge", "commit"],
)
def test_an_outage_after_a_refused_swap_is_no_unknown_outcome(
    forked: Lake, rival: Lake, nth: int, run: Callable[[Lake], object]
) -> None:
    swaps, is_down = 0, False

    def plan(_: int, verb: str) -> Fault:
        nonlocal swaps, is_down
        swaps += verb == "set_if"
        if not is_down and swaps == nth:
            is_down = True
            rival.commit_of(c="3")
            return Fault.NONE
        return Fault.REFUSED if is_down else Fault.NONE

    if nth == 2:  # a commit seals first
        forked.put("a", "2")
    mine, _ = with_faults(forked, plan)
    with pytest.raises(Unavailable) as raised:
        run(mine)
    assert is_down and not isinstance(raised.value, OutcomeUnknown)


def test_a_relative_reset_goes_back_from_the_head_that_it_replaces(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    lake.commit_of(a="1")
    head = lake.commit_of(b="2")
    mine, script = scripted
    script.before("scan", lambda: rival.commit("rival", allow_empty=True))
    assert reset.hard_reset(mine.opened, "main", "main~1").id == head
    assert script.finished and lake.head() == head


def test_a_relative_reset_tries_no_commit_that_another_record_chose(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    """That commit is in the history anyway, so after a lost answer it would pass for the result."""
    for number in range(4):
        lake.commit(f"{number}", allow_empty=True)
    mine, script = scripted
    script.before("scan", lambda: reset.hard_reset(rival.opened, "main", "main~1"))
    loses(script, lambda: rival.commit("rival", allow_empty=True))
    assert reset.hard_reset(mine.opened, "main", "main~1").id == lake.head()
    assert script.finished


@pytest.mark.parametrize("nth", [1, 2])
def test_a_reset_does_not_replace_a_head_that_it_did_not_expect(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake, nth: int
) -> None:
    first = lake.commit_of(a="1")
    head = lake.commit_of(b="2")
    mine, script = scripted
    verb = ("get", "set_if")[nth - 1]
    script.before(verb, lambda: rival.commit("rival", allow_empty=True))
    with pytest.raises(PreconditionFailed):
        reset.hard_reset(mine.opened, "main", first, expected=CommitId(head))
    assert script.finished and lake.tree("main@") == {"a": "1", "b": "2"}


def test_an_expected_reset_whose_answer_is_lost_is_no_conflict_of_its_own(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    first = lake.commit_of(a="1")
    head = lake.commit_of(b="2")
    mine, script = scripted
    takes_effect_unheard(script, lambda: rival.commit("rival", allow_empty=True))
    assert reset.hard_reset(mine.opened, "main", first, expected=CommitId(head)).id == first
    assert script.finished and lake.tree("main@") == {"a": "1"}
    lake.branch("again", head)
    for _ in range(2):  # a client sends it again
        assert reset.hard_reset(lake.opened, "again", first, expected=CommitId(head)).id == first


def test_a_reset_after_which_others_reset_elsewhere_is_of_unknown_outcome(
    forked: Lake, rival: Lake, scripted: tuple[Lake, Script]
) -> None:
    mine, script = scripted
    first = forked.head()
    forked.commit_of(c="3")
    takes_effect_unheard(script, lambda: reset.hard_reset(rival.opened, "main", first))
    with pytest.raises(OutcomeUnknown):
        reset.hard_reset(mine.opened, "main", "dev")
    assert script.finished and forked.head() == first


def test_a_commit_of_its_own_whose_rows_a_rival_commits_is_made_without_them(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    lake.put("a", "1")
    mine, script = scripted
    script.before("set_if", lambda: rival.commit("rival"), 3)  # sealed, its name taken, the swap
    made = mine.commit("mine", allow_empty=True)
    assert script.finished and lake.head() == made.id and lake.tree("main@") == {"a": "1"}
    assert lake.record().sealed == ()


@pytest.mark.parametrize("again", [True, False])
def test_an_empty_commit_that_a_hard_reset_takes_away_is_not_made_again(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake, again: bool
) -> None:
    before = lake.commit_of(a="1")
    mine, script = scripted

    def act() -> None:
        reset.hard_reset(rival.opened, "main", before)
        if again:
            rival.commit("rival", allow_empty=True)

    takes_effect_unheard(script, act, 3)  # sealed, its name taken, the swap
    with pytest.raises(OutcomeUnknown):
        mine.commit("mine", allow_empty=True)
    entries, _ = log.log(lake.opened, "main", log.LogRequest(amount=100))
    assert script.finished and "mine" not in [entry.commit.message for entry in entries]


@pytest.mark.parametrize("many", [True, False])
def test_a_commit_of_rows_that_are_still_there_did_not_land(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake, many: bool
) -> None:
    """A swap that lands takes off all its tokens, so it is sent again however the branch moved."""
    lake.put("a", "1")
    mine, script = scripted

    def act() -> None:
        for _ in range(2 if many else 1):
            seal(rival)

    loses(script, act, 3)
    made = mine.commit("mine", allow_empty=True)
    assert script.finished and lake.head() == made.id and lake.tree("main@") == {"a": "1"}


def test_a_commit_of_its_own_that_lost_against_one_reset_is_made_without_rows(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    lake.put("a", "1")
    mine, script = scripted
    loses(script, lambda: reset.reset(rival.opened, "main"), 3)
    made = mine.commit("mine", allow_empty=True)
    assert script.finished and lake.head() == made.id and lake.tree("main@") == {}


def test_a_commit_after_a_hard_reset_to_less_history_is_found(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    shallow = lake.head()
    for number in range(5):
        lake.commit(f"{number}", allow_empty=True)
    mine, script = scripted
    script.before("set_if", lambda: reset.hard_reset(rival.opened, "main", shallow), 3)
    takes_effect_unheard(script, lambda: None, 5)  # a name is taken for each try
    mine.commit("mine", allow_empty=True)
    entries, _ = log.log(lake.opened, "main", log.LogRequest(amount=100))
    assert script.finished and [each.commit.message for each in entries].count("mine") == 1


@pytest.mark.parametrize("is_last", [True, False])
def test_a_commit_that_a_hard_reset_takes_away_is_unknown(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake, is_last: bool
) -> None:
    before = lake.commit_of(z="1")
    lake.put("a", "1")
    mine, script = scripted
    swap = 1 + (limits.commit_round_count_max if is_last else 1)  # the first one seals
    for earlier in range(2, swap):
        script.before("set_if", lambda: seal(rival), earlier)
    takes_effect_unheard(script, lambda: reset.hard_reset(rival.opened, "main", before), swap)
    with pytest.raises(OutcomeUnknown):
        mine.commit("mine")
    assert script.finished and lake.head() == before


@pytest.mark.parametrize("allow_empty", [True, False])
def test_a_commit_on_a_branch_that_is_deleted_meanwhile_is_unknown(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake, allow_empty: bool
) -> None:
    lake.branch("target")
    lake.put("a", "1", "target")
    mine, script = scripted

    def act() -> None:
        assert rival.tree("target@") == {"a": "1"}
        names.delete_branch(rival.opened, "target")

    takes_effect_unheard(script, act, 3 if allow_empty else 2)
    with pytest.raises(OutcomeUnknown):
        mine.commit("m", "target", allow_empty=allow_empty)
    assert script.finished


def test_the_first_of_two_commits_that_a_hard_reset_takes_away_is_not_made_again(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    """At the limit of sealed tokens a commit folds these first."""
    before = lake.commit_of(x="1")
    while len(lake.record().sealed) < limits.sealed_token_count_max:
        lake.put("a", "1")
        dies_when_sealed(lake)
    lake.put("x", "1")  # equals the head
    mine, script = scripted
    takes_effect_unheard(script, lambda: reset.hard_reset(rival.opened, "main", before))
    with pytest.raises(OutcomeUnknown):
        mine.commit("mine", allow_empty=True)
    assert script.finished and lake.head() == before


def dies_when_sealed(lake: Lake) -> None:
    """A process that commits, and ends once the open token is sealed."""
    dying, script = lake.interposed()

    def die() -> None:
        raise KeyboardInterrupt

    script.after("set_if", die)
    with pytest.raises(KeyboardInterrupt):
        dying.commit("never")


def test_a_commit_that_is_made_once_is_found_though_more_was_sealed_since(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    lake.put("a", "1")
    once = Once("mark", "m1", CommitId(lake.head()))
    mine, script = scripted

    def act() -> None:
        rival.commit("marked", metadata={"mark": "m1"}, once=once)
        rival.put("b", "2")
        dies_when_sealed(rival)

    script.before("set_if", act)
    made = mine.commit("mine", metadata={"mark": "m1"}, once=once)
    assert script.finished and lake.head() == made.id and made.commit.message == "marked"
    assert lake.tree("main@") == {"a": "1"} and lake.tree() == {"a": "1", "b": "2"}


def test_a_commit_of_rows_that_change_nothing_and_that_others_drop(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    """Its own row is dropped first, then what somebody else has sealed since."""
    head = lake.commit_of(a="1")
    lake.put("a", "1")
    mine, script = scripted

    def act() -> None:
        reset.reset(rival.opened, "main")
        rival.put("a", "1")
        dies_when_sealed(rival)

    script.before("set_if", act)
    script.before("set_if", lambda: reset.reset(rival.opened, "main"), 2)
    with pytest.raises(NoChanges):
        mine.commit("mine")
    assert script.finished and lake.head() == head and lake.tree() == {"a": "1"}


# ---- resets --------------------------------------------------------------------------------------


Drop = Callable[[Lake, str], None]
RESETS: list[Drop] = [
    lambda lake, branch: reset.reset(lake.opened, branch),
    lambda lake, branch: reset.reset_prefix(lake.opened, branch, "p/"),
]


@pytest.mark.parametrize("drop", RESETS)
def test_a_reset_that_a_commit_folds_in_drops_nothing_that_came_later(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake, drop: Drop
) -> None:
    lake.put("p/a", "1")
    mine, script = scripted

    def act() -> None:
        assert rival.tree() == {}
        rival.put("p/b", "2")
        rival.commit("b")
        rival.put("p/c", "3")

    takes_effect_unheard(script, act)
    with pytest.raises(OutcomeUnknown):
        drop(mine, "main")
    assert script.finished and lake.tree() == {"p/b": "2", "p/c": "3"}


@pytest.mark.parametrize("drop", RESETS)
def test_a_reset_that_lost_is_made_again(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake, drop: Drop
) -> None:
    """The open token of before is still named, so none of the swaps landed."""
    lake.put("p/a", "1")
    mine, script = scripted

    def act() -> None:
        for _ in range(2):
            seal(rival)

    loses(script, act)
    drop(mine, "main")
    assert script.finished and lake.tree() == {}


@pytest.mark.parametrize("drop", RESETS)
def test_a_reset_that_lands_while_it_is_tried_again_drops_once(
    lake: Lake, rival: Lake, drop: Drop
) -> None:
    """The second swap is refused, because the first has landed by then."""
    lake.put("p/a", "1")
    late = Late(lake, 1, "set_if", 1, lambda: None)
    drop(late.lake, "main")
    rival.put("p/b", "2")
    assert lake.tree() == {"p/b": "2"} and len(lake.record().sealed) in (0, 2)


@pytest.mark.parametrize("drop", RESETS)
def test_a_reset_of_a_branch_that_is_deleted_meanwhile_is_unknown(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake, drop: Drop
) -> None:
    lake.branch("dev")
    lake.put("p/a", "1", "dev")
    mine, script = scripted
    takes_effect_unheard(script, lambda: names.delete_branch(rival.opened, "dev"))
    with pytest.raises(OutcomeUnknown):
        drop(mine, "dev")
    assert script.finished


# ---- branches ------------------------------------------------------------------------------------


@pytest.mark.parametrize("protected", [True, False])
def test_a_deletion_leaves_the_next_branch_of_its_name_alone(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake, protected: bool
) -> None:
    lake.branch("dev")
    mine, script = scripted

    def act() -> None:
        rival.branch("dev")
        rival.put("a", "1", "dev")
        if protected:
            protection.add_rule(rival.opened, "dev")
            mine.ports.cache.forget_repository(mine.repo.id)

    takes_effect_unheard(script, act)
    names.delete_branch(mine.opened, "dev")
    assert script.finished and lake.tree("dev") == {"a": "1"}


def test_a_branch_that_somebody_else_creates_when_the_answer_is_lost(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    mine, script = scripted
    loses(script, lambda: rival.branch("dev"))
    with pytest.raises(AlreadyExists):
        mine.branch("dev")
    assert script.finished and lake.record("dev").live


def test_a_creation_that_is_refused_says_so_though_the_branch_has_commits_since(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    mine, script = scripted

    def act() -> None:
        rival.branch("dev")
        rival.put("a", "1", "dev")
        rival.commit("more", "dev")

    script.before("set_if", act)
    with pytest.raises(AlreadyExists):
        mine.branch("dev")
    assert script.finished and lake.tree("dev") == {"a": "1"}


def test_a_creation_that_is_refused_by_a_branch_that_is_gone_begins_again(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    mine, script = scripted

    def act() -> None:
        rival.branch("dev")
        names.delete_branch(rival.opened, "dev")

    script.before("set_if", act)
    mine.branch("dev")
    assert script.finished and lake.record("dev").live


def test_a_branch_is_made_though_its_answer_is_lost_and_others_commit_on_it(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    """The commit takes the token off with which the branch began."""
    mine, script = scripted

    def act() -> None:
        rival.put("a", "1", "dev")
        rival.commit("on it", "dev")

    takes_effect_unheard(script, act)
    mine.branch("dev")
    assert script.finished and lake.tree("dev") == {"a": "1"}


def test_a_branch_is_made_though_its_answer_is_lost_and_others_delete_it(
    scripted: tuple[Lake, Script], rival: Lake
) -> None:
    mine, script = scripted
    takes_effect_unheard(script, lambda: names.delete_branch(rival.opened, "dev"))
    mine.branch("dev")
    assert script.finished
    with pytest.raises(NotFound):
        rival.record("dev")


def test_a_branch_that_may_have_been_made_and_replaced_is_unknown(
    scripted: tuple[Lake, Script], rival: Lake
) -> None:
    mine, script = scripted

    def act() -> None:
        names.delete_branch(rival.opened, "dev")
        rival.branch("dev")

    takes_effect_unheard(script, act)
    with pytest.raises(OutcomeUnknown):
        mine.branch("dev")
    assert script.finished


def test_a_write_to_a_branch_that_is_committed_and_deleted_meanwhile(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    lake.branch("dev")
    mine, script = scripted

    def act() -> None:
        rival.commit("with the row", "dev")
        names.delete_branch(rival.opened, "dev")

    script.after("set_newer", act)
    with pytest.raises(OutcomeUnknown):
        mine.put("a", "1", "dev")
    with pytest.raises(NotFound):
        lake.another_process().put("a", "1", "dev")


# ---- metadata ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "kept"), [(1, {}), (2, {"a": "1"})])
def test_pairs_of_which_some_were_stored_are_of_unknown_outcome(
    lake: Lake, number: int, kept: dict[str, str]
) -> None:
    swaps: list[str] = []

    def plan(_: int, verb: str) -> Fault:
        swaps.extend([verb] * (verb == "set_if"))
        return Fault.REFUSED if verb == "set_if" and len(swaps) == number else Fault.NONE

    mine, _ = with_faults(lake, plan)
    with pytest.raises(Unavailable) as raised:
        repository.set_metadata(mine.opened, {"a": "1", "b": "2"})
    assert isinstance(raised.value, OutcomeUnknown) == (number > 1)
    assert repository.metadata(lake.opened) == kept


# ---- conditional writes --------------------------------------------------------------------------


def test_a_conditional_write_that_never_gets_an_answer_is_of_unknown_outcome(lake: Lake) -> None:
    sent: list[str] = []

    def plan(_: int, verb: str) -> Fault:
        if verb != "set_if":
            return Fault.NONE
        sent.append(verb)
        return Fault.DROPPED

    mine, _ = with_faults(lake, plan)
    with pytest.raises(OutcomeUnknown):
        mine.put_if_absent("a", "mine")
    assert len(sent) == limits.conditional_round_count_max and lake.tree() == {}


def test_a_conditional_write_that_may_still_land_is_of_unknown_outcome(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    mine, script = scripted
    loses(script, lambda: rival.put("a", "rival"))
    with pytest.raises(OutcomeUnknown):
        mine.put_if_absent("a", "mine")
    assert script.finished and lake.tree() == {"a": "rival"}


def test_a_conditional_write_that_can_land_no_more_is_refused(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    """Its token is open no more, and has no row of it: the refusal is of what is there now."""
    mine, script = scripted

    def act() -> None:
        seal(rival)
        rival.put("a", "rival")

    loses(script, act)
    with pytest.raises(PreconditionFailed):
        mine.put_if_absent("a", "mine")
    assert script.finished and lake.tree() == {"a": "rival"}


@pytest.mark.parametrize("nth", [2, 3])
def test_a_conditional_write_is_refused_only_by_a_branch_that_stood_still(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake, nth: int
) -> None:
    """What was in its way is deleted before the refusal."""
    lake.put("a", "1")
    mine, script = scripted

    def act() -> None:
        rival.delete("a")
        rival.commit("deleted", allow_empty=True)

    script.before("get", act, nth)
    mine.put_if_absent("a", "mine")
    assert script.finished and lake.tree() == {"a": "mine"}


# ---- rounds that are over ------------------------------------------------------------------------


def _commit(lake: Lake) -> None:
    lake.commit()


def _merge(lake: Lake) -> None:
    lake.merge("side", "main")


def _reset(lake: Lake) -> None:
    reset.reset(lake.opened, "main")


def _reset_prefix(lake: Lake) -> None:
    reset.reset_prefix(lake.opened, "main", "a")


def _delete_branch(lake: Lake) -> None:
    names.delete_branch(lake.opened, "side")


def _delete_repository(lake: Lake) -> None:
    repository.delete(lake.opened)


@pytest.mark.parametrize(
    "verb", [_commit, _merge, _reset, _reset_prefix, _delete_branch, _delete_repository]
)
def test_a_verb_whose_last_swap_got_no_answer_does_not_say_that_it_wrote_nothing(
    lake: Lake, verb: Callable[[Lake], None]
) -> None:
    """That swap may land later, since nobody has replaced the record that it names."""
    lake.branch("side")
    lake.commit_of("side", b="1")
    if verb is not _merge:
        lake.put("a", "1")
    swaps = []

    def plan(_: int, request: str) -> Fault:
        swaps.extend([request] if request == "set_if" else [])
        seals = verb is _commit and len(swaps) == 1  # a seal by itself writes nothing
        return Fault.DROPPED if request == "set_if" and not seals else Fault.NONE

    with pytest.raises(OutcomeUnknown):
        verb(with_faults(lake, plan)[0])
    assert len(swaps) >= limits.commit_round_count_max


@pytest.mark.parametrize("read", [1, 2])
@pytest.mark.parametrize(
    "verb", [_commit, _merge, _reset, _reset_prefix, _delete_branch, _delete_repository]
)
def test_a_last_swap_that_lands_late_is_never_said_to_have_lost(
    lake: Lake, verb: Callable[[Lake], None], read: int
) -> None:
    """It lands right before the first, or the second, read that follows it."""
    lake.branch("side")
    lake.commit_of("side", b="1")
    if verb is not _merge:
        lake.put("a", "1")
    is_seal = 1 if verb is _commit else 0
    rounds = limits.landing_round_count_max if verb is _merge else limits.commit_round_count_max
    swaps, reads = 0, 0

    def plan(_: int, request: str) -> Fault:
        nonlocal swaps, reads
        swaps += request == "set_if"
        reads += request == "get" and swaps == rounds + is_seal
        if request == "get" and reads == read:
            store.land()
        if request != "set_if" or swaps <= is_seal:
            return Fault.NONE
        return Fault.LATE if swaps == rounds + is_seal else Fault.DROPPED

    mine, store = with_faults(lake, plan)
    with suppress(OutcomeUnknown):
        verb(mine)
    assert swaps == rounds + is_seal
