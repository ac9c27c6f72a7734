"""Threads that must not wait open no table and decode no metarange; other threads do."""

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from graveler.committed.ranges import EMPTY_METARANGE
from graveler.committed.sstable import SstRangeStore
from graveler.committed.table_end import TAIL_LENGTH
from graveler.committed.tiers import StoredFiles
from graveler.core.ids import MetarangeId, RangeId
from graveler.core.records import ABSENT, RangeRef
from graveler.kv.store import Prompt, WouldWait
from tests.committed.stores import NAMESPACE
from tests.committed.test_tiers import CountingBlocks

T = TypeVar("T")
COUNT = 4_000
SMALL = 20


class Stores:
    """The same files in stores that have decoded nothing yet."""

    def __init__(self, scratch: Path) -> None:
        self.blocks = CountingBlocks()
        self.scratch = scratch
        writer = self.fresh()
        self.refs = [_ref(at) for at in range(COUNT)]
        self.long = writer.write_metarange(NAMESPACE, self.refs)
        self.short = writer.write_metarange(NAMESPACE, self.refs[:SMALL])
        value = random.Random(0).randbytes
        self.records = [(b"key-%05d" % at, value(200)) for at in range(1_000)]
        self.range = writer.write_range(NAMESPACE, self.records)

    def fresh(self) -> SstRangeStore:
        return SstRangeStore(StoredFiles(self.blocks), is_near=True)


def _ref(at: int) -> RangeRef:
    return RangeRef(RangeId(f"{at:064x}"), b"key-%06d-a" % at, b"key-%06d-z" % at, 100, 10)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    return Stores(tmp_path_factory.mktemp("scratch"))


@contextmanager
def forbidden(store: SstRangeStore) -> Iterator[None]:
    """This thread must not wait in the block."""
    assert isinstance(store, Prompt)
    store.forbid_waiting(threading.get_ident())
    yield
    store.allow_waiting(threading.get_ident())


def elsewhere(call: Callable[[], T]) -> T:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


@pytest.mark.parametrize("is_long", [True, False])
def test_a_metarange_is_decoded_elsewhere(stores: Stores, is_long: bool) -> None:
    store, id = stores.fresh(), stores.long if is_long else stores.short
    place, key = (NAMESPACE, id), stores.refs[7].max_key
    with forbidden(store):
        requests = stores.blocks.requests
        for _ in range(2):
            with pytest.raises(WouldWait):
                store.find_range(*place, key)
            with pytest.raises(WouldWait):
                store.read_metarange(*place)
        assert stores.blocks.requests == requests
        assert elsewhere(lambda: store.find_range(*place, key)) == stores.refs[7]
        if is_long:  # the first look-up elsewhere has read one block, so there is more to decode
            with pytest.raises(WouldWait):
                store.find_range(*place, key)
            assert elsewhere(lambda: store.find_range(*place, key)) == stores.refs[7]
        requests = stores.blocks.requests
        assert store.find_range(*place, key) == stores.refs[7]
        assert len(store.read_metarange(*place).ranges) in (COUNT, SMALL)
        assert store.find_range(*place, b"z") is ABSENT
        assert stores.blocks.requests == requests
        empty = MetarangeId(EMPTY_METARANGE)
        assert store.find_range(NAMESPACE, empty, key) is ABSENT
        assert not store.read_metarange(NAMESPACE, empty).ranges


def test_a_range_is_opened_elsewhere(stores: Stores) -> None:
    store, place = stores.fresh(), (NAMESPACE, stores.range.id)
    with forbidden(store):
        with pytest.raises(WouldWait):
            store.open_range(*place)
        table = elsewhere(lambda: store.open_range(*place))
        assert store.open_range(*place) is table
        requests = stores.blocks.requests
        assert [table.get(key) for key, _ in stores.records[:2]] == [
            value for _, value in stores.records[:2]
        ]
        assert stores.blocks.requests == requests + 1


class _Nested(CountingBlocks):
    """While a metarange is being decoded, its second look-up, another look-up comes."""

    on_read: Callable[[], object] = int

    def read(self, address: str, start: int, length: int) -> bytes:
        raw = super().read(address, start, length)
        self.on_read()
        return raw


def test_only_one_look_up_at_a_time_decodes_a_metarange(stores: Stores, tmp_path: Path) -> None:
    blocks = _Nested()
    place = (
        NAMESPACE,
        SstRangeStore(StoredFiles(blocks)).write_metarange(NAMESPACE, stores.refs),
    )
    store, found, spent = SstRangeStore(StoredFiles(blocks)), [], []
    key = stores.refs[7].max_key
    store.find_range(*place, key)  # opens the table

    def another() -> None:
        blocks.on_read = int
        before = blocks.bytes
        found.append(store.find_range(*place, key))
        spent.append(blocks.bytes - before)

    blocks.on_read = another
    before = blocks.bytes
    assert store.find_range(*place, key) == stores.refs[7]
    assert found == [stores.refs[7]]
    assert spent[0] < TAIL_LENGTH < blocks.bytes - before
    before = blocks.bytes
    assert store.find_range(*place, key) == stores.refs[7]
    assert blocks.bytes == before
