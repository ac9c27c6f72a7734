"""The contract of the key-value store, which holds all state that changes.

A row lives at (partition, key).  Both are bytes, and neither is empty.  A row has three parts:

    value      bytes
    version    a stamp that the writer makes fresh for each write; it never comes back
    order      a number; 0 unless `set_newer`, or `set_if` with an `order`, wrote the row

    K1  values, keys, versions come back byte for byte; keys order as unsigned bytes
    K2  a read sees every write that was answered before it began (strong consistency)
    K3  a conditional write that is refused leaves no trace
    K4  one row changes at once or not at all; several rows (`set_many`) need not
    K5  limits (limits.py) are refused with `Invalid` before anything is sent
    K6  an acknowledged write survives the death of process and machine; one that was `deferred`,
        once a later write is acknowledged that was not
    K7  a scan shows each row that is there throughout exactly once, in order, whatever the page
        size
    K8  `Unavailable`: not applied.  `OutcomeUnknown`: perhaps applied, perhaps later.  No other
        outcome is silent
    K9  a refusal carries the row as it was, so that a writer may recognise its own stamp (an
        answer that was lost).  It says that this write was not applied: a driver that may have
        sent it twice, and finds another's row, answers `OutcomeUnknown`
    K10  a guarded write looks at both rows and writes in one step; a paired one writes both rows
        in that step, or neither; both forms may be combined; a moved one removes the other row in
        the step that writes
    K11  a removal that names versions removes only rows that have them; it checks and removes each
        row in one step

Drivers and wrappers implement `Store`; staging, refs and engine call it.

Cost: each method is one request, with two exceptions.  A batch is one request per
`limits.kv_batch_count_max` rows.  A removal that names versions, and `set_newer_many`, is one
request per row.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from typing import Final, Literal, NamedTuple, Protocol, runtime_checkable

from graveler.core import limits
from graveler.core.errors import Invalid, OutcomeUnknown, Unavailable
from graveler.core.records import ABSENT, Absent

Place = tuple[bytes, bytes]  # partition, key


class Row(NamedTuple):
    """The content of one place."""

    value: bytes
    version: bytes
    order: int = 0


class Write(NamedTuple):
    """One unconditional write of a batch."""

    partition: bytes
    key: bytes
    value: bytes
    version: bytes


class Newer(NamedTuple):
    """One row of `set_newer_many`, as the arguments of `set_newer`."""

    partition: bytes
    key: bytes
    value: bytes
    version: bytes
    order: int


class Matches(NamedTuple):
    """Condition: the row exists and has this version."""

    version: bytes


class Guarded(NamedTuple):
    """Condition on two rows at once: `row` holds for the row that is written, and the row at
    `place` exists and has `version`, or does not exist if that is ABSENT."""

    row: Matches | Literal[Absent.ABSENT]
    place: Place
    version: bytes | Literal[Absent.ABSENT]


class Moved(NamedTuple):
    """Condition on another row alone: the row at `place` exists and has `version`.  It is removed
    in the same step, and the row that is written may replace any."""

    place: Place
    version: bytes


class RowVersion(NamedTuple):
    """A row that exists: its place and its version."""

    place: Place
    version: bytes


class Paired(NamedTuple):
    """Condition on two rows that are written together: `row` holds for the row that is written,
    and `other` for the row at the place of `write`.  Then `write` is applied in the same step.

    `guard`: a third row, which must still have that version."""

    row: Matches | Literal[Absent.ABSENT]
    other: Matches | Literal[Absent.ABSENT]
    write: Write
    guard: RowVersion | Literal[Absent.ABSENT] = ABSENT


Condition = Matches | Guarded | Moved | Paired | Literal[Absent.ABSENT]


class Written(Enum):
    """The type of `WRITTEN`."""

    WRITTEN = "written"


WRITTEN: Final = Written.WRITTEN


class Declined(NamedTuple):
    """The condition did not hold; `current` is the row that was found."""

    current: Row | Literal[Absent.ABSENT]


Outcome = Literal[Written.WRITTEN] | Declined


def landed(outcome: Outcome, version: bytes) -> bool:
    """Whether a conditional write of `version` was applied, by the request that got this outcome or
    by an earlier one: the row that was found has the write's own version."""
    if outcome is WRITTEN:
        return True
    return outcome.current is not ABSENT and outcome.current.version == version


class ScanPage(NamedTuple):
    """Rows in key order.  `more`: another page, starting just after the last key, may have
    rows."""

    rows: tuple[tuple[bytes, Row], ...]
    more: bool


class Store(Protocol):
    """See the module's clauses."""

    def get(self, partition: bytes, key: bytes) -> Row | Literal[Absent.ABSENT]:
        """The row, strongly consistent."""
        ...

    def get_many(self, places: Sequence[Place]) -> Mapping[Place, Row]:
        """The rows that exist.  Each read is strongly consistent; together they are not a
        snapshot."""
        ...

    def scan(self, partition: bytes, start: bytes, end: bytes, limit: int) -> ScanPage:
        """At most `limit` rows with `start` <= key < `end`; an empty `end` means no upper bound.
        A page may have fewer rows than `limit` although `more` is set."""
        ...

    def set(self, partition: bytes, key: bytes, value: bytes, version: bytes) -> None:
        """Write the row, whether it exists or not (last-writer-wins)."""
        ...

    def set_many(self, writes: Sequence[Write]) -> None:
        """Write all rows, in any order.  After an error any subset may have been applied."""
        ...

    def set_if(
        self,
        partition: bytes,
        key: bytes,
        value: bytes,
        version: bytes,
        condition: Condition,
        order: int = 0,
    ) -> Outcome:
        """Compare-and-swap: write the row and its `order`, and the other row of a `Paired`, and
        remove that of a `Moved`, if `condition` holds for the stored rows."""
        ...

    def set_newer(
        self, partition: bytes, key: bytes, value: bytes, version: bytes, order: int
    ) -> Outcome:
        """Write atomically if the row is absent or its order is smaller than `order`, which must
        be greater than 0."""
        ...

    def set_newer_many(self, rows: Sequence[Newer]) -> Sequence[Outcome | Unavailable]:
        """`set_newer` for each of the `rows`, which are at different places, in any order.

        The result has the outcome of each row at its index.  An `Unavailable` of a row, also
        `OutcomeUnknown`, is an element of it, not raised, and says of its row what K8 says.  After
        another error any subset may have been applied.  The rows together are not atomic."""
        ...

    def delete(
        self, partition: bytes, keys: Sequence[bytes], versions: Sequence[bytes] = ()
    ) -> None:
        """Remove rows.  An absent row is no error.  Several removals are not atomic together.

        `versions`: one for each key.  If given, a row is removed only if it still has that version,
        and the cost is one request per row.  Versions never come back, so a late duplicate of the
        removal cannot remove a row that was created since.
        """
        ...


def newer_one_by_one(store: Store, rows: Sequence[Newer]) -> list[Outcome | Unavailable]:
    """`set_newer_many` of a store that has no cheaper way than `set_newer` for each row.  After a
    row that the store could not take, the others are not sent."""
    check_newer_many(rows)
    outcomes: list[Outcome | Unavailable] = []
    for row in rows:
        try:
            outcomes.append(store.set_newer(*row))
        except OutcomeUnknown as unknown:
            outcomes.append(unknown)
        except Unavailable as error:
            return outcomes + [error] * (len(rows) - len(outcomes))
    return outcomes


def other_places(condition: Condition) -> tuple[Place, ...]:
    """The places of the other rows that `condition` depends on.  The first one of a `Paired` is
    written too, that of a `Moved` is removed."""
    if isinstance(condition, Guarded | Moved):
        return (condition.place,)
    if isinstance(condition, Paired):
        pair = condition.write.partition, condition.write.key
        return (pair,) if condition.guard is ABSENT else (pair, condition.guard.place)
    return ()


def holds(
    condition: Condition,
    row: Row | Literal[Absent.ABSENT],
    *others: Row | Literal[Absent.ABSENT],
) -> bool:
    """Whether `condition` holds, given the stored `row` at the place to be written and the stored
    rows at `other_places`."""
    if isinstance(condition, Guarded):
        return _is(guard_of(condition), others[0]) and _is(condition.row, row)
    if isinstance(condition, Moved):
        return _is(Matches(condition.version), others[0])
    if isinstance(condition, Paired):
        guard = condition.guard
        guarded = guard is ABSENT or _is(Matches(guard.version), others[1])
        return guarded and _is(condition.other, others[0]) and _is(condition.row, row)
    return _is(condition, row)


def guard_of(condition: Guarded) -> Matches | Literal[Absent.ABSENT]:
    """The condition on the other row of a guarded write."""
    return ABSENT if condition.version is ABSENT else Matches(condition.version)


def _is(condition: Matches | Literal[Absent.ABSENT], row: Row | Literal[Absent.ABSENT]) -> bool:
    if condition is ABSENT or row is ABSENT:
        return condition is row
    return condition.version == row.version


def check_place(partition: bytes, key: bytes) -> None:
    """Raises `Invalid` for a partition or key outside the limits.  Every driver calls it first."""
    if not partition or len(partition) > limits.kv_partition_length_bytes_max:
        raise Invalid(
            f"kv partition must have 1 to {limits.kv_partition_length_bytes_max} bytes: "
            f"{len(partition)=}"
        )
    if not key or len(key) > limits.kv_key_length_bytes_max:
        raise Invalid(f"kv key must have 1 to {limits.kv_key_length_bytes_max} bytes: {len(key)=}")


def check_write(partition: bytes, key: bytes, value: bytes) -> None:
    """Raises `Invalid` for a write outside the limits.  Every driver calls it first."""
    check_place(partition, key)
    if len(value) > limits.kv_value_length_bytes_max:
        raise Invalid(
            f"kv value must have at most {limits.kv_value_length_bytes_max} bytes: {len(value)=}"
        )


def check_newer_many(rows: Sequence[Newer]) -> None:
    """Raises `Invalid` for a batch of conditional writes outside the limits, or with two rows at
    one place.  Every driver that takes the rows together calls it first."""
    for row in rows:
        check_write(row.partition, row.key, row.value)
    if len({(row.partition, row.key) for row in rows}) < len(rows):
        raise Invalid(f"kv rows must be at different places: {len(rows)=}")


def check_conditional(partition: bytes, key: bytes, value: bytes, condition: Condition) -> None:
    """Raises `Invalid` for a conditional write outside the limits.  Every driver calls it first."""
    check_write(partition, key, value)
    if isinstance(condition, Paired):
        check_write(condition.write.partition, condition.write.key, condition.write.value)
        places = {(partition, key), *other_places(condition)}
        if len(places) < 2 + (condition.guard is not ABSENT):
            raise Invalid(f"kv paired write must have different rows: {len(key)=}")
    if isinstance(condition, Moved):
        check_place(*condition.place)
        if condition.place == (partition, key):
            raise Invalid(f"kv moved row must have another place: {len(key)=}")


def check_removal(partition: bytes, keys: Sequence[bytes], versions: Sequence[bytes]) -> None:
    """Raises `Invalid` for a removal outside the limits.  Every driver calls it first."""
    for key in keys:
        check_place(partition, key)
    if versions and len(versions) != len(keys):
        raise Invalid(f"kv removal needs one version for each key: {len(keys)=} {len(versions)=}")


def check_scan(partition: bytes, limit: int) -> None:
    """Raises `Invalid` for a scan outside the limits.  Every driver calls it first."""
    check_place(partition, b"\0")
    if not 1 <= limit <= limits.scan_page_count_max:
        raise Invalid(f"kv scan limit must be 1 to {limits.scan_page_count_max}: {limit=}")


def scan_all(
    store: Store, partition: bytes, start: bytes = b"", end: bytes = b"", page: int = 1_000
) -> Iterator[tuple[bytes, Row]]:
    """Every row with `start` <= key < `end`, fetched page by page.  One request for each `page`
    rows."""
    for rows in scan_pages(store, partition, start, end, page):
        yield from rows


def scan_pages(
    store: Store, partition: bytes, start: bytes, end: bytes, page: int, growth: int = 1
) -> Iterator[tuple[tuple[bytes, Row], ...]]:
    """As `scan_all`, but yields whole pages, which takes a tenth of the time per row.

    `growth`: each page asks for so many times as many rows as the one before, up to 1,000.  An
    empty range costs no request."""
    more = True
    while more and not (end and start >= end):
        answer = store.scan(partition, start, end, page)
        more = answer.more and bool(answer.rows)
        if answer.rows:
            start = answer.rows[-1][0] + b"\0"
            yield answer.rows
        page = max(page, min(page * growth, limits.page_count_max))


# ---- threads that must not wait ------------------------------------------------------------------


class WouldWait(Exception):
    """The call would wait, on a thread that must not wait, such as that of an event loop.  Nothing
    was done, and the caller repeats the call on another thread."""


@runtime_checkable
class Ordered(Protocol):
    """A store whose writes become durable in the order in which they were made."""

    def deferring(self) -> AbstractContextManager[None]:
        """See `deferred`."""
        ...


def deferred(store: Store) -> AbstractContextManager[None]:
    """Within the block, an `Ordered` store answers writes of this thread before they are durable.

    For writes that count only together with a later one, by which they become durable.  Who reads
    such a row waits until it is durable."""
    return store.deferring() if isinstance(store, Ordered) else nullcontext()


@runtime_checkable
class Prompt(Protocol):
    """A store that can keep chosen threads from waiting."""

    def forbid_waiting(self, thread: int) -> None:
        """From now on, calls of this thread (`threading.get_ident`) raise `WouldWait` before they
        do anything that takes long.

        A key-value store refuses to scan, to write, and to read a row that is not durable yet.  A
        range store refuses to open a table and to decode a metarange."""
        ...

    def allow_waiting(self, thread: int) -> None:
        """Let this thread wait again."""
        ...


class PromptThreads:
    """The set of threads that a driver keeps from waiting."""

    def __init__(self) -> None:
        self._threads: frozenset[int] = frozenset()

    def add(self, thread: int) -> None:
        self._threads |= {thread}

    def discard(self, thread: int) -> None:
        self._threads -= {thread}

    def check(self) -> None:
        """Raises `WouldWait` if the current thread must not wait."""
        if threading.get_ident() in self._threads:
            raise WouldWait("the call would wait on a thread that must not")


__all__ = [
    "ABSENT",
    "WRITTEN",
    "Condition",
    "Declined",
    "Guarded",
    "Matches",
    "Newer",
    "Ordered",
    "Outcome",
    "Paired",
    "Place",
    "Prompt",
    "PromptThreads",
    "Row",
    "RowVersion",
    "ScanPage",
    "Store",
    "WouldWait",
    "Write",
    "check_conditional",
    "check_newer_many",
    "check_place",
    "check_removal",
    "check_scan",
    "check_write",
    "deferred",
    "holds",
    "landed",
    "newer_one_by_one",
    "other_places",
    "scan_all",
    "scan_pages",
]
