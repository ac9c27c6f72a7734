"""Batches of streams: each lands on a branch once, however often drivers begin or repeat it.

    begin ──► the mark names this batch or a later one: it has landed
    finish ─► in each round: read the mark, judge, swap the branch record and the mark in one step

A batch is numbered in its stream; batches without rows are left out.  The mark outlives the records
of jobs.  A commit names its batch in its metadata.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

from graveler.core import limits
from graveler.core.errors import Conflict, HistoryTooLong, Invalid, NotFound
from graveler.core.ids import BranchId, CommitId
from graveler.core.records import ABSENT, Absent, Branch, CommitEntry
from graveler.engine.commits.heads import commit_of
from graveler.engine.commits.search import history_until
from graveler.engine.ports import OpenRepository
from graveler.refs import lifecycle, stream_marks
from graveler.refs.branches import CompanionRow
from graveler.refs.stream_marks import BATCH_MAX, StreamMark, batch_in

Mark = StreamMark | Literal[Absent.ABSENT]


class Batch(NamedTuple):
    """A batch of a stream.  `accepts_rewind`: it may land on a branch that a hard reset has moved
    behind the last batch."""

    stream: str
    number: int
    accepts_rewind: bool = False

    def __str__(self) -> str:
        return f"{self.stream}:{self.number}"


class BatchLanded(Conflict):
    """The branch has this batch, or a later one: `entry` is the commit of the last batch."""

    def __init__(self, batch: Batch, entry: CommitEntry) -> None:
        super().__init__(f"batch has landed: batch={batch} commit={entry.id}")
        self.entry = entry


def check(batch: Batch) -> None:
    """Raises `Invalid` for a batch that cannot be.  No request."""
    length = len(batch.stream.encode(errors="replace"))
    if not 0 < length <= limits.stream_length_bytes_max or not batch.stream.isprintable():
        raise Invalid(
            f"stream must have 1 to {limits.stream_length_bytes_max} bytes of printable text: "
            f"stream={batch.stream!r:.80}"
        )
    if not 0 <= batch.number <= BATCH_MAX:
        raise Invalid(f"batch must be a number from 0 to {BATCH_MAX}: batch={batch.number}")


def find_landed(
    repo: OpenRepository, name: BranchId, branch: Branch, batch: Batch
) -> CommitEntry | Literal[Absent.ABSENT]:
    """The commit of the last batch, if this batch or a later one has landed; else ABSENT.

    `branch`: its record.  Errors: `Conflict` if a hard reset has moved the branch behind the last
    batch.  Cost: 1 KV request; after a hard reset, or if the branch was created again, 1 for each
    commit since the last batch, and with `accepts_rewind` for up to
    `limits.stream_walk_count_max` commits.  The first batch of a stream: 1 more, and in a restored
    repository 1 for each of these commits.
    """
    mark = stream_marks.find(repo.kv, repo.record, name, batch.stream)
    try:
        if mark is ABSENT and lifecycle.find_restore(repo.kv, repo.record) is not ABSENT:
            _judge_by_history(repo, branch, batch)  # a dump has no marks
        _judge(repo, branch, batch, mark)
    except BatchLanded as landed:
        return landed.entry
    return ABSENT


def accompany(
    repo: OpenRepository, name: BranchId, batch: Batch
) -> Callable[[Branch], Callable[[CommitId], CompanionRow]]:
    """What the landing of a batch does in each round (`land.Accompany`).  It raises `BatchLanded`,
    and the errors of `find_landed`, for whose cost."""

    def judged(branch: Branch) -> Callable[[CommitId], CompanionRow]:
        seen = stream_marks.find(repo.kv, repo.record, name, batch.stream)
        _judge(repo, branch, batch, seen)

        def row(commit: CommitId) -> CompanionRow:
            now_ns, stamp = repo.clock.now_ns(), repo.ids.stamp()
            place = (branch.origin, branch.rewinds)
            new = StreamMark(batch.number, commit, *place, now_ns, stamp)
            return stream_marks.beside(repo.record, name, batch.stream, seen, new)

        return row

    return judged


def _judge(repo: OpenRepository, branch: Branch, batch: Batch, mark: Mark) -> None:
    """Raises `BatchLanded`, or `Conflict` after a rewind that the batch does not accept."""
    if mark is ABSENT:
        return
    if mark.is_kept(branch) or _is_in_history(repo, branch.commit, mark.commit):
        if batch.number <= mark.batch:
            raise BatchLanded(batch, CommitEntry(mark.commit, commit_of(repo, mark.commit)))
        return
    if not batch.accepts_rewind:
        raise Conflict(
            "branch was reset behind the last batch of the stream: begin with on_rewind=accept to "
            "land on the branch as it is, or reset it to the commit of that batch: "
            f"batch={batch} last={mark.batch} commit={mark.commit} head={branch.commit}"
        )
    _judge_by_history(repo, branch, batch)


def _judge_by_history(repo: OpenRepository, branch: Branch, batch: Batch) -> None:
    """Raises `BatchLanded`, by what the newest commits say of themselves."""
    landed = _newest(repo, branch.commit, batch.stream)
    if landed is not ABSENT and batch.number <= landed[0]:
        raise BatchLanded(batch, landed[1])


def _is_in_history(repo: OpenRepository, head: CommitId, commit: CommitId) -> bool:
    """Whether first parents lead from the head to the commit, as far as one may search."""
    try:
        return any(entry.id == commit for entry in history_until(repo, head, commit))
    except (HistoryTooLong, NotFound):  # not found: nothing led to it, so it was collected
        return False


def _newest(
    repo: OpenRepository, head: CommitId, stream: str
) -> tuple[int, CommitEntry] | Literal[Absent.ABSENT]:
    """The newest batch of the stream among the last `stream_walk_count_max` commits."""
    here = head
    for _ in range(limits.stream_walk_count_max):
        commit = commit_of(repo, here)
        name, number = batch_in(commit.metadata)
        if name == stream:
            return number, CommitEntry(here, commit)
        if not commit.parents:
            break
        here = commit.parents[0]
    return ABSENT
