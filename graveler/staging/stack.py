"""Several staging tokens as one: the tokens of a branch record, newest first.

The newest token that knows a path decides; tombstones are kept, because what they hide may stand in
a commit that only the engine can see.  A commit keeps one sorted delta for each token, so that it
can start again from another base without reading the tokens again.  For the engine.
"""

from collections.abc import Sequence
from math import inf

from graveler.fanout import SEQUENTIAL, Fanout
from graveler.ids import StagingToken
from graveler.kv.store import Store
from graveler.records import StagedValue
from graveler.staging import area
from graveler.streams import Cursor, End, Item, Overlay


def view(
    kv: Store,
    tokens: Sequence[StagingToken],
    first: int = area.FIRST_PAGE_COUNT,
    fanout: Fanout = SEQUENTIAL,
) -> Cursor:
    """What `tokens` (newest first) say together.  Costs what `area.cursor` costs, for each; the
    first pages behind a seek are fetched at the same time if any token has several shards."""
    shards = [area.shard_cursors(kv, token, first) for token in tokens]
    cursors = [cursor for each in shards for cursor in each]
    if len(cursors) == 1:
        return cursors[0]
    return Overlay(cursors) if len(cursors) == len(tokens) else _Together(cursors, fanout)


def deltas(
    kv: Store,
    tokens: Sequence[StagingToken],
    fanout: Fanout = SEQUENTIAL,
    rows_max: float = inf,
) -> dict[StagingToken, list[Item]]:
    """All that each token says, sorted by key, in the order of `tokens`; costs and raises what
    `area.values_many` does."""
    return dict(zip(tokens, area.values_many(kv, tokens, fanout, rows_max), strict=True))


class _Together:
    """`Overlay` whose cursors fetch together what they all need first."""

    def __init__(self, cursors: Sequence[area.ShardCursor], fanout: Fanout) -> None:
        self._cursors = cursors
        self._overlay = Overlay(cursors)
        self._fanout = fanout
        self._fetched = False

    def seek(self, key: bytes) -> None:
        self._overlay.seek(key)
        self._fetched = False

    def peek(self) -> Item | End:
        if not self._fetched:
            self._fetched = True
            waiting = [cursor for cursor in self._cursors if cursor.waits]
            if len(waiting) > 1:
                self._fanout.map(area.ShardCursor.fetch, waiting)
        return self._overlay.peek()

    def advance(self) -> None:
        self._overlay.advance()


def combine(deltas: Sequence[Sequence[Item]]) -> list[Item]:
    """Deltas, oldest to newest, as one: the newest decides, tombstones stay.  Pure."""
    if len(deltas) == 1:
        return list(deltas[0])
    together: dict[bytes, StagedValue] = {}
    for each in deltas:
        together.update(each)
    return sorted(together.items(), key=lambda item: item[0])
