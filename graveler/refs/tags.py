"""Tags: names of commits that never move.  For the engine."""

from typing import Literal, NamedTuple

from graveler import wire
from graveler.errors import AlreadyExists, NotFound
from graveler.ids import CommitId, TagId
from graveler.kv.store import WRITTEN, Row, Store
from graveler.records import ABSENT, Absent, Repository, Tag
from graveler.refs import listing
from graveler.refs.space import TAGS, space, tag_key


class NamedTag(NamedTuple):
    """A tag with its name."""

    id: TagId
    tag: Tag


def find(kv: Store, repository: Repository, tag: TagId) -> Tag | Literal[Absent.ABSENT]:
    """One request."""
    row = kv.get(space(repository), tag_key(tag))
    return ABSENT if row is ABSENT else wire.decode_tag(row.value)


def get(kv: Store, repository: Repository, tag: TagId) -> Tag:
    """Raises `NotFound`.  One request."""
    found = find(kv, repository, tag)
    if found is ABSENT:
        raise NotFound("tag not found")
    return found


def create(kv: Store, repository: Repository, tag: TagId, commit: CommitId, stamp: bytes) -> Tag:
    """Name `commit`; raises `AlreadyExists`, or `OutcomeUnknown` when no answer came.

    One request.  A refusal that shows our own stamp is the echo of our own success.
    """
    new = Tag(commit)
    outcome = kv.set_if(space(repository), tag_key(tag), wire.encode_tag(new), stamp, ABSENT)
    if outcome is WRITTEN:
        return new
    if outcome.current is not ABSENT and outcome.current.version == stamp:
        return new
    raise AlreadyExists("tag already exists: not unique")


def delete(kv: Store, repository: Repository, tag: TagId) -> None:
    """Remove the name; raises `NotFound`.  Two requests; of two that race, both may succeed."""
    get(kv, repository, tag)
    kv.delete(space(repository), [tag_key(tag)])


def list_page(
    kv: Store, repository: Repository, prefix: str, after: str, amount: int
) -> tuple[tuple[NamedTag, ...], bool]:
    """Tags by name; whether more follow."""

    def shown(name: str, row: Row) -> NamedTag:
        return NamedTag(TagId(name), wire.decode_tag(row.value))

    return listing.page(kv, listing.Stretch(space(repository), TAGS, prefix, after), amount, shown)
