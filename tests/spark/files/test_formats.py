"""Data files of each format hold what was written, and say when they are damaged."""

import datetime
import io
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pytest

from graveler.core.errors import Corrupt, Invalid, Unsupported
from graveler.spark import texts
from graveler.spark.formats import Stretch, check_types, format_of
from graveler.spark.places import Place, opened
from graveler.spark.texts import Remote

NAMES = ("parquet", "orc", "csv", "json")
UTC = pa.timestamp("us", tz="UTC")
MOMENT = datetime.datetime(2024, 1, 2, 3, 4, 5, 600_007, datetime.UTC)
ROWS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "id": (pa.int32(), [1, -7, None]),
    "large": (pa.int64(), [2**62, None, 0]),
    "real": (pa.float64(), [0.1, -math.inf, None]),
    "yes": (pa.bool_(), [True, False, None]),
    "a b,c": (pa.string(), ['é"\n,', "", None]),
    "day": (pa.date32(), [datetime.date(1999, 12, 31), datetime.date(1, 2, 3), None]),
    "at": (UTC, [MOMENT, MOMENT.replace(year=1700, microsecond=0), None]),
    "amount": (pa.decimal128(12, 3), [Decimal("1.500"), Decimal("-0.001"), None]),
}
TABLE = pa.table({name: pa.array(values, kind) for name, (kind, values) in ROWS.items()})


class Files:
    """Objects of a place, written and read by the names of formats."""

    def __init__(self, place: Place) -> None:
        self.blocks = opened(place).blocks
        self.where = f"{place.namespace}/data/file"

    def put(self, body: bytes) -> int:
        self.blocks.put(self.where, [body])
        return len(body)

    def write(self, name: str, *tables: pa.Table) -> int:
        sink = io.BytesIO()
        writer = format_of(name).writer(sink, tables[0].schema)
        for table in tables:
            writer.write_table(table)
        writer.close()
        return self.put(sink.getvalue())

    def read(self, name: str, size: int, wanted: pa.Schema) -> list[pa.RecordBatch]:
        return list(self.stretch(name, size, wanted, 0, size))

    def stretch(
        self, name: str, size: int, wanted: pa.Schema, start: int, stop: int
    ) -> Iterator[pa.RecordBatch]:
        found = Stretch(self.where, size, start, stop)
        return format_of(name).rows(self.blocks, found, wanted)

    def columns(self, name: str, size: int) -> pa.Schema:
        return format_of(name).columns(self.blocks, self.where, size)


@pytest.fixture
def files(place: Place) -> Files:
    return Files(place)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_is_read_again(files: Files, name: str) -> None:
    size = files.write(name, TABLE, TABLE.slice(1, 1))
    check_types(format_of(name), TABLE.schema)
    expected = pa.concat_tables([TABLE, TABLE.slice(1, 1)])
    found = pa.Table.from_batches(files.read(name, size, TABLE.schema))
    assert found.to_pylist() == expected.to_pylist() and found.schema == TABLE.schema
    assert files.columns(name, size).names == TABLE.schema.names
    # Columns in another order, one that the file lacks; and none at all, but as many rows.
    other = pa.schema([("at", UTC), ("more", pa.int8()), ("id", pa.int64())])
    rows = pa.Table.from_batches(files.read(name, size, other)).to_pylist()
    wanted = [{"at": row["at"], "more": None, "id": row["id"]} for row in expected.to_pylist()]
    assert rows == wanted
    assert sum(batch.num_rows for batch in files.read(name, size, pa.schema([]))) == 4


@pytest.mark.parametrize("name", NAMES)
def test_a_table_without_rows_has_its_columns(files: Files, name: str) -> None:
    empty = TABLE.select(["id", "a b,c"]).slice(0, 0)
    size = files.write(name, empty)
    assert sum(batch.num_rows for batch in files.read(name, size, empty.schema)) == 0
    names = [] if name == "json" else empty.schema.names  # which has no place to say them
    assert files.columns(name, size).names == names


@pytest.mark.parametrize("name", ["csv", "json"])
def test_text_is_read_block_by_block(files: Files, name: str) -> None:
    """Values may hold what ends a line elsewhere; a line may be longer than a block of JSON."""
    words = [f"é{at}\n,\"'" * (at % 40 * 300) for at in range(400)]
    if name == "json":
        words[300] = "x" * 10_000_000
    table = pa.table({"id": pa.array(range(400), pa.int64()), "word": words})
    size = files.write(name, table)
    batches = files.read(name, size, table.schema)
    assert len(batches) > 2 and pa.Table.from_batches(batches) == table
    assert files.columns(name, size) == table.schema


def test_a_file_of_csv_is_read_at_positions_of_its_own(files: Files) -> None:
    """The reader that finds the columns may still read ahead when the rows are read, so the two
    must not share a position: a block would be left out."""
    table = pa.table({"id": pa.array(range(10), pa.int64())})
    size = files.write("csv", table)
    file = Remote(files.blocks, files.where, size)
    assert texts.csv_types(file) == table.schema and file.tell() == 0
    assert pa.Table.from_batches(texts.csv_rows(file, table.schema)) == table and file.tell() == 0


def test_a_line_of_json_has_an_end(files: Files) -> None:
    size = files.put(b'{"a": "' + b"x" * (65 << 20) + b'"}')
    with pytest.raises(Corrupt, match="longer than 67108864"):
        files.read("json", size, pa.schema([("a", pa.string())]))


def test_nested_values_of_json(files: Files) -> None:
    kind = pa.struct([("days", pa.list_(pa.date32())), ("n", pa.decimal128(5, 2))])
    values = [{"days": [datetime.date(2024, 2, 29), None], "n": Decimal("1.25")}, None]
    table = pa.table({"s": pa.array(values, kind)})
    size = files.write("json", table)
    assert pa.Table.from_batches(files.read("json", size, table.schema)) == table


def test_what_others_write_is_read(files: Files) -> None:
    """Times without a zone, no newline at the end, empty lines, numbers where text is wanted."""
    wanted = pa.schema([("at", UTC), ("n", pa.float64()), ("t", pa.string())])
    expected = [
        {"at": MOMENT.replace(microsecond=0), "n": 1.0, "t": "x"},
        {"at": None, "n": None, "t": None},
    ]
    size = files.put(b"more,t,at,n\r\n1,x,2024-01-02 03:04:05,1\r\n2,,,")
    found = pa.Table.from_batches(files.read("csv", size, wanted))
    assert found.to_pylist() == expected
    size = files.put(
        b'\n{"n": 1, "more": {"x": []}, "t": "x", "at": "2024-01-02T03:04:05Z"}\n\n{"at": null}'
    )
    found = pa.Table.from_batches(files.read("json", size, wanted))
    assert found.to_pylist() == expected
    one = files.put(b"a\n\n1\n")
    only = pa.schema([("a", pa.int64())])
    assert pa.Table.from_batches(files.read("csv", one, only)).to_pylist() == [
        {"a": None},
        {"a": 1},
    ]


def test_types_of_text_are_what_it_looks_like(files: Files) -> None:
    size = files.put(b"a,b,c,d\n1,x,,2024-01-01\n2,y,,2024-01-02\n")
    found = files.columns("csv", size)
    assert [str(each.type) for each in found] == ["int64", "string", "null", "date32[day]"]
    size = files.put(b'{"a": 1, "b": [true], "c": null}\n')
    found = files.columns("json", size)
    assert [str(each.type) for each in found][::2] == ["int64", "null"]
    size = files.put(b"a,a\n1,2\n")
    with pytest.raises(Invalid, match="different names"):
        files.columns("csv", size)


def test_stripes_of_orc_are_each_read_by_one_task(files: Files) -> None:
    sink = io.BytesIO()
    table = pa.table({"id": pa.array(range(60_000), pa.int64())})
    with po.ORCWriter(sink, stripe_size=1_024, compression="uncompressed") as writer:
        for at in range(0, 60_000, 5_000):
            writer.write(table.slice(at, 5_000))
    size = files.put(sink.getvalue())
    parts = []
    for start in range(0, size, size // 5):
        batches = list(files.stretch("orc", size, table.schema, start, start + size // 5))
        parts.append([row["id"] for batch in batches for row in batch.to_pylist()])
    assert sum(1 for part in parts if part) > 1
    assert [id for part in parts for id in part] == list(range(60_000))


@pytest.mark.parametrize("name", NAMES)
def test_damage_is_an_error_and_never_fewer_rows(files: Files, name: str) -> None:
    table = pa.table({"id": pa.array(range(5_000), pa.int64())})
    size = files.write(name, table)
    whole = b"".join(files.blocks.get(files.where).chunks)
    damaged = [whole[: len(whole) // 2], b"x" * len(whole)]
    for body in damaged:
        files.put(body)
        with pytest.raises(Corrupt):
            files.read(name, size, table.schema)


def test_values_of_other_types_are_an_error(files: Files) -> None:
    wanted = pa.schema([("a", pa.int64())])
    for name, body in (("csv", b"a\n1\nx\n"), ("json", b'{"a": 1}\n{"a": "x"}\n')):
        size = files.put(body)
        with pytest.raises(Corrupt, match=f"file is not {name}, or is damaged"):
            files.read(name, size, wanted)


def test_what_a_format_cannot_hold_is_refused() -> None:
    bytes_, pairs = pa.binary(), pa.map_(pa.string(), pa.int64())
    for name, kinds in (
        ("csv", [bytes_, pairs, pa.list_(pa.int64()), pa.struct([("a", pa.int64())])]),
        ("json", [bytes_, pairs, pa.list_(bytes_), pa.struct([("a", pairs)])]),
        ("orc", [pa.duration("us"), pa.null()]),
    ):
        for kind in kinds:
            with pytest.raises(Unsupported, match=f"{name} cannot store values of this type"):
                check_types(format_of(name), pa.schema([("c", kind)]))
    with pytest.raises(Unsupported, match="format='avro'"):
        format_of("avro")


def test_times_that_orc_cannot_hold_are_refused_and_not_wrapped(files: Files) -> None:
    table = pa.table({"at": pa.array([MOMENT.replace(year=9999)], UTC)})
    with pytest.raises(pa.ArrowInvalid):
        files.write("orc", table)
