"""A wrapper that retries requests, and finds out whether a write with a lost answer was applied.

    result of the write and the row found            reported
    Declined; the row has this write's version       WRITTEN: the write was applied
    OutcomeUnknown; read-back finds its version      WRITTEN: the write was applied
    OutcomeUnknown; read-back finds another row      OutcomeUnknown: it may have been applied and
                                                     overwritten, or may still be applied

Reads, `set`, `set_many` and `delete` are also repeated after `OutcomeUnknown`.  A duplicate of a
`set` or `delete` may be applied late, so these verbs are only for rows where that does no harm:
records that never change, and rows of tokens that are no longer written.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeVar

from graveler.core.clock import Clock
from graveler.core.errors import OutcomeUnknown, Unavailable
from graveler.core.records import Absent
from graveler.core.requests import Attempts, RetryPolicy
from graveler.kv.store import (
    ABSENT,
    WRITTEN,
    Condition,
    Declined,
    Newer,
    Outcome,
    Place,
    Row,
    ScanPage,
    Store,
    Write,
    newer_one_by_one,
)

T = TypeVar("T")


class RetryingStore:
    """`Store` that repeats what may be repeated.  Each repetition is a request of its own."""

    def __init__(self, store: Store, clock: Clock, policy: RetryPolicy) -> None:
        self._store = store
        self._clock = clock
        self._policy = policy

    def get(self, partition: bytes, key: bytes) -> Row | Literal[Absent.ABSENT]:
        return self._repeat(lambda: self._store.get(partition, key))

    def get_many(self, places: Sequence[Place]) -> Mapping[Place, Row]:
        return self._repeat(lambda: self._store.get_many(places))

    def scan(self, partition: bytes, start: bytes, end: bytes, limit: int) -> ScanPage:
        return self._repeat(lambda: self._store.scan(partition, start, end, limit))

    def set(self, partition: bytes, key: bytes, value: bytes, version: bytes) -> None:
        self._repeat(lambda: self._store.set(partition, key, value, version))

    def set_many(self, writes: Sequence[Write]) -> None:
        self._repeat(lambda: self._store.set_many(writes))

    def delete(
        self, partition: bytes, keys: Sequence[bytes], versions: Sequence[bytes] = ()
    ) -> None:
        self._repeat(lambda: self._store.delete(partition, keys, versions))

    def set_if(
        self,
        partition: bytes,
        key: bytes,
        value: bytes,
        version: bytes,
        condition: Condition,
        order: int = 0,
    ) -> Outcome:
        return self._recognise(
            (partition, key),
            version,
            lambda: self._store.set_if(partition, key, value, version, condition, order),
        )

    def set_newer(
        self, partition: bytes, key: bytes, value: bytes, version: bytes, order: int
    ) -> Outcome:
        return self._recognise(
            (partition, key),
            version,
            lambda: self._store.set_newer(partition, key, value, version, order),
        )

    def set_newer_many(self, rows: Sequence[Newer]) -> Sequence[Outcome | Unavailable]:
        return newer_one_by_one(self, rows)

    def _recognise(self, place: Place, version: bytes, write: Callable[[], Outcome]) -> Outcome:
        """Send a conditional write.  If its outcome is unclear, use its stamp to find out whether
        it was applied."""
        attempts = Attempts(self._clock, self._policy)
        try:
            outcome = attempts.run(write, after_unknown=False)
        except OutcomeUnknown as unknown:
            if self._landed(place, version, attempts.renewed()):
                return WRITTEN
            raise OutcomeUnknown(
                f"kv: conditional write may have landed or may land yet: {place=}"
            ) from unknown
        if isinstance(outcome, Declined) and _is_own(outcome.current, version):
            return WRITTEN
        return outcome

    def _landed(self, place: Place, version: bytes, attempts: Attempts) -> bool:
        try:
            return _is_own(attempts.run(lambda: self._store.get(*place)), version)
        except Unavailable:
            return False

    def _repeat(self, call: Callable[[], T]) -> T:
        return Attempts(self._clock, self._policy).run(call)


def _is_own(row: Row | Literal[Absent.ABSENT], version: bytes) -> bool:
    return row is not ABSENT and row.version == version
