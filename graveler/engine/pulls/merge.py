"""The merge of a pull request: one commit for each opening of the request, whatever happens.

    1 look    earlier merges have noted swaps: did one land?  If nobody can tell, because a hard
              reset may have taken its commit away, the outcome is unknown
    2 merge   as any merge; the commit carries the request and its opening as its mark, and each
              round looks for the mark in the history since the head of step 1 (commits/search.py).
              Before it sends a swap, it notes it in the record of the request (attempts.py)
    3 end     the record says *merged*, and which commit

A crash before 2 lands leaves an open request.  A crash after it leaves an open request whose commit
the next merge finds in step 1.  Two merges of one request at once land one commit: the one that
notes its swap last knows the swap of the other, and the other begins again.  If a merge fails for
certain, its note is removed, so that step 1 never has much history to search.
"""

from typing import Literal

from graveler import limits
from graveler.engine.commits import merge as merges
from graveler.engine.commits.heads import commit_of, fresh
from graveler.engine.commits.merge import MergeRequest
from graveler.engine.commits.swaps import Swaps, Verdict
from graveler.engine.ports import OpenRepository, UnconfirmedWrite, check_writable
from graveler.engine.pulls import attempts
from graveler.engine.pulls.attempts import Overtaken
from graveler.errors import (
    Code,
    Conflict,
    Contended,
    HookFailed,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Refused,
)
from graveler.ids import CommitId, parse_pull_id
from graveler.records import ABSENT, Absent, CommitEntry, PullRequest, PullState
from graveler.refs.names import pulls
from graveler.refs.names.pulls import Changed


def merge(repo: OpenRepository, pull: str, committer: str) -> CommitEntry:
    """Merge the request: its source, as it is now, into its destination.  Returns the commit.

    The request says *merged* afterwards; also if it was closed while the merge ran.
    Errors: `Invalid` for a request that is not open; those of `merges.merge` (`MergeConflict` with
    the paths, `DirtyBranch`, `HookFailed`, …): the request stays open; `OutcomeUnknown`: the same
    call, repeated, finds what became of it, unless a hard reset of the destination followed.  Then
    the request must be closed and opened again.
    Cost on a clean branch with one shard: 7 KV requests, and those of a merge; after a merge that
    did not end also those of `attempts.look_for`.
    """
    check_writable(repo.record, False)
    name = parse_pull_id(pull)
    for _ in range(limits.commit_round_count_max):
        seen = pulls.get(repo.kv, repo.record, name)
        _check_open(seen)
        onto = fresh(repo, seen.destination).branch
        outcome = attempts.look_for(repo, seen, onto)
        if isinstance(outcome, CommitEntry):
            landed = outcome
        elif Verdict.UNKNOWN in outcome:
            raise _in_doubt(seen)
        else:
            try:
                landed = _merged(repo, seen, onto.commit, committer)
            except Overtaken:
                continue
        with UnconfirmedWrite("merge of a pull request") as unconfirmed:
            unconfirmed.mark_unconfirmed()
            _end(repo, seen, landed.id)
        return landed
    raise Contended(f"other merges of this pull request keep beginning; try again: pull={name}")


def finish(repo: OpenRepository, pull: str) -> CommitEntry | Literal[Absent.ABSENT]:
    """The commit that an earlier merge of the request landed; ABSENT if none is known to have.

    If that merge died before the request said *merged*, the request says so afterwards.
    Errors: `NotFound`; `HistoryTooLong`; `OutcomeUnknown`.  Cost: 2 KV requests; after a merge that
    did not end also those of `attempts.look_for`, and 2 to end the request.
    """
    seen = pulls.get(repo.kv, repo.record, parse_pull_id(pull))
    if seen.state is PullState.MERGED:
        return CommitEntry(seen.merged, commit_of(repo, seen.merged))
    outcome = attempts.look_for(repo, seen, fresh(repo, seen.destination).branch)
    if not isinstance(outcome, CommitEntry):
        return ABSENT
    _end(repo, seen, outcome.id)
    return outcome


def noted_swaps(repo: OpenRepository, pull: str) -> Swaps:
    """The swaps that merges of the request have noted, and that may have landed.  1 KV request.
    Errors: `NotFound`."""
    return pulls.get(repo.kv, repo.record, parse_pull_id(pull)).sent


def _in_doubt(seen: PullRequest) -> OutcomeUnknown:
    return OutcomeUnknown(
        "an earlier merge of the pull request may have landed, and a hard reset may have taken it "
        "away; look at the history of the branch; to merge again, close the pull request and open "
        f"it again (graveler pr close, pr reopen): pull={seen.id} branch={seen.destination}"
    )


def _check_open(pull: PullRequest) -> None:
    if pull.state is not PullState.OPEN:
        raise Invalid(
            f"bad pull request status: pull={pull.id} status={pull.state.name}",
            Code.PULL_STATE_INVALID,
        )


def _merged(
    repo: OpenRepository, seen: PullRequest, since: CommitId, committer: str
) -> CommitEntry:
    """Step 2."""
    journal = attempts.journal_of(repo, seen)
    request = MergeRequest(
        committer,
        merges.message(seen.source, seen.destination),
        once=attempts.key_of(seen, since)._replace(journal=journal),
    )
    source = fresh(repo, seen.source).branch.commit
    try:
        landed = merges.merge(repo, source, seen.destination, request)
    except Overtaken:
        raise
    except (Invalid, Conflict, NotFound, Refused, HookFailed):
        if journal.sent != seen.sent:
            attempts.forget(repo, seen, journal.sent)
        raise
    return CommitEntry(landed, commit_of(repo, landed))


def _end(repo: OpenRepository, seen: PullRequest, landed: CommitId) -> None:
    def change(record: PullRequest, _: bool) -> Changed:
        if record.state is PullState.MERGED or record.opening != seen.opening:
            return ABSENT  # another attempt found the same commit
        return attempts.without_note(record)._replace(
            state=PullState.MERGED, closed_ns=repo.clock.now_ns(), merged=landed
        )

    pulls.change(repo.kv, repo.record, seen.id, repo.ids, change)
