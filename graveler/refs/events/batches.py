"""Batches of arrived objects: the open one of each rule, and those that wait for their commit.

    none ──first object──► open ──full, or overdue──► closing ──committed──► gone

One record a rule, changed by compare-and-swap only, so each batch is closed once.  How many objects
are in the open one stands in some counters beside it, so that deliveries seldom wait for one
another; each counter says of which batch it is, and is changed by compare-and-swap too.  For the
engine.
"""

from typing import Final, Literal, NamedTuple

from graveler import wire
from graveler.errors import OutcomeUnknown
from graveler.ids import CommitId
from graveler.kv.store import WRITTEN, Condition, Matches, Row, Store
from graveler.records import ABSENT, Absent, Repository
from graveler.refs.keys import batch_count_key, batch_key, space

COUNTERS: Final = 16
_CLOSING: Final = "closing:"
_RUNS: Final = "runs:"
_FIRST: Final = "first_ns:"


class Closing(NamedTuple):
    """A batch that is to be committed; `since`: the branch's commit before it was closed; `runs`:
    how many workers have begun it; `first_ns`: when the first of them did."""

    batch: str
    since: CommitId
    runs: int = 0
    first_ns: int = 0


class Batches(NamedTuple):
    """Of one rule.  `open` is empty where no object has arrived since the last batch was closed;
    `number` counts the batches that were opened."""

    open: str = ""
    number: int = 0
    opened_ns: int = 0
    closing: tuple[Closing, ...] = ()


class StoredBatches(NamedTuple):
    """The record and the version of its stored form, ABSENT if there is none yet."""

    batches: Batches
    version: bytes | Literal[Absent.ABSENT]


def get(kv: Store, repository: Repository, rule: str) -> StoredBatches:
    """One request."""
    row = kv.get(space(repository), batch_key(rule))
    if row is ABSENT:
        return StoredBatches(Batches(), ABSENT)
    said = wire.decode_pairs(row.value)
    closing = tuple(
        Closing(
            name,
            CommitId(said[_CLOSING + name]),
            int(said.get(_RUNS + name, "0")),
            int(said.get(_FIRST + name, "0")),
        )
        for name in sorted(key[len(_CLOSING) :] for key in said if key.startswith(_CLOSING))
    )
    found = Batches(said["open"], int(said["number"]), int(said["opened_ns"]), closing)
    return StoredBatches(found, row.version)


def swap(
    kv: Store, repository: Repository, rule: str, seen: StoredBatches, new: Batches, stamp: bytes
) -> bool:
    """Replace what was seen; False: failed or unknown, read again.  One request."""
    said = {"open": new.open, "number": str(new.number), "opened_ns": str(new.opened_ns)}
    said |= {_CLOSING + each.batch: each.since for each in new.closing}
    said |= {_RUNS + each.batch: str(each.runs) for each in new.closing if each.runs}
    said |= {_FIRST + each.batch: str(each.first_ns) for each in new.closing if each.first_ns}
    condition: Condition = ABSENT if seen.version is ABSENT else Matches(seen.version)
    try:
        outcome = kv.set_if(
            space(repository), batch_key(rule), wire.encode_pairs(said), stamp, condition
        )
    except OutcomeUnknown:
        return False
    if outcome is WRITTEN:
        return True
    return outcome.current is not ABSENT and outcome.current.version == stamp


class Counted(NamedTuple):
    """What one delivery adds to one of the counters of the batch of that number."""

    number: int
    counter: int
    objects: int


def add(kv: Store, repository: Repository, rule: str, counted: Counted, stamp: bytes) -> bool:
    """Count objects; False: another delivery was quicker, try another counter.  A counter of a
    later batch stays as it is.  Raises `OutcomeUnknown`: perhaps counted.  Two requests."""
    key = batch_count_key(rule, counted.counter)
    row = kv.get(space(repository), key)
    there = _Count(0, 0) if row is ABSENT else _count(row)
    if there.number > counted.number:
        return True
    before = there.objects if there.number == counted.number else 0
    said = {"number": str(counted.number), "objects": str(before + counted.objects)}
    condition: Condition = ABSENT if row is ABSENT else Matches(row.version)
    outcome = kv.set_if(space(repository), key, wire.encode_pairs(said), stamp, condition)
    return outcome is WRITTEN or (
        outcome.current is not ABSENT and outcome.current.version == stamp
    )


def count_of(kv: Store, repository: Repository, rule: str, number: int) -> int:
    """How many objects were counted in the batch of that number.  One batch of reads."""
    partition = space(repository)
    places = [(partition, batch_count_key(rule, counter)) for counter in range(COUNTERS)]
    counts = [_count(row) for row in kv.get_many(places).values()]
    return sum(each.objects for each in counts if each.number == number)


class _Count(NamedTuple):
    number: int
    objects: int


def _count(row: Row) -> _Count:
    said = wire.decode_pairs(row.value)
    return _Count(int(said["number"]), int(said["objects"]))
