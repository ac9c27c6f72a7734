"""Published snapshots: tables of commits whose files other engines read at their addresses.

A garbage collection keeps the commits that a snapshot names.  The record of a withdrawn snapshot
stays, empty, so that a late duplicate of a write finds another version.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, cast

from graveler.core import wire
from graveler.core.clock import Ids
from graveler.core.ids import CommitId
from graveler.core.records import ABSENT, Absent, Repository
from graveler.kv.replace import Found, replace_row
from graveler.kv.store import Row, Store
from graveler.refs import rows
from graveler.refs.keys import SNAPSHOTS, snapshot_key, space


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The version of a snapshot that was published last, or is being published.

    `commit`, `path`: the table; `version`: the number of its log file.  `before_commit`,
    `before_path`: the table of the version before; empty for the first.  `began_ns`: when its
    publication began.
    """

    name: str
    commit: CommitId
    path: str
    version: int = 0
    before_commit: str = ""
    before_path: str = ""
    began_ns: int = 0

    @property
    def commits(self) -> tuple[CommitId, ...]:
        """The commits whose files readers of the snapshot may open."""
        before = (CommitId(self.before_commit),) if self.before_commit else ()
        return (self.commit, *before)


Known = Snapshot | Literal[Absent.ABSENT]
_ENDED: Final = wire.encode_pairs({})
_NUMBERS: Final = ("version", "began_ns")


def find(kv: Store, repository: Repository, name: str) -> Known:
    """The snapshot; ABSENT if there is none.  One request."""
    return _known(kv.get(space(repository), snapshot_key(name)))


def replace(
    kv: Store, repository: Repository, name: str, ids: Ids, change: Callable[[Known], Known]
) -> None:
    """Replace the record by what `change` makes of it: ABSENT leaves it as it is.  `change` may be
    called repeatedly, and may raise.  Two requests if no other client writes it."""

    def changed(row: Found, _lost: bool) -> bytes | Literal[Absent.ABSENT]:
        snapshot = change(_known(row))
        return ABSENT if snapshot is ABSENT else _encode(snapshot)

    replace_row(kv, (space(repository), snapshot_key(name)), ids, changed)


def end(
    kv: Store, repository: Repository, name: str, ids: Ids, check: Callable[[Snapshot], None]
) -> bool:
    """Remove the snapshot, and return whether there was one.  `check` may be called repeatedly, and
    may raise to refuse.  Two requests if no other client writes it."""
    found = False

    def ended(row: Found, _lost: bool) -> bytes | Literal[Absent.ABSENT]:
        nonlocal found
        snapshot = _known(row)
        if snapshot is ABSENT:
            return ABSENT
        check(snapshot)
        found = True
        return _ENDED

    replace_row(kv, (space(repository), snapshot_key(name)), ids, ended)
    return found


def list_page(
    kv: Store, repository: Repository, prefix: str, after: str, amount: int
) -> tuple[tuple[Snapshot, ...], bool]:
    """At most `amount` snapshots by name, with `prefix` and after `after`; and whether more
    follow."""
    return rows.page(kv, rows.Stretch(space(repository), SNAPSHOTS, prefix, after), amount, _live)


def every(kv: Store, repository: Repository) -> Iterator[Snapshot]:
    """All snapshots by name.  One request for each 1,000."""
    return rows.every(kv, rows.Stretch(space(repository), SNAPSHOTS), _live)


def _live(_name: str, row: Row) -> Snapshot | None:
    known = _known(row)
    return None if known is ABSENT else known


def _known(row: Found) -> Known:
    pairs = {} if row is ABSENT else wire.decode_pairs(row.value)
    if not pairs:
        return ABSENT
    values = {each: int(text) if each in _NUMBERS else text for each, text in pairs.items()}
    return Snapshot(**cast(dict[str, Any], values))


def _encode(snapshot: Snapshot) -> bytes:
    return wire.encode_pairs(
        {each.name: str(getattr(snapshot, each.name)) for each in fields(Snapshot)}
    )
