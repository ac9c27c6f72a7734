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

from typing import Literal, NamedTuple

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
    Contended,
    GravelerError,
    HistoryTooLong,
    Invalid,
    OutcomeUnknown,
)
from graveler.ids import CommitId, parse_pull_id
from graveler.records import ABSENT, Absent, Branch, CommitEntry, PullRequest, PullState
from graveler.refs.names import pulls
from graveler.refs.names.pulls import Changed


class MergeOrder(NamedTuple):
    """A merge that somebody ordered and another process performs.  `opening`: of the request then;
    0: not known."""

    pull: str
    committer: str
    opening: int


def merge(repo: OpenRepository, pull: str, committer: str, opening: int = 0) -> CommitEntry:
    """Merge the request: its source, as it is now, into its destination.  Returns the commit.

    `opening`: the one that a job was ordered to merge, and may have merged before: then the same
    commit.  If the request is in a later one by now: `OutcomeUnknown`.  0: the present opening.
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
        _check_opening(seen, opening)
        if opening and seen.state is PullState.MERGED:
            return CommitEntry(seen.merged, commit_of(repo, seen.merged))
        if not seen.attempt:  # no merge can have landed; also if the destination is gone
            _check_open(seen)
        onto = fresh(repo, seen.destination).branch
        landed = _found_landed(repo, seen, onto)
        if landed is ABSENT:
            _check_open(seen)
            try:
                landed = _merged(repo, seen, onto.commit, committer)
            except Overtaken:
                continue
        with UnconfirmedWrite("merge of a pull request") as unconfirmed:
            unconfirmed.mark_unconfirmed()
            _end(repo, seen, landed.id)
        return landed
    raise Contended(f"other merges of this pull request keep beginning; try again: pull={name}")


def finish(repo: OpenRepository, order: MergeOrder) -> CommitEntry | Literal[Absent.ABSENT]:
    """The commit that an earlier merge of this opening landed; ABSENT if none is known to have.

    If that merge died before the request said *merged*, the request says so afterwards.
    Errors: `NotFound`; `HistoryTooLong`; `OutcomeUnknown`.  Cost: 2 KV requests; after a merge that
    did not end also those of `attempts.look_for`, and 2 to end the request.
    """
    seen = pulls.get(repo.kv, repo.record, parse_pull_id(order.pull))
    if order.opening not in (0, seen.opening):
        return ABSENT
    if seen.state is PullState.MERGED:
        return CommitEntry(seen.merged, commit_of(repo, seen.merged))
    outcome = attempts.look_for(repo, seen, fresh(repo, seen.destination).branch)
    if not isinstance(outcome, CommitEntry):
        return ABSENT
    _end(repo, seen, outcome.id)
    return outcome


def noted_swaps(repo: OpenRepository, order: MergeOrder) -> Swaps:
    """The swaps that merges of this opening have noted, and that may have landed.  1 KV request.
    Errors: `NotFound`, `OutcomeUnknown`: the request is in a later opening."""
    seen = pulls.get(repo.kv, repo.record, parse_pull_id(order.pull))
    _check_opening(seen, order.opening)
    return seen.sent


def _check_opening(seen: PullRequest, opening: int) -> None:
    """Raises `OutcomeUnknown` if the request is in another opening than the one to merge (0: any):
    nothing is noted of the earlier one any more."""
    if opening not in (0, seen.opening):
        raise OutcomeUnknown(
            f"pull request was opened again since; outcome unknown: pull={seen.id} {opening=}"
        )


def _found_landed(
    repo: OpenRepository, seen: PullRequest, onto: Branch
) -> CommitEntry | Literal[Absent.ABSENT]:
    """Step 1.  Raises `OutcomeUnknown` if nobody can tell."""
    doubt = OutcomeUnknown(
        "an earlier merge of the pull request may have landed: a hard reset may have taken it "
        "away, or too many commits were made since; look at the history of the branch; to merge "
        "again, close the pull request and open it again (graveler pr close, pr reopen): "
        f"pull={seen.id} branch={seen.destination}"
    )
    try:
        outcome = attempts.look_for(repo, seen, onto)
    except HistoryTooLong as error:
        raise doubt from error
    if isinstance(outcome, CommitEntry):
        return outcome
    if Verdict.UNKNOWN in outcome:
        raise doubt
    return ABSENT


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
    attempt = attempts.begin(repo, seen)
    request = MergeRequest(
        committer,
        merges.message(seen.source, seen.destination),
        once=attempts.key_of(seen, since)._replace(journal=attempt.journal),
    )
    source = fresh(repo, seen.source).branch.commit
    try:
        landed = merges.merge(repo, source, seen.destination, request)
    except (Overtaken, OutcomeUnknown):
        raise
    except GravelerError:  # nothing has landed, or will
        attempts.forget(repo, seen, attempt)
        raise
    return CommitEntry(landed, commit_of(repo, landed))


def _end(repo: OpenRepository, seen: PullRequest, landed: CommitId) -> None:
    def change(record: PullRequest, _: bool) -> Changed:
        if record.state is PullState.MERGED or record.opening != seen.opening:
            return ABSENT  # another attempt found the same commit
        return attempts.without_note(record)._replace(
            state=PullState.MERGED, closed_ns=repo.clock.now_ns(), merged=landed
        )

    try:
        pulls.change(repo.kv, repo.record, seen.id, repo.ids, change)
    except Contended as error:
        raise OutcomeUnknown(f"pull request not ended, but merged: pull={seen.id}") from error
