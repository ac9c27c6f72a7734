"""Branch records and commits as the verbs read them: fresh or cached, never in between.

A *fresh* read is sent after the caller's decision to read and answers from the store itself (a
writer's second read
relies on it: docs/protocol.md); it refreshes the cache.  A *cached* record may be some seconds
old: only the first read
of a writer may take it.  Commits never change, so their cache is never wrong.  Used by every verb
of this package.
"""

from collections.abc import Callable
from contextlib import suppress

from graveler.engine.ports import Deadline, Ports
from graveler.errors import Gone, NotFound, OutcomeUnknown
from graveler.ids import BranchId, CommitId, MetarangeId, StagingToken
from graveler.kv.store import Declined
from graveler.records import ABSENT, Branch, Commit, CommitEntry, Repository, Versioned
from graveler.refs.gc import marks
from graveler.refs.graph import commits
from graveler.refs.names import branches, resolve
from graveler.staging import area

Lookup = Callable[[CommitId], Commit]


def fresh(ports: Ports, repo: Repository, branch: BranchId) -> Versioned:
    """The live record as it is now; `NotFound` if absent or deleted.  One request."""
    found = branches.find(ports.kv, repo, branch)
    if found is ABSENT or not found.branch.live:
        ports.cache.forget_branch(repo, branch)
        raise NotFound(f"branch '{branch}' not found")
    ports.cache.put_branch(repo, branch, found)
    return found


def cached(ports: Ports, repo: Repository, branch: BranchId) -> Versioned:
    """A live record that was true some seconds ago at most; no request when it is cached."""
    known = ports.cache.branch(repo, branch)
    return known if known is not ABSENT else fresh(ports, repo, branch)


def swap(
    ports: Ports, repo: Repository, branch: BranchId, seen: Versioned, new: Branch
) -> Versioned | None:
    """Compare-and-swap `seen` into `new`; None: not known to have happened, read again.  One
    request."""
    with suppress(OutcomeUnknown):
        swapped = attempt(ports, repo, branch, seen, new)
        if not isinstance(swapped, Declined):
            return swapped
    return None


def attempt(
    ports: Ports, repo: Repository, branch: BranchId, seen: Versioned, new: Branch
) -> Versioned | Declined:
    """As `swap`, but `Declined` has not happened and never will; raises `OutcomeUnknown`."""
    ports.cache.forget_branch(repo, branch)
    swapped = branches.attempt(ports.kv, repo, branch, seen, new, ports.ids.stamp())
    if not isinstance(swapped, Declined):
        ports.cache.put_branch(repo, branch, swapped)
    return swapped


def commit_of(ports: Ports, repo: Repository, commit_id: CommitId) -> Commit:
    """One request, or none when it is cached; `NotFound`."""
    known = ports.cache.commit(repo, commit_id)
    if known is not ABSENT:
        return known
    found = commits.get(ports.kv, repo, commit_id)
    ports.cache.put_commit(repo, commit_id, found)
    return found


def lookup(ports: Ports, repo: Repository) -> Lookup:
    """`commit_of` for the graph functions."""
    return lambda commit_id: commit_of(ports, repo, commit_id)


def timed_lookup(ports: Ports, repo: Repository, what: str, deadline: Deadline) -> Lookup:
    """`lookup` for a walk of any length: `Unavailable` once its time is over."""

    def look(commit_id: CommitId) -> Commit:
        deadline.check(what)
        return commit_of(ports, repo, commit_id)

    return look


def resolved(ports: Ports, repo: Repository, ref: str) -> resolve.Resolved:
    """What a ref expression means now.  One request for a plain name."""
    return resolve.resolve(ports.kv, repo, ref, lookup(ports, repo))


def head_of(ports: Ports, repo: Repository, ref: str) -> CommitEntry:
    """The commit that `ref` stands for; a branch name means its head."""
    commit_id = resolved(ports, repo, ref).commit
    return CommitEntry(commit_id, commit_of(ports, repo, commit_id))


def check_kept(ports: Ports, repo: Repository, *ids: CommitId | MetarangeId) -> None:
    """Raises `Gone` if content is to be used that garbage collection has condemned.

    Asked before anything is made of a commit that need not stay the head of a branch.  No request
    where nothing was ever collected, else one an id.
    """
    if not repo.collected:
        return
    for id in ids:
        if marks.find(ports.kv, repo, id) is not ABSENT:
            raise Gone(f"expired: its content is condemned to be deleted: id={id}")


def new_token(ports: Ports, repo: Repository, rows: int) -> StagingToken:
    """A staging token that nobody else has, with the shards that `rows` rows need.

    As many as the repository was made with at least, and no more than the deployment lets them grow
    to otherwise: an empty shard costs every listing and every commit its requests all the same.
    """
    needed = -(-rows // ports.settings.staging_shard_rows)
    shards = max(repo.staging_shards, min(needed, ports.settings.staging_shards_max))
    return area.new_token(ports.clock, ports.ids, shards)
