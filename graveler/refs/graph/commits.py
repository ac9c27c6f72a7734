"""Commit records, and fold records: the staging tokens whose rows went into a commit on a branch.

A commit record is immutable and named by its content.  Writing it twice changes nothing, so it is
written unconditionally, together with its fold record.  The fold record lists the tokens whose rows
went into the commit *on that branch*, because two branches may make equal commits from different
tokens.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from graveler import wire
from graveler.errors import Code, NotFound
from graveler.ids import BranchId, CommitId, StagingToken
from graveler.kv.store import Store, Write
from graveler.records import ABSENT, Absent, Commit, CommitEntry, Fold, Repository
from graveler.refs import rows
from graveler.refs.graph import table
from graveler.refs.keys import COMMITS, FOLDS, commit_key, fold_key, folds_prefix, space
from graveler.streams import successor

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
    return write_of(repository, id, commit, stamp), table.line_of(repository, id, commit, stamp)


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
    rows.put_all(kv, [table.line_of(repository, *entry, stamp) for entry in entries])


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
