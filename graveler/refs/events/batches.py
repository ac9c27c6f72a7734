"""Batches of arrived objects: the open batch of each rule, and the batches that wait for a commit.

    none ──first object──► open ──full, or overdue──► closing ──committed──► gone

Each rule has one record, changed by compare-and-swap only.  The number of objects in the open batch
is the sum of 16 counters in rows of their own, so that deliveries rarely wait for each other.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from graveler import wire
from graveler.errors import OutcomeUnknown
from graveler.ids import CommitId
from graveler.kv.store import Condition, Matches, Row, Store, landed
from graveler.records import ABSENT, Absent, Repository
from graveler.refs.keys import batch_count_key, batch_key, space

COUNTERS: Final = 16
_CLOSING: Final = "closing:"
_RUNS: Final = "runs:"
_FIRST: Final = "first_ns:"
_TAKEN: Final = "taken_ns:"


class ClosingBatch(NamedTuple):
    """A batch that waits for its commit.

    `since`       the head of the branch before the batch was closed
    `runs`        how many attempts were begun
    `first_ns`    when the first attempt began
    `taken_ns`    when it was closed, handed to a worker again, or begun by one last; 0: not known
    """

    batch: str
    since: CommitId
    runs: int = 0
    first_ns: int = 0
    taken_ns: int = 0


class Batches(NamedTuple):
    """The batches of one rule.

    `open`: the id of the open batch; empty if no object has arrived since the last batch was
    closed.  `number`: how many batches were opened so far."""

    open: str = ""
    number: int = 0
    opened_ns: int = 0
    closing: tuple[ClosingBatch, ...] = ()


class StoredBatches(NamedTuple):
    """The record, and the version of its stored form; ABSENT if there is no record yet."""

    batches: Batches
    version: bytes | Literal[Absent.ABSENT]


def get(kv: Store, repository: Repository, rule: str) -> StoredBatches:
    """The batches of a rule.  One request."""
    row = kv.get(space(repository), batch_key(rule))
    return StoredBatches(Batches(), ABSENT) if row is ABSENT else _stored(row)


def of_rules(kv: Store, repository: Repository, rules: Sequence[str]) -> Mapping[str, Batches]:
    """The batches of these rules, without rules that had none so far.  One request for each
    1,000."""
    places = {rule: (space(repository), batch_key(rule)) for rule in rules}
    rows = kv.get_many(list(places.values())) if places else {}
    return {rule: _stored(rows[place]).batches for rule, place in places.items() if place in rows}


def _stored(row: Row) -> StoredBatches:
    pairs = wire.decode_pairs(row.value)
    closing = tuple(
        ClosingBatch(
            name,
            CommitId(pairs[_CLOSING + name]),
            int(pairs.get(_RUNS + name, "0")),
            int(pairs.get(_FIRST + name, "0")),
            int(pairs.get(_TAKEN + name, "0")),
        )
        for name in sorted(key[len(_CLOSING) :] for key in pairs if key.startswith(_CLOSING))
    )
    batches = Batches(pairs["open"], int(pairs["number"]), int(pairs["opened_ns"]), closing)
    return StoredBatches(batches, row.version)


def swap(
    kv: Store, repository: Repository, rule: str, seen: StoredBatches, new: Batches, stamp: bytes
) -> bool:
    """Replace the record `seen` by `new`.  False: failed or unknown; the caller reads again.  One
    request."""
    pairs = {"open": new.open, "number": str(new.number), "opened_ns": str(new.opened_ns)}
    pairs |= {_CLOSING + each.batch: each.since for each in new.closing}
    pairs |= {_RUNS + each.batch: str(each.runs) for each in new.closing if each.runs}
    pairs |= {_FIRST + each.batch: str(each.first_ns) for each in new.closing if each.first_ns}
    pairs |= {_TAKEN + each.batch: str(each.taken_ns) for each in new.closing if each.taken_ns}
    condition: Condition = ABSENT if seen.version is ABSENT else Matches(seen.version)
    try:
        outcome = kv.set_if(
            space(repository), batch_key(rule), wire.encode_pairs(pairs), stamp, condition
        )
    except OutcomeUnknown:
        return False
    return landed(outcome, stamp)


class BatchCount(NamedTuple):
    """What one delivery adds: `objects` to counter `counter` of batch `number`."""

    number: int
    counter: int
    objects: int


def add(kv: Store, repository: Repository, rule: str, counted: BatchCount, stamp: bytes) -> bool:
    """Add to a counter.  False: another delivery changed the counter first; the caller tries
    another counter.  A counter of a later batch stays as it is.  Raises `OutcomeUnknown`: the
    objects may be counted or not.  Two requests."""
    key = batch_count_key(rule, counted.counter)
    row = kv.get(space(repository), key)
    stored = _Count(0, 0) if row is ABSENT else _count(row)
    if stored.number > counted.number:
        return True
    before = stored.objects if stored.number == counted.number else 0
    pairs = {"number": str(counted.number), "objects": str(before + counted.objects)}
    condition: Condition = ABSENT if row is ABSENT else Matches(row.version)
    outcome = kv.set_if(space(repository), key, wire.encode_pairs(pairs), stamp, condition)
    return landed(outcome, stamp)


def count_of(kv: Store, repository: Repository, rule: str, number: int) -> int:
    """The number of objects that were counted in batch `number`.  One batch of reads."""
    partition = space(repository)
    places = [(partition, batch_count_key(rule, counter)) for counter in range(COUNTERS)]
    counts = [_count(row) for row in kv.get_many(places).values()]
    return sum(each.objects for each in counts if each.number == number)


class _Count(NamedTuple):
    number: int
    objects: int


def _count(row: Row) -> _Count:
    pairs = wire.decode_pairs(row.value)
    return _Count(int(pairs["number"]), int(pairs["objects"]))
