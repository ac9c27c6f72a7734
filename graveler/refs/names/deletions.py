"""Records of deleted repositories that still have rows, files or their namespace.

    deleted    <repository>/<uid>    where its files are, and when it was deleted
    unpurged   <uid>                 when its purge failed last

A deletion writes this record before it marks the repository's own record as deleted; the purge
removes it last.  A failure has a record of its own, because a purge compares versions of the first.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from graveler import wire
from graveler.ids import BranchId, RepositoryId, RepositoryUid
from graveler.kv.store import Row, Store
from graveler.records import ABSENT, Absent, Repository, RepositoryState
from graveler.refs import rows
from graveler.refs.keys import DELETED, UNPURGED


@dataclass(frozen=True, slots=True)
class Deletion:
    """A deleted repository, and the version of this record."""

    id: RepositoryId
    uid: RepositoryUid
    namespace: str
    deleted_ns: int
    created_ns: int
    version: bytes

    @property
    def repository(self) -> Repository:
        """A repository record with the fields that are needed to find its rows and files."""
        state = RepositoryState.DELETED
        return Repository(
            self.id, self.uid, self.namespace, BranchId(""), self.created_ns, state=state
        )


def note(kv: Store, repository: Repository, deleted_ns: int, stamp: bytes) -> None:
    """Record that `repository` is about to be deleted.  One request; may be repeated."""
    pairs = {
        "namespace": repository.namespace,
        "deleted_ns": str(deleted_ns),
        "created_ns": str(repository.created_ns),
    }
    kv.set(DELETED, _key(repository.id, repository.uid), wire.encode_pairs(pairs), stamp)


def list_all(kv: Store, after: str = "") -> Iterator[Deletion]:
    """Every record, by name and uid, after `after`.  One request for each 1,000."""
    for name, row in rows.rows(kv, rows.Stretch(DELETED, b"", after=after)):
        id, _, uid = name.partition("/")
        yield _decoded(RepositoryId(id), RepositoryUid(uid), row)


def find(kv: Store, id: RepositoryId, uid: RepositoryUid) -> Deletion | Literal[Absent.ABSENT]:
    """The record of one repository; ABSENT if there is none.  One request."""
    row = kv.get(DELETED, _key(id, uid))
    return ABSENT if row is ABSENT else _decoded(id, uid, row)


def stands(kv: Store, gone: Deletion) -> bool:
    """Whether the record still has the version that was read.  One request."""
    row = kv.get(DELETED, _key(gone.id, gone.uid))
    return row is not ABSENT and row.version == gone.version


def forget(kv: Store, gone: Deletion) -> None:
    """Remove the record: no row or file is left.  It stays if it was written again since.  Two
    requests."""
    forget_failure(kv, gone.uid)
    kv.delete(DELETED, [_key(gone.id, gone.uid)], [gone.version])


def note_failure(kv: Store, uid: RepositoryUid, at_ns: int, stamp: bytes) -> None:
    """Record that the purge of a repository failed.  One request; may be repeated."""
    kv.set(UNPURGED, uid.encode(), wire.encode_pairs({"failed_ns": str(at_ns)}), stamp)


def failed_ns(kv: Store, uid: RepositoryUid) -> int:
    """When the purge of a repository failed last; 0: not known.  One request."""
    row = kv.get(UNPURGED, uid.encode())
    return 0 if row is ABSENT else int(wire.decode_pairs(row.value)["failed_ns"])


def forget_failure(kv: Store, uid: RepositoryUid) -> None:
    """Remove the time of the last failure.  One request; may be repeated."""
    kv.delete(UNPURGED, [uid.encode()])


def _decoded(id: RepositoryId, uid: RepositoryUid, row: Row) -> Deletion:
    pairs = wire.decode_pairs(row.value)
    deleted_ns, created_ns = int(pairs["deleted_ns"]), int(pairs["created_ns"])
    return Deletion(id, uid, pairs["namespace"], deleted_ns, created_ns, row.version)


def _key(id: RepositoryId, uid: RepositoryUid) -> bytes:
    return f"{id}/{uid}".encode()
