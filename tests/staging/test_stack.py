"""Several staging tokens as one, against dictionaries laid over one another."""

import random

from graveler.clock import SystemClock, SystemIds
from graveler.ids import StagingToken
from graveler.kv.memory import MemoryStore
from graveler.records import TOMBSTONE, StagedValue
from graveler.staging import area, stack
from graveler.streams import END, Cursor, Item

IDS = SystemIds()


def filled(kv: MemoryStore, model: dict[bytes, StagedValue], shards: int) -> StagingToken:
    token = area.new_token(SystemClock(), IDS, shards)
    for key, value in model.items():
        area.stage(kv, token, key, value, wid=b"w", order=1, version=IDS.stamp())
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
        deltas = [stack.delta(kv, token) for token in tokens]
        assert stack.combine(deltas) == expected, f"{seed=}"


def test_a_view_of_nothing_is_empty() -> None:
    assert stack.view(MemoryStore(), []).peek() is END
    assert stack.combine([]) == []


def test_a_delta_is_not_changed_by_being_combined() -> None:
    delta: list[Item] = [(b"a", b"1"), (b"b", TOMBSTONE)]
    combined = stack.combine([delta])
    combined.clear()
    assert delta == [(b"a", b"1"), (b"b", TOMBSTONE)]
