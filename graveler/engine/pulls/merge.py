"""The merge of a pull request: one commit for each opening of the request, whatever happens.

    1 look    an attempt is noted: is its commit in the history of the destination?
    2 note    the destination's head, and this attempt, in the record of the request
    3 merge   as any merge; the commit carries the request and its opening as its mark, and each
              round looks for the mark in the history since the noted head (commits/search.py)
    4 end     the record says *merged*, and which commit

A crash before 3 lands leaves an open request.  A crash after it leaves an open request whose commit
the next merge finds in step 1.  Two merges of one request at once land one commit: the one that
loses its swap finds the mark of the other.  If a merge fails for certain, and no other attempt can
be under way, the note is removed, so that step 1 never has much history to search.
"""

from contextlib import suppress
from typing import Literal, NamedTuple

from graveler import limits
from graveler.engine.commits import merge as merges
from graveler.engine.commits.heads import commit_of, fresh
from graveler.engine.commits.merge import MergeRequest
from graveler.engine.commits.search import Once, SwapJournal, find_by_key
from graveler.engine.ports import OpenRepository, UnconfirmedWrite, check_writable
from graveler.errors import (
    Code,
    Conflict,
    Contended,
    GravelerError,
    HookFailed,
    Invalid,
    NotFound,
    Refused,
)
from graveler.ids import NO_COMMIT, CommitId, parse_pull_id
from graveler.records import ABSENT, Absent, CommitEntry, PullRequest, PullState
from graveler.refs.names import pulls
from graveler.refs.names.pulls import Changed

_ATTEMPT_LENGTH = 20


class Attempt(NamedTuple):
    """One merge of a request: a fresh id, a head of the destination that it is not in, and the
    committer."""

    id: str
    since: CommitId
    committer: str


def merge(
    repo: OpenRepository,
    pull: str,
    committer: str,
    journal: SwapJournal | Literal[Absent.ABSENT] = ABSENT,
) -> CommitEntry:
    """Merge the request: its source, as it is now, into its destination.  Returns the commit.

    `journal`: where the attempts of a job note their swaps.
    The request says *merged* afterwards; also if it was closed while the merge ran.
    Errors: `Invalid` for a request that is not open; those of `merges.merge` (`MergeConflict` with
    the paths, `DirtyBranch`, `HookFailed`, …): the request stays open; `OutcomeUnknown`: the same
    call, repeated, finds what became of it.
    Cost on a clean branch with one shard: 7 KV requests, and those of a merge; 1 more after an
    attempt that did not end, and 1 for each commit since then that is not cached.
    """
    check_writable(repo.record, False)
    name = parse_pull_id(pull)
    for _ in range(limits.commit_round_count_max):
        seen = pulls.get(repo.kv, repo.record, name)
        _check_open(seen)
        head = fresh(repo, seen.destination).branch.commit
        landed = find_landed(repo, seen, head)
        if landed is ABSENT:
            attempt = repo.ids.unique(_ATTEMPT_LENGTH)
            if not _note(repo, seen, head, attempt):
                continue
            landed = _merged(repo, seen, Attempt(attempt, head, committer), journal)
        with UnconfirmedWrite("merge of a pull request") as unconfirmed:
            unconfirmed.mark_unconfirmed()
            _end(repo, seen, landed.id)
        return landed
    raise Contended(f"other merges of this pull request keep beginning; try again: pull={name}")


def finish(repo: OpenRepository, pull: str) -> CommitEntry | Literal[Absent.ABSENT]:
    """The commit that an earlier merge of the request landed; ABSENT if none did.

    If that merge died before the request said *merged*, the request says so afterwards.
    Errors: `NotFound`; `HistoryTooLong`; `OutcomeUnknown`.  Cost: 2 KV requests; after an attempt
    that did not end also those of `find_landed`, and 2 to end the request.
    """
    seen = pulls.get(repo.kv, repo.record, parse_pull_id(pull))
    if seen.state is PullState.MERGED:
        return CommitEntry(seen.merged, commit_of(repo, seen.merged))
    landed = find_landed(repo, seen, fresh(repo, seen.destination).branch.commit)
    if landed is not ABSENT:
        _end(repo, seen, landed.id)
    return landed


def find_landed(
    repo: OpenRepository, seen: PullRequest, head: CommitId
) -> CommitEntry | Literal[Absent.ABSENT]:
    """The commit of an attempt that is noted, in the history of `head`; ABSENT if there is none.

    Errors: `HistoryTooLong`.  Cost: those of `find_by_key`.
    """
    return find_by_key(repo, _once(seen, seen.since), head) if seen.attempt else ABSENT


def _once(pull: PullRequest, since: CommitId) -> Once:
    return Once("", f"pull/{pull.id}/{pull.opening}", since)


def _check_open(pull: PullRequest) -> None:
    if pull.state is not PullState.OPEN:
        raise Invalid(
            f"bad pull request status: pull={pull.id} status={pull.state.name}",
            Code.PULL_STATE_INVALID,
        )


def _merged(
    repo: OpenRepository,
    seen: PullRequest,
    attempt: Attempt,
    journal: SwapJournal | Literal[Absent.ABSENT],
) -> CommitEntry:
    """Step 3."""
    request = MergeRequest(
        attempt.committer,
        merges.message(seen.source, seen.destination),
        once=_once(seen, attempt.since)._replace(journal=journal),
    )
    try:
        source = fresh(repo, seen.source).branch.commit
        landed = merges.merge(repo, source, seen.destination, request)
    except (Invalid, Conflict, NotFound, Refused, HookFailed):
        if not seen.attempt:
            _forget(repo, seen, attempt.id)
        raise
    return CommitEntry(landed, commit_of(repo, landed))


def _note(repo: OpenRepository, seen: PullRequest, head: CommitId, attempt: str) -> bool:
    """Step 2.  False: the record has changed since it was read, so the caller reads it again.

    `head` was searched for the commits of all attempts that were noted before, so a commit of one
    of them can only come after it.
    """
    is_noted = True

    def change(record: PullRequest, _: bool) -> Changed:
        nonlocal is_noted
        noted = seen._replace(since=head, attempt=attempt)
        is_noted = record in (seen, noted)
        return noted if record == seen else ABSENT

    pulls.change(repo.kv, repo.record, seen.id, repo.ids, change)
    return is_noted


def _forget(repo: OpenRepository, seen: PullRequest, attempt: str) -> None:
    """Remove the note of an attempt that failed for certain, unless another one has followed."""

    def change(record: PullRequest, _: bool) -> Changed:
        is_own = record.attempt == attempt
        return record._replace(since=NO_COMMIT, attempt="") if is_own else ABSENT

    with suppress(GravelerError):  # then the next merge has more history to search
        pulls.change(repo.kv, repo.record, seen.id, repo.ids, change)


def _end(repo: OpenRepository, seen: PullRequest, landed: CommitId) -> None:
    def change(record: PullRequest, _: bool) -> Changed:
        if record.state is PullState.MERGED or record.opening != seen.opening:
            return ABSENT  # another attempt found the same commit
        return record._replace(
            state=PullState.MERGED,
            closed_ns=repo.clock.now_ns(),
            merged=landed,
            since=NO_COMMIT,
            attempt="",
        )

    pulls.change(repo.kv, repo.record, seen.id, repo.ids, change)
