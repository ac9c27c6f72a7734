"""Notes of repositories that are being created: their storage namespaces, against overlaps.

A creation writes its note before it checks for overlapping namespaces, and removes it at its end.
So of two concurrent creations, at least one sees the note or record of the other.
"""

from collections.abc import Iterator
from typing import NamedTuple

from graveler import wire
from graveler.kv.store import Store
from graveler.records import Repository
from graveler.refs import rows
from graveler.refs.keys import CREATING


class Creation(NamedTuple):
    """A creation that is running or died.  `key` and `version`: its row."""

    uid: str
    namespace: str
    since_ns: int
    key: bytes
    version: bytes


def note(kv: Store, repository: Repository, stamp: bytes) -> None:
    """Note that `repository` is being created since its `created_ns`.  One request; may be
    repeated."""
    pairs = {"namespace": repository.namespace, "since_ns": str(repository.created_ns)}
    kv.set(CREATING, _key(repository), wire.encode_pairs(pairs), stamp)


def list_all(kv: Store) -> Iterator[Creation]:
    """Every note.  One request for each 1,000."""
    for name, row in rows.rows(kv, rows.Stretch(CREATING, b"")):
        pairs = wire.decode_pairs(row.value)
        uid = name.rpartition("/")[2]
        yield Creation(uid, pairs["namespace"], int(pairs["since_ns"]), name.encode(), row.version)


def end(kv: Store, repository: Repository) -> None:
    """Remove the note: the repository's record is stored, or can no longer be stored.  One
    request."""
    kv.delete(CREATING, [_key(repository)])


def forget(kv: Store, dead: Creation) -> None:
    """Remove the note of a creation that died.  Does nothing if the note was written again since.
    One request."""
    kv.delete(CREATING, [dead.key], [dead.version])


def _key(repository: Repository) -> bytes:
    return f"{repository.id}/{repository.uid}".encode()
