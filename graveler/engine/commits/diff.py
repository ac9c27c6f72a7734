"""Diff: compares two refs (two-dot or three-dot), or a branch with its head; lists or sums up.

Three-dot shows the effect of merging the right ref into the left one: changes since the merge base,
and conflicts.  With a delimiter, paths that share a stem become one line.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal, NamedTuple

from graveler.committed import diff, merge, reader
from graveler.committed.merge import Trees, WholeRange, changes
from graveler.core import limits
from graveler.core.identity import identity_of
from graveler.core.ids import NO_METARANGE, CommitId, MetarangeId, parse_branch_id, parse_prefix
from graveler.core.records import (
    ABSENT,
    TOMBSTONE,
    Absent,
    Branch,
    CommitEntry,
    Difference,
    Entry,
    RangeRef,
    Versioned,
)
from graveler.core.streams import END, Item, successor
from graveler.core.wire import decode_entry, stored_entry
from graveler.engine.commits.heads import best_base, commit_of, fresh, head_of
from graveler.engine.commits.seal import nothing_staged
from graveler.engine.ports import Deadline, OpenRepository, keyspace, operation_deadline, page_end
from graveler.staging import stack

Kind = Literal["added", "removed", "changed", "conflict", "prefix_changed"]
From = Callable[[bytes], Iterator[Difference]]  # takes a key; differences at that key and after it
_BATCH = 500
NARROWER = "compare less of it at once, by a prefix; or all of it on Spark"
_NO_COMMIT = CommitId("")


class DiffQuery(NamedTuple):
    """One page of a diff: paths that begin with `prefix` and sort after `after`.

    The page has at most `amount` lines.  `delimiter`: empty means one line for each path.
    """

    prefix: str = ""
    delimiter: str = ""
    after: str = ""
    amount: int = limits.page_count_default


class DiffLine(NamedTuple):
    """One path, or one stem (`prefix_changed`, both sides absent)."""

    kind: Kind
    path: str
    left: Entry | Literal[Absent.ABSENT] = ABSENT
    right: Entry | Literal[Absent.ABSENT] = ABSENT


class DiffPage(NamedTuple):
    """Lines in byte order; `more`: further lines follow on the next page."""

    lines: tuple[DiffLine, ...]
    more: bool


def diff_refs(
    repo: OpenRepository, left: str, right: str, query: DiffQuery, *, three_dot: bool = True
) -> DiffPage:
    """One page of the differences that the ref `right` has against the ref `left`.

    A branch name means its head.  `three_dot`: compare with the merge base (see the module).
    Errors: `NotFound`, `Invalid`, and `Unavailable` after the deadline, which is checked before
    each range.  Cost: the resolution of two refs, 1 KV request for each commit that is not cached,
    and the reading of ranges that the sides do not share.
    """
    prefix = parse_prefix(query.prefix)
    left_head, right_head = head_of(repo, left), head_of(repo, right)
    deadline = operation_deadline(repo)
    space = keyspace(repo, deadline.checking("diff", NARROWER))
    left_tree, right_tree = left_head.commit.metarange, right_head.commit.metarange
    if not three_dot:
        return page_of(lambda start: diff.diff(space, left_tree, right_tree, start, prefix), query)
    base = base_metarange(repo, right_head, left_head, deadline)
    return page_of(
        lambda start: merge.differences(space, base, right_tree, left_tree, start, prefix), query
    )


def base_metarange(
    repo: OpenRepository, source: CommitEntry, destination: CommitEntry, deadline: Deadline
) -> MetarangeId:
    """The metarange of the merge base; `NO_METARANGE` for unrelated histories.

    Raises `Unavailable` after the deadline.  Cost: see `graph.merge_base`.
    """
    base = best_base(repo, source.id, destination.id, deadline)
    return NO_METARANGE if base is ABSENT else commit_of(repo, base).metarange


def brings_below(repo: OpenRepository, entry: CommitEntry, folder: str) -> bool:
    """Whether a commit has paths below `folder`, and other ones than its first parent.

    Errors: `Gone`; `Unavailable` after the deadline.  Cost: no request if the commit has no such
    path, which its metarange alone may tell; else that of a page of `diff_refs` for two commits."""
    prefix, tree = parse_prefix(folder), entry.commit.metarange
    space = keyspace(repo, operation_deadline(repo).checking("diff", NARROWER))
    first = space.first_from(tree, prefix)
    if first is ABSENT or first.min_key >= successor(prefix):
        return False
    parents = entry.commit.parents
    base = commit_of(repo, parents[0]).metarange if parents else NO_METARANGE
    found = diff.diff(space, base, tree, prefix, prefix)
    return any(each.right is not ABSENT for each in found)


def diff_branch(repo: OpenRepository, branch: str, query: DiffQuery) -> DiffPage:
    """One page of the uncommitted changes of a branch.

    Errors: `NotFound`, `Invalid`, `Unavailable` after the deadline.  Cost with one shard: 2 KV
    requests if the rows fit into one request, and the ranges that contain the staged paths.
    """
    name = parse_branch_id(branch)
    deadline = operation_deadline(repo)
    return _uncommitted(repo, fresh(repo, name).branch, query, deadline)


def is_dirty(repo: OpenRepository, seen: Versioned) -> bool:
    """Whether a branch has uncommitted changes.  Rows that repeat what is committed are none.

    Errors: `Unavailable` after the deadline.  Cost with one shard: 1 KV request if nothing is
    staged; else 1 more if the rows fit into one request, and the ranges that contain the staged
    paths.
    """
    if nothing_staged(repo, seen):
        return False
    page = _uncommitted(repo, seen.branch, DiffQuery(amount=1), operation_deadline(repo))
    return bool(page.lines)


def _uncommitted(
    repo: OpenRepository, seen: Branch, query: DiffQuery, deadline: Deadline
) -> DiffPage:
    return page_of(staged_changes(repo, seen, parse_prefix(query.prefix), deadline), query)


def staged_changes(repo: OpenRepository, seen: Branch, prefix: bytes, deadline: Deadline) -> From:
    """The uncommitted changes of a branch below `prefix`, as a function of the first key."""
    metarange = commit_of(repo, seen.commit).metarange

    def uncommitted(start: bytes) -> Iterator[Difference]:
        cursor = stack.view(repo.kv, seen.tokens_newest_first, fanout=repo.fanout)
        cursor.seek(max(start, prefix))

        def staged() -> Iterator[Item]:
            while (item := cursor.peek()) is not END and item[0].startswith(prefix):
                yield item
                cursor.advance()

        items = staged()
        while batch := list(islice(items, _BATCH)):
            deadline.check("diff")
            old = reader.get_many(keyspace(repo), metarange, [key for key, _ in batch])
            for key, value in batch:
                yield from _judged(key, old.get(key, ABSENT), value)

    return uncommitted


def _judged(key: bytes, old: bytes | Absent, value: object) -> Iterator[Difference]:
    new = ABSENT if value is TOMBSTONE else value
    if isinstance(new, bytes) and isinstance(old, bytes):
        if identity_of(old) != identity_of(new):
            yield Difference("changed", key, old, new)
    elif isinstance(new, bytes):
        yield Difference("added", key, ABSENT, new)
    elif isinstance(old, bytes):
        yield Difference("removed", key, old, ABSENT)


# ---- pages ---------------------------------------------------------------------------------------


def page_of(differences: From, query: DiffQuery) -> DiffPage:
    """Build one page of lines.  `differences` returns the differences from a given key on."""
    prefix = parse_prefix(query.prefix)
    after = parse_prefix(query.after, "after")
    delimiter = query.delimiter.encode()
    lines: list[DiffLine] = []
    start: bytes = _behind(after, delimiter, prefix)
    while True:
        stem = b""
        for difference in differences(start):
            if len(lines) == query.amount:
                return DiffPage(tuple(lines), True)
            cut = difference.key.find(delimiter, len(prefix)) if delimiter else -1
            if cut >= 0:
                stem = difference.key[: cut + len(delimiter)]
                lines.append(DiffLine("prefix_changed", stem.decode()))
                break
            lines.append(_line_of(difference))
        start = successor(stem) if stem else b""
        if not start:
            return DiffPage(tuple(lines), False)


def _behind(after: bytes, delimiter: bytes, prefix: bytes) -> bytes:
    if not after:
        return b""
    is_stem = delimiter and after.endswith(delimiter) and len(after) > len(prefix)
    return successor(after) if is_stem else after + b"\0"


def _line_of(difference: Difference) -> DiffLine:
    return DiffLine(
        difference.kind,
        difference.key.decode(),
        version_of(difference.left),
        version_of(difference.right),
    )


def version_of(value: bytes | Absent) -> Entry | Literal[Absent.ABSENT]:
    """The entry that a side of a difference holds; ABSENT if the path is not there.  Pure."""
    return decode_entry(value) if isinstance(value, bytes) else ABSENT


class SummaryQuery(NamedTuple):
    """One page: the children of `prefix` behind the path `after`, `amount` at most.

    `sizes`: sum up bytes too, which reads every range that is counted.
    """

    prefix: str = ""
    delimiter: str = "/"
    after: str = ""
    amount: int = limits.page_count_default
    sizes: bool = True


class SummaryLine(NamedTuple):
    """What was added, changed, removed and conflicts below one child (paths), and the bytes of
    what came and what went; a changed path counts as both.  Conflicts have no bytes."""

    path: str
    added: int
    changed: int
    removed: int
    conflict: int
    bytes_added: int
    bytes_removed: int


class SummaryPage(NamedTuple):
    """Lines by path.  `left`, `right`: the commits that were compared; empty for nothing, or for
    what is uncommitted.  `following`: the path behind which the next page begins; empty: the pages
    are complete."""

    left: CommitId
    right: CommitId
    lines: tuple[SummaryLine, ...]
    following: str


def sum_objects(repo: OpenRepository, ref: str, query: SummaryQuery) -> SummaryPage:
    """One page of the objects of a commit, all as added; a branch means its head.

    Errors: `NotFound`, `Invalid`, `Gone` (the content has expired), `Unavailable` after the
    deadline, which is checked before each range.  Cost: the resolution of the ref, the metarange,
    and the ranges that lie in several children; with `sizes` all ranges of the page.
    """
    deadline = operation_deadline(repo)
    head = head_of(repo, ref)
    trees = Trees(NO_METARANGE, head.commit.metarange, NO_METARANGE)
    lines, following = _sums_page(repo, _changes(repo, trees, query, deadline), query)
    return SummaryPage(_NO_COMMIT, head.id, lines, following)


def sum_differences(
    repo: OpenRepository, left: str, right: str, query: SummaryQuery, *, three_dot: bool
) -> SummaryPage:
    """One page of what `diff.diff_refs` lists.

    Errors: as `objects`.  Cost: that of `diff.diff_refs`, without the ranges that only one side has
    and that lie in one child; with `sizes` these too.
    """
    deadline = operation_deadline(repo)
    heads = head_of(repo, left), head_of(repo, right)
    old, new = (head.commit.metarange for head in heads)
    base = base_metarange(repo, heads[1], heads[0], deadline) if three_dot else old
    trees = Trees(base, new, old)
    lines, following = _sums_page(repo, _changes(repo, trees, query, deadline), query)
    return SummaryPage(heads[0].id, heads[1].id, lines, following)


def sum_uncommitted(repo: OpenRepository, branch: str, query: SummaryQuery) -> SummaryPage:
    """One page of what `diff.diff_branch` lists.  Errors and cost: as there."""
    name = parse_branch_id(branch)
    deadline = operation_deadline(repo)
    seen = fresh(repo, name).branch
    staged = staged_changes(repo, seen, parse_prefix(query.prefix), deadline)(_start_of(query))
    lines, following = _sums_page(repo, staged, query)
    return SummaryPage(seen.commit, _NO_COMMIT, lines, following)


def _start_of(query: SummaryQuery) -> bytes:
    after = parse_prefix(query.after, "after")
    return after + b"\0" if after else b""


def _changes(
    repo: OpenRepository, trees: Trees, query: SummaryQuery, deadline: Deadline
) -> Iterator[Difference | WholeRange]:
    prefix, delimiter = parse_prefix(query.prefix), query.delimiter.encode()

    def counts_whole(ref: RangeRef) -> bool:
        stem = _child(ref.min_key, prefix, delimiter)
        return not query.sizes and stem != prefix and ref.max_key.startswith(stem)

    space = keyspace(repo, deadline.checking("summary", NARROWER))
    return changes(space, trees, _start_of(query), prefix, counts_whole)


def _child(key: bytes, prefix: bytes, delimiter: bytes) -> bytes:
    cut = key.find(delimiter, len(prefix)) if delimiter else -1
    return prefix if cut < 0 else key[: cut + len(delimiter)]


@dataclass(slots=True)
class _Sums:
    """What was counted below one child so far."""

    paths: Counter[str] = field(default_factory=Counter)
    bytes_added: int = 0
    bytes_removed: int = 0

    def line(self, path: bytes) -> SummaryLine:
        paths = self.paths
        return SummaryLine(
            path.decode(),
            paths["added"],
            paths["changed"],
            paths["removed"],
            paths["conflict"],
            self.bytes_added,
            self.bytes_removed,
        )


def _sums_page(
    repo: OpenRepository, pieces: Iterable[Difference | WholeRange], query: SummaryQuery
) -> tuple[tuple[SummaryLine, ...], str]:
    prefix, delimiter, end = parse_prefix(query.prefix), query.delimiter.encode(), page_end(repo)
    sums: dict[bytes, _Sums] = {}
    following = last = b""
    for piece in pieces:
        key = piece.ref.max_key if isinstance(piece, WholeRange) else piece.key
        child = _child(key, prefix, delimiter)
        is_full = child not in sums and len(sums) == query.amount
        if is_full or (last and end.is_over):
            following = last
            break
        here = sums.setdefault(child, _Sums())
        if isinstance(piece, WholeRange):
            here.paths[piece.kind] += piece.ref.count
        else:
            here.paths[piece.kind] += 1
            if query.sizes and piece.kind != "conflict":
                here.bytes_added += _size(piece.right)
                here.bytes_removed += _size(piece.left)
        last = key
    lines = tuple(sums[child].line(child) for child in sorted(sums))
    return lines, following.decode()


def _size(value: bytes | Absent) -> int:
    return stored_entry(value).size if isinstance(value, bytes) else 0
