"""Removes the records of deleted branches and tags once no request about them can be in flight.

    deleted ──branch_purge_seconds──► removed, by the version that was read

A deleted record makes a late duplicate of the creation fail, whose condition is an absent row.
After the removal `rev` starts again at 1, which is safe: revisions are compared only of one origin.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from graveler import wire
from graveler.ids import BranchId
from graveler.kv.store import Row, Store
from graveler.records import Repository
from graveler.refs import rows
from graveler.refs.keys import BRANCHES, TAGS, space


class Name(NamedTuple):
    """A branch or tag: the key and row of its record, whether it is deleted, and since when."""

    key: bytes
    row: Row
    is_deleted: bool
    since_ns: int


def list_names(kv: Store, repository: Repository) -> Iterator[Name]:
    """Every branch, then every tag, also deleted ones.  One request for each 1,000."""
    for key, row in _rows(kv, repository, BRANCHES):
        branch = wire.decode_branch(row.value)
        yield Name(key, row, not branch.live, branch.changed_ns)
    for key, row in _rows(kv, repository, TAGS):
        tag = wire.decode_tag(row.value)
        yield Name(key, row, tag.deleted, tag.changed_ns)


def _rows(kv: Store, repository: Repository, kind: bytes) -> Iterator[tuple[bytes, Row]]:
    stretch = rows.Stretch(space(repository), kind)
    return ((kind + name.encode(), row) for name, row in rows.rows(kv, stretch))


def branches_of(names: Sequence[Name]) -> list[BranchId]:
    """The branches among these names."""
    keys = [name.key for name in names if name.key.startswith(BRANCHES)]
    return [BranchId(key.removeprefix(BRANCHES).decode()) for key in keys]


def remove(kv: Store, repository: Repository, names: Sequence[Name]) -> None:
    """Remove the records that still have the version that was read.  One request per record."""
    versions = [name.row.version for name in names]
    kv.delete(space(repository), [name.key for name in names], versions)
