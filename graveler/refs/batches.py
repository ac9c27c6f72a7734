"""Batches of arrived objects: the open one of each rule, and those that wait for their commit.

    none ──first object──► open ──full, or overdue──► closing ──committed──► gone

One record a rule, changed by compare-and-swap only, so each batch is closed once.  How many objects
are in the open one stands in rows of their own, one for each delivery: no delivery waits for
another.  For the engine.
"""

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from graveler import wire
from graveler.errors import OutcomeUnknown
from graveler.ids import CommitId
from graveler.kv.store import WRITTEN, Condition, Matches, Store, scan_all
from graveler.records import ABSENT, Absent, Repository
from graveler.refs.space import batch_counts_prefix, batch_key, space
from graveler.streams import successor

_CLOSING: Final = "closing:"


class Closing(NamedTuple):
    """A batch that is to be committed; `since`: the branch's commit before it was closed."""

    batch: str
    since: CommitId


@dataclass(frozen=True, slots=True)
class Batches:
    """Of one rule.  `open` is empty where no object has arrived since the last batch was closed."""

    open: str = ""
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
        Closing(name[len(_CLOSING) :], CommitId(since))
        for name, since in sorted(said.items())
        if name.startswith(_CLOSING)
    )
    return StoredBatches(Batches(said["open"], int(said["opened_ns"]), closing), row.version)


def swap(
    kv: Store, repository: Repository, rule: str, seen: StoredBatches, new: Batches, stamp: bytes
) -> bool:
    """Replace what was seen; False: failed or unknown, read again.  One request."""
    said = {"open": new.open, "opened_ns": str(new.opened_ns)}
    said |= {_CLOSING + each.batch: each.since for each in new.closing}
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


def add_count(
    kv: Store, repository: Repository, rule: str, batch: str, count: int, stamp: bytes
) -> None:
    """Note that one delivery brought `count` objects.  One request."""
    key = batch_counts_prefix(rule, batch) + stamp.hex().encode()
    kv.set(space(repository), key, wire.encode_pairs({"count": str(count)}), stamp)


def count_of(kv: Store, repository: Repository, rule: str, batch: str) -> int:
    """How many objects deliveries have noted.  One request for each 1,000 deliveries."""
    prefix = batch_counts_prefix(rule, batch)
    rows = scan_all(kv, space(repository), prefix, successor(prefix))
    return sum(int(wire.decode_pairs(row.value)["count"]) for _, row in rows)


def forget_counts(kv: Store, repository: Repository, rule: str, batch: str) -> None:
    """Remove what deliveries noted.  Two requests for each 1,000 deliveries."""
    prefix = batch_counts_prefix(rule, batch)
    rows = scan_all(kv, space(repository), prefix, successor(prefix))
    keys = [key for key, _ in rows]
    if keys:
        kv.delete(space(repository), keys)
