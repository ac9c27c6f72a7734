"""Rows of one staging token, against a dictionary; and what they cost in requests."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from graveler.core.clock import SystemClock, SystemIds
from graveler.core.errors import Corrupt, Internal, OutcomeUnknown
from graveler.core.identity import shard
from graveler.core.ids import StagingToken
from graveler.core.records import ABSENT, TOMBSTONE, Staged, StagedValue
from graveler.core.requests import Counts, counted_store
from graveler.core.streams import END, Cursor, Item, list_page
from graveler.kv.memory import MemoryStore
from graveler.kv.store import WRITTEN, Outcome, ScanPage
from graveler.staging import area
from tests.engine.short_pages import ShortScans
from tests.staging.staged import stage

IDS = SystemIds()
CLOCK = SystemClock()


class Rows:
    """A token in a counted store."""

    def __init__(self, shards: int = 1) -> None:
        self.counts = Counts()
        self.memory = MemoryStore()
        self.kv = counted_store(self.memory, self.counts)
        self.token = area.new_token(CLOCK, IDS, shards)
        self._before = 0

    def spent(self) -> int:
        before, self._before = self._before, self.counts.total()
        return self._before - before

    def put(self, key: bytes, value: StagedValue, order: int = 1) -> None:
        stage(self.memory, self.token, key, value, wid=b"w", order=order)


class CountedRows:
    """A store that counts the rows that its scans return."""

    def __init__(self, kv: Any) -> None:
        self._kv = kv
        self.count = 0

    def scan(self, partition: bytes, start: bytes, end: bytes, limit: int) -> ScanPage:
        page: ScanPage = self._kv.scan(partition, start, end, limit)
        self.count += len(page.rows)
        return page


@pytest.fixture(params=[1, 8])
def rows(request: pytest.FixtureRequest) -> Iterator[Rows]:
    yield Rows(request.param)


def drained(cursor: Cursor) -> list[Item]:
    found = []
    while (item := cursor.peek()) is not END:
        found.append(item)
        cursor.advance()
    return found


# ---- tokens --------------------------------------------------------------------------------------


class StoppedClock(SystemClock):
    def now_ns(self) -> int:
        return 1_700_000_000_123_456_789


def test_a_token_tells_its_birth_and_its_shards() -> None:
    token = area.new_token(StoppedClock(), IDS, 8)
    assert area.born_ns(token) == 1_700_000_000_123_000_000
    assert area.shard_count(token) == 8
    assert len(token) == 26 + 10 + 2
    assert set(token[26:36]) <= set("0123456789abcdefghijklmnopqrstuv")


def test_tokens_never_repeat_and_sort_by_birth() -> None:
    tokens = {area.new_token(StoppedClock(), IDS, 1) for _ in range(1_000)}
    assert len(tokens) == 1_000
    assert all(token < area.new_token(CLOCK, IDS, 1) for token in tokens)


@pytest.mark.parametrize("count", [0, -1, 65])
def test_a_wrong_number_of_shards_is_our_own_bug(count: int) -> None:
    with pytest.raises(Internal):
        area.new_token(CLOCK, IDS, count)


@pytest.mark.parametrize("text", ["", "x", "x.", "x.0", "x.65", "x.-1", "x.1x", "x.\u0661"])
def test_a_damaged_token_is_corrupt(text: str) -> None:
    with pytest.raises(Corrupt):
        area.shard_count(StagingToken(text))


def test_a_damaged_birth_time_is_corrupt() -> None:
    with pytest.raises(Corrupt):
        area.born_ns(StagingToken("not a time.1"))


# ---- one key -------------------------------------------------------------------------------------


def test_rows_stand_where_the_format_says(rows: Rows) -> None:
    count = area.shard_count(rows.token)
    rows.put(b"a/b", b"value")
    partition = f"s/{rows.token}/{shard(b'a/b', count)}".encode()
    assert rows.memory.get(partition, b"a/b") is not ABSENT


def test_stage_replaces_what_has_a_smaller_order_only(rows: Rows) -> None:
    def put(value: StagedValue, order: int, wid: bytes) -> object:
        return stage(rows.kv, rows.token, b"k", value, wid=wid, order=order)

    assert put(b"one", 5, b"w1") is WRITTEN
    assert rows.spent() == 1
    first = area.lookup(rows.memory, [rows.token], b"k")
    assert first is not ABSENT and first[:3] == (b"one", 5, b"w1")
    assert put(b"two", 5, b"w2") == first
    assert put(b"two", 4, b"w2") == first
    assert put(TOMBSTONE, 6, b"w2") is WRITTEN
    second = area.lookup(rows.memory, [rows.token], b"k")
    assert second is not ABSENT and second[:3] == (TOMBSTONE, 6, b"w2")
    assert put(b"one", 5, b"w1") == second, "late duplicate"
    assert area.lookup(rows.kv, [rows.token], b"k") == second != first


def test_stage_if_needs_the_row_that_was_seen(rows: Rows) -> None:
    def stage_if(value: StagedValue, version: bytes, seen: object) -> bool:
        assert seen is ABSENT or isinstance(seen, Staged)
        return area.stage_if(rows.kv, rows.token, b"k", value, wid=b"w", version=version, seen=seen)

    def now() -> Staged:
        found = area.lookup(rows.memory, [rows.token], b"k")
        assert found is not ABSENT
        return found

    assert stage_if(b"one", b"v1", ABSENT)
    assert rows.spent() == 1
    first = now()
    assert (first.value, first.version) == (b"one", b"v1") and first.order > 0
    assert not stage_if(b"two", b"v2", ABSENT)
    assert stage_if(TOMBSTONE, b"v3", first)
    assert now().order > first.order, "or an old unconditional write could come back"
    assert not stage_if(b"four", b"v4", first)
    assert stage_if(TOMBSTONE, b"v3", first), "the echo of the own write is success"
    second = now()
    assert area.stage_if(
        rows.kv, rows.token, b"k", b"x", wid=b"w", version=b"v5", seen=second, order=1_000
    )
    assert now().order == 1_000
    assert area.stage_if(
        rows.kv, rows.token, b"k", b"y", wid=b"w", version=b"v6", seen=now(), order=7
    )
    assert now().order == 1_001, "the order never falls"


def test_a_prefilled_row_reads_as_one_and_any_later_write_replaces_it(rows: Rows) -> None:
    write = area.row_write(rows.token, b"k", TOMBSTONE, wid=b"w", version=b"v")
    rows.kv.set_many([write])
    assert area.lookup(rows.kv, [rows.token], b"k") == Staged(TOMBSTONE, 0, b"w", b"v")
    rows.put(b"k", b"later", order=1)
    found = area.lookup(rows.kv, [rows.token], b"k")
    assert found is not ABSENT and found.value == b"later"


class Mute(MemoryStore):
    def set_newer(
        self, partition: bytes, key: bytes, value: bytes, version: bytes, order: int
    ) -> Outcome:
        raise OutcomeUnknown("no answer")


def test_an_unknown_outcome_is_passed_on() -> None:
    token = area.new_token(CLOCK, IDS, 1)
    assert isinstance(stage(Mute(), token, b"k", b"v"), OutcomeUnknown)


def test_the_newest_token_decides_and_one_request_asks_all() -> None:
    kept = Rows()
    tokens = [area.new_token(CLOCK, IDS, shards) for shards in (1, 8, 3, 1)]
    for number, token in enumerate(tokens):
        for key in (b"a", b"b", b"c", b"d")[: number + 1]:
            value = TOMBSTONE if key == b"b" and number == 1 else b"%d" % number
            stage(kept.memory, token, key, value)
    values = {}
    for key in (b"a", b"b", b"c", b"d", b"e"):
        found = area.lookup(kept.kv, tokens, key)
        assert kept.spent() == 1
        values[key] = ABSENT if found is ABSENT else found.value
    assert values == {b"a": b"0", b"b": TOMBSTONE, b"c": b"2", b"d": b"3", b"e": ABSENT}
    many = area.lookup_many(kept.kv, tokens, list(values))
    assert kept.spent() == 1
    assert {key: staged.value for key, staged in many.items()} == {
        key: value for key, value in values.items() if value is not ABSENT
    }
    assert kept.counts.snapshot() == {"get_many": 6}
    assert area.lookup(kept.kv, tokens[3:], b"d") is not ABSENT
    assert kept.counts.snapshot() == {"get_many": 6, "get": 1}


def test_lookup_without_tokens_or_keys_asks_nothing() -> None:
    kept = Rows()
    assert area.lookup(kept.kv, [], b"k") is ABSENT
    assert area.lookup_many(kept.kv, [kept.token], []) == {}
    assert kept.spent() == 0


# ---- all keys ------------------------------------------------------------------------------------


def random_rows(rows: Rows, seed: int, count: int) -> dict[bytes, StagedValue]:
    """Rows with keys of every byte, many overwritten, some deleted."""
    chance = random.Random(seed)
    model: dict[bytes, StagedValue] = {}
    for order in range(1, count + 1):
        key = bytes(chance.choices(b"\x00\x01ab/\xfe\xff", k=chance.randint(1, 5)))
        value: StagedValue = TOMBSTONE if chance.random() < 0.3 else b"%d" % order
        rows.put(key, value, order)
        model[key] = value
    return model


def test_scan_shows_every_row_in_key_order(rows: Rows) -> None:
    for seed in range(5):
        kept = Rows(area.shard_count(rows.token))
        model = random_rows(kept, seed, 600)
        kv: Any = ShortScans(kept.kv, 50)
        found = [(key, staged.value) for key, staged in area.scan(kv, kept.token)]
        assert found == sorted(model.items(), key=lambda item: item[0]), f"{seed=}"
        for start in (b"a", b"a/\xff", b"\xff\xff\xff\xff\xff\xff", b"\x00"):
            later = [key for key, _ in area.scan(kv, kept.token, start)]
            assert later == sorted(key for key in model if key >= start), f"{seed=} {start=}"


def test_scan_is_one_request_a_shard_and_page(rows: Rows) -> None:
    shards = area.shard_count(rows.token)
    for number in range(2_000):
        rows.put(b"%05d" % number, b"v")
    rows.spent()
    assert sum(1 for _ in area.scan(rows.kv, rows.token)) == 2_000
    assert rows.spent() == shards


def test_the_pages_of_all_shards_are_the_rows_of_the_token(rows: Rows) -> None:
    for number in range(100):
        rows.put(b"%05d" % number, b"v")
    rows.spent()
    shards = range(area.shard_count(rows.token))
    pages = [page for at in shards for page in area.shard_pages(rows.kv, rows.token, at, 7)]
    assert all(1 <= len(page) <= 7 for page in pages)
    assert sorted(row for page in pages for row in page) == list(area.scan(rows.memory, rows.token))
    assert rows.spent() == len(pages)


def test_emptiness_is_asked_of_one_shard_and_then_of_all_others(rows: Rows) -> None:
    shards = area.shard_count(rows.token)
    assert area.is_empty(rows.kv, rows.token)
    assert rows.spent() == shards
    rows.put(b"k", TOMBSTONE)
    assert not area.is_empty(rows.kv, rows.token)
    assert rows.spent() == (1 if shard(b"k", shards) == 0 else shards)


def test_drop_deletes_every_row_and_nothing_else(rows: Rows) -> None:
    model = random_rows(rows, 3, 900)
    other = area.new_token(CLOCK, IDS, 1)
    stage(rows.memory, other, b"k", b"v")
    kv: Any = ShortScans(rows.kv, 100)
    assert area.drop(kv, rows.token).rows == len(model)
    assert area.is_empty(rows.kv, rows.token)
    assert area.drop(rows.kv, rows.token).rows == 0
    assert not area.is_empty(rows.kv, other)


# ---- cursors -------------------------------------------------------------------------------------


def test_a_cursor_asks_nothing_before_it_is_looked_at(rows: Rows) -> None:
    cursor = area.cursor(rows.kv, rows.token)
    cursor.seek(b"k")
    assert rows.spent() == 0
    assert cursor.peek() is END
    assert rows.spent() == area.shard_count(rows.token)
    cursor.advance()
    assert cursor.peek() is END
    cursor.seek(b"z")
    assert cursor.peek() is END
    assert rows.spent() == 0, "the end is known"


def test_a_cursor_moves_as_a_sorted_list_would(rows: Rows) -> None:
    """Random advances and seeks, pages of every size, against the sorted items."""
    shards = area.shard_count(rows.token)
    for seed in range(60):
        chance = random.Random(seed)
        kept = Rows(shards)
        model = sorted(random_rows(kept, seed, 300).items(), key=lambda item: item[0])
        cursor = area.cursor(kept.kv, kept.token, first=chance.choice([1, 2, 7, 128]))
        at = 0
        for _ in range(150):
            said = f"{seed=} {at=}"
            if chance.random() < 0.7:
                assert cursor.peek() == (model[at] if at < len(model) else END), said
            if chance.random() < 0.6:
                cursor.advance()
                at = min(at + 1, len(model))
            else:
                key = near(chance, model, at)
                cursor.seek(key)
                at = max(at, sum(1 for each, _ in model if each < key))
        assert drained(cursor) == model[at:], f"{seed=}"


def near(chance: random.Random, model: list[Item], at: int) -> bytes:
    """A key somewhat before or behind the present one, or just behind a present one."""
    place = min(len(model) - 1, max(0, at + chance.randint(-3, 12)))
    return model[place][0] + chance.choice([b"", b"\0", b"\xff"])


def test_pages_grow_as_the_cursor_advances(rows: Rows) -> None:
    shards = area.shard_count(rows.token)
    for number in range(10_000):
        rows.put(b"%05d" % number, TOMBSTONE)
    rows.spent()
    assert len(drained(area.cursor(rows.kv, rows.token))) == 10_000
    assert rows.spent() <= 4 * shards  # 128 + 512 + 2,048 + 8,192


def test_a_listing_past_ten_thousand_tombstones_is_a_few_requests(rows: Rows) -> None:
    for number in range(10_000):
        rows.put(b"a/%05d" % number, TOMBSTONE)
    rows.put(b"b", b"live")
    rows.spent()
    page = list_page(area.cursor(rows.kv, rows.token), b"", b"/", b"", 100)
    assert [key for key, _ in page.lines] == [b"b"]
    assert rows.spent() <= 4 * area.shard_count(rows.token)


def test_a_seek_inside_the_page_is_free_and_beyond_it_one_request_a_shard(rows: Rows) -> None:
    shards = area.shard_count(rows.token)
    for number in range(10_000):
        rows.put(b"%05d" % number, b"v")
    rows.spent()
    cursor = area.cursor(rows.kv, rows.token)
    assert cursor.peek() == (b"00000", b"v")
    assert rows.spent() == shards
    cursor.seek(b"00090")
    assert cursor.peek() == (b"00090", b"v")
    assert rows.spent() == 0
    cursor.seek(b"09000")
    assert cursor.peek() == (b"09000", b"v")
    assert rows.spent() == shards
    cursor.seek(b"00001")
    assert cursor.peek() == (b"09000", b"v"), "never backwards"
    assert rows.spent() == 0


def test_a_listing_by_directories_reads_few_rows_of_each() -> None:
    """However long the page is that the caller wants."""
    rows = Rows()
    for folder in range(20):
        for number in range(1_000):
            rows.put(b"%02d/%05d" % (folder, number), b"v")
    read: Any = CountedRows(rows.kv)
    cursor = area.cursor(read, rows.token, 1_001)
    page = list_page(cursor, b"", b"/", b"", 1_000)
    assert [key for key, _ in page.lines] == [b"%02d/" % folder for folder in range(20)]
    assert rows.spent() <= 21
    assert read.count <= 1_001 + 20 * area.FIRST_PAGE_COUNT


def test_a_listing_by_directories_costs_a_request_a_directory_at_most() -> None:
    rows = Rows()
    for folder in range(20):
        for number in range(500):
            rows.put(b"%02d/%05d" % (folder, number), b"v")
    page = list_page(area.cursor(rows.kv, rows.token), b"", b"/", b"", 100)
    assert [key for key, _ in page.lines] == [b"%02d/" % folder for folder in range(20)]
    assert rows.spent() <= 21


class Asked(MemoryStore):
    """Remembers how long the pages were that were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.pages: list[int] = []

    def scan(self, partition: bytes, start: bytes, end: bytes, limit: int) -> ScanPage:
        self.pages.append(limit)
        return super().scan(partition, start, end, limit)


def test_a_jump_out_of_a_long_page_asks_for_a_short_one_again() -> None:
    kv = Asked()
    token = area.new_token(CLOCK, IDS, 1)
    for number in range(2_000):
        stage(kv, token, b"%05d" % number, b"v")
    cursor = area.cursor(kv, token, first=10)
    for _ in range(60):
        cursor.advance()
    assert kv.pages == [10, 40, 160]
    cursor.seek(b"01500")
    assert cursor.peek() == (b"01500", b"v")
    assert kv.pages == [10, 40, 160, 10]


class ShortPages(MemoryStore):
    """A store whose pages are shorter than asked for, as the contract allows."""

    def scan(self, partition: bytes, start: bytes, end: bytes, limit: int) -> ScanPage:
        return super().scan(partition, start, end, max(1, limit // 3))


def test_short_pages_lose_nothing() -> None:
    kv = ShortPages()
    token = area.new_token(CLOCK, IDS, 2)
    keys = [b"%03d" % number for number in range(500)]
    for key in keys:
        stage(kv, token, key, b"v")
    assert [key for key, _ in drained(area.cursor(kv, token, first=4))] == keys
    assert [key for key, _ in area.scan(kv, token)] == keys
    assert area.drop(kv, token) == (500, True)
