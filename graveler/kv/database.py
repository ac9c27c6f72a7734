"""One RocksDB database with flat keys and values; every answer is durable before it is given.

Each answer, a refusal included, waits for the log sync that covers the rows it reports.  Opening
replays the log; a database whose files are lost or damaged is not opened (files.py).  If the log
rejects a write (the device is full), the database answers reads only, until a writer reopens it
with room.  If RocksDB finds damage, it answers reads of what is whole, until an operator acts.

The byte layout of rows in a store that has one flat sequence of keys and values.

    key     length of the partition (2 bytes) | partition | key
    value   length of the version (1 byte) | order (8 bytes) | version | value

Numbers are big-endian.  A change here changes the format on disk.
"""

import logging
import os
import struct
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from rocksdict import Rdict, ReadOptions, WriteBatch, WriteOptions

from graveler.core.clock import Clock
from graveler.core.errors import Corrupt, GravelerError, NotFound, OutcomeUnknown, Unavailable
from graveler.core.records import Absent
from graveler.kv import files, folder, handle
from graveler.kv.group_commit import GroupCommit, SyncCounts
from graveler.kv.handle import RocksSettings
from graveler.kv.store import ABSENT, Declined, PromptThreads, Row

# ---- layout ----------------------------------------------------------------------------------

_HEAD = 9  # bytes of a stored value before its version
_STAMP_LENGTH = 16  # of the version of most rows
_STAMPED = struct.Struct(f">BQ{_STAMP_LENGTH}s")  # all before the value of such a row
_STAMPED_LENGTH = _STAMPED.size
_stamped = _STAMPED.unpack_from
_row = partial(tuple.__new__, Row)  # a third of the time of `Row(...)`: a scan makes many rows


def flat_key(partition: bytes, key: bytes) -> bytes:
    """The flat key of a place; with an empty `key`, the prefix of all rows of the partition."""
    return len(partition).to_bytes(2, "big") + partition + key


def behind(prefix: bytes) -> bytes:
    """The first key after all keys with `prefix`, which is a partition's prefix (never all
    0xff)."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes((stem[-1] + 1,))


def encode_row(value: bytes, version: bytes, order: int) -> bytes:
    """The stored form of a row.  `decode_row` is its inverse."""
    assert len(version) < 256, "a version is a stamp, not a document"
    return b"".join((len(version).to_bytes(1, "big"), order.to_bytes(8, "big"), version, value))


def decode_row(stored: bytes) -> Row:
    """The row.  Raises `Corrupt` for bytes that `encode_row` cannot have written."""
    if len(stored) >= _STAMPED_LENGTH and stored[0] == _STAMP_LENGTH:
        _, order, version = _stamped(stored)
        return _row((stored[_STAMPED_LENGTH:], version, order))
    if len(stored) < _HEAD or len(stored) < _HEAD + stored[0]:
        raise Corrupt(f"read kv row: too short for its version: {len(stored)=}")
    split = _HEAD + stored[0]
    return _row((stored[split:], stored[_HEAD:split], int.from_bytes(stored[1:_HEAD], "big")))


# ---- database --------------------------------------------------------------------------------


_LOG: Final = logging.getLogger("graveler.kv")
_UNSYNCED: Final = WriteOptions()


class _Storage(NamedTuple):
    """An open database and the syncs of its log.  Both are replaced together on reopening."""

    rows: Rdict
    group: GroupCommit
    links: ExitStack  # to files that are open for reads only


class Database:
    """The files, and the rule that an answer is given only after the rows it reports are durable.

    Callers of `current`, `current_many`, `decline` and `put_all` must hold `lock`, so that a
    condition and its write are one step.  Reads take the lock themselves, and only if they
    need it.
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
        self._deferring = threading.local()
        self._deferred: dict[bytes, tuple[int, bytes]] = {}  # key -> number of its write, and row
        self._reopen_after = 0.0
        with ExitStack() as undone:
            self._own(undone)
            self._opened = self._open()
            self._held = undone.pop_all()

    def read(self, flat: bytes) -> bytes | None:
        opened = self._opened
        try:
            stored: bytes | None = opened.rows.get(flat)
        except Exception as error:
            raise self._error(error, "read") from error
        if flat in opened.group.pending:
            self.prompt.check()
            with self.lock:
                is_confirmed = self._confirm(opened, opened.group.cover(flat))
            if not is_confirmed:
                return self.read(flat)
        return stored

    def read_many(self, flats: Sequence[bytes]) -> Sequence[bytes | None]:
        opened = self._opened
        try:
            stored: Sequence[bytes | None] = opened.rows.get(list(flats)) or ()
        except Exception as error:
            raise self._error(error, "read") from error
        pending = opened.group.pending
        if pending and any(flat in pending for flat in flats):
            self.prompt.check()
            with self.lock:
                number = max(map(opened.group.cover, flats), default=0)
                is_confirmed = self._confirm(opened, number)
            if not is_confirmed:
                return self.read_many(flats)
        return stored

    def read_range(self, low: bytes, high: bytes, count: int) -> list[tuple[bytes, bytes]]:
        """The first `count` rows with `low` <= key < `high`, from one snapshot."""
        self.prompt.check()
        opened = self._opened
        try:
            pairs = _scan(opened.rows, low, high, count)
        except Exception as error:
            raise self._error(error, "scan") from error
        if opened.group.pending:
            reach = pairs[-1][0] + b"\0" if len(pairs) == count else high
            with self.lock:
                is_confirmed = self._confirm(opened, opened.group.cover_range(low, reach))
            if not is_confirmed:
                return self.read_range(low, high, count)
        return pairs

    def current(self, flat: bytes) -> Row | Literal[Absent.ABSENT]:
        """The row that a condition is checked against.  It may not be durable yet."""
        opened = self._writable()
        try:
            stored = opened.rows.get(flat)
        except Exception as error:
            raise self._error(error, "read") from error
        return ABSENT if stored is None else decode_row(stored)

    def current_many(self, flats: Sequence[bytes]) -> list[Row | Literal[Absent.ABSENT]]:
        """As `current`, for many rows."""
        opened = self._writable()
        try:
            stored = opened.rows.get(list(flats)) or ()
        except Exception as error:
            raise self._error(error, "read") from error
        return [ABSENT if each is None else decode_row(each) for each in stored]

    def decline(self, seen: Sequence[bytes], current: Row | Literal[Absent.ABSENT]) -> Declined:
        group = self._opened.group
        group.wait(max(map(group.cover, seen)))
        return Declined(current)

    def put_all(self, rows: Mapping[bytes, bytes], removed: Sequence[bytes] = ()) -> None:
        """Write rows, by their flat keys, and remove those of `removed`, in one step.  A row of
        `removed` may be absent."""
        opened = self._writable()
        number = self._append(opened, rows, removed)
        if getattr(self._deferring, "depth", 0) and not removed:  # a later write's sync covers it
            kept = self._unsynced(opened.group)
            self._deferred = kept | {flat: (number, stored) for flat, stored in rows.items()}
            return
        try:
            opened.group.wait(number)
        except Unavailable as error:
            raise OutcomeUnknown("write kv row: sync failed") from error

    @contextmanager
    def deferring(self) -> Iterator[None]:
        """See `store.deferred`."""
        depth = getattr(self._deferring, "depth", 0)
        self._deferring.depth = depth + 1
        try:
            yield
        finally:
            self._deferring.depth = depth

    def write_out(self) -> None:
        """Flush the rows in memory to files.  Until then each scan steps over every removed row in
        memory."""
        opened = self._writable()
        try:
            opened.rows.flush()
        except Exception as error:
            raise self._error(error, "flush") from error

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
                raise self._error(error, "close") from error
            finally:
                _let_go(self._opened)
                self._held.close()

    def _append(
        self, opened: _Storage, rows: Mapping[bytes, bytes], removed: Sequence[bytes] = ()
    ) -> int:
        """The number of the write of these rows, which is in the log, but not durable."""
        batch = WriteBatch(raw_mode=True)
        for flat, stored in rows.items():
            batch.put(flat, stored)
        for flat in removed:
            batch.delete(flat)
        flats = [*rows, *removed]
        number = opened.group.record(flats)
        try:
            opened.rows.write(batch, _UNSYNCED)
        except Exception as error:
            raise self._refused(opened, flats, error) from error
        return number

    def _unsynced(self, group: GroupCommit) -> dict[bytes, tuple[int, bytes]]:
        """The deferred writes that are not durable, and that no later write replaced."""
        return {
            flat: (number, stored)
            for flat, (number, stored) in self._deferred.items()
            if group.cover(flat) == number
        }

    def _writable(self) -> _Storage:
        if self._closed:
            raise Unavailable("write kv row: store is closed")
        if self._opened.group.failure is not None:
            self._reopen()
        return self._opened

    def _confirm(self, opened: _Storage, number: int) -> bool:
        """Wait until write `number` is durable, before a reader is answered.  If that fails, reopen
        the database: False, and the reader looks at what the log has kept.  Raises `Unavailable` if
        it cannot be reopened."""
        try:
            opened.group.wait(number)
        except Unavailable:
            if opened is self._opened:
                is_reopened = False
                with suppress(GravelerError):
                    if not self._closed:
                        self._reopen()
                        is_reopened = True
                if not is_reopened:
                    raise
            return False
        return True

    def _refused(
        self, opened: _Storage, flats: Collection[bytes], error: Exception
    ) -> GravelerError:
        """The error for a write that the log rejected.  The log holds at most a torn record, which
        a replay drops."""
        opened.group.refuse(flats, error)
        self._reopen_after = self._clock.steady_seconds() + self._settings.reopen_seconds
        refused = self._error(error, "write")
        _LOG.error("the key-value store takes no writes: path=%s %s", self._path, refused)
        return refused

    def _reopen(self) -> None:
        """Replay the failed log into a new one if there is room, and put deferred writes there
        that the old one may have lost: their writers go on to one that counts on them.  A log that
        failed stays failed, and so does a database with damage: opening it again would begin the
        same merge."""
        now = self._clock.steady_seconds()
        failure = self._opened.group.failure
        if now < self._reopen_after or handle.is_damage(failure):
            raise self._error(failure, "write") from failure
        self._reopen_after = now + self._settings.reopen_seconds
        self._opened.group.drain()
        handle.try_room(self._path, self._settings)
        kept = {flat: row for flat, (_, row) in self._unsynced(self._opened.group).items()}
        _let_go(self._opened)
        opened = self._open()
        self._deferred = {flat: (0, row) for flat, row in kept.items()}
        try:  # before anybody reads
            if opened.group.failure is None and kept:
                number = self._append(opened, kept)
                self._deferred = {flat: (number, row) for flat, row in kept.items()}
        finally:
            self._opened = opened
        failure = opened.group.failure
        if failure is not None:
            raise self._error(failure, "write") from failure
        _LOG.warning("the key-value store takes writes again: path=%s", self._path)

    def _own(self, undone: ExitStack) -> None:
        """Own the folder until `undone` is closed."""
        undone.callback(os.close, folder.own(self._path))

    def _opened_files(self) -> handle.Handle:
        return handle.open_or_read(self._path, self._settings)

    def _open(self) -> _Storage:
        """Without room, the files are opened for reads only, as after a log that failed."""
        opened = self._opened_files()
        flush = partial(opened.rows.flush_wal, self._settings.synced)
        group = GroupCommit(self.lock, flush, self._clock, self._counts)
        group.failure = opened.failure
        return _Storage(opened.rows, group, opened.links)

    def _error(self, error: object, tried: str) -> GravelerError:
        return handle.translated(error, tried, self._path, self._path)


class DatabaseToRead(Database):
    """A database whose folder does not change.  Every write raises `Unavailable`."""

    def damages(self) -> Iterator[str]:
        """What is damaged of the tables: reads all rows, and so the checksums of all blocks.  Ends
        with the first damage."""
        try:
            cursor = self._opened.rows.iter()
            cursor.seek_to_first()
            while cursor.valid():
                cursor.next()
            cursor.status()
        except Exception as error:
            yield str(self._error(error, "read"))

    def close(self) -> None:
        with self.lock:
            if not self._closed:
                self._closed = True
                _let_go(self._opened)
                self._held.close()

    def _own(self, undone: ExitStack) -> None:
        undone.callback(os.close, folder.share(self._path))
        self._at = undone.enter_context(handle.links(self._path, with_logs=True))

    def _opened_files(self) -> handle.Handle:
        if not files.holds_database(self._path):
            raise NotFound("open kv store: no database is in this folder")
        files.check(self._path)
        return handle.Handle(handle.open_to_read(self._path, self._at, self._settings))

    def _writable(self) -> _Storage:
        raise Unavailable("write kv row: store is open to be read")

    def _error(self, error: object, tried: str) -> GravelerError:
        return handle.translated(error, tried, self._path, self._at)


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


def _let_go(opened: _Storage) -> None:
    """Close the files.  Closing flushes first; after a failed log the flush fails again, and the
    files are closed nevertheless."""
    with suppress(Exception):
        opened.rows.cancel_all_background(True)
    with suppress(Exception):
        opened.rows.close()
    opened.links.close()
