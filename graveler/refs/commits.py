"""Records of commits, of the tokens that each holds, and the table of commits by generation."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from graveler.core import limits, wire
from graveler.core.errors import Code, NotFound
from graveler.core.ids import NO_COMMIT, NO_METARANGE, BranchId, CommitId, StagingToken
from graveler.core.records import ABSENT, Absent, Commit, CommitEntry, Fold, Repository
from graveler.core.streams import successor
from graveler.kv.store import Row, Store, Write
from graveler.refs import rows
from graveler.refs.keys import (
    COMMITS,
    FOLDS,
    GRAPH,
    commit_key,
    fold_key,
    folds_prefix,
    generation_of,
    graph_key,
    space,
)

# ---- table -----------------------------------------------------------------------------------


class GraphPlace(NamedTuple):
    """The place of a commit in the table, which is sorted by falling generation, then by id."""

    generation: int
    id: str


class TablePage(NamedTuple):
    """Lines in the order of the table.  `more`: further lines may follow."""

    lines: tuple[CommitEntry, ...]
    more: bool


def short(commit: Commit) -> Commit:
    """What the table keeps of a commit: its parents, its generation, its time, its committer and
    the first line of its message."""
    subject = commit.message.lstrip().partition("\n")[0].rstrip()
    length = limits.graph_text_length_max
    return Commit(
        committer=commit.committer[:length],
        message=subject[:length],
        created_ns=commit.created_ns,
        metarange=NO_METARANGE,
        parents=commit.parents,
        generation=commit.generation,
        jump=NO_COMMIT,
        order_ns=commit.created_ns,
    )


def line_of(repository: Repository, id: CommitId, commit: Commit, stamp: bytes) -> Write:
    """The write that stores the line of a commit, for a batch."""
    raw = wire.encode_commit(short(commit))
    return Write(space(repository), graph_key(commit.generation, id), raw, stamp)


def scan_lines(kv: Store, repository: Repository, after: GraphPlace, amount: int) -> TablePage:
    """At most `amount` lines behind a place.  One request."""
    start, end = graph_key(after.generation, after.id) + b"\0", successor(GRAPH)
    page = kv.scan(space(repository), start, end, amount)
    return TablePage(tuple(_line(key, row) for key, row in page.rows), page.more)


def _line(key: bytes, row: Row) -> CommitEntry:
    commit = wire.decode_commit(row.value)._replace(generation=generation_of(key))
    return CommitEntry(CommitId(key.rpartition(b"/")[2].decode()), commit)


# ---- commits ---------------------------------------------------------------------------------


Lookup = Callable[[CommitId], Commit]  # the commit of an id; raises `NotFound`

_ID_PREFIX = re.compile(r"[0-9a-f]{1,64}", re.ASCII)


def find(kv: Store, repository: Repository, commit: CommitId) -> Commit | Literal[Absent.ABSENT]:
    """The commit; ABSENT if there is none.  One request."""
    row = kv.get(space(repository), commit_key(commit))
    return ABSENT if row is ABSENT else wire.decode_commit(row.value)


def get(kv: Store, repository: Repository, commit: CommitId) -> Commit:
    """The commit.  Raises `NotFound`.  One request."""
    record = find(kv, repository, commit)
    if record is ABSENT:
        raise NotFound("commit not found", Code.COMMIT_NOT_FOUND, commit=commit)
    return record


def get_many(kv: Store, repository: Repository, ids: Sequence[CommitId]) -> dict[CommitId, Commit]:
    """The commits of these ids that exist.  One request for each 1,000."""
    at = {id: (space(repository), commit_key(id)) for id in ids}
    stored = kv.get_many(list(at.values())) if at else {}
    return {
        id: wire.decode_commit(stored[place].value) for id, place in at.items() if place in stored
    }


def write_of(repository: Repository, id: CommitId, commit: Commit, stamp: bytes) -> Write:
    """The write that stores `commit`, for a batch."""
    return Write(space(repository), commit_key(id), wire.encode_commit(commit), stamp)


def writes_of(
    repository: Repository, id: CommitId, commit: Commit, stamp: bytes
) -> tuple[Write, Write]:
    """The writes that store `commit` and its line in the table of commits, for a batch.  Both must
    be stored before a ref leads to the commit."""
    return write_of(repository, id, commit, stamp), line_of(repository, id, commit, stamp)


def put(kv: Store, repository: Repository, id: CommitId, commit: Commit, stamp: bytes) -> None:
    """Store `commit` and its line in the table of commits.  One request; may be repeated."""
    kv.set_many(writes_of(repository, id, commit, stamp))


def put_many(
    kv: Store, repository: Repository, entries: Sequence[CommitEntry], stamp: bytes
) -> None:
    """Store commits, and their lines in the table of commits.  One request for each 500; may be
    repeated."""
    pairs = (writes_of(repository, *entry, stamp) for entry in entries)
    rows.put_all(kv, [write for pair in pairs for write in pair])


def put_lines(
    kv: Store, repository: Repository, entries: Sequence[CommitEntry], stamp: bytes
) -> None:
    """Store the lines of stored commits in the table of commits.  One request for each 1,000; may
    be repeated."""
    rows.put_all(kv, [line_of(repository, *entry, stamp) for entry in entries])


def by_prefix(kv: Store, repository: Repository, prefix: str) -> tuple[CommitId, ...]:
    """The commits whose ids begin with `prefix`, two at most: two mean that the prefix is
    ambiguous.  One request, none if `prefix` is not a prefix of an id."""
    if not _ID_PREFIX.fullmatch(prefix):
        return ()
    stem = COMMITS + prefix.encode()
    stored = kv.scan(space(repository), stem, successor(stem), 2).rows
    return tuple(CommitId(key[len(COMMITS) :].decode()) for key, _ in stored)


def list_all(kv: Store, repository: Repository, after: str = "") -> Iterator[CommitEntry]:
    """Every stored commit, reachable or not, by id, after `after`.  One request for each 1,000."""
    for name, row in rows.rows(kv, rows.Stretch(space(repository), COMMITS, "", after)):
        yield CommitEntry(CommitId(name), wire.decode_commit(row.value))


# ---- folds ---------------------------------------------------------------------------------------


def fold_write(
    repository: Repository,
    branch: BranchId,
    commit: CommitId,
    newest: StagingToken,
    fold: Fold,
    stamp: bytes,
) -> Write:
    """The write that records which tokens went into `commit` on `branch`.  `newest`: the newest of
    them."""
    key = fold_key(branch, commit, newest)
    return Write(space(repository), key, wire.encode_fold(fold), stamp)


def folds_of(
    kv: Store, repository: Repository, branch: BranchId, commit: CommitId
) -> tuple[Fold, ...]:
    """Every fold record of `commit` on `branch`.  One request."""
    stretch = rows.Stretch(space(repository), folds_prefix(branch, commit))
    return tuple(wire.decode_fold(row.value) for _, row in rows.rows(kv, stretch))


def list_folds(kv: Store, repository: Repository) -> Iterator[tuple[bytes, Fold]]:
    """Every fold record and its key, for the janitor.  One request for each 1,000."""
    for name, row in rows.rows(kv, rows.Stretch(space(repository), FOLDS)):
        yield FOLDS + name.encode(), wire.decode_fold(row.value)


def forget_folds(kv: Store, repository: Repository, keys: list[bytes]) -> None:
    """Remove fold records by the keys that `list_folds` yields.  One request for each 1,000."""
    if keys:
        kv.delete(space(repository), keys)
