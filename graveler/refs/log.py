"""The log: a commit and its ancestors, newest first, and a child before its parents.

The order is that of `Commit.order_ns`, then of the generation.  No ancestor has a greater pair, so
a walk needs only a heap of the commits that it found and did not show, its front.  A page that
begins behind a commit jumps along runs of one-parent commits; a page that begins at a front reads
what it shows.
"""

import heapq
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal, NamedTuple

from graveler.core import limits
from graveler.core.errors import Invalid
from graveler.core.ids import CommitId
from graveler.core.records import ABSENT, Absent, Commit, CommitEntry
from graveler.refs.commits import Lookup
from graveler.refs.graph import at_depth, on_line

_ID_BYTES: Final = 32
_TOKEN: Final = re.compile(r"log:([A-Za-z0-9_-]{1,3200})", re.ASCII)


# ---- where a page begins -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Front:
    """The commits from which a page goes on."""

    ids: tuple[CommitId, ...]

    @property
    def token(self) -> str:
        """The front as text for `parse_token`; empty if it has no commit, or more than
        `limits.log_front_count_max`."""
        if not 0 < len(self.ids) <= limits.log_front_count_max:
            return ""
        raw = b"".join(bytes.fromhex(id) for id in self.ids)
        return "log:" + urlsafe_b64encode(raw).decode().rstrip("=")


def parse_token(text: str) -> Front | Literal[Absent.ABSENT]:
    """The front of a token; ABSENT if the text does not look like one.  Raises `Invalid`."""
    if not text.startswith("log:"):
        return ABSENT
    match = _TOKEN.fullmatch(text)
    try:
        raw = urlsafe_b64decode(match[1] + "=" * (-len(match[1]) % 4)) if match else b""
    except ValueError:
        raw = b""
    if not raw or len(raw) % _ID_BYTES or len(raw) > _ID_BYTES * limits.log_front_count_max:
        raise Invalid("after invalid: it must be a ref, or next_offset of the page before")
    parts = range(0, len(raw), _ID_BYTES)
    return Front(tuple(CommitId(raw[at : at + _ID_BYTES].hex()) for at in parts))


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which part of a log.

    `after`           show only entries after this commit, which is the last of an earlier page; or
                      begin at this front, whatever the start
    `since_ns`        leave out older commits, and end after `limits.log_older_count_max` of them in
                      a row: a commit with an early time may stand before newer ones
    `stop_at`         end with this commit
    `first_parent`    show only the line of first parents
    `amount`          the page has at most so many entries (`log_page`)
    `limit`           the page never reports that more entries follow (`log_page`)
    """

    after: CommitId | Front | Literal[Absent.ABSENT] = ABSENT
    amount: int = limits.page_count_default
    since_ns: int | Literal[Absent.ABSENT] = ABSENT
    stop_at: CommitId | Literal[Absent.ABSENT] = ABSENT
    first_parent: bool = False
    limit: bool = False


# ---- the log -------------------------------------------------------------------------------------


class Log:
    """The commits from `start` on that `query` selects, once.  `amount` and `limit` have no effect.

    The order of the log is the same for every query on `start`, so each page continues the one
    before it.  Reaching the commit `after` costs O(log n) calls for each run of one-parent commits,
    and one call for each commit beside a merge; a front costs one call for each of its commits.
    Iteration raises `NotFound`.
    """

    def __init__(self, lookup: Lookup, start: CommitId, query: LogQuery) -> None:
        self._query = query
        self._walk: Iterator[CommitEntry]
        self._wide: _Walk | Literal[Absent.ABSENT] = ABSENT
        if query.first_parent and isinstance(query.after, Front):
            raise Invalid("after invalid: it is of a log without first_parent")
        if query.first_parent:
            self._walk = _line(lookup, start, query)
        else:
            self._wide = _Walk(lookup, start, query)
            self._walk = self._wide.entries()

    def __iter__(self) -> Iterator[CommitEntry]:
        query = self._query
        shown = query.after is ABSENT or isinstance(query.after, Front)
        older = 0  # in a row
        for entry in self._walk:
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

    def behind(self, entry: CommitEntry) -> str:
        """What `after` may be for a page behind `entry`, which the iteration yielded last: its id
        where a jump leads there, else the token of the front if it has one."""
        return self._wide.behind(entry) if self._wide is not ABSENT else entry.id


class LogPage(NamedTuple):
    """The entries of a page.  `following`: the `after` of the next page; empty if none follows."""

    entries: tuple[CommitEntry, ...]
    following: str


def log_page(
    entries: Iterable[CommitEntry], behind: Callable[[CommitEntry], str], query: LogQuery
) -> LogPage:
    """The first `query.amount` entries, and where the next page begins (nowhere with
    `query.limit`).  `behind`: that of the log from which the entries come."""
    pending = iter(entries)
    page = tuple(islice(pending, query.amount))
    following = behind(page[-1]) if page and not query.limit else ""
    return LogPage(page, following if following and next(pending, None) is not None else "")


def _line(lookup: Lookup, id: CommitId, query: LogQuery) -> Iterator[CommitEntry]:
    """The line of first parents from `id`.  With a commit `after`, it starts at the goal that comes
    first on the line."""
    goals = _goals(lookup, query)
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


def _goals(lookup: Lookup, query: LogQuery) -> list[CommitEntry]:
    """The commits that no jump may skip; empty: no jumps."""
    if isinstance(query.after, (Front, Absent)):
        return []
    ids = [id for id in (query.after, query.stop_at) if id is not ABSENT]
    return [CommitEntry(id, lookup(id)) for id in ids]


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
    """One pass over a commit, or a front, and all ancestors.  Until the first goal was shown, it
    jumps over runs of one-parent commits, up to the next goal."""

    def __init__(self, lookup: Lookup, start: CommitId, query: LogQuery) -> None:
        self._lookup = lookup
        self._query = query
        self._from = query.after.ids if isinstance(query.after, Front) else (start,)
        self._is_line = not isinstance(query.after, Front)  # no merge yet: jumps lead anywhere
        self._found: set[CommitId] = set()
        self._heap: list[tuple[int, int, CommitId, Commit]] = []

    def entries(self) -> Iterator[CommitEntry]:
        """All commits that are not jumped over, in the order of the log."""
        goals = _goals(self._lookup, self._query)
        self._find(self._from)
        while self._heap:
            *_, id, commit = heapq.heappop(self._heap)
            entry = CommitEntry(id, commit)
            if goals and not self._heap:
                entry = _leap(self._lookup, entry, goals)
            self._is_line = self._is_line and len(entry.commit.parents) < 2
            if goals and entry.id == goals[0].id:
                goals = []
            yield entry
            self._find(entry.commit.parents)

    def behind(self, entry: CommitEntry) -> str:
        if self._is_line:
            return entry.id
        ids = {id for *_, id, _ in self._heap}
        ids.update(id for id in entry.commit.parents if id not in self._found)
        return Front(tuple(sorted(ids))).token or entry.id

    def _find(self, ids: Iterable[CommitId]) -> None:
        for id in ids:
            if id not in self._found:
                commit = self._lookup(id)
                self._found.add(id)
                heapq.heappush(self._heap, (-commit.order_ns, -commit.generation, id, commit))
