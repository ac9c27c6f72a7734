"""Arrivals of event rules, and the batches that commit them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf
from typing import Final, Literal, NamedTuple

from graveler.core import limits, wire
from graveler.core.errors import OutcomeUnknown
from graveler.core.ids import CommitId, StagingToken
from graveler.core.records import ABSENT, Absent, Repository
from graveler.kv.store import Condition, Matches, Place, Row, Store, Write, landed
from graveler.refs.keys import arrivals, batch_count_key, batch_key, space, vouched

# ---- arrivals --------------------------------------------------------------------------------

_AT = "at_ns"
_CALLS_MAX = 16  # a message is delivered few times, and not many times at once


class Arrival(NamedTuple):
    """The newest event of an object: its sequencer, the token of the staged row, and the calls that
    rely on that row."""

    sequencer: str
    token: StagingToken
    calls: tuple[bytes, ...]

    def is_newer_than(self, sequencer: str) -> bool:
        return is_newer(self.sequencer, sequencer)

    def is_older_than(self, sequencer: str) -> bool:
        return is_newer(sequencer, self.sequencer)

    def joined(self, call: bytes) -> tuple[bytes, ...]:
        """The calls, with `call` as the last.  At most 16 are kept; the oldest are dropped."""
        others = tuple(each for each in self.calls if each != call)
        return (*others[-_CALLS_MAX + 1 :], call)


def is_newer(sequencer: str, other: str) -> bool:
    """Whether `sequencer` is newer than `other`, of the same object.  Sequencers compare as strings
    after the shorter one is padded with zeros at its end."""
    length = max(len(sequencer), len(other))
    return sequencer.upper().ljust(length, "0") > other.upper().ljust(length, "0")


class StoredArrival(NamedTuple):
    """An arrival and the version of its stored form."""

    arrival: Arrival
    version: bytes


def place_of(repository: Repository, rule: str, key: bytes) -> Place:
    """The place of the arrival of the object `key`."""
    return arrivals(repository, rule, key), key


def decode(row: Row) -> StoredArrival:
    """The arrival that a row holds.  Raises `Corrupt`."""
    pairs = wire.decode_pairs(row.value)
    calls = tuple(bytes.fromhex(call) for call in pairs["calls"].split())
    return StoredArrival(
        Arrival(pairs["sequencer"], StagingToken(pairs["token"]), calls), row.version
    )


def write_of(place: Place, arrival: Arrival, stamp: bytes) -> Write:
    """The write of an arrival, to be paired with the write of the staged row."""
    value = wire.encode_pairs(
        {
            "sequencer": arrival.sequencer,
            "token": arrival.token,
            "calls": " ".join(call.hex() for call in arrival.calls),
        }
    )
    return Write(*place, value, stamp)


def vouch(kv: Store, repository: Repository, rule: str, call: bytes, now_ns: int) -> None:
    """Write the confirmation of a call: all its rows count.  Raises `OutcomeUnknown`.  One
    request."""
    value = wire.encode_pairs({_AT: str(now_ns)})
    kv.set(*_vouched_place(repository, rule, call), value, call)


def vouched_of(
    kv: Store, repository: Repository, rule: str, calls: Iterable[bytes]
) -> Collection[bytes]:
    """The calls that have confirmed.  One batch; no request if `calls` is empty."""
    places = {_vouched_place(repository, rule, call): call for call in calls}
    return {places[place] for place in kv.get_many(list(places))} if places else ()


def forget_vouched(kv: Store, partition: bytes, start: bytes, before_ns: int) -> int:
    """Remove confirmations that are older than `before_ns`, and return how many.

    Reads at most 1,000 rows from `start` on, and at most 1,000 rows from the beginning of the
    partition up to `start`.  Ids of calls are random, so rounds with a random `start` reach all
    rows in time.  Two requests, and one more for each of the two parts that has old rows."""
    count = 0
    for low, high in ((start, b""), (b"", start)):
        page = kv.scan(partition, low, high, limits.kv_batch_count_max)
        old = [key for key, row in page.rows if _vouched_ns(row) < before_ns]
        if old:
            kv.delete(partition, old)
        count += len(old)
    return count


def _vouched_ns(row: Row) -> float:
    return float(wire.decode_pairs(row.value).get(_AT, inf))


def _vouched_place(repository: Repository, rule: str, call: bytes) -> Place:
    return vouched(repository, rule, call), call


# ---- batches ---------------------------------------------------------------------------------

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


def get_batches(kv: Store, repository: Repository, rule: str) -> StoredBatches:
    """The batches of a rule.  One request."""
    row = kv.get(space(repository), batch_key(rule))
    return StoredBatches(Batches(), ABSENT) if row is ABSENT else _stored(row)


def batches_of_rules(
    kv: Store, repository: Repository, rules: Sequence[str]
) -> Mapping[str, Batches]:
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


def swap_batches(
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


def add_count(
    kv: Store, repository: Repository, rule: str, counted: BatchCount, stamp: bytes
) -> bool:
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
