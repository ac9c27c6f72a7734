"""A wrapper that counts key-value requests, so that a test can check the cost of a verb.

It counts a request before it sends it, so failed requests are counted too.  A batch counts as one
request per `limits.kv_batch_count_max` rows, and an empty batch as none (store.py).  Answers and
errors pass through unchanged.  Tests, benchmarks and assembly may use it.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from graveler import limits
from graveler.errors import Unavailable
from graveler.kv.store import Condition, Newer, Outcome, Place, Row, ScanPage, Store, Write
from graveler.records import Absent
from graveler.requests import Counts


def batch_requests(rows: int) -> int:
    """The number of requests that a batch of `rows` rows counts as."""
    return -(-rows // limits.kv_batch_count_max)


class ObservedStore:
    """`Store` that counts the requests that it passes on."""

    def __init__(self, store: Store, counts: Counts) -> None:
        self._store = store
        self._counts = counts

    def get(self, partition: bytes, key: bytes) -> Row | Literal[Absent.ABSENT]:
        self._counts.add("get")
        return self._store.get(partition, key)

    def get_many(self, places: Sequence[Place]) -> Mapping[Place, Row]:
        self._counts.add("get_many", batch_requests(len(places)))
        return self._store.get_many(places)

    def scan(self, partition: bytes, start: bytes, end: bytes, limit: int) -> ScanPage:
        self._counts.add("scan")
        return self._store.scan(partition, start, end, limit)

    def set(self, partition: bytes, key: bytes, value: bytes, version: bytes) -> None:
        self._counts.add("set")
        self._store.set(partition, key, value, version)

    def set_many(self, writes: Sequence[Write]) -> None:
        self._counts.add("set_many", batch_requests(len(writes)))
        self._store.set_many(writes)

    def set_if(
        self,
        partition: bytes,
        key: bytes,
        value: bytes,
        version: bytes,
        condition: Condition,
        order: int = 0,
    ) -> Outcome:
        self._counts.add("set_if")
        return self._store.set_if(partition, key, value, version, condition, order)

    def set_newer(
        self, partition: bytes, key: bytes, value: bytes, version: bytes, order: int
    ) -> Outcome:
        self._counts.add("set_newer")
        return self._store.set_newer(partition, key, value, version, order)

    def set_newer_many(self, rows: Sequence[Newer]) -> Sequence[Outcome | Unavailable]:
        self._counts.add("set_newer", len(rows))
        return self._store.set_newer_many(rows)

    def delete(
        self, partition: bytes, keys: Sequence[bytes], versions: Sequence[bytes] = ()
    ) -> None:
        self._counts.add("delete", len(versions) or batch_requests(len(keys)))
        self._store.delete(partition, keys, versions)
