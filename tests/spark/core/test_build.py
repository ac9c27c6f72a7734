"""Ranges made of Arrow columns are those that any writer makes of the same records."""

import random
from pathlib import Path

import pyarrow as pa
import pytest

from graveler.assembly.drivers import WriteThreads
from graveler.block.address import range_file
from graveler.block.local import LocalBlocks
from graveler.committed.columns import Columns
from graveler.committed.ranges import Keyspace
from graveler.committed.reader import range_batches
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import StoredFiles
from graveler.core.clock import SystemClock, SystemIds
from graveler.core.errors import Invalid
from graveler.core.records import ABSENT, BreakParameters, Record
from graveler.spark.places import Place, opened
from graveler.spark.range_writer import ArrowColumns, ArrowRangeStore, Texts
from tests.committed.files import rocksdb_contents

NAMESPACE = "local://lake/n"


def columns(records: list[Record]) -> ArrowColumns:
    keys, values = (Texts(pa.array(list(side), pa.binary())) for side in zip(*records, strict=True))
    return ArrowColumns(keys, values, ())


def some_records(count: int, longest: int = 2_000) -> list[Record]:
    seed = random.randrange(1 << 30)
    print(f"{seed=}")
    chance = random.Random(seed)
    keys = sorted({chance.randbytes(chance.randrange(1, 300)) for _ in range(count)})
    return [(key, chance.randbytes(chance.choice((0, 1, 100, 127, 128, longest)))) for key in keys]


@pytest.fixture
def stores(tmp_path: Path) -> tuple[SstRangeStore, SstRangeStore, LocalBlocks]:
    blocks = LocalBlocks(tmp_path / "blocks", clock=SystemClock(), ids=SystemIds())
    files = StoredFiles(blocks)
    return ArrowRangeStore(files), SstRangeStore(StoredFiles(blocks)), blocks


@pytest.mark.parametrize("count", [1, 2, 40, 3_000])
def test_a_range_has_the_identity_and_the_records_of_any_other(stores, count, tmp_path) -> None:
    arrow, plain, blocks = stores
    records = some_records(count)
    cut = count // 3
    run = [columns(part) for part in (records[:cut], records[cut:]) if part]
    ref = arrow.splice_range(NAMESPACE, run)
    space = Keyspace(plain, NAMESPACE, BreakParameters())
    assert [each for batch in range_batches(space, ref) for each in batch] == records
    table = tmp_path / "table.sst"
    table.write_bytes(b"".join(blocks.get(range_file(NAMESPACE, ref.id)).chunks))
    assert plain.write_range("local://lake/other", records) == ref
    assert rocksdb_contents(tmp_path / "db", table) == records


def test_a_range_that_is_stored_behind_is_the_same(stores) -> None:
    _, plain, blocks = stores
    behind = ArrowRangeStore(StoredFiles(blocks), waiters=WriteThreads(2))
    records = some_records(400)
    ref, ended = behind.write_behind(NAMESPACE, [columns(records)])
    ended()
    assert plain.write_range("local://lake/other", records) == ref
    space = Keyspace(plain, NAMESPACE, BreakParameters())
    assert [each for batch in range_batches(space, ref) for each in batch] == records
    with pytest.raises(Invalid, match="strictly increasing"):
        behind.write_behind(NAMESPACE, [columns(records[:1]), columns(records[:1])])


def test_tasks_store_their_ranges_behind(tmp_path) -> None:
    place = Place(f"local:{tmp_path}", NAMESPACE)
    begun = opened(place).space.store.write_behind(NAMESPACE, [columns(some_records(40))])
    assert begun is not ABSENT
    begun[1]()


def test_long_values_and_other_columns_go_the_ordinary_way(stores) -> None:
    arrow, plain, _ = stores
    records = some_records(30, longest=20_000)
    records[-1] = (records[-1][0], bytes(20_000))
    expected = plain.write_range("local://lake/other", records)
    assert arrow.splice_range(NAMESPACE, [columns(records)]) == expected
    mixed = [columns(records[:9]), Columns.of(records[9:])]
    assert arrow.splice_range(NAMESPACE, mixed) == expected


def test_records_out_of_order_are_refused(stores) -> None:
    arrow, _, _ = stores
    for records in ([(b"b", b""), (b"a", b"")], [(b"a", b""), (b"a", b"")]):
        for run in ([columns(records)], [columns(records[:1]), columns(records[1:])]):
            with pytest.raises(Invalid, match="strictly increasing"):
                arrow.splice_range(NAMESPACE, run)
    with pytest.raises(Invalid, match="at least one record"):
        arrow.splice_range(NAMESPACE, [])
