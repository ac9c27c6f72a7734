"""Resets: drop uncommitted changes (all, one path, one prefix), or move the head to another commit.

A reset of all swaps in a fresh staging token and takes every other one off the record.  A reset of
paths fills a new token with their committed values, and adds it as the newest sealed token, so that
it hides the staged rows.  That token is never open: its rows are written without a condition.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Literal, NamedTuple

from graveler.committed import reader
from graveler.core import limits
from graveler.core.errors import Conflict, OutcomeUnknown
from graveler.core.ids import (
    BranchId,
    CommitId,
    StagingToken,
    parse_branch_id,
    parse_path,
    parse_prefix,
)
from graveler.core.records import ABSENT, TOMBSTONE, Absent, Branch, CommitEntry, Versioned
from graveler.core.streams import END, Cursor, Item
from graveler.engine import protection
from graveler.engine.commits import land
from graveler.engine.commits.heads import (
    SwapOutcome,
    check_kept,
    commit_of,
    committed,
    fresh_after,
    given_up,
    new_token,
    send,
)
from graveler.engine.ports import (
    Deadline,
    OpenRepository,
    Ports,
    UnconfirmedWrite,
    check_writable,
    keyspace,
)
from graveler.kv.store import Write
from graveler.refs import cleanups
from graveler.staging import area, stack

NoteSwap = Callable[[StagingToken, int], None]  # the token, and the revision that is replaced
_SMALLER = "nothing was dropped; reset smaller prefixes, or the whole branch at once"


def _unnoted(_token: StagingToken, _revision: int) -> None:
    """Nobody repeats the reset."""


class _NewRecord(NamedTuple):
    """What a round swaps in: the record, but for revision and time, and the token that names it."""

    token: StagingToken
    record: Branch


class _UnansweredSwap(NamedTuple):
    """A swap that got no answer: the record that it was to replace, and a token that it names."""

    over: Versioned
    token: StagingToken


class _KeyRange(NamedTuple):
    """The keys from `first` to `end`, which is excluded; an empty `end` means all keys that begin
    with `first`."""

    first: bytes
    end: bytes

    def reaches(self, key: bytes) -> bool:
        """Whether a key that is not before `first` is in the range."""
        return key < self.end if self.end else key.startswith(self.first)


def reset(repo: OpenRepository, branch: str, *, force: bool = False) -> None:
    """Drop all uncommitted changes of `branch`.  Atomic.

    Errors: `NotFound`, `Refused`, `Contended`, `OutcomeUnknown`.  Cost: 3 KV requests.
    """
    name = parse_branch_id(branch)
    grace_ns = repo.settings.token_grace_seconds * limits.SECOND_NS

    def emptied(seen: Versioned) -> _NewRecord:
        record = seen.branch
        token = new_token(repo, record.recent_rows)
        dropped, due_ns = (*record.sealed, record.staging), repo.clock.now_ns() + grace_ns
        repo.kv.set_many(cleanups.cleanup_writes(repo.record, name, dropped, due_ns, repo.ids))
        return _NewRecord(token, record._replace(staging=token, sealed=()))

    _swap(repo, name, emptied, force)


def _swap(
    repo: OpenRepository,
    branch: BranchId,
    draw: Callable[[Versioned], "_NewRecord | None"],
    force: bool,
    note: NoteSwap = _unnoted,
) -> None:
    """Swap the record to the one that `draw` returns, until a swap has landed, or it returns None:
    there is nothing to drop."""
    check_writable(repo.record, force)
    protection.check_staging(repo, branch)
    sent: list[_UnansweredSwap] = []
    with UnconfirmedWrite("reset") as unconfirmed:
        for _ in range(limits.commit_round_count_max):
            seen = fresh_after(repo, branch, "reset", is_unconfirmed=bool(sent))
            if _has_landed(branch, seen, sent, unconfirmed):
                return
            drawn = draw(seen)
            if drawn is None:
                return
            new = drawn.record._replace(rev=seen.branch.rev + 1, changed_ns=repo.clock.now_ns())
            _check_rule(repo, branch, sent)
            note(drawn.token, seen.branch.rev)
            outcome = send(repo, branch, seen, new)
            if outcome is SwapOutcome.UNKNOWN:
                sent.append(_UnansweredSwap(seen, drawn.token))
            unconfirmed.note(is_unconfirmed=bool(sent))
            if outcome is SwapOutcome.LANDED:
                return
        seen = fresh_after(repo, branch, "reset", is_unconfirmed=bool(sent))
        if _has_landed(branch, seen, sent, unconfirmed):
            return
        raise given_up(branch, "reset", is_unknown=bool(sent))


def _check_rule(repo: OpenRepository, branch: BranchId, sent: Sequence[_UnansweredSwap]) -> None:
    """Raises `Refused` if a rule has come since the reset began, and `OutcomeUnknown` if a swap of
    it may still land."""
    doubt = f"reset not confirmed; outcome unknown: {branch=!s}"
    with protection.in_doubt(doubt, is_pending=bool(sent)):
        protection.check_staging(repo, branch)


def _has_landed(
    branch: BranchId, now: Versioned, sent: list[_UnansweredSwap], unconfirmed: UnconfirmedWrite
) -> bool:
    """Whether one of these swaps landed.  Those that did not, and never will, leave `sent`.

    A commit takes off the token of a reset, so a token that is missing proves nothing.  But a swap
    is lost if exactly one other change has replaced the record that it named (each change
    increments `rev`); or if the record that has come since names the old open token and not the
    token of the swap, because the swap would have dropped the one, or sealed it beside the other.
    Else raises `OutcomeUnknown`: a second reset would drop what was staged since.
    """
    tokens = now.branch.tokens_newest_first
    if any(swap.token in tokens for swap in sent):
        return True
    sent[:] = [swap for swap in sent if not _is_lost(now, swap)]
    unconfirmed.note(is_unconfirmed=bool(sent))
    if any(swap.over.version != now.version for swap in sent):
        raise OutcomeUnknown(f"reset not confirmed; outcome unknown: branch={branch}")
    return False


def _is_lost(now: Versioned, swap: _UnansweredSwap) -> bool:
    """Whether a swap whose token the record does not name is lost for certain."""
    if now.version == swap.over.version:
        return False
    is_next = now.branch.rev == swap.over.branch.rev + 1
    return is_next or swap.over.branch.staging in now.branch.tokens_newest_first


def reset_path(repo: OpenRepository, branch: str, path: str, *, force: bool = False) -> None:
    """Drop the uncommitted change of one path, if there is one.  Atomic.

    Errors: as `reset`; `Conflict` after too many resets of paths and prefixes without a commit.
    """
    key = parse_path(path)
    _cover(repo, parse_branch_id(branch), _KeyRange(key, key + b"\0"), force)


def reset_prefix(
    repo: OpenRepository,
    branch: str,
    prefix: str,
    *,
    force: bool = False,
    note: NoteSwap = _unnoted,
) -> None:
    """Drop the uncommitted changes of all paths that begin with `prefix`.  Atomic.

    An empty prefix means `reset`.  `note` is called before each swap, with the token that the swap
    names and the revision of the branch that it replaces.  Errors: as `reset_path`, and
    `Unavailable` if the rows are too many for `commit_seconds_max`; nothing is dropped then.
    Holds `limits.kv_batch_count_max` rows in memory at a time.  If there are more rows, they are
    read twice: first to count them, then to write the committed values.
    """
    stem = parse_prefix(prefix)
    if not stem:
        reset(repo, branch, force=force)
        return
    _cover(repo, parse_branch_id(branch), _KeyRange(stem, b""), force, note)


def _cover(
    repo: OpenRepository,
    branch: BranchId,
    within: _KeyRange,
    force: bool,
    note: NoteSwap = _unnoted,
) -> None:
    deadline = Deadline(repo.clock, repo.settings.commit_seconds_max)

    def covered(seen: Versioned) -> _NewRecord | None:
        deadline.check("reset")
        batches = _staged(repo, seen, within, deadline)
        keys = next(batches, None)
        if keys is None:
            return None
        record = seen.branch
        if len(record.sealed) >= limits.reset_token_count_max:
            raise Conflict(f"too many resets since the last commit; commit first: branch={branch}")
        further = sum(len(batch) for batch in batches)
        token = _noted(repo, branch, len(keys) + further)
        _fill(repo, token, _reverting(repo, seen, keys))
        if further:
            for batch in _staged(repo, seen, within, deadline, keys[-1] + b"\0"):
                _fill(repo, token, _reverting(repo, seen, batch))
        sealed = (*record.sealed, record.staging, token)
        open_token = new_token(repo, record.recent_rows)
        return _NewRecord(token, record._replace(staging=open_token, sealed=sealed))

    _swap(repo, branch, covered, force, note)


def _staged(
    ports: Ports,
    seen: Versioned,
    within: _KeyRange,
    deadline: Deadline,
    begin: bytes = b"",
) -> Iterator[list[bytes]]:
    """The staged keys of a range, in lists of `limits.kv_batch_count_max` keys.

    Keys before `begin` are left out.
    A second call may return other keys, because writers are active.  That is correct: each such
    write counts as made before the reset or after it.
    """
    cursor = stack.view(ports.kv, seen.branch.tokens_newest_first, fanout=ports.fanout)
    cursor.seek(max(within.first, begin))
    keys = _keys(cursor, within)
    while batch := list(islice(keys, limits.kv_batch_count_max)):
        deadline.check("reset", _SMALLER)
        yield batch


def _keys(cursor: Cursor, within: _KeyRange) -> Iterator[bytes]:
    """The keys of a range from the cursor on."""
    while (item := cursor.peek()) is not END:
        if not within.reaches(item[0]):
            return
        yield item[0]
        cursor.advance()


def _reverting(repo: OpenRepository, seen: Versioned, keys: list[bytes]) -> list[Item]:
    head = commit_of(repo, seen.branch.commit)
    values = reader.get_many(keyspace(repo), head.metarange, keys)
    return [(key, values.get(key, TOMBSTONE)) for key in keys]


def _noted(repo: OpenRepository, branch: BranchId, rows: int) -> StagingToken:
    """A new token for `rows` rows.  Its clean-up record is stored before it has a row."""
    token = new_token(repo, rows)
    due_ns = area.born_ns(token) + repo.settings.unnamed_token_seconds * limits.SECOND_NS
    repo.kv.set_many(cleanups.cleanup_writes(repo.record, branch, [token], due_ns, repo.ids))
    return token


def _fill(ports: Ports, token: StagingToken, items: list[Item]) -> None:
    wid = ports.ids.stamp()
    writes: list[Write] = [
        area.row_write(token, key, value, wid=wid, version=ports.ids.stamp())
        for key, value in items
    ]
    ports.kv.set_many(writes)


def hard_reset(
    repo: OpenRepository,
    branch: str,
    ref: str,
    *,
    force: bool = False,
    expected: CommitId | Literal[Absent.ABSENT] = ABSENT,
) -> CommitEntry:
    """Put `branch` on the commit that `ref` means, if its head is the `expected` one.  Atomic.

    Each round resolves `ref` again, because a relative ref depends on the head.
    Errors: `NotFound`, `Gone` (the commit has expired), `Invalid`, `DirtyBranch`, `Refused`,
    `PreconditionFailed` (the head is neither `expected` nor that commit), `Contended`,
    `OutcomeUnknown`.
    """
    name = parse_branch_id(branch)
    check_writable(repo.record, force)
    protection.check_head(repo, name)

    def target() -> tuple[CommitEntry, bytes]:
        protection.check_head(repo, name)
        ref_target = committed(repo, ref)
        check_kept(repo, ref_target.commit)
        is_own = ref_target.branch is not ABSENT and ref_target.branch_id == name
        at = ref_target.branch.version if ref_target.branch is not ABSENT and is_own else b""
        return CommitEntry(ref_target.commit, commit_of(repo, ref_target.commit)), at

    return land.put_on(repo, name, target, expected)
