"""The merge of a pull request: one commit for an opening, under races, retries and lost answers."""

from contextlib import suppress
from dataclasses import replace

import pytest

from graveler.core.errors import (
    Code,
    Contended,
    DirtyBranch,
    Invalid,
    MergeConflict,
    NoChanges,
    NotFound,
    OutcomeUnknown,
    Refused,
    Unavailable,
)
from graveler.core.ids import NO_COMMIT
from graveler.core.records import PullState
from graveler.core.requests import Counts, counted_store
from graveler.engine import names, protection
from graveler.engine.commits import reset
from graveler.engine.repositories import repository
from tests.engine.lake import Lake, new_lake
from tests.engine.pulls.world import merged, merges, opened, seen, state, update
from tests.support.faults import Fault, FaultyStore, nth
from tests.support.interposer import InterposedStore, Script

FAULTS = [Fault.REFUSED, Fault.DROPPED, Fault.LOST, Fault.REPEATED, Fault.LATE]


def ground() -> Lake:
    lake = new_lake()
    lake.commit_of(a="1")
    lake.branch("dev")
    lake.commit_of("dev", b="2")
    lake.commit_of(c="3")
    return lake


@pytest.fixture
def lake() -> Lake:
    return ground()


def _die() -> None:
    raise KeyboardInterrupt


def _dies(lake: Lake, pull: str, nth: int) -> None:
    """A process merges, and dies after its conditional write of this number: 1 is the note, 2 the
    swap of the branch."""
    slow, script = lake.interposed()
    script.after("set_if", _die, nth)
    with pytest.raises(KeyboardInterrupt):
        merged(slow, pull)


def test_a_merge_lands_and_the_request_names_its_commit(lake: Lake) -> None:
    pull = opened(lake)
    landed = merged(lake, pull)
    assert lake.head() == landed
    assert lake.tree() == {"a": "1", "b": "2", "c": "3"}
    now = seen(lake, pull)
    assert (now.state, now.merged) == (PullState.MERGED, landed)
    assert now.closed_ns > now.created_ns
    assert (now.since, now.attempt) == (NO_COMMIT, "")
    assert merges(lake) == [f"pull/{pull}/1"]


def test_a_request_that_is_not_open_is_not_merged(lake: Lake) -> None:
    pull = opened(lake)
    update(lake, pull, state=PullState.CLOSED)
    for _ in range(2):
        with pytest.raises(Invalid) as error:
            merged(lake, pull)
        assert error.value.code is Code.PULL_STATE_INVALID
        update(lake, pull, state=PullState.OPEN)
        if state(lake, pull) is PullState.OPEN and not merges(lake):
            merged(lake, pull)
            with pytest.raises(Invalid):
                merged(lake, pull)
            break
    assert len(merges(lake)) == 1


def test_a_conflict_leaves_the_request_open_and_names_the_paths(lake: Lake) -> None:
    lake.commit_of(b="other")
    pull = opened(lake)
    before = seen(lake, pull)
    with pytest.raises(MergeConflict) as conflict:
        merged(lake, pull)
    assert conflict.value.paths == ("b",)
    assert seen(lake, pull) == before
    lake.commit_of("dev", b="other")
    merged(lake, pull)
    assert state(lake, pull) is PullState.MERGED


def test_other_refusals_leave_the_request_as_it_was(lake: Lake) -> None:
    pull = opened(lake)
    before = seen(lake, pull)
    lake.put("x", "1")
    with pytest.raises(DirtyBranch):
        merged(lake, pull)
    reset.reset(lake.opened, "main")
    lake.merge("dev")
    with pytest.raises(NoChanges):
        merged(lake, pull)
    assert seen(lake, pull) == before


def test_a_protected_destination_takes_a_pull_request(lake: Lake) -> None:
    protection.set_rules(lake.opened, ["main"])
    pull = opened(lake)
    assert merged(lake, pull) == lake.head()


def test_a_merged_request_that_is_opened_again_is_merged_once_more(lake: Lake) -> None:
    pull = opened(lake)
    merged(lake, pull)
    update(lake, pull, state=PullState.OPEN)
    now = seen(lake, pull)
    assert (now.opening, now.merged, now.closed_ns) == (2, NO_COMMIT, 0)
    with pytest.raises(NoChanges):
        merged(lake, pull)
    lake.commit_of("dev", d="4")
    merged(lake, pull)
    assert merges(lake) == [f"pull/{pull}/2", f"pull/{pull}/1"]


@pytest.mark.parametrize("nth", [1, 2])  # after the request was read, and its destination
def test_a_tag_does_not_stand_for_a_deleted_source(lake: Lake, nth: int) -> None:
    pull = opened(lake)
    slow, script = lake.interposed()

    def replace_source() -> None:
        tip = lake.head("dev")
        names.delete_branch(lake.opened, "dev")
        names.create_tag(lake.opened, "dev", tip)

    script.after("get", replace_source, nth)
    with pytest.raises(NotFound):
        merged(slow, pull)
    assert merges(lake) == []
    assert state(lake, pull) is PullState.CLOSED


def test_a_read_only_repository_merges_none(lake: Lake) -> None:
    new = repository.NewRepository("kept", "mem://bucket/kept", read_only=True)
    kept = Lake(lake.ports, repository.create(lake.ports, new))
    with pytest.raises(Refused):
        merged(kept, "0" * 20)


# ---- lost answers --------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", FAULTS)
def test_each_request_goes_wrong_and_there_is_one_merge(fault: Fault) -> None:
    numbers = 0
    for number in range(1, 40):
        lake = ground()
        pull = opened(lake)
        store = FaultyStore(lake.ports.kv, nth({number: fault}))
        broken, landed = lake.with_kv(lambda _, store=store: store), ""  # type: ignore[misc]
        try:
            landed = merged(broken, pull)
        except Unavailable as error:
            if not isinstance(error, OutcomeUnknown):
                assert merges(lake) == [], number
        if store.requests < number:
            break
        numbers += 1
        if landed:
            assert seen(lake, pull).merged == landed
        store.land()
        lake.commit_of(later="1")  # the head is another one by now
        store.land()
        try:
            merged(lake.another_process(), pull)
        except Invalid as error:
            assert error.code is Code.PULL_STATE_INVALID
        assert state(lake, pull) is PullState.MERGED
        assert merges(lake) == [f"pull/{pull}/1"], number
        assert lake.tree()["b"] == "2"
    assert numbers > 8


def test_a_merge_that_died_after_its_swap_is_found(lake: Lake) -> None:
    pull = opened(lake)
    _dies(lake, pull, 2)
    landed = lake.head()
    assert state(lake, pull) is PullState.OPEN
    lake.commit_of("dev", more="1")
    lake.commit_of(later="1")
    assert merged(lake, pull) == landed
    assert seen(lake, pull).merged == landed
    assert "more" not in lake.tree()


@pytest.mark.parametrize("source_moves", [True, False])
def test_a_merge_that_was_rolled_back_is_not_made_again_unawares(
    lake: Lake, source_moves: bool
) -> None:
    """Nobody was told that it landed.  Opened again, the request can be merged once more."""
    pull, before = opened(lake), lake.head()
    _dies(lake, pull, 2)
    reset.hard_reset(lake.opened, "main", before)
    if source_moves:
        lake.commit_of("dev", more="1")
    with pytest.raises(OutcomeUnknown, match="close the pull request and open it again"):
        merged(lake.another_process(), pull)
    assert lake.head() == before and merges(lake) == []
    update(lake, pull, state=PullState.CLOSED)
    update(lake, pull, state=PullState.OPEN)
    assert merged(lake, pull) == lake.head() and lake.tree()["b"] == "2"
    assert merges(lake) == [f"pull/{pull}/2"]


def test_a_merge_on_less_history_than_when_it_began_is_found(lake: Lake) -> None:
    pull = opened(lake)
    slow, script = lake.interposed()
    script.before("set_if", lambda: reset.hard_reset(lake.opened, "main", "main~2"), nth=2)
    script.after("set_if", _die, nth=4)
    with pytest.raises(KeyboardInterrupt):
        merged(slow, pull)
    landed = lake.head()
    lake.commit_of("dev", more="1")
    assert merged(lake.another_process(), pull) == landed
    assert merges(lake) == [f"pull/{pull}/1"]


def test_a_slow_merge_does_not_undo_a_rollback_of_another_one(lake: Lake) -> None:
    pull, before = opened(lake), lake.head()
    slow, script = lake.interposed()

    def rival() -> None:
        merged(lake, pull)
        reset.hard_reset(lake.opened, "main", before)

    script.before("set_if", rival)
    with pytest.raises(Invalid):
        merged(slow, pull)
    assert lake.head() == before


@pytest.mark.parametrize("moment", [1, 2])
def test_a_slow_merge_does_not_land_beside_one_of_the_next_opening(lake: Lake, moment: int) -> None:
    """It comes before or after its note.  The merge of the next opening takes another source."""
    pull = opened(lake)
    slow, script = lake.interposed()

    def rival() -> None:
        reset.hard_reset(lake.opened, "main", "main~")
        reset.hard_reset(lake.opened, "dev", "dev~")
        lake.commit_of("dev", other="1")
        for now in (PullState.CLOSED, PullState.OPEN):
            update(lake, pull, state=now)
        merged(lake, pull)

    script.before("set_if", rival, nth=moment)
    with suppress(Invalid, OutcomeUnknown):
        assert merged(slow, pull) == lake.head()
    assert script.finished and len(merges(lake)) == 1
    assert "other" in lake.tree() and "b" not in lake.tree()


def test_a_request_that_is_opened_again_is_found_merged_below_a_reset(lake: Lake) -> None:
    """A hard reset took away what came after the merge, and not the merge."""
    pull = opened(lake)
    _dies(lake, pull, 2)
    landed = lake.head()
    lake.commit_of(later="1")
    reset.hard_reset(lake.opened, "main", "main~")
    for now in (PullState.CLOSED, PullState.OPEN):
        update(lake, pull, state=now)
    assert merged(lake, pull) == landed
    assert seen(lake, pull).merged == landed


def test_a_merge_into_a_branch_that_was_made_anew_is_found(lake: Lake) -> None:
    lake.branch("to")
    pull = opened(lake, destination="to")
    _dies(lake, pull, 2)
    landed = lake.head("to")
    names.delete_branch(lake.opened, "to")
    lake.branch("to", source=landed)
    assert state(lake, pull) is PullState.CLOSED
    update(lake, pull, state=PullState.OPEN)
    assert merged(lake, pull) == landed


def test_a_merge_whose_history_is_too_long_can_be_made_by_the_next_opening(lake: Lake) -> None:
    pull = opened(lake)
    _dies(lake, pull, 1)
    for number in range(4):
        lake.commit_of(more=str(number))
    short = Lake(
        replace(lake.ports, settings=lake.ports.settings._replace(walk_count_max=3)), lake.repo
    )
    with pytest.raises(OutcomeUnknown):
        merged(short, pull)
    for now in (PullState.CLOSED, PullState.OPEN):
        update(short, pull, state=now)
    merged(short, pull)
    assert merges(lake) == [f"pull/{pull}/2"]


def test_a_merge_that_landed_is_found_though_its_request_was_closed(lake: Lake) -> None:
    pull = opened(lake)
    _dies(lake, pull, 2)
    landed = lake.head()
    names.delete_branch(lake.opened, "dev")
    assert state(lake, pull) is PullState.CLOSED
    assert merged(lake, pull) == landed and state(lake, pull) is PullState.MERGED


def test_a_merge_that_failed_before_its_swap_leaves_no_note(lake: Lake) -> None:
    """Its swap was refused by a store that is down, so a later hard reset leaves no doubt."""
    pull = opened(lake)

    def plan(number: int, verb: str) -> Fault:
        swaps.extend([number] * (verb == "set_if"))
        return Fault.REFUSED if verb == "set_if" and len(swaps) == 2 else Fault.NONE

    swaps: list[int] = []
    with pytest.raises(Unavailable) as error:
        merged(lake.with_kv(lambda kv: FaultyStore(kv, plan)), pull)
    assert not isinstance(error.value, OutcomeUnknown) and not seen(lake, pull).attempt
    reset.hard_reset(lake.opened, "main", "main~")
    lake.commit_of(later="1")
    assert merged(lake, pull) == lake.head()


def test_a_hard_reset_before_any_merge_is_no_obstacle(lake: Lake) -> None:
    pull = opened(lake)
    reset.hard_reset(lake.opened, "main", "main~")
    merged(lake, pull)
    assert merges(lake) == [f"pull/{pull}/1"]


def test_a_request_that_is_opened_again_after_commits_keeps_its_note(lake: Lake) -> None:
    """Commits take no merge away, so the next merge finds what the first one landed."""
    pull = opened(lake)
    _dies(lake, pull, 2)
    landed = lake.head()
    lake.commit_of(later="1")
    for now in (PullState.CLOSED, PullState.OPEN):
        update(lake, pull, state=now)
    assert merged(lake, pull) == landed


def test_a_merge_that_was_closed_meanwhile_is_merged(lake: Lake) -> None:
    pull = opened(lake)
    slow, script = lake.interposed()
    script.before("set_if", lambda: update(lake, pull, state=PullState.CLOSED), nth=2)
    merged(slow, pull)
    assert state(lake, pull) is PullState.MERGED


@pytest.mark.parametrize("verb", ["get", "set_if", "set_many", "scan"])
@pytest.mark.parametrize("nth_call", range(1, 6))
@pytest.mark.parametrize("moment", ["before", "after"])
def test_of_two_merges_at_once_one_lands(verb: str, nth_call: int, moment: str) -> None:
    lake = ground()
    pull = opened(lake)
    slow, script = lake.interposed()
    landed: list[str] = []

    def rival() -> None:
        with suppress(Invalid):  # it may be merged already
            landed.append(merged(lake.another_process(), pull))
        lake.commit_of("dev", late="1")

    act = script.before if moment == "before" else script.after
    act(verb, rival, nth_call)
    try:
        landed.append(merged(slow, pull))
    except Invalid as error:
        assert error.code is Code.PULL_STATE_INVALID
    assert len(set(landed)) == 1
    assert merges(lake) == [f"pull/{pull}/1"]
    assert seen(lake, pull).merged == landed[0]


def test_a_slow_merge_does_not_land_beside_a_later_one_of_a_reset_source(lake: Lake) -> None:
    """The later merge takes another source, and the slow one would have something to merge."""
    pull = opened(lake)
    slow, script = lake.interposed()

    def rival() -> None:
        reset.hard_reset(lake.opened, "dev", "dev~")
        lake.commit_of("dev", other="1")
        merged(lake, pull)

    script.before("set_if", rival, nth=2)
    assert merged(slow, pull) == lake.head()
    assert merges(lake) == [f"pull/{pull}/1"]
    assert "other" in lake.tree() and "b" not in lake.tree()


def test_a_refusal_takes_away_a_swap_that_may_arrive_and_its_note(lake: Lake) -> None:
    pull = opened(lake)
    _dies(lake, pull, 1)
    noted = seen(lake, pull)
    assert noted.attempt and noted.since == lake.head() and len(noted.sent) == 1
    lake.put("dirty", "1")
    with pytest.raises(DirtyBranch):
        merged(lake, pull)
    assert seen(lake, pull) == noted._replace(attempt="", since=NO_COMMIT, sent=())


@pytest.mark.parametrize("removed", [True, False])
def test_the_note_of_a_merge_that_failed_for_certain_is_removed_if_it_can_be(
    lake: Lake, removed: bool
) -> None:
    """The swap is refused, because a rival commits, and the next round is: rows are staged."""
    pull = opened(lake)
    swaps: list[int] = []

    def plan(number: int, verb: str) -> Fault:
        swaps.extend([number] * (verb == "set_if"))
        if verb == "set_if" and len(swaps) == 2:
            lake.commit_of(rival="1")
            lake.put("dirty", "1")
        return Fault.REFUSED if len(swaps) > 2 and not removed else Fault.NONE

    with pytest.raises((DirtyBranch, Unavailable)):
        merged(lake.with_kv(lambda kv: FaultyStore(kv, plan)), pull)
    assert (seen(lake, pull).attempt == "") == removed
    reset.reset(lake.opened, "main")
    merged(lake, pull)
    assert merges(lake) == [f"pull/{pull}/1"]


def test_a_request_that_keeps_changing_is_given_up(lake: Lake) -> None:
    pull = opened(lake)
    script = Script()
    titles = iter(range(1_000))

    class Busy(InterposedStore):
        def set_if(self, partition: bytes, key: bytes, *rest: object) -> object:  # type: ignore[override]
            if key.startswith(b"p/"):
                update(lake, pull, title=f"{next(titles)}")
            return super().set_if(partition, key, *rest)  # type: ignore[arg-type]

    busy = lake.with_kv(lambda kv: Busy(kv, script))
    with pytest.raises(Contended):
        merged(busy, pull)
    assert merges(lake) == []


def test_a_merge_whose_request_keeps_changing_after_it_landed_is_found(lake: Lake) -> None:
    pull = opened(lake)
    titles = iter(range(1_000))

    class Busy(InterposedStore):
        def set_if(self, partition: bytes, key: bytes, *rest: object) -> object:  # type: ignore[override]
            if key.startswith(b"p/") and merges(lake):
                update(lake, pull, title=f"{next(titles)}")
            return super().set_if(partition, key, *rest)  # type: ignore[arg-type]

    busy = lake.with_kv(lambda kv: Busy(kv, Script()))
    with pytest.raises(OutcomeUnknown):
        merged(busy, pull)
    assert seen(lake, pull).state is PullState.OPEN
    assert merged(lake, pull) == lake.head()
    assert seen(lake, pull).state is PullState.MERGED and len(merges(lake)) == 1


def test_what_a_merge_costs(lake: Lake) -> None:
    counts = Counts()
    counted = lake.with_kv(lambda kv: counted_store(kv, counts))
    first, second = opened(lake), opened(lake)
    merged(counted, first)
    lake.commit_of("dev", d="1")
    before = counts.snapshot()
    merged(counted, second)
    cost = dict(counts.since(before))
    assert cost == {"get": 8, "scan": 1, "set_many": 1, "set_if": 3}
