"""Every range store keeps the contract."""

from pathlib import Path

import pytest

from graveler.committed.memory import MemoryRangeStore
from graveler.committed.ranges import RangeStore
from graveler.committed.sstable import SstRangeStore
from graveler.committed.tiers import TieredFiles
from tests.committed.stores import memory_blocks, sst_store
from tests.support.range_suite import RangeSuite


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
