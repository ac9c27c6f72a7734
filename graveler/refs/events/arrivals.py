"""Arrivals: the newest event of each object that a rule took in, its staging token and its calls.

    e/<uid>/<rule>/<n>            <object key> → sequencer, token of the staged row, the calls that
                                                 rely on the row
    e/<uid>/<rule>/vouched/<n>    <call>       → when the call confirmed: a confirmation

A call is one execution of the engine's `take_in`.  A staged row *counts* if its token is still the
branch's open token when the call reads the branch record again.  A call confirms once, after all
its rows count, and before its notifications are acknowledged.  So an event is done if one of its
calls has confirmed.  Rows may be removed after `limits.event_seconds`.
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


def vouched_partitions(repository: Repository, rule: str) -> list[bytes]:
    """The partitions of the confirmations of a rule."""
    return all_vouched(repository, rule)


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
