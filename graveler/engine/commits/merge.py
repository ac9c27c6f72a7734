"""Merge: applies the changes of one ref since the merge base to a branch, as one commit.

The merge decides each path on its own:

    both sides are equal          take that value
    one side equals the base      take the other side
    else                          a conflict: refuse the merge, or take the side that is named

A side is named for all conflicts (the strategy), or for those below a prefix (a resolution).  The
longest prefix of a path decides.

The source ref is resolved once.  The destination is the branch's head at the moment when the commit
lands.  If there are several best common ancestors, the base is the one of greatest generation, then
of smallest id.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from graveler import limits
from graveler.committed import diff
from graveler.committed import merge as trees
from graveler.committed.merge import MergeResult, Resolutions
from graveler.committed.ranges import Keyspace
from graveler.engine.commits import land
from graveler.engine.commits.diff import NARROWER, DiffPage, DiffQuery, base_metarange, page_of
from graveler.engine.commits.heads import check_kept, commit_of, committed, head_of
from graveler.engine.commits.messages import (
    RESOLUTIONS_KEY,
    STRATEGY_KEY,
    check_message,
    check_metadata,
)
from graveler.engine.commits.search import Once
from graveler.engine.hooks import MERGE
from graveler.engine.ports import (
    Deadline,
    OpenRepository,
    Ports,
    check_writable,
    given_or_now,
    keyspace,
    operation_deadline,
)
from graveler.errors import Code, Invalid, MergeConflict, NoChanges
from graveler.ids import (
    NO_METARANGE,
    BranchId,
    CommitId,
    MetarangeId,
    parse_branch_id,
    parse_prefix,
)
from graveler.records import ABSENT, Absent, Commit, CommitEntry, Difference, Strategy

Side = Literal["source", "dest"]
_WINNERS: Final[Mapping[str, Strategy]] = {"source": "source-wins", "dest": "dest-wins"}

# Arguments: space, base, source, destination, first key, prefix.
_Differences = Callable[
    [Keyspace, MetarangeId, MetarangeId, MetarangeId, bytes, bytes], Iterator[Difference]
]


@dataclass(frozen=True, slots=True)
class MergeRequest:
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
    metadata: Mapping[str, str] = field(default_factory=dict)
    strategy: str = ""
    resolutions: Mapping[str, Side] = field(default_factory=dict)
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
