"""Look-ups of single keys: what they check, what they keep, and within which memory."""

import gc
import random
import struct
import tracemalloc
from pathlib import Path

import pytest

from graveler.committed import splice
from graveler.committed.blocks import Block
from graveler.committed.cache import BudgetedCache
from graveler.committed.sstable import SstRangeStore
from graveler.committed.table import SortedTable
from graveler.committed.tiers import StoredFiles
from graveler.core.errors import Corrupt
from graveler.core.records import ABSENT, RangeRef, Record
from tests.committed.files import BytesFile, contents, opened
from tests.committed.test_tiers import CountingBlocks

MEMORY = "mem://tests/repository"


def records_of(count: int, value_length: int = 100) -> list[Record]:
    chance = random.Random(count)
    return [(b"key-%07d" % at, chance.randbytes(value_length)) for at in range(count)]


@pytest.mark.parametrize("key_length", [20, 127, 200])
@pytest.mark.parametrize("value_length", [1, 200, 17_000, 70_000, 2_100_000])
def test_blocks_of_every_shape_are_looked_up(key_length: int, value_length: int) -> None:
    """Entries whose header is short or long, alone in their block or not."""
    lengths = (value_length, 5, value_length, 5, 5)
    records = [
        (b"%d" % at + b"k" * key_length, bytes([at]) * length) for at, length in enumerate(lengths)
    ]
    table = opened(b"".join(splice.table(records)))
    for key, value in records:
        assert table.get(key) == value
        assert table.get(key + b"\0") is ABSENT
        assert table.get(key[:-1]) is ABSENT
    assert contents(table) == records


def test_a_block_in_the_place_of_another_is_noticed() -> None:
    """Its checksum is right, so only the bounds of the index tell."""
    records = records_of(1_000)
    table = opened(b"".join(splice.table(records)))
    raw = bytearray(b"".join(splice.table(records)))
    lengths = [len(table.span(at, 0)[0]) for at in range(table.blocks_count)]
    first, second = next(
        (a, b)
        for a in range(len(lengths))
        for b in range(a + 1, len(lengths))
        if lengths[a] == lengths[b]
    )
    starts = [sum(lengths[:at]) for at in (first, second)]
    size = lengths[first]
    parts = [bytes(raw[start : start + size]) for start in starts]
    raw[starts[0] : starts[0] + size], raw[starts[1] : starts[1] + size] = parts[1], parts[0]
    damaged = opened(bytes(raw), cache_bytes=1 << 20)
    noticed = 0
    for key, value in records:
        try:
            assert damaged.get(key) == value
        except Corrupt:
            noticed += 1
    assert noticed > 60  # every record of both blocks


def test_keys_out_of_order_are_noticed_when_all_are_read() -> None:
    entries = [(b"a", b"1"), (b"c", b"2"), (b"b", b"3"), (b"d", b"4")]
    encoded = [
        b"\0" + bytes((len(key) + 8, len(value))) + key + splice.BEHIND_KEYS + value
        for key, value in entries
    ]
    starts = [sum(map(len, encoded[:at])) for at in range(len(encoded))]
    block = Block(b"".join(encoded) + struct.pack("<5I", *starts, len(starts)))
    assert block.edges() == (b"a", b"d")
    with pytest.raises(Corrupt, match="out of order"):
        block.records()


class Lake:
    """Some ranges of 1,000 records, in a store with little memory for blocks."""

    def __init__(self, folder: Path, records_bytes: int) -> None:
        self.blocks = CountingBlocks()
        files = StoredFiles(self.blocks)
        self.values: dict[bytes, bytes] = {}
        self.refs: list[RangeRef] = []
        records = records_of(20_000)
        for at in range(0, len(records), 1_000):
            part = records[at : at + 1_000]
            self.values |= part
            self.refs.append(SstRangeStore(files).write_range(MEMORY, part))
        self.store = SstRangeStore(files, 40_000, record_cache_bytes=records_bytes)

    def get(self, key: bytes) -> object:
        ref = next(ref for ref in self.refs if key <= ref.max_key)
        return self.store.open_range(MEMORY, ref.id).get(key)


def test_hot_records_stay_when_their_blocks_have_gone(tmp_path: Path) -> None:
    lake = Lake(tmp_path, 1 << 20)
    hot = sorted(lake.values)[::100]
    for key in hot * 2:  # the first time, the block of one key serves the next one too
        assert lake.get(key) == lake.values[key]
    before = lake.blocks.requests
    for key in hot * 3:
        assert lake.get(key) == lake.values[key]
    assert lake.blocks.requests == before
    assert lake.store.caches["records"].hits >= 3 * len(hot)


@pytest.mark.parametrize("budget", [0, 3_000, 100_000])
def test_records_are_kept_within_their_budget(tmp_path: Path, budget: int) -> None:
    lake, chance = Lake(tmp_path, budget), random.Random(budget)
    keys = sorted(lake.values)
    for _ in range(3_000):
        key = chance.choice(keys)
        assert lake.get(key) == lake.values[key]
        assert lake.get(key + b"\0") is ABSENT
        assert lake.store.caches["records"].spent <= budget
        assert lake.store.caches["blocks"].spent <= 40_000
    assert lake.store.caches["records"].spent >= budget * 0.8


class _Forgetful(BytesFile):
    """Remembers no reads, which would count as memory."""

    def read(self, offset: int, length: int) -> bytes:
        return self.content[offset : offset + length]


def test_records_are_charged_with_what_they_hold() -> None:
    records = records_of(8_000)
    raw = b"".join(splice.table(records))
    kept: BudgetedCache[tuple[str, bytes], bytes] = BudgetedCache(64 << 20)
    table = SortedTable(_Forgetful(raw), BudgetedCache(0), kept)
    gc.collect()
    tracemalloc.start()
    try:
        for key, _ in records:
            table.get(bytes(bytearray(key)))  # nobody else holds this key
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.75 * held < kept.spent < 1.5 * held
