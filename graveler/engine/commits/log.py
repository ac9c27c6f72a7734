"""History: the commit of a ref, the log, and merge bases."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from graveler import limits
from graveler.committed import diff, reader
from graveler.engine.commits.heads import commit_of, head_of, timed_lookup
from graveler.engine.ports import OpenRepository, keyspace, operation_deadline, page_end
from graveler.errors import Gone, Invalid
from graveler.framing import identity_of
from graveler.ids import (
    CommitId,
    parse_path,
    parse_prefix,
)
from graveler.records import ABSENT, Absent, CommitEntry
from graveler.refs.graph import graph
from graveler.refs.graph import log as walks


@dataclass(frozen=True, slots=True)
class LogRequest:
    """Which commits of the log to return.

    - `after`: a ref; the page begins behind this commit, the last one of the page before.
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


def log(
    repo: OpenRepository, ref: str, request: LogRequest
) -> tuple[tuple[CommitEntry, ...], bool]:
    """One page of the commits reachable from `ref`, newest first, and whether more follow.

    With path filters, the log ends at the first commit whose content has to be read and was
    garbage-collected.
    Errors: `NotFound`, `Invalid`, `Unavailable` after the deadline.

    Cost: 1 KV request for each commit that is not cached; with path filters also the ranges that
    two adjacent commits do not share.  A page with `after` does not read all commits before it
    (`refs/graph/log.py`): it looks up only merges and the commits that they brought in.
    """
    entries, query = _selected(repo, ref, request)
    return walks.log_page(entries, query)


class AuthoredPage(NamedTuple):
    """Commits of one page, newest first.  `following`: the commit behind which the next page
    begins; empty if nothing follows."""

    entries: tuple[CommitEntry, ...]
    following: str


def log_by(repo: OpenRepository, ref: str, request: LogRequest, author: str) -> AuthoredPage:
    """One page of the log with only those commits whose committer contains `author`, whatever the
    case of letters.

    A page ends early, perhaps without any commit, when it has used its time (`ports.page_end`); the
    next page continues behind the last commit that was examined.  So a log of any length can be
    searched.  Another page is announced if commits are left, whoever made them.
    Errors and cost: those of `log`.
    """
    entries, query = _selected(repo, ref, request)
    end, name = page_end(repo), author.casefold()
    authored: list[CommitEntry] = []
    last = ""
    for entry in entries:
        if len(authored) == query.amount or (last and end.is_over):
            return AuthoredPage(tuple(authored), "" if query.limit else last)
        if name in entry.commit.committer.casefold():
            authored.append(entry)
        last = entry.id
    return AuthoredPage(tuple(authored), "")


def _selected(
    repo: OpenRepository, ref: str, request: LogRequest
) -> tuple[Iterator[CommitEntry], walks.LogQuery]:
    if len(request.objects) + len(request.prefixes) > limits.log_paths_count_max:
        raise Invalid(f"objects and prefixes: at most {limits.log_paths_count_max} together")
    keys = [parse_path(path, "objects") for path in request.objects]
    stems = [parse_prefix(path, "prefixes") for path in request.prefixes]
    start = head_of(repo, ref).id
    query = walks.LogQuery(
        after=_ref_or_absent(repo, request.after),
        amount=request.amount,
        since_ns=request.since_ns or ABSENT,
        stop_at=_ref_or_absent(repo, request.stop_at),
        first_parent=request.first_parent,
        limit=request.limit,
    )
    lookup = timed_lookup(repo, "log", operation_deadline(repo))
    entries = walks.log(lookup, start, query, repo.settings.walk_count_max)
    if keys or stems:
        entries = _touching(repo, entries, keys, stems)
    return entries, query


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
    look = timed_lookup(repo, "merge base search", operation_deadline(repo))
    base = graph.merge_base(look, left, right)
    return Bases(left, right, CommitId("") if base is ABSENT else base)
