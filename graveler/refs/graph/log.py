"""The log: the commits behind a commit, newest first.

Order: a child before its parents; among those that may come next the greater creation time first,
then the smaller id.  Creation times are the callers' and may lie, so a commit is shown only once no
commit of greater generation is left that might be a child of it: the walk looks ahead by generation
and counts, for each commit, the children that it has found and not yet shown.  The look-ahead has a
bound; beyond it creation times are believed.

    ready    ids without an unshown child, by time          what comes next
    ahead    ids that were found, by generation             what was not yet looked at

Wherever a single commit is left that leads to all others, the walk forgets what it has shown.
There a page that begins behind some commit jumps along the run of commits with one parent each, to
that commit or to the next merge.  So the way to a page costs little but for merges and the commits
that they brought in.

Lazy: nothing is looked up before it is needed.  For the engine, which adds filters by path.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from graveler import limits
from graveler.ids import CommitId
from graveler.records import ABSENT, Absent, Commit, CommitEntry
from graveler.refs.graph.commits import Lookup
from graveler.refs.graph.graph import at_depth, on_line


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which part of a log.

    `after`: only what comes behind this commit, the last of an earlier page.  `since_ns`: ends at
    the first commit that is older; the way to `after` jumps over commits without a look at their
    times.  `stop_at`: ends with this commit.  `first_parent`: only the line of first parents.
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
    Behind `after` it costs O(log n) calls for each run of commits with one parent, and one for each
    commit beside a merge: a linear log as good as nothing, however deep.  Raises `NotFound`.
    """
    shown = query.after is ABSENT
    goals: list[CommitEntry] = []  # what nothing may jump over; without `after` nothing jumps
    if not shown:
        ids = [id for id in (query.after, query.stop_at) if id is not ABSENT]
        goals = [CommitEntry(id, lookup(id)) for id in ids]
    if query.first_parent:
        walk = _line(lookup, start, goals)
    else:
        walk = _Walk(lookup, start, goals).entries()
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


def _line(lookup: Lookup, id: CommitId, goals: Sequence[CommitEntry]) -> Iterator[CommitEntry]:
    """First parents from `id` on; with goals, from the first of them that is on the line."""
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
    """The first goal on the run of one-parent commits that begins with `entry`, or its end."""
    depth = entry.commit.depth - entry.commit.linear
    for goal in goals:
        if goal.commit.depth > depth and on_line(lookup, entry, goal):
            depth = goal.commit.depth
    id = at_depth(lookup, entry, depth)
    return entry if id == entry.id else CommitEntry(id, lookup(id))


class _Walk:
    """One pass over all ancestors of a commit.

    `goals`: until the first of them was shown, runs of one-parent commits are jumped over up to the
    next goal.
    """

    def __init__(self, lookup: Lookup, start: CommitId, goals: Sequence[CommitEntry]) -> None:
        self._lookup = lookup
        self._goals = goals
        self._is_cut = False  # whether the look-ahead met its bound: order hangs on all that passed
        self._begin(CommitEntry(start, lookup(start)))
        self._offer(start)

    def _begin(self, entry: CommitEntry) -> None:
        """Know nothing but `entry`, which leads to all that was not shown."""
        self._commits: dict[CommitId, Commit] = {}
        self._unshown: dict[CommitId, int] = {}  # children found, not yet shown
        self._shown: set[CommitId] = set()
        self._ready: list[tuple[int, CommitId]] = []
        self._ahead: list[tuple[int, CommitId]] = []
        self._looked: set[CommitId] = set()
        self._know(entry)

    def entries(self) -> Iterator[CommitEntry]:
        """All that is not jumped over, in the order of the log."""
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
                continue  # a child turned up; its showing offers this one again
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
        """Look at everything that may be a child of a commit of `generation`."""
        while self._ahead and -self._ahead[0][0] > generation:
            if len(self._looked) - len(self._shown) >= limits.walk_count_max:
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
