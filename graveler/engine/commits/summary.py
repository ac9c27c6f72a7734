"""How many objects, and how many bytes, lie below each child of a prefix; or differ there.

    prefix ──► child   the paths that share a stem up to the delimiter behind the prefix
           ──► itself  the paths without a delimiter behind the prefix: one line together

A commit is summed up as a comparison with nothing.  A range that lies within one child is counted
from its metarange, if no bytes are asked for: a range does not say how many bytes its objects have.

A page ends when it has enough lines, or has used its time.  The next page continues in the middle
of a child, so the lines of one path on all pages add up.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from graveler import limits
from graveler.committed.tally import Trees, WholeRange, changes
from graveler.engine.commits.diff import NARROWER, base_metarange, staged_changes
from graveler.engine.commits.heads import fresh, head_of
from graveler.engine.ports import Deadline, OpenRepository, keyspace, operation_deadline, page_end
from graveler.ids import NO_METARANGE, CommitId, parse_branch_id, parse_prefix
from graveler.records import Absent, Difference, RangeRef
from graveler.wire import stored_entry


@dataclass(frozen=True, slots=True)
class SummaryQuery:
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


_NO_COMMIT = CommitId("")


def objects(repo: OpenRepository, ref: str, query: SummaryQuery) -> SummaryPage:
    """One page of the objects of a commit, all as added; a branch means its head.

    Errors: `NotFound`, `Invalid`, `Gone` (the content has expired), `Unavailable` after the
    deadline, which is checked before each range.  Cost: the resolution of the ref, the metarange,
    and the ranges that lie in several children; with `sizes` all ranges of the page.
    """
    deadline = operation_deadline(repo)
    head = head_of(repo, ref)
    trees = Trees(NO_METARANGE, head.commit.metarange, NO_METARANGE)
    lines, following = _page(repo, _changes(repo, trees, query, deadline), query)
    return SummaryPage(_NO_COMMIT, head.id, lines, following)


def differences(
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
    lines, following = _page(repo, _changes(repo, trees, query, deadline), query)
    return SummaryPage(heads[0].id, heads[1].id, lines, following)


def uncommitted(repo: OpenRepository, branch: str, query: SummaryQuery) -> SummaryPage:
    """One page of what `diff.diff_branch` lists.  Errors and cost: as there."""
    name = parse_branch_id(branch)
    deadline = operation_deadline(repo)
    seen = fresh(repo, name).branch
    staged = staged_changes(repo, seen, parse_prefix(query.prefix), deadline)(_start(query))
    lines, following = _page(repo, staged, query)
    return SummaryPage(seen.commit, _NO_COMMIT, lines, following)


def _start(query: SummaryQuery) -> bytes:
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
    return changes(space, trees, _start(query), prefix, counts_whole)


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


def _page(
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
