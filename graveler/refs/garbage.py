"""Records of garbage collection: runs, condemned content, retention rules, sizes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal, NamedTuple

from graveler.core import wire
from graveler.core.clock import Ids
from graveler.core.errors import NotFound, OutcomeUnknown
from graveler.core.ids import BranchId, CommitId
from graveler.core.records import ABSENT, Absent, Repository
from graveler.kv.replace import replace_row
from graveler.kv.store import Condition, Matches, Row, Store, Write, landed
from graveler.refs import rows
from graveler.refs.keys import (
    CONDEMNED,
    RUNS,
    UNREACHED,
    condemned_key,
    run_key,
    setting_key,
    space,
    unreached_key,
)

# ---- runs ------------------------------------------------------------------------------------


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


def get_run(kv: Store, repository: Repository, run: str) -> VersionedRun:
    """The record of a run.  Raises `NotFound`.  One request."""
    row = kv.get(space(repository), run_key(run))
    if row is ABSENT:
        raise NotFound(f"run of garbage collection not found: run={run}")
    return _decode_run(run, row)


def list_runs(kv: Store, repository: Repository) -> Iterator[VersionedRun]:
    """Every run, oldest first.  One request for each 1,000."""
    for name, row in rows.rows(kv, rows.Stretch(space(repository), RUNS)):
        yield _decode_run(name, row)


def put_run(
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


def _decode_run(id: str, row: Row) -> VersionedRun:
    pairs = wire.decode_pairs(row.value)
    numbers = (int(pairs[name]) for name in ("condemned_ns", "count", "size"))
    return VersionedRun(Run(id, RunState(pairs["state"]), *numbers), row.version)


# ---- marks -----------------------------------------------------------------------------------

# The run of a mark that a restore has made.  No run has this id: runs have letters and digits only.
# It stands like a run that has deleted its files.
RESTORED: Final = "of-a-restore"


class DeletedContent(StrEnum):
    """What was deleted of a condemned commit, or is about to be deleted."""

    NOTHING = ""
    OBJECTS = "objects"  # its metarange and ranges stay
    ALL = "all"


class Mark(NamedTuple):
    """The run that condemned the commit or metarange, the time, and what of it is deleted."""

    run: str
    since_ns: int
    spent: DeletedContent = DeletedContent.NOTHING


def find_mark(kv: Store, repository: Repository, id: str) -> Mark | Literal[Absent.ABSENT]:
    """The mark of a commit or metarange; ABSENT if there is none.  One request."""
    row = kv.get(space(repository), condemned_key(id))
    return ABSENT if row is ABSENT else _decode_mark(row)


def list_marks(kv: Store, repository: Repository) -> Iterator[tuple[str, Mark]]:
    """Every mark by id.  One request for each 1,000."""
    for id, row in rows.rows(kv, rows.Stretch(space(repository), CONDEMNED)):
        yield id, _decode_mark(row)


def put_mark(kv: Store, repository: Repository, ids: Iterable[str], mark: Mark, fresh: Ids) -> None:
    """Store the same mark for all `ids`.  One request for each 1,000; may be repeated."""
    put_marks(kv, repository, {id: mark for id in ids}, fresh)


def put_marks(kv: Store, repository: Repository, marks: Mapping[str, Mark], fresh: Ids) -> None:
    """Store marks.  One request for each 1,000; may be repeated."""
    partition = space(repository)
    writes = [
        Write(partition, condemned_key(id), _encode_mark(mark), fresh.stamp())
        for id, mark in marks.items()
    ]
    rows.put_all(kv, writes)


def forget_marks(kv: Store, repository: Repository, ids: Iterable[str]) -> None:
    """Remove marks.  One request for each 1,000."""
    keys = [condemned_key(id) for id in ids]
    if keys:
        kv.delete(space(repository), keys)


def _encode_mark(mark: Mark) -> bytes:
    pairs = {"run": mark.run, "since_ns": str(mark.since_ns)}
    return wire.encode_pairs(pairs | ({"spent": mark.spent} if mark.spent else {}))


def _decode_mark(row: Row) -> Mark:
    pairs = wire.decode_pairs(row.value)
    return Mark(pairs["run"], int(pairs["since_ns"]), DeletedContent(pairs.get("spent", "")))


# ---- retention -------------------------------------------------------------------------------

FOREVER: Final = 0  # days
UNREACHABLE_DAYS_DEFAULT: Final = 7
_RETENTION = "retention"
_BRANCH = "branch:"


@dataclass(frozen=True, slots=True)
class Retention:
    """The number of days that a commit is kept after another commit followed it; 0: for ever.

    `default_days` is for all branches that `branches` does not name.  `unreachable_days` is for
    commits that no branch and no tag leads to; it counts from the time when garbage collection
    first found the commit so.
    """

    default_days: int = FOREVER
    unreachable_days: int = UNREACHABLE_DAYS_DEFAULT
    branches: Mapping[BranchId, int] = field(default_factory=dict)

    def days(self, branch: BranchId) -> int:
        """The number of days of a branch."""
        return self.branches.get(branch, self.default_days)


def get_retention(kv: Store, repository: Repository) -> Retention:
    """The rule.  If none is set, the default: no commit expires that a branch or tag leads to.  One
    request."""
    rule = find_retention(kv, repository)
    return Retention() if rule is ABSENT else rule


def find_retention(kv: Store, repository: Repository) -> Retention | Literal[Absent.ABSENT]:
    """The rule; ABSENT if none is set.  One request."""
    row = kv.get(space(repository), setting_key(_RETENTION))
    pairs = {} if row is ABSENT else wire.decode_pairs(row.value)
    if not pairs:
        return ABSENT
    branches = {
        BranchId(name[len(_BRANCH) :]): int(days)
        for name, days in pairs.items()
        if name.startswith(_BRANCH)
    }
    return Retention(int(pairs["default_days"]), int(pairs["unreachable_days"]), branches)


def put_retention(kv: Store, repository: Repository, retention: Retention, ids: Ids) -> None:
    """Replace the whole rule atomically.  Two requests."""
    pairs = {
        "default_days": str(retention.default_days),
        "unreachable_days": str(retention.unreachable_days),
        **{_BRANCH + name: str(days) for name, days in retention.branches.items()},
    }
    _replace(kv, repository, pairs, ids)


def end_retention(kv: Store, repository: Repository, ids: Ids) -> None:
    """Remove the rule.  The row stays, with an empty value and a new version, so a late duplicate
    of `put` fails.  Two requests."""
    _replace(kv, repository, {}, ids)


def _replace(kv: Store, repository: Repository, pairs: dict[str, str], ids: Ids) -> None:
    raw = wire.encode_pairs(pairs)
    replace_row(kv, (space(repository), setting_key(_RETENTION)), ids, lambda row, lost: raw)


# ---- sizes -----------------------------------------------------------------------------------

_SIZE: Final = "collection_size"


class Size(NamedTuple):
    """The number of listed files and of commits that were read, and when.  `given_up`: no worker
    had enough time or memory; then the numbers are those of the run before, or 0."""

    files: int
    commits: int
    at_ns: int
    given_up: bool = False


def find_size(kv: Store, repository: Repository) -> Size | Literal[Absent.ABSENT]:
    """The size that the last collection found; ABSENT if there was none.  One request."""
    row = kv.get(space(repository), setting_key(_SIZE))
    if row is ABSENT:
        return ABSENT
    pairs = wire.decode_pairs(row.value)
    files, commits, at_ns = (int(pairs[name]) for name in ("files", "commits", "at_ns"))
    return Size(files, commits, at_ns, given_up="given_up" in pairs)


def put_size(kv: Store, repository: Repository, size: Size, stamp: bytes) -> None:
    """Store the size.  One request; may be repeated."""
    pairs = {"files": str(size.files), "commits": str(size.commits), "at_ns": str(size.at_ns)}
    raw = wire.encode_pairs(pairs | ({"given_up": "1"} if size.given_up else {}))
    kv.set(space(repository), setting_key(_SIZE), raw, stamp)


# ---- unreachable -----------------------------------------------------------------------------


def list_unreachable(kv: Store, repository: Repository) -> Iterator[tuple[CommitId, int]]:
    """Every recorded commit, and since when it is unreachable, in nanoseconds.  One request for
    each 1,000."""
    for id, row in rows.rows(kv, rows.Stretch(space(repository), UNREACHED)):
        yield CommitId(id), int(wire.decode_pairs(row.value)["since_ns"])


def put_unreachable(
    kv: Store, repository: Repository, commits: Iterable[CommitId], since_ns: int, fresh: Ids
) -> None:
    """Record `commits` as unreachable since `since_ns`.  One request for each 1,000; may be
    repeated."""
    partition, raw = space(repository), wire.encode_pairs({"since_ns": str(since_ns)})
    writes = [Write(partition, unreached_key(id), raw, fresh.stamp()) for id in commits]
    rows.put_all(kv, writes)


def forget_unreachable(kv: Store, repository: Repository, commits: Iterable[CommitId]) -> None:
    """Remove the records.  One request for each 1,000."""
    keys = [unreached_key(id) for id in commits]
    if keys:
        kv.delete(space(repository), keys)
