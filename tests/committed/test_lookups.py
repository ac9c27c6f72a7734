"""Look-ups of single keys: what they check, what they keep, and within which memory."""

import random

import pytest

from graveler.committed import splice
from graveler.core.errors import Corrupt
from graveler.core.records import ABSENT, Record
from tests.committed.files import contents, opened


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
