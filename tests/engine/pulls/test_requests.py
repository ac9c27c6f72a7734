"""Pull requests: what they say, how they are listed, and that they end with their branches."""

import pytest

from graveler.core import limits
from graveler.core.errors import (
    Code,
    Contended,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Refused,
    Unavailable,
)
from graveler.core.ids import BranchId
from graveler.core.records import ABSENT, BranchState, PullState
from graveler.core.requests import Counts, counted_store
from graveler.engine import janitor, names
from graveler.engine import pulls as requests
from graveler.engine.pulls import NewPull
from graveler.engine.repositories import repository
from graveler.refs import branches as stored_branches
from graveler.refs import pulls
from graveler.refs.pulls import PullQuery
from tests.engine.lake import COMMITTER, Lake, new_lake
from tests.engine.pulls.world import listed, merged, opened, seen, state, update
from tests.engine.storage import DAY, Storage
from tests.support.clockwork import SeededIds
from tests.support.faults import Fault, FaultyStore, nth
from tests.support.interposer import InterposedStore, Script

FAULTS = [Fault.REFUSED, Fault.DROPPED, Fault.LOST, Fault.REPEATED, Fault.LATE]


@pytest.fixture
def lake(forked: Lake) -> Lake:
    return forked


def test_a_request_says_what_it_was_opened_with(lake: Lake) -> None:
    pull = seen(lake, opened(lake, title="ä"))
    assert (pull.title, pull.description, pull.author) == ("ä", "d", COMMITTER)
    assert (pull.source, pull.destination, pull.state) == ("dev", "main", PullState.OPEN)
    assert pull.created_ns > 0 == pull.closed_ns


def test_the_newest_request_comes_first(lake: Lake) -> None:
    made = [opened(lake, title=str(number)) for number in range(5)]
    page = listed(lake, amount=2)
    assert [pull.id for pull in page.pulls] == made[:2:-1]
    assert page.following == made[3]
    rest = listed(lake, amount=3, after=page.following)
    assert [pull.id for pull in rest.pulls] == made[2::-1]
    assert rest.following == ""


def test_ids_of_later_times_are_smaller() -> None:
    ids, times = SeededIds(1), (0, 1, 31, 32, 33, 10**9, 2**62, 2**63 - 1)
    made = [pulls.new_id(now_ns, ids) for now_ns in times]
    assert made == sorted(made, reverse=True)
    assert {len(each) for each in made} == {20}


def test_a_page_of_one_state_leaves_the_others_out(lake: Lake) -> None:
    first, second, third = (opened(lake) for _ in range(3))
    update(lake, second, state=PullState.CLOSED)
    assert [pull.id for pull in listed(lake, PullState.OPEN).pulls] == [third, first]
    assert [pull.id for pull in listed(lake, PullState.CLOSED).pulls] == [second]
    assert listed(lake, PullState.MERGED).pulls == ()


def test_a_page_ends_after_many_requests_of_other_states(lake: Lake) -> None:
    made = [opened(lake) for _ in range(5)]
    query = PullQuery((PullState.MERGED,), rows_max=3)
    page = requests.list_page(lake.opened, query)
    assert (page.pulls, page.following) == ((), made[2])
    rest = requests.list_page(lake.opened, query._replace(after=page.following))
    assert rest.following == ""


def test_what_a_request_cannot_be_opened_with(lake: Lake) -> None:
    for source, destination, code in (
        ("main", "main", Code.PULL_SAME_BRANCH),
        ("a b", "main", Code.INVALID),
        ("dev", "", Code.INVALID),
    ):
        with pytest.raises(Invalid) as error:
            opened(lake, source, destination)
        assert error.value.code is code
    for source, destination in (("none", "main"), ("dev", "none")):
        with pytest.raises(NotFound):
            opened(lake, source, destination)
    for title in ("x" * (limits.pull_title_length_max + 1), "\ud800"):
        with pytest.raises(Invalid):
            opened(lake, title=title)
    long = NewPull("", "dev", "main", "me", "x" * (limits.pull_description_length_bytes_max + 1))
    with pytest.raises(Invalid):
        requests.create(lake.opened, long)
    assert listed(lake).pulls == ()


def test_an_id_that_is_none_and_one_that_nothing_has(lake: Lake) -> None:
    with pytest.raises(Invalid) as error:
        seen(lake, "none")
    assert error.value.code is Code.PULL_ID_INVALID
    for call in (seen, update):
        with pytest.raises(NotFound) as missing:
            call(lake, "0" * 20)
        assert missing.value.code is Code.PULL_NOT_FOUND


def test_a_read_only_repository_takes_no_requests(lake: Lake) -> None:
    new = repository.NewRepository("kept", "mem://bucket/kept", read_only=True)
    kept = Lake(lake.ports, repository.create(lake.ports, new))
    with pytest.raises(Refused):
        opened(kept)
    with pytest.raises(Refused):
        update(kept, "0" * 20, title="x")


# ---- updates -------------------------------------------------------------------------------------


def test_an_update_replaces_what_it_names(lake: Lake) -> None:
    pull = opened(lake)
    before = seen(lake, pull)
    update(lake, pull, title="new")
    assert seen(lake, pull) == before._replace(title="new")
    update(lake, pull, description="more", state=PullState.CLOSED)
    closed = seen(lake, pull)
    assert (closed.title, closed.description, closed.state) == ("new", "more", PullState.CLOSED)
    assert closed.closed_ns > closed.created_ns
    update(lake, pull, state=PullState.CLOSED)
    assert seen(lake, pull) == closed
    update(lake, pull, state=PullState.OPEN)
    assert seen(lake, pull) == closed._replace(state=PullState.OPEN, closed_ns=0)


def test_only_a_merge_makes_a_request_merged(lake: Lake) -> None:
    pull = opened(lake)
    for before in (PullState.OPEN, PullState.CLOSED):
        update(lake, pull, state=before)
        with pytest.raises(Invalid) as error:
            update(lake, pull, title="new", state=PullState.MERGED)
        assert error.value.code is Code.PULL_STATE_INVALID
    update(lake, pull, state=PullState.OPEN)
    merged(lake, pull)
    update(lake, pull, state=PullState.MERGED)
    with pytest.raises(Invalid):
        update(lake, pull, state=PullState.CLOSED)
    assert state(lake, pull) is PullState.MERGED
    assert seen(lake, pull).title == "t"


def test_a_request_is_opened_again_only_if_both_branches_exist(lake: Lake) -> None:
    pull = opened(lake)
    update(lake, pull, state=PullState.CLOSED)
    names.delete_branch(lake.opened, "dev")
    with pytest.raises(NotFound):
        update(lake, pull, state=PullState.OPEN)
    update(lake, pull, title="still")
    assert state(lake, pull) is PullState.CLOSED


def test_an_update_that_is_not_confirmed_and_replaced_since_is_unknown(lake: Lake) -> None:
    pull, script = opened(lake), Script()
    store = FaultyStore(lake.ports.kv, nth({2: Fault.LOST}))
    script.before("get", lambda: update(lake, pull, title="theirs"), nth=2)
    slow = lake.with_kv(lambda _: InterposedStore(store, script))
    with pytest.raises(OutcomeUnknown):
        update(slow, pull, title="ours")
    assert seen(lake, pull).title == "theirs"


# ---- branches that are deleted -------------------------------------------------------------------


def test_a_deleted_branch_closes_its_requests_and_no_others(lake: Lake) -> None:
    lake.branch("dev2")
    lake.branch("de")
    out, into = opened(lake, "dev", "main"), opened(lake, "main", "dev")
    others = [opened(lake, "dev2", "main"), opened(lake, "main", "de")]
    already = opened(lake)
    merged(lake, already)
    names.delete_branch(lake.opened, "dev")
    assert [state(lake, pull) for pull in (out, into)] == [PullState.CLOSED] * 2
    assert [state(lake, pull) for pull in others] == [PullState.OPEN] * 2
    assert state(lake, already) is PullState.MERGED
    assert seen(lake, out).closed_ns > 0


@pytest.mark.parametrize("moment", ["get_many", "set_many", "set_if"])
def test_a_request_that_is_opened_while_its_branch_goes_is_not_open(
    lake: Lake, moment: str
) -> None:
    slow, script = lake.interposed()
    script.after(moment, lambda: names.delete_branch(lake.opened, "dev"))
    with pytest.raises(NotFound):
        opened(slow)
    assert script.finished
    assert listed(lake, PullState.OPEN).pulls == ()


def test_a_request_that_is_opened_again_while_its_branch_goes_is_not_open(lake: Lake) -> None:
    pull = opened(lake)
    update(lake, pull, state=PullState.CLOSED)
    slow, script = lake.interposed()
    script.after("set_if", lambda: names.delete_branch(lake.opened, "dev"))
    with pytest.raises(NotFound):
        update(slow, pull, state=PullState.OPEN)
    assert state(lake, pull) is PullState.CLOSED


def _killed_deletion(lake: Lake) -> str:
    """A deletion whose process dies just after the swap; the second of its requests reads the rules
    of branch protection."""
    pull = opened(lake)
    broken = lake.with_kv(lambda kv: FaultyStore(kv, nth({6: Fault.REFUSED})))
    with pytest.raises(OutcomeUnknown):
        names.delete_branch(broken.opened, "dev")
    with pytest.raises(NotFound):
        lake.head("dev")
    assert state(lake, pull) is PullState.OPEN
    return pull


def test_a_repeated_deletion_closes_what_the_first_one_left(lake: Lake) -> None:
    pull = _killed_deletion(lake)
    with pytest.raises(NotFound):
        names.delete_branch(lake.opened, "dev")
    assert state(lake, pull) is PullState.CLOSED


def test_a_branch_that_is_created_again_has_no_requests_of_the_old_one(lake: Lake) -> None:
    pull = _killed_deletion(lake)
    lake.branch("dev")
    assert state(lake, pull) is PullState.CLOSED


def test_the_janitor_closes_what_a_deletion_left(storage: Storage) -> None:
    lake = Lake(storage.ports, storage.repo)
    storage.commit(a="1")
    lake.branch("dev")
    pull = _killed_deletion(lake)
    storage.wait(2 * DAY)
    janitor.sweep(storage.opened)
    assert state(lake, pull) is PullState.CLOSED


@pytest.mark.parametrize("fault", FAULTS)
def test_each_request_of_a_deletion_goes_wrong(fault: Fault) -> None:
    for number in range(1, 10):
        lake = new_lake()
        lake.commit_of(a="1")
        lake.branch("dev")
        pull = opened(lake)
        store = FaultyStore(lake.ports.kv, nth({number: fault}))
        answered = _deleted(lake.with_kv(lambda _, store=store: store))  # type: ignore[misc]
        if answered:
            assert state(lake, pull) is PullState.CLOSED
        store.land()
        with pytest.raises(NotFound):
            names.delete_branch(lake.opened, "dev")
            names.delete_branch(lake.opened, "dev")
        assert state(lake, pull) is PullState.CLOSED, number


def _deleted(lake: Lake) -> bool:
    try:
        names.delete_branch(lake.opened, "dev")
    except Unavailable:
        return False
    return True


def test_a_request_that_keeps_changing_is_not_closed_for_certain(lake: Lake) -> None:
    pull = opened(lake)
    dev = BranchId("dev")
    seen = stored_branches.find(lake.ports.kv, lake.repo, dev)
    assert seen is not ABSENT
    gone = seen.branch._replace(rev=seen.branch.rev + 1, state=BranchState.DELETED)
    stored_branches.swap(lake.ports.kv, lake.repo, dev, seen, gone, lake.ports.ids.stamp())
    slow, script = lake.interposed()
    for round_ in range(limits.commit_round_count_max):
        script.before("set_if", lambda n=round_: update(lake, pull, title=f"{n}"), nth=round_ + 1)  # type: ignore[misc]
    with pytest.raises(OutcomeUnknown) as unknown:
        requests.close_all(slow.opened, dev)
    assert isinstance(unknown.value.__cause__, Contended)


@pytest.mark.parametrize("fault", FAULTS)
def test_each_request_of_a_creation_goes_wrong(fault: Fault) -> None:
    for number in range(1, 6):
        lake = new_lake()
        lake.commit_of(a="1")
        lake.branch("dev")
        store = FaultyStore(lake.ports.kv, nth({number: fault}))
        broken = lake.with_kv(lambda _, store=store: store)  # type: ignore[misc]
        try:
            pull = opened(broken)
            assert state(lake, pull) is PullState.OPEN
        except Unavailable:
            pass
        store.land()
        assert len(listed(lake).pulls) <= 1
        opened(lake)
        names.delete_branch(lake.opened, "dev")
        assert listed(lake, PullState.OPEN).pulls == ()


def test_what_the_calls_cost(lake: Lake) -> None:
    counts = Counts()
    counted = lake.with_kv(lambda kv: counted_store(kv, counts))

    def cost(call: object) -> dict[str, int]:
        before = counts.snapshot()
        call()  # type: ignore[operator]
        return dict(counts.since(before))

    made: list[str] = []
    assert cost(lambda: made.append(opened(counted))) == {
        "get_many": 2,
        "set_many": 1,
        "set_if": 1,
    }
    pull = made[0]
    assert cost(lambda: seen(counted, pull)) == {"get": 1}
    assert cost(lambda: listed(counted)) == {"scan": 1}
    assert cost(lambda: update(counted, pull, title="x")) == {"get": 1, "set_if": 1}
    update(lake, pull, state=PullState.CLOSED)
    assert cost(lambda: update(counted, pull, state=PullState.OPEN)) == {
        "get": 2,
        "get_many": 2,
        "set_many": 1,
        "set_if": 1,
    }
    assert cost(lambda: requests.close_all(counted.opened, BranchId("dev"))) == {
        "scan": 1,
        "get": 2,  # the request, and the branch, which is there
    }
    before = counts.snapshot()
    names.delete_branch(counted.opened, "dev")
    closing = dict(counts.since(before))
    assert (closing["scan"], closing["get"], closing["set_if"]) == (1, 4, 2)
    assert state(lake, pull) is PullState.CLOSED


def test_a_request_whose_branch_was_away_for_a_moment_is_not_left_open(
    lake: Lake, rival: Lake, scripted: tuple[Lake, Script]
) -> None:
    """The caller is told that the branch is not found."""
    mine, script = scripted
    script.before("get_many", lambda: names.delete_branch(rival.opened, "dev"), 2)
    script.after("get_many", lambda: rival.branch("dev"), 2)
    with pytest.raises(NotFound):
        opened(mine)
    assert script.finished and listed(lake, PullState.OPEN).pulls == ()


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_deletion_that_is_slow_leaves_the_requests_of_the_next_branch_open(
    lake: Lake, rival: Lake, scripted: tuple[Lake, Script], is_lost: bool
) -> None:
    """Whether it gets its answer or not."""
    mine, script = scripted
    old, made = opened(lake), []

    def meanwhile() -> None:
        rival.branch("dev")
        made.append(opened(rival))
        if is_lost:
            raise OutcomeUnknown("no answer")

    script.after("set_if", meanwhile)
    names.delete_branch(mine.opened, "dev")
    assert script.finished
    assert (state(lake, old), state(lake, made[0])) == (PullState.CLOSED, PullState.OPEN)
