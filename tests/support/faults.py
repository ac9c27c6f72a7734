"""Key-value stores that fail like a remote service: the n-th request is refused, lost, repeated or
late.

A plan decides the fate of each request by its number (from 1) and verb.  So a test can fail each
request of an operation in turn, and a simulator can decide by a seed.  For tests only.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Literal, TypeVar

from graveler.core.errors import OutcomeUnknown, StorageFull, Unavailable
from graveler.core.records import Absent
from graveler.kv.store import (
    Condition,
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


class Fault(Enum):
    """The fate of a request."""

    NONE = "answered"
    REFUSED = "not applied, and says so"
    FULL = "not applied: no room"
    DROPPED = "not applied, nobody knows"
    LOST = "applied, nobody knows"
    REPEATED = "applied, then sent again by the way: the second answer arrives"
    LATE = "nobody knows; applied when `land` is called"


FaultPlan = Callable[[int, str], Fault]  # number of the request, verb


def nth(faults: Mapping[int, Fault]) -> FaultPlan:
    """The plan that breaks only the requests with these numbers."""
    return lambda number, verb: faults.get(number, Fault.NONE)


class FaultyStore:
    """`Store` whose requests fail by plan.  A batch counts as one request here."""

    def __init__(self, store: Store, plan: FaultPlan) -> None:
        self.requests = 0
        self._store = store
        self._plan = plan
        self._late: list[Callable[[], object]] = []

    def land(self) -> None:
        """Apply the late requests, oldest first."""
        while self._late:
            self._late.pop(0)()

    def get(self, partition: bytes, key: bytes) -> Row | Literal[Absent.ABSENT]:
        return self._send("get", lambda: self._store.get(partition, key))

    def get_many(self, places: Sequence[Place]) -> Mapping[Place, Row]:
        return self._send("get_many", lambda: self._store.get_many(places))

    def scan(self, partition: bytes, start: bytes, end: bytes, limit: int) -> ScanPage:
        return self._send("scan", lambda: self._store.scan(partition, start, end, limit))

    def set(self, partition: bytes, key: bytes, value: bytes, version: bytes) -> None:
        self._send("set", lambda: self._store.set(partition, key, value, version))

    def set_many(self, writes: Sequence[Write]) -> None:
        self._send("set_many", lambda: self._store.set_many(writes))

    def set_if(
        self,
        partition: bytes,
        key: bytes,
        value: bytes,
        version: bytes,
        condition: Condition,
        order: int = 0,
    ) -> Outcome:
        return self._send(
            "set_if",
            lambda: self._store.set_if(partition, key, value, version, condition, order),
        )

    def set_newer(
        self, partition: bytes, key: bytes, value: bytes, version: bytes, order: int
    ) -> Outcome:
        return self._send(
            "set_newer", lambda: self._store.set_newer(partition, key, value, version, order)
        )

    def set_newer_many(self, rows: Sequence[Newer]) -> Sequence[Outcome | Unavailable]:
        return newer_one_by_one(self, rows)

    def delete(
        self, partition: bytes, keys: Sequence[bytes], versions: Sequence[bytes] = ()
    ) -> None:
        self._send("delete", lambda: self._store.delete(partition, keys, versions))

    def _send(self, verb: str, call: Callable[[], T]) -> T:
        self.requests += 1
        fault = self._plan(self.requests, verb)
        if fault in (Fault.LOST, Fault.REPEATED):
            call()
        if fault in (Fault.NONE, Fault.REPEATED):
            return call()
        if fault is Fault.LATE:
            self._late.append(call)
        raise self._error(fault, verb)

    def _error(self, fault: Fault, verb: str) -> Unavailable:
        text = f"injected: {verb=} request={self.requests}"
        if fault is Fault.REFUSED:
            return Unavailable(text)
        if fault is Fault.FULL:
            return StorageFull(text)
        return OutcomeUnknown(text)
