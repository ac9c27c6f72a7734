"""DynamoDB's limits around a store in memory: the capacity of a partition key and of a table.

    partition key   1,000 write units/s, 3,000 read units/s
    table           40,000 and 40,000 units/s (the quota of an account)

A request beyond a limit is refused and not applied, as DynamoDB throttles it.  Units are counted
from the items, as in `metering`.  A bucket holds the units of one second.  Splitting of hot
partitions and longer bursts are not simulated, so the figures are those of a table that was not
warmed.  The retries of the DynamoDB driver (unprocessed rows of a batch, transactions) are repeated
here too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Literal, TypeVar

from benchmarks.metering import READ_BATCH, READ_UNIT_BYTES, WRITE_UNIT_BYTES, item_size, units
from benchmarks.timeline import Timeline
from graveler.core.errors import Unavailable
from graveler.core.records import Absent
from graveler.kv.store import (
    Condition,
    Guarded,
    Moved,
    Newer,
    Outcome,
    Paired,
    Place,
    Row,
    ScanPage,
    Store,
    Write,
    newer_one_by_one,
    other_places,
)

T = TypeVar("T")

WRITES, READS, TABLE = 1_000, 3_000, 40_000
_ROUNDS = 8  # rounds of a batch without progress
_TRANSACTIONS = 4
_PAUSE_SECONDS, _PAUSE_SECONDS_MAX = 0.02, 1.0
_TABLE_KEY = b""
_SECONDS = {"get": 0.003, "batch": 0.005, "query": 0.005, "put": 0.005, "transaction": 0.010}


@dataclass
class Bucket:
    """A token bucket: the units that are left at the time `at`."""

    reads: float
    writes: float
    at: float = 0.0


@dataclass
class Limits:
    """The buckets of all partitions and of the table.

    `refused` counts the throttled requests, `taken` the others.
    """

    timeline: Timeline
    buckets: dict[bytes, Bucket] = field(default_factory=dict)
    refused: int = 0
    taken: int = 0

    def take(self, needs: Mapping[bytes, tuple[float, float]]) -> bool:
        """Take (reads, writes) from each partition, and their sum from the table; all or nothing.

        Returns False, and counts a refusal, if a bucket is empty.
        """
        reads = sum(need[0] for need in needs.values())
        writes = sum(need[1] for need in needs.values())
        wanted = {**needs, _TABLE_KEY: (reads, writes)}
        found = [(self._bucket(partition), need) for partition, need in wanted.items()]
        # A request is admitted while any unit is left; the bucket may become negative.
        if any(
            (need[0] and bucket.reads <= 0) or (need[1] and bucket.writes <= 0)
            for bucket, need in found
        ):
            self.refused += 1
            return False
        for bucket, need in found:
            bucket.reads -= need[0]
            bucket.writes -= need[1]
        self.taken += 1
        return True

    def _bucket(self, partition: bytes) -> Bucket:
        now = self.timeline.now
        reads, writes = (READS, WRITES) if partition else (TABLE, TABLE)
        bucket = self.buckets.get(partition)
        if bucket is None:
            bucket = self.buckets[partition] = Bucket(reads, writes, now)
        spent = now - bucket.at
        bucket.reads = min(reads, bucket.reads + spent * reads)
        bucket.writes = min(writes, bucket.writes + spent * writes)
        bucket.at = now
        return bucket


class PartitionedStore:
    """A `Store` of one client.  Its requests take virtual time and may be refused."""

    def __init__(self, store: Store, limits: Limits, random: Random) -> None:
        self._store = store
        self._limits = limits
        self._random = random

    def get(self, partition: bytes, key: bytes) -> Row | Literal[Absent.ABSENT]:
        return self._send("get", {partition: (1, 0)}, lambda: self._store.get(partition, key))

    def get_many(self, places: Sequence[Place]) -> Mapping[Place, Row]:
        found: dict[Place, Row] = {}

        def send(some: Sequence[Place]) -> None:
            found.update(self._store.get_many(some))

        self._send_all(list(dict.fromkeys(places)), lambda place: (place[0], 1.0, 0.0), send)
        return found

    def scan(self, partition: bytes, start: bytes, end: bytes, limit: int) -> ScanPage:
        """Scan; admitted while a unit is left.  The units of the result are taken afterwards."""

        def scan() -> ScanPage:
            page = self._store.scan(partition, start, end, limit)
            size = sum(item_size((partition, key), row) for key, row in page.rows)
            self._limits.take({partition: (units(size, READ_UNIT_BYTES) - 1, 0)})
            return page

        return self._send("query", {partition: (1, 0)}, scan)

    def set(self, partition: bytes, key: bytes, value: bytes, version: bytes) -> None:
        need = self._need((partition, key), Row(value, version))
        self._send("put", need, lambda: self._store.set(partition, key, value, version))

    def set_many(self, writes: Sequence[Write]) -> None:
        def need(write: Write) -> tuple[bytes, float, float]:
            row = Row(write.value, write.version)
            return write.partition, 0.0, self._writes((write.partition, write.key), row)

        self._send_all(writes, need, self._store.set_many)

    def set_if(
        self,
        partition: bytes,
        key: bytes,
        value: bytes,
        version: bytes,
        condition: Condition,
        order: int = 0,
    ) -> Outcome:
        def send() -> Outcome:
            return self._store.set_if(partition, key, value, version, condition, order)

        place, row = (partition, key), Row(value, version, order)
        if isinstance(condition, Guarded | Moved | Paired):
            return self._transact(place, row, condition, send)
        return self._send("put", self._need(place, row), send)

    def set_newer(
        self, partition: bytes, key: bytes, value: bytes, version: bytes, order: int
    ) -> Outcome:
        need = self._need((partition, key), Row(value, version, order))
        return self._send(
            "put", need, lambda: self._store.set_newer(partition, key, value, version, order)
        )

    def set_newer_many(self, rows: Sequence[Newer]) -> Sequence[Outcome | Unavailable]:
        return newer_one_by_one(self, rows)

    def delete(
        self, partition: bytes, keys: Sequence[bytes], versions: Sequence[bytes] = ()
    ) -> None:
        assert not versions, "nothing is measured here that removes rows by version"
        self._send_all(
            list(keys),
            lambda key: (partition, 0.0, 1.0),
            lambda some: self._store.delete(partition, some),
        )

    # ---- requests --------------------------------------------------------------------------------

    def _wait(self, what: str) -> None:
        """Wait half a round trip of random length."""
        self._limits.timeline.sleep(_SECONDS[what] / 2 * (0.6 + self._random.expovariate(1) * 0.4))

    def _send(
        self, what: str, need: Mapping[bytes, tuple[float, float]], call: Callable[[], T]
    ) -> T:
        self._wait(what)
        if not self._limits.take(need):
            self._wait(what)
            raise Unavailable("dynamodb is throttling")
        answer = call()
        self._wait(what)
        return answer

    def _send_all(
        self,
        todo: Sequence[T],
        need: Callable[[T], tuple[bytes, float, float]],
        send: Callable[[Sequence[T]], None],
    ) -> None:
        """Send a batch.  Its refused rows are sent again, as the driver does."""
        for start in range(0, len(todo), READ_BATCH):
            left, idle = list(todo[start : start + READ_BATCH]), 0
            while left:
                self._wait("batch")
                done: list[T] = []
                refused: list[T] = []
                for each in left:
                    partition, reads, writes = need(each)
                    taken = self._limits.take({partition: (reads, writes)})
                    (done if taken else refused).append(each)
                if done:
                    send(done)
                self._wait("batch")
                idle = 0 if done else idle + 1
                if idle >= _ROUNDS:
                    raise Unavailable("dynamodb is throttling")
                left = refused
                if left:
                    self._pause(idle + 1)

    def _transact(
        self,
        place: Place,
        row: Row,
        condition: Guarded | Moved | Paired,
        send: Callable[[], Outcome],
    ) -> Outcome:
        others = dict.fromkeys(other_places(condition), 1.0)
        if isinstance(condition, Paired):
            write = condition.write
            pair = write.partition, write.key
            others[pair] = self._writes(pair, Row(write.value, write.version))
        needs: dict[bytes, tuple[float, float]] = {place[0]: (0.0, 2 * self._writes(place, row))}
        for other, share in others.items():
            before = needs.get(other[0], (0.0, 0.0))[1]
            needs[other[0]] = 0.0, before + 2 * share
        for attempt in range(1, _TRANSACTIONS + 1):
            try:
                return self._send("transaction", needs, send)
            except Unavailable:
                if attempt == _TRANSACTIONS:
                    raise
                self._pause(attempt)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _pause(self, attempt: int) -> None:
        longest = min(_PAUSE_SECONDS * 2 ** (attempt - 1), _PAUSE_SECONDS_MAX)
        self._limits.timeline.sleep(longest * (0.5 + self._random.random() / 2))

    def _need(self, place: Place, row: Row) -> Mapping[bytes, tuple[float, float]]:
        return {place[0]: (0.0, self._writes(place, row))}

    def _writes(self, place: Place, row: Row) -> float:
        return float(units(item_size(place, row), WRITE_UNIT_BYTES))
