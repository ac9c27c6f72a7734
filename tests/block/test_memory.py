"""The memory driver keeps the contract, and so does every wrapper around it."""

import pytest

from graveler.block.adapter import Target
from graveler.block.memory import MemoryBlocks
from graveler.block.retry import retrying_blocks
from graveler.core.clock import SystemClock
from graveler.core.errors import NotFound, Unsupported
from graveler.core.requests import Counts, RetryPolicy, counted_blocks
from tests.support.block_suite import BlockSuite
from tests.support.faults import FaultyBlocks, nth


class TestMemoryBlocks(BlockSuite):
    @pytest.fixture
    def blocks(self) -> MemoryBlocks:
        return MemoryBlocks(SystemClock())


class TestRetryingBlocks(BlockSuite):
    @pytest.fixture
    def blocks(self) -> MemoryBlocks:
        clock = SystemClock()
        return retrying_blocks(MemoryBlocks(clock), clock, RetryPolicy())


class Testcounted_blocks(BlockSuite):
    @pytest.fixture
    def blocks(self) -> counted_blocks:
        return counted_blocks(MemoryBlocks(SystemClock()), Counts())


def test_b11_what_was_stored_without_versions_is_deleted_once_they_are_kept() -> None:
    blocks = MemoryBlocks(SystemClock())
    blocks.keeps_versions = False
    first = blocks.put("mem://bucket/a", [b"same"])
    assert blocks.put("mem://bucket/a", [b"same"]).version == first.version
    for refused in (
        lambda: blocks.check_versions("mem://bucket/a"),
        lambda: blocks.delete("mem://bucket/a", first.version),
        lambda: blocks.delete_all([Target("mem://bucket/a", first.version)]),
    ):
        with pytest.raises(Unsupported):
            refused()
    assert blocks.read("mem://bucket/a", 0, 9) == b"same"
    blocks.keeps_versions = True
    blocks.check_versions("mem://bucket/a")
    other = blocks.put("mem://bucket/b", [b"null"])
    blocks.delete("mem://bucket/a", first.version)
    with pytest.raises(NotFound):
        blocks.head("mem://bucket/a")
    assert blocks.head("mem://bucket/b") == other


class TestFaultyBlocksWithoutFaults(BlockSuite):
    @pytest.fixture
    def blocks(self) -> FaultyBlocks:
        return FaultyBlocks(MemoryBlocks(SystemClock()), nth({}))
