"""The log: the commits behind a commit, newest first.

Order: a child before its parents; among those that may come next the greater creation time first,
then the smaller id.  Creation times are the callers' and may lie, so a commit is shown only once no
commit of greater generation is left that might be a child of it: the walk looks ahead by generation
and counts, for each commit, the children that it has found and not yet shown.  The look-ahead has a
bound; beyond it creation times are believed.

    ready    ids without an unshown child, by time          what comes next
    ahead    ids that were found, by generation             what was not yet looked at

Lazy: nothing is looked up before it is needed.  For the engine, which adds filters by path.
"""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from graveler import limits
from graveler.ids import CommitId
from graveler.records import ABSENT, Absent, Commit, CommitEntry
from graveler.refs.commits import Lookup


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which part of a log.

    `after`: only what comes behind this commit.  `since_ns`: ends at the first commit that is
    older.  `stop_at`: ends with this commit.  `first_parent`: only the line of first parents.
    `amount` and `limit` are the page's (`log_page`): at most so many, and with `limit` no more
    is promised.
    """

    after: CommitId | Literal[Absent.ABSENT] = ABSENT
    amount: int = limits.page_count_default
    since_ns: int | Literal[Absent.ABSENT] = ABSENT
    stop_at: CommitId | Literal[Absent.ABSENT] = ABSENT
    first_parent: bool = False
    limit: bool = False


def log(lookup: Lookup, start: CommitId, query: LogQuery) -> Iterator[CommitEntry]:
    """Commits from `start` on, as `query` says; `amount` and `limit` do not end it.

    The whole log is the same for every query on `start`, so a page follows the one before it.
    """
    walk = _line(lookup, start) if query.first_parent else _Walk(lookup, start).entries()
    shown = query.after is ABSENT
    for entry in walk:
        if query.since_ns is not ABSENT and entry.commit.created_ns < query.since_ns:
            return
        if shown:
            yield entry
        shown = shown or entry.id == query.after
        if entry.id == query.stop_at:
            return


def log_page(
    entries: Iterable[CommitEntry], query: LogQuery
) -> tuple[tuple[CommitEntry, ...], bool]:
    """The first `query.amount` entries, and whether more follow (never with `query.limit`)."""
    pending = iter(entries)
    page = tuple(islice(pending, query.amount))
    more = not query.limit and next(pending, None) is not None
    return page, more


def _line(lookup: Lookup, id: CommitId) -> Iterator[CommitEntry]:
    while True:
        commit = lookup(id)
        yield CommitEntry(id, commit)
        if not commit.parents:
            return
        id = commit.parents[0]


class _Walk:
    """One pass over all ancestors of a commit."""

    def __init__(self, lookup: Lookup, start: CommitId) -> None:
        self._lookup = lookup
        self._commits: dict[CommitId, Commit] = {}
        self._unshown: dict[CommitId, int] = {}  # children found, not yet shown
        self._shown: set[CommitId] = set()
        self._ready: list[tuple[int, CommitId]] = []
        self._ahead: list[tuple[int, CommitId]] = []
        self._looked: set[CommitId] = set()
        self._find(start)
        self._offer(start)

    def entries(self) -> Iterator[CommitEntry]:
        while self._ready:
            _, id = heapq.heappop(self._ready)
            if id in self._shown:
                continue
            commit = self._commits[id]
            self._look_ahead(commit.generation)
            if self._unshown[id]:
                continue  # a child turned up; its showing offers this one again
            self._look_at(id)
            self._shown.add(id)
            yield CommitEntry(id, commit)
            self._release(id)

    def _find(self, id: CommitId) -> None:
        commit = self._lookup(id)
        self._commits[id] = commit
        self._unshown[id] = 0
        heapq.heappush(self._ahead, (-commit.generation, id))

    def _offer(self, id: CommitId) -> None:
        heapq.heappush(self._ready, (-self._commits[id].created_ns, id))

    def _look_ahead(self, generation: int) -> None:
        """Look at everything that may be a child of a commit of `generation`."""
        while self._ahead and -self._ahead[0][0] > generation:
            if len(self._looked) - len(self._shown) >= limits.walk_count_max:
                return
            _, id = heapq.heappop(self._ahead)
            self._look_at(id)

    def _look_at(self, id: CommitId) -> None:
        if id in self._looked:
            return
        self._looked.add(id)
        for parent in set(self._commits[id].parents):
            if parent not in self._commits:
                self._find(parent)
            self._unshown[parent] += 1

    def _release(self, id: CommitId) -> None:
        for parent in set(self._commits[id].parents):
            self._unshown[parent] -= 1
            if not self._unshown[parent]:
                self._offer(parent)
