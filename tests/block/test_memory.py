"""The memory driver keeps the contract, and so does every wrapper around it."""

import pytest

from graveler.block.memory import MemoryBlocks
from graveler.block.observed import ObservedBlocks
from graveler.block.retrying import RetryingBlocks
from graveler.clock import SystemClock
from graveler.requests import Counts, RetryPolicy
from graveler.testing.block_faults import FaultyBlocks
from graveler.testing.block_suite import BlockSuite
from graveler.testing.faults import nth


class TestMemoryBlocks(BlockSuite):
    @pytest.fixture
    def blocks(self) -> MemoryBlocks:
        return MemoryBlocks(SystemClock())


class TestRetryingBlocks(BlockSuite):
    @pytest.fixture
    def blocks(self) -> RetryingBlocks:
        clock = SystemClock()
        return RetryingBlocks(MemoryBlocks(clock), clock, RetryPolicy())


class TestObservedBlocks(BlockSuite):
    @pytest.fixture
    def blocks(self) -> ObservedBlocks:
        return ObservedBlocks(MemoryBlocks(SystemClock()), Counts())


class TestFaultyBlocksWithoutFaults(BlockSuite):
    @pytest.fixture
    def blocks(self) -> FaultyBlocks:
        return FaultyBlocks(MemoryBlocks(SystemClock()), nth({}))
