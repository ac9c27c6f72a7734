"""The contract of range storage, clause by clause (committed/ranges.py).

The tests of every `RangeStore` inherit it and supply one fixture, `store`.
"""

import pytest

from graveler.committed import seal
from graveler.committed.ranges import (
    EMPTY_METARANGE,
    METARANGE_PROPERTIES,
    RANGE_PROPERTIES,
    Metarange,
    RangeStore,
)
from graveler.core import identity, wire
from graveler.core.errors import Invalid, NotFound
from graveler.core.ids import MetarangeId, RangeId
from graveler.core.records import ABSENT, RangeRef, Record

NAMESPACE = "mem://suite/ranges"


def numbered(count: int, value_length: int = 40) -> list[Record]:
    """`count` records whose keys are even numbers."""
    return [
        (b"key/%08d" % (2 * number), identity.frame(b"%032d" % number, b"v" * value_length))
        for number in range(count)
    ]


class RangeSuite:
    """Clauses R1 to R5 of `committed/ranges.py`."""

    def test_r1_records_come_out_as_they_went_in(self, store: RangeStore) -> None:
        records = numbered(2_000)
        table = store.open_range(NAMESPACE, store.write_range(NAMESPACE, records).id)
        for streaming in (True, False):
            read = [r for c in table.chunks(streaming=streaming) for r in c.records()]
            assert read == records
        assert table.count == 2_000

    def test_r1_every_key_is_found_and_no_other(self, store: RangeStore) -> None:
        records = numbered(500)
        table = store.open_range(NAMESPACE, store.write_range(NAMESPACE, records).id)
        assert [table.get(key) for key, _ in records] == [value for _, value in records]
        for absent in (b"", b"\xff", b"key/", *(key + b"\0" for key, _ in records[::50])):
            assert table.get(absent) is ABSENT
        for number in range(1, 1_000, 50):
            assert table.get(b"key/%08d" % number) is ABSENT

    def test_r1_chunks_begin_where_asked_and_keep_their_bounds(self, store: RangeStore) -> None:
        records = numbered(2_000)
        table = store.open_range(NAMESPACE, store.write_range(NAMESPACE, records).id)
        for start in (b"", b"key/00000001", records[777][0], records[-1][0], b"z"):
            read: list[Record] = []
            last = b""
            for chunk in table.chunks(start):
                inside = chunk.records()
                assert inside
                assert inside[0][0] > last
                assert inside[-1][0] <= chunk.bound
                assert chunk.bound >= start
                last = chunk.bound
                read += inside
            assert [r for r in read if r[0] >= start] == [r for r in records if r[0] >= start]

    def test_r1_keys_and_values_of_any_bytes_and_lengths(self, store: RangeStore) -> None:
        lengths = (1, 2, 7, 100, 111, 112, 119, 120, 121, 127, 128, 129, 1_000)
        values = (0, 1, 63, 64, 127, 128, 129, 8_191, 8_192, 16_383, 16_384, 70_000)
        keys = {bytes([byte]) * length for byte in (0, 1, 127, 255) for length in lengths}
        records = [
            (key, b"\x40" + bytes(32) + b"w" * values[at % len(values)])
            for at, key in enumerate(sorted(keys))
        ]
        table = store.open_range(NAMESPACE, store.write_range(NAMESPACE, records).id)
        assert [r for c in table.chunks() for r in c.records()] == records
        assert [table.get(key) for key, _ in records] == [value for _, value in records]

    def test_r1_equal_stored_bytes_mean_equal_records(self, store: RangeStore) -> None:
        left = numbered(3_000)
        right = [*left[:1_500], *numbered(3_001)[1_501:]]
        chunks: dict[bytes, list[Record]] = {}
        for records in (left, right):
            table = store.open_range(NAMESPACE, store.write_range(NAMESPACE, records).id)
            for chunk in table.chunks():
                assert chunks.setdefault(chunk.stored, chunk.records()) == chunk.records()

    def test_r1_disorder_is_refused(self, store: RangeStore) -> None:
        one, two = numbered(2)
        for wrong in ([], [two, one], [one, one]):
            with pytest.raises(Invalid):
                store.write_range(NAMESPACE, wrong)

    def test_r2_ids_follow_from_records(self, store: RangeStore) -> None:
        records = numbered(300)
        first = store.write_range(NAMESPACE, records)
        assert first == store.write_range(NAMESPACE, list(records))
        assert first.id == seal.file_id(records, RANGE_PROPERTIES)
        size = sum(len(key) + len(value) for key, value in records)
        assert first == RangeRef(first.id, records[0][0], records[-1][0], size, 300)
        metarange = store.write_metarange(NAMESPACE, [first])
        assert metarange == seal.file_id([wire.encode_range(first)], METARANGE_PROPERTIES)

    def test_r2_metaranges_come_out_as_they_went_in(self, store: RangeStore) -> None:
        records = numbered(1_000)
        refs = [store.write_range(NAMESPACE, records[at : at + 10]) for at in range(0, 1_000, 10)]
        name = store.write_metarange(NAMESPACE, refs)
        assert store.read_metarange(NAMESPACE, name) == Metarange.of(refs)

    def test_r2_overlapping_ranges_are_refused(self, store: RangeStore) -> None:
        records = numbered(10)
        left = store.write_range(NAMESPACE, records[:6])
        right = store.write_range(NAMESPACE, records[5:])
        for wrong in ([left, right], [right, left], [left, left]):
            with pytest.raises(Invalid):
                store.write_metarange(NAMESPACE, wrong)

    def test_r4_what_was_never_written_is_not_found(self, store: RangeStore) -> None:
        with pytest.raises(NotFound):
            store.open_range(NAMESPACE, RangeId("0" * 64))
        with pytest.raises(NotFound):
            store.read_metarange(NAMESPACE, MetarangeId("0" * 64))
        written = store.write_range(NAMESPACE, numbered(3))
        with pytest.raises(NotFound):
            store.open_range(NAMESPACE + "/elsewhere", written.id)

    def test_r5_the_empty_metarange_is_always_there(self, store: RangeStore) -> None:
        assert store.read_metarange(NAMESPACE, EMPTY_METARANGE).ranges == ()
        assert store.write_metarange(NAMESPACE, []) == EMPTY_METARANGE
        assert store.read_metarange(NAMESPACE, EMPTY_METARANGE).ranges == ()
