"""Look-ups of single keys: what they check, what they keep, and within which memory."""

import random
from pathlib import Path

import pytest

from graveler.committed import splice
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import StoredFiles
from graveler.errors import Corrupt
from graveler.records import ABSENT, RangeRef, Record
from tests.committed.files import contents, opened
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


class Lake:
    """Some ranges of 1,000 records, in a store with little memory for blocks."""

    def __init__(self, folder: Path, records_bytes: int) -> None:
        self.blocks = CountingBlocks()
        files = StoredFiles(self.blocks, folder)
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
