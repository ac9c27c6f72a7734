"""Repository records, and the user-defined metadata of a repository.

The record of a deleted repository stays until its purge has ended.  A new repository of the same
name swaps it, and has another uid and therefore another partition.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from graveler.core import limits, wire
from graveler.core.clock import Ids
from graveler.core.errors import Code, Contended, NotFound, OutcomeUnknown, Unavailable
from graveler.core.ids import RepositoryId
from graveler.core.records import ABSENT, Absent, Repository, RepositoryState
from graveler.kv.replace import Found as FoundRow
from graveler.kv.replace import replace_row, replace_seen
from graveler.kv.store import Condition, Matches, Row, Store, landed
from graveler.refs import rows
from graveler.refs.keys import METADATA, REPOSITORIES, metadata_key, setting_key, space

_REPLACED: Final = "replaced"


class VersionedRepository(NamedTuple):
    """A repository record and the version of its stored form."""

    repository: Repository
    version: bytes


def find(kv: Store, repository: RepositoryId) -> VersionedRepository | Literal[Absent.ABSENT]:
    """The record, also of a deleted repository; ABSENT if there is none.  One request."""
    row = kv.get(REPOSITORIES, repository.encode())
    if row is ABSENT:
        return ABSENT
    return VersionedRepository(wire.decode_repository(row.value), row.version)


def get(kv: Store, repository: RepositoryId) -> Repository:
    """The live repository.  Raises `NotFound`.  One request."""
    record = find(kv, repository)
    if record is ABSENT or record.repository.state is not RepositoryState.LIVE:
        raise NotFound("repository not found", Code.REPOSITORY_NOT_FOUND, repository=repository)
    return record.repository


def put_new(
    kv: Store,
    repository: Repository,
    stamp: bytes,
    earlier: VersionedRepository | Literal[Absent.ABSENT],
) -> bool:
    """Create the record.  `earlier`: the result of `find`, which is replaced.  False: another
    client was first.

    One request.  Raises `OutcomeUnknown` if no answer came.
    """
    condition: Condition = ABSENT if earlier is ABSENT else Matches(earlier.version)
    raw = wire.encode_repository(repository)
    outcome = kv.set_if(REPOSITORIES, repository.id.encode(), raw, stamp, condition)
    return landed(outcome, stamp)


def note_replaced(kv: Store, repository: Repository, stamp: bytes) -> None:
    """Note in the partition of a deleted repository that a new one takes its name.  The caller
    writes the note before the new record; afterwards no record of that name has the old uid.  One
    request; may be repeated."""
    kv.set(space(repository), setting_key(_REPLACED), wire.encode_pairs({}), stamp)


def was_replaced(kv: Store, repository: Repository) -> bool:
    """Whether `note_replaced` was called for this repository.  One request."""
    return kv.get(space(repository), setting_key(_REPLACED)) is not ABSENT


def swap(
    kv: Store, seen: VersionedRepository, new: Repository, stamp: bytes
) -> VersionedRepository | Literal[Absent.ABSENT]:
    """Replace the record `seen`.  ABSENT: failed or unknown; the caller reads again.  One
    request."""
    raw = wire.encode_repository(new)
    try:
        outcome = kv.set_if(REPOSITORIES, new.id.encode(), raw, stamp, Matches(seen.version))
    except OutcomeUnknown:
        return ABSENT
    return VersionedRepository(new, stamp) if landed(outcome, stamp) else ABSENT


Found = Repository | Literal[Absent.ABSENT]


def change(
    kv: Store, name: RepositoryId, ids: Ids, change_of: Callable[[Found, bool], Found]
) -> None:
    """Replace the record of `name` atomically by the result of `change_of`; ABSENT leaves it as is.

    `change_of` gets the record, and whether an earlier write of this call may have been applied and
    replaced since.  It may raise to refuse.  Errors: those of `change_of`, `Contended`,
    `OutcomeUnknown`.  Two requests if no other client writes the record.
    """

    def changed(row: FoundRow, lost: bool) -> bytes | Literal[Absent.ABSENT]:
        record = change_of(ABSENT if row is ABSENT else wire.decode_repository(row.value), lost)
        return ABSENT if record is ABSENT else wire.encode_repository(record)

    replace_row(kv, (REPOSITORIES, name.encode()), ids, changed)


def list_page(
    kv: Store, prefix: str, matches: Callable[[str], bool], after: str, amount: int
) -> tuple[tuple[Repository, ...], bool]:
    """At most `amount` live repositories by name, with `prefix`, whose name `matches`, and after
    `after`; and whether more follow."""

    def shown(name: str, row: Row) -> Repository | None:
        return _live(name, row) if matches(name) else None

    return rows.page(kv, rows.Stretch(REPOSITORIES, b"", prefix, after), amount, shown)


def remove(kv: Store, record: VersionedRepository) -> None:
    """Remove the record of a deleted repository, if it still has that version.  One request."""
    kv.delete(REPOSITORIES, [record.repository.id.encode()], [record.version])


def every(kv: Store, after: str = "") -> Iterator[Repository]:
    """All live repositories by name, after `after`.  One request for each 1,000."""
    return rows.every(kv, rows.Stretch(REPOSITORIES, b"", after=after), _live)


def _live(_name: str, row: Row) -> Repository | None:
    repository = wire.decode_repository(row.value)
    return repository if repository.state is RepositoryState.LIVE else None


# ---- metadata: one row per pair, so that writers of different keys do not conflict ---------------
# A removed pair leaves an empty row, so that a late duplicate of an older write finds it and fails.


def get_metadata(kv: Store, repository: Repository) -> dict[str, str]:
    """All pairs.  One request for each 1,000."""
    pairs: dict[str, str] = {}
    for _, row in rows.rows(kv, rows.Stretch(space(repository), METADATA)):
        pairs.update(wire.decode_pairs(row.value))
    return pairs


def merge_metadata(kv: Store, repository: Repository, pairs: Mapping[str, str], ids: Ids) -> None:
    """Set `pairs` and leave other keys as they are.  Each pair is atomic, all together are not.

    Errors: `Contended`, `OutcomeUnknown`.  One batch of reads, and one request per pair.
    """
    _replace_pairs(kv, repository, ids, {name: {name: value} for name, value in pairs.items()})


def delete_metadata(kv: Store, repository: Repository, keys: Sequence[str], ids: Ids) -> None:
    """Remove pairs.  An absent pair is no error.  Cost and errors: those of `merge_metadata`."""
    # A name that is too long to be stored cannot exist.
    longest = limits.kv_key_length_bytes_max
    stored = [name for name in keys if len(metadata_key(name)) <= longest]
    _replace_pairs(kv, repository, ids, {name: {} for name in stored})


def _replace_pairs(
    kv: Store, repository: Repository, ids: Ids, groups: Mapping[str, dict[str, str]]
) -> None:
    """Store the wanted pairs at each name; empty pairs remove the name."""
    places = {name: (space(repository), metadata_key(name)) for name in groups}
    stored = kv.get_many(tuple(places.values())) if places else {}
    begun = False
    for name, pairs in groups.items():

        def change(
            row: FoundRow, _: bool, pairs: dict[str, str] = pairs
        ) -> bytes | Literal[Absent.ABSENT]:
            stored = {} if row is ABSENT else wire.decode_pairs(row.value)
            return wire.encode_pairs(pairs) if pairs or stored else ABSENT

        place = places[name]
        try:
            replace_seen(kv, place, ids, change, stored.get(place, ABSENT))
        except (Contended, Unavailable) as error:
            if not begun:
                raise
            # Neither error may pass: both mean that nothing was written.
            raise OutcomeUnknown(
                f"pairs were replaced in part; outcome unknown: key={name}"
            ) from error
        begun = True
