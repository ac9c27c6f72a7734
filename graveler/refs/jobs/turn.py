"""The turn to collect a repository's garbage: one record that names one job or one cluster.

A collection must first swap its job into this record.  So at most one collection of a repository is
under way, however many are requested.  A collection on a cluster has no job: it holds the turn by a
lease, and each heartbeat extends the lease.  The record is never removed.
"""

from typing import Final, Literal, NamedTuple

from graveler import wire
from graveler.errors import OutcomeUnknown
from graveler.ids import JobId
from graveler.kv.store import Condition, Matches, Store, landed
from graveler.records import ABSENT, Absent, Repository
from graveler.refs.keys import setting_key, space

_NAME: Final = "collection"


class Turn(NamedTuple):
    """The holder of the turn, or its last holder.

    field         of a job                     of a cluster
    job           the id of the job            the id of the cluster's turn
    ordered_ns    when it was requested        when the turn began
    until_ns      0                            when the lease expires; equal to `ordered_ns` once
                                               the cluster has ended its turn
    """

    job: JobId
    ordered_ns: int
    until_ns: int = 0

    @property
    def ended(self) -> bool:
        """Whether a cluster has ended its turn."""
        return self.until_ns == self.ordered_ns

    def is_held(self, now_ns: int) -> bool:
        """Whether a cluster holds the turn."""
        return self.until_ns > now_ns and not self.ended


class VersionedTurn(NamedTuple):
    """A turn and the version of its stored form."""

    turn: Turn
    version: bytes


Seen = VersionedTurn | Literal[Absent.ABSENT]


def find(kv: Store, repository: Repository) -> Seen:
    """The last turn; ABSENT if there was none.  One request."""
    row = kv.get(space(repository), setting_key(_NAME))
    if row is ABSENT:
        return ABSENT
    pairs = wire.decode_pairs(row.value)
    until_ns = int(pairs.get("until_ns", "0"))
    turn = Turn(JobId(pairs["job"]), int(pairs["ordered_ns"]), until_ns)
    return VersionedTurn(turn, row.version)


def swap(kv: Store, repository: Repository, turn: Turn, seen: Seen, stamp: bytes) -> bool:
    """Replace `seen` by `turn`.  False: failed or unknown; the caller reads again.  One
    request."""
    condition: Condition = ABSENT if seen is ABSENT else Matches(seen.version)
    pairs = {"job": turn.job, "ordered_ns": str(turn.ordered_ns)}
    if turn.until_ns:
        pairs["until_ns"] = str(turn.until_ns)
    raw = wire.encode_pairs(pairs)
    try:
        outcome = kv.set_if(space(repository), setting_key(_NAME), raw, stamp, condition)
    except OutcomeUnknown:
        return False
    return landed(outcome, stamp)
