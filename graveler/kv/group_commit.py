"""Group commit: many writers share one sync of the write-ahead log.

A writer, holding the store's lock, records the keys that it is about to change, puts the rows
unsynced, and waits until a sync covers them.  One of those who wait leads: it lets go of the lock,
syncs, and wakes the rest.  Before that it waits a moment, a quarter of the last sync's time, for
the writers that the last sync has set free, since they will soon be back: without it half of them
would always miss the bus.

    put 1..n ──► pending ──sync──► durable          answers are given only on the right-hand side

Always: a row is in `pending` from before it can be seen until a sync has covered it, so a reader
that finds its key there has to wait too.  A sync that failed is never repeated (what the kernel
dropped stays dropped): everything pending is then unknown, and the log must be opened anew.  For
drivers that hold their files alone; the RocksDB driver uses it.
"""

import threading
from collections.abc import Callable, Sequence

from graveler.clock import Clock
from graveler.errors import Unavailable


class SyncCounts:
    """How well syncs are shared: `writes` that `syncs` made durable.  Read it for reports."""

    def __init__(self) -> None:
        self.writes = 0
        self.syncs = 0


class GroupCommit:
    """The syncs of one open log.  All but `pending` is for holders of `lock`."""

    def __init__(
        self, lock: threading.Lock, sync: Callable[[], None], clock: Clock, counts: SyncCounts
    ) -> None:
        self.pending: dict[bytes, int] = {}  # key -> the number of its last write
        self.failure: BaseException | None = None
        self._lock = lock
        self._sync = sync
        self._clock = clock
        self._counts = counts
        self._turn = threading.Condition(lock)  # a sync has ended
        self._gathered = threading.Condition(lock)  # as many wait as were expected
        self._replaced: dict[bytes, int] = {}  # what the last `record` wrote over
        self._last = 0  # number of the last write
        self._synced = 0  # writes up to here are durable
        self._leading = False
        self._waiting = 0  # since the last sync began
        self._expected = 1
        self._sync_seconds = 0.0

    def record(self, keys: Sequence[bytes]) -> int:
        """Number a write of `keys`, which the caller puts before it lets go of the lock."""
        pending = self.pending
        self._replaced = {key: pending[key] for key in keys if key in pending}
        self._last += 1
        for key in keys:
            pending[key] = self._last
        return self._last

    def refuse(self, keys: Sequence[bytes], error: BaseException) -> None:
        """The log did not take the write just recorded, and will take no other."""
        for key in keys:
            self.pending.pop(key, None)
        self.pending.update(self._replaced)
        self._fail(error)

    def cover(self, key: bytes) -> int:
        """The write that an answer about `key` has to wait for; 0 if it is durable."""
        return self.pending.get(key, 0)

    def cover_range(self, low: bytes, high: bytes) -> int:
        """The same for all keys with `low` <= key < `high`; costs a look at every pending row."""
        return max((n for key, n in self.pending.items() if low <= key < high), default=0)

    def wait(self, number: int) -> None:
        """Return once write `number` is durable.

        `Unavailable` if it cannot be known: a writer has to report it as unknown.
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
                self._turn.wait()
            else:
                self._lead()

    def drain(self) -> None:
        """Return once nobody syncs."""
        while self._leading:
            self._turn.wait()

    def close(self) -> None:
        """Make durable what is pending."""
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
            self._sweep()
        finally:
            self._leading = False
            self._turn.notify_all()

    def _fail(self, error: BaseException) -> None:
        if self.failure is None:
            self.failure = error
        self._turn.notify_all()

    def _sync_unlocked(self) -> None:
        """Sync, with the lock let go, and note how long it took."""
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

    def _sweep(self) -> None:
        for key in [key for key, number in self.pending.items() if number <= self._synced]:
            del self.pending[key]
