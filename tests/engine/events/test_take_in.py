"""Events of a bucket: late, twice, in any order, while others write, commit and reset."""

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from graveler.core.errors import NoChanges, NotFound, OutcomeUnknown, Refused, Unavailable
from graveler.core.ids import BranchId
from graveler.core.records import ABSENT, TOMBSTONE, Entry
from graveler.core.wire import encode_entry
from graveler.engine import janitor, names
from graveler.engine.commits import heads, reset
from graveler.engine.events import take_in
from graveler.engine.events.take_in import ArrivedObject
from graveler.refs import arrivals, event_rules
from graveler.refs.event_rules import EventRule
from tests.engine.lake import Lake
from tests.support.interposer import Script


def rule_of(lake: Lake, **said: object) -> EventRule:
    rule = EventRule("rule", lake.repo.id, lake.repo.uid, BranchId("main"), "landing", **said)  # type: ignore[arg-type]
    event_rules.check(rule)
    return rule


def told(key: str, sequencer: str, identity: str) -> ArrivedObject:
    """An event of `key`; an empty identity is a removal."""
    entry = Entry(f"mem://landing/{key}", len(identity), identity, 1)
    value = encode_entry(entry) if identity else TOMBSTONE
    return ArrivedObject(key.encode(), sequencer, key.encode(), value)


def deliver(lake: Lake, *events: ArrivedObject) -> list[str]:
    taken = take_in.take_in(lake.opened, rule_of(lake), events)
    return [each.value for each in taken]


def test_events_are_staged_and_committed(lake: Lake) -> None:
    lake.commit_of(gone="1", kept="1")
    assert deliver(lake, told("a", "01", "1"), told("gone", "01", "")) == ["staged", "staged"]
    assert lake.tree() == {"a": "1", "kept": "1"}
    lake.commit()
    assert lake.tree("main@") == {"a": "1", "kept": "1"}


def test_an_older_event_changes_nothing_before_and_after_a_commit(lake: Lake) -> None:
    deliver(lake, told("a", "0A01", "new"))
    assert deliver(lake, told("a", "0A", "old")) == ["old"]
    lake.commit()
    assert deliver(lake, told("a", "09FF", "")) == ["old"]
    assert lake.tree() == {"a": "new"}
    assert deliver(lake, told("a", "0A02", "newer")) == ["staged"]
    assert lake.tree() == {"a": "newer"}


@pytest.mark.parametrize("committed", [False, True])
def test_an_event_that_is_delivered_again_undoes_no_later_change(
    lake: Lake, committed: bool
) -> None:
    event = told("a", "1", "arrived")
    deliver(lake, event)
    if committed:
        lake.commit()
    assert deliver(lake, event) == ["known"]
    lake.put("a", "written")
    assert deliver(lake, event) == ["known"]
    if committed:
        lake.commit()
        assert deliver(lake, event) == ["known"]
    lake.delete("a")
    assert deliver(lake, event) == ["known"]
    assert lake.tree() == {}


def test_a_removal_that_is_delivered_again_undoes_no_later_write(lake: Lake) -> None:
    lake.commit_of(a="1")
    event = told("a", "1", "")
    deliver(lake, event)
    lake.commit()
    assert deliver(lake, event) == ["known"]
    lake.commit_of(a="2")
    assert deliver(lake, event) == ["known"]
    assert lake.tree() == {"a": "2"}


def late_row(lake: Lake, scripted: tuple[Lake, Script], action: Callable[[], object]) -> Lake:
    """A process whose token is closed and folded in just before its row lands in it."""
    mine, script = scripted
    heads.fresh(mine.opened, BranchId("main"))  # its cache knows the branch
    script.before("set_if", action)
    return mine


def test_a_row_that_came_after_the_scan_of_its_token_is_staged_again(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    lake.put("b", "1")
    mine = late_row(lake, scripted, rival.commit)
    assert deliver(mine, told("a", "1", "arrived")) == ["staged"]
    lake.commit()
    assert lake.tree("main@") == {"a": "arrived", "b": "1"}


@pytest.mark.parametrize("between", ["nothing", "commit", "write", "delete"])
def test_a_late_row_whose_worker_died_counts_when_it_is_delivered_again(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake, between: str
) -> None:
    """The row landed behind the scan, the worker died before it looked again."""
    lake.put("b", "1")
    mine = late_row(lake, scripted, rival.commit)
    script = scripted[1]

    def die() -> None:
        raise KeyboardInterrupt

    script.before("get", die)
    event = told("a", "1", "arrived")
    with pytest.raises(KeyboardInterrupt):
        deliver(mine, event)
    assert lake.tree() == {"b": "1"}, "the row is behind the scan: nobody sees it"
    expected = {"a": "arrived", "b": "1"}
    if between == "commit":
        lake.commit_of(c="1")
        expected["c"] = "1"
    elif between == "write":
        lake.put("a", "written")  # nobody was told that the event had counted: it is still to come
    elif between == "delete":
        lake.delete("a")
    assert deliver(lake, event) == ["staged"]
    assert deliver(rival, event) == ["known"]
    assert lake.tree() == expected
    with suppress(NoChanges):  # a deletion of what the head never had
        lake.commit()
    assert lake.tree("main@") == expected


def test_an_event_is_known_while_its_token_waits_to_be_folded_in(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    mine, script = scripted
    deliver(lake, told("a", "1", "arrived"))

    def dies() -> None:
        raise KeyboardInterrupt

    script.after("set_if", dies)
    with pytest.raises(KeyboardInterrupt):
        mine.commit()
    assert len(lake.record().sealed) == 1
    assert deliver(rival, told("a", "1", "arrived")) == ["known"]
    lake.put("a", "written")
    assert deliver(rival.another_process(), told("a", "1", "arrived")) == ["known"]
    lake.commit()
    assert lake.tree("main@") == {"a": "written"}


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("between", ["write", "delete"])
def test_an_event_takes_effect_after_changes_that_were_made_before_it_came(
    lake: Lake, rival: Lake, scripted: tuple[Lake, Script], between: str, dies: bool
) -> None:
    """Its process knows the branch of a moment ago, so its row lands in a token that is closed, and
    the open one has the older change already."""
    mine, script = scripted
    lake.commit_of(a="0")
    lake.put("b", "1")
    heads.fresh(mine.opened, BranchId("main"))
    rival.commit()
    rival.put("a", "written") if between == "write" else rival.delete("a")
    event = told("a", "1", "arrived")
    if dies:

        def die() -> None:
            raise KeyboardInterrupt

        script.before("get", die)
        with pytest.raises(KeyboardInterrupt):
            deliver(mine, event)
        assert deliver(rival, event) == ["staged"]
    else:
        assert deliver(mine, event) == ["staged"]
    assert lake.tree()["a"] == "arrived"
    lake.commit()
    assert lake.tree("main@")["a"] == "arrived"


def test_a_delivery_that_vouched_is_not_undone_by_one_that_is_under_way(
    lake: Lake, rival: Lake, scripted: tuple[Lake, Script]
) -> None:
    """The second delivery saw the record before the first had vouched; a merge came between."""
    event = told("a", "1", "arrived")
    mine, script = scripted
    first, steps = lake.interposed()
    lake.branch("dev")
    lake.commit_of("dev", a="merged")

    def slow() -> None:
        """Everything of the first delivery but its vouching is done; the rest comes now."""
        rival.commit()

        def rest() -> None:
            raise KeyboardInterrupt

        script.before("set_if", finish)
        script.before("set_if", rest, 3)
        with suppress(KeyboardInterrupt):
            deliver(mine, event)

    def finish() -> None:
        arrivals.vouch(lake.ports.kv, lake.repo, "rule", _call(lake, "a"), 0)
        rival.merge("dev", strategy="source-wins")

    steps.before("set", slow)
    deliver(first, event)
    assert lake.tree() == {"a": "merged"}


def test_an_older_event_waits_for_a_newer_one_that_does_not_count_yet(
    lake: Lake, scripted: tuple[Lake, Script], rival: Lake
) -> None:
    """The newer one's row landed behind the scan, and its worker died."""
    lake.put("b", "1")
    mine = late_row(lake, scripted, rival.commit)

    def die() -> None:
        raise KeyboardInterrupt

    scripted[1].before("get", die, nth=2)  # the branch; before it the repository is read
    newer, older = told("a", "2", "newer"), told("a", "1", "older")
    with pytest.raises(KeyboardInterrupt):
        deliver(mine, newer)
    with pytest.raises(Unavailable):
        deliver(rival, older)
    assert deliver(rival, newer) == ["staged"]
    assert deliver(rival, older) == ["old"]
    assert lake.tree()["a"] == "newer"


def _call(lake: Lake, key: str) -> bytes:
    row = lake.ports.kv.get(*arrivals.place_of(lake.repo, "rule", key.encode()))
    assert row is not ABSENT
    return arrivals.decode(row).arrival.calls[0]


def test_rows_that_the_janitor_took_are_told_by_the_content(lake: Lake) -> None:
    event, other = told("a", "1", "arrived"), told("b", "1", "arrived")
    deliver(lake, event, other)
    lake.commit()
    lake.delete("b")
    lake.commit()
    clock = lake.ports.clock
    before = clock.now_ns
    hours = [0]

    def later() -> int:
        return before() + hours[0] * 3_600 * 1_000_000_000

    lake.ports.clock.now_ns = later  # type: ignore[method-assign]
    for hours[0] in (2, 4, 6, 8, 40):
        janitor.sweep(lake.opened)
    assert deliver(lake, event, other) == ["known", "known"]
    assert lake.tree() == {"a": "arrived"}


def test_an_answer_that_is_lost_stages_once(lake: Lake, scripted: tuple[Lake, Script]) -> None:
    mine, script = scripted

    def lost() -> None:
        raise OutcomeUnknown("no answer")

    script.after("set_if", lost)
    assert deliver(mine, told("a", "1", "arrived")) == ["staged"]
    assert lake.tree() == {"a": "arrived"}


def test_after_a_reset_an_event_that_was_acknowledged_stays_away(lake: Lake) -> None:
    event = told("a", "1", "arrived")
    deliver(lake, event)
    reset.reset(lake.opened, "main")
    assert deliver(lake, event) == ["known"]
    assert lake.tree() == {}
    assert deliver(lake, told("a", "2", "again")) == ["staged"]


def test_events_for_a_branch_that_is_not_there_change_nothing(lake: Lake) -> None:
    lake.branch("dev")
    rule = EventRule("rule", lake.repo.id, lake.repo.uid, BranchId("dev"), "landing")
    names.delete_branch(lake.opened, "dev")
    with pytest.raises(NotFound):
        take_in.take_in(lake.opened, rule, [told("a", "1", "1")])


@pytest.mark.parametrize("seed", range(40))
def test_any_order_any_number_of_deliveries_end_with_the_newest(lake: Lake, seed: int) -> None:
    """Each object's history is delivered shuffled and with repetitions, commits in between."""
    chance = random.Random(seed)
    print(f"{seed=}")
    newest: dict[str, str] = {}
    events: list[ArrivedObject] = []
    for key in "abcd":
        for number in range(chance.randint(1, 5)):
            identity = "" if chance.random() < 0.3 else f"{key}{number}"
            event = told(key, f"{number + 1:X}" + "0" * chance.randint(0, 2), identity)
            events += [event] * chance.randint(1, 3)
            newest[key] = identity
    chance.shuffle(events)
    for event in events:
        deliver(lake, event)
        if chance.random() < 0.3 and lake.uncommitted():
            lake.commit()
    expected = {key: identity for key, identity in newest.items() if identity}
    assert lake.tree() == expected
    if lake.uncommitted():
        lake.commit()
    assert lake.tree("main@") == expected


def test_a_read_only_repository_takes_nothing_in(lake: Lake) -> None:
    frozen = Lake(lake.ports, replace(lake.repo, read_only=True))
    with pytest.raises(Refused):
        deliver(frozen, told("a", "1", "1"))
