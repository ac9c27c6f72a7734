"""Sealing, scanning and trimming: how commits and landings take staging tokens off a branch.

To *seal* is to put a fresh token in place: a row that reaches the old one later is not acknowledged
there.  To *trim* is to take sealed tokens off the record, because a commit contains their rows; the
fold record and the clean-up records are stored before.  Rows are deleted by the janitor alone.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

from graveler.committed.apply import apply
from graveler.core import limits
from graveler.core.errors import Contended
from graveler.core.ids import BranchId, CommitId, MetarangeId, StagingToken
from graveler.core.records import ABSENT, Absent, Fold, Versioned
from graveler.engine.commits.heads import fresh, new_token, swap
from graveler.engine.ports import Deadline, OpenRepository, Ports, keyspace
from graveler.kv.store import Write, deferred
from graveler.refs import cleanups, commits
from graveler.staging import area, stack


def nothing_staged(ports: Ports, seen: Versioned) -> bool:
    """Whether the record has no sealed token and its open token has no row.  1 KV request for each
    shard; none if a token is sealed."""
    record = seen.branch
    return not record.sealed and area.is_empty(ports.kv, record.staging, ports.fanout)


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
        with deferred(repo.kv):  # a seal counts only together with what is written after it
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
    """The writes that must be stored before `tokens` leave the branch record."""
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


class Overlaid(NamedTuple):
    """The result of a base overlaid by tokens.

    `metarange`: the new content.  `differs`: it differs from the base.  `rows`: the number of rows
    of the tokens.
    """

    metarange: MetarangeId
    differs: bool
    rows: int


class Folding(NamedTuple):
    """The tokens to fold in, oldest first, and a function that applies them.

    `content` takes a base metarange and the tokens that the branch record still shows as sealed,
    and returns the base overlaid by them.
    """

    tokens: tuple[StagingToken, ...]
    content: Callable[[MetarangeId, tuple[StagingToken, ...]], Overlaid]


def scan(
    repo: OpenRepository, tokens: tuple[StagingToken, ...], deadline: Deadline
) -> Folding | Literal[Absent.ABSENT]:
    """Read every row of sealed tokens, which are given oldest first.

    Returns ABSENT if they have more than `commit_rows_max` rows; it then requests no further page.
    After `deadline`, the function of the result opens no further range and raises `Unavailable`.
    Cost: 1 KV request for each shard, and for each 10,000 rows of a shard.
    """
    rows_max = repo.settings.commit_rows_max
    try:
        deltas = area.deltas(repo.kv, tokens, repo.fanout, rows_max)
    except area.TooManyRows:
        return ABSENT
    space = keyspace(repo, deadline.checking("commit"))

    def content(base: MetarangeId, tokens_left: tuple[StagingToken, ...]) -> Overlaid:
        applied = apply(space, base, stack.combine([deltas[token] for token in tokens_left]))
        rows = sum(len(deltas[token]) for token in tokens_left)
        return Overlaid(applied.metarange_id, applied.total > 0, rows)

    return Folding(tokens, content)
