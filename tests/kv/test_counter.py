"""Counting requests changes nothing else."""

import pytest

from graveler.core.errors import Unavailable
from graveler.core.requests import Counts, counted_store
from graveler.kv.memory import MemoryStore
from graveler.kv.store import ABSENT, Write
from tests.support.faults import Fault, FaultyStore, nth
from tests.support.kv_suite import KvSuite, in_threads


class Testcounted_store(KvSuite):
    @pytest.fixture
    def store(self) -> counted_store:
        return counted_store(MemoryStore(), Counts())


def test_each_verb_is_one_request_and_a_batch_one_per_thousand_rows() -> None:
    counts = Counts()
    store = counted_store(MemoryStore(), counts)
    keys = [b"%d" % n for n in range(1_001)]
    store.get(b"p", b"k")
    store.scan(b"p", b"", b"", 1)
    store.set(b"p", b"k", b"v", b"1")
    store.set_if(b"p", b"k", b"v", b"2", ABSENT)
    store.set_newer(b"p", b"k", b"v", b"3", 1)
    store.set_many([Write(b"p", key, b"v", b"1") for key in keys])
    store.get_many([(b"p", key) for key in keys[:1_000]])
    store.delete(b"p", keys)
    assert counts.snapshot() == {
        "get": 1,
        "scan": 1,
        "set": 1,
        "set_if": 1,
        "set_newer": 1,
        "set_many": 2,
        "get_many": 1,
        "delete": 2,
    }
    assert counts.total() == 10


def test_since_shows_only_what_came_after() -> None:
    counts = Counts()
    store = counted_store(MemoryStore(), counts)
    store.get(b"p", b"k")
    store.set(b"p", b"k", b"v", b"1")
    before = counts.snapshot()
    store.get(b"p", b"k")
    store.get_many([])
    assert counts.since(before) == {"get": 1}
    assert counts.since(counts.snapshot()) == {}


def test_a_request_that_fails_is_counted() -> None:
    counts = Counts()
    store = counted_store(FaultyStore(MemoryStore(), nth({1: Fault.REFUSED})), counts)
    with pytest.raises(Unavailable):
        store.get(b"p", b"k")
    assert counts.snapshot() == {"get": 1}


def test_threads_lose_no_count() -> None:
    counts = Counts()

    def count() -> None:
        for _ in range(2_000):
            counts.add("get")

    in_threads(*[count] * 4)
    assert counts.total() == 8_000
