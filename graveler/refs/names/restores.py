"""The dump that a bare repository is being restored from, or was restored from: one record.

The first restore stores it before any ref, and never changes it: two restores of different dumps
never mix their refs.
"""

from typing import Final, Literal, NamedTuple

from graveler import wire
from graveler.ids import MetarangeId
from graveler.kv.store import WRITTEN, Store
from graveler.records import ABSENT, Absent, Repository
from graveler.refs.keys import setting_key, space

_NAME: Final = "restore"


class DumpIds(NamedTuple):
    """The metaranges of a dump."""

    commits: MetarangeId
    tags: MetarangeId
    branches: MetarangeId


def find(kv: Store, repository: Repository) -> DumpIds | Literal[Absent.ABSENT]:
    """The dump of the restore that has begun; ABSENT if none has.  One request."""
    row = kv.get(space(repository), setting_key(_NAME))
    return ABSENT if row is ABSENT else _decoded(row.value)


def begin(kv: Store, repository: Repository, dump: DumpIds, stamp: bytes) -> DumpIds:
    """Store the record, unless there is one; the record as it is then.

    Raises `OutcomeUnknown` if it is not known whether it was stored.  One request.
    """
    raw = wire.encode_pairs(dump._asdict())
    outcome = kv.set_if(space(repository), setting_key(_NAME), raw, stamp, ABSENT)
    if outcome is WRITTEN or outcome.current is ABSENT:
        return dump
    return _decoded(outcome.current.value)


def _decoded(raw: bytes) -> DumpIds:
    pairs = wire.decode_pairs(raw)
    return DumpIds(*(MetarangeId(pairs[name]) for name in DumpIds._fields))
