"""Threads that must not wait: what is durable is read, anything else refused before it is done."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from graveler.kv.database import flat_key
from graveler.kv.rocksdb import RocksStore
from graveler.kv.store import ABSENT, Matches, Newer, Prompt, WouldWait, Write

PLACE = (b"p", b"k")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RocksStore]:
    """With one durable row, and this thread forbidden to wait."""
    made = RocksStore(str(tmp_path / "kv"))
    made.set(*PLACE, b"value", b"v1")
    made.forbid_waiting(threading.get_ident())
    yield made
    made.close()


def _elsewhere(call: Callable[[], object]) -> object:
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join(20)
    return found[0]


def _unsynced(store: RocksStore) -> None:
    """Another write of the row, as it stands between its put and its sync."""
    files = store._files
    with files.lock:
        files._opened.group.record([flat_key(*PLACE)])


def test_a_durable_row_is_read(store: RocksStore) -> None:
    assert isinstance(store, Prompt)
    row = store.get(*PLACE)
    assert row is not ABSENT and row.value == b"value"
    assert store.get_many([PLACE, (b"p", b"none")]) == {PLACE: row}
    assert store.get(b"p", b"none") is ABSENT


def test_a_row_that_waits_for_its_sync_is_refused_and_nobody_syncs(store: RocksStore) -> None:
    _unsynced(store)
    syncs = store.counts.syncs
    with pytest.raises(WouldWait):
        store.get(*PLACE)
    with pytest.raises(WouldWait):
        store.get_many([(b"p", b"none"), PLACE])
    assert store.get(b"p", b"none") is ABSENT  # which waits for nothing
    assert store.get_many([(b"p", b"none")]) == {}
    assert store.counts.syncs == syncs
    assert _elsewhere(lambda: store.get(*PLACE)) is not ABSENT
    assert store.counts.syncs == syncs + 1
    assert store.get(*PLACE) is not ABSENT


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.scan(b"p", b"", b"", 1),
        lambda store: store.set(*PLACE, b"new", b"v2"),
        lambda store: store.set_many([Write(*PLACE, b"new", b"v2")]),
        lambda store: store.set_if(*PLACE, b"new", b"v2", Matches(b"v1")),
        lambda store: store.set_newer(*PLACE, b"new", b"v2", 1),
        lambda store: store.set_newer_many([Newer(*PLACE, b"new", b"v2", 1)]),
        lambda store: store.delete(b"p", [b"k"]),
    ],
    ids=["scan", "set", "set_many", "set_if", "set_newer", "set_newer_many", "delete"],
)
def test_what_scans_or_writes_is_refused_and_has_done_nothing(
    store: RocksStore, call: Callable[[RocksStore], object]
) -> None:
    with pytest.raises(WouldWait):
        call(store)
    row = store.get(*PLACE)
    assert row is not ABSENT and (row.value, row.version) == (b"value", b"v1")
    _elsewhere(lambda: call(store))
    store.allow_waiting(threading.get_ident())
    call(store)
