"""Deleted repositories whose rows and files are still there.

    deleted    <repository>/<uid>    where its files are, and when it was deleted

Noted before the repository's record says that it is deleted, and removed once nothing is left: a
repository of the same name has another uid, so both may be there.  For the engine.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from graveler import wire
from graveler.ids import BranchId, RepositoryId, RepositoryUid
from graveler.kv.store import Row, Store
from graveler.records import ABSENT, Absent, Repository, RepositoryState
from graveler.refs import rows
from graveler.refs.keys import DELETED, OLDER_DELETIONS, UPKEEP


@dataclass(frozen=True, slots=True)
class Deleted:
    """A repository that was deleted, and the version of this record."""

    id: RepositoryId
    uid: RepositoryUid
    namespace: str
    deleted_ns: int
    version: bytes

    @property
    def repository(self) -> Repository:
        """As far as it takes to find what it had."""
        return Repository(
            self.id, self.uid, self.namespace, BranchId(""), 0, state=RepositoryState.DELETED
        )


def note(kv: Store, repository: Repository, deleted_ns: int, stamp: bytes) -> None:
    """It is about to be deleted.  One request; may be repeated."""
    raw = wire.encode_pairs({"namespace": repository.namespace, "deleted_ns": str(deleted_ns)})
    kv.set(DELETED, _key(repository.id, repository.uid), raw, stamp)


def list_all(kv: Store, after: str = "") -> Iterator[Deleted]:
    """Every one, by name.  One request for each 1,000."""
    for name, row in rows.rows(kv, rows.Stretch(DELETED, b"", after=after)):
        id, _, uid = name.partition("/")
        yield _decoded(RepositoryId(id), RepositoryUid(uid), row)


def find(kv: Store, id: RepositoryId, uid: RepositoryUid) -> Deleted | Literal[Absent.ABSENT]:
    """That of one repository.  One request."""
    row = kv.get(DELETED, _key(id, uid))
    return ABSENT if row is ABSENT else _decoded(id, uid, row)


def stands(kv: Store, gone: Deleted) -> bool:
    """Whether the record is still the one that was read.  One request."""
    row = kv.get(DELETED, _key(gone.id, gone.uid))
    return row is not ABSENT and row.version == gone.version


def forget(kv: Store, gone: Deleted) -> None:
    """Nothing of it is left; does nothing if it was noted anew.  One request."""
    kv.delete(DELETED, [_key(gone.id, gone.uid)], [gone.version])


def older_are_noted(kv: Store) -> bool:
    """Whether what older releases deleted, without a note, was noted since.  One request."""
    return kv.get(UPKEEP, OLDER_DELETIONS) is not ABSENT


def set_older_noted(kv: Store, stamp: bytes) -> None:
    """All of it was.  One request; may be repeated."""
    kv.set(UPKEEP, OLDER_DELETIONS, wire.encode_pairs({}), stamp)


def _decoded(id: RepositoryId, uid: RepositoryUid, row: Row) -> Deleted:
    pairs = wire.decode_pairs(row.value)
    return Deleted(id, uid, pairs["namespace"], int(pairs["deleted_ns"]), row.version)


def _key(id: RepositoryId, uid: RepositoryUid) -> bytes:
    return f"{id}/{uid}".encode()
