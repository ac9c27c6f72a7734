"""The embedded store: rows in a RocksDB database of which this process is the only owner.

    key     length of the partition (2 bytes) | partition | key
    value   length of the version (1 byte) | order (8 bytes) | version | value

so partitions never mix and keys order as bytes; numbers are big-endian.  Always: an answer, a
refusal included, is given only when what it says is durable (group_commit.py).  What was
acknowledged survives a kill at any moment; opening replays the log and needs no repair.

A database whose log refused a write (a full disk) answers reads, and refuses writes until it has
been opened anew: the next writer does that, at most once a second and only when a trial file shows
that there is room.  The registry opens this driver; nothing else knows RocksDB's names.
"""

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteOptions,
)

from graveler import limits
from graveler.clock import Clock, SystemClock
from graveler.errors import Corrupt, GravelerError, OutcomeUnknown, StorageFull, Unavailable
from graveler.kv import folder
from graveler.kv.group_commit import GroupCommit, SyncCounts
from graveler.kv.store import (
    ABSENT,
    WRITTEN,
    Condition,
    Declined,
    Outcome,
    Place,
    Row,
    ScanPage,
    Write,
    check_place,
    check_scan,
    check_write,
)
from graveler.records import Absent

_REOPEN_SECONDS: Final = 1.0
_HEAD: Final = 9  # bytes of a stored value before its version
_NO_ROOM = ("No space left", "File too large", "Disk quota exceeded")
_UNSYNCED: Final = WriteOptions()


@dataclass(frozen=True, slots=True)
class RocksSettings:
    """What the database may use; together at most about 64 MB of memory."""

    write_buffer_bytes: int = 16 * 1024 * 1024
    write_buffer_count: int = 3
    block_cache_bytes: int = 16 * 1024 * 1024
    open_files_max: int = 128


class _Opened(NamedTuple):
    """A database and the syncs of its log; replaced together when it is opened anew."""

    rows: Rdict
    group: GroupCommit


class RocksStore:
    """`Store` in the folder `path`, which is made if absent.

    `Conflict` if another process (or another store of this one) holds it; `Unavailable` if it
    cannot be written; `Corrupt` if its files are damaged.
    """

    def __init__(
        self,
        path: str,
        settings: RocksSettings | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.counts = SyncCounts()
        self._path = os.path.abspath(path)
        self._settings = settings or RocksSettings()
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._closed = False
        self._reopen_after = 0.0
        self._owner = folder.own(self._path)
        try:
            self._opened = self._open()
        except BaseException:
            os.close(self._owner)
            raise

    def get(self, partition: bytes, key: bytes) -> Row | Literal[Absent.ABSENT]:
        check_place(partition, key)
        raw = _raw_key(partition, key)
        opened = self._opened
        try:
            stored = opened.rows.get(raw)
        except Exception as error:
            raise self._translated(error, "read") from error
        if raw in opened.group.pending:
            with self._lock:
                opened.group.wait(opened.group.cover(raw))
        return ABSENT if stored is None else _row(stored)

    def get_many(self, places: Sequence[Place]) -> Mapping[Place, Row]:
        for partition, key in places:
            check_place(partition, key)
        raws: list[Any] = [_raw_key(partition, key) for partition, key in places]
        opened = self._opened
        try:
            stored = opened.rows.get(raws) or ()
        except Exception as error:
            raise self._translated(error, "read") from error
        if opened.group.pending:
            with self._lock:
                opened.group.wait(max(map(opened.group.cover, raws), default=0))
        found = zip(places, stored, strict=True)
        return {place: _row(value) for place, value in found if value is not None}

    def scan(self, partition: bytes, start: bytes, end: bytes, limit: int) -> ScanPage:
        check_scan(partition, limit)
        prefix = _raw_key(partition, b"")
        low = prefix + start
        high = prefix + end if end else _behind(prefix)
        if low >= high:
            return ScanPage((), False)
        opened = self._opened
        try:
            found = _read_range(opened.rows, low, high, limit + 1)
        except Exception as error:
            raise self._translated(error, "scan") from error
        if opened.group.pending:
            with self._lock:
                reach = found[limit][0] if len(found) > limit else high
                opened.group.wait(opened.group.cover_range(low, reach))
        skip = len(prefix)
        rows = tuple([(key[skip:], _row(value)) for key, value in found[:limit]])
        return ScanPage(rows, len(found) > limit)

    def set(self, partition: bytes, key: bytes, value: bytes, version: bytes) -> None:
        check_write(partition, key, value)
        raw, stored = _raw_key(partition, key), _stored(value, version, 0)
        with self._lock:
            self._put(self._writable(), raw, stored)

    def set_many(self, writes: Sequence[Write]) -> None:
        for write in writes:
            check_write(write.partition, write.key, write.value)
        for at in range(0, len(writes), limits.kv_batch_count_max):
            batch = WriteBatch(raw_mode=True)
            raws = []
            for partition, key, value, version in writes[at : at + limits.kv_batch_count_max]:
                raws.append(_raw_key(partition, key))
                batch.put(raws[-1], _stored(value, version, 0))
            self._write_batch(batch, raws)

    def set_if(
        self,
        partition: bytes,
        key: bytes,
        value: bytes,
        version: bytes,
        condition: Condition,
        order: int = 0,
    ) -> Outcome:
        check_write(partition, key, value)
        raw, stored = _raw_key(partition, key), _stored(value, version, order)
        wanted = ABSENT if condition is ABSENT else condition.version
        with self._lock:
            opened = self._writable()
            current = self._current(opened, raw)
            if (ABSENT if current is ABSENT else current.version) != wanted:
                opened.group.wait(opened.group.cover(raw))
                return Declined(current)
            self._put(opened, raw, stored)
            return WRITTEN

    def set_newer(
        self, partition: bytes, key: bytes, value: bytes, version: bytes, order: int
    ) -> Outcome:
        assert order > 0, "order 0 belongs to rows that set_newer did not write"
        check_write(partition, key, value)
        raw, stored = _raw_key(partition, key), _stored(value, version, order)
        with self._lock:
            opened = self._writable()
            current = self._current(opened, raw)
            if current is not ABSENT and current.order >= order:
                opened.group.wait(opened.group.cover(raw))
                return Declined(current)
            self._put(opened, raw, stored)
            return WRITTEN

    def delete(self, partition: bytes, keys: Sequence[bytes]) -> None:
        for key in keys:
            check_place(partition, key)
        for at in range(0, len(keys), limits.kv_batch_count_max):
            batch = WriteBatch(raw_mode=True)
            raws = [_raw_key(partition, key) for key in keys[at : at + limits.kv_batch_count_max]]
            for raw in raws:
                batch.delete(raw)
            self._write_batch(batch, raws)

    def close(self) -> None:
        """Make everything durable, let go of the folder.  Later calls raise `Unavailable`."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            try:
                if self._opened.group.failure is None:
                    self._opened.group.close()
                _close(self._opened)
            finally:
                os.close(self._owner)

    # With the lock held

    def _writable(self) -> _Opened:
        if self._closed:
            raise Unavailable(f"kv: store is closed: path={self._path}")
        if self._opened.group.failure is not None:
            self._reopen()
        return self._opened

    def _current(self, opened: _Opened, raw: bytes) -> Row | Literal[Absent.ABSENT]:
        try:
            stored = opened.rows.get(raw)
        except Exception as error:
            raise self._translated(error, "read") from error
        return ABSENT if stored is None else _row(stored)

    def _put(self, opened: _Opened, raw: bytes, stored: bytes) -> None:
        number = opened.group.record((raw,))
        try:
            opened.rows.put(raw, stored, _UNSYNCED)
        except Exception as error:
            raise self._refused(opened, error) from error
        self._acknowledge(opened, number)

    def _write_batch(self, batch: WriteBatch, raws: Iterable[bytes]) -> None:
        """Takes the lock itself."""
        with self._lock:
            opened = self._writable()
            number = opened.group.record(raws)
            try:
                opened.rows.write(batch, _UNSYNCED)
            except Exception as error:
                raise self._refused(opened, error) from error
            self._acknowledge(opened, number)

    def _acknowledge(self, opened: _Opened, number: int) -> None:
        try:
            opened.group.wait(number)
        except Unavailable as error:
            raise OutcomeUnknown(f"kv: write may be lost: path={self._path}") from error

    def _refused(self, opened: _Opened, error: Exception) -> GravelerError:
        """The log took a torn record at most, which a replay drops; it takes nothing more."""
        opened.group.fail(error)
        self._reopen_after = self._clock.steady_seconds() + _REOPEN_SECONDS
        return self._translated(error, "write")

    def _reopen(self) -> None:
        """A log that failed stays failed: replay it into a new one, once there is room."""
        now = self._clock.steady_seconds()
        if now < self._reopen_after:
            failure = self._opened.group.failure
            raise self._translated(failure, "write") from failure
        self._reopen_after = now + _REOPEN_SECONDS
        self._opened.group.drain()
        settings = self._settings
        folder.try_room(self._path, settings.write_buffer_count * settings.write_buffer_bytes)
        _close(self._opened)
        self._opened = self._open()

    def _open(self) -> _Opened:
        try:
            rows = Rdict(self._path, _options(self._settings))
        except Exception as error:
            raise self._translated(error, "open") from error
        return _Opened(rows, GroupCommit(self._lock, rows.flush_wal, self._clock, self.counts))

    def _translated(self, error: BaseException | None, tried: str) -> GravelerError:
        """The kind of a failure of RocksDB, which tells it only in words."""
        said = str(error)
        if isinstance(error, GravelerError):
            return error
        if any(words in said for words in _NO_ROOM):
            return StorageFull(f"kv: no room left: {tried=} path={self._path}")
        if "Corruption" in said:
            return Corrupt(f"kv: store is damaged: {tried=} path={self._path} {said=}")
        return Unavailable(f"kv: store does not answer: {tried=} path={self._path} {said=}")


def _raw_key(partition: bytes, key: bytes) -> bytes:
    return len(partition).to_bytes(2, "big") + partition + key


def _behind(prefix: bytes) -> bytes:
    """The first key behind all that begin with `prefix`, whose first byte is never 0xff."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes((kept[-1] + 1,))


def _stored(value: bytes, version: bytes, order: int) -> bytes:
    assert len(version) < 256, "a version is a stamp, not a document"
    return b"".join((len(version).to_bytes(1, "big"), order.to_bytes(8, "big"), version, value))


def _row(stored: bytes) -> Row:
    if len(stored) < _HEAD or len(stored) < _HEAD + stored[0]:
        raise Corrupt(f"kv: row is too short: {len(stored)=}")
    split = _HEAD + stored[0]
    return Row(stored[split:], stored[_HEAD:split], int.from_bytes(stored[1:_HEAD], "big"))


def _read_range(rows: Rdict, low: bytes, high: bytes, count: int) -> list[tuple[bytes, bytes]]:
    """The first `count` rows, of one moment.  Iterators end early where a block is damaged: the
    status tells."""
    bounds = ReadOptions()
    bounds.set_iterate_upper_bound(high)
    cursor = rows.iter(bounds)
    cursor.seek(low)
    found: list[tuple[bytes, Any]] = []
    while len(found) < count and cursor.valid():
        found.append((cursor.key(), cursor.value()))
        cursor.next()
    cursor.status()
    return found


def _options(settings: RocksSettings) -> Options:
    tables = BlockBasedOptions()
    tables.set_block_cache(Cache(settings.block_cache_bytes))
    tables.set_cache_index_and_filter_blocks(True)
    tables.set_pin_l0_filter_and_index_blocks_in_cache(True)
    tables.set_bloom_filter(10, False)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(tables)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_write_buffer_size(settings.write_buffer_bytes)
    options.set_max_write_buffer_number(settings.write_buffer_count)
    options.set_max_open_files(settings.open_files_max)
    options.set_max_background_jobs(2)
    options.set_use_fsync(False)
    # a stalled put would hold the interpreter's lock: stall late
    options.set_level_zero_slowdown_writes_trigger(40)
    options.set_level_zero_stop_writes_trigger(60)
    # rows of folded tokens are deleted in bulk: compact where most rows are deletions
    options.add_compact_on_deletion_collector_factory(1_024, 512, 0.5)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1024 * 1024)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    return options


def _close(opened: _Opened) -> None:
    """Closing flushes; a log that failed makes that fail again, and is let go all the same."""
    with suppress(Exception):
        opened.rows.cancel_all_background(True)
    with suppress(Exception):
        opened.rows.close()
