"""Tags: names of commits that never move.

    absent ──create──► live ──delete──► deleted ──create──► live        rev grows

The record of a deleted tag stays until no duplicate of a write can be in flight (purge.py), and
every write names the version that it replaces.  So a late duplicate of a creation or of a deletion
does not change a tag that was created since.
"""

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from graveler.core import wire
from graveler.core.clock import Ids
from graveler.core.errors import AlreadyExists, Code, NotFound, OutcomeUnknown
from graveler.core.ids import CommitId, TagId
from graveler.core.records import ABSENT, Absent, Repository, Tag
from graveler.kv.replace import Found, replace_row, replace_seen
from graveler.kv.store import Row, Store
from graveler.refs import rows
from graveler.refs.keys import TAGS, space, tag_key


class NamedTag(NamedTuple):
    """A tag with its name."""

    id: TagId
    tag: Tag


class StoredTag(NamedTuple):
    """The record of a live or deleted tag, and the row that holds it."""

    tag: Tag
    row: Row


def decode(row: Row) -> StoredTag:
    """The tag that a row holds.  Raises `Corrupt`."""
    return StoredTag(wire.decode_tag(row.value), row)


def find(kv: Store, repository: Repository, tag: TagId) -> Tag | Literal[Absent.ABSENT]:
    """The live tag; ABSENT if there is none.  One request."""
    row = kv.get(space(repository), tag_key(tag))
    if row is ABSENT:
        return ABSENT
    record = wire.decode_tag(row.value)
    return ABSENT if record.deleted else record


def get(kv: Store, repository: Repository, tag: TagId) -> Tag:
    """The live tag.  Raises `NotFound`.  One request."""
    record = find(kv, repository, tag)
    if record is ABSENT:
        raise NotFound("tag not found", Code.TAG_NOT_FOUND, tag=tag)
    return record


def create(
    kv: Store,
    repository: Repository,
    tag: TagId,
    commit: CommitId,
    ids: Ids,
    earlier: StoredTag | Literal[Absent.ABSENT] = ABSENT,
) -> Tag:
    """Create the tag at `commit`.  `earlier`: the deleted tag that the caller read, or ABSENT.

    Raises `AlreadyExists`; `OutcomeUnknown` if no answer came, or if the tag may have been created
    and deleted since.  One request if no other client writes the tag.
    """
    rev = 1

    def change(row: Found, lost: bool) -> bytes:
        nonlocal rev
        stored = Tag(commit, 0, deleted=True) if row is ABSENT else decode(row).tag
        if lost and (stored.deleted or stored.rev != rev):
            raise OutcomeUnknown(f"tag creation not confirmed; outcome unknown: {tag=} {rev=}")
        if not stored.deleted:
            raise AlreadyExists("tag already exists: not unique")
        rev = stored.rev + 1
        return wire.encode_tag(Tag(commit, rev, rest=stored.rest))

    seen = ABSENT if earlier is ABSENT else earlier.row
    replace_seen(kv, (space(repository), tag_key(tag)), ids, change, seen)
    return Tag(commit, rev)


def _open(_commit: CommitId) -> None:
    """A gate that lets every deletion pass."""


def delete(
    kv: Store,
    repository: Repository,
    tag: TagId,
    ids: Ids,
    changed_ns: int = 0,
    gate: Callable[[CommitId], None] = _open,
) -> None:
    """Delete the tag.  `changed_ns`: the time of the deletion (0: not known).  `gate` is called
    with the tag's commit before each attempt; what it raises ends the call.

    Raises `NotFound`, `OutcomeUnknown`.  Two requests.  Of two concurrent deletions one raises
    `NotFound`, unless an answer was lost; then both may succeed.
    """

    def change(row: Found, lost: bool) -> bytes | Literal[Absent.ABSENT]:
        if lost:  # a tag never moves, so the one that was seen is gone, whoever deleted it
            return ABSENT
        if row is ABSENT or (stored := decode(row).tag).deleted:
            raise NotFound("tag not found", Code.TAG_NOT_FOUND, tag=tag)
        gate(stored.commit)
        gone = stored._replace(rev=stored.rev + 1, deleted=True, changed_ns=changed_ns)
        return wire.encode_tag(gone)

    replace_row(kv, (space(repository), tag_key(tag)), ids, change)


def list_page(
    kv: Store, repository: Repository, prefix: str, after: str, amount: int
) -> tuple[tuple[NamedTag, ...], bool]:
    """At most `amount` live tags by name, with `prefix` and after `after`; and whether more
    follow."""
    return rows.page(kv, rows.Stretch(space(repository), TAGS, prefix, after), amount, _live)


def every(kv: Store, repository: Repository) -> Iterator[NamedTag]:
    """All live tags by name.  One request for each 1,000."""
    return rows.every(kv, rows.Stretch(space(repository), TAGS), _live)


def _live(name: str, row: Row) -> NamedTag | None:
    tag = wire.decode_tag(row.value)
    return None if tag.deleted else NamedTag(TagId(name), tag)
