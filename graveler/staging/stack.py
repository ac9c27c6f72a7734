"""Several staging tokens as one: the tokens of a branch record, newest first.

The newest token that knows a path decides; tombstones are kept, because what they hide may stand in
a commit that only the engine can see.  A commit keeps one sorted delta for each token, so that it
can start again from another base without reading the tokens again.  For the engine.
"""

from collections.abc import Sequence

from graveler.ids import StagingToken
from graveler.kv.store import Store
from graveler.records import StagedValue
from graveler.staging import area
from graveler.streams import Cursor, Item, Overlay


def view(kv: Store, tokens: Sequence[StagingToken], first: int = area.FIRST_PAGE_COUNT) -> Cursor:
    """What `tokens` (newest first) say together.  Costs what `area.cursor` costs, for each."""
    cursors = [area.cursor(kv, token, first) for token in tokens]
    return cursors[0] if len(cursors) == 1 else Overlay(cursors)


def delta(kv: Store, token: StagingToken) -> list[Item]:
    """All that `token` says, sorted by key; costs what `area.scan` costs."""
    return [(key, staged.value) for key, staged in area.scan(kv, token)]


def combine(deltas: Sequence[Sequence[Item]]) -> list[Item]:
    """Deltas, oldest to newest, as one: the newest decides, tombstones stay.  Pure."""
    if len(deltas) == 1:
        return list(deltas[0])
    together: dict[bytes, StagedValue] = {}
    for each in deltas:
        together.update(each)
    return sorted(together.items(), key=lambda item: item[0])
