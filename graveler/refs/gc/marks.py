"""Marks of condemned commits and metaranges: new commits must not use them, and their files go.

A mark exists for longer than any operation lives before the first file is deleted.  A mark outlives
the files, so that a read of a commit whose content is gone can report that (`DeletedContent`).
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final, Literal, NamedTuple

from graveler import wire
from graveler.clock import Ids
from graveler.kv.store import Row, Store, Write
from graveler.records import ABSENT, Absent, Repository
from graveler.refs import rows
from graveler.refs.keys import CONDEMNED, condemned_key, space

# The run of a mark that a restore has made.  No run has this id: runs have letters and digits only.
# It stands like a run that has deleted its files.
RESTORED: Final = "of-a-restore"


class DeletedContent(StrEnum):
    """What was deleted of a condemned commit, or is about to be deleted."""

    NOTHING = ""
    OBJECTS = "objects"  # its metarange and ranges stay
    ALL = "all"


class Mark(NamedTuple):
    """The run that condemned the commit or metarange, the time, and what of it is deleted."""

    run: str
    since_ns: int
    spent: DeletedContent = DeletedContent.NOTHING


def find(kv: Store, repository: Repository, id: str) -> Mark | Literal[Absent.ABSENT]:
    """The mark of a commit or metarange; ABSENT if there is none.  One request."""
    row = kv.get(space(repository), condemned_key(id))
    return ABSENT if row is ABSENT else _decode(row)


def list_all(kv: Store, repository: Repository) -> Iterator[tuple[str, Mark]]:
    """Every mark by id.  One request for each 1,000."""
    for id, row in rows.rows(kv, rows.Stretch(space(repository), CONDEMNED)):
        yield id, _decode(row)


def put(kv: Store, repository: Repository, ids: Iterable[str], mark: Mark, fresh: Ids) -> None:
    """Store the same mark for all `ids`.  One request for each 1,000; may be repeated."""
    put_all(kv, repository, {id: mark for id in ids}, fresh)


def put_all(kv: Store, repository: Repository, marks: Mapping[str, Mark], fresh: Ids) -> None:
    """Store marks.  One request for each 1,000; may be repeated."""
    partition = space(repository)
    writes = [
        Write(partition, condemned_key(id), _encode(mark), fresh.stamp())
        for id, mark in marks.items()
    ]
    rows.put_all(kv, writes)


def forget(kv: Store, repository: Repository, ids: Iterable[str]) -> None:
    """Remove marks.  One request for each 1,000."""
    keys = [condemned_key(id) for id in ids]
    if keys:
        kv.delete(space(repository), keys)


def _encode(mark: Mark) -> bytes:
    pairs = {"run": mark.run, "since_ns": str(mark.since_ns)}
    return wire.encode_pairs(pairs | ({"spent": mark.spent} if mark.spent else {}))


def _decode(row: Row) -> Mark:
    pairs = wire.decode_pairs(row.value)
    return Mark(pairs["run"], int(pairs["since_ns"]), DeletedContent(pairs.get("spent", "")))
