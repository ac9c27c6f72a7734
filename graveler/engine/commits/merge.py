"""Merge, revert and cherry-pick: three-way merges into the head of a branch, as one commit.

    merge        source = a ref,                   base = the merge base
    revert       source = a parent of the commit,  base = the commit
    cherry-pick  source = the commit,              base = a parent of it

Each path takes the side that changed; if both changed, it conflicts, or takes the side named.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, NamedTuple, get_args

from graveler.committed import diff, reader
from graveler.committed import merge as trees
from graveler.committed.merge import MergeResult, Resolutions
from graveler.committed.ranges import Keyspace
from graveler.core import limits
from graveler.core.errors import Code, Conflict, Invalid, MergeConflict, NoChanges
from graveler.core.ids import (
    NO_METARANGE,
    BranchId,
    CommitId,
    MetarangeId,
    parse_branch_id,
    parse_prefix,
)
from graveler.core.records import (
    ABSENT,
    Absent,
    Commit,
    CommitEntry,
    Difference,
    Entry,
    Repository,
    Strategy,
)
from graveler.engine.commits import land
from graveler.engine.commits.diff import (
    NARROWER,
    DiffPage,
    DiffQuery,
    base_metarange,
    page_of,
    version_of,
)
from graveler.engine.commits.heads import best_base, check_kept, commit_of, committed, head_of
from graveler.engine.commits.search import Once
from graveler.engine.hooks import CHERRY_PICK, MERGE, REVERT
from graveler.engine.ports import (
    Deadline,
    OpenRepository,
    Ports,
    check_message,
    check_metadata,
    check_writable,
    given_or_now,
    keyspace,
    operation_deadline,
    page_end,
)

Side = Literal["source", "dest"]
# Keys of the commit's metadata.
STRATEGY_KEY = ".lakefs.merge.strategy"
RESOLUTIONS_KEY = ".graveler.merge.resolutions"
_WINNERS: Final[Mapping[str, Strategy]] = {"source": "source-wins", "dest": "dest-wins"}

# Arguments: space, base, source, destination, first key, prefix.
_Differences = Callable[
    [Keyspace, MetarangeId, MetarangeId, MetarangeId, bytes, bytes], Iterator[Difference]
]
ORIGIN_KEY = "cherry-pick-origin"
COMMITTER_KEY = "cherry-pick-committer"


class MergeRequest(NamedTuple):
    """The caller's choices for one merge.

    - `message`: empty means the default message.
    - `strategy`: `dest-wins`, `source-wins`, or empty: a conflict refuses the merge.
    - `resolutions`: prefixes of paths, each with the side that its conflicts take.  They precede
      the strategy.  The commit's metadata records them.
    - `squash`: the commit has the destination as its only parent.
    - `allow_empty`: make a commit even if the source changed nothing since the merge base.
    - `created_ns`: ABSENT means now.
    - `once`: an idempotency key.  If the branch already has a commit with this key, that commit is
      returned.
    """

    committer: str
    message: str = ""
    metadata: Mapping[str, str] = {}
    strategy: str = ""
    resolutions: Mapping[str, Side] = {}
    squash: bool = False
    allow_empty: bool = False
    created_ns: int | Literal[Absent.ABSENT] = ABSENT
    once: Once | Literal[Absent.ABSENT] = ABSENT


def merge(
    repo: OpenRepository,
    source: str,
    destination: str,
    request: MergeRequest,
    *,
    force: bool = False,
) -> CommitId:
    """Merge the ref `source` into the branch `destination`.  Atomic.

    A merge always makes a commit; it never fast-forwards.
    Errors: `MergeConflict` (it carries paths; nothing changed), `DirtyBranch`, `NoChanges`,
    `NotFound`, `Gone` (the source has expired), `Invalid`, `Refused`, `HookFailed`, `Contended`,
    and `Unavailable` after the deadline, which is checked before each range.
    Cost on a clean branch with one shard: 4 KV requests, the resolution of the source, 1 KV request
    for each commit that is not cached, and the ranges that changed.
    """
    name = parse_branch_id(destination, "destination_branch")
    check_writable(repo.record, force)
    check_message(request.message)
    check_metadata(request.metadata)
    resolutions = parse_resolutions(request.strategy, request.resolutions)
    source_head = source_of(repo, source, name)
    check_kept(repo, source_head.id)

    deadline = Deadline(repo.clock, repo.settings.commit_seconds_max)

    space = keyspace(repo, deadline.checking("merge"))

    def build(head: CommitEntry) -> Commit:
        base = base_metarange(repo, source_head, head, deadline)
        if not (request.allow_empty or force) and _equals(space, base, source_head):
            raise NoChanges(f"update branch {name}: no changes", branch=name)
        metaranges = base, source_head.commit.metarange, head.commit.metarange
        merged = trees.merge(space, *metaranges, resolutions)
        check_conflicts(merged, f"update branch {name}")
        return _drawn(repo, request, source, name, merged.metarange_id, (head.id, source_head.id))

    terms = land.Terms(once=request.once, event=MERGE, merge_source=source)
    return land.land(repo, name, build, terms).id


def source_of(repo: OpenRepository, source: str, destination: BranchId) -> CommitEntry:
    """The commit that a merge of the ref `source` applies.

    Errors: `NotFound`, `Invalid`: the source is the destination, or ends in `$`.
    """
    target = committed(repo, source, "source")
    if target.branch_id == destination and target.staged:
        raise Invalid(
            f"cannot merge a branch into itself: branch={destination}",
            Code.MERGE_INTO_ITSELF,
            branch=destination,
        )
    return CommitEntry(target.commit, commit_of(repo, target.commit))


def _equals(space: Keyspace, base: MetarangeId, source: CommitEntry) -> bool:
    """Whether the source has the same content as the base.

    The ids alone do not decide, because equal content may have two metarange ids.  The first commit
    of a repository has no metarange.  This counts as different from the empty metarange of a branch
    whose objects were all deleted, so that such a deletion can be merged, as in lakeFS.
    """
    metarange = source.commit.metarange
    if (base == NO_METARANGE) != (metarange == NO_METARANGE):
        return False
    return diff.is_equal(space, base, metarange)


def parse_resolutions(strategy: str, named: Mapping[str, str]) -> Resolutions:
    """How a request decides conflicts.  `named`: prefixes with their sides.  Raises `Invalid`."""
    if len(named) > limits.merge_resolutions_count_max:
        raise Invalid(f"resolutions: at most {limits.merge_resolutions_count_max}")
    prefixes: dict[bytes, Strategy] = {}
    for prefix, side in named.items():
        if side not in _WINNERS:
            raise Invalid(f"resolutions: a side is 'source' or 'dest': prefix={prefix!r:.200}")
        prefixes[parse_prefix(prefix, "resolutions")] = _WINNERS[side]
    if sum(map(len, prefixes)) > limits.merge_resolutions_length_bytes_max:
        most = limits.merge_resolutions_length_bytes_max
        raise Invalid(f"resolutions are too large: at most {most} bytes of prefixes")
    return Resolutions(_strategy(strategy), prefixes)


def _strategy(text: str) -> Strategy:
    """The strategy: empty, `dest-wins` or `source-wins`.  Raises `Invalid` for another text."""
    for strategy in get_args(Strategy):
        if text == strategy:
            return strategy  # type: ignore[no-any-return]
    raise Invalid("argument strategy: invalid value: validation error", Code.STRATEGY_INVALID)


def check_conflicts(merged: MergeResult, doing: str) -> None:
    """Raises `MergeConflict` with the first conflicting paths."""
    if merged.conflicts:
        paths = tuple(conflict.key.decode() for conflict in merged.conflicts)
        raise MergeConflict(f"{doing}: conflict found: path={paths[0]}", paths)


def _drawn(
    ports: Ports,
    request: MergeRequest,
    source: str,
    destination: BranchId,
    metarange: MetarangeId,
    parents: tuple[CommitId, ...],
) -> Commit:
    metadata = {**request.metadata, STRATEGY_KEY: request.strategy or "default"}
    if request.resolutions:
        metadata[RESOLUTIONS_KEY] = json.dumps(dict(request.resolutions), sort_keys=True)
    return Commit(
        committer=request.committer,
        message=request.message or message(source, destination),
        created_ns=given_or_now(ports, request.created_ns),
        metarange=metarange,
        metadata=metadata,
        parents=parents[:1] if request.squash else parents,
        mark="" if request.once is ABSENT or request.once.key else request.once.value,
    )


def message(source: str, destination: str) -> str:
    """The default message of a merge.  Pure."""
    return f"Merge '{source}' into '{destination}'"


def preview(repo: OpenRepository, source: str, destination: str, query: DiffQuery) -> DiffPage:
    """One page of the changes that a merge would make to the destination's head.

    Conflicts are lines too.  Nothing is written.  Errors: `NotFound`, `Invalid`, `Unavailable`.
    """
    return _previewed(repo, source, destination, query, trees.differences)


def conflicts(repo: OpenRepository, source: str, destination: str, query: DiffQuery) -> DiffPage:
    """One page of the paths that conflict.  Nothing is written.  Errors: as `preview`."""
    return _previewed(repo, source, destination, query, trees.conflicts)


def _previewed(
    repo: OpenRepository, source: str, destination: str, query: DiffQuery, differences: _Differences
) -> DiffPage:
    source_head, destination_head = head_of(repo, source), head_of(repo, destination)
    deadline = operation_deadline(repo)
    base = base_metarange(repo, source_head, destination_head, deadline)
    prefix = parse_prefix(query.prefix)
    space = keyspace(repo, deadline.checking("diff", NARROWER))
    source_tree, destination_tree = source_head.commit.metarange, destination_head.commit.metarange
    return page_of(
        lambda start: differences(space, base, source_tree, destination_tree, start, prefix), query
    )


Version = Entry | Literal[Absent.ABSENT]


class PreviewQuery(NamedTuple):
    """One page: paths that begin with `prefix` and sort after `after`, with at most `amount`
    conflicts."""

    prefix: str = ""
    after: str = ""
    amount: int = limits.page_count_default


class ConflictVersions(NamedTuple):
    """A path that both sides changed, and its three versions; `ABSENT`: the path is not there."""

    path: str
    base: Version
    source: Version
    destination: Version


class PreviewPage(NamedTuple):
    """One page.

    - `base`, `source`, `destination`: the commits that were compared; `base` is empty for unrelated
      histories.  A caller that continues with `source` and `destination` in place of branches sees
      one state on all pages.
    - `counts`: how many paths of this page the merge would add, change, remove, and how many
      conflict.
    - `following`: the path behind which the next page begins; empty: the pages are complete.
    """

    base: CommitId
    source: CommitId
    destination: CommitId
    counts: Mapping[str, int]
    conflicts: tuple[ConflictVersions, ...]
    following: str


def preview_counts(
    repo: OpenRepository, source: str, destination: str, query: PreviewQuery
) -> PreviewPage:
    """One page of what a merge of `source` into `destination` would do.  Nothing is written.

    A branch name means its head: uncommitted changes do not count, although they may refuse a
    merge.  A page ends early when it has used its time (`ports.page_end`).
    Errors: `NotFound`, `Invalid`, `Gone` (the source has expired), `Unavailable` after the
    deadline, which is checked before each range.
    Cost: the resolution of two refs, 1 KV request for each commit that is not cached, the ranges
    that changed since the base, and those of the base that hold the conflicts.
    """
    prefix, after = parse_prefix(query.prefix), parse_prefix(query.after, "after")
    heads = head_of(repo, source), head_of(repo, destination)
    check_kept(repo, heads[0].id)
    deadline, end = operation_deadline(repo), page_end(repo)
    base = best_base(repo, heads[0].id, heads[1].id, deadline)
    base_tree = NO_METARANGE if base is ABSENT else commit_of(repo, base).metarange
    space = keyspace(repo, deadline.checking("merge preview", NARROWER))
    sides = base_tree, heads[0].commit.metarange, heads[1].commit.metarange
    counts = Counter({kind: 0 for kind in ("added", "changed", "removed", "conflict")})
    conflicts: list[Difference] = []
    following = last = b""
    for difference in trees.differences(space, *sides, after + b"\0" if after else b"", prefix):
        is_full = difference.kind == "conflict" and len(conflicts) == query.amount
        if is_full or (last and end.is_over):
            following = last
            break
        counts[difference.kind] += 1
        last = difference.key
        if difference.kind == "conflict":
            conflicts.append(difference)
    before = reader.get_many(space, base_tree, [each.key for each in conflicts])
    return PreviewPage(
        CommitId("") if base is ABSENT else base,
        heads[0].id,
        heads[1].id,
        counts,
        tuple(_versions(each, before.get(each.key, ABSENT)) for each in conflicts),
        following.decode(),
    )


def _versions(conflict: Difference, base: bytes | Absent) -> ConflictVersions:
    path = conflict.key.decode()
    return ConflictVersions(
        path, version_of(base), version_of(conflict.right), version_of(conflict.left)
    )


class ReplayRequest(NamedTuple):
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
    name = _checked_replay(repo.record, branch, request, force)
    target = _target(repo, ref)
    if len(target.commit.parents) > 1 and request.parent_number == 0:
        raise Conflict(
            "must specify 1-based parent number for reverting merge commit",
            Code.PARENT_NUMBER_MISSING,
        )
    parent = _parent_of(target, request.parent_number)
    check_kept(repo, parent)  # the new commit takes its content from the parent
    sides = target.commit.metarange, commit_of(repo, parent).metarange
    drawn = Commit(
        committer=request.committer,
        message=request.message or f"Revert {ref}",
        created_ns=0,
        metadata=_replay_metadata(request, {}),
    )
    return _replay(repo, name, sides, drawn, request, land.Terms(event=REVERT, source_ref=ref))


def cherry_pick(
    repo: OpenRepository, branch: str, ref: str, request: ReplayRequest, *, force: bool = False
) -> CommitEntry:
    """Make a commit on `branch` that repeats the change of the commit `ref`.  Atomic.

    Errors: as `revert`, but a merge commit without a parent number is `Invalid`, and the parent
    may have expired.
    """
    name = _checked_replay(repo.record, branch, request, force)
    target = _target(repo, ref)
    if len(target.commit.parents) > 1 and request.parent_number == 0:
        raise Invalid(
            "must specify 1-based parent number for cherry-picking merge commit",
            Code.PARENT_NUMBER_MISSING,
        )
    # The merge only compares with the parent, so the parent's objects may have expired.
    parent = commit_of(repo, _parent_of(target, request.parent_number)).metarange
    origin = {ORIGIN_KEY: str(target.id), COMMITTER_KEY: target.commit.committer}
    drawn = Commit(
        committer=request.committer,
        message=request.message or target.commit.message,
        created_ns=0,
        metadata={**_replay_metadata(request, target.commit.metadata), **origin},
    )
    sides = parent, target.commit.metarange
    return _replay(repo, name, sides, drawn, request, land.Terms(event=CHERRY_PICK, source_ref=ref))


def _target(repo: OpenRepository, ref: str) -> CommitEntry:
    id = committed(repo, ref).commit
    target = CommitEntry(id, commit_of(repo, id))
    check_kept(repo, id)
    return target


def _replay(
    repo: OpenRepository,
    branch: BranchId,
    sides: tuple[MetarangeId, MetarangeId],
    drawn: Commit,
    request: ReplayRequest,
    terms: land.Terms,
) -> CommitEntry:
    """Land `drawn`, with what leads from the first of `sides`, the base, to the second one.

    Raises `NoChanges` if the new content equals the head, unless the request allows that.  Content
    is compared, because equal content may have two metarange ids.
    """
    deadline = Deadline(repo.clock, repo.settings.commit_seconds_max)
    space = keyspace(repo, deadline.checking(terms.event))

    def build(head: CommitEntry) -> Commit:
        merged = trees.merge(space, *sides, head.commit.metarange)
        check_conflicts(merged, f"update branch {branch}")
        metarange = merged.metarange_id
        if not request.allow_empty and diff.is_equal(space, head.commit.metarange, metarange):
            raise NoChanges(f"update branch {branch}: no changes", branch=branch)
        created_ns = given_or_now(repo, request.created_ns)
        return drawn._replace(created_ns=created_ns, metarange=metarange, parents=(head.id,))

    return land.land(repo, branch, build, terms)


def _checked_replay(repo: Repository, branch: str, request: ReplayRequest, force: bool) -> BranchId:
    name = parse_branch_id(branch)
    check_writable(repo, force)
    check_message(request.message)
    check_metadata(_replay_metadata(request, {}))
    return name


def _replay_metadata(request: ReplayRequest, otherwise: Mapping[str, str]) -> dict[str, str]:
    return dict(otherwise if request.metadata is ABSENT else request.metadata)


def _parent_of(target: CommitEntry, number: int) -> CommitId:
    parents = target.commit.parents
    if not parents:
        raise Invalid(f"commit has no parent: commit={target.id}", Code.NO_PARENT, commit=target.id)
    if not 0 <= number <= len(parents):
        raise Invalid(f"parent_number out of range: 1 to {len(parents)}: parent_number={number}")
    return parents[max(number, 1) - 1]
