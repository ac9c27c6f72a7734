"""Records of garbage collection runs: the state of each; its list of files is in block storage.

    condemned ──► sweeping ──► swept          condemned ──► undone

Undoing a run and sweeping it may happen at the same time, so the record changes by compare-and-swap
only.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple

from graveler import wire
from graveler.errors import NotFound, OutcomeUnknown
from graveler.kv.store import Condition, Matches, Row, Store, landed
from graveler.records import ABSENT, Absent, Repository
from graveler.refs import rows
from graveler.refs.keys import RUNS, run_key, space


class RunState(StrEnum):
    """The state of a run.  SWEPT and UNDONE are final."""

    CONDEMNED = "condemned"
    SWEEPING = "sweeping"
    SWEPT = "swept"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class Run:
    """One run.  `condemned_ns`: when its list of files was complete.  The list has `count` files of
    `size` bytes in total."""

    id: str
    state: RunState
    condemned_ns: int
    count: int
    size: int


class VersionedRun(NamedTuple):
    """A run's record and the version of its stored form."""

    run: Run
    version: bytes


def get(kv: Store, repository: Repository, run: str) -> VersionedRun:
    """The record of a run.  Raises `NotFound`.  One request."""
    row = kv.get(space(repository), run_key(run))
    if row is ABSENT:
        raise NotFound(f"run of garbage collection not found: run={run}")
    return _decode(run, row)


def list_all(kv: Store, repository: Repository) -> Iterator[VersionedRun]:
    """Every run, oldest first.  One request for each 1,000."""
    for name, row in rows.rows(kv, rows.Stretch(space(repository), RUNS)):
        yield _decode(name, row)


def put(
    kv: Store,
    repository: Repository,
    run: Run,
    seen: VersionedRun | Literal[Absent.ABSENT],
    stamp: bytes,
) -> VersionedRun | Literal[Absent.ABSENT]:
    """Replace the record `seen` by `run`, or create it if `seen` is ABSENT.  A result of ABSENT
    means failed or unknown; the caller reads again.  One request."""
    condition: Condition = ABSENT if seen is ABSENT else Matches(seen.version)
    raw = wire.encode_pairs(
        {
            "state": run.state,
            "condemned_ns": str(run.condemned_ns),
            "count": str(run.count),
            "size": str(run.size),
        }
    )
    try:
        outcome = kv.set_if(space(repository), run_key(run.id), raw, stamp, condition)
    except OutcomeUnknown:
        return ABSENT
    return VersionedRun(run, stamp) if landed(outcome, stamp) else ABSENT


def _decode(id: str, row: Row) -> VersionedRun:
    pairs = wire.decode_pairs(row.value)
    numbers = (int(pairs[name]) for name in ("condemned_ns", "count", "size"))
    return VersionedRun(Run(id, RunState(pairs["state"]), *numbers), row.version)
