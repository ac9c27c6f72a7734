"""Meters the cost of verbs on DynamoDB and S3, while they run on the memory drivers.

`MeteredStore` translates each call of the store into the DynamoDB requests that kv/dynamodb.py
would send, and into capacity units, from the size of the items that it would store:

    GetItem, BatchGetItem   1 read unit for each 4 KB of each item, strongly consistent; absent: 1
    Query                   the rows of an answer together, at most 1 MB a request
    PutItem, BatchWriteItem 1 write unit for each 1 KB of the larger of old and new item
    TransactWriteItems      twice that, for both rows; a refused condition costs as much as a write

S3 requests are counted by `counted_blocks`; `Till` sorts them by price class.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from graveler.core.errors import Unavailable
from graveler.core.records import Absent
from graveler.core.requests import Counts
from graveler.kv.dynamodb_items import item_of
from graveler.kv.store import (
    ABSENT,
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

READ_UNIT_BYTES = 4_096
WRITE_UNIT_BYTES = 1_024
QUERY_BYTES = 1 << 20
READ_BATCH = 100
WRITE_BATCH = 25
_S3_WRITES = ("put", "copy", "list", "create_upload", "put_part", "complete_upload")
_S3_READS = ("get", "read", "head")


def item_size(place: Place, row: Row) -> int:
    """The size of an item in bytes, as DynamoDB counts it: names and values of all attributes."""
    return sum(len(name) + _size(value) for name, value in item_of(place, row, 0).items())


def _size(value: Mapping[str, Any]) -> int:
    ((kind, content),) = value.items()
    return len(content) if kind == "B" else len(content) // 2 + 1


def units(size: int, unit: int) -> int:
    """The number of whole units for `size` bytes; at least one."""
    return max(1, -(-size // unit))


@dataclass
class Meter:
    """Counts requests by name, and capacity units."""

    requests: Counter[str] = field(default_factory=Counter)
    reads: int = 0
    writes: int = 0

    def read(self, request: str, read_units: int, requests: int = 1) -> None:
        self.requests[request] += requests
        self.reads += read_units

    def write(self, request: str, write_units: int, requests: int = 1) -> None:
        self.requests[request] += requests
        self.writes += write_units


class MeteredStore:
    """A `Store` that meters each call and passes it on to a store in memory."""

    def __init__(self, store: Store, meter: Meter) -> None:
        self._store = store
        self._meter = meter

    def get(self, partition: bytes, key: bytes) -> Row | Literal[Absent.ABSENT]:
        row = self._store.get(partition, key)
        self._meter.read("Get", self._read_units((partition, key), row))
        return row

    def get_many(self, places: Sequence[Place]) -> Mapping[Place, Row]:
        rows = self._store.get_many(places)
        distinct = dict.fromkeys(places)
        spent = sum(self._read_units(place, rows.get(place, ABSENT)) for place in distinct)
        self._meter.read("BatchGet", spent, -(-len(distinct) // READ_BATCH))
        return rows

    def scan(self, partition: bytes, start: bytes, end: bytes, limit: int) -> ScanPage:
        page = self._store.scan(partition, start, end, limit)
        size = sum(item_size((partition, key), row) for key, row in page.rows)
        self._meter.read("Query", units(size, READ_UNIT_BYTES), units(size, QUERY_BYTES))
        return page

    def set(self, partition: bytes, key: bytes, value: bytes, version: bytes) -> None:
        self._meter.write("Put", self._write_units((partition, key), Row(value, version)))
        self._store.set(partition, key, value, version)

    def set_many(self, writes: Sequence[Write]) -> None:
        last = {(write.partition, write.key): Row(write.value, write.version) for write in writes}
        spent = sum(self._write_units(place, row) for place, row in last.items())
        self._meter.write("BatchWrite", spent, -(-len(last) // WRITE_BATCH))
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
        place, row = (partition, key), Row(value, version, order)
        spent = self._write_units(place, row)
        if isinstance(condition, Guarded | Moved | Paired):
            rows = 1 + len(other_places(condition))
            all_units = spent + self._other_units(condition)
            self._meter.write(f"Transaction of {rows}", 2 * all_units)
        else:
            self._meter.write("conditional Put", spent)
        return self._store.set_if(partition, key, value, version, condition, order)

    def set_newer(
        self, partition: bytes, key: bytes, value: bytes, version: bytes, order: int
    ) -> Outcome:
        spent = self._write_units((partition, key), Row(value, version, order))
        self._meter.write("conditional Put", spent)
        return self._store.set_newer(partition, key, value, version, order)

    def set_newer_many(self, rows: Sequence[Newer]) -> Sequence[Outcome | Unavailable]:
        return newer_one_by_one(self, rows)

    def delete(
        self, partition: bytes, keys: Sequence[bytes], versions: Sequence[bytes] = ()
    ) -> None:
        doomed = dict.fromkeys(keys)
        spent = sum(self._old_units((partition, key)) for key in doomed)
        if versions:
            self._meter.write("conditional Delete", spent, len(doomed))
        else:
            self._meter.write("BatchWrite", spent, -(-len(doomed) // WRITE_BATCH))
        self._store.delete(partition, keys, versions)

    def _read_units(self, place: Place, row: Row | Literal[Absent.ABSENT]) -> int:
        return units(0 if row is ABSENT else item_size(place, row), READ_UNIT_BYTES)

    def _old_units(self, place: Place) -> int:
        row = self._store.get(*place)
        return units(0 if row is ABSENT else item_size(place, row), WRITE_UNIT_BYTES)

    def _write_units(self, place: Place, row: Row) -> int:
        return max(units(item_size(place, row), WRITE_UNIT_BYTES), self._old_units(place))

    def _other_units(self, condition: Guarded | Moved | Paired) -> int:
        places = other_places(condition)
        if isinstance(condition, Guarded | Moved):
            return self._old_units(places[0])
        write = condition.write
        checked = sum(map(self._old_units, places[1:]))
        return checked + self._write_units(places[0], Row(write.value, write.version))


@dataclass(frozen=True, slots=True)
class Spent:
    """The cost of an operation.

    DynamoDB requests by name, DynamoDB units, and S3 requests by price class.
    """

    requests: Mapping[str, int] = field(default_factory=dict)
    reads: float = 0
    writes: float = 0
    s3_writes: float = 0
    s3_reads: float = 0

    @property
    def kv_requests(self) -> int:
        """Number of all requests to DynamoDB."""
        return sum(self.requests.values())

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(
            Counter(self.requests) + Counter(other.requests),
            self.reads + other.reads,
            self.writes + other.writes,
            self.s3_writes + other.s3_writes,
            self.s3_reads + other.s3_reads,
        )

    def shared_by(self, count: int) -> "Spent":
        """The cost per item if the total covers `count` items.  The result has no requests by
        name."""
        return Spent(
            {},
            self.reads / count,
            self.writes / count,
            self.s3_writes / count,
            self.s3_reads / count,
        )


class Till:
    """Reads the meters of one set of ports as differences."""

    def __init__(self, meter: Meter, blocks: Counts) -> None:
        self._meter, self._blocks = meter, blocks
        self._open()

    def _open(self) -> None:
        self._requests = Counter(self._meter.requests)
        self._units = self._meter.reads, self._meter.writes
        self._seen = self._blocks.snapshot()

    def spent(self) -> Spent:
        """The cost since the previous call of this method."""
        blocks = self._blocks.since(self._seen)
        found = Spent(
            dict(self._meter.requests - self._requests),
            self._meter.reads - self._units[0],
            self._meter.writes - self._units[1],
            sum(blocks.get(verb, 0) for verb in _S3_WRITES),
            sum(blocks.get(verb, 0) for verb in _S3_READS),
        )
        self._open()
        return found
