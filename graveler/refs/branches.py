"""Branch records: head, staging token and sealed tokens of a branch, changed by compare-and-swap.

    absent ──create──► live ──swap──► live ──delete──► deleted ──create──► live      rev grows

Each swap names the version that it replaces.  A deletion moves the record to another key, where no
list of branches meets it.  There it stays until no duplicate of its creation can be in flight
(engine/janitor.py), because a creation names what it found at both keys.
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
    Guarded,
    Matches,
    Moved,
    Paired,
    Place,
    Row,
    Store,
    Write,
    landed,
)
from graveler.refs import rows
from graveler.refs.keys import BRANCHES, branch_key, deleted_branch_key, space


class NamedBranch(NamedTuple):
    """A branch record with its name."""

    id: BranchId
    branch: Branch


def place(repository: Repository, branch: BranchId) -> Place:
    """The place of the record of a live branch, for conditions on it."""
    return space(repository), branch_key(branch)


def deleted_place(repository: Repository, branch: BranchId) -> Place:
    """The place of the record of a deleted branch.  A branch that was created since leaves it."""
    return space(repository), deleted_branch_key(branch)


def decode(row: Row) -> Versioned:
    """The branch that a row holds.  Raises `Corrupt`."""
    return Versioned(wire.decode_branch(row.value), row.version)


def find(kv: Store, repository: Repository, branch: BranchId) -> Versioned | Literal[Absent.ABSENT]:
    """The record, also of a deleted branch; ABSENT if there is none.  Never cached.  One request,
    two if the branch is not live."""
    live = find_live(kv, repository, branch)
    if live is not ABSENT:
        return live
    row = kv.get(*deleted_place(repository, branch))  # second: a deletion in between is seen
    return ABSENT if row is ABSENT else decode(row)


def find_live(
    kv: Store, repository: Repository, branch: BranchId
) -> Versioned | Literal[Absent.ABSENT]:
    """The record of a live branch; ABSENT if there is none.  Never cached.  One request."""
    row = kv.get(*place(repository, branch))
    return ABSENT if row is ABSENT else decode(row)


def is_live(kv: Store, repository: Repository, branch: BranchId) -> bool:
    """Whether the branch exists now.  One request."""
    return find_live(kv, repository, branch) is not ABSENT


def swap(
    kv: Store,
    repository: Repository,
    branch: BranchId,
    seen: Versioned | Literal[Absent.ABSENT],
    new: Branch,
    stamp: bytes,
) -> Versioned | Literal[Absent.ABSENT]:
    """Replace the record `seen`, as `find` returned it, and return the new record.  A `new` that is
    not live deletes the branch; a live one over ABSENT or over a deleted one creates it.

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
    written and never will be.  Raises `OutcomeUnknown`.  `companion`: beside a live record that
    replaces a live one."""
    live, gone = place(repository, branch), deleted_place(repository, branch)
    condition: Condition
    if seen is ABSENT:
        condition = Guarded(ABSENT, gone, ABSENT)
    elif not seen.branch.live:
        condition = Guarded(ABSENT, gone, seen.version)
    elif not new.live:
        condition = Moved(live, seen.version)
    elif companion is ABSENT:
        condition = Matches(seen.version)
    else:
        condition = Paired(Matches(seen.version), companion.condition, companion.write)
    at = live if new.live else gone
    outcome = kv.set_if(*at, wire.encode_branch(new), stamp, condition)
    if outcome is WRITTEN or landed(outcome, stamp):
        return Versioned(new, stamp)
    return outcome


def list_page(
    kv: Store, repository: Repository, prefix: str, after: str, amount: int, show_hidden: bool
) -> tuple[tuple[NamedBranch, ...], bool]:
    """At most `amount` live branches by name, with `prefix` and after `after`; and whether more
    follow.  Hidden branches are included only with `show_hidden`."""

    def shown(name: str, row: Row) -> NamedBranch | None:
        named = _named(name, row)
        return None if named.branch.hidden and not show_hidden else named

    stretch = rows.Stretch(space(repository), BRANCHES, prefix, after)
    return rows.page(kv, stretch, amount, shown)


def every(kv: Store, repository: Repository) -> Iterator[NamedBranch]:
    """All live branches by name, hidden ones too.  One request for each 1,000."""
    return rows.every(kv, rows.Stretch(space(repository), BRANCHES), _named)


def _named(name: str, row: Row) -> NamedBranch:
    return NamedBranch(BranchId(name), wire.decode_branch(row.value))
