"""Sealing and trimming: how commits and landings take staging tokens off a branch.

    staging ──seal──► sealed (readers still look here) ──trim──► clean-up record
                                                                       └──grace──► rows gone

To *seal* is to put a fresh token in place.  A row that reaches the old one later is not
acknowledged there: its writer writes it again, into the open token.  To *trim* is to take sealed
tokens off the branch record, because a commit contains all their rows.  The fold record (which
tokens that commit took in) and the clean-up records are stored before the trim.  This module
deletes no rows: readers and slow writers that hold an old branch record may still use them.
Used by commit.py, land.py, bulk jobs, and verbs that search the history for a commit.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from graveler import limits
from graveler.engine.commits.records import commit_of, fresh, new_token, swap
from graveler.engine.ports import OpenRepository, Ports
from graveler.errors import Contended, HistoryTooLong
from graveler.ids import BranchId, CommitId, StagingToken
from graveler.kv.store import Write
from graveler.records import ABSENT, Absent, CommitEntry, Fold, Versioned
from graveler.refs.graph import commits
from graveler.refs.tokens import cleanups
from graveler.staging import area


def nothing_staged(ports: Ports, seen: Versioned) -> bool:
    """Whether the record has no sealed token and its open token has no row.

    Cost: 1 KV request for each shard; none if a token is sealed.
    """
    return not seen.branch.sealed and area.is_empty(ports.kv, seen.branch.staging, ports.fanout)


def seal(
    repo: OpenRepository, branch: BranchId, first: Versioned, *, own: bool = False
) -> Versioned:
    """Seal the open token of `first`; return a record in which it is not open.

    Every write that was acknowledged before `first` was read is then in the sealed tokens of the
    returned record, or in commits that were made since.

    Another client's seal after `first` is also accepted.  With `own`, only a seal of this call is
    accepted: then each of two calls that must both make a commit seals a token of its own.  Both
    may try to fold in the same older tokens.  Only one of their swaps lands; the other call
    continues with the tokens that are left.
    Errors: `NotFound`, `Contended`.  Cost: 1 compare-and-swap; after each failed one, 1 read more.
    """
    seen = first
    for _ in range(limits.commit_round_count_max):
        record = seen.branch
        token = new_token(repo, record.recent_rows)
        new = record._replace(
            rev=record.rev + 1,
            staging=token,
            sealed=(*record.sealed, record.staging),
            changed_ns=repo.clock.now_ns(),
        )
        swapped = swap(repo, branch, seen, new)
        if swapped is not None:
            return swapped
        seen = fresh(repo, branch)
        is_own_seal = token in seen.branch.tokens_newest_first
        is_other_seal = not own and seen.branch.staging != first.branch.staging
        if is_own_seal or is_other_seal:
            return seen
    raise Contended(f"commit kept losing while sealing; try again: branch={branch}")


def trim_writes(
    repo: OpenRepository, branch: BranchId, head: CommitId, tokens: tuple[StagingToken, ...]
) -> list[Write]:
    """The writes that must be stored before `tokens` leave the branch record.

    They are the fold record of `head`, the commit that contains the rows of `tokens`, and one
    clean-up record for each token.  Cost: no request; the caller sends them.
    """
    if not tokens:
        return []
    now_ns = repo.clock.now_ns()
    grace_ns = repo.settings.token_grace_seconds * limits.SECOND_NS
    fold = Fold(tokens, now_ns)
    stamp = repo.ids.stamp()
    return [
        commits.fold_write(repo.record, branch, head, tokens[-1], fold, stamp),
        *cleanups.cleanup_writes(repo.record, branch, tokens, now_ns + grace_ns, repo.ids),
    ]


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


class Once(NamedTuple):
    """An idempotency key: the commit that carries it is made once, even if requests are repeated.

    `key` and `value` are a pair of the commit's metadata; with an empty `key`, `value` is the
    commit's mark, which clients do not see.  `since` is a head of the branch from before the first
    request, so it is never the commit itself.
    """

    key: str
    value: str
    since: CommitId


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
