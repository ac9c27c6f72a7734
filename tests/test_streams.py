"""Cursors: items that are taken many at a time, against items that are visited one by one."""

import random
from collections.abc import Callable

import pytest

from graveler.committed import reader, writer
from graveler.committed.memory import MemoryRangeStore
from graveler.committed.ranges import Keyspace
from graveler.core.clock import SystemClock, SystemIds
from graveler.core.identity import frame
from graveler.core.records import TOMBSTONE, BreakParameters, StagedValue
from graveler.core.requests import Counts, counted_store
from graveler.core.streams import END, Cursor, Item, Overlay, Page, Prefixes, list_page, successor
from graveler.kv.memory import MemoryStore
from graveler.staging import area, stack
from tests.staging.staged import stage

IDS = SystemIds()
CLOCK = SystemClock()
SEEDS = range(60)


def some_keys(chance: random.Random) -> list[bytes]:
    return sorted({b"%02d/%02d" % divmod(chance.randrange(400), 20) for _ in range(60)})


class World:
    """Some committed records below some tokens of rows: cursors over all of it, with counted
    requests."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        self.counts = Counts()
        memory = MemoryStore()
        self.kv = counted_store(memory, self.counts)
        self.tokens = []
        for _ in range(chance.randrange(4)):
            token = area.new_token(CLOCK, IDS, chance.choice([1, 3]))
            for key in some_keys(chance)[: chance.choice([0, 3, 60])]:
                value: StagedValue = chance.choice([TOMBSTONE, b"staged"])
                stage(memory, token, key, value, wid=b"w" * 16, order=1)
            self.tokens.append(token)
        breaks = BreakParameters(raggedness=chance.choice([2, 10, 1_000]))
        self.space = Keyspace(MemoryRangeStore(), "mem://n/space", breaks)
        records = [(key, frame(b"id", key)) for key in some_keys(chance)]
        self.metarange = writer.write(self.space, iter(records))
        self.first = chance.choice([1, 5, 100])

    def cursor(self) -> Cursor:
        committed = reader.cursor(self.space, self.metarange, ahead=self.first)
        return Overlay([stack.view(self.kv, self.tokens, self.first), committed])

    def spent(self, read: Callable[[Cursor], object]) -> tuple[object, int]:
        before = self.counts.total()
        answer = read(self.cursor())
        return answer, self.counts.total() - before


def visited(cursor: Cursor, start: bytes, end: bytes, count: int) -> list[Item]:
    found: list[Item] = []
    cursor.seek(start)
    while len(found) < count and (item := cursor.peek()) is not END:
        if end and item[0] >= end:
            break
        found.append(item)
        cursor.advance()
    return found


def taken(cursor: Cursor, start: bytes, end: bytes, count: int) -> list[Item]:
    found: list[Item] = []
    cursor.seek(start)
    while len(found) < count and (items := cursor.take(count - len(found), end)):
        found += items
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_items_that_are_taken_are_those_that_are_visited(seed: int) -> None:
    world, chance = World(seed), random.Random(seed)
    for _ in range(8):
        start, end = sorted(chance.choices([b"", b"00", b"05/1", b"12/03", b"20"], k=2))
        count = chance.choice([1, 2, 7, 1_000])
        one_by_one = world.spent(lambda cursor: visited(cursor, start, end, count))  # noqa: B023
        together = world.spent(lambda cursor: taken(cursor, start, end, count))  # noqa: B023
        assert together[0] == one_by_one[0], f"{seed=} {start=} {end=} {count=}"
        assert together[1] <= one_by_one[1], f"{seed=}: takes more requests"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cursor_stands_behind_what_was_taken(seed: int) -> None:
    world, chance = World(seed), random.Random(seed)
    left = world.cursor()
    while left.peek() is not END:
        count = chance.randint(1, 9)
        items = left.take(count, b"")
        assert 0 < len(items) <= count
        key = items[-1][0]
        right = world.cursor()
        right.seek(key + b"\0")
        assert left.peek() == right.peek(), f"{seed=} {key=}"
        if chance.random() < 0.3:
            target = b"%02d" % chance.randrange(20)
            left.seek(target)
            right.seek(target)
            assert left.peek() == right.peek(), f"{seed=} {key=} {target=}"


@pytest.mark.parametrize("seed", SEEDS)
def test_flat_pages_hold_every_live_key_once(seed: int) -> None:
    world, chance = World(seed), random.Random(seed)
    prefix = chance.choice([b"", b"0", b"05/", b"19/19"])
    expected = [
        (key, value)
        for key, value in visited(world.cursor(), b"", b"", 10_000)
        if value is not TOMBSTONE and key.startswith(prefix)
    ]
    amount, after, lines = chance.choice([1, 3, 50]), b"", list[object]()
    while True:
        page = list_page(world.cursor(), prefix, b"", after, amount)
        lines += page.lines
        if not page.more:
            break
        assert len(page.lines) == amount
        after = page.lines[-1][0]
    assert lines == expected, f"{seed=}"


def listed_one_by_one(
    cursor: Cursor, prefix: bytes, delimiter: bytes, after: bytes, amount: int
) -> Page:
    """A page as `list_page` defines it, with each item visited."""
    lines: list[tuple[bytes, bytes]] = []
    cursor.seek(max(prefix, after + b"\0" if after else b""))
    if delimiter and after.endswith(delimiter) and len(after) > len(prefix):
        cursor.seek(successor(after))
    while (item := cursor.peek()) is not END and item[0].startswith(prefix):
        key, value = item
        if value is TOMBSTONE:
            cursor.advance()
            continue
        if len(lines) == amount:
            return Page(tuple(lines), True)
        cut = key.find(delimiter, len(prefix)) if delimiter else -1
        if cut < 0:
            lines.append((key, value))
            cursor.advance()
        else:
            lines.append((key[: cut + 1], b""))
            cursor.seek(successor(key[: cut + 1]))
    return Page(tuple(lines), False)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("delimiter", [b"", b"/", b"1"])
def test_pages_are_those_of_visited_items_for_no_more_requests(seed: int, delimiter: bytes) -> None:
    world, chance = World(seed), random.Random(seed)
    prefix, after = chance.choice([b"", b"0", b"05/", b"19/19"]), b""
    amount, more = chance.choice([1, 3, 50]), True
    while more:
        query = (prefix, delimiter, after, amount)
        expected, visits = world.spent(lambda cursor: listed_one_by_one(cursor, *query))  # noqa: B023
        page, requests = world.spent(lambda cursor: list_page(cursor, *query))  # noqa: B023
        assert page == expected, f"{seed=} {query=}"
        assert requests <= visits, f"{seed=} {query=}: takes more requests"
        assert isinstance(page, Page)
        more, after = page.more, page.lines[-1][0] if page.lines else b""


@pytest.mark.parametrize("seed", SEEDS)
def test_moves_in_any_order_show_the_same_items(seed: int) -> None:
    """An overlay of overlays, against a dictionary."""
    world, chance = World(seed), random.Random(seed)
    items = visited(world.cursor(), b"", b"", 10_000)
    cursor, at = world.cursor(), 0
    while at < len(items):
        move = chance.choice(["peek", "advance", "seek", "take"])
        if move == "seek":
            key = chance.choice([items[at][0], b"%02d" % chance.randrange(20), b"%02d/07" % at])
            cursor.seek(key)
            at += sum(1 for other, _ in items[at:] if other < key)
        elif move == "advance":
            cursor.advance()
            at += 1
        elif move == "take":
            end = chance.choice([b"", items[at][0], b"%02d" % chance.randrange(20)])
            part = list(cursor.take(chance.randint(1, 9), end))
            assert part == items[at : at + len(part)], f"{seed=} {at=}"
            assert all(not end or key < end for key, _ in part)
            assert part or (end and items[at][0] >= end)
            at += len(part)
        assert cursor.peek() == (items[at] if at < len(items) else END), f"{seed=} {at=} {move=}"


def test_a_set_of_prefixes_has_what_one_of_them_has() -> None:
    letters = [b"", b"a", b"b", b"a/", b"a/b", b"a0", b"b/", b"\xff", b"\xffa", b"ab", b"c\xff"]
    for seed in range(300):
        chance = random.Random(seed)
        chosen = chance.sample(letters, chance.randrange(5))
        prefixes = Prefixes(chosen)
        assert bool(prefixes) == bool(chosen) and set(prefixes) <= set(chosen)
        keys = sorted(first + second for first in letters for second in letters)
        below = [key for key in keys if key.startswith(tuple(chosen))] if chosen else []
        assert [key for key in keys if key in prefixes] == below, (seed, chosen)
        first, last = sorted(chance.sample(keys, 2))
        if any(first <= key <= last for key in below):
            assert prefixes.meet(first, last), (seed, chosen, first, last)
        ends = [(prefix, successor(prefix)) for prefix in chosen]
        reaches = [prefix <= last and (not end or end > first) for prefix, end in ends]
        assert prefixes.meet(first, last) == any(reaches), (seed, chosen, first, last)
