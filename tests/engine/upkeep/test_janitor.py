"""Records of deleted branches and tags go, a day after the deletion, and nothing comes back."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from graveler import assembly
from graveler.core import limits
from graveler.core.errors import AlreadyExists, NotFound
from graveler.core.ids import BranchId, TagId
from graveler.core.records import ABSENT
from graveler.core.requests import Counts, counted_store
from graveler.engine import janitor, names
from graveler.engine.names import PageQuery
from graveler.engine.repositories import repository
from graveler.kv.memory import MemoryStore
from graveler.kv.store import Outcome
from graveler.refs import branches
from graveler.refs.keys import space, tag_key
from tests.engine.lake import Lake
from tests.support.clockwork import SeededIds, TickingClock

DAY = limits.branch_purge_seconds
DEV, V1 = BranchId("dev"), TagId("v1")


class Twins(MemoryStore):
    """Keeps every conditional write and every removal, to be sent once more."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[Callable[[], object]] = []

    def set_if(self, *given: Any, **named: Any) -> Outcome:
        self.sent.append(lambda: MemoryStore.set_if(self, *given, **named))
        return super().set_if(*given, **named)

    def delete(self, *given: Any, **named: Any) -> None:
        self.sent.append(lambda: MemoryStore.delete(self, *given, **named))
        super().delete(*given, **named)

    def late(self) -> None:
        """All of them arrive again."""
        for write in self.sent:
            write()


@pytest.fixture
def clock() -> TickingClock:
    return TickingClock()


@pytest.fixture
def kv() -> Twins:
    return Twins()


@pytest.fixture
def lake(clock: TickingClock, kv: Twins) -> Lake:
    ports = replace(assembly.open_memory(clock, SeededIds(1)), kv=kv)
    return Lake(ports, repository.create(ports, repository.NewRepository("lake", "mem://b/lake")))


def _drop(lake: Lake, name: str = "dev") -> None:
    names.delete_branch(lake.opened, name)


def _tag(lake: Lake, name: str = "v1") -> None:
    names.create_tag(lake.opened, name, "main")


def _untag(lake: Lake, name: str = "v1") -> None:
    names.delete_tag(lake.opened, name)


def _sweep(lake: Lake) -> int:
    return janitor.sweep(lake.opened).names


def _there(lake: Lake) -> tuple[bool, bool]:
    kv, repo = lake.ports.kv, lake.repo
    return branches.find(kv, repo, DEV) is not ABSENT, kv.get(
        space(repo), tag_key(V1)
    ) is not ABSENT


def test_names_go_a_day_after_their_deletion_and_not_before(
    lake: Lake, clock: TickingClock
) -> None:
    lake.branch("dev")
    lake.branch("kept")
    _tag(lake)
    _tag(lake, "stays")
    clock.sleep(2 * DAY)
    _drop(lake)
    _untag(lake)
    clock.sleep(DAY - 60)
    assert _sweep(lake) == 0 and _there(lake) == (True, True)
    clock.sleep(120)
    assert _sweep(lake) == 2 and _there(lake) == (False, False)
    with pytest.raises(NotFound):
        lake.head("dev")
    with pytest.raises(NotFound):
        names.get_tag(lake.opened, "v1")
    clock.sleep(2 * DAY)
    assert _sweep(lake) == 0 and lake.head("kept") == lake.head()
    assert names.get_tag(lake.opened, "stays") == lake.head()


def test_a_name_that_was_removed_can_be_made_anew(lake: Lake, clock: TickingClock) -> None:
    for number in range(3):
        lake.branch("dev")
        lake.commit_of("dev", a=f"{number}")
        _tag(lake)
        with pytest.raises(AlreadyExists):
            lake.branch("dev")
        _drop(lake)
        _untag(lake)
        clock.sleep(DAY + 60)
        assert _sweep(lake) == 2
    lake.branch("dev")
    assert lake.tree("dev") == {} and lake.record("dev").rev == 1


def test_late_twins_bring_nothing_back_and_remove_nothing(
    lake: Lake, clock: TickingClock, kv: Twins
) -> None:
    """All but a creation over an absent row: it is a day old, so no longer on its way."""
    lake.branch("dev")
    _tag(lake)
    first = list(kv.sent)
    kv.sent.clear()
    lake.commit_of("dev", a="1")
    _drop(lake)
    _untag(lake)
    for write in first:
        write()
    assert names.list_branches(lake.opened, PageQuery())[0][0].id == "main"
    clock.sleep(DAY + 60)
    assert _sweep(lake) == 2
    kv.late()
    assert _there(lake) == (False, False)
    lake.branch("dev")
    _tag(lake)
    made = lake.record("dev")
    kv.late()
    assert lake.another_process().record("dev") == made
    assert names.get_tag(lake.opened, "v1") == lake.head()


@pytest.mark.parametrize("again", [True, False])
def test_who_makes_a_name_in_the_moment_of_its_removal_keeps_it(
    lake: Lake, clock: TickingClock, again: bool
) -> None:
    lake.branch("dev")
    _tag(lake)
    _drop(lake)
    _untag(lake)
    clock.sleep(DAY + 60)
    rival = lake.another_process()

    def act() -> None:
        rival.branch("dev")
        _tag(rival)
        rival.put("a", "1", "dev")
        if again:
            _drop(rival)
            _untag(rival)

    janitor.sweep(lake.opened)  # tokens are marked, names are gone
    lake.branch("dev")
    _tag(lake)
    _drop(lake)
    _untag(lake)
    clock.sleep(DAY + 60)
    mine, script = lake.interposed()
    script.before("delete", act)
    assert janitor.sweep(mine.opened).names
    assert script.finished and _there(lake) == (True, True)
    if not again:
        assert lake.another_process().tree("dev") == {"a": "1"}


def test_a_creation_that_meets_the_removal_is_made(lake: Lake, clock: TickingClock) -> None:
    lake.branch("dev")
    _drop(lake)
    clock.sleep(DAY + 60)
    mine, script = lake.interposed()
    script.before("set_if", lambda: _sweep(lake.another_process()))
    mine.branch("dev")
    assert script.finished and lake.head("dev") == lake.head()


def test_a_tag_meets_the_removal_and_is_made(lake: Lake, clock: TickingClock) -> None:
    _tag(lake)
    _untag(lake)
    clock.sleep(DAY + 60)
    mine, script = lake.interposed()
    script.before("set_if", lambda: _sweep(lake.another_process()))
    _tag(mine)
    assert script.finished and names.get_tag(lake.opened, "v1") == lake.head()


def test_a_sweep_that_has_no_time_left_removes_the_rest_later(
    lake: Lake, clock: TickingClock
) -> None:
    count = limits.kv_batch_count_max + 10
    for number in range(count):
        _tag(lake, f"t{number}")
        _untag(lake, f"t{number}")
    clock.sleep(DAY + 60)
    mine, script = lake.interposed()
    script.after("delete", lambda: clock.sleep(60))
    swept = janitor.sweep(mine.opened, 30)
    assert (swept.names, swept.whole) == (limits.kv_batch_count_max, False)
    assert _sweep(lake) == 10


def test_a_listing_costs_what_it_costs_in_a_fresh_repository(
    lake: Lake, clock: TickingClock
) -> None:
    counts = Counts()
    counted = lake.with_kv(lambda kv: counted_store(kv, counts))

    def spent() -> tuple[int, int]:
        before = counts.snapshot()
        names.list_branches(counted.opened, PageQuery())
        names.list_tags(counted.opened, PageQuery())
        rows = len(lake.ports.kv.scan(space(lake.repo), b"b/", b"b0", 10_000).rows)
        return sum(counts.since(before).values()), rows

    fresh = spent()
    for number in range(1_500):
        lake.branch(f"b{number}")
        _drop(lake, f"b{number}")
        _tag(lake, f"t{number}")
        _untag(lake, f"t{number}")
    assert spent() > fresh
    clock.sleep(DAY + 60)
    assert _sweep(lake) == 3_000
    assert spent() == fresh
