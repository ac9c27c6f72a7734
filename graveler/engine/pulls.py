"""Pull requests: create, get, list, update, merge, and close those of a deleted branch.

A merge notes its swap in the record of the request before it sends it, and its commit carries the
request and its opening as its mark.  So each opening lands one commit, and every later merge knows
which swaps may have landed.  A request may be open only while both branches exist: a creation
writes before it looks at the branches again, a deletion of a branch swaps before it looks here.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

from graveler.core import limits
from graveler.core.errors import (
    Code,
    Contended,
    GravelerError,
    HistoryTooLong,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Unavailable,
)
from graveler.core.ids import NO_COMMIT, BranchId, CommitId, PullId, parse_branch_id, parse_pull_id
from graveler.core.records import ABSENT, Absent, Branch, CommitEntry, PullRequest, PullState
from graveler.engine.commits import merge as merges
from graveler.engine.commits.heads import commit_of, fresh
from graveler.engine.commits.merge import MergeRequest
from graveler.engine.commits.search import (
    Once,
    SwapJournal,
    Swaps,
    SwapState,
    find_by_key,
    judge_all,
)
from graveler.engine.ports import OpenRepository, UnconfirmedWrite, check_writable
from graveler.refs import branches, pulls
from graveler.refs.pulls import Changed, PullPage, PullQuery

_ATTEMPT_LENGTH = 20


class Overtaken(Contended):
    """Another merge of the request has noted a swap since the record was read, or the request was
    merged or opened for the next merge.  The swap was not sent."""


def _key_of(seen: PullRequest, since: CommitId) -> Once:
    """The idempotency key of the merges of this opening.  `since`: a head of the destination from
    before them.  Pure."""
    return Once("", f"pull/{seen.id}/{seen.opening}", since)


class _Attempt(NamedTuple):
    """One merge: its id, which its notes carry, and where it notes its swaps."""

    id: str
    journal: SwapJournal


def _begin_attempt(repo: OpenRepository, seen: PullRequest) -> _Attempt:
    """A new attempt; `seen`: the record that it has read."""
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

    return _Attempt(attempt, SwapJournal(seen.sent, store))


def _look_for(
    repo: OpenRepository, seen: PullRequest, now: Branch
) -> CommitEntry | tuple[SwapState, ...]:
    """The commit that a merge of this opening put on the destination, whose record is `now`; else
    the verdict about each swap that is noted."""
    if seen.attempt:
        marked = find_by_key(repo, _key_of(seen, seen.since), now.commit)
        if marked is not ABSENT:
            return marked
    return judge_all(repo, seen.sent, now)


def _is_in_doubt(repo: OpenRepository, seen: PullRequest) -> bool:
    """Whether nobody can tell if a merge of this opening landed: a hard reset may have taken its
    commit away, or there are too many commits to search."""
    if not seen.attempt:
        return False
    now = fresh(repo, seen.destination).branch
    try:
        outcome = _look_for(repo, seen, now)
    except HistoryTooLong:
        return True
    return not isinstance(outcome, CommitEntry) and SwapState.UNKNOWN in outcome


def _forget_attempt(repo: OpenRepository, seen: PullRequest, attempt: _Attempt) -> None:
    """Remove the note of an attempt that was refused for certain, or the note that it found if all
    its swaps are lost, unless another merge has noted since."""
    is_lost = False  # what `seen` notes

    def change(record: PullRequest, _lost: bool) -> Changed:
        is_own = record.opening == seen.opening and record.attempt == attempt.id
        is_dead = is_lost and _has_same_note(record, seen)
        return _without_note(record) if is_own or is_dead else ABSENT

    with suppress(GravelerError):
        if seen.sent:
            outcome = _look_for(repo, seen, fresh(repo, seen.destination).branch)
            is_lost = not isinstance(outcome, CommitEntry) and set(outcome) == {SwapState.LOST}
        if is_lost or attempt.journal.sent != seen.sent:
            pulls.change(repo.kv, repo.record, seen.id, repo.ids, change)


def _has_same_note(record: PullRequest, seen: PullRequest) -> bool:
    """Whether no merge has noted a swap since `seen` was read, nor was a note removed.  Pure."""
    return (record.attempt, record.sent) == (seen.attempt, seen.sent)


def _without_note(record: PullRequest) -> PullRequest:
    """The record without what is noted of merges.  Pure."""
    return record._replace(since=NO_COMMIT, attempt="", sent=())


class NewPull(NamedTuple):
    """A request to merge the branch `source` into the branch `destination`."""

    title: str
    source: str
    destination: str
    author: str
    description: str = ""


class PullChanges(NamedTuple):
    """What an update replaces; ABSENT stays as it is."""

    title: str | Literal[Absent.ABSENT] = ABSENT
    description: str | Literal[Absent.ABSENT] = ABSENT
    state: PullState | Literal[Absent.ABSENT] = ABSENT


def create(repo: OpenRepository, new: NewPull) -> PullRequest:
    """Open a request.

    Errors: `Invalid` (one branch for both, a text that is too long), `NotFound` (a branch; the
    request is closed then, if it was made), `Refused`, `OutcomeUnknown`.  Cost: 4 KV requests.
    """
    check_writable(repo.record, False)
    source = parse_branch_id(new.source, "source_branch")
    destination = parse_branch_id(new.destination, "destination_branch")
    _check_texts(new.title, new.description)
    if source == destination:
        raise Invalid(
            f"source and destination are the same branch: {source=}", Code.PULL_SAME_BRANCH
        )
    now_ns = repo.clock.now_ns()
    pull = PullRequest(
        pulls.new_id(now_ns, repo.ids),
        new.title,
        new.description,
        new.author,
        source,
        destination,
        PullState.OPEN,
        now_ns,
    )
    _check_live(repo, pull)
    pulls.note_open(repo.kv, repo.record, pull, repo.ids.stamp())
    pulls.create(repo.kv, repo.record, pull, repo.ids)
    _confirm_live(repo, pull)
    return pull


def get(repo: OpenRepository, pull: str) -> PullRequest:
    """One request, read from the store now.  `NotFound`, `Invalid`.  Cost: 1 KV request."""
    return pulls.get(repo.kv, repo.record, parse_pull_id(pull))


def list_page(repo: OpenRepository, query: PullQuery) -> PullPage:
    """A page of requests, the newest first.

    Cost: 1 KV request; for states that are rare 1 for each 1,000 requests, at most 10.
    """
    return pulls.list_page(repo.kv, repo.record, query)


def update(repo: OpenRepository, pull: str, changes: PullChanges) -> None:
    """Replace title, description or state.  Atomic; the call may be repeated.

    A closed request may be opened again.  So may a merged one: it can be merged once more then.
    So can one of which nobody can tell whether a merge landed (`attempts.is_in_doubt`).
    Closing a request does not stop a merge of it that has begun.
    Errors: `Invalid` (also for a state that only a merge sets, and for closing a merged request),
    `NotFound` (the request; to open it, a branch), `Refused`, `Contended`, `OutcomeUnknown`.
    Cost: 2 KV requests; to open it 4 more, and those of `attempts.is_in_doubt`.
    """
    check_writable(repo.record, False)
    name = parse_pull_id(pull)
    _check_texts(
        "" if changes.title is ABSENT else changes.title,
        "" if changes.description is ABSENT else changes.description,
    )
    opens = changes.state is PullState.OPEN
    if opens:
        seen = pulls.get(repo.kv, repo.record, name)
        _check_live(repo, seen)
        pulls.note_open(repo.kv, repo.record, seen, repo.ids.stamp())
        is_in_doubt = seen.state is PullState.CLOSED and _is_in_doubt(repo, seen)

    def change(record: PullRequest, lost: bool) -> Changed:
        is_next = record.state is PullState.MERGED or (
            opens and is_in_doubt and _has_same_note(record, seen)
        )
        try:
            new = _changed(repo, record, changes, is_next=is_next)
        except Invalid as error:
            if lost:
                raise _unconfirmed(name) from error
            raise
        if new == record:
            return ABSENT
        if lost:
            raise _unconfirmed(name)
        return new

    pulls.change(repo.kv, repo.record, name, repo.ids, change)
    if opens:
        _confirm_live(repo, seen)


def _unconfirmed(pull: PullId) -> OutcomeUnknown:
    """Our write may have been applied, and another client may have replaced it."""
    return OutcomeUnknown(f"update not confirmed: {pull=}")


def _changed(
    repo: OpenRepository, record: PullRequest, changes: PullChanges, *, is_next: bool
) -> PullRequest:
    """`is_next`: if the request is opened, it is for one more merge."""
    new = record
    if changes.title is not ABSENT:
        new = new._replace(title=changes.title)
    if changes.description is not ABSENT:
        new = new._replace(description=changes.description)
    if changes.state is ABSENT or changes.state is record.state:
        return new
    if changes.state is PullState.CLOSED and record.state is PullState.OPEN:
        return _closed(repo, new)
    if changes.state is not PullState.OPEN:
        raise Invalid(
            f"bad pull request status: pull={record.id} status={record.state.name}",
            Code.PULL_STATE_INVALID,
        )
    if is_next:
        new = _without_note(new)._replace(opening=record.opening + 1, merged=NO_COMMIT)
    return new._replace(state=PullState.OPEN, closed_ns=0)


def close_all(repo: OpenRepository, branch: BranchId) -> None:
    """Close the open requests from and into a branch that does not exist any more.

    A request stays open if the branch exists when the request was read: it may be one of the next
    branch of this name, whose creation has closed those of the branch before.

    Errors: `OutcomeUnknown`: some may be open still; the call may be repeated.
    Cost: 1 KV request for each 1,000 requests that the branch ever had, 1 for each of them, and 2
    more for each that is open.
    """

    def change(record: PullRequest, _: bool) -> Changed:
        if record.state is not PullState.OPEN or branches.is_live(repo.kv, repo.record, branch):
            return ABSENT
        return _closed(repo, record)

    with UnconfirmedWrite("closing pull requests") as unconfirmed:
        unconfirmed.mark_unconfirmed()
        for pull in pulls.maybe_open(repo.kv, repo.record, branch):
            with suppress(NotFound):  # its creation did not get that far, and closes it itself
                _change(repo, pull, change)


def _close(repo: OpenRepository, pull: PullId) -> None:
    def change(record: PullRequest, _: bool) -> Changed:
        return ABSENT if record.state is not PullState.OPEN else _closed(repo, record)

    _change(repo, pull, change)


def _closed(repo: OpenRepository, record: PullRequest) -> PullRequest:
    return record._replace(state=PullState.CLOSED, closed_ns=repo.clock.now_ns())


def _change(
    repo: OpenRepository, pull: PullId, change: Callable[[PullRequest, bool], Changed]
) -> None:
    try:
        pulls.change(repo.kv, repo.record, pull, repo.ids, change)
    except Contended as error:
        raise OutcomeUnknown(f"pull request not closed: {pull=}") from error


def _check_texts(title: str, description: str) -> None:
    if len(title) > limits.pull_title_length_max:
        raise Invalid(f"title is too long: at most {limits.pull_title_length_max} characters")
    try:
        length = len((title + description).encode())
    except UnicodeEncodeError as error:
        raise Invalid("title or description is not valid Unicode") from error
    if length > limits.pull_description_length_bytes_max:
        most = limits.pull_description_length_bytes_max
        raise Invalid(f"title and description are too long: at most {most} bytes")


def _check_live(repo: OpenRepository, pull: PullRequest) -> None:
    """Raises `NotFound` unless both branches exist.  1 KV request."""
    names = (pull.source, pull.destination)
    places = [branches.place(repo.record, name) for name in names]
    stored = repo.kv.get_many(places)
    for name, place in zip(names, places, strict=True):
        if place not in stored:
            raise NotFound(f"branch '{name}' not found", Code.BRANCH_NOT_FOUND, branch=name)


def _confirm_live(repo: OpenRepository, pull: PullRequest) -> None:
    """Close the request that was just opened, if a branch was deleted meanwhile: `NotFound`."""
    with UnconfirmedWrite("opening a pull request") as unconfirmed:
        unconfirmed.mark_unconfirmed()
        try:
            _check_live(repo, pull)
        except NotFound:
            _close(repo, pull.id)  # also if the branch was created again by now
            raise


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


def find_merged(repo: OpenRepository, order: MergeOrder) -> CommitEntry | Literal[Absent.ABSENT]:
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
    outcome = _look_for(repo, seen, fresh(repo, seen.destination).branch)
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
        outcome = _look_for(repo, seen, onto)
    except HistoryTooLong as error:
        raise doubt from error
    if isinstance(outcome, CommitEntry):
        return outcome
    if SwapState.UNKNOWN in outcome:
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
    attempt = _begin_attempt(repo, seen)
    request = MergeRequest(
        committer,
        merges.message(seen.source, seen.destination),
        once=_key_of(seen, since)._replace(journal=attempt.journal),
    )
    source = fresh(repo, seen.source).branch.commit
    try:
        landed = merges.merge(repo, source, seen.destination, request)
    except (Overtaken, OutcomeUnknown):
        raise
    except GravelerError:  # nothing has landed, or will
        _forget_attempt(repo, seen, attempt)
        raise
    return CommitEntry(landed, commit_of(repo, landed))


def _end(repo: OpenRepository, seen: PullRequest, landed: CommitId) -> None:
    def change(record: PullRequest, _: bool) -> Changed:
        if record.state is PullState.MERGED or record.opening != seen.opening:
            return ABSENT  # another attempt found the same commit
        return _without_note(record)._replace(
            state=PullState.MERGED, closed_ns=repo.clock.now_ns(), merged=landed
        )

    try:
        pulls.change(repo.kv, repo.record, seen.id, repo.ids, change)
    except Contended as error:
        raise OutcomeUnknown(f"pull request not ended, but merged: pull={seen.id}") from error
