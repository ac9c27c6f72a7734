"""More commits were made meanwhile than anybody looks through for what may have landed."""

import pytest

from graveler.core.errors import HistoryTooLong, OutcomeUnknown, PreconditionFailed
from graveler.core.ids import BranchId, CommitId
from graveler.core.records import ABSENT
from graveler.engine.commits import reset, search
from graveler.engine.commits.search import Once
from graveler.engine.events import batches
from graveler.engine.events.batches import Delivery
from tests.engine.bulk_world import begin, finish, write
from tests.engine.events.test_batch_commits import batch_commits
from tests.engine.events.test_take_in import deliver, rule_of, told
from tests.engine.lake import Lake, new_lake
from tests.engine.test_lost_answers import losing

MAIN = BranchId("main")
WALKED = 4


@pytest.fixture
def lake() -> Lake:
    return new_lake().with_settings(walk_count_max=WALKED)


def _commits(lake: Lake, number: int = WALKED + 1) -> None:
    for _ in range(number):
        lake.commit("rival", allow_empty=True)


def test_a_commit_that_is_made_once_is_not_made_again_when_nobody_knows(lake: Lake) -> None:
    once = Once("mark", "1", CommitId(lake.head()))
    lake.put("a", "1")
    lake.commit(metadata={"mark": "1"}, once=once)
    _commits(lake)
    head = lake.head()
    lake.put("b", "1")
    with pytest.raises(HistoryTooLong, match="outcome unknown"):
        lake.commit(metadata={"mark": "1"}, once=once)
    with pytest.raises(OutcomeUnknown):
        lake.merge(head, metadata={"mark": "1"}, once=once)
    assert lake.head() == head


def test_as_many_commits_as_are_looked_through_tell(lake: Lake) -> None:
    once = Once("mark", "1", CommitId(lake.head()))
    lake.put("a", "1")
    made = lake.commit(metadata={"mark": "1"}, once=once)
    _commits(lake, WALKED - 1)
    assert lake.commit(once=once).id == made.id
    other = once._replace(value="2", since=made.id)
    lake.put("b", "1")
    assert lake.commit(metadata={"mark": "2"}, once=other).id == lake.head()


def test_a_commit_whose_swap_had_no_answer_is_unknown(lake: Lake, rival: Lake) -> None:
    mine, script = losing(lake, 2)
    lake.put("a", "1")
    script.after("set_if", lambda: _commits(rival), 2)
    with pytest.raises(OutcomeUnknown):
        mine.commit("mine")
    assert script.finished and lake.tree() == {"a": "1"}


def test_a_merge_whose_swap_had_no_answer_is_unknown(forked: Lake, rival: Lake) -> None:
    mine, script = losing(forked, 1)
    script.after("set_if", lambda: _commits(rival))
    with pytest.raises(OutcomeUnknown):
        mine.merge("dev")
    assert script.finished and forked.tree() == {"a": "1", "b": "2"}


def test_a_hard_reset_whose_swap_had_no_answer_is_unknown(lake: Lake, rival: Lake) -> None:
    lake.commit_of(a="1")
    target = lake.head()
    lake.commit_of(a="2")
    mine, script = losing(lake, 1)
    script.after("set_if", lambda: _commits(rival))
    with pytest.raises(OutcomeUnknown):
        reset.hard_reset(mine.opened, "main", target)
    assert script.finished


def test_a_row_that_surely_was_not_put_is_put_again(lake: Lake, rival: Lake) -> None:
    mine, script = lake.interposed()
    lake.put("other", "1")

    def acts() -> None:
        _commits(rival)
        rival.put("a", "theirs")

    script.before("set_if", acts)
    with pytest.raises(PreconditionFailed):
        mine.put_if_absent("a", "mine")
    assert script.finished and lake.tree()["a"] == "theirs"


def test_who_holds_a_token_is_unknown(lake: Lake) -> None:
    lake.put("a", "1")
    token, since = lake.record().staging, CommitId(lake.head())
    lake.commit()
    _commits(lake)
    with pytest.raises(HistoryTooLong):
        search.holder(lake.opened, MAIN, token, since)


def test_a_batch_is_done_for_its_objects_were_committed(lake: Lake) -> None:
    rule = rule_of(lake)
    deliver(lake, told("a", "1", "1"))
    closing = batches.note(lake.opened, rule, Delivery(1, marked=True))
    assert closing is not ABSENT
    _commits(lake)
    assert batches.commit_batch(lake.opened, rule, closing.batch) is ABSENT
    assert batches.tick(lake.opened, rule) == ()
    assert batch_commits(lake) == [] and lake.tree("main@") == {"a": "1"}


def test_a_batch_that_landings_have_passed_is_committed(lake: Lake) -> None:
    """Bulk jobs land beside its objects, so their commits do not contain them."""
    rule = rule_of(lake)
    deliver(lake, told("a", "1", "1"))
    closing = batches.note(lake.opened, rule, Delivery(1, marked=True))
    assert closing is not ABSENT
    for number in range(WALKED + 1):
        finish(lake, begin(lake, prefix="in/"), write(lake, {"in/x": f"{number}"}))
    made = batches.commit_batch(lake.opened, rule, closing.batch)
    assert made == lake.head() and lake.tree("main@") == {"a": "1", "in/x": f"{WALKED}"}
    assert batches.tick(lake.opened, rule) == ()
    assert batches.commit_batch(lake.opened, rule, closing.batch) is ABSENT
