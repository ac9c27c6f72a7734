"""Finds the commit of a call in the history of a branch: by idempotency key, swap or token.

A verb whose swap got no answer, or whose request may be a repetition, looks here.  A search walks
along first parents, and never answers "not made" when a limit stops it.  A journal has the swaps
that attempts were about to send (docs/explanation/protocol.md).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from enum import Enum
from typing import Literal, NamedTuple

from graveler.core.errors import Conflict, HistoryTooLong, NoChanges
from graveler.core.ids import BranchId, CommitId, StagingToken
from graveler.core.records import ABSENT, Absent, Branch, CommitEntry, SentSwap
from graveler.engine.commits.heads import commit_of, fresh
from graveler.engine.ports import OpenRepository
from graveler.refs import commits

NO_CHANGES = "commit: no changes"


def swap_over(record: Branch, commit: CommitId) -> SentSwap:
    """The swap of a record to a commit.  Pure."""
    return SentSwap(commit, record.rev, record.commit, record.origin, record.rewinds)


Swaps = tuple[SentSwap, ...]


class SwapJournal:
    """The swaps that attempts were about to send, on record.

    A key that is not in the history does not say that nothing landed: a hard reset may have taken
    the commit away, and a repetition must not undo that.  The noted swaps tell the cases apart.

    `sent`: what is on record, or was to be put there.  Of several swaps of one record, one lands at
    most, and it may be any of them, so all of them stay; a swap of a later record takes their
    place.  `store` replaces one of the given notes with a new one.  It raises `Contended` if
    another attempt has noted a swap since.
    """

    def __init__(self, sent: Swaps, store: Callable[[Sequence[Swaps], Swaps], None]) -> None:
        self.sent = sent
        self._known: tuple[Swaps, ...] = (sent,)
        self._store = store

    def note(self, swap: SentSwap) -> None:
        """Note that the swap is about to be sent.  Errors and cost: those of `store`."""
        rivals = [each for each in self.sent if each.rev == swap.rev and each != swap]
        before, swaps = self._known, (*rivals, swap)
        self._known, self.sent = (*before, swaps), swaps  # the answer of the store may be lost
        self._store(before, swaps)
        self._known = (swaps,)


class SwapState(Enum):
    """What a record says about a swap whose commit is not in its history."""

    OPEN = "it may still land"
    LOST = "it did not land, and never will"
    UNKNOWN = "it may have landed, and a hard reset may have taken its commit away"


def swap_state(sent: SentSwap, now: Branch) -> SwapState:
    """What the record `now` says, if the caller has searched its history, from its head down to
    `sent.head`, and has not found the commit.  Pure.

    A swap is lost if the record has changed since, and no hard reset has moved the head: then
    `sent.head` is in the history, and so is every commit that was the head after it.  Revisions are
    those of one life of the branch, so another origin tells nothing.
    """
    if now.origin != sent.origin:
        return SwapState.UNKNOWN
    if now.rev <= sent.rev:
        return SwapState.OPEN
    is_lost = now.rewinds == sent.rewinds or is_replaced(sent, now)
    return SwapState.LOST if is_lost else SwapState.UNKNOWN


def is_replaced(sent: SentSwap, now: Branch) -> bool:
    """Whether exactly one other change has replaced the record that the swap named, so that the
    swap is lost.  Each change increments `rev`.  Pure."""
    is_next = now.origin == sent.origin and now.rev == sent.rev + 1
    return is_next and now.commit != sent.commit


def history_until(repo: OpenRepository, start: CommitId, base: CommitId) -> Iterator[CommitEntry]:
    """The commits along first parents from `start` back to `base`, both included.

    If `base` is not among them, the walk ends at its depth.  Raises `HistoryTooLong` after
    `walk_count_max` commits: a caller that searches for its own commit must not conclude that it
    did not land.  Cost: 1 KV request for each commit that is not cached.
    """
    depth = commit_of(repo, base).depth
    here, count_max = start, repo.settings.walk_count_max
    for _ in range(count_max):
        commit = commit_of(repo, here)
        if commit.depth < depth:
            return
        yield CommitEntry(here, commit)
        if here == base or not commit.parents:
            return
        here = commit.parents[0]
    raise HistoryTooLong(
        f"more than {count_max} commits were made since; the service does not search all of them; "
        f"outcome unknown: since={base}"
    )


# ---- by an idempotency key -----------------------------------------------------------------------


class Once(NamedTuple):
    """An idempotency key: the commit that carries it is made once, even if requests are repeated.

    `key` and `value` are a pair of the commit's metadata; with an empty `key`, `value` is the
    commit's mark, which clients do not see.  `since` is a head of the branch from before the first
    request, so it is never the commit itself.  After a hard reset to a commit before `since`, the
    key may not be found.  `journal`: where attempts note their swaps.
    """

    key: str
    value: str
    since: CommitId
    journal: SwapJournal | Literal[Absent.ABSENT] = ABSENT


def find_by_key(
    repo: OpenRepository, once: Once | Literal[Absent.ABSENT], head: CommitId
) -> CommitEntry | Literal[Absent.ABSENT]:
    """The commit with the idempotency key in the history of `head`, or ABSENT.

    A caller asks this for every head that it builds on.  Its swap lands only on a head that was
    searched, so two callers cannot both install the same commit, even if a swap arrives late.
    Errors: `HistoryTooLong`.  Cost: no request if `since` is still the head; else 1 KV request for
    each commit since that is not cached.
    """
    if once is ABSENT or once.since == head:
        return ABSENT
    for entry in history_until(repo, head, once.since):
        commit = entry.commit
        carried = commit.metadata.get(once.key) if once.key else commit.mark
        if carried == once.value and entry.id != once.since:
            return entry
    return ABSENT


def note_swap(once: Once | Literal[Absent.ABSENT], swap: SentSwap) -> None:
    """Note that the swap is about to be sent, if the call has a journal.  Errors and cost: those of
    the journal."""
    if once is not ABSENT and once.journal is not ABSENT:
        once.journal.note(swap)


def sent_before(once: Once | Literal[Absent.ABSENT]) -> Swaps:
    """The swaps that earlier attempts have noted."""
    return () if once is ABSENT or once.journal is ABSENT else once.journal.sent


# ---- by a swap -----------------------------------------------------------------------------------


def judge(repo: OpenRepository, sent: SentSwap, now: Branch) -> CommitEntry | SwapState:
    """What became of a swap: its commit, if it is in the history of the record `now`.

    Errors: `HistoryTooLong`.  Cost: 1 KV request for each commit since `sent.head` that is not
    cached.
    """
    is_same = now.origin == sent.origin
    if not is_same or (now.rev > sent.rev and not is_replaced(sent, now)):
        for entry in history_until(repo, now.commit, sent.head):
            if entry.id == sent.commit:
                return entry
    return swap_state(sent, now)


def judge_all(
    repo: OpenRepository, swaps: Iterable[SentSwap], now: Branch
) -> CommitEntry | tuple[SwapState, ...]:
    """The commit that one of the swaps put on the branch; else the verdict about each of them.

    Errors and cost: those of `judge`, for each swap.
    """
    states: list[SwapState] = []
    for sent in swaps:
        outcome = judge(repo, sent, now)
        if isinstance(outcome, CommitEntry):
            return outcome
        states.append(outcome)
    return tuple(states)


# ---- by a staging token --------------------------------------------------------------------------


class TokenSearch(NamedTuple):
    """What is looked for: the commit that has folded in `token`, or one of the commits `own_ids`.

    With `token` ABSENT, only `own_ids` count.  `since`: a head of the branch from before that
    commit.
    """

    token: StagingToken | Literal[Absent.ABSENT]
    since: CommitId
    own_ids: Set[CommitId] = frozenset()


def find_by_token(
    repo: OpenRepository, branch: BranchId, record: Branch, sought: TokenSearch
) -> CommitEntry | Literal[Absent.ABSENT]:
    """The commit in the history of the branch record, or ABSENT.

    A fold record alone proves nothing, because the swap of its commit may have failed.  So a commit
    counts as the one that has folded in the token only if the record does not name the token any
    more.  Raises `NoChanges` if the fold record belongs to `since`: the token changed nothing on
    that commit.  Errors: `HistoryTooLong`.  Cost: that of the walk, and 1 KV request for each
    commit on it if the token has left the record.
    """
    token = sought.token
    has_left = token is not ABSENT and token not in record.tokens_newest_first
    for entry in history_until(repo, record.commit, sought.since):
        if entry.id in sought.own_ids:
            return entry
        if not has_left:
            continue
        folds = commits.folds_of(repo.kv, repo.record, branch, entry.id)
        if any(token in fold.tokens for fold in folds):
            if entry.id == sought.since:
                raise NoChanges(NO_CHANGES)
            return entry
    return ABSENT


def holder(
    repo: OpenRepository, branch: BranchId, token: StagingToken, since: CommitId
) -> CommitEntry | Literal[Absent.ABSENT]:
    """The commit that has folded in a token; ABSENT while the branch still names the token.

    `since`: a head from before that commit.

    Errors: `NotFound`, `HistoryTooLong`; `NoChanges` if the token held only what was committed
    already; `Conflict` if the branch was reset.  Cost: 1 KV request, and those of
    `find_by_token`.
    """
    record = fresh(repo, branch).branch
    if token in record.tokens_newest_first:
        return ABSENT
    entry = find_by_token(repo, branch, record, TokenSearch(token, since))
    if entry is ABSENT:
        raise changes_lost(branch)
    return entry


def changes_lost(branch: BranchId) -> Conflict:
    """The error of a commit whose tokens have left the branch, and are in no commit."""
    return Conflict(
        f"commit lost its changes: the branch was reset during the commit: branch={branch}"
    )
