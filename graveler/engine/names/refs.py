"""What a ref expression names: its type, its commit, and whether anything is uncommitted."""

from typing import NamedTuple

from graveler.engine.commits.diff import is_dirty
from graveler.engine.commits.heads import resolved
from graveler.engine.ports import OpenRepository
from graveler.ids import BranchId, CommitId
from graveler.records import ABSENT
from graveler.refs.names.expression import parse
from graveler.refs.names.resolve import Kind


class RefView(NamedTuple):
    """What an expression names.

    - `kind`: `branch` for a branch with its uncommitted changes, `tag` for the name of a tag;
      anything with another modifier is a `commit`.
    - `branch`: the branch with which the expression begins; empty if it begins with something else.
    - `dirty`: the expression names a branch that has uncommitted changes.
    """

    kind: Kind
    commit: CommitId
    branch: BranchId
    dirty: bool


def get_ref(repo: OpenRepository, text: str) -> RefView:
    """What the expression `text` names now.

    Errors: `NotFound`, `Invalid`, `Unavailable` after the deadline.
    Cost: that of the resolution (1 KV request for a branch, 2 for a tag; `refs/names/resolve.py`),
    and for a branch that of `is_dirty`.
    """
    where = resolved(repo, text)
    if where.staged and where.branch is not ABSENT:
        return RefView("branch", where.commit, where.branch_id, is_dirty(repo, where.branch))
    is_plain = not parse(text).modifiers
    kind: Kind = where.kind if is_plain else "commit"
    return RefView(kind, where.commit, where.branch_id, False)
