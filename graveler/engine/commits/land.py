"""Landing: puts a branch on a commit that is not made from its staged rows.

1 read    the branch record
2 clean   nothing is staged, or no row is in the way: build on the head, store, swap
3 else    rows that differ from the head: refuse (`DirtyBranch`).  Rows that equal it would hide
          the landed content: seal them, compare again, and trim them in the same swap
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final, Literal, NamedTuple

from graveler.committed import reader
from graveler.core import limits
from graveler.core.errors import (
    Contended,
    Corrupt,
    DirtyBranch,
    Gone,
    GravelerError,
    HistoryTooLong,
    OutcomeUnknown,
    PreconditionFailed,
    Unavailable,
)
from graveler.core.identity import identity_of
from graveler.core.ids import BranchId, CommitId, StagingToken
from graveler.core.records import (
    ABSENT,
    TOMBSTONE,
    Absent,
    Branch,
    Commit,
    CommitEntry,
    SentSwap,
    StagedValue,
    Versioned,
)
from graveler.core.streams import END, Item
from graveler.core.turns import Call
from graveler.engine.commits.heads import (
    commit_of,
    fresh_after,
    given_up,
    in_turn,
    placed,
    try_swap,
)
from graveler.engine.commits.seal import nothing_staged, seal, trim_writes
from graveler.engine.commits.search import (
    Once,
    SwapState,
    find_by_key,
    history_until,
    is_replaced,
    note_swap,
    sent_before,
    swap_over,
    swap_state,
)
from graveler.engine.hooks import COMMIT, NOTHING_PENDING, HookEvent, Pending
from graveler.engine.ports import Deadline, OpenRepository, Ports, UnconfirmedWrite, keyspace
from graveler.kv.store import Declined, deferred
from graveler.refs import commits, garbage
from graveler.refs.branches import CompanionRow
from graveler.staging import area, stack

Build = Callable[[CommitEntry], Commit]  # receives the head to build on; may raise to refuse
# Returns the commit, and the version of the branch record that it was resolved by; empty: of none.
Target = Callable[[], tuple[CommitEntry, bytes]]
_BATCH = 1_000


class Landing(NamedTuple):
    """The new head that one round tries to install.

    `is_new`: the round makes this commit, so its record must be stored first.
    `at`: the version of the branch record that the commit was chosen by; empty accepts any.
    """

    entry: CommitEntry
    is_new: bool
    at: bytes = b""


class EarlierRound(NamedTuple):
    """An earlier round of this call, or of an earlier attempt: its swap.

    `is_new`: the round made the commit.  `is_lost`: the swap did not land and never will.
    `pending`: what hooks leave to do after the landing.
    """

    swap: SentSwap
    is_new: bool
    is_lost: bool
    pending: Pending = NOTHING_PENDING


class Beside(NamedTuple):
    """The staged rows beside which a landing may land: all but those in its way.

    Only rows from `first` to `end`, which is excluded (empty: no end), can be in its way.
    `has_obstacle`: whether one of these rows is.
    """

    first: bytes
    end: bytes
    has_obstacle: Callable[[Sequence[Item]], bool]


# Called in each round, before `build`, with the record to land on; may raise to refuse.  The result
# makes the row that is written in one step with the swap to a commit.
Accompany = Callable[[Branch], Callable[[CommitId], CompanionRow]]


class Terms(NamedTuple):
    """Conditions of a landing.

    `deadline`: None means `commit_seconds_max` from now.  `once`: an idempotency key; if the
    branch already has a commit with this key, that commit is returned.  `event`: the kind of event
    whose hooks run before and after the landing; empty: no hook runs.  `merge_source`: the ref
    that a merge names; `source_ref`: the one that a revert or a cherry-pick names.  `beside`: the
    rows that may stay staged; ABSENT: none that differs from the head.  `accompany`: see
    `Accompany`.
    """

    deadline: Deadline | None = None
    once: Once | Literal[Absent.ABSENT] = ABSENT
    event: str = ""
    merge_source: str = ""
    source_ref: str = ""
    beside: Beside | Literal[Absent.ABSENT] = ABSENT
    accompany: Accompany | Literal[Absent.ABSENT] = ABSENT


ANY_TIMES: Final = Terms()


def land(
    repo: OpenRepository, branch: BranchId, build: Build, terms: Terms = ANY_TIMES
) -> CommitEntry:
    """Make the commit that `build` returns for the head, and put the branch on it.  Atomic.

    Each round calls `build` again, with the head of that moment.  At most one round lands.
    Errors: those of `build`, `NotFound`, `DirtyBranch`, `HookFailed`, `Contended`, `Unavailable`
    after the deadline, `OutcomeUnknown`.  Except after `OutcomeUnknown`, an error changes nothing
    that a reader sees; staged rows may have moved from the open token to a sealed one.
    Cost on a clean branch with one shard: 4 KV requests and those of `build`.
    """

    def draw(head: CommitEntry) -> Landing:
        return Landing(placed(repo, build(head)), True)

    deadline = terms.deadline or Deadline(repo.clock, repo.settings.commit_seconds_max)

    def work(_: None) -> CommitEntry:
        tried = [EarlierRound(swap, True, False) for swap in sent_before(terms.once)]
        entry = _move(repo, branch, draw, terms, deadline, tried)
        for each in tried:
            if each.swap.commit == entry.id:  # rounds with the same commit have the same
                repo.hooks.landed(repo, each.pending)
                break
        return entry

    return in_turn(repo, branch, deadline, Call(work, None))


def put_on(
    repo: OpenRepository,
    branch: BranchId,
    target: Target,
    expected: CommitId | Literal[Absent.ABSENT] = ABSENT,
) -> CommitEntry:
    """Put the branch on an existing commit (hard reset).  Each round calls `target` again.

    With `expected` only a head that is this commit is replaced, or one that is the target already:
    a call that is repeated because its answer was lost must not fail by its own result.

    If `target` resolved the commit by another branch record than the one to be replaced, the round
    tries no swap.  Otherwise, after a lost answer, the commit could be found in a history that
    other clients made, as if this call had landed.

    Errors: those of `target` and of `land`; `PreconditionFailed`: the head is not the expected one.
    Cost on a clean branch with one shard: 4 KV requests and those of `target`.
    """

    def draw(head: CommitEntry) -> Landing:
        entry, at = target()
        if expected is not ABSENT and head.id not in (expected, entry.id):
            raise PreconditionFailed(
                f"branch is at another commit: branch={branch} head={head.id} {expected=!s}"
            )
        garbage.forget_unreachable(repo.kv, repo.record, [head.id])
        return Landing(entry, False, at)

    deadline = Deadline(repo.clock, repo.settings.commit_seconds_max)
    call = Call(lambda _: _move(repo, branch, draw, ANY_TIMES, deadline, []), None)
    return in_turn(repo, branch, deadline, call)


def _move(
    repo: OpenRepository,
    branch: BranchId,
    draw: Callable[[CommitEntry], Landing],
    terms: Terms,
    deadline: Deadline,
    tried: list[EarlierRound],
) -> CommitEntry:
    """Run the rounds; append to `tried` each one whose swap was sent."""
    with UnconfirmedWrite("landing a commit") as unconfirmed:
        unconfirmed.note(is_unconfirmed=_may_have_landed(tried))
        for _ in range(limits.landing_round_count_max):
            deadline.check("landing a commit")
            seen = _fresh(repo, branch, tried)
            landed = _find_landed(repo, seen, tried, terms.once)
            if landed is not None:
                return landed
            unconfirmed.note(is_unconfirmed=_may_have_landed(tried))
            try:
                seen, tokens = _check_and_seal(repo, branch, seen, terms.beside, deadline)
                landed = _find_landed(repo, seen, tried, terms.once)
                if landed is not None:
                    return landed
                companion = None if terms.accompany is ABSENT else terms.accompany(seen.branch)
                head = CommitEntry(seen.branch.commit, commit_of(repo, seen.branch.commit))
                landing = draw(head)
                if landing.at not in (b"", seen.version):
                    continue
                deadline.check("landing a commit")
                _store(repo, branch, landing, head.id, tokens)
                event = _event(branch, seen, landing, terms)
                pending = _run_gate_hooks(repo, event, tried, deadline)
                swap = swap_over(seen.branch, landing.entry.id)
                note_swap(terms.once, swap)
            except GravelerError as error:
                if not tried or isinstance(error, Unavailable):
                    raise
                now = _past_landing(repo, branch, tried, error)
                landed = _find_landed(repo, now, tried)
                if landed is not None:
                    return landed
                raise
            deadline.check("landing a commit")
            new = seen.branch._replace(
                rev=seen.branch.rev + 1,
                commit=landing.entry.id,
                sealed=seen.branch.sealed[len(tokens) :],
                rewinds=seen.branch.rewinds + (not landing.is_new),
                changed_ns=repo.clock.now_ns(),
            )
            other = ABSENT if companion is None else companion(landing.entry.id)
            swapped = try_swap(repo, branch, seen, new, other)
            is_lost = isinstance(swapped, Declined)
            tried.append(EarlierRound(swap, landing.is_new, is_lost, pending))
            if isinstance(swapped, Versioned):
                return landing.entry
            unconfirmed.note(is_unconfirmed=_may_have_landed(tried))
        seen = _fresh(repo, branch, tried)
        landed = _find_landed(repo, seen, tried)
        if landed is not None:
            return landed
        raise given_up(branch, "landing a commit", is_unknown=_may_have_landed(tried))


def _fresh(repo: OpenRepository, branch: BranchId, tried: Sequence[EarlierRound]) -> Versioned:
    return fresh_after(repo, branch, "landing", is_unconfirmed=_may_have_landed(tried))


def _may_have_landed(tried: Sequence[EarlierRound]) -> bool:
    """Whether an earlier swap may have landed, or may still land."""
    return any(not each.is_lost for each in tried)


def _event(branch: BranchId, over: Versioned, landing: Landing, terms: Terms) -> HookEvent:
    """What the hooks of this landing are told.  A commit brings the action files that decide about
    it; what merges, reverts and cherry-picks bring is checked by those of the head."""
    head, commit_id = over.branch.commit, landing.entry.id
    return HookEvent(
        terms.event,
        decides=commit_id if terms.event == COMMIT else head,
        commit=commit_id,
        base=head,
        branch=branch,
        merge_source=terms.merge_source,
        source_ref=terms.source_ref,
    )


def _run_gate_hooks(
    repo: OpenRepository, event: HookEvent, tried: Sequence[EarlierRound], deadline: Deadline
) -> Pending:
    """Run the hooks before the swap, once for each commit.  Errors: `HookFailed`, `Unavailable`."""
    for each in tried:
        if each.swap.commit == event.commit:
            return each.pending
    return repo.hooks.before(repo, event, deadline) if event.kind else NOTHING_PENDING


def _check_and_seal(
    repo: OpenRepository,
    branch: BranchId,
    seen: Versioned,
    beside: Beside | Literal[Absent.ABSENT],
    deadline: Deadline,
) -> tuple[Versioned, tuple[StagingToken, ...]]:
    """Check that no staged row is in the way, or else that none differs from the head.  Return the
    record to land on, and the sealed tokens to trim from it."""
    if nothing_staged(repo, seen):
        return seen, ()
    if beside is not ABSENT and not _is_obstructed(repo, seen, beside, deadline):
        return seen, ()
    check_clean(repo, branch, seen.branch.tokens_newest_first, seen, deadline)
    sealed = seal(repo, branch, seen)
    tokens = sealed.branch.sealed
    check_clean(repo, branch, tuple(reversed(tokens)), sealed, deadline)
    return sealed, tokens


def _is_obstructed(ports: Ports, seen: Versioned, beside: Beside, deadline: Deadline) -> bool:
    """Whether a row of any token is in the way, also one that a newer token hides: a commit that
    runs may fold in the older token alone, after the landing."""
    for token in seen.branch.tokens_newest_first:
        cursor = area.cursor(ports.kv, token)
        cursor.seek(beside.first)
        while batch := cursor.take(_BATCH, beside.end):
            deadline.check("landing a commit")
            if beside.has_obstacle(batch):
                return True
    return False


def check_clean(
    repo: OpenRepository,
    branch: BranchId,
    tokens_newest_first: Sequence[StagingToken],
    seen: Versioned,
    deadline: Deadline,
) -> None:
    """Raises `DirtyBranch` if any staged row differs from the record's commit, or cannot be
    compared with it, because the commit is damaged.

    Holds `_BATCH` rows in memory at a time.  Raises `Unavailable` after the deadline.
    """
    if not tokens_newest_first:
        return
    space = keyspace(repo)
    metarange = commit_of(repo, seen.branch.commit).metarange
    staged = _items(repo, tokens_newest_first)
    while batch := list(islice(staged, _BATCH)):
        deadline.check("landing a commit")
        try:
            stored = reader.get_many(space, metarange, [key for key, _ in batch])
        except (Corrupt, Gone) as error:
            raise DirtyBranch(
                f"{branch}: uncommitted changes (dirty branch)", branch=branch
            ) from error
        for key, value in batch:
            if not says(value, stored.get(key)):
                raise DirtyBranch(f"{branch}: uncommitted changes (dirty branch)", branch=branch)


def says(staged: StagedValue, stored: bytes | None) -> bool:
    """Whether a staged row says what is stored at its path; None: nothing is.  Pure."""
    if staged is TOMBSTONE or stored is None:
        return staged is TOMBSTONE and stored is None
    return identity_of(stored) == identity_of(staged)


def _items(ports: Ports, tokens_newest_first: Sequence[StagingToken]) -> Iterator[Item]:
    cursor = stack.view(ports.kv, tokens_newest_first, fanout=ports.fanout)
    while (item := cursor.peek()) is not END:
        yield item
        cursor.advance()


def _store(
    repo: OpenRepository,
    branch: BranchId,
    landing: Landing,
    head: CommitId,
    tokens: tuple[StagingToken, ...],
) -> None:
    """Store what a swap needs to be there: the commit, if it is new, and what takes `tokens` off.

    The rows of the tokens equal `head`, the old head.  A new commit is made from it.  An existing
    one has perhaps other content, and must not count as the commit that holds them.
    """
    entry = landing.entry
    writes = trim_writes(repo, branch, entry.id if landing.is_new else head, tokens)
    if landing.is_new:
        writes = [*commits.writes_of(repo.record, *entry, repo.ids.stamp()), *writes]
    if writes:
        with deferred(repo.kv):  # they count only after the swap
            repo.kv.set_many(writes)
    if landing.is_new:
        repo.cache.put_commit(repo.record, landing.entry.id, landing.entry.commit)


def _find_landed(
    repo: OpenRepository,
    seen: Versioned,
    tried: list[EarlierRound],
    once: Once | Literal[Absent.ABSENT] = ABSENT,
) -> CommitEntry | None:
    """The commit of an earlier round whose swap landed without an answer, or the commit that
    carries the idempotency key `once`; None if there is neither.  Marks the rounds that are lost.

    Raises `OutcomeUnknown` if record and history do not show whether an earlier swap landed.
    """
    marked = find_by_key(repo, once, seen.branch.commit)
    if marked is not ABSENT:
        return marked
    if not tried:
        return None
    _mark(tried, seen.branch, is_replaced)
    now = seen.branch.commit
    own_ids = {earlier.swap.commit for earlier in tried if earlier.is_new}
    # A hard reset between two rounds may have moved the branch to a commit with less history.
    oldest = min((each.swap.head for each in tried), key=lambda head: commit_of(repo, head).depth)
    try:
        for entry in history_until(repo, now, oldest):
            if entry.id in own_ids:
                return entry
    except HistoryTooLong:
        if _may_have_landed(tried):
            raise
    _mark(tried, seen.branch, lambda swap, branch: swap_state(swap, branch) is SwapState.LOST)
    for earlier in tried:
        if earlier.is_lost or swap_state(earlier.swap, seen.branch) is SwapState.OPEN:
            continue
        chosen = None if earlier.is_new else _put_on_by(repo, now, earlier.swap)
        if chosen is not None:
            return chosen
        # Perhaps it landed and other clients moved the branch since: a retry could undo their work.
        raise OutcomeUnknown(
            f"landing not confirmed; outcome unknown: commit={earlier.swap.commit}"
        )
    return None


def _mark(
    tried: list[EarlierRound], now: Branch, is_gone: Callable[[SentSwap, Branch], bool]
) -> None:
    """Mark the rounds whose swaps are gone."""
    tried[:] = [each._replace(is_lost=each.is_lost or is_gone(each.swap, now)) for each in tried]


def _put_on_by(repo: OpenRepository, now: CommitId, swap: SentSwap) -> CommitEntry | None:
    """The commit that a reset chose, if the history of the head `now` leads to it without the old
    head.

    This check is necessary because a relative ref (`main~`) means another commit after the reset.
    """
    walked = tuple(history_until(repo, now, swap.commit))
    reached = bool(walked) and walked[-1].id == swap.commit
    return walked[-1] if reached and swap.head not in [each.id for each in walked[:-1]] else None


def _past_landing(
    repo: OpenRepository, branch: BranchId, tried: Sequence[EarlierRound], error: GravelerError
) -> Versioned:
    """A record that no earlier swap can replace; else `OutcomeUnknown`, which says why the last
    round failed.

    If an earlier swap may still land, the record is replaced by itself, with the next revision:
    then that swap is lost for certain.  A swap that was noted and never sent would leave each later
    refusal in doubt for as long as the branch stands still.  Not for a landing that others have
    overtaken: it would take their swaps away.
    """
    for _ in range(limits.commit_round_count_max):
        seen = _fresh(repo, branch, tried)
        if all(swap_state(each.swap, seen.branch) is not SwapState.OPEN for each in tried):
            return seen
        if isinstance(error, Contended):
            break
        renewed = try_swap(repo, branch, seen, seen.branch._replace(rev=seen.branch.rev + 1))
        if isinstance(renewed, Versioned):
            return renewed
        if renewed is None:
            break
    raise OutcomeUnknown(f"{error}; an earlier swap may still land; outcome unknown")
