"""Namespaces that somebody is about to make a repository on.

    creating    <repository>/<uid>    the namespace, and since when

Noted before the creation looks for overlaps, and removed once its record is stored or cannot be any
more.  Of two creations at the same moment at least one sees the other's note or record.  A creation
that died leaves its note, which counts until nobody can be alive who wrote it.  For the engine.
"""

from collections.abc import Iterator
from typing import NamedTuple

from graveler import wire
from graveler.kv.store import Store
from graveler.records import Repository
from graveler.refs import rows
from graveler.refs.keys import CREATING


class Creating(NamedTuple):
    """A creation on its way, or what is left of one; `key` and `version` name its row."""

    uid: str
    namespace: str
    since_ns: int
    key: bytes
    version: bytes


def note(kv: Store, repository: Repository, stamp: bytes) -> None:
    """It is about to be made, since its `created_ns`.  One request; may be repeated."""
    pairs = {"namespace": repository.namespace, "since_ns": str(repository.created_ns)}
    kv.set(CREATING, _key(repository), wire.encode_pairs(pairs), stamp)


def list_all(kv: Store) -> Iterator[Creating]:
    """Every one.  One request for each 1,000."""
    for name, row in rows.rows(kv, rows.Stretch(CREATING, b"")):
        pairs = wire.decode_pairs(row.value)
        uid = name.rpartition("/")[2]
        yield Creating(uid, pairs["namespace"], int(pairs["since_ns"]), name.encode(), row.version)


def end(kv: Store, repository: Repository) -> None:
    """Its record is stored, or cannot be any more.  One request."""
    kv.delete(CREATING, [_key(repository)])


def forget(kv: Store, dead: Creating) -> None:
    """Whoever wrote it is not alive; does nothing if it was noted anew.  One request."""
    kv.delete(CREATING, [dead.key], [dead.version])


def _key(repository: Repository) -> bytes:
    return f"{repository.id}/{repository.uid}".encode()
