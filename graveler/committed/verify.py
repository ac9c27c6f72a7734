"""Checks stored metaranges and ranges in full: recomputes every id from the records.

It reads everything and trusts no stored id.  Damage is returned as values and not raised, so that
one damage does not hide the next.
"""

from collections.abc import Iterator
from typing import NamedTuple

from graveler.committed import seal
from graveler.committed.ranges import RANGE_PROPERTIES, Keyspace
from graveler.committed.reader import range_batches
from graveler.core.errors import Corrupt, NotFound
from graveler.core.framing import identity_of
from graveler.core.identity import merkle_identity
from graveler.core.ids import MetarangeId
from graveler.core.records import RangeRef, Record


class Damage(NamedTuple):
    """The damage of one file.  `id`: the id of a range or a metarange."""

    id: str
    reason: str


def metarange_damages(
    space: Keyspace, metarange_id: MetarangeId, skip: frozenset[str] = frozenset()
) -> Iterator[Damage]:
    """All damages of a metarange and of its ranges, except the ranges whose ids are in `skip`.

    Checks ids, order, counts, bounds, and identities if they are recorded.  The recorded sizes of
    ranges are not checked: other writers record an estimate, and it says only where to split.
    """
    try:
        refs = space.metarange(metarange_id).ranges
    except (Corrupt, NotFound) as error:
        yield Damage(metarange_id, str(error))
        return
    for ref in refs:
        if ref.id not in skip:
            yield from range_damages(space, ref)


def range_damages(space: Keyspace, ref: RangeRef) -> Iterator[Damage]:
    """The damage of one range, if any."""
    records: list[Record] = []
    try:
        marks = space.open(ref).marks
        for batch in range_batches(space, ref):
            records.extend(batch)
        identities = [(key, identity_of(value)) for key, value in records]
    except (Corrupt, NotFound) as error:
        yield Damage(ref.id, str(error))
        return
    if seal.file_id(records, {**RANGE_PROPERTIES, **marks}) != ref.id:
        yield Damage(ref.id, f"range does not hash to its id: range={ref.id}")
    elif ref.identity and merkle_identity(identities) != ref.identity:
        yield Damage(ref.id, f"range does not hash to its identity: range={ref.id}")
