"""What tests of shared ranges have in common."""

import pytest

from graveler.committed.ranges import Keyspace
from graveler.core.records import BreakParameters
from tests.committed.stores import NAMESPACE, CountingStore


@pytest.fixture
def store() -> CountingStore:
    return CountingStore()


@pytest.fixture
def space(store: CountingStore) -> Keyspace:
    return Keyspace(store, NAMESPACE, BreakParameters(raggedness=50, salt=b"s"))
