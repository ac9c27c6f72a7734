"""Branch records: the one thing that changes by compare-and-swap, and what everything hangs on.

    absent ──create──► live ──swap──► live ──delete──► deleted ──create──► live      rev grows

A deleted branch's record stays until no duplicate of its creation can be on its way (purging.py):
such a one fails until then.  The version of the
stored row, a fresh stamp of each swap, is what the next swap must name.  For the engine.
"""

from typing import Literal, NamedTuple

from graveler import wire
from graveler.errors import OutcomeUnknown
from graveler.ids import BranchId
from graveler.kv.store import WRITTEN, Condition, Declined, Matches, Place, Row, Store
from graveler.records import ABSENT, Absent, Branch, Repository, Versioned
from graveler.refs import rows
from graveler.refs.keys import BRANCHES, branch_key, space


class NamedBranch(NamedTuple):
    """A branch record with its name."""

    id: BranchId
    branch: Branch


def place(repository: Repository, branch: BranchId) -> Place:
    """Where the record lies, for conditions on it."""
    return space(repository), branch_key(branch)


def decode(row: Row) -> Versioned:
    """The branch that a row holds.  Raises `Corrupt`."""
    return Versioned(wire.decode_branch(row.value), row.version)


def find(kv: Store, repository: Repository, branch: BranchId) -> Versioned | Literal[Absent.ABSENT]:
    """The record, also that of a deleted branch; always fresh.  One request."""
    row = kv.get(space(repository), branch_key(branch))
    return ABSENT if row is ABSENT else decode(row)


def swap(
    kv: Store,
    repository: Repository,
    branch: BranchId,
    seen: Versioned | Literal[Absent.ABSENT],
    new: Branch,
    stamp: bytes,
) -> Versioned | Literal[Absent.ABSENT]:
    """Replace the record that was seen (or create it where none was) and answer the new one.

    ABSENT means failed *or unknown*: the write may have landed, now or later, and may have been
    swapped away since.  The caller reads again and looks for its own token or commit; it never
    undoes anything.  One request; `stamp` must be fresh.
    """
    try:
        swapped = attempt(kv, repository, branch, seen, new, stamp)
    except OutcomeUnknown:
        return ABSENT
    return ABSENT if isinstance(swapped, Declined) else swapped


def attempt(
    kv: Store,
    repository: Repository,
    branch: BranchId,
    seen: Versioned | Literal[Absent.ABSENT],
    new: Branch,
    stamp: bytes,
) -> Versioned | Declined:
    """As `swap`, for who must tell them apart: `Declined` has not landed and never will;
    `OutcomeUnknown` is raised."""
    condition: Condition = ABSENT if seen is ABSENT else Matches(seen.version)
    raw = wire.encode_branch(new)
    outcome = kv.set_if(space(repository), branch_key(branch), raw, stamp, condition)
    if outcome is WRITTEN:
        return Versioned(new, stamp)
    ours = outcome.current is not ABSENT and outcome.current.version == stamp
    return Versioned(new, stamp) if ours else outcome


def list_page(
    kv: Store, repository: Repository, prefix: str, after: str, amount: int, show_hidden: bool
) -> tuple[tuple[NamedBranch, ...], bool]:
    """Live branches by name, hidden ones only if asked for; whether more follow."""

    def shown(name: str, row: Row) -> NamedBranch | None:
        branch = wire.decode_branch(row.value)
        visible = branch.live and (show_hidden or not branch.hidden)
        return NamedBranch(BranchId(name), branch) if visible else None

    stretch = rows.Stretch(space(repository), BRANCHES, prefix, after)
    return rows.page(kv, stretch, amount, shown)
