"""Taking staging tokens out of a branch: what commits, merges and resets share.

    staging ──seal──► sealed (readers still look here) ──trim──► clean-up record ──grace──► rows
    gone

To *seal* is to put a fresh token in place, so that nothing acknowledged later can enter the old
one.  To *trim* is to take
sealed tokens off the record because a commit says all that they say; what that commit folded in,
and the intent to clean
up, are on record before.  Nobody deletes rows here: readers and slow writers of the old record may
still look at them.
Used by commit.py, landing.py and reset.py.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from graveler import limits
from graveler.engine.commits.records import commit_of, fresh, new_token, swap
from graveler.engine.ports import Ports
from graveler.errors import Contended, HistoryTooLong
from graveler.ids import BranchId, CommitId, StagingToken
from graveler.kv.store import Write
from graveler.records import ABSENT, Absent, CommitEntry, Fold, Repository, Versioned
from graveler.refs.graph import commits
from graveler.refs.tokens import cleanups
from graveler.staging import area


def nothing_staged(ports: Ports, seen: Versioned) -> bool:
    """Whether the record shows no sealed token and its open token holds no row.  1 query a
    shard."""
    return not seen.branch.sealed and area.is_empty(ports.kv, seen.branch.staging, ports.fanout)


def seal(
    ports: Ports, repo: Repository, branch: BranchId, first: Versioned, *, own: bool = False
) -> Versioned:
    """A record in which the open token of `first` is open no more: what was acknowledged before
    `first` was read stands in its sealed tokens, or in commits that were made since.

    Somebody else's seal serves as well, if it came after `first`; with `own`, only one of ours (so
    that two commits that
    must both exist never fold in the same tokens).  Cost: 1 swap.
    """
    seen = first
    for _ in range(limits.commit_round_count_max):
        record = seen.branch
        token = new_token(ports, repo, record.recent_rows)
        wanted = record._replace(
            rev=record.rev + 1,
            staging=token,
            sealed=(*record.sealed, record.staging),
            changed_ns=ports.clock.now_ns(),
        )
        swapped = swap(ports, repo, branch, seen, wanted)
        if swapped is not None:
            return swapped
        seen = fresh(ports, repo, branch)
        mine = token in seen.branch.tokens_newest_first
        theirs = not own and seen.branch.staging != first.branch.staging
        if mine or theirs:
            return seen
    raise Contended(f"commit kept losing while sealing; try again: branch={branch}")


def trim_notes(
    ports: Ports,
    repo: Repository,
    branch: BranchId,
    head: CommitId,
    tokens: tuple[StagingToken, ...],
) -> list[Write]:
    """What must be on record before `tokens` leave the branch because `head` holds all they say."""
    if not tokens:
        return []
    now_ns = ports.clock.now_ns()
    grace_ns = ports.settings.token_grace_seconds * limits.SECOND_NS
    note = Fold(tokens, now_ns)
    stamp = ports.ids.stamp()
    return [
        commits.fold_write(repo, branch, head, tokens[-1], note, stamp),
        *cleanups.cleanup_writes(repo, branch, tokens, now_ns + grace_ns, ports.ids),
    ]


def history_until(
    ports: Ports, repo: Repository, start: CommitId, base: CommitId
) -> Iterator[CommitEntry]:
    """First parents from `start` back to and including `base`; without it, as far as its depth.

    Raises `HistoryTooLong` behind `walk_count_max` commits: whoever looks for what may have landed
    must not take the end of the walk for the end of the history.
    """
    depth = commit_of(ports, repo, base).depth
    here = start
    for _ in range(limits.walk_count_max):
        found = commit_of(ports, repo, here)
        if found.depth < depth:
            return
        yield CommitEntry(here, found)
        if here == base or not found.parents:
            return
        here = found.parents[0]
    raise HistoryTooLong(
        f"more than {limits.walk_count_max} commits were made meanwhile, so nobody looks through "
        f"all of them; outcome unknown: since={base}"
    )


class Once(NamedTuple):
    """The mark, a pair of the metadata, of a commit that is to be made once, however often it is
    asked for.  `since`: a head from before the first time it was asked for, so never that commit
    itself."""

    key: str
    value: str
    since: CommitId


def made_once(
    ports: Ports, repo: Repository, once: Once | Literal[Absent.ABSENT], head: CommitId
) -> CommitEntry | Literal[Absent.ABSENT]:
    """The commit with the mark behind `head`.  No request if `since` still is the head.

    Errors: `HistoryTooLong`.  Asked of every head that is built on: a swap lands only on the head
    that was searched, so two who make the same commit cannot both install it, whenever their swaps
    arrive."""
    if once is ABSENT or once.since == head:
        return ABSENT
    for entry in history_until(ports, repo, head, once.since):
        is_marked = entry.commit.metadata.get(once.key) == once.value
        if is_marked and entry.id != once.since:
            return entry
    return ABSENT
