"""The embedded store keeps the contract, its folder to itself, and what it acknowledged."""

import os
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Rdict

from graveler.core.clock import Clock
from graveler.core.errors import Conflict, Corrupt, StorageFull, Unavailable
from graveler.kv import database
from graveler.kv.group_commit import GroupCommit, SyncCounts
from graveler.kv.rocksdb import RocksSettings, RocksStore
from graveler.kv.store import (
    ABSENT,
    WRITTEN,
    Declined,
    Matches,
    Newer,
    Row,
    Write,
    deferred,
    scan_all,
)
from tests.block.stores import opened_below
from tests.support.clockwork import TickingClock
from tests.support.kv_suite import KvSuite, in_threads
from tests.waiting import until

SMALL = RocksSettings(write_buffer_bytes=1024 * 1024, write_buffer_count=2)
NOBODY = 65_534


class TestRocksStore(KvSuite):
    """In memory where the system offers it: 20,000 syncs of a disk would take a minute."""

    @pytest.fixture
    def store(self) -> Iterator[RocksStore]:
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        with tempfile.TemporaryDirectory(dir=memory) as folder:
            store = RocksStore(folder, SMALL)
            yield store
            store.close()


def test_k6_rows_outlive_the_store(tmp_path: Path) -> None:
    path = str(tmp_path / "kv")
    for life in range(3):
        store = RocksStore(path)
        version = b"%d" % life
        store.set_newer(b"p", b"k", version, version, life + 1)
        store.set_many([Write(b"q", b"%d-%d" % (life, n), b"v", version) for n in range(2_000)])
        store.delete(b"q", [b"%d-0" % life])
        store.close()
    store = RocksStore(path)
    assert store.get(b"p", b"k") == Row(b"2", b"2", 3)
    assert len(list(scan_all(store, b"q"))) == 3 * 1_999
    store.close()


def test_the_first_level_stays_as_small_as_what_is_merged_into_it(tmp_path: Path) -> None:
    """Four files of a buffer each: so no merge of files grows with the rows."""
    store = RocksStore(tmp_path, SMALL)
    for batch in range(24):
        rows = [(os.urandom(8), os.urandom(1_000)) for _ in range(1_000)]
        store.set_many([Write(b"p", key, value, b"%d" % batch) for key, value in rows])
    store.close()
    files = _files_when_merged(tmp_path)
    assert sum(each["size"] for each in files) > 16 * SMALL.write_buffer_bytes
    # RocksDB lets a file grow to twice its size, to end it where a file of the next level ends
    assert max(each["size"] for each in files) < 3 * SMALL.write_buffer_bytes
    top = min(each["level"] for each in files if each["level"])  # the levels above it are unused
    first = sum(each["size"] for each in files if each["level"] == top)
    assert first < 8 * SMALL.write_buffer_bytes


def _files_when_merged(folder: Path) -> list[dict[str, Any]]:
    """The files of a closed store, when RocksDB has no more of them to merge."""
    opened = Rdict(str(folder))  # with the options of the store, which are in its folder
    asked = ("rocksdb.compaction-pending", "rocksdb.num-running-compactions")
    until(lambda: not any(map(opened.property_int_value, 2 * asked)), "no files are left to merge")
    files: list[dict[str, Any]] = opened.live_files()
    opened.close()
    return files


def test_no_more_tables_are_open_than_allowed(tmp_path: Path) -> None:
    few = replace(SMALL, open_files_max=24)
    store = RocksStore(tmp_path, few)
    for _ in range(60):
        rows = [Write(b"p", os.urandom(8), os.urandom(1_000), b"1") for _ in range(1_000)]
        store.set_many(rows)
    store.close()
    assert len(_files_when_merged(tmp_path)) > few.open_files_max
    store = RocksStore(tmp_path, few)
    assert len(list(scan_all(store, b"p", page=10_000))) == 60_000
    tables = [each for each in opened_below(tmp_path) if each.endswith(".sst")]
    assert 0 < len(tables) <= few.open_files_max
    store.close()


def test_many_rows_that_are_removed_by_version_leave_memory(tmp_path: Path) -> None:
    """What is removed in memory costs every scan over it; a file leaves it out."""
    store = RocksStore(tmp_path)
    keys = [b"%04d" % number for number in range(1_000)]
    store.set_many([Write(b"p", key, b"v", b"1") for key in [*keys, b"stays"]])
    store.delete(b"p", keys[:10], [b"1"] * 10)
    assert not list(tmp_path.glob("*.sst"))
    store.set(b"p", keys[10], b"anew", b"2")
    store.delete(b"p", keys, [b"1"] * 1_000)
    assert list(tmp_path.glob("*.sst"))
    assert [key for key, _ in scan_all(store, b"p")] == [keys[10], b"stays"]
    store.close()


def test_k6_writers_share_syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sync takes a millisecond at least, on a disk in memory too."""

    def slow(
        lock: threading.Lock, sync: Callable[..., None], clock: Clock, counts: SyncCounts
    ) -> GroupCommit:
        def slowly(*given: bool) -> None:
            clock.sleep(0.001)
            sync(*given)

        return GroupCommit(lock, slowly, clock, counts)

    monkeypatch.setattr(database, "GroupCommit", slow)
    store = RocksStore(str(tmp_path / "kv"))

    def write(thread: int) -> None:
        for number in range(150):
            stamp = b"%d/%d" % (thread, number)
            assert store.set_newer(b"p%d" % thread, b"%d" % number, stamp, stamp, 1) is WRITTEN

    in_threads(*[lambda thread=n: write(thread) for n in range(16)])
    counts = store.counts
    store.close()
    assert counts.writes == 16 * 150
    assert 16 * 150 / counts.syncs >= 8


def test_newer_rows_share_one_sync(tmp_path: Path) -> None:
    store = RocksStore(str(tmp_path / "kv"))
    rows = [Newer(b"p", b"%d" % n, b"v", b"%d" % n, 1) for n in range(500)]
    assert list(store.set_newer_many(rows)) == [WRITTEN] * 500
    assert store.counts.syncs == 1
    store.close()


def test_one_writer_syncs_each_write(tmp_path: Path) -> None:
    store = RocksStore(str(tmp_path / "kv"))
    for number in range(20):
        store.set(b"p", b"%d" % number, b"v", b"1")
    store.get(b"p", b"1")
    store.set_if(b"p", b"1", b"v", b"2", ABSENT)
    assert (store.counts.writes, store.counts.syncs) == (20, 20)
    store.close()


def test_deferred_writes_are_durable_with_the_next_one(tmp_path: Path) -> None:
    store = RocksStore(str(tmp_path / "kv"))
    with deferred(store):
        store.set_many([Write(b"p", b"%d" % number, b"v", b"1") for number in range(3)])
        assert store.set_if(b"p", b"3", b"v", b"1", ABSENT) is WRITTEN
        assert store.counts.syncs == 0
    store.set(b"p", b"4", b"v", b"1")
    assert (store.counts.writes, store.counts.syncs) == (3, 1)
    assert len(list(scan_all(store, b"p"))) == 5
    assert store.counts.syncs == 1
    store.close()


def test_who_reads_a_deferred_row_waits_until_it_is_durable(tmp_path: Path) -> None:
    store = RocksStore(str(tmp_path / "kv"))
    reads: list[Callable[[bytes], object]] = [
        lambda key: store.get(b"p", key),
        lambda key: store.get_many([(b"p", key)]),
        lambda key: store.scan(b"p", key, b"", 1),
        lambda key: store.set_if(b"p", key, b"other", b"2", ABSENT),
    ]
    for number, read in enumerate(reads):
        with deferred(store):
            store.set(b"p", b"%d" % number, b"v", b"1")
            assert store.counts.syncs == number
            read(b"%d" % number)
            assert store.counts.syncs == number + 1
    store.close()


def test_other_threads_defer_nothing(tmp_path: Path) -> None:
    store = RocksStore(str(tmp_path / "kv"))
    with deferred(store):
        other = threading.Thread(target=store.set, args=(b"p", b"1", b"v", b"1"))
        other.start()
        other.join()
        assert store.counts.syncs == 1
    store.close()


def test_deferred_writes_outlive_a_log_that_fails_and_loses_what_it_did_not_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a commit could land whose record was lost between its deferred write and the swap."""
    folder, forgets = tmp_path / "kv", threading.Event()

    def forgetful(
        lock: threading.Lock, sync: Callable[..., None], clock: Clock, counts: SyncCounts
    ) -> GroupCommit:
        durable: dict[Path, int] = {}

        def synced(*given: bool) -> None:
            logs = list(folder.glob("*.log"))
            if forgets.is_set():
                for log in logs:
                    os.truncate(log, durable.get(log, 0))
                raise OSError("I/O error")
            sync(*given)
            durable.update((log, log.stat().st_size) for log in logs)

        return GroupCommit(lock, synced, clock, counts)

    monkeypatch.setattr(database, "GroupCommit", forgetful)
    clock = TickingClock()
    store = RocksStore(str(folder), SMALL, clock)
    for key in (b"before", b"replaced", b"removed"):
        store.set(b"p", key, b"old", b"1")
    with deferred(store):
        store.set_many([Write(b"p", key, b"v", b"2") for key in (b"commit", b"replaced")])
        assert store.set_if(b"p", b"removed", b"v", b"2", Matches(b"1")) is WRITTEN
    forgets.set()
    changes: list[Callable[[], object]] = [
        lambda: store.set(b"p", b"replaced", b"newer", b"3"),
        lambda: store.delete(b"p", [b"removed"]),
    ]
    for change in changes:
        with pytest.raises(Unavailable):
            change()
    forgets.clear()
    clock.sleep(2)
    assert store.set_if(b"p", b"before", b"v", b"4", Matches(b"1")) is WRITTEN
    assert store.get(b"p", b"commit") == Row(b"v", b"2")
    found = dict(scan_all(store, b"p"))
    assert found == {
        b"before": Row(b"v", b"4"),
        b"commit": Row(b"v", b"2"),
        b"replaced": Row(b"old", b"1"),  # by a write whose outcome is unknown
        b"removed": Row(b"old", b"1"),
    }
    store.close()
    again = RocksStore(str(folder), SMALL)
    assert dict(scan_all(again, b"p")) == found
    again.close()


def test_a_second_store_is_refused_with_the_remedy(tmp_path: Path) -> None:
    path = str(tmp_path / "kv")
    store = RocksStore(path)
    with pytest.raises(
        Conflict, match="another process uses the folder; stop that process"
    ) as raised:
        RocksStore(path)
    assert path in str(raised.value)
    assert f"'{os.getpid()}'" in str(raised.value)
    script = "import sys; from graveler.kv.rocksdb import RocksStore; RocksStore(sys.argv[1])"
    other = subprocess.run(
        [sys.executable, "-c", script, path], capture_output=True, text=True, check=False
    )
    assert "Conflict: open kv store: another process uses the folder" in other.stderr
    store.set(b"p", b"k", b"v", b"1")
    store.close()
    RocksStore(path).close()


def test_a_folder_that_cannot_be_written_is_refused_with_the_remedy(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"")
    with pytest.raises(Unavailable, match="make it writable or choose another folder"):
        RocksStore(str(file))
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    with as_nobody(), pytest.raises(Unavailable, match="make it writable") as raised:
        RocksStore(str(closed))
    assert str(closed) in str(raised.value)


def test_a_closed_store_answers_nothing(tmp_path: Path) -> None:
    store = RocksStore(str(tmp_path / "kv"))
    store.close()
    store.close()
    with pytest.raises(Unavailable):
        store.get(b"p", b"k")
    with pytest.raises(Unavailable):
        store.scan(b"p", b"", b"", 1)
    with pytest.raises(Unavailable, match="closed"):
        store.set(b"p", b"k", b"v", b"1")


def test_a_full_device_refuses_writes_answers_reads_and_recovers(tmp_path: Path) -> None:
    clock = TickingClock()
    store = RocksStore(str(tmp_path / "kv"), SMALL, clock)
    store.set_newer(b"p", b"first", b"v", b"first", 1)
    written: list[bytes] = []
    with _files_of_at_most(200_000):
        refused = _fill(store, written)
        assert len(written) > 5
        for attempt in (b"a", b"b", b"c"):
            clock.sleep(2)
            with pytest.raises(StorageFull, match="no room") as full:
                store.set_if(b"p", attempt, b"v", attempt, ABSENT)
            assert str(tmp_path) not in str(full.value)  # callers of the service are told it
        assert store.get(b"p", refused) is ABSENT
        assert all(store.get(b"p", key) == Row(key * 1_000, key) for key in written)
        assert len(store.scan(b"p", b"", b"", 1_000).rows) == len(written) + 1
    with pytest.raises(StorageFull):
        store.set(b"p", b"too early", b"v", b"1")
    clock.sleep(2)
    assert store.set_if(b"p", b"d", b"v", b"d", ABSENT) is WRITTEN
    found = dict(scan_all(store, b"p"))
    store.close()
    assert found == {
        **{key: Row(key * 1_000, key) for key in written},
        b"d": Row(b"v", b"d"),
        b"first": Row(b"v", b"first", 1),
    }
    again = RocksStore(str(tmp_path / "kv"), SMALL)
    assert dict(scan_all(again, b"p")) == found
    again.close()


def test_each_of_many_rows_is_told_that_there_is_no_room(tmp_path: Path) -> None:
    clock = TickingClock()
    store = RocksStore(str(tmp_path / "kv"), SMALL, clock)
    rows = [Newer(b"p", b"%03d" % n, b"v" * 1_000, b"1", 1) for n in range(300)]
    with _files_of_at_most(200_000):
        for _ in range(2):  # while the log takes no more, and then before it is opened anew
            outcomes = store.set_newer_many(rows)
            assert [type(each) for each in outcomes] == [StorageFull] * len(rows)
        assert store.scan(b"p", b"", b"", 10).rows == ()
    clock.sleep(2)
    assert list(store.set_newer_many(rows)) == [WRITTEN] * len(rows)
    store.close()


def test_a_store_that_there_is_no_room_to_create_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "kv")
    with _files_of_at_most(0), pytest.raises(StorageFull):
        RocksStore(path, SMALL)
    store = RocksStore(path, SMALL)
    store.set(b"p", b"k", b"v", b"1")
    store.close()


def test_a_store_whose_log_failed_can_be_closed_and_opened(tmp_path: Path) -> None:
    store = RocksStore(str(tmp_path / "kv"), SMALL)
    written: list[bytes] = []
    with _files_of_at_most(200_000):
        _fill(store, written)
        store.close()
    again = RocksStore(str(tmp_path / "kv"), SMALL)
    assert [key for key, _ in scan_all(again, b"p")] == written
    again.close()


@pytest.mark.parametrize("place", [0.002, 0.5, 0.9])
def test_damaged_rows_are_reported_and_never_left_out(tmp_path: Path, place: float) -> None:
    """In the first block, too."""
    store = RocksStore(str(tmp_path / "kv"))
    store.set_many([Write(b"p", b"%06d" % n, os.urandom(100), b"1") for n in range(5_000)])
    store.close()
    (table,) = (tmp_path / "kv").glob("*.sst")
    damaged = bytearray(table.read_bytes())
    damaged[int(len(damaged) * place)] ^= 1
    table.write_bytes(damaged)
    store = RocksStore(str(tmp_path / "kv"))
    for page in (10, 10_000):
        with pytest.raises(Corrupt, match="damaged"):
            list(scan_all(store, b"p", page=page))
    with pytest.raises(Corrupt, match="damaged"):
        store.get_many([(b"p", b"%06d" % n) for n in range(5_000)])
    with pytest.raises(Corrupt, match="damaged"):
        for number in range(5_000):
            store.get(b"p", b"%06d" % number)
    with pytest.raises(Corrupt) as damage:
        store.scan(b"p", b"", b"", 10_000)
    assert "said=" in str(damage.value) and str(tmp_path) not in str(damage.value)
    store.close()


def test_a_refusal_in_a_crowd_shows_the_winner(tmp_path: Path) -> None:
    store = RocksStore(str(tmp_path / "kv"))
    outcomes: list[object] = []

    def write(order: int) -> None:
        version = b"%d" % order
        outcome = store.set_newer(b"p", b"k", version, version, order)
        if isinstance(outcome, Declined):
            assert outcome.current is not ABSENT
            assert outcome.current.order > order
        outcomes.append(outcome)

    in_threads(*[lambda order=n: write(order) for n in range(1, 9)])
    assert store.get(b"p", b"k") == Row(b"8", b"8", 8)
    assert len(outcomes) == 8
    store.close()


def _fill(store: RocksStore, written: list[bytes]) -> bytes:
    """Write until there is no room; returns the key that was refused."""
    for number in range(1_000):
        key = b"k%04d" % number
        try:
            store.set(b"p", key, key * 1_000, key)
        except StorageFull:
            return key
        written.append(key)
    raise AssertionError("there was room for everything")


@contextmanager
def _files_of_at_most(size: int) -> Iterator[None]:
    """No file of this process grows beyond `size`: what a full device looks like."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without the rights of root, to whom nothing is read-only."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
