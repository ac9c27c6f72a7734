"""Branch records and commits: read them, fresh or cached; swap a record; take turns on a branch.

A *fresh* read is sent to the store after the call and is strongly consistent.  A *cached* record
may be `limits.branch_cache_seconds_max` old; only the first read of a writer may use it.
"""

from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import Literal, TypeVar

from graveler.core.errors import Code, Contended, Gone, Invalid, NotFound, OutcomeUnknown
from graveler.core.identity import commit_id
from graveler.core.ids import NO_COMMIT, BranchId, CommitId, MetarangeId, StagingToken
from graveler.core.records import (
    ABSENT,
    Absent,
    Branch,
    BranchState,
    Commit,
    CommitEntry,
    Versioned,
)
from graveler.core.turns import Call, WaitLimits
from graveler.engine.ports import Deadline, OpenRepository
from graveler.kv.store import Declined
from graveler.refs import branches, commits, garbage, graph, resolve
from graveler.refs.resolve import parse
from graveler.staging import area

Lookup = Callable[[CommitId], Commit]
R = TypeVar("R")
T = TypeVar("T")


def fresh(repo: OpenRepository, branch: BranchId) -> Versioned:
    """The live record, read from the store now.  `NotFound` if absent or deleted.  1 KV request."""
    record = branches.find_live(repo.kv, repo.record, branch)
    if record is ABSENT:
        repo.cache.forget_branch(repo.record, branch)
        raise NotFound(f"branch '{branch}' not found", Code.BRANCH_NOT_FOUND, branch=branch)
    repo.cache.put_branch(repo.record, branch, record)
    return record


def fresh_after(
    repo: OpenRepository, branch: BranchId, action: str, *, is_unconfirmed: bool
) -> Versioned:
    """As `fresh`, after a swap of a verb.

    `is_unconfirmed`: a swap may have landed without an answer.  Then a branch that is gone is
    `OutcomeUnknown` instead of `NotFound`: readers may have seen what the verb did before the
    branch was deleted.
    """
    try:
        return fresh(repo, branch)
    except NotFound as error:
        if is_unconfirmed:
            raise OutcomeUnknown(
                f"branch was deleted during the {action}; outcome unknown: branch={branch}"
            ) from error
        raise


def cached(repo: OpenRepository, branch: BranchId) -> Versioned:
    """A live record that is at most `limits.branch_cache_seconds_max` old.  `NotFound`.

    Cost: no request if it is cached, else 1 KV request.
    """
    known = repo.cache.branch(repo.record, branch)
    return known if known is not ABSENT else fresh(repo, branch)


def swap(repo: OpenRepository, branch: BranchId, seen: Versioned, new: Branch) -> Versioned | None:
    """Compare-and-swap the record `seen` to `new`.  1 KV request.

    None means that the swap is not known to have happened: the caller reads the record again.
    """
    swapped = try_swap(repo, branch, seen, new)
    return None if isinstance(swapped, Declined) else swapped


class SwapOutcome(Enum):
    """What is known about a swap that was sent."""

    LANDED = "landed"
    REFUSED = "did not land and never will"
    UNKNOWN = "got no answer: it may have landed, or may land later"


def send(repo: OpenRepository, branch: BranchId, seen: Versioned, new: Branch) -> SwapOutcome:
    """As `swap`, for verbs that cannot find in the history whether a swap landed.  1 KV request."""
    swapped = try_swap(repo, branch, seen, new)
    if swapped is None:
        return SwapOutcome.UNKNOWN
    return SwapOutcome.REFUSED if isinstance(swapped, Declined) else SwapOutcome.LANDED


def given_up(branch: BranchId, action: str, *, is_unknown: bool) -> Contended | OutcomeUnknown:
    """The error of a verb whose tries are over.  Pure.

    `Contended`: it is certain that no swap of the verb landed or will land.  `is_unknown`: a swap
    got no answer, and what the verb read after it does not tell: `OutcomeUnknown`.
    """
    if is_unknown:
        return OutcomeUnknown(f"{action} not confirmed; outcome unknown: branch={branch}")
    return Contended(f"{action} kept losing; try again: branch={branch}")


def try_swap(
    repo: OpenRepository,
    branch: BranchId,
    seen: Versioned | Literal[Absent.ABSENT],
    new: Branch,
    companion: branches.CompanionRow | Literal[Absent.ABSENT] = ABSENT,
) -> Versioned | Declined | None:
    """As `swap`, but `Declined` means that the swap did not happen and never will.

    With `seen` ABSENT the record is created.  `companion`: a row that is written in the same step.
    None: it got no answer.  1 KV request.
    """
    repo.cache.forget_branch(repo.record, branch)
    with suppress(OutcomeUnknown):
        stamp = repo.ids.stamp()
        swapped = branches.attempt(repo.kv, repo.record, branch, seen, new, stamp, companion)
        if not isinstance(swapped, Declined):
            repo.cache.put_branch(repo.record, branch, swapped)
        return swapped
    return None


def commit_of(repo: OpenRepository, id: CommitId) -> Commit:
    """The commit with this id.  `NotFound`.  1 KV request, or none if it is cached."""
    known = repo.cache.commit(repo.record, id)
    if known is not ABSENT:
        return known
    commit = commits.get(repo.kv, repo.record, id)
    repo.cache.put_commit(repo.record, id, commit)
    return commit


def lookup(repo: OpenRepository) -> Lookup:
    """`commit_of` as a function of the commit id, for the graph functions."""
    return partial(commit_of, repo)


def timed_lookup(repo: OpenRepository, action: str, deadline: Deadline) -> Lookup:
    """`lookup` for a walk of any length: raises `Unavailable` after the deadline."""

    def look(id: CommitId) -> Commit:
        deadline.check(action)
        return commit_of(repo, id)

    return look


def best_base(
    repo: OpenRepository, source: CommitId, destination: CommitId, deadline: Deadline
) -> CommitId | Literal[Absent.ABSENT]:
    """The merge base (`graph.merge_base`) of two commits; ABSENT for unrelated histories.  Raises
    `Unavailable` after the deadline.  The second time it is cached."""
    known = repo.cache.base(repo.record, source, destination)
    if known is not ABSENT:
        return known or ABSENT
    look = timed_lookup(repo, "merge base search", deadline)
    base = graph.merge_base(look, source, destination)
    found = NO_COMMIT if base is ABSENT else base
    repo.cache.put_base(repo.record, source, destination, found)
    return base


def placed(repo: OpenRepository, commit: Commit) -> CommitEntry:
    """A drawn commit at its place in the graph, with its id.  Cost: that of `commit_of` for each
    parent and a few ancestors."""
    drawn = graph.positioned(lookup(repo), commit)
    return CommitEntry(commit_id(drawn), drawn)


def resolved(repo: OpenRepository, ref: str) -> resolve.ResolvedRef:
    """The commit, and the branch if any, that a ref expression means now.

    Cost: 1 KV request for a plain name.
    """
    return resolve.resolve(repo.kv, repo.record, ref, lookup(repo))


def committed(repo: OpenRepository, ref: str, field: str = "ref") -> resolve.ResolvedRef:
    """As `resolved`, for a verb that takes a commit and would ignore uncommitted changes.  Raises
    `Invalid` for `main$`, which names them."""
    if any(modifier.kind == "$" for modifier in parse(ref).modifiers):
        raise Invalid(
            f"{field} invalid: it must not end in '$', which names uncommitted changes; commit "
            f"them, and leave out the '$': {field}={ref!r}"
        )
    return resolved(repo, ref)


def head_of(repo: OpenRepository, ref: str) -> CommitEntry:
    """The commit that `ref` means; a branch name means its head."""
    id = resolved(repo, ref).commit
    return CommitEntry(id, commit_of(repo, id))


def check_kept(repo: OpenRepository, *ids: CommitId | MetarangeId) -> None:
    """Raises `Gone` if garbage collection has condemned one of these commits or metaranges.

    A verb calls this before it uses the content of a commit that may not be the head of a branch.
    Cost: no request if the repository was never collected; else 1 KV request for each id.
    """
    if not repo.record.collected:
        return
    for id in ids:
        if garbage.find_mark(repo.kv, repo.record, id) is not ABSENT:
            raise Gone(f"commit expired: its content is condemned: id={id}")


def new_token(repo: OpenRepository, rows: int) -> StagingToken:
    """A new unique staging token with enough shards for `rows` rows.

    One shard holds `staging_shard_rows` rows.  The token has at least the number of shards that the
    repository was created with; above that, at most `staging_shards_max`.  It gets no more than it
    needs, because each listing and each commit sends requests for an empty shard too.
    """
    needed = -(-rows // repo.settings.staging_shard_rows)
    shards = max(repo.record.staging_shards, min(needed, repo.settings.staging_shards_max))
    return area.new_token(repo.clock, repo.ids, shards)


def in_turn(repo: OpenRepository, branch: BranchId, deadline: Deadline, call: Call[R, T]) -> T:
    """The result of a call that moves the head of a branch: in its turn among those of this
    process, or as a follower (`graveler.core.turns`).

    Errors: those of the work, which checks the deadline first.  Cost: no request.
    """
    limits = WaitLimits(repo.settings.turn_seconds_max, deadline.remaining_seconds)
    return repo.turns.run((repo.record.uid, branch), call, limits)


def first_record(
    repo: OpenRepository,
    seen: Versioned | Literal[Absent.ABSENT],
    commit: CommitId,
    token: StagingToken,
    *,
    hidden: bool = False,
) -> Branch:
    """The record with which a branch begins, over that of a deleted one of its name."""
    rev, rest = (0, b"") if seen is ABSENT else (seen.branch.rev, seen.branch.rest)
    return Branch(
        rev=rev + 1,
        state=BranchState.LIVE,
        staging=token,
        sealed=(),
        commit=commit,
        hidden=hidden,
        changed_ns=repo.clock.now_ns(),
        origin=token,
        rest=rest,
    )
