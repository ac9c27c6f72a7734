"""One RocksDB database with flat keys and values; every answer is durable before it is given.

Each answer, a refusal included, waits for the log sync that covers the rows it reports
(group_commit.py).  Acknowledged writes survive a kill at any moment.  Opening replays the log; no
repair is needed.

If the write-ahead log rejects a write (the device is full), the database still answers reads but
refuses writes until it is reopened.  The next writer reopens it, at most once a second, and only
if a trial file shows that there is room.  Acknowledged rows stay, and no restart is needed.
rocksdb.py is the only user; no other module uses RocksDB's names.
"""

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
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

from graveler.clock import Clock
from graveler.errors import Corrupt, GravelerError, OutcomeUnknown, StorageFull, Unavailable
from graveler.kv import folder
from graveler.kv.group_commit import GroupCommit, SyncCounts
from graveler.kv.layout import decode_row
from graveler.kv.store import ABSENT, Declined, Row
from graveler.kv.wait import PromptThreads
from graveler.records import Absent

_NO_ROOM = ("No space left", "File too large", "Disk quota exceeded")
_UNSYNCED: Final = WriteOptions()
# Buffers of RocksDB come and go between small blocks that stay, and each leaves a hole in the heap.
# So they are large enough to be mapped apart (cli/heap.py), or as small as many others.
_MEMORY_BLOCK_BYTES: Final = 1024 * 1024
_FILE_BUFFER_BYTES: Final = 64 * 1024
_LEVEL_ZERO_FILES: Final = 4  # that RocksDB merges at a time


@dataclass(frozen=True, slots=True)
class RocksSettings:
    """The memory and files that the database may use, and the pause before it reopens files that
    failed.  The defaults need at most about 64 MB of memory.

    `synced`: if false, no answer waits for a sync: a loss of power may take any row, the end of a
    process takes none."""

    write_buffer_bytes: int = 16 * 1024 * 1024
    write_buffer_count: int = 3
    block_cache_bytes: int = 16 * 1024 * 1024
    open_files_max: int = 128
    reopen_seconds: float = 1.0
    synced: bool = True


class _Storage(NamedTuple):
    """An open database and the syncs of its log.  Both are replaced together on reopening."""

    rows: Rdict
    group: GroupCommit


class Database:
    """The files, and the rule that an answer is given only after the rows it reports are durable.

    Callers of `current`, `current_many`, `decline`, `put`, `put_all` and `remove_all` must hold
    `lock`, so that a condition and its write are one step.  Reads take the lock themselves, and
    only if they need it.
    """

    def __init__(
        self, path: str, settings: RocksSettings, clock: Clock, counts: SyncCounts
    ) -> None:
        self.lock = threading.Lock()
        self._path = path
        self._settings = settings
        self._clock = clock
        self._counts = counts
        self._closed = False
        self.prompt = PromptThreads()
        self._reopen_after = 0.0
        self._owner = folder.own(path)
        try:
            self._opened = self._open()
        except BaseException as error:
            os.close(self._owner)
            if isinstance(error, GravelerError):  # for the operator who starts the service
                raise type(error)(f"{error} path={path}") from error
            raise

    def read(self, flat: bytes) -> bytes | None:
        opened = self._opened
        try:
            stored: bytes | None = opened.rows.get(flat)
        except Exception as error:
            raise self._translated(error, "read") from error
        if flat in opened.group.pending:
            self.prompt.check()
            with self.lock:
                self._confirm(opened, opened.group.cover(flat))
        return stored

    def read_many(self, flats: Sequence[bytes]) -> Sequence[bytes | None]:
        opened = self._opened
        try:
            stored: Sequence[bytes | None] = opened.rows.get(list(flats)) or ()
        except Exception as error:
            raise self._translated(error, "read") from error
        pending = opened.group.pending
        if pending and any(flat in pending for flat in flats):
            self.prompt.check()
            with self.lock:
                self._confirm(opened, max(map(opened.group.cover, flats), default=0))
        return stored

    def read_range(self, low: bytes, high: bytes, count: int) -> list[tuple[bytes, bytes]]:
        """The first `count` rows with `low` <= key < `high`, from one snapshot."""
        self.prompt.check()
        opened = self._opened
        try:
            pairs = _scan(opened.rows, low, high, count)
        except Exception as error:
            raise self._translated(error, "scan") from error
        if opened.group.pending:
            reach = pairs[-1][0] + b"\0" if len(pairs) == count else high
            with self.lock:
                self._confirm(opened, opened.group.cover_range(low, reach))
        return pairs

    def current(self, flat: bytes) -> Row | Literal[Absent.ABSENT]:
        """The row that a condition is checked against.  It may not be durable yet."""
        opened = self._writable()
        try:
            stored = opened.rows.get(flat)
        except Exception as error:
            raise self._translated(error, "read") from error
        return ABSENT if stored is None else decode_row(stored)

    def current_many(self, flats: Sequence[bytes]) -> list[Row | Literal[Absent.ABSENT]]:
        """As `current`, for many rows."""
        opened = self._writable()
        try:
            stored = opened.rows.get(list(flats)) or ()
        except Exception as error:
            raise self._translated(error, "read") from error
        return [ABSENT if each is None else decode_row(each) for each in stored]

    def decline(self, seen: Sequence[bytes], current: Row | Literal[Absent.ABSENT]) -> Declined:
        group = self._opened.group
        group.wait(max(map(group.cover, seen)))
        return Declined(current)

    def put(self, flat: bytes, stored: bytes) -> None:
        opened = self._writable()
        flats = (flat,)
        number = opened.group.record(flats)
        try:
            opened.rows.put(flat, stored, _UNSYNCED)
        except Exception as error:
            raise self._refused(opened, flats, error) from error
        self._acknowledge(opened, number)

    def put_all(self, rows: Sequence[tuple[bytes, bytes]]) -> None:
        """Write all rows in one step."""
        batch = WriteBatch(raw_mode=True)
        for flat, stored in rows:
            batch.put(flat, stored)
        self._write(batch, [flat for flat, _ in rows])

    def remove_all(self, flats: Sequence[bytes]) -> None:
        """Remove all rows in one step.  An absent row is no error."""
        batch = WriteBatch(raw_mode=True)
        for flat in flats:
            batch.delete(flat)
        self._write(batch, flats)

    def write_out(self) -> None:
        """Flush the rows in memory to files.  Until then each scan steps over every removed row in
        memory."""
        opened = self._writable()
        try:
            opened.rows.flush()
        except Exception as error:
            raise self._translated(error, "flush") from error

    def close(self) -> None:
        with self.lock:
            if self._closed:
                return
            self._closed = True
            try:
                if self._opened.group.failure is None:
                    self._opened.group.close()
                    self._opened.rows.flush()  # so that the next start has nothing to replay
            except Exception as error:
                raise self._translated(error, "close") from error
            finally:
                _let_go(self._opened)
                os.close(self._owner)

    def _write(self, batch: WriteBatch, flats: Sequence[bytes]) -> None:
        opened = self._writable()
        number = opened.group.record(flats)
        try:
            opened.rows.write(batch, _UNSYNCED)
        except Exception as error:
            raise self._refused(opened, flats, error) from error
        self._acknowledge(opened, number)

    def _writable(self) -> _Storage:
        if self._closed:
            raise Unavailable("write kv row: store is closed")
        if self._opened.group.failure is not None:
            self._reopen()
        return self._opened

    def _confirm(self, opened: _Storage, number: int) -> None:
        """Wait until write `number` is durable, before a reader is answered.  If that fails, reopen
        the database for the next reader, and raise."""
        try:
            opened.group.wait(number)
        except Unavailable:
            if opened is self._opened and not self._closed:
                with suppress(GravelerError):
                    self._reopen()
            raise

    def _acknowledge(self, opened: _Storage, number: int) -> None:
        try:
            opened.group.wait(number)
        except Unavailable as error:
            raise OutcomeUnknown("write kv row: sync failed") from error

    def _refused(self, opened: _Storage, flats: Sequence[bytes], error: Exception) -> GravelerError:
        """The error for a write that the log rejected.  The log holds at most a torn record, which
        a replay drops."""
        opened.group.refuse(flats, error)
        self._reopen_after = self._clock.steady_seconds() + self._settings.reopen_seconds
        return self._translated(error, "write")

    def _reopen(self) -> None:
        """Replay the failed log into a new one if there is room.  A log that failed stays
        failed."""
        now = self._clock.steady_seconds()
        if now < self._reopen_after:
            failure = self._opened.group.failure
            raise self._translated(failure, "write") from failure
        self._reopen_after = now + self._settings.reopen_seconds
        self._opened.group.drain()
        settings = self._settings
        try:
            folder.try_room(self._path, settings.write_buffer_count * settings.write_buffer_bytes)
        except GravelerError as error:
            raise self._translated(error.__cause__ or error, "write") from error
        _let_go(self._opened)
        self._opened = self._open()

    def _translated(self, error: BaseException | None, tried: str) -> GravelerError:
        """The project's error for a failure of RocksDB.  The text of the failure is all that
        RocksDB gives to recognise it.  Callers of the service get the error, so it does not name
        the folder."""
        if isinstance(error, GravelerError):
            return error
        text = str(error).replace(self._path, "kv")
        if any(words in text for words in _NO_ROOM):
            return StorageFull(f"{tried} kv row: no room is left")
        if "Corruption" in text:
            return Corrupt(f"{tried} kv row: files are damaged: said={text!r}")
        return Unavailable(f"{tried} kv row: no answer: said={text!r}")

    def _open(self) -> _Storage:
        try:
            rows = Rdict(self._path, _options(self._settings))
        except Exception as error:
            raise self._translated(error, "open") from error
        flush = partial(rows.flush_wal, self._settings.synced)
        return _Storage(rows, GroupCommit(self.lock, flush, self._clock, self._counts))


def _scan(rows: Rdict, low: bytes, high: bytes, count: int) -> list[tuple[bytes, bytes]]:
    """The first `count` rows from `low`, below `high`.  The iterator is a snapshot.  At a damaged
    block it ends early, and only its status reports that."""
    bounds = ReadOptions()
    bounds.set_iterate_upper_bound(high)
    cursor = rows.iter(bounds)
    cursor.seek(low)
    pairs: list[tuple[Any, Any]] = []
    key, value, step, is_valid = cursor.key, cursor.value, cursor.next, cursor.valid
    while len(pairs) < count and is_valid():
        pairs.append((key(), value()))
        step()
    cursor.status()
    return pairs


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
    # As large as what is merged into it, so that the work of a merge does not grow with the rows.
    options.set_max_bytes_for_level_base(_LEVEL_ZERO_FILES * settings.write_buffer_bytes)
    options.set_target_file_size_base(settings.write_buffer_bytes)
    options.set_arena_block_size(_MEMORY_BLOCK_BYTES)
    options.set_writable_file_max_buffer_size(_FILE_BUFFER_BYTES)
    options.set_max_open_files(settings.open_files_max)
    options.set_table_cache_num_shard_bits(0)  # each of 64 shards would keep one table at least
    # a put that RocksDB delays holds the interpreter's lock: so delay puts as late as possible
    options.set_level_zero_file_num_compaction_trigger(_LEVEL_ZERO_FILES)
    options.set_level_zero_slowdown_writes_trigger(40)
    options.set_level_zero_stop_writes_trigger(60)
    # the rows of folded tokens are deleted in bulk: compact files whose rows are mostly deletions
    options.add_compact_on_deletion_collector_factory(1_024, 512, 0.5)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1024 * 1024)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    return options


def _let_go(opened: _Storage) -> None:
    """Close the files.  Closing flushes first; after a failed log the flush fails again, and the
    files are closed nevertheless."""
    with suppress(Exception):
        opened.rows.cancel_all_background(True)
    with suppress(Exception):
        opened.rows.close()
