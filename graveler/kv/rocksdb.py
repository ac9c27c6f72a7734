"""The embedded store: rows in a RocksDB database that only this process owns.

layout.py defines the bytes of a row.  database.py keeps the files, and its docstring describes the
behaviour after a crash and on a full device.  Assembly opens this driver.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Literal

from graveler.core import limits
from graveler.core.clock import Clock, SystemClock
from graveler.core.errors import GravelerError, Unavailable
from graveler.core.records import Absent
from graveler.kv.database import Database, DatabaseToRead, behind, decode_row, encode_row, flat_key
from graveler.kv.group_commit import SyncCounts
from graveler.kv.handle import RocksSettings
from graveler.kv.store import (
    ABSENT,
    WRITTEN,
    Condition,
    Declined,
    Moved,
    Newer,
    Outcome,
    Paired,
    Place,
    Row,
    ScanPage,
    Write,
    check_conditional,
    check_newer_many,
    check_place,
    check_removal,
    check_scan,
    check_write,
    holds,
    other_places,
)

_LOCKED_COUNT = 100  # rows that a removal by version checks while it holds the writers' lock
_MANY_REMOVED = 500  # after so many removals by version, or moved rows, memory is flushed


class RocksStore:
    """`Store` in the folder `path`, which is created if absent.  `counts`: how syncs are shared.

    The constructor raises `Conflict` if another process, or another store of this process, owns the
    folder; `Unavailable` if the folder cannot be written; `Corrupt` if its files are damaged or
    lost, and then changes nothing.
    """

    def __init__(
        self, path: str, settings: RocksSettings | None = None, clock: Clock | None = None
    ) -> None:
        self.counts = SyncCounts()
        self._moved = 0  # rows that left their place since memory was flushed
        with _named(path):
            self._files = Database(
                os.path.abspath(path),
                settings or RocksSettings(),
                clock or SystemClock(),
                self.counts,
            )

    def get(self, partition: bytes, key: bytes) -> Row | Literal[Absent.ABSENT]:
        check_place(partition, key)
        stored = self._files.read(flat_key(partition, key))
        return ABSENT if stored is None else decode_row(stored)

    def get_many(self, places: Sequence[Place]) -> Mapping[Place, Row]:
        for partition, key in places:
            check_place(partition, key)
        values = self._files.read_many([flat_key(partition, key) for partition, key in places])
        return {
            place: decode_row(stored)
            for place, stored in zip(places, values, strict=True)
            if stored is not None
        }

    def scan(self, partition: bytes, start: bytes, end: bytes, limit: int) -> ScanPage:
        check_scan(partition, limit)
        prefix = flat_key(partition, b"")
        low = prefix + start
        high = prefix + end if end else behind(prefix)
        if low >= high:
            return ScanPage((), False)
        pairs = self._files.read_range(low, high, limit + 1)
        skip = len(prefix)
        rows = tuple([(key[skip:], decode_row(stored)) for key, stored in pairs[:limit]])
        return ScanPage(rows, len(pairs) > limit)

    def set(self, partition: bytes, key: bytes, value: bytes, version: bytes) -> None:
        check_write(partition, key, value)
        flat, stored = flat_key(partition, key), encode_row(value, version, 0)
        self._files.prompt.check()
        with self._files.lock:
            self._files.put_all({flat: stored})

    def set_many(self, writes: Sequence[Write]) -> None:
        for write in writes:
            check_write(write.partition, write.key, write.value)
        self._files.prompt.check()
        for at in range(0, len(writes), limits.kv_batch_count_max):
            rows = {
                flat_key(partition, key): encode_row(value, version, 0)
                for partition, key, value, version in writes[at : at + limits.kv_batch_count_max]
            }
            with self._files.lock:
                self._files.put_all(rows)

    def set_if(
        self,
        partition: bytes,
        key: bytes,
        value: bytes,
        version: bytes,
        condition: Condition,
        order: int = 0,
    ) -> Outcome:
        check_conditional(partition, key, value, condition)
        flat, stored = flat_key(partition, key), encode_row(value, version, order)
        others = [flat_key(*place) for place in other_places(condition)]
        self._files.prompt.check()
        with self._files.lock:
            current = self._files.current(flat)
            if not holds(condition, current, *map(self._files.current, others)):
                return self._files.decline([flat, *others], current)
            if isinstance(condition, Paired):
                also = encode_row(condition.write.value, condition.write.version, 0)
                self._files.put_all({flat: stored, others[0]: also})
            elif isinstance(condition, Moved):
                self._files.put_all({flat: stored}, removed=others)
                self._moved += 1
            else:
                self._files.put_all({flat: stored})
        if self._moved >= _MANY_REMOVED:
            self._moved = 0
            with suppress(GravelerError):  # the row is written, whatever becomes of the memory
                self._files.write_out()
        return WRITTEN

    def set_newer(
        self, partition: bytes, key: bytes, value: bytes, version: bytes, order: int
    ) -> Outcome:
        assert order > 0, "order 0 belongs to rows that nobody ordered"
        check_write(partition, key, value)
        flat, stored = flat_key(partition, key), encode_row(value, version, order)
        self._files.prompt.check()
        with self._files.lock:
            current = self._files.current(flat)
            if current is not ABSENT and current.order >= order:
                return self._files.decline([flat], current)
            self._files.put_all({flat: stored})
            return WRITTEN

    def set_newer_many(self, rows: Sequence[Newer]) -> Sequence[Outcome | Unavailable]:
        """One look, one batch and one sync for all rows."""
        check_newer_many(rows)
        stored = {
            flat_key(row.partition, row.key): encode_row(row.value, row.version, row.order)
            for row in rows
        }
        self._files.prompt.check()
        with self._files.lock:
            try:
                seen = self._files.current_many(list(stored))
            except Unavailable as error:
                return [error for _ in rows]
            outcomes: list[Outcome | Unavailable] = [
                WRITTEN if current is ABSENT or current.order < row.order else Declined(current)
                for row, current in zip(rows, seen, strict=True)
            ]
            written = {
                flat: row
                for (flat, row), outcome in zip(stored.items(), outcomes, strict=True)
                if outcome is WRITTEN
            }
            try:
                if written:
                    self._files.put_all(written)  # its sync covers the rows that were seen, too
                elif stored:
                    self._files.decline(list(stored), ABSENT)
            except Unavailable as error:
                return [error for _ in rows]
        return outcomes

    def delete(
        self, partition: bytes, keys: Sequence[bytes], versions: Sequence[bytes] = ()
    ) -> None:
        check_removal(partition, keys, versions)
        self._files.prompt.check()
        if versions:
            self._remove_seen([flat_key(partition, key) for key in keys], versions)
            return
        for at in range(0, len(keys), limits.kv_batch_count_max):
            batch = keys[at : at + limits.kv_batch_count_max]
            with self._files.lock:
                self._files.put_all({}, [flat_key(partition, key) for key in batch])

    def _remove_seen(self, flats: Sequence[bytes], versions: Sequence[bytes]) -> None:
        for at in range(0, len(flats), _LOCKED_COUNT):
            some = slice(at, at + _LOCKED_COUNT)
            with self._files.lock:
                doomed = []
                for flat, version in zip(flats[some], versions[some], strict=True):
                    current = self._files.current(flat)
                    if current is not ABSENT and current.version == version:
                        doomed.append(flat)
                if doomed:
                    self._files.put_all({}, doomed)
        if len(flats) >= _MANY_REMOVED:  # the partition will be scanned again (see `write_out`)
            self._files.write_out()

    def deferring(self) -> AbstractContextManager[None]:
        """See `deferred`."""
        return self._files.deferring()

    def forbid_waiting(self, thread: int) -> None:
        """See `Prompt`."""
        self._files.prompt.add(thread)

    def allow_waiting(self, thread: int) -> None:
        """See `Prompt`."""
        self._files.prompt.discard(thread)

    def close(self) -> None:
        """Make everything durable and release the folder.  Later calls raise `Unavailable`."""
        self._files.close()


class RocksReader(RocksStore):
    """The store in the folder `path`, which exists, may be read-only, and is not changed.  Several
    readers may share it.  Every write raises `Unavailable`.

    The constructor raises `Conflict` if a process owns the folder; `Corrupt`, `Unavailable`.
    """

    def __init__(self, path: str) -> None:
        self.counts = SyncCounts()
        self._moved = 0
        with _named(path):
            self._files = self._reader = DatabaseToRead(
                os.path.abspath(path), RocksSettings(), SystemClock(), self.counts
            )

    def damages(self) -> Iterator[str]:
        """What is damaged of the tables.  Cost: reads all rows."""
        return self._reader.damages()


@contextmanager
def _named(path: str) -> Iterator[None]:
    """Names the folder in errors of opening, for the operator who starts the service."""
    try:
        yield
    except GravelerError as error:
        raise type(error)(f"{error} path={os.path.abspath(path)}") from error


__all__ = ["RocksReader", "RocksSettings", "RocksStore"]
