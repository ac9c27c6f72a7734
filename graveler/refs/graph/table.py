"""The table of commits: a short line for each commit, children before their parents.

    v/<falling generation>/<commit>     the commit without metadata and content; its message and its
                                        committer are cut short

A child has a greater generation than its parents, so a scan of the table meets it first: a drawing
of the graph needs one request for thousands of commits.  A line is stored together with its commit.
Nothing is decided by this table: the records of the commits are the truth.
"""

from typing import NamedTuple

from graveler import limits, wire
from graveler.ids import NO_COMMIT, NO_METARANGE, CommitId
from graveler.kv.store import Row, Store, Write
from graveler.records import Commit, CommitEntry, Repository
from graveler.refs.keys import GRAPH, generation_of, graph_key, space
from graveler.streams import successor


class GraphPlace(NamedTuple):
    """The place of a commit in the table.  Places sort as `rank` does."""

    generation: int
    id: str

    @property
    def rank(self) -> tuple[int, str]:
        """Falling generation, then id."""
        return -self.generation, self.id


class TablePage(NamedTuple):
    """Lines in the order of the table.  `more`: further lines may follow."""

    lines: tuple[CommitEntry, ...]
    more: bool


def short(commit: Commit) -> Commit:
    """What the table keeps of a commit: its parents, its generation, its time, its committer and
    the first line of its message."""
    subject = commit.message.lstrip().partition("\n")[0].rstrip()
    length = limits.graph_text_length_max
    return Commit(
        committer=commit.committer[:length],
        message=subject[:length],
        created_ns=commit.created_ns,
        metarange=NO_METARANGE,
        parents=commit.parents,
        generation=commit.generation,
        jump=NO_COMMIT,
    )


def line_of(repository: Repository, id: CommitId, commit: Commit, stamp: bytes) -> Write:
    """The write that stores the line of a commit, for a batch."""
    raw = wire.encode_commit(short(commit))
    return Write(space(repository), graph_key(commit.generation, id), raw, stamp)


def scan(kv: Store, repository: Repository, after: GraphPlace, amount: int) -> TablePage:
    """At most `amount` lines behind a place.  One request."""
    start, end = graph_key(after.generation, after.id) + b"\0", successor(GRAPH)
    page = kv.scan(space(repository), start, end, amount)
    return TablePage(tuple(_line(key, row) for key, row in page.rows), page.more)


def _line(key: bytes, row: Row) -> CommitEntry:
    commit = wire.decode_commit(row.value)._replace(generation=generation_of(key))
    return CommitEntry(CommitId(key.rpartition(b"/")[2].decode()), commit)
