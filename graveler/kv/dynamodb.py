"""The DynamoDB driver: rows in one table that any number of processes share.

Every read is strongly consistent.  A request that writes is sent once (K9), except the unprocessed
rows of a batch, and a transaction, which every send carries under the same client request token.

    get        GetItem                          set_if       PutItem with a condition
    get_many   BatchGetItem per 100 rows          guarded    TransactWriteItems: Put, ConditionCheck
    scan       Query, at most 1 MB per answer     paired     TransactWriteItems: Put, Put, and a
                                                             ConditionCheck if it is guarded
                                               moved      TransactWriteItems: Put, Delete
    set        PutItem                          set_newer    PutItem with a condition
    set_many   BatchWriteItem per 25 rows       delete       BatchWriteItem per 25 rows
                                                  versions   DeleteItem per row, with a condition

Calls go through pynamodb's `Connection.dispatch`, because the other methods of `Connection` request
the table's description first.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Final, Literal, TypeVar

from pynamodb.connection.base import Connection

from graveler.core.aws import (
    FAILURES,
    AwsSession,
    CallPolicy,
    Client,
    Failure,
    Fate,
    failure_of,
    unavailable,
)
from graveler.core.clock import Clock, Ids, SystemClock, SystemIds
from graveler.core.errors import GravelerError, Internal, OutcomeUnknown, Unavailable
from graveler.core.records import Absent
from graveler.kv import dynamodb_items as items
from graveler.kv.store import (
    ABSENT,
    WRITTEN,
    Condition,
    Declined,
    Guarded,
    Matches,
    Moved,
    Newer,
    Outcome,
    Paired,
    Place,
    Row,
    ScanPage,
    Write,
    check_conditional,
    check_place,
    check_removal,
    check_scan,
    check_write,
    guard_of,
    newer_one_by_one,
)

A = TypeVar("A")
B = TypeVar("B")
Arguments = dict[str, Any]

_READ_ROWS: Final = 100  # DynamoDB's own limits of a batch
_WRITE_ROWS: Final = 25
_BATCHES_AT_ONCE: Final = 8
_IDLE_ROUNDS_MAX: Final = 8  # consecutive sends in which DynamoDB processes no row of a batch
_TRANSACTION_ATTEMPTS: Final = 4
_PAUSE_SECONDS: Final = 0.02
_PAUSE_SECONDS_MAX: Final = 1.0
_OF_ONE_TABLE: Final = frozenset({"DeleteItem", "GetItem", "PutItem", "Query"})
_OPTIONS: Final = {"parameter_validation": False}  # tests check these requests instead
_MISSING_TABLE: Final = "ResourceNotFoundException"


class DynamoStore:
    """`Store` in the table `table`, which must exist.

    The constructor raises `Unavailable` if no region is configured.  If the table or the
    credentials are missing, the first request raises `Unavailable`.
    """

    def __init__(
        self,
        session: AwsSession,
        table: str,
        *,
        policy: CallPolicy | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
    ) -> None:
        self.table: Final = table
        self._calls = _Calls(table, session.client("dynamodb", policy, _OPTIONS))
        self._clock = clock or SystemClock()
        self._ids = ids or SystemIds()
        self._pauses = _Pauses(self._clock, self._ids)
        self._batches = _Batches(table, self._calls, self._pauses)

    def get(self, partition: bytes, key: bytes) -> Row | Literal[Absent.ABSENT]:
        check_place(partition, key)
        request = {"Key": items.key_of(partition, key), "ConsistentRead": True}
        item = self._calls.read("GetItem", request).get("Item")
        return items.row_of(item) if item else ABSENT

    def get_many(self, places: Sequence[Place]) -> Mapping[Place, Row]:
        for partition, key in places:
            check_place(partition, key)
        stored = self._batches.read([items.key_of(*place) for place in dict.fromkeys(places)])
        return {items.place_of(item): items.row_of(item) for item in stored}

    def scan(self, partition: bytes, start: bytes, end: bytes, limit: int) -> ScanPage:
        check_scan(partition, limit)
        if end and start >= end:
            return ScanPage((), False)
        query = {**items.stretch(partition, start, end), "ConsistentRead": True, "Limit": limit}
        while True:
            answer = self._calls.read("Query", query)
            stored = [(items.sort_key_of(item), items.row_of(item)) for item in answer["Items"]]
            rows = tuple([row for row in stored if row[0] >= start and (not end or row[0] < end)])
            last = answer.get("LastEvaluatedKey")
            beyond = bool(end and stored) and stored[-1][0] >= end
            if rows or beyond or not last:
                return ScanPage(rows, bool(last) and not beyond)
            query["ExclusiveStartKey"] = last

    def set(self, partition: bytes, key: bytes, value: bytes, version: bytes) -> None:
        check_write(partition, key, value)
        self._put((partition, key), Row(value, version), {})

    def set_many(self, writes: Sequence[Write]) -> None:
        for write in writes:
            check_write(write.partition, write.key, write.value)
        last = {(write.partition, write.key): Row(write.value, write.version) for write in writes}
        now_ns = self._clock.now_ns()
        self._batches.write(
            [
                {"PutRequest": {"Item": items.item_of(place, row, now_ns)}}
                for place, row in last.items()
            ]
        )

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
        place, row = (partition, key), Row(value, version, order)
        if isinstance(condition, Guarded) and condition.place == place:
            if condition.row != guard_of(condition):
                return Declined(self.get(partition, key))  # one row cannot meet both conditions
            condition = condition.row  # DynamoDB allows a row once per transaction
        if isinstance(condition, Guarded | Moved | Paired):
            return self._transact(place, row, condition)
        return self._put(place, row, items.if_holds(condition))

    def set_newer(
        self, partition: bytes, key: bytes, value: bytes, version: bytes, order: int
    ) -> Outcome:
        assert order > 0, "order 0 belongs to rows that set_newer did not write"
        check_write(partition, key, value)
        return self._put((partition, key), Row(value, version, order), items.if_newer(order))

    def set_newer_many(self, rows: Sequence[Newer]) -> Sequence[Outcome | Unavailable]:
        return newer_one_by_one(self, rows)

    def delete(
        self, partition: bytes, keys: Sequence[bytes], versions: Sequence[bytes] = ()
    ) -> None:
        check_removal(partition, keys, versions)
        if versions:
            self._batches.remove_seen(
                [
                    {"Key": items.key_of(partition, key), **items.if_holds(Matches(version))}
                    for key, version in zip(keys, versions, strict=True)
                ]
            )
            return
        self._batches.write(
            [
                {"DeleteRequest": {"Key": items.key_of(partition, key)}}
                for key in dict.fromkeys(keys)
            ]
        )

    def close(self) -> None:
        """Wait for running batches, then close the connections."""
        self._batches.close()
        self._calls.close()

    # ---- single rows -----------------------------------------------------------------------------

    def _put(self, place: Place, row: Row, condition: Arguments) -> Outcome:
        put = {"Item": items.item_of(place, row, self._clock.now_ns()), **condition}
        if condition:
            put["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        answer = self._calls.attempt("PutItem", put)
        if not isinstance(answer, Failure):
            return WRITTEN
        if answer.code != items.CONDITION_FAILED:
            raise self._calls.error(answer, "PutItem", write=True)
        item = answer.answer.get("Item")
        return Declined(items.row_of(item) if item else self.get(*place))

    def _transact(self, place: Place, row: Row, condition: Guarded | Moved | Paired) -> Outcome:
        """Check all rows and write, in one transaction.  Every send of it has the same client
        request token."""
        transaction = items.transaction(self.table, place, row, condition, self._clock.now_ns())
        transaction["ClientRequestToken"] = self._ids.stamp().hex()
        unknown: Failure | None = None
        for attempt in range(1, _TRANSACTION_ATTEMPTS + 1):
            answer = self._calls.attempt("TransactWriteItems", transaction)
            if not isinstance(answer, Failure):
                return WRITTEN
            cancellation = items.cancellation(answer)
            if cancellation.declined:
                return self._declined(place, row, cancellation.row, unknown)
            if answer.fate is Fate.UNKNOWN or answer.code == items.IN_PROGRESS:
                unknown = answer
            again = cancellation.busy or answer is unknown or answer.fate is not Fate.REFUSED
            if not again or attempt == _TRANSACTION_ATTEMPTS:
                error = self._calls.error(answer, "TransactWriteItems", write=True)
                if unknown is None:
                    raise error
                raise OutcomeUnknown(f"kv: transaction may have been applied: {place=}") from error
            self._pauses.take(attempt)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _declined(
        self,
        place: Place,
        row: Row,
        shown: Row | Literal[Absent.ABSENT],
        unknown: Failure | None,
    ) -> Outcome:
        try:
            current = self.get(*place) if shown is ABSENT else shown
        except Unavailable as error:
            if unknown is None:
                raise
            raise OutcomeUnknown(f"kv: transaction may have been applied: {place=}") from error
        if unknown and (current is ABSENT or current.version != row.version):
            raise OutcomeUnknown(f"kv: transaction may have been applied and replaced: {place=}")
        return Declined(current)


class _Pauses:
    """Exponential backoff with jitter."""

    def __init__(self, clock: Clock, ids: Ids) -> None:
        self._clock = clock
        self._ids = ids

    def take(self, attempt: int) -> None:
        """Sleep after attempt number `attempt`, counted from 1."""
        longest = min(_PAUSE_SECONDS * 2 ** (attempt - 1), _PAUSE_SECONDS_MAX)
        self._clock.sleep(longest * (0.5 + self._ids.stamp()[0] / 512))


class _Batches:
    """Reads and writes of many rows, split into batches of DynamoDB's size.  Up to 8 batches run in
    parallel, each until all its rows are done."""

    def __init__(self, table: str, calls: "_Calls", pauses: _Pauses) -> None:
        self._table = table
        self._calls = calls
        self._pauses = pauses
        self._pool = ThreadPoolExecutor(_BATCHES_AT_ONCE, thread_name_prefix="dynamodb")

    def read(self, keys: Sequence[items.Item]) -> list[items.Item]:
        """The items that exist.  Raises `Unavailable`."""
        pages = self._at_once(self._read_batch, _chunks(keys, _READ_ROWS))
        return [item for page in pages for item in page]

    def write(self, requests: Sequence[items.Item]) -> None:
        """Send puts and deletions.  Raises `Unavailable`, or `OutcomeUnknown` if any answer was
        lost."""
        self._at_once(self._write_batch, _chunks(requests, _WRITE_ROWS))

    def remove_seen(self, removals: Sequence[Arguments]) -> None:
        """Remove rows on a condition, one request per row.  A row for which it does not hold stays.
        Raises as `write`."""
        self._at_once(self._remove, removals)

    def close(self) -> None:
        """Wait for running batches and accept no more."""
        self._pool.shutdown(wait=True)

    def _remove(self, removal: Arguments) -> None:
        answer = self._calls.attempt("DeleteItem", removal)
        if isinstance(answer, Failure) and answer.code != items.CONDITION_FAILED:
            raise self._calls.error(answer, "DeleteItem", write=True)

    def _read_batch(self, keys: Sequence[items.Item]) -> list[items.Item]:
        stored: list[items.Item] = []

        def read(some: list[items.Item]) -> list[items.Item]:
            tables = {self._table: {"Keys": some, "ConsistentRead": True}}
            answer = self._calls.read("BatchGetItem", {"RequestItems": tables})
            stored.extend(answer.get("Responses", {}).get(self._table, ()))
            rest: list[items.Item]
            rest = answer.get("UnprocessedKeys", {}).get(self._table, {}).get("Keys", [])
            return rest

        self._until_done("BatchGetItem", list(keys), read)
        return stored

    def _write_batch(self, requests: Sequence[items.Item]) -> None:
        def write(some: list[items.Item]) -> list[items.Item]:
            answer = self._calls.attempt("BatchWriteItem", {"RequestItems": {self._table: some}})
            if isinstance(answer, Failure):
                raise self._calls.error(answer, "BatchWriteItem", write=True)
            rest: list[items.Item] = answer.get("UnprocessedItems", {}).get(self._table, [])
            return rest

        self._until_done("BatchWriteItem", list(requests), write)

    def _until_done(
        self,
        operation: str,
        todo: list[items.Item],
        send: Callable[[list[items.Item]], list[items.Item]],
    ) -> None:
        """Send the batch, then its unprocessed rows again until none is left.  The pauses grow
        while DynamoDB processes nothing; after `_IDLE_ROUNDS_MAX` such sends raises
        `Unavailable`."""
        idle = 0
        while rest := send(todo):
            idle = idle + 1 if len(rest) >= len(todo) else 0
            if idle >= _IDLE_ROUNDS_MAX:
                raise Unavailable(f"dynamodb is throttling: {operation=} unprocessed={len(rest)}")
            self._pauses.take(idle + 1)
            todo = rest

    def _at_once(self, function: Callable[[A], B], batches: Sequence[A]) -> list[B]:
        """The results of all batches, which run in parallel.  If several fail, `OutcomeUnknown` is
        raised before any other error."""
        if len(batches) <= 1:
            return [function(batch) for batch in batches]
        futures = [self._pool.submit(function, batch) for batch in batches]
        wait(futures)
        errors = [error for future in futures if (error := future.exception())]
        if errors:
            raise next((error for error in errors if isinstance(error, OutcomeUnknown)), errors[0])
        return [future.result() for future in futures]


class _Connection(Connection):
    """pynamodb's connection with a client that is passed in."""

    def __init__(self, client: Client) -> None:
        super().__init__(region=client.meta.region_name)
        self._given = client

    @property
    def client(self) -> Client:
        return self._given


class _Calls:
    """Calls on one table.  A failed call is returned as a `Failure` or raised as an error of this
    project."""

    def __init__(self, table: str, client: Client) -> None:
        self._table = table
        self._connection = _Connection(client)

    def attempt(self, operation: str, arguments: Arguments) -> Arguments | Failure:
        """Send once.  Returns the answer, or how the send failed."""
        if operation in _OF_ONE_TABLE:
            arguments = {"TableName": self._table, **arguments}
        try:
            answer: Arguments = self._connection.dispatch(operation, arguments)
        except FAILURES as error:
            return failure_of(error.__cause__ or error)
        return answer

    def read(self, operation: str, arguments: Arguments) -> Arguments:
        """The answer.  Raises `Unavailable`."""
        answer = self.attempt(operation, arguments)
        if isinstance(answer, Failure):
            raise self.error(answer, operation, write=False)
        return answer

    def error(self, failure: Failure, operation: str, *, write: bool) -> GravelerError:
        """The error to raise for a failure that no caller handled."""
        where = f"dynamodb {operation=} table={self._table}"
        if failure.code == _MISSING_TABLE:
            return Unavailable(f"dynamodb table does not exist; deploy or create it: {where}")
        if failure.code == "ValidationException":
            return Internal(f"{where} was sent a request that is not valid: {failure.message}")
        return unavailable(failure, where, write=write)

    def close(self) -> None:
        """Close the connections."""
        self._connection.client.close()


def _chunks(rows: Sequence[A], size: int) -> list[Sequence[A]]:
    return [rows[at : at + size] for at in range(0, len(rows), size)]
