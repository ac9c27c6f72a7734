"""Several staging tokens as one, against dictionaries laid over one another."""

import random
from collections.abc import Callable, Iterable
from typing import TypeVar

from graveler.core.clock import SystemClock, SystemIds
from graveler.core.ids import StagingToken
from graveler.core.records import TOMBSTONE, StagedValue
from graveler.core.streams import END, Cursor, Item
from graveler.kv.memory import MemoryStore
from graveler.staging import area, stack
from tests.staging.staged import stage

IDS = SystemIds()
A = TypeVar("A")
B = TypeVar("B")


def filled(kv: MemoryStore, model: dict[bytes, StagedValue], shards: int) -> StagingToken:
    token = area.new_token(SystemClock(), IDS, shards)
    for key, value in model.items():
        stage(kv, token, key, value)
    return token


def drained(cursor: Cursor) -> list[Item]:
    found = []
    while (item := cursor.peek()) is not END:
        found.append(item)
        cursor.advance()
    return found


def test_view_and_combination_agree_with_dictionaries() -> None:
    for seed in range(60):
        chance = random.Random(seed)
        kv = MemoryStore()
        together: dict[bytes, StagedValue] = {}
        tokens = []
        for number in range(chance.randint(1, 5)):
            layer: dict[bytes, StagedValue] = {
                b"%03d" % chance.randrange(100): chance.choice([TOMBSTONE, b"v%d" % number])
                for _ in range(chance.randrange(60))
            }
            tokens.append(filled(kv, layer, chance.choice([1, 8])))
            together |= layer
        expected = sorted(together.items(), key=lambda item: item[0])
        assert drained(stack.view(kv, tokens[::-1], first=7)) == expected, f"{seed=}"
        deltas = list(area.deltas(kv, tokens).values())
        assert stack.combine(deltas) == expected, f"{seed=}"


def test_a_view_of_nothing_is_empty() -> None:
    assert stack.view(MemoryStore(), []).peek() is END
    assert stack.combine([]) == []


def test_a_delta_is_not_changed_by_being_combined() -> None:
    delta: list[Item] = [(b"a", b"1"), (b"b", TOMBSTONE)]
    combined = stack.combine([delta])
    combined.clear()
    assert delta == [(b"a", b"1"), (b"b", TOMBSTONE)]


class Gathering:
    """`Fanout` that notes how many calls were handed over together."""

    def __init__(self) -> None:
        self.together: list[int] = []

    def map(self, function: Callable[[A], B], items: Iterable[A]) -> list[B]:
        todo = list(items)
        self.together.append(len(todo))
        return [function(item) for item in todo]


def test_shards_are_asked_at_the_same_time() -> None:
    kv, fanout = MemoryStore(), Gathering()
    layer: dict[bytes, StagedValue] = {b"%03d" % number: b"v" for number in range(200)}
    tokens = [filled(kv, layer, 4), filled(kv, layer, 4)]
    assert area.is_empty(kv, area.new_token(SystemClock(), IDS, 4), fanout)
    assert fanout.together == [3]
    assert list(area.deltas(kv, tokens, fanout)) == tokens
    assert fanout.together == [3, 8]
    cursor = stack.view(kv, tokens, first=10, fanout=fanout)
    cursor.seek(b"100")
    assert cursor.peek() == (b"100", b"v")
    assert fanout.together == [3, 8, 8]
    cursor.seek(b"101")
    assert cursor.peek() == (b"101", b"v")
    assert fanout.together == [3, 8, 8], "a seek inside the pages sends nothing"
    assert [key for key, _ in drained(cursor)] == sorted(layer)[101:]


def test_one_shard_is_asked_without_the_fan() -> None:
    kv, fanout = MemoryStore(), Gathering()
    token = filled(kv, {b"k": b"v"}, 1)
    assert not area.is_empty(kv, token, fanout)
    assert area.deltas(kv, [token], fanout) == {token: [(b"k", b"v")]}
    assert drained(stack.view(kv, [token, token], fanout=fanout)) == [(b"k", b"v")]
    assert fanout.together == []
