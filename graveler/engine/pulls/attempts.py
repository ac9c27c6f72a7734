"""The merges of a pull request that have begun: what is noted of them, and what became of them.

Each merge notes its swap in the record of the request before it sends it.  So every later merge, of
another client or process too, knows all swaps that may have landed or may still land, and what the
branch says about them (commits/swaps.py).  The note replaces only the one that the merge knows: if
there is another one by now, another merge has begun, and this one looks again before it goes on.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from graveler.engine.commits.heads import fresh
from graveler.engine.commits.search import Once, find_by_key, judge_all
from graveler.engine.commits.swaps import SwapJournal, Swaps, Verdict
from graveler.engine.ports import OpenRepository
from graveler.errors import Contended, GravelerError, HistoryTooLong, OutcomeUnknown, Unavailable
from graveler.ids import NO_COMMIT, CommitId
from graveler.records import ABSENT, Branch, CommitEntry, PullRequest, PullState
from graveler.refs.names import pulls
from graveler.refs.names.pulls import Changed

_ATTEMPT_LENGTH = 20


class Overtaken(Contended):
    """Another merge of the request has noted a swap since the record was read, or the request was
    merged or opened for the next merge.  The swap was not sent."""


def key_of(seen: PullRequest, since: CommitId) -> Once:
    """The idempotency key of the merges of this opening.  `since`: a head of the destination from
    before them.  Pure."""
    return Once("", f"pull/{seen.id}/{seen.opening}", since)


class Attempt(NamedTuple):
    """One merge: its id, which its notes carry, and where it notes its swaps."""

    id: str
    journal: SwapJournal


def begin(repo: OpenRepository, seen: PullRequest) -> Attempt:
    """A new attempt; `seen`: the record that it has read.

    A note costs 2 KV requests.  Its errors: `Overtaken`, `Contended`, `NotFound`, `Unavailable`;
    the swap is not sent then.
    """
    attempt = repo.ids.unique(_ATTEMPT_LENGTH)

    def store(known: Sequence[Swaps], swaps: Swaps) -> None:
        def noted(record: PullRequest, _lost: bool) -> Changed:
            if (record.sent, record.attempt) == (swaps, attempt):
                return ABSENT
            is_open = record.opening == seen.opening and record.state is not PullState.MERGED
            is_known = record.attempt in (seen.attempt, attempt) and record.sent in known
            if not is_open or not is_known:
                raise Overtaken(f"another merge of this pull request began: pull={seen.id}")
            return record._replace(sent=swaps, attempt=attempt, since=swaps[-1].head)

        try:
            pulls.change(repo.kv, repo.record, seen.id, repo.ids, noted)
        except OutcomeUnknown as error:  # that of the note
            raise Unavailable(f"swap not noted, so it is not sent: pull={seen.id}") from error

    return Attempt(attempt, SwapJournal(seen.sent, store))


def look_for(
    repo: OpenRepository, seen: PullRequest, now: Branch
) -> CommitEntry | tuple[Verdict, ...]:
    """The commit that a merge of this opening put on the destination, whose record is `now`; else
    the verdict about each swap that is noted.

    `now` must have been read after `seen`.
    Errors: `HistoryTooLong`.  Cost: none if nothing is noted, else those of `find_by_key` and
    `judge_all`.
    """
    if seen.attempt:
        marked = find_by_key(repo, key_of(seen, seen.since), now.commit)
        if marked is not ABSENT:
            return marked
    return judge_all(repo, seen.sent, now)


def is_in_doubt(repo: OpenRepository, seen: PullRequest) -> bool:
    """Whether nobody can tell if a merge of this opening landed: a hard reset may have taken its
    commit away, or there are too many commits to search.

    Errors: `NotFound`.  Cost: none if nothing is noted, else 1 KV request and those of `look_for`.
    """
    if not seen.attempt:
        return False
    now = fresh(repo, seen.destination).branch
    try:
        outcome = look_for(repo, seen, now)
    except HistoryTooLong:
        return True
    return not isinstance(outcome, CommitEntry) and Verdict.UNKNOWN in outcome


def forget(repo: OpenRepository, seen: PullRequest, attempt: Attempt) -> None:
    """Remove the note of an attempt that was refused for certain, or the note that it found if all
    its swaps are lost, unless another merge has noted since.

    Best effort: else the next merge judges them again.  Cost: none if nothing is noted, else 2 KV
    requests; for a note that it found 1 more, and those of `look_for`.
    """
    is_lost = False  # what `seen` notes

    def change(record: PullRequest, _lost: bool) -> Changed:
        is_own = record.opening == seen.opening and record.attempt == attempt.id
        is_dead = is_lost and has_same_note(record, seen)
        return without_note(record) if is_own or is_dead else ABSENT

    with suppress(GravelerError):
        if seen.sent:
            outcome = look_for(repo, seen, fresh(repo, seen.destination).branch)
            is_lost = not isinstance(outcome, CommitEntry) and set(outcome) == {Verdict.LOST}
        if is_lost or attempt.journal.sent != seen.sent:
            pulls.change(repo.kv, repo.record, seen.id, repo.ids, change)


def has_same_note(record: PullRequest, seen: PullRequest) -> bool:
    """Whether no merge has noted a swap since `seen` was read, nor was a note removed.  Pure."""
    return (record.attempt, record.sent) == (seen.attempt, seen.sent)


def without_note(record: PullRequest) -> PullRequest:
    """The record without what is noted of merges.  Pure."""
    return record._replace(since=NO_COMMIT, attempt="", sent=())
