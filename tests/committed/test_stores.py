"""Every range store keeps the contract."""

from pathlib import Path

import pytest

from graveler.committed import writer
from graveler.committed.memory import MemoryRangeStore
from graveler.committed.ranges import Keyspace, RangeStore
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import TieredFiles
from graveler.core.errors import Invalid
from graveler.core.records import BreakParameters
from tests.committed.stores import memory_blocks, sst_store
from tests.support.range_suite import NAMESPACE, RangeSuite, numbered


class TestMemory(RangeSuite):
    @pytest.fixture
    def store(self) -> RangeStore:
        return MemoryRangeStore()


class TestTables(RangeSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> RangeStore:
        return sst_store(tmp_path)


class TestTablesBehindAFolder(RangeSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> RangeStore:
        return SstRangeStore(TieredFiles(memory_blocks(), tmp_path, 1 << 20))


class TestTablesWithoutMemoryToSpare(RangeSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> RangeStore:
        files = TieredFiles(memory_blocks(), tmp_path, 0)
        return SstRangeStore(files, block_cache_bytes=0, table_cache_bytes=0)


@pytest.mark.parametrize("count", [3, 4_096])
def test_records_out_of_order_become_no_metarange(tmp_path: Path, count: int) -> None:
    """Within a batch of the writer, and between two batches."""
    space = Keyspace(sst_store(tmp_path), NAMESPACE, BreakParameters())
    records = numbered(count)
    with pytest.raises(Invalid, match="strictly increasing"):
        writer.write(space, [*records, records[-1]])
