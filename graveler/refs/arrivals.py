"""The newest event of every object that a rule took in: which one, and where it was staged.

Written in one step with the staged row, so that the record says of the row what is true.  A row
here may vanish `limits.event_seconds` after it was written: no notification travels for so long.
For the engine.
"""

from dataclasses import dataclass
from typing import NamedTuple

from graveler import wire
from graveler.ids import CommitId, StagingToken
from graveler.kv.store import Place, Row, Write
from graveler.records import Repository
from graveler.refs.space import arrivals


@dataclass(frozen=True, slots=True)
class Arrival:
    """What was staged for an object: its event's sequencer, the token and `wid` of the row, and
    the branch's commit then."""

    sequencer: str
    token: StagingToken
    wid: bytes
    since: CommitId

    def is_newer_than(self, sequencer: str) -> bool:
        return _padded(self.sequencer, sequencer) > _padded(sequencer, self.sequencer)

    def is_older_than(self, sequencer: str) -> bool:
        return _padded(self.sequencer, sequencer) < _padded(sequencer, self.sequencer)


def _padded(sequencer: str, other: str) -> str:
    """Sequencers of one object compare as strings once the shorter has got zeros at its end."""
    return sequencer.ljust(len(other), "0")


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
    arrival = Arrival(
        said["sequencer"],
        StagingToken(said["token"]),
        bytes.fromhex(said["wid"]),
        CommitId(said["since"]),
    )
    return StoredArrival(arrival, row.version)


def write_of(place: Place, arrival: Arrival, stamp: bytes) -> Write:
    """The write of a record, to go with that of the staged row."""
    value = wire.encode_pairs(
        {
            "sequencer": arrival.sequencer,
            "token": arrival.token,
            "wid": arrival.wid.hex(),
            "since": arrival.since,
        }
    )
    return Write(*place, value, stamp)
