"""Swaps of branch records: what was sent, the journal of it, and what a later record says about it.

    note (journal) ──► send ──► landed
                          └──► no answer: OPEN while the record is the one that the swap named;
                               LOST if the record shows that it cannot have landed; else UNKNOWN

Pure, but for what a journal stores.  Used by the verbs that move heads, and by jobs.  Source:
docs/explanation/protocol.md.
"""

from collections.abc import Callable, Sequence
from enum import Enum

from graveler.ids import CommitId
from graveler.records import Branch, SentSwap


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


class Verdict(Enum):
    """What a record says about a swap whose commit is not in its history."""

    OPEN = "it may still land"
    LOST = "it did not land, and never will"
    UNKNOWN = "it may have landed, and a hard reset may have taken its commit away"


def verdict(sent: SentSwap, now: Branch) -> Verdict:
    """What the record `now` says, if the caller has searched its history, from its head down to
    `sent.head`, and has not found the commit.  Pure.

    A swap is lost if the record has changed since, and no hard reset has moved the head: then
    `sent.head` is in the history, and so is every commit that was the head after it.  Revisions are
    those of one life of the branch, so another origin tells nothing.
    """
    if now.origin != sent.origin:
        return Verdict.UNKNOWN
    if now.rev <= sent.rev:
        return Verdict.OPEN
    is_lost = now.rewinds == sent.rewinds or is_replaced(sent, now)
    return Verdict.LOST if is_lost else Verdict.UNKNOWN


def is_replaced(sent: SentSwap, now: Branch) -> bool:
    """Whether exactly one other change has replaced the record that the swap named, so that the
    swap is lost.  Each change increments `rev`.  Pure."""
    is_next = now.origin == sent.origin and now.rev == sent.rev + 1
    return is_next and now.commit != sent.commit
