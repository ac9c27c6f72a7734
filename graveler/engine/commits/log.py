"""History: the commit of a ref, the log, merge bases, and the graph that heads lead to.

A page of the graph is one pass over the table of commits, children before parents: a child has a
greater generation.  It ends with the place that it reached and the commits that wait there, and the
next page goes on from both, so all pages show one state.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from graveler.committed import diff, reader
from graveler.core import limits
from graveler.core.errors import Corrupt, Gone, Invalid, Unsupported
from graveler.core.identity import identity_of
from graveler.core.ids import CommitId, is_hex64, parse_branch_id, parse_path, parse_prefix
from graveler.core.records import ABSENT, Absent, CommitEntry
from graveler.engine.commits.heads import best_base, commit_of, head_of, resolved, timed_lookup
from graveler.engine.ports import OpenRepository, keyspace, operation_deadline, page_end
from graveler.kv.store import Place
from graveler.refs import branches, commits
from graveler.refs import commits as commits_records
from graveler.refs import log as walks
from graveler.refs.commits import GraphPlace
from graveler.refs.log import LogPage

_STEM_LENGTH: Final = 24  # digits of an id: enough to tell the commits of a page apart
_SCAN_LEAST: Final = 1_000  # lines, once some have turned out to lead to other heads
_STEM_BYTES: Final = _STEM_LENGTH // 2
_TOKEN: Final = re.compile(r"([0-9]{1,18})\.([0-9a-f]{64})\.([A-Za-z0-9_=-]{0,6400})", re.ASCII)


class LogRequest(NamedTuple):
    """Which commits of the log to return.

    - `after`: `following` of the page before, or a ref: the page begins behind this commit.
    - `amount`: the page has at most this number of commits.
    - `since_ns`: leave out older commits, and end after `limits.log_older_count_max` of them in a
      row; 0 means no limit.
    - `stop_at`: a ref; the log ends with this commit.
    - `first_parent`: follow first parents only.
    - `limit`: report that nothing follows this page.
    - `objects`, `prefixes`: only commits that changed one of these paths or a path below one of
      these prefixes.  Merges and root commits are left out.
    """

    after: str = ""
    amount: int = limits.page_count_default
    since_ns: int = 0
    stop_at: str = ""
    first_parent: bool = False
    limit: bool = False
    objects: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()


class Bases(NamedTuple):
    """Two commits and their best common ancestor; `base` is empty if there is none."""

    source: CommitId
    destination: CommitId
    base: CommitId


def get_commit(repo: OpenRepository, ref: str) -> CommitEntry:
    """The commit that `ref` means.  `NotFound`, `Invalid`."""
    return head_of(repo, ref)


def log(repo: OpenRepository, ref: str, request: LogRequest) -> LogPage:
    """One page of the commits reachable from `ref`, newest first.

    With path filters, the log ends at the first commit whose content has to be read and was
    garbage-collected.
    Errors: `NotFound`, `Invalid`, `Unavailable` after the deadline.

    Cost: 1 KV request for each commit that is not cached; with path filters also the ranges that
    two adjacent commits do not share.  A page with the `following` of the one before as `after`
    reads nothing else.  With another commit as `after`, it looks up merges and the commits that
    they brought in (`refs/log.py`).
    """
    walk, entries, query = _selected(repo, ref, request)
    return walks.log_page(entries, walk.behind, query)


def log_by(repo: OpenRepository, ref: str, request: LogRequest, author: str) -> LogPage:
    """One page of the log with only those commits whose committer contains `author`, whatever the
    case of letters.

    A page ends early, perhaps without any commit, when it has used its time (`ports.page_end`); the
    next page continues behind the last commit that was examined.  So a log of any length can be
    searched.  Another page is announced if commits are left, whoever made them.
    Errors and cost: those of `log`.
    """
    walk, entries, query = _selected(repo, ref, request)
    end, name = page_end(repo), author.casefold()
    authored: list[CommitEntry] = []
    for entry in entries:
        if name in entry.commit.committer.casefold():
            authored.append(entry)
        if len(authored) == query.amount or end.is_over:
            following = walk.behind(entry)  # before the walk goes on
            is_more = not query.limit and next(entries, None) is not None
            return LogPage(tuple(authored), following if is_more else "")
    return LogPage(tuple(authored), "")


def _selected(
    repo: OpenRepository, ref: str, request: LogRequest
) -> tuple[walks.Log, Iterator[CommitEntry], walks.LogQuery]:
    if len(request.objects) + len(request.prefixes) > limits.log_paths_count_max:
        raise Invalid(f"objects and prefixes: at most {limits.log_paths_count_max} together")
    keys = [parse_path(path, "objects") for path in request.objects]
    stems = [parse_prefix(path, "prefixes") for path in request.prefixes]
    start = head_of(repo, ref).id
    front = walks.parse_token(request.after)
    query = walks.LogQuery(
        after=_ref_or_absent(repo, request.after) if front is ABSENT else front,
        amount=request.amount,
        since_ns=request.since_ns or ABSENT,
        stop_at=_ref_or_absent(repo, request.stop_at),
        first_parent=request.first_parent,
        limit=request.limit,
    )
    lookup = timed_lookup(repo, "log", operation_deadline(repo))
    walk = walks.Log(lookup, start, query)
    entries = _touching(repo, iter(walk), keys, stems) if keys or stems else iter(walk)
    return walk, entries, query


def _ref_or_absent(repo: OpenRepository, ref: str) -> CommitId | Literal[Absent.ABSENT]:
    return head_of(repo, ref).id if ref else ABSENT


def _touching(
    repo: OpenRepository,
    entries: Iterator[CommitEntry],
    keys: Sequence[bytes],
    stems: Sequence[bytes],
) -> Iterator[CommitEntry]:
    deadline = operation_deadline(repo)
    space = keyspace(repo, deadline.checking("log"))
    for entry in entries:
        deadline.check("log")
        if len(entry.commit.parents) != 1:
            continue
        before = commit_of(repo, entry.commit.parents[0]).metarange
        after = entry.commit.metarange
        if before == after:
            continue
        try:
            is_touched = any(
                _said(reader.get(space, before, key)) != _said(reader.get(space, after, key))
                for key in keys
            )
            is_touched = is_touched or not all(
                diff.is_equal(space, before, after, stem) for stem in stems
            )
        except Gone:  # garbage collection deleted the content while no ref reached it
            return
        if is_touched:
            yield entry


def _said(value: bytes | Absent) -> bytes:
    return b"" if isinstance(value, Absent) else identity_of(value)


def merge_base(repo: OpenRepository, source: str, destination: str) -> Bases:
    """The commits that the refs mean, and the base that a merge of them would use.

    Errors: `NotFound`, `Invalid`, `Unavailable` after the deadline.
    """
    left, right = head_of(repo, source).id, head_of(repo, destination).id
    base = best_base(repo, left, right, operation_deadline(repo))
    return Bases(left, right, CommitId("") if base is ABSENT else base)


class GraphQuery(NamedTuple):
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


def graph_page(repo: OpenRepository, query: GraphQuery) -> GraphPage:
    """One page of the graph.

    Errors: `NotFound`, `Invalid`; `Unsupported` if too many lines of development run side by side;
    `Unavailable` after the deadline.
    Cost, with nothing cached: 1 KV request for all heads that are names of branches, 1 for the
    commits of the heads, the resolution of every other head; then 1 to
    `limits.graph_scan_count_max` for the table, 1 of them if most commits are shown.  Later pages
    cost the latter.
    """
    heads = () if query.after else _graph_heads(repo, query.heads)
    begin = _parsed(query.after) if query.after else _begun(repo, heads)
    now = _Pass(begin.place, dict(begin.waiting))
    try:
        return GraphPage(heads, *_from_table(repo, now, query.amount))
    except _Missing:  # the maker of a commit may have died before it stored the line
        _add_lines(repo, list(now.waiting))
        return GraphPage(heads, *_from_table(repo, begin, query.amount))


_Shown = tuple[tuple[CommitEntry, ...], str]


def _add_lines(repo: OpenRepository, stems: Sequence[str]) -> None:
    ids = [id for stem in stems for id in commits.by_prefix(repo.kv, repo.record, stem)]
    stored = commits.get_many(repo.kv, repo.record, ids)
    lines = [CommitEntry(id, commit) for id, commit in stored.items()]
    commits.put_lines(repo.kv, repo.record, lines, repo.ids.stamp())


def _from_table(repo: OpenRepository, now: _Pass, amount: int) -> _Shown:
    deadline = operation_deadline(repo)
    shown: list[CommitEntry] = []
    size, is_over = amount, False
    for _ in range(limits.graph_scan_count_max):
        if is_over or not now.waiting or len(shown) == amount:
            break
        deadline.check("graph")
        page = commits_records.scan_lines(repo.kv, repo.record, now.place, size)
        shown += now.show(page.lines, amount - len(shown))
        size, is_over = max(_SCAN_LEAST, 2 * (amount - len(shown))), not page.more
    if is_over and now.waiting and len(shown) < amount:
        raise _MISSING
    return tuple(shown), now.token


# ---- where a page begins -------------------------------------------------------------------------


def _graph_heads(repo: OpenRepository, names: Sequence[str]) -> tuple[CommitId, ...]:
    if len(names) > limits.graph_heads_count_max:
        raise Invalid(f"heads: at most {limits.graph_heads_count_max}")
    places: dict[str, Place] = {}
    for name in names:
        with suppress(Invalid):  # an expression, which is resolved on its own
            if not is_hex64(name):
                places[name] = branches.place(repo.record, parse_branch_id(name))
    rows = repo.kv.get_many([*places.values()])
    heads = []
    for name in names:
        row = rows.get(places[name]) if name in places else None
        live = None if row is None else branches.decode(row).branch
        heads.append(resolved(repo, name).commit if live is None else live.commit)
    return tuple(heads)


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
