"""The graph of commits, page by page: everything that some heads lead to, children first.

    heads ──► waiting: commits that a shown child, or the caller, names and that are not shown yet
    the table of commits, by falling generation ──► a line that waits is shown; its parents wait

A child has a greater generation than its parents, so one pass over the table shows everything.  A
page ends with the place that it reached and with what waits there; the next page goes on from both,
and the heads count no more.  So all pages show one state.

If the table is not complete, because the janitor has not put all commits of an earlier release into
it, or because such a release still makes commits, the page is made from the records of all commits.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from graveler import limits
from graveler.engine.commits.heads import commit_of, resolved
from graveler.engine.ports import OpenRepository, operation_deadline
from graveler.errors import Corrupt, Invalid, Unavailable, Unsupported
from graveler.ids import CommitId, is_hex64, parse_branch_id
from graveler.kv.store import Place
from graveler.records import ABSENT, CommitEntry
from graveler.refs.graph import commits, table
from graveler.refs.graph.table import GraphPlace
from graveler.refs.names import branches

_STEM_LENGTH: Final = 24  # digits of an id: enough to tell the commits of a page apart
_SCAN_LEAST: Final = 1_000  # lines, once some have turned out to lead to other heads
_STEM_BYTES: Final = _STEM_LENGTH // 2
_TOKEN: Final = re.compile(r"([0-9]{1,18})\.([0-9a-f]{64})\.([A-Za-z0-9_=-]{0,6400})", re.ASCII)


@dataclass(frozen=True, slots=True)
class GraphQuery:
    """One page: at most `amount` commits.  `heads`: ref expressions; without effect if `after`, the
    token of the page before, is given."""

    heads: tuple[str, ...]
    after: str = ""
    amount: int = limits.graph_page_count_max


class GraphPage(NamedTuple):
    """Commits, each before its parents, as the table of commits has them (`table.short`).

    `heads`: the commits that the heads of the query mean, in their order.  `following`: the token
    of the next page; empty: everything was shown.  A page may have fewer commits than asked for,
    even none, although another follows.
    """

    heads: tuple[CommitId, ...]
    commits: tuple[CommitEntry, ...]
    following: str


class _Missing(Corrupt):
    """A commit that waits is not where it must be."""


_MISSING: Final = _Missing("graph: the record of a parent is missing")


@dataclass(slots=True)
class _Pass:
    """One pass over the table: where it is, and which ids wait, each with its generation if that is
    known (else 0)."""

    place: GraphPlace
    waiting: dict[str, int]

    def show(self, lines: Iterable[CommitEntry], amount: int) -> Iterator[CommitEntry]:
        """The lines that wait, `amount` at most.  Raises `_Missing`."""
        shown = 0
        for entry in lines:
            if not self.waiting or shown == amount:
                return
            generation = entry.commit.generation
            if generation < self.place.generation and generation < max(self.waiting.values()):
                raise _MISSING
            self.place = GraphPlace(generation, entry.id)
            if self.waiting.pop(entry.id[:_STEM_LENGTH], None) is None:
                continue
            shown += 1
            parents = entry.commit.parents
            known = generation - 1 if len(parents) == 1 else 0
            for parent in parents:
                self.waiting.setdefault(parent[:_STEM_LENGTH], known)
            yield entry

    @property
    def token(self) -> str:
        """Where the next page begins; empty if nothing waits.  Raises `Unsupported`."""
        if not self.waiting:
            return ""
        if len(self.waiting) > limits.graph_waiting_count_max:
            most = limits.graph_waiting_count_max
            raise Unsupported(f"graph too wide: more than {most} lines at once; name fewer heads")
        stems = b"".join(bytes.fromhex(stem) for stem in self.waiting)
        return f"{self.place.generation}.{self.place.id}.{urlsafe_b64encode(stems).decode()}"


def graph(
    repo: OpenRepository,
    query: GraphQuery,
    *,
    listed_count_max: int = limits.graph_listed_count_max,
) -> GraphPage:
    """One page of the graph.  `listed_count_max`: so many commits are read without a table.

    Errors: `NotFound`, `Invalid`; `Unsupported` if too many lines of development run side by side;
    `Unavailable` after the deadline, or if the repository has too many commits and no complete
    table yet.
    Cost, with nothing cached: 1 KV request for the state of the table and all heads that are names
    of branches, 1 for the commits of the heads, the resolution of every other head; then 1 to
    `limits.graph_scan_count_max` for the table, 1 of them if most commits are shown.  Later pages
    cost 1, and those.  Without a complete table: 1 for each 1,000 commits of the repository.
    """
    if query.after:
        heads: tuple[CommitId, ...] = ()
        begin = _parsed(query.after)
        is_complete = table.find_state(repo.kv, repo.record).is_complete
    else:
        heads, is_complete = _heads(repo, query.heads)
        begin = _begun(repo, heads)
    if is_complete:
        now = _Pass(begin.place, dict(begin.waiting))
        try:
            return GraphPage(heads, *_from_table(repo, now, query.amount))
        except _Missing:
            pass
    lines = _lines(repo, listed_count_max)
    return GraphPage(heads, *_from_lines(lines, begin, query.amount))


_Shown = tuple[tuple[CommitEntry, ...], str]


def _from_table(repo: OpenRepository, now: _Pass, amount: int) -> _Shown:
    deadline = operation_deadline(repo)
    shown: list[CommitEntry] = []
    size, is_over = amount, False
    for _ in range(limits.graph_scan_count_max):
        if is_over or not now.waiting or len(shown) == amount:
            break
        deadline.check("graph")
        page = table.scan(repo.kv, repo.record, now.place, size)
        shown += now.show(page.lines, amount - len(shown))
        size, is_over = max(_SCAN_LEAST, 2 * (amount - len(shown))), not page.more
    if is_over and now.waiting and len(shown) < amount:
        raise _MISSING
    return tuple(shown), now.token


def _lines(repo: OpenRepository, count_max: int) -> list[CommitEntry]:
    """The lines of the complete table, from the records of all commits."""
    deadline = operation_deadline(repo)
    lines: list[CommitEntry] = []
    for id, commit in commits.list_all(repo.kv, repo.record):
        deadline.check("graph")
        if len(lines) == count_max:
            raise Unavailable("graph not ready: the janitor has not built the table of commits yet")
        lines.append(CommitEntry(id, table.short(commit)))
    return sorted(lines, key=_rank)


def _from_lines(lines: Sequence[CommitEntry], now: _Pass, amount: int) -> _Shown:
    waits = (_rank(entry) for entry in lines if entry.id[:_STEM_LENGTH] in now.waiting)
    # Earlier than the place if earlier pages passed a commit over because the table lacked it; then
    # some commits come twice, and none is lost.
    first = min(waits, default=now.place.rank)
    shown = tuple(now.show((each for each in lines if _rank(each) >= first), amount))
    if now.waiting and len(shown) < amount:
        raise _MISSING
    return shown, now.token


def _rank(entry: CommitEntry) -> tuple[int, str]:
    return GraphPlace(entry.commit.generation, entry.id).rank


# ---- where a page begins -------------------------------------------------------------------------


def _heads(repo: OpenRepository, names: Sequence[str]) -> tuple[tuple[CommitId, ...], bool]:
    """The commits that the heads mean, and whether the table is complete."""
    if len(names) > limits.graph_heads_count_max:
        raise Invalid(f"heads: at most {limits.graph_heads_count_max}")
    state = table.state_place(repo.record)
    places: dict[str, Place] = {}
    for name in names:
        with suppress(Invalid):  # an expression, which is resolved on its own
            if not is_hex64(name):
                places[name] = branches.place(repo.record, parse_branch_id(name))
    rows = repo.kv.get_many(list(dict.fromkeys((state, *places.values()))))
    heads = []
    for name in names:
        row = rows.get(places[name]) if name in places else None
        branch = branches.decode(row).branch if row is not None else None
        is_live = branch is not None and branch.live
        heads.append(branch.commit if branch and is_live else resolved(repo, name).commit)
    return tuple(heads), table.state_of(rows.get(state, ABSENT)).is_complete


def _begun(repo: OpenRepository, heads: Sequence[CommitId]) -> _Pass:
    known = {id: repo.cache.commit(repo.record, id) for id in heads}
    unknown = [id for id, commit in known.items() if commit is ABSENT]
    stored = commits.get_many(repo.kv, repo.record, unknown)
    for id, commit in stored.items():
        repo.cache.put_commit(repo.record, id, commit)
    waiting = {id[:_STEM_LENGTH]: commit_of(repo, id).generation for id in known}
    return _Pass(GraphPlace(max(waiting.values(), default=0), ""), waiting)


def _parsed(token: str) -> _Pass:
    match = _TOKEN.fullmatch(token)
    if not match:
        raise Invalid("after invalid: it must be next_offset of a page before")
    generation, id, text = match.groups()
    try:
        stems = urlsafe_b64decode(text)
    except ValueError as error:
        raise Invalid("after invalid: it must be next_offset of a page before") from error
    parts = range(0, len(stems) - len(stems) % _STEM_BYTES, _STEM_BYTES)
    waiting = {stems[at : at + _STEM_BYTES].hex(): 0 for at in parts}
    return _Pass(GraphPlace(int(generation), id), waiting)
