"""What a merge would do, page by page: how many paths of each kind, and the conflicts.

A page covers a stretch of the paths, and counts what the merge would do to the paths of that
stretch.  The pages together cover all paths, so their counts add up to those of the whole merge.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from graveler import limits
from graveler.committed import merge, reader
from graveler.engine.commits.diff import NARROWER, version_of
from graveler.engine.commits.heads import check_kept, commit_of, head_of, timed_lookup
from graveler.engine.ports import OpenRepository, keyspace, operation_deadline, page_end
from graveler.ids import NO_METARANGE, CommitId, parse_prefix
from graveler.records import ABSENT, Absent, Difference, Entry
from graveler.refs.graph import graph

Version = Entry | Literal[Absent.ABSENT]


@dataclass(frozen=True, slots=True)
class PreviewQuery:
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


def preview(
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
    look = timed_lookup(repo, "merge base search", deadline)
    base = graph.merge_base(look, heads[0].id, heads[1].id)
    base_tree = NO_METARANGE if base is ABSENT else commit_of(repo, base).metarange
    space = keyspace(repo, deadline.checking("merge preview", NARROWER))
    trees = base_tree, heads[0].commit.metarange, heads[1].commit.metarange
    counts = Counter({kind: 0 for kind in ("added", "changed", "removed", "conflict")})
    conflicts: list[Difference] = []
    following = last = b""
    for difference in merge.differences(space, *trees, after + b"\0" if after else b"", prefix):
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
