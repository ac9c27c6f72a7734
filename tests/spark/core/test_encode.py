"""Columns at once give the bytes that `wire.encode_entry` gives entry by entry."""

import random

import pyarrow as pa
import pytest

from graveler.core import limits
from graveler.core.records import AddressType, Entry
from graveler.core.wire import encode_entry
from graveler.spark.import_columns import Addresses, pairs_of
from graveler.spark.import_tasks import encoded

SIZES = [
    0,
    1,
    127,
    128,
    (1 << 14) - 1,
    1 << 14,
    (1 << 35) - 1,
    1 << 35,
    limits.object_size_bytes_max,
]
TIMES = [0, 1, 999_999, 1_000_000, 127_000_000, 1_700_000_000_000_000, 253_402_300_799_999_999]
TEXTS = ["x", "é世\U0001f600", "y" * 127, "z" * 128, "w" * 300]
METADATA = [
    {},
    {},
    {"k": "v", "a": "", "é": "世" * 50},
    {"b": "1", "a": "2"},
    {"ab": "1", "a": "2", "a!": ""},
    {"k": "v" * (limits.object_metadata_length_bytes_max - 1)},
    {f"{n}": "x" for n in range(40)},
]
KINDS = {Addresses.FULL: AddressType.FULL, Addresses.RELATIVE: AddressType.RELATIVE}


def some_entries(seed: int, count: int) -> list[Entry]:
    chance = random.Random(seed)
    longest = "a" * limits.address_length_bytes_max
    return [
        Entry(
            address=chance.choice([*TEXTS, longest]),
            size=chance.choice(SIZES),
            checksum=chance.choice([*TEXTS[:4], "c" * 256]),
            modified_ns=chance.choice(TIMES) * 1_000,
            metadata=chance.choice(METADATA),
            content_type=chance.choice(["", "", "text/csv", "t" * 512, "é" * 512]),
        )
        for _ in range(count)
    ]


def table_of(entries: list[Entry]) -> pa.Table:
    count = len(entries)
    return pa.table(
        {
            "path": pa.array([b"p"] * count, pa.binary()),
            "address": pa.array([each.address for each in entries], pa.string()),
            "size": pa.array([each.size for each in entries], pa.int64()),
            "checksum": pa.array([each.checksum for each in entries], pa.string()),
            "mtime": pa.array([each.modified_ns // 1_000 for each in entries], pa.int64()),
            "metadata": pa.array(
                [list(each.metadata.items()) or None for each in entries],
                pa.map_(pa.string(), pa.string()),
            ),
            "content_type": pa.array([each.content_type or None for each in entries], pa.string()),
        }
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("addresses", KINDS)
def test_values_are_those_of_the_wire(seed: int, addresses: Addresses) -> None:
    print(f"{seed=}")
    entries = some_entries(seed, 500)
    expected = [encode_entry(each._replace(address_type=KINDS[addresses])) for each in entries]
    table = table_of(entries)
    assert encoded(table, addresses).to_pylist() == expected
    assert encoded(table.slice(123, 77), addresses).to_pylist() == expected[123:200]
    halves = pa.concat_tables([table.slice(0, 9), table.slice(9)])
    assert encoded(halves, addresses).to_pylist() == expected


def pairs_table(rows: list[list[tuple[str, str]] | None]) -> pa.Table:
    table = table_of([Entry("x", 1, "c", 0, {}, AddressType.FULL, "")] * len(rows))
    column = pa.array(rows, pa.map_(pa.string(), pa.string()))
    return table.set_column(table.schema.get_field_index("metadata"), "metadata", column)


def test_of_a_key_that_is_there_twice_the_last_counts() -> None:
    rows = [[("b", "1"), ("a", "2"), ("b", "3")], None, [], [("a", "1"), ("a", "0")], [("a", "1")]]
    maps = [{"b": "3", "a": "2"}, {}, {}, {"a": "0"}, {"a": "1"}]
    assert encoded(pairs_table(rows), Addresses.FULL).to_pylist() == [
        encode_entry(Entry("x", 1, "c", 0, each, AddressType.FULL, "")) for each in maps
    ]


def test_a_null_map_has_no_pairs_whatever_lies_below_it() -> None:
    whole = pa.array([[("a", "1")], [("b", "2")], [("c", "3")]], pa.map_(pa.string(), pa.string()))
    buffers = [pa.py_buffer(b"\x05"), whole.buffers()[1]]
    pairs = pa.StructArray.from_arrays(
        [whole.keys, whole.items], fields=list(whole.type.field(0).type)
    )
    hidden = pa.Array.from_buffers(whole.type, 3, buffers, children=[pairs])
    assert hidden.to_pylist() == [[("a", "1")], None, [("c", "3")]]
    found = pairs_of(hidden)
    assert (found.counts.tolist(), found.keys.to_pylist()) == ([1, 0, 1], [b"a", b"c"])
