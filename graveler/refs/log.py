"""The log: a commit and its ancestors, newest first, and a child before its parents.

Creation times may be wrong, so a commit is shown only when no commit of greater generation is left
that might be its child.  The look-ahead has a bound (`walk_count_max`).

    ready    ids without an unshown child, by time          candidates for the next entry
    ahead    ids that were found, by generation             their parents are not read yet

A page that begins after a commit jumps along runs of one-parent commits.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from graveler.core import limits
from graveler.core.ids import CommitId
from graveler.core.records import ABSENT, Absent, Commit, CommitEntry
from graveler.refs.commits import Lookup
from graveler.refs.graph import at_depth, on_line


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which part of a log.

    `after`           show only entries after this commit, which is the last of an earlier page
    `since_ns`        leave out older commits, and end after `limits.log_older_count_max` of them in
                      a row: a commit with an early time may stand before newer ones
    `stop_at`         end with this commit
    `first_parent`    show only the line of first parents
    `amount`          the page has at most so many entries (`log_page`)
    `limit`           the page never reports that more entries follow (`log_page`)
    """

    after: CommitId | Literal[Absent.ABSENT] = ABSENT
    amount: int = limits.page_count_default
    since_ns: int | Literal[Absent.ABSENT] = ABSENT
    stop_at: CommitId | Literal[Absent.ABSENT] = ABSENT
    first_parent: bool = False
    limit: bool = False


def log(
    lookup: Lookup,
    start: CommitId,
    query: LogQuery,
    walk_count_max: int = limits.walk_count_max,
) -> Iterator[CommitEntry]:
    """The commits from `start` on that `query` selects.  `amount` and `limit` have no effect here.

    The order of the log is the same for every query on `start`, so each page continues the one
    before it.  Reaching `after` costs O(log n) calls for each run of one-parent commits, and one
    call for each commit beside a merge.  So it costs almost nothing in a linear log of any depth.
    The walk reads at most `walk_count_max` commits ahead.  Raises `NotFound`.
    """
    shown = query.after is ABSENT
    goals: list[CommitEntry] = []  # commits that no jump may skip; no jumps without `after`
    if not shown:
        ids = [id for id in (query.after, query.stop_at) if id is not ABSENT]
        goals = [CommitEntry(id, lookup(id)) for id in ids]
    if query.first_parent:
        walk = _line(lookup, start, goals)
    else:
        walk = _Walk(lookup, start, goals, walk_count_max).entries()
    older = 0  # in a row
    for entry in walk:
        if not shown:
            pass
        elif query.since_ns is ABSENT or entry.commit.created_ns >= query.since_ns:
            older = 0
            yield entry
        else:
            older += 1
            if older == limits.log_older_count_max:
                return
        shown = shown or entry.id == query.after
        if entry.id == query.stop_at:
            return


def log_page(
    entries: Iterable[CommitEntry], query: LogQuery
) -> tuple[tuple[CommitEntry, ...], bool]:
    """The first `query.amount` entries, and whether more follow (always False with
    `query.limit`)."""
    pending = iter(entries)
    page = tuple(islice(pending, query.amount))
    more = not query.limit and next(pending, None) is not None
    return page, more


def _line(lookup: Lookup, id: CommitId, goals: Sequence[CommitEntry]) -> Iterator[CommitEntry]:
    """The line of first parents from `id`.  With goals, it starts at the goal that comes first on
    the line."""
    if goals:
        head = CommitEntry(id, lookup(id))
        on = [goal for goal in goals if on_line(lookup, head, goal)]
        if goals[0] not in on:
            return
        id = max(on, key=lambda goal: goal.commit.depth).id
    while True:
        commit = lookup(id)
        yield CommitEntry(id, commit)
        if not commit.parents:
            return
        id = commit.parents[0]


def _leap(lookup: Lookup, entry: CommitEntry, goals: Sequence[CommitEntry]) -> CommitEntry:
    """The first goal on the run of one-parent commits that begins with `entry`; without one, the
    end of the run."""
    depth = entry.commit.depth - entry.commit.linear
    for goal in goals:
        if goal.commit.depth > depth and on_line(lookup, entry, goal):
            depth = goal.commit.depth
    id = at_depth(lookup, entry, depth)
    return entry if id == entry.id else CommitEntry(id, lookup(id))


class _Walk:
    """One pass over a commit and all its ancestors.

    `goals`: until the first goal was shown, the walk jumps over runs of one-parent commits, up to
    the next goal.  `ahead_max`: the bound of the look-ahead.
    """

    def __init__(
        self, lookup: Lookup, start: CommitId, goals: Sequence[CommitEntry], ahead_max: int
    ) -> None:
        self._lookup = lookup
        self._ahead_max = ahead_max
        self._goals = goals
        self._is_cut = False  # look-ahead met its bound: the order depends on all shown commits
        self._begin(CommitEntry(start, lookup(start)))
        self._offer(start)

    def _begin(self, entry: CommitEntry) -> None:
        """Forget all commits except `entry`, which leads to all commits that were not shown."""
        self._commits: dict[CommitId, Commit] = {}
        self._unshown: dict[CommitId, int] = {}  # children found, not yet shown
        self._shown: set[CommitId] = set()
        self._ready: list[tuple[int, CommitId]] = []
        self._ahead: list[tuple[int, CommitId]] = []
        self._looked: set[CommitId] = set()
        self._know(entry)

    def entries(self) -> Iterator[CommitEntry]:
        """All commits that are not jumped over, in the order of the log."""
        while self._ready:
            _, id = heapq.heappop(self._ready)
            if id in self._shown:
                continue
            if len(self._commits) - len(self._shown) == 1 and not self._is_cut:
                entry = CommitEntry(id, self._commits[id])
                if self._goals:
                    entry = _leap(self._lookup, entry, self._goals)
                self._begin(entry)
                id = entry.id
            commit = self._commits[id]
            self._look_ahead(commit.generation)
            if self._unshown[id]:
                continue  # a child was found; showing it makes this commit ready again
            self._look_at(id)
            self._shown.add(id)
            if self._goals and id == self._goals[0].id:
                self._goals = ()
            yield CommitEntry(id, commit)
            self._release(id)

    def _find(self, id: CommitId) -> None:
        self._know(CommitEntry(id, self._lookup(id)))

    def _know(self, entry: CommitEntry) -> None:
        self._commits[entry.id] = entry.commit
        self._unshown[entry.id] = 0
        heapq.heappush(self._ahead, (-entry.commit.generation, entry.id))

    def _offer(self, id: CommitId) -> None:
        heapq.heappush(self._ready, (-self._commits[id].created_ns, id))

    def _look_ahead(self, generation: int) -> None:
        """Read the parents of all found commits of a greater generation than `generation`: all
        children of a commit of that generation are among them.  Stops at the bound."""
        while self._ahead and -self._ahead[0][0] > generation:
            if len(self._looked) - len(self._shown) >= self._ahead_max:
                self._is_cut = True
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
