"""Whose turn it is to collect a repository's garbage: one record that names one job.

Whoever orders a collection first swaps its job in here, so at most one at a time is on its way,
however many order it.  The record is never removed.  For graveler/jobs.
"""

from typing import Final, Literal, NamedTuple

from graveler import wire
from graveler.errors import OutcomeUnknown
from graveler.ids import JobId
from graveler.kv.store import WRITTEN, Condition, Matches, Store
from graveler.records import ABSENT, Absent, Repository
from graveler.refs.space import setting_key, space

_NAME: Final = "collection"


class Turn(NamedTuple):
    """The job that collects, or did so last, and when it was ordered."""

    job: JobId
    ordered_ns: int


class VersionedTurn(NamedTuple):
    """A turn and the version of its stored form."""

    turn: Turn
    version: bytes


Seen = VersionedTurn | Literal[Absent.ABSENT]


def find(kv: Store, repository: Repository) -> Seen:
    """The last turn, if there was any.  One request."""
    row = kv.get(space(repository), setting_key(_NAME))
    if row is ABSENT:
        return ABSENT
    pairs = wire.decode_pairs(row.value)
    return VersionedTurn(Turn(JobId(pairs["job"]), int(pairs["ordered_ns"])), row.version)


def swap(kv: Store, repository: Repository, turn: Turn, seen: Seen, stamp: bytes) -> bool:
    """Store `turn` over what was seen.  False: failed or unknown, look again.  One request."""
    condition: Condition = ABSENT if seen is ABSENT else Matches(seen.version)
    raw = wire.encode_pairs({"job": turn.job, "ordered_ns": str(turn.ordered_ns)})
    try:
        outcome = kv.set_if(space(repository), setting_key(_NAME), raw, stamp, condition)
    except OutcomeUnknown:
        return False
    if outcome is WRITTEN:
        return True
    return outcome.current is not ABSENT and outcome.current.version == stamp
