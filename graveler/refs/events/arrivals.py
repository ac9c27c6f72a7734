"""The newest event of each object that a rule took in: which one, where it was staged, by whom.

    e/<uid>/<rule>/<n>        <object key> → sequencer, token of the row, the calls that staged it
    e/<uid>/<rule>/vouched    <call>       → when: every row that this call staged has counted

A record is written in one step with its row.  A call vouches once, after it saw that all its rows
counted and before it is acknowledged; so an event is done if one of its calls has vouched, and if
none has, nobody was told that it is.  Rows here may vanish `limits.event_seconds` after they were
written: no notification travels for so long.  What vouches is written once, so that it may be
removed without looking again; a record, of which an object has one, may just be replaced.  For the
engine.
"""

from collections.abc import Collection, Iterable
from math import inf
from typing import NamedTuple

from graveler import limits, wire
from graveler.ids import StagingToken
from graveler.kv.store import Place, Row, Store, Write
from graveler.records import Repository
from graveler.refs.keys import all_vouched, arrivals, vouched

_AT = "at_ns"
_CALLS_MAX = 16  # a message is delivered a few times at most, not many at once


class Arrival(NamedTuple):
    """What was staged for an object: its event's sequencer, the token of the row, and the calls
    that answer for it."""

    sequencer: str
    token: StagingToken
    calls: tuple[bytes, ...]

    def is_newer_than(self, sequencer: str) -> bool:
        return is_newer(self.sequencer, sequencer)

    def is_older_than(self, sequencer: str) -> bool:
        return is_newer(sequencer, self.sequencer)

    def joined(self, call: bytes) -> tuple[bytes, ...]:
        """The calls, with one more; the oldest is forgotten where they are too many."""
        others = tuple(each for each in self.calls if each != call)
        return (*others[-_CALLS_MAX + 1 :], call)


def is_newer(sequencer: str, other: str) -> bool:
    """Sequencers of one object compare as strings once the shorter has got zeros at its end."""
    length = max(len(sequencer), len(other))
    return sequencer.upper().ljust(length, "0") > other.upper().ljust(length, "0")


class StoredArrival(NamedTuple):
    """A record and the version of its stored form."""

    arrival: Arrival
    version: bytes


def place_of(repository: Repository, rule: str, key: bytes) -> Place:
    """Where the record of the object `key` stands."""
    return arrivals(repository, rule, key), key


def decode(row: Row) -> StoredArrival:
    """Raises `Corrupt`."""
    said = wire.decode_pairs(row.value)
    calls = tuple(bytes.fromhex(call) for call in said["calls"].split())
    return StoredArrival(
        Arrival(said["sequencer"], StagingToken(said["token"]), calls), row.version
    )


def write_of(place: Place, arrival: Arrival, stamp: bytes) -> Write:
    """The write of a record, to go with that of the staged row."""
    value = wire.encode_pairs(
        {
            "sequencer": arrival.sequencer,
            "token": arrival.token,
            "calls": " ".join(call.hex() for call in arrival.calls),
        }
    )
    return Write(*place, value, stamp)


def vouch(kv: Store, repository: Repository, rule: str, call: bytes, now_ns: int) -> None:
    """Say that all rows of a call counted.  Raises `OutcomeUnknown`.  One request."""
    said = wire.encode_pairs({_AT: str(now_ns)})
    kv.set(*_vouched_place(repository, rule, call), said, call)


def vouched_of(
    kv: Store, repository: Repository, rule: str, calls: Iterable[bytes]
) -> Collection[bytes]:
    """Which of the calls have vouched.  One batch, or no request for no calls."""
    places = {_vouched_place(repository, rule, call): call for call in calls}
    return {places[place] for place in kv.get_many(list(places))} if places else ()


def vouched_partitions(repository: Repository, rule: str) -> list[bytes]:
    """Where the calls for a rule vouch."""
    return all_vouched(repository, rule)


def forget_vouched(kv: Store, partition: bytes, start: bytes, before_ns: int) -> int:
    """Remove what was vouched for before a time, of the rows from `start` on and of those before
    it: at most 1,000 of either are looked at; how many.  Calls are drawn by chance, so a `start`
    that is too comes to all of them in time.  2 requests, 1 more for each part with old rows."""
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
