"""What deliveries said of themselves goes once its time is over, in stores that keep everything."""

from dataclasses import replace

import pytest

from graveler import assembly
from graveler.core import limits
from graveler.core.records import Entry
from graveler.core.wire import encode_entry, encode_pairs
from graveler.engine.events import rules
from graveler.engine.events.rules import NewRule
from graveler.engine.events.take_in import ArrivedObject, take_in
from graveler.engine.ports import open_repository
from graveler.engine.repositories import repository
from graveler.jobs import sweeper as service_janitor
from graveler.kv.memory import MemoryStore
from graveler.refs.event_rules import EventRule
from graveler.refs.keys import all_vouched
from tests.engine.lake import Lake
from tests.support.clockwork import SeededIds, TickingClock

SPAN = limits.event_seconds
UNDATED = b"\x00" * 16, encode_pairs({})  # the name of a call, and what it said before


class World:
    """A repository with a rule, on a store that forgets nothing by itself."""

    def __init__(self) -> None:
        self.clock = TickingClock()
        ports = replace(assembly.open_memory(self.clock, SeededIds(1)), kv=MemoryStore())
        new = repository.NewRepository("lake", "mem://bucket/lake")
        self.lake = Lake(ports, repository.create(ports, new))
        said = NewRule("main", "landing", committer="tester")
        self.rule = rules.create(open_repository(ports, self.lake.repo), said)

    def deliver(self, key: str, rule: EventRule | None = None) -> None:
        value = encode_entry(Entry(f"s3://landing/{key}", 1, "e", 1))
        event = ArrivedObject(key.encode(), "1", key.encode(), value)
        take_in(self.lake.opened, rule or self.rule, [event])

    def vouched(self) -> int:
        """How many rows there are."""
        kv = self.lake.ports.kv
        places = all_vouched(self.lake.repo, self.rule.id)
        return sum(len(kv.scan(place, b"", b"", 10_000).rows) for place in places)


@pytest.fixture
def world() -> World:
    return World()


def test_rows_go_after_their_time_and_no_sooner(world: World) -> None:
    for number in range(20):
        world.deliver(f"old {number}")
    world.clock.sleep(SPAN - 60)
    for number in range(5):
        world.deliver(f"new {number}")
    assert rules.expire_confirmations(world.lake.opened) == 0
    world.clock.sleep(120)
    assert rules.expire_confirmations(world.lake.opened) == 20
    assert world.vouched() == 5
    assert rules.expire_confirmations(world.lake.opened) == 0


def test_those_of_a_rule_that_was_ended_go_too(world: World) -> None:
    world.deliver("a")
    rules.delete(world.lake.opened, world.rule.id)
    world.clock.sleep(SPAN + 60)
    service_janitor.tend(world.lake.opened)
    assert world.vouched() == 0


def test_a_round_has_a_time_and_a_number_of_rows_and_comes_to_all_of_them(world: World) -> None:
    for number in range(200):
        world.deliver(f"{number}")
    world.clock.sleep(SPAN + 60)
    assert rules.expire_confirmations(world.lake.opened, 0.0) == 0
    lake = world.lake.with_short_scans(1)
    found = [rules.expire_confirmations(lake.opened) for _ in range(40)]
    assert 0 < found[0] <= 128
    assert sum(found) == 200 and world.vouched() == 0


def test_a_row_that_says_no_time_stays(world: World) -> None:
    place = all_vouched(world.lake.repo, world.rule.id)[0]
    world.lake.ports.kv.set(place, *UNDATED, b"version")
    world.clock.sleep(SPAN + 60)
    assert rules.expire_confirmations(world.lake.opened) == 0
    assert world.vouched() == 1
