"""Group commit: many writers share one sync of the write-ahead log.

    put 1..n ──► pending ──sync──► durable          answers are given only on the right-hand side

One of the waiting writers leads: it pauses up to a quarter of the last sync's time, so that the
writers that the last sync released can join, then syncs without the lock.  A row is in `pending`
from before it is visible until a sync covers it.  A failed sync is never repeated, because the
kernel may have dropped the data: the outcome of every pending write is unknown.
"""

import threading
from collections.abc import Callable, Collection
from math import inf

from graveler.core.clock import Clock
from graveler.core.errors import Unavailable
from graveler.core.fanout import SyncWaiters


class SyncCounts:
    """How well syncs are shared: the number of `syncs`, and of the `writes` that they made durable.
    For reports."""

    def __init__(self) -> None:
        self.writes = 0
        self.syncs = 0


class GroupCommit:
    """The syncs of one open log.  Callers must hold `lock`, except to read `pending`."""

    def __init__(
        self, lock: threading.Lock, sync: Callable[[], None], clock: Clock, counts: SyncCounts
    ) -> None:
        self.pending: dict[bytes, int] = {}  # key -> the number of its last write
        self.failure: BaseException | None = None
        self._lock = lock
        self._sync = sync
        self._clock = clock
        self._counts = counts
        self._waiters = SyncWaiters(lock)  # threads that wait until a sync ends
        self._gathered = threading.Condition(lock)  # signalled when the expected writers wait
        self._replaced: dict[bytes, int] = {}  # the entries that the last `record` replaced
        self._last = 0  # number of the last write
        self._synced = 0  # writes up to here are durable
        self._leading = False
        self._waiting = 0  # writers that began to wait since the last sync began
        self._expected = 1
        self._sync_seconds = 0.0

    def record(self, keys: Collection[bytes]) -> int:
        """Give a number to a write of `keys`.  The caller must put the rows before it releases the
        lock."""
        pending = self.pending
        self._replaced = {key: pending[key] for key in keys if key in pending}
        self._last += 1
        for key in keys:
            pending[key] = self._last
        return self._last

    def refuse(self, keys: Collection[bytes], error: BaseException) -> None:
        """Note that the log rejected the write just recorded, and will accept no other."""
        for key in keys:
            self.pending.pop(key, None)
        self.pending.update(self._replaced)
        self._fail(error)

    def cover(self, key: bytes) -> int:
        """The number of the write that an answer about `key` must wait for; 0 if it is durable."""
        return self.pending.get(key, 0)

    def cover_range(self, low: bytes, high: bytes) -> int:
        """As `cover`, for all keys with `low` <= key < `high`.  Compares every pending row."""
        return max((n for key, n in self.pending.items() if low <= key < high), default=0)

    def wait(self, number: int) -> None:
        """Return once write `number` is durable.

        Raises `Unavailable` if that cannot be known; a writer must report it as an unknown outcome.
        """
        if number <= self._synced:
            return
        self._waiting += 1
        if self._waiting >= self._expected:
            self._gathered.notify()
        while number > self._synced:
            if self.failure is not None:
                raise Unavailable("kv: the write-ahead log failed before a sync") from self.failure
            if self._leading:
                self._waiters.wait(number)
            else:
                self._lead()

    def drain(self) -> None:
        """Return once no sync is running."""
        while self._leading:
            self._waiters.wait(0)

    def close(self) -> None:
        """Make all pending writes durable."""
        self.wait(self._last)
        self.drain()

    def _lead(self) -> None:
        self._leading = True
        try:
            if self._waiting < self._expected:
                self._gathered.wait(self._sync_seconds / 4)
            answered, self._waiting = self._waiting, 0
            covered = self._last
            self._sync_unlocked()
            self._counts.syncs += 1
            self._counts.writes += covered - self._synced
            self._expected = answered + self._waiting
            self._synced = covered
            for key in [key for key, number in self.pending.items() if number <= covered]:
                del self.pending[key]
        finally:
            self._leading = False
            self._waiters.wake(self._synced if self.failure is None else inf)

    def _fail(self, error: BaseException) -> None:
        if self.failure is None:
            self.failure = error
        self._waiters.wake(inf)

    def _sync_unlocked(self) -> None:
        """Release the lock, sync, take the lock again, and note how long the sync took."""
        begun = self._clock.steady_seconds()
        error: Exception | None = None
        self._lock.release()
        try:
            self._sync()
        except Exception as failure:  # the driver's library has no narrower type
            error = failure
        finally:
            self._lock.acquire()
        if error is not None:
            self._fail(error)
            raise Unavailable("kv: sync of the write-ahead log failed") from error
        self._sync_seconds = self._clock.steady_seconds() - begun
