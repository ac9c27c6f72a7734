"""Columns made of whole blocks are those that one record after the other gives."""

import random
from dataclasses import replace
from itertools import accumulate
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest

from graveler.arrow.decode import COLUMNS, decoded, entry_columns, stored_addresses
from graveler.arrow.entries import range_batches
from graveler.arrow.scan import Records, grouped, records_of, whole_records
from graveler.arrow.vectors import PAD, octets
from graveler.block.memory import MemoryBlocks
from graveler.committed import seal
from graveler.committed.blocks import Block
from graveler.committed.memory import MemoryRangeStore
from graveler.committed.ranges import Keyspace
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import StoredFiles, file_address
from graveler.core.clock import SystemClock
from graveler.core.errors import Corrupt
from graveler.core.identity import frame
from graveler.core.records import (
    ABSENT,
    Absent,
    AddressType,
    BreakParameters,
    Entry,
    RangeRef,
    Record,
)
from graveler.core.wire import decode_entry, encode_entry, stored_entry

NAMESPACE = "local://lake/n"
TEXTS = ["x", "é世", "y" * 127, "z" * 128, "w" * 20_000]
TIMES = [0, 999, 1_000, 1_700_000_000_123_456_789]


def entry(chance: random.Random, number: int) -> Entry:
    return Entry(
        address=f"local://other/{number}/" + chance.choice(TEXTS[:4]),
        size=chance.choice([0, 1, 127, 128, 1 << 40]),
        checksum=chance.choice(TEXTS),
        modified_ns=chance.choice(TIMES),
        metadata=chance.choice([{}, {"k": "v"}, {"a": "", "é": "世" * 50, "": "b"}]),
        address_type=AddressType.FULL,
        content_type=chance.choice(["", "text/csv"]),
    )


def some_records(seed: int, count: int = 300) -> list[Record]:
    print(f"{seed=}")
    chance = random.Random(seed)
    return [
        (f"p/{number:06}".encode(), encode_entry(entry(chance, number))) for number in range(count)
    ]


def turned(records: list[Record]) -> Records:
    return records_of([key for key, _ in records], [value for _, value in records])


def expected(records: list[Record], name: str) -> list[Any]:
    told = [decode_entry(value) for _, value in records]
    fields = {
        "path": [key.decode() for key, _ in records],
        "size": [each.size for each in told],
        "checksum": [each.checksum for each in told],
        "mtime": [each.modified_ns // 1_000 for each in told],
        "metadata": [dict(each.metadata) for each in told],
        "content_type": [each.content_type for each in told],
        "identity": [value[1:33] for _, value in records],
    }
    return fields[name]


def column(batch: pa.RecordBatch, name: str) -> list[Any]:
    found = batch.column(batch.schema.get_field_index(name))
    if name == "mtime":
        return found.cast(pa.int64()).to_pylist()
    return [dict(each) for each in found.to_pylist()] if name == "metadata" else found.to_pylist()


def check_addresses(records: list[Record]) -> None:
    told = [stored_entry(value) for _, value in records]
    expected_ = [each.address for each in told], [each.address_type for each in told]
    assert stored_addresses(turned(records)) == expected_


def check(records: list[Record]) -> None:
    check_addresses(records)
    names = [name for name in COLUMNS if name != "address"]
    batch = decoded(turned(records), NAMESPACE, COLUMNS)
    assert batch.schema.names == list(COLUMNS)
    for name in names:
        assert column(batch, name) == expected(records, name), name
        alone = decoded(turned(records), NAMESPACE, [name])
        assert column(alone, name) == expected(records, name), name


@pytest.mark.parametrize("seed", range(4))
def test_all_rows_at_once_are_decoded_as_one_by_one(seed: int) -> None:
    records = some_records(seed)
    assert entry_columns(turned(records), COLUMNS) is not ABSENT
    check(records)
    check(records[7:8])
    assert decoded(turned([]), NAMESPACE, COLUMNS).num_rows == 0


def odd_values() -> dict[str, bytes]:
    plain = encode_entry(entry(random.Random(1), 1))
    body = b"\x0a\x01a\x18\x05"
    return {
        "fields in another order": frame(bytes(32), b"\x18\x05\x0a\x01a"),
        "a field that nobody knows": frame(bytes(32), body + b"\x48\x01"),
        "a field twice": frame(bytes(32), body + b"\x18\x06"),
        "a length of two bytes where one does": frame(bytes(32), b"\x0a\x81\x00a"),
        "another identity": frame(b"short", body),
        "bytes behind the entry": plain + b"\x0a\x01b",
        "before 1970": frame(bytes(32), b"\x12\x0b\x08" + b"\xff" * 9 + b"\x01"),
    }


@pytest.mark.parametrize("what", odd_values())
def test_rows_in_another_form_are_read_too(what: str) -> None:
    records = some_records(5, 20)
    records[11] = (records[11][0], odd_values()[what])
    check_addresses(records)
    for name in ("size", "checksum", "content_type", "path"):
        found = column(decoded(turned(records), NAMESPACE, [name]), name)
        assert found == expected(records, name)


@pytest.mark.parametrize(
    "body",
    [b"\x0a\x05a", b"\x0a" + b"\xff" * 11, b"\x12\x02\x08", b"\x2a\x03\x0a\x05k", b"\x18", b"\x0a"],
)
def test_what_is_no_entry_is_corrupt(body: bytes) -> None:
    records = some_records(6, 20)
    records[3] = (records[3][0], frame(bytes(32), body))
    with pytest.raises(Corrupt):
        decoded(turned(records), NAMESPACE, COLUMNS)
    if body[0] == 0x0A:  # the address itself
        with pytest.raises(Corrupt):
            stored_addresses(turned(records))


def pair(name: bytes, text: bytes) -> bytes:
    inner = b"\x0a%c%b\x12%c%b" % (len(name), name, len(text), text)
    return b"\x2a%c%b" % (len(inner), inner)


def test_of_a_metadata_key_that_comes_twice_the_last_pair_counts() -> None:
    """Whatever other rows are decoded with it."""
    twice = frame(bytes(32), b"\x0a\x01a" + pair(b"k", b"1") + pair(b"l", b"3") + pair(b"k", b"2"))
    for records in ([(b"p", twice)], [*some_records(7, 3), (b"q", twice)]):
        found = decoded(turned(records), NAMESPACE, ["metadata"]).column(0).to_pylist()
        assert list(map(dict, found)) == expected(records, "metadata")
        assert sorted(found[-1]) == [("k", "2"), ("l", "3")]


def test_metadata_in_any_order_is_decoded_at_once() -> None:
    """Other writers do not sort it."""
    mixed = frame(bytes(32), b"\x0a\x01a" + pair(b"z", b"1") + pair(b"k", b"2"))
    records = [(b"o", mixed), (b"p", mixed), *some_records(8, 3)]
    assert entry_columns(turned(records), COLUMNS) is not ABSENT
    found = column(decoded(turned(records), NAMESPACE, ["metadata"]), "metadata")
    assert found == expected(records, "metadata")


@pytest.mark.parametrize("seconds", [b"\x80" * 8 + b"\x40", b"\x80\xc0\xfd\x9b\xa4\xd5\x42"])
def test_a_time_beyond_all_timestamps_is_corrupt(seconds: bytes) -> None:
    stamp = b"\x08" + seconds
    records = [(b"p", frame(bytes(32), b"\x0a\x01a\x12%c%b" % (len(stamp), stamp)))]
    with pytest.raises(Corrupt, match="timestamp"):
        decoded(turned(records), NAMESPACE, ["mtime"])


def test_texts_must_be_utf8() -> None:
    bad = frame(bytes(32), b"\x22\x01\xff")
    for record, name in ((b"p", bad), "checksum"), ((b"\xff", b""), "path"):
        with pytest.raises(Corrupt):
            decoded(turned([record]), NAMESPACE, [name])
    with pytest.raises(Corrupt):
        stored_addresses(turned([(b"p", frame(bytes(32), b"\x0a\x01\xff"))]))


def test_addresses_are_told_in_full() -> None:
    addresses = {
        ("data/a/b", AddressType.RELATIVE): f"{NAMESPACE}/data/a/b",
        ("elsewhere/b", AddressType.RELATIVE): f"{NAMESPACE}/elsewhere/b",
        ("local://o/c", AddressType.FULL): "local://o/c",
        ("local://o/é?x", AddressType.FULL): "local://o/é?x",
        ("s3a://o/c", AddressType.FULL): "s3://o/c",
        ("local://o/c", AddressType.BY_PREFIX): "local://o/c",
        ("data/a/b", AddressType.BY_PREFIX): f"{NAMESPACE}/data/a/b",
    }
    records = [
        (b"%d" % at, encode_entry(Entry(text, 1, "c", 0, {}, kind, "")))
        for at, (text, kind) in enumerate(addresses)
    ]
    for some in (records, records[:1], records[2:4]):
        batch = decoded(turned(some), NAMESPACE, ["address"])
        want = [
            addresses[each.address, each.address_type]
            for each in map(decode_entry, dict(some).values())
        ]
        assert batch.column(0).to_pylist() == want


# ---- blocks --------------------------------------------------------------------------------------


def payload(records: list[Record]) -> bytes:
    return seal.payload([(key + b"\1" + bytes(7), value) for key, value in records])


def whole(blocks: list[bytes]) -> Records | Literal[Absent.ABSENT]:
    raw = np.frombuffer(b"".join([*blocks, bytes(PAD)]), dtype=np.uint8)
    return whole_records(raw, list(accumulate(map(len, blocks))))


def pieces(found: Records) -> list[Record]:
    both = (octets(found.raw, at).to_pylist() for at in (found.keys, found.values))
    return list(zip(*both, strict=True))


def test_blocks_are_taken_apart_by_their_restarts() -> None:
    records = some_records(7)
    blocks = [payload(records[:100]), payload(records[100:101]), payload(records[101:])]
    found = whole(blocks)
    assert found is not ABSENT
    assert pieces(found) == records
    assert pieces(found.part(90, 110)) == records[90:110]


def test_blocks_that_are_damaged_or_of_another_kind_are_never_believed() -> None:
    """What is believed is what the reader of one block reads."""
    seed = random.randrange(1 << 30)
    print(f"{seed=}")
    chance = random.Random(seed)
    records = some_records(8, 12)
    sound = payload(records)
    refused = 0
    for _ in range(3_000):
        raw = bytearray(sound)
        for _ in range(chance.choice((1, 1, 2, 4))):
            spot = chance.choice(
                (
                    chance.randrange(len(raw)),
                    chance.randrange(len(raw) - 60, len(raw)),
                    chance.randrange(4),
                )
            )
            raw[spot] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        if chance.random() < 0.1:
            raw = raw[: chance.randrange(len(raw))]
        damaged = bytes(raw)
        found = whole([sound, damaged])
        if found is ABSENT:
            refused += 1
            continue
        try:
            expect = list(zip(*Block(damaged).columns(), strict=True))
        except Corrupt as error:
            assert "out of order" in str(error)  # which is looked at later
            continue
        assert pieces(found) == records + expect
    assert refused > 500


@pytest.mark.parametrize("raw", [b"", b"abc", bytes(4), bytes(8), b"\xff" * 12])
def test_what_is_no_block_is_not_believed(raw: bytes) -> None:
    assert whole([raw]) is ABSENT


# ---- ranges --------------------------------------------------------------------------------------


def in_ranges(store: Any, records: list[Record], length: int) -> tuple[Keyspace, list[RangeRef]]:
    """The records in ranges of so many."""
    space = Keyspace(store, NAMESPACE, BreakParameters())
    parts = (records[at : at + length] for at in range(0, len(records), length))
    return space, [store.write_range(NAMESPACE, part) for part in parts]


def tables() -> tuple[MemoryBlocks, SstRangeStore]:
    blocks = MemoryBlocks(SystemClock(), "local")
    return blocks, SstRangeStore(StoredFiles(blocks))


@pytest.mark.parametrize("length", [1, 7, 100, 5_000])
@pytest.mark.parametrize("is_in_memory", [False, True])
def test_short_ranges_share_a_batch(length: int, is_in_memory: bool) -> None:
    records = some_records(9, 1_000)
    space, refs = in_ranges(MemoryRangeStore() if is_in_memory else tables()[1], records, length)
    batches = list(range_batches(space, refs, b"", ["path", "size"]))
    table = pa.Table.from_batches(batches)
    assert table["path"].to_pylist() == [key.decode() for key, _ in records]
    assert table["size"].to_pylist() == expected(records, "size")
    if not is_in_memory:  # the records have 7 MB
        assert len(batches) <= 5
    groups = list(grouped(space, refs))
    shares = [share for group in groups for share in group.shares]
    counts = {ref.id: 0 for ref in refs}
    for ref, first, beyond in shares:
        counts[ref.id] += beyond - first
    assert counts == {ref.id: ref.count for ref in refs}


def test_ranges_in_any_order_are_read() -> None:
    records = some_records(10, 60)
    space, refs = in_ranges(tables()[1], records, 10)
    found = pa.Table.from_batches(range_batches(space, refs[::-1], b"p/00001", ["path"]))
    assert found["path"].to_pylist() == [f"p/{number:06}" for number in range(10, 20)]


@pytest.mark.parametrize("which", [0, 3, 5])
def test_damage_is_of_the_range_that_has_it(which: int) -> None:
    """Whichever ranges are read with it."""
    records = some_records(11, 60)
    at = 10 * which + 4
    broken = [*records[:at], (records[at][0], frame(bytes(32), b"\x18")), *records[at + 1 :]]
    space, refs = in_ranges(tables()[1], broken, 10)
    with pytest.raises(Corrupt, match=refs[which].id):
        list(range_batches(space, refs, b"", COLUMNS))

    blocks, store = tables()
    space, refs = in_ranges(store, records, 10)
    for wrong in (
        replace(refs[which], count=11),
        replace(refs[which], min_key=refs[which].min_key + b"0"),
        replace(refs[which], max_key=refs[which].max_key + b"0"),
    ):
        told = [*refs[:which], wrong, *refs[which + 1 :]]
        with pytest.raises(Corrupt, match=refs[which].id):
            list(range_batches(space, told, b"", COLUMNS))

    other = store.write_range(NAMESPACE, records[10 * which + 1 : 10 * which + 10])
    body = b"".join(blocks.get(file_address(NAMESPACE, other.id)).chunks)
    blocks.put(file_address(NAMESPACE, refs[which].id), [body])
    anew = Keyspace(SstRangeStore(StoredFiles(blocks)), NAMESPACE, BreakParameters())
    with pytest.raises(Corrupt, match=refs[which].id):
        list(range_batches(anew, refs, b"", COLUMNS))


def test_no_ranges_have_no_entries() -> None:
    space, _ = in_ranges(tables()[1], [], 1)
    assert list(range_batches(space, (), b"", COLUMNS)) == []
