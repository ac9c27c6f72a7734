"""The memory store keeps the contract."""

import pytest

from graveler.kv.memory import MemoryStore
from graveler.testing.kv_suite import KvSuite


class TestMemoryStore(KvSuite):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()
