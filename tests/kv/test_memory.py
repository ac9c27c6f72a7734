"""The memory store keeps the contract."""

import pytest

from graveler.kv.memory import MemoryStore
from tests.support.kv_suite import KvSuite


class TestMemoryStore(KvSuite):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()
