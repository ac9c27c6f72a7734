"""Blocks as columns: what enters an id, and the same block with some records changed."""

import random
from collections.abc import Sequence

import pytest

from graveler.committed import seal
from graveler.committed.apply import Changes
from graveler.committed.blocks import Block
from graveler.committed.columns import Columns, Edit, WholeColumns, columns_of
from graveler.committed.table import StoredChunk
from graveler.core.errors import Corrupt, Invalid
from graveler.core.records import TOMBSTONE, Change, Record, StagedValue
from tests.committed.stores import value


def block_of(records: Sequence[Record]) -> bytes:
    return seal.data_payload([key for key, _ in records], [held for _, held in records])


def parsed(payload: bytes) -> Columns:
    chunk = StoredChunk(b"", seal.compressed(payload), True)
    return chunk.columns()


def some_records(generator: random.Random, lengths: Sequence[int]) -> list[Record]:
    keys = {
        generator.randbytes(generator.choice([1, 7, 70, 119, 120, 121, 200])) for _ in range(60)
    }
    return [(key, generator.randbytes(generator.choice(lengths))) for key in sorted(keys)]


def some_edits(
    generator: random.Random, records: Sequence[Record], count: int
) -> tuple[list[Edit], list[Record]]:
    """Edits, and the records after them."""
    tree: dict[bytes, StagedValue] = dict(records)
    places = {key: at for at, (key, _) in enumerate(records)}
    for _ in range(count):
        key = generator.choice(records)[0] + generator.choice([b"", b"", b"x"])
        deleted = key in places and generator.random() < 0.3
        tree[key] = TOMBSTONE if deleted else generator.randbytes(generator.choice([0, 99, 130]))
    edits: list[Edit] = []
    for key, new in sorted(tree.items()):
        if key not in places:
            edits.append((sum(other < key for other in places), *_next(places, key), key, new))
        elif new != records[places[key]][1]:
            edits.append((places[key], places[key] + 1, key, new))
    left = [(key, new) for key, new in sorted(tree.items()) if new is not TOMBSTONE]
    return edits, left


def _next(places: dict[bytes, int], key: bytes) -> tuple[int]:
    return (sum(other < key for other in places),)


def id_bytes_of(records: Sequence[Record]) -> bytes:
    return b"".join(b"%d%b|%d%b|" % (len(k), k, len(v), v) for k, v in records)


@pytest.mark.parametrize("seed", range(60))
def test_a_changed_block_is_the_block_of_its_records(seed: int) -> None:
    generator = random.Random(seed)
    records = some_records(generator, [0, 1, 127, 128, 163, 200, 900])
    columns = parsed(block_of(records))
    assert isinstance(columns, WholeColumns)
    edits, left = some_edits(generator, records, generator.choice([1, 2, 9, 15]))
    for found, expected in ((columns, records), (columns.changed(edits), left)):
        packed = found.packed()
        for one in (found, packed):
            assert one.records == expected
            assert (one.first, one.last, one.count) == (
                expected[0][0],
                expected[-1][0],
                len(expected),
            )
            assert b"".join(one.id_pieces()) == id_bytes_of(expected)
            assert one.key_size == sum(len(key) for key, _ in expected)
            assert one.size == one.key_size + sum(len(held) for _, held in expected)
        if isinstance(found, WholeColumns):
            assert isinstance(packed.chunk, StoredChunk)
            assert packed.chunk.stored == seal.compressed(block_of(expected))
    assert columns.records == records  # an edit leaves its block as it was


def test_a_block_that_would_be_short_or_long_becomes_records() -> None:
    records = [(b"%04d" % at, b"v" * 150) for at in range(100)]
    columns = parsed(block_of(records))
    same = columns.changed([(7, 8, records[7][0], b"w")])
    assert isinstance(same, WholeColumns)
    for edits in (
        [(7, 8, records[7][0], b"w" * 40_000)],
        [(at, at + 1, records[at][0], b"w") for at in range(30)],
    ):
        assert not isinstance(columns.changed(edits), WholeColumns)
    few = parsed(block_of(records[:10]))
    assert not isinstance(few.changed([(0, 1, records[0][0], TOMBSTONE)]), WholeColumns)
    only = parsed(block_of(records[:1]))
    assert only.changed([(0, 1, records[0][0], TOMBSTONE)]).count == 0


@pytest.mark.parametrize("seed", range(20))
def test_damage_is_found_or_harmless(seed: int) -> None:
    """A block that is damaged before its checksum was made reads as the other parser reads it."""
    generator = random.Random(seed)
    payload = block_of(some_records(generator, [0, 1, 50, 163]))
    chunk = StoredChunk(b"", b"", True)
    for _ in range(300):
        damaged = bytearray(payload)
        for _ in range(generator.choice([1, 1, 3])):
            at = generator.randrange(len(payload))
            damaged[at] = generator.choice([0, 1, 8, 127, 128, 255, damaged[at] ^ 1])
        raw = bytes(damaged[: generator.choice([len(payload), len(payload), 3, 40])])
        try:
            expected = Block(raw).columns()
        except Corrupt:
            with pytest.raises(Corrupt):
                columns_of(raw, chunk, StoredChunk.replacing)
            continue
        found = columns_of(raw, chunk, StoredChunk.replacing)
        assert list(found.keys) == list(expected[0])
        assert list(found.values) == list(expected[1])


@pytest.mark.parametrize("seed", range(10))
def test_changes_are_taken_as_they_come(seed: int) -> None:
    generator = random.Random(seed)
    count = generator.choice([0, 1, 4_095, 4_096, 4_097, 8_192, 20_000])
    expected: list[Change] = [(b"%06d" % at, value(at % 7)) for at in range(count)]
    changes = Changes(iter(expected))
    taken: list[Change] = []
    at = 0
    while at < count:
        at += generator.choice([0, 1, 3, 64, 4_095, 4_096, 4_097, 9_000])
        bound = b"%06d" % at
        while changes.has(bound):
            batch = changes.take(bound)
            assert 0 < len(batch) <= 4_096
            if generator.random() < 0.3:
                changes.give_back(batch)
                assert changes.has(bound)
                assert changes.take(bound) == batch
            taken += batch
        assert taken == expected[: at + 1]
    assert not changes.take(None)


@pytest.mark.parametrize("at", [1, 4_095, 4_096, 4_097, 9_000])
def test_changes_out_of_order_are_refused(at: int) -> None:
    wrong: list[Change] = [(b"%06d" % number, value(1)) for number in range(10_000)]
    wrong[at] = wrong[at - 1]
    with pytest.raises(Invalid, match=wrong[at - 1][0].decode()):
        changes = Changes(iter(wrong))
        while changes.take(None):
            pass
