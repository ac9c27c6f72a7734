"""Records of repositories that are created, deleted, restored or purged."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from graveler.block import address
from graveler.core import wire
from graveler.core.ids import BranchId, MetarangeId, RepositoryId, RepositoryUid
from graveler.core.records import ABSENT, Absent, Repository, RepositoryState
from graveler.core.streams import successor
from graveler.kv.store import WRITTEN, Row, Store, scan_all
from graveler.refs import rows
from graveler.refs.keys import (
    DELETED,
    DELETED_BRANCHES,
    NAMESPACES,
    TAGS,
    UNPURGED,
    at_namespace_prefix,
    below_namespace_prefix,
    namespace_key,
    setting_key,
    space,
)

# ---- namespaces ------------------------------------------------------------------------------


class Note(NamedTuple):
    """Says that a repository has a namespace, or is being created there since `since_ns`.  It is
    stored before the record of the repository and removed after it.  `key` and `version`: its
    row."""

    id: RepositoryId
    uid: RepositoryUid
    namespace: str
    since_ns: int
    key: bytes
    version: bytes


def note_namespace(kv: Store, repository: Repository, stamp: bytes) -> None:
    """Store the note of a repository that is being created since its `created_ns`.  One request;
    may be repeated."""
    pairs = {
        "id": repository.id,
        "uid": repository.uid,
        "namespace": repository.namespace,
        "since_ns": str(repository.created_ns),
    }
    kv.set(NAMESPACES, _note_key(repository), wire.encode_pairs(pairs), stamp)


def notes_on(kv: Store, namespace: str) -> Iterator[Note]:
    """The notes on this namespace, on those below it and on those above it.  One request, and one
    for each folder above; more for more than 1,000 notes."""
    place = address.normalise(namespace)
    prefixes = [below_namespace_prefix(place)]
    while "/" in place:
        place = place.rpartition("/")[0]
        prefixes.append(at_namespace_prefix(place))
    for prefix in dict.fromkeys(prefixes):
        for key, row in scan_all(kv, NAMESPACES, prefix, successor(prefix)):
            note = _decoded_note(key, row)
            if address.overlaps(note.namespace, namespace):
                yield note


def forget_namespace(kv: Store, repository: Repository) -> None:
    """Remove the note: the repository is purged, or can no longer be created.  One request."""
    kv.delete(NAMESPACES, [_note_key(repository)])


def forget_note(kv: Store, dead: Note) -> None:
    """Remove the note of a repository that does not exist.  One request."""
    kv.delete(NAMESPACES, [dead.key], [dead.version])


def _decoded_note(key: bytes, row: Row) -> Note:
    pairs = wire.decode_pairs(row.value)
    id, uid = RepositoryId(pairs["id"]), RepositoryUid(pairs["uid"])
    return Note(id, uid, pairs["namespace"], int(pairs["since_ns"]), key, row.version)


def _note_key(repository: Repository) -> bytes:
    return namespace_key(address.normalise(repository.namespace), repository)


# ---- deletions -------------------------------------------------------------------------------


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


def note_deletion(kv: Store, repository: Repository, deleted_ns: int, stamp: bytes) -> None:
    """Record that `repository` is about to be deleted.  One request; may be repeated."""
    pairs = {
        "namespace": repository.namespace,
        "deleted_ns": str(deleted_ns),
        "created_ns": str(repository.created_ns),
    }
    kv.set(DELETED, _deletion_key(repository.id, repository.uid), wire.encode_pairs(pairs), stamp)


def list_deletions(kv: Store, after: str = "") -> Iterator[Deletion]:
    """Every record, by name and uid, after `after`.  One request for each 1,000."""
    for name, row in rows.rows(kv, rows.Stretch(DELETED, b"", after=after)):
        id, _, uid = name.partition("/")
        yield _decoded_deletion(RepositoryId(id), RepositoryUid(uid), row)


def find_deletion(
    kv: Store, id: RepositoryId, uid: RepositoryUid
) -> Deletion | Literal[Absent.ABSENT]:
    """The record of one repository; ABSENT if there is none.  One request."""
    row = kv.get(DELETED, _deletion_key(id, uid))
    return ABSENT if row is ABSENT else _decoded_deletion(id, uid, row)


def deletion_stands(kv: Store, gone: Deletion) -> bool:
    """Whether the record still has the version that was read.  One request."""
    row = kv.get(DELETED, _deletion_key(gone.id, gone.uid))
    return row is not ABSENT and row.version == gone.version


def forget_deletion(kv: Store, gone: Deletion) -> None:
    """Remove the record: no row or file is left.  It stays if it was written again since.  Two
    requests."""
    forget_failure(kv, gone.uid)
    kv.delete(DELETED, [_deletion_key(gone.id, gone.uid)], [gone.version])


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


def _decoded_deletion(id: RepositoryId, uid: RepositoryUid, row: Row) -> Deletion:
    pairs = wire.decode_pairs(row.value)
    deleted_ns, created_ns = int(pairs["deleted_ns"]), int(pairs["created_ns"])
    return Deletion(id, uid, pairs["namespace"], deleted_ns, created_ns, row.version)


def _deletion_key(id: RepositoryId, uid: RepositoryUid) -> bytes:
    return f"{id}/{uid}".encode()


# ---- restores --------------------------------------------------------------------------------

_RESTORE: Final = "restore"


class DumpIds(NamedTuple):
    """The metaranges of a dump."""

    commits: MetarangeId
    tags: MetarangeId
    branches: MetarangeId


def find_restore(kv: Store, repository: Repository) -> DumpIds | Literal[Absent.ABSENT]:
    """The dump of the restore that has begun; ABSENT if none has.  One request."""
    row = kv.get(space(repository), setting_key(_RESTORE))
    return ABSENT if row is ABSENT else _decoded_restore(row.value)


def begin_restore(kv: Store, repository: Repository, dump: DumpIds, stamp: bytes) -> DumpIds:
    """Store the record, unless there is one; the record as it is then.

    Raises `OutcomeUnknown` if it is not known whether it was stored.  One request.
    """
    raw = wire.encode_pairs(dump._asdict())
    outcome = kv.set_if(space(repository), setting_key(_RESTORE), raw, stamp, ABSENT)
    if outcome is WRITTEN or outcome.current is ABSENT:
        return dump
    return _decoded_restore(outcome.current.value)


def _decoded_restore(raw: bytes) -> DumpIds:
    pairs = wire.decode_pairs(raw)
    return DumpIds(*(MetarangeId(pairs[name]) for name in DumpIds._fields))


# ---- purge -----------------------------------------------------------------------------------


class Name(NamedTuple):
    """A deleted branch, or a tag: the key and row of its record, whether it is deleted, and since
    when."""

    key: bytes
    row: Row
    is_deleted: bool
    since_ns: int


def list_names(kv: Store, repository: Repository) -> Iterator[Name]:
    """Every deleted branch, then every tag, also deleted ones.  One request for each 1,000."""
    for key, row in _rows(kv, repository, DELETED_BRANCHES):
        yield Name(key, row, True, wire.decode_branch(row.value).changed_ns)
    for key, row in _rows(kv, repository, TAGS):
        tag = wire.decode_tag(row.value)
        yield Name(key, row, tag.deleted, tag.changed_ns)


def _rows(kv: Store, repository: Repository, kind: bytes) -> Iterator[tuple[bytes, Row]]:
    stretch = rows.Stretch(space(repository), kind)
    return ((kind + name.encode(), row) for name, row in rows.rows(kv, stretch))


def branches_of(names: Sequence[Name]) -> list[BranchId]:
    """The branches among these names."""
    keys = [name.key for name in names if name.key.startswith(DELETED_BRANCHES)]
    return [BranchId(key.removeprefix(DELETED_BRANCHES).decode()) for key in keys]


def remove_names(kv: Store, repository: Repository, names: Sequence[Name]) -> None:
    """Remove the records that still have the version that was read.  One request per record."""
    versions = [name.row.version for name in names]
    kv.delete(space(repository), [name.key for name in names], versions)
