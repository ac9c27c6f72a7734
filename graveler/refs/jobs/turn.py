"""Whose turn it is to collect a repository's garbage: one record that names one job, or a cluster.

Whoever orders a collection first swaps its job in here, so at most one at a time is on its way,
however many order it.  A collection on a cluster has no job: it holds the turn until a time, which
it moves on.  The record is never removed.  For graveler/jobs and the engine.
"""

from typing import Final, Literal, NamedTuple

from graveler import wire
from graveler.errors import OutcomeUnknown
from graveler.ids import JobId
from graveler.kv.store import WRITTEN, Condition, Matches, Store
from graveler.records import ABSENT, Absent, Repository
from graveler.refs.keys import setting_key, space

_NAME: Final = "collection"


class Turn(NamedTuple):
    """The job that collects, or did so last, and when it was ordered.

    Of a cluster: the id of its turn, when that began, and in `until_ns` until when it holds; that
    is `ordered_ns` once it ended.  0: it is no cluster's."""

    job: JobId
    ordered_ns: int
    until_ns: int = 0

    @property
    def ended(self) -> bool:
        """A cluster said so."""
        return self.until_ns == self.ordered_ns

    def is_held(self, now_ns: int) -> bool:
        """By a cluster."""
        return self.until_ns > now_ns and not self.ended


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
    until_ns = int(pairs.get("until_ns", "0"))
    turn = Turn(JobId(pairs["job"]), int(pairs["ordered_ns"]), until_ns)
    return VersionedTurn(turn, row.version)


def swap(kv: Store, repository: Repository, turn: Turn, seen: Seen, stamp: bytes) -> bool:
    """Store `turn` over what was seen.  False: failed or unknown, look again.  One request."""
    condition: Condition = ABSENT if seen is ABSENT else Matches(seen.version)
    said = {"job": turn.job, "ordered_ns": str(turn.ordered_ns)}
    if turn.until_ns:
        said["until_ns"] = str(turn.until_ns)
    raw = wire.encode_pairs(said)
    try:
        outcome = kv.set_if(space(repository), setting_key(_NAME), raw, stamp, condition)
    except OutcomeUnknown:
        return False
    if outcome is WRITTEN:
        return True
    return outcome.current is not ABSENT and outcome.current.version == stamp
