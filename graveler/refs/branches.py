"""Branch records: head, staging token and sealed tokens of a branch, changed by compare-and-swap.

    absent ──create──► live ──swap──► live ──delete──► deleted ──create──► live      rev grows

Each swap names the version that it replaces.  The record of a deleted branch stays until no
duplicate of its creation can be in flight (engine/janitor.py).
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from graveler.core import wire
from graveler.core.errors import OutcomeUnknown
from graveler.core.ids import BranchId
from graveler.core.records import ABSENT, Absent, Branch, Repository, Versioned
from graveler.kv.store import (
    WRITTEN,
    Condition,
    Declined,
    Matches,
    Paired,
    Place,
    Row,
    Store,
    Write,
    landed,
)
from graveler.refs import rows
from graveler.refs.keys import BRANCHES, branch_key, space


class NamedBranch(NamedTuple):
    """A branch record with its name."""

    id: BranchId
    branch: Branch


def place(repository: Repository, branch: BranchId) -> Place:
    """The place of the branch record, for conditions on it."""
    return space(repository), branch_key(branch)


def decode(row: Row) -> Versioned:
    """The branch that a row holds.  Raises `Corrupt`."""
    return Versioned(wire.decode_branch(row.value), row.version)


def find(kv: Store, repository: Repository, branch: BranchId) -> Versioned | Literal[Absent.ABSENT]:
    """The record, also of a deleted branch; ABSENT if there is none.  Never cached.  One
    request."""
    row = kv.get(space(repository), branch_key(branch))
    return ABSENT if row is ABSENT else decode(row)


def is_live(kv: Store, repository: Repository, branch: BranchId) -> bool:
    """Whether the branch exists now.  One request."""
    seen = find(kv, repository, branch)
    return seen is not ABSENT and seen.branch.live


def swap(
    kv: Store,
    repository: Repository,
    branch: BranchId,
    seen: Versioned | Literal[Absent.ABSENT],
    new: Branch,
    stamp: bytes,
) -> Versioned | Literal[Absent.ABSENT]:
    """Replace the record `seen`, or create one if `seen` is ABSENT, and return the new record.

    ABSENT means failed *or unknown*: the write may have been applied or may still be applied, and
    it may have been replaced since.  The caller reads again and looks for its own token or commit;
    it never undoes anything.  One request.  `stamp` must be fresh.
    """
    try:
        swapped = attempt(kv, repository, branch, seen, new, stamp)
    except OutcomeUnknown:
        return ABSENT
    return ABSENT if isinstance(swapped, Declined) else swapped


class CompanionRow(NamedTuple):
    """Another row that is written in one step with a branch record, if its `condition` holds too.
    The versions of its place never come back."""

    condition: Matches | Literal[Absent.ABSENT]
    write: Write


def attempt(
    kv: Store,
    repository: Repository,
    branch: BranchId,
    seen: Versioned | Literal[Absent.ABSENT],
    new: Branch,
    stamp: bytes,
    companion: CompanionRow | Literal[Absent.ABSENT] = ABSENT,
) -> Versioned | Declined:
    """As `swap`, for callers that must distinguish failed from unknown.  `Declined`: nothing was
    written and never will be.  Raises `OutcomeUnknown`."""
    own: Matches | Literal[Absent.ABSENT] = ABSENT if seen is ABSENT else Matches(seen.version)
    condition: Condition = own
    if companion is not ABSENT:
        condition = Paired(own, companion.condition, companion.write)
    raw = wire.encode_branch(new)
    outcome = kv.set_if(space(repository), branch_key(branch), raw, stamp, condition)
    if outcome is WRITTEN or landed(outcome, stamp):
        return Versioned(new, stamp)
    return outcome


def list_page(
    kv: Store, repository: Repository, prefix: str, after: str, amount: int, show_hidden: bool
) -> tuple[tuple[NamedBranch, ...], bool]:
    """At most `amount` live branches by name, with `prefix` and after `after`; and whether more
    follow.  Hidden branches are included only with `show_hidden`."""

    def shown(name: str, row: Row) -> NamedBranch | None:
        named = _live(name, row)
        return None if named is not None and named.branch.hidden and not show_hidden else named

    stretch = rows.Stretch(space(repository), BRANCHES, prefix, after)
    return rows.page(kv, stretch, amount, shown)


def every(kv: Store, repository: Repository) -> Iterator[NamedBranch]:
    """All live branches by name, hidden ones too.  One request for each 1,000."""
    return rows.every(kv, rows.Stretch(space(repository), BRANCHES), _live)


def _live(name: str, row: Row) -> NamedBranch | None:
    branch = wire.decode_branch(row.value)
    return NamedBranch(BranchId(name), branch) if branch.live else None
