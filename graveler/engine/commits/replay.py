"""Revert and cherry-pick: undo or repeat the change of one commit on a branch.

    revert       merge into the head:  source = a parent of the commit,  base = the commit
    cherry-pick  merge into the head:  source = the commit,              base = a parent of it

Both are three-way merges; the new commit has the head as its only parent.  If the commit is a
merge, the caller names the parent to compare it with (1-based).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from graveler.committed import diff
from graveler.committed import merge as trees
from graveler.committed.ranges import Keyspace
from graveler.engine.commits import land
from graveler.engine.commits.heads import check_kept, commit_of, committed
from graveler.engine.commits.merge import check_conflicts
from graveler.engine.commits.messages import check_message, check_metadata
from graveler.engine.hooks import CHERRY_PICK, REVERT
from graveler.engine.ports import (
    Deadline,
    OpenRepository,
    check_writable,
    given_or_now,
    keyspace,
)
from graveler.errors import Code, Conflict, Invalid, NoChanges
from graveler.ids import BranchId, CommitId, MetarangeId, parse_branch_id
from graveler.records import ABSENT, Absent, Commit, CommitEntry, Repository

ORIGIN_KEY = "cherry-pick-origin"
COMMITTER_KEY = "cherry-pick-committer"


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """The caller's choices for one revert or cherry-pick.

    - `parent_number`: 1-based; 0 means the only parent.
    - `message`: empty means the default: `Revert <ref>`, or the message of the picked commit.
    - `metadata`: ABSENT means the metadata of the picked commit; for a revert, none.
    - `allow_empty`: make a commit even if nothing changes.
    - `created_ns`: ABSENT means now.
    """

    committer: str
    parent_number: int = 0
    message: str = ""
    metadata: Mapping[str, str] | Literal[Absent.ABSENT] = ABSENT
    allow_empty: bool = False
    created_ns: int | Literal[Absent.ABSENT] = ABSENT


def revert(
    repo: OpenRepository, branch: str, ref: str, request: ReplayRequest, *, force: bool = False
) -> CommitEntry:
    """Make a commit on `branch` that undoes the change of the commit `ref`.  Atomic.

    Errors: `Conflict` (a merge commit without a parent number; a path that changed since),
    `NoChanges`, `DirtyBranch`, `NotFound`, `Gone` (the commit or its parent has expired),
    `Invalid` (a root commit, for example), `Refused`, `HookFailed`, `Contended`, `Unavailable`
    after the deadline.
    """
    name = _checked(repo.record, branch, request, force)
    target_id = committed(repo, ref).commit
    target = CommitEntry(target_id, commit_of(repo, target_id))
    check_kept(repo, target.id)
    if len(target.commit.parents) > 1 and request.parent_number == 0:
        raise Conflict(
            "must specify 1-based parent number for reverting merge commit",
            Code.PARENT_NUMBER_MISSING,
        )
    parent_id = _parent(target, request.parent_number)
    check_kept(repo, parent_id)  # the new commit takes its content from the parent
    parent = commit_of(repo, parent_id).metarange

    space = _timed(repo, "revert")

    def build(head: CommitEntry) -> Commit:
        metarange = _replayed(space, target.commit.metarange, parent, head.commit.metarange, name)
        _check_changed(space, head, metarange, request, name)
        return Commit(
            committer=request.committer,
            message=request.message or f"Revert {ref}",
            created_ns=given_or_now(repo, request.created_ns),
            metarange=metarange,
            metadata=_metadata(request, {}),
            parents=(head.id,),
        )

    return land.land(repo, name, build, land.Terms(event=REVERT, source_ref=ref))


def cherry_pick(
    repo: OpenRepository, branch: str, ref: str, request: ReplayRequest, *, force: bool = False
) -> CommitEntry:
    """Make a commit on `branch` that repeats the change of the commit `ref`.  Atomic.

    Errors: as `revert`, but a merge commit without a parent number is `Invalid`, and the parent
    may have expired.
    """
    name = _checked(repo.record, branch, request, force)
    target_id = committed(repo, ref).commit
    target = CommitEntry(target_id, commit_of(repo, target_id))
    check_kept(repo, target.id)
    if len(target.commit.parents) > 1 and request.parent_number == 0:
        raise Invalid(
            "must specify 1-based parent number for cherry-picking merge commit",
            Code.PARENT_NUMBER_MISSING,
        )
    # The merge only compares with the parent, so the parent's objects may have expired.
    parent = commit_of(repo, _parent(target, request.parent_number)).metarange

    space = _timed(repo, "cherry-pick")

    def build(head: CommitEntry) -> Commit:
        metarange = _replayed(space, parent, target.commit.metarange, head.commit.metarange, name)
        _check_changed(space, head, metarange, request, name)
        origin = {ORIGIN_KEY: str(target.id), COMMITTER_KEY: target.commit.committer}
        return Commit(
            committer=request.committer,
            message=request.message or target.commit.message,
            created_ns=given_or_now(repo, request.created_ns),
            metarange=metarange,
            metadata={**_metadata(request, target.commit.metadata), **origin},
            parents=(head.id,),
        )

    return land.land(repo, name, build, land.Terms(event=CHERRY_PICK, source_ref=ref))


def _checked(repo: Repository, branch: str, request: ReplayRequest, force: bool) -> BranchId:
    name = parse_branch_id(branch)
    check_writable(repo, force)
    check_message(request.message)
    check_metadata(_metadata(request, {}))
    return name


def _metadata(request: ReplayRequest, otherwise: Mapping[str, str]) -> dict[str, str]:
    return dict(otherwise if request.metadata is ABSENT else request.metadata)


def _parent(target: CommitEntry, number: int) -> CommitId:
    parents = target.commit.parents
    if not parents:
        raise Invalid(f"commit has no parent: commit={target.id}", Code.NO_PARENT, commit=target.id)
    if not 0 <= number <= len(parents):
        raise Invalid(f"parent_number out of range: 1 to {len(parents)}: parent_number={number}")
    return parents[max(number, 1) - 1]


def _timed(repo: OpenRepository, action: str) -> Keyspace:
    """A keyspace that checks a deadline of `commit_seconds_max` before it opens each range."""
    deadline = Deadline(repo.clock, repo.settings.commit_seconds_max)
    return keyspace(repo, deadline.checking(action))


def _replayed(
    space: Keyspace,
    base: MetarangeId,
    source: MetarangeId,
    destination: MetarangeId,
    branch: BranchId,
) -> MetarangeId:
    """The metarange of the three-way merge."""
    merged = trees.merge(space, base, source, destination)
    check_conflicts(merged, f"update branch {branch}")
    return merged.metarange_id


def _check_changed(
    space: Keyspace,
    head: CommitEntry,
    metarange: MetarangeId,
    request: ReplayRequest,
    branch: BranchId,
) -> None:
    """Raises `NoChanges` if the new content equals the head, unless the request allows that.

    `metarange`: the metarange of the new commit.  The check compares content, because equal content
    may have two metarange ids.
    """
    if request.allow_empty:
        return
    if diff.is_equal(space, head.commit.metarange, metarange):
        raise NoChanges(f"update branch {branch}: no changes", branch=branch)
