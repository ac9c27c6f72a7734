"""A merged view of several staging tokens: the tokens of one branch record, newest first.

For each path, the newest token that has a row for it wins.  Tombstones are kept, because the entry
that they delete may be in a commit, which only the engine can see.  A commit keeps one sorted delta
per token, so that it can restart from another base without reading the tokens again.
"""

from collections.abc import Sequence

from graveler.core.fanout import SEQUENTIAL, Fanout
from graveler.core.ids import StagingToken
from graveler.core.records import StagedValue
from graveler.core.streams import Cursor, End, Item, Overlay
from graveler.kv.store import Store
from graveler.staging import area


def view(
    kv: Store,
    tokens: Sequence[StagingToken],
    first: int = area.FIRST_PAGE_COUNT,
    fanout: Fanout = SEQUENTIAL,
) -> Cursor:
    """A cursor over the merged rows of `tokens`, which are newest first.  Costs what `area.cursor`
    costs, for each token.  If any token has several shards, the first pages after a seek are
    fetched in parallel."""
    shards = [area.shard_cursors(kv, token, first) for token in tokens]
    cursors = [cursor for each in shards for cursor in each]
    if len(cursors) == 1:
        return cursors[0]
    return Overlay(cursors) if len(cursors) == len(tokens) else _Together(cursors, fanout)


class _Together:
    """An `Overlay` whose cursors fetch their first pages after a seek in parallel."""

    def __init__(self, cursors: Sequence[area.ShardCursor], fanout: Fanout) -> None:
        self._overlay = Overlay(cursors)
        self._fanout = fanout
        self._fetched = False

    def seek(self, key: bytes) -> None:
        self._overlay.seek(key)
        self._fetched = False

    def peek(self) -> Item | End:
        self._fetch()
        return self._overlay.peek()

    def advance(self) -> None:
        self._overlay.advance()

    def take(self, count: int, end: bytes) -> Sequence[Item]:
        self._fetch()
        return self._overlay.take(count, end)

    def _fetch(self) -> None:
        if self._fetched:
            return
        self._fetched = True
        waiting = [cursor for cursor in self._overlay.unread if cursor.waits]
        if len(waiting) > 1:
            self._fanout.map(area.ShardCursor.fetch, waiting)


def combine(deltas: Sequence[Sequence[Item]]) -> list[Item]:
    """Merge deltas, given oldest to newest, into one.  The newest row of a key wins; tombstones
    stay."""
    if len(deltas) == 1:
        return list(deltas[0])
    together: dict[bytes, StagedValue] = {}
    for each in deltas:
        together.update(each)
    return sorted(together.items(), key=lambda item: item[0])
