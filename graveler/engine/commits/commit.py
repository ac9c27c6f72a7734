"""Commit: turns the staged rows of a branch into an immutable snapshot, beside other committers.

    staging: t3          staging: t4 (new)        staging: t4
    sealed:  t1 t2   ──► sealed:  t1 t2 t3   ──►  sealed:  -  (or what others sealed since)
    commit:  B           commit:  B               commit:  X = B overlaid by t1 t2 t3
             1 read          2 seal                        7 advance

    1 read    the branch record; again after the hooks of prepare-commit, which may write.  If no
              token is sealed and no row is staged: `NoChanges` (but see `allow_empty`)
    2 seal    put a new staging token in place; a row that reaches t1 t2 t3 later is not
              acknowledged there: its writer writes it again, into the open token
    3 scan    every sealed token completely; keep one delta for each (seal.py).  If there are too
              many rows for one process, hand over to a bulk job (bulk/job.py)
    4 build   base overlaid by the deltas, oldest first: ranges, then the metarange
    5 equal   if nothing differs from the base (but see `allow_empty`): store the fold record, which
              names the tokens, and the clean-up records; then do steps 7 and 8 without a commit,
              and raise `NoChanges`
    6 note    else, in one batch: the commit, the fold record and the clean-up records (with
              `allow_empty` the commit is stored before, alone: `_store_unique`); then the hooks of
              pre-commit run, and may veto the commit (engine/hooks.py)
    7 advance compare-and-swap the record: this commit, without the tokens it folded in
    8 find   if the swap failed, or step 2 left no sealed token, because another client sealed and
              landed meanwhile: find out what happened, and continue from there: return the commit
              that has our rows, send the same swap again, or build on the new head

To *fold in* a token is to include its rows in a commit.  The *base* is the head that a commit is
built on.  A *try* begins at step 4 and ends with step 7 or 8.  If base and tokens are those of the
try before, it keeps that commit and begins at step 7.  These rules hold:

- Staged rows belong to the branch, not to a caller: a commit takes those of all writers.
- Calls of one process take turns on a branch (`heads.in_turn`); those that wait share one commit,
  which keeps what each of them says.
  Calls of different processes compete by the swap.
- The swap of step 7 names one version of the branch record, whose head is the base, so a new commit
  always replaces its own first parent as head.  A failed swap means *unknown*.
- The committer never deletes anything.  A crash before step 7 leaves sealed tokens, which readers
  still see and the next commit folds in.

Source: the published design of lakeFS, with corrections (docs/explanation/protocol.md).
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

from graveler.core import limits, turns
from graveler.core.errors import (
    Conflict,
    Contended,
    Invalid,
    NoChanges,
    NotFound,
    OutcomeUnknown,
    Unavailable,
)
from graveler.core.ids import BranchId, CommitId, MetarangeId, StagingToken, parse_branch_id
from graveler.core.records import ABSENT, Absent, Branch, Commit, CommitEntry, SentSwap, Versioned
from graveler.engine import protection
from graveler.engine.bulk import job
from graveler.engine.commits import adopt
from graveler.engine.commits.heads import (
    commit_of,
    fresh,
    fresh_after,
    given_up,
    in_turn,
    placed,
    try_swap,
)
from graveler.engine.commits.seal import (
    Folding,
    nothing_staged,
    scan,
    seal,
    trim_writes,
)
from graveler.engine.commits.search import (
    NO_CHANGES,
    Once,
    SwapState,
    TokenSearch,
    changes_lost,
    find_by_key,
    find_by_token,
    judge_all,
    note_swap,
    sent_before,
    swap_over,
)
from graveler.engine.hooks import COMMIT, NOTHING_PENDING, PREPARE, HookEvent, Pending
from graveler.engine.ports import (
    Deadline,
    OpenRepository,
    UnconfirmedWrite,
    check_message,
    check_metadata,
    check_writable,
    given_or_now,
)
from graveler.kv.store import WRITTEN, deferred
from graveler.refs import commits
from graveler.staging import area


class CommitRequest(NamedTuple):
    """The caller's choices for one commit.

    - `allow_empty`: make a separate commit in any case, even if nothing changed.
    - `source_metarange`: the id of a metarange that is the content of the commit; staged changes
      are then an error.  Empty: the commit is made from the staged rows.
    - `created_ns`: ABSENT means now.
    - `once`: an idempotency key.  If the branch already has a commit with this key, that commit is
      returned.  Without `allow_empty`, the answer may still be a commit of another client that has
      the rows; it has no such key.

    Calls of one process may share a commit, which keeps `message`, `committer` and `metadata` of
    each (see `commit`).
    """

    message: str
    committer: str
    metadata: Mapping[str, str] = {}
    allow_empty: bool = False
    source_metarange: str = ""
    created_ns: int | Literal[Absent.ABSENT] = ABSENT
    once: Once | Literal[Absent.ABSENT] = ABSENT


class Call(NamedTuple):
    """What one call asks for; it stays the same in all tries of `fold` or `fold_written`.

    - `wanted`: the newest token that the call must commit: for a commit, the one that was open in
      step 1.  A commit that folds it in holds all older ones too.
    - `head_before`: the head in the same record; of a bulk job, its base.
    - `earlier_swaps`: those of earlier attempts that may have landed, or may still land.
    """

    repo: OpenRepository
    branch: BranchId
    request: CommitRequest
    deadline: Deadline
    wanted: StagingToken
    head_before: CommitId
    earlier_swaps: tuple[SentSwap, ...] = ()


def commit(
    repo: OpenRepository, branch: str, request: CommitRequest, *, force: bool = False
) -> CommitEntry:
    """Fold all writes that were acknowledged on `branch` before the call into one commit.  Return
    that commit; `NoChanges` if the head has them all already.

    Calls of one process take turns.  Those that wait share the next commit and its cost, but no
    error.  It has the message and the committer of one call, those of the others in lines below,
    and the metadata of all.  Calls with `allow_empty` or `once`, calls whose metadata contradict,
    and those after a veto make commits of their own.  If an earlier commit took the rows while a
    call waited, its commit changes nothing, and keeps what the call says.

    If a committer of another process folds in the token that was open in step 1 of this call, its
    commit is returned, and `message`, `committer` and `metadata` of this call are dropped.  With
    `allow_empty`, the call always makes its own commit.

    Errors: `Invalid`, `NotFound`, `Refused`; `NoChanges`; `Conflict`: the branch was reset;
    `HookFailed`: an action vetoed the commit; `Contended`: all tries lost; `HandedOver`: a bulk job
    waits for a cluster, because there are more than `commit_rows_max` rows; `OutcomeUnknown`: the
    commit may have landed, or may still land; any other `Unavailable`: it was not made.  No row is
    lost: each is staged or in a commit.  At the limit of sealed tokens, a first commit may have
    been made before any of these errors.  With `source_metarange`: those of `land_metarange`.

    Cost with one shard and no other client: 6 KV requests; 3 if nothing is staged; 1 if the call
    shares the commit of another one.
    """
    name = parse_branch_id(branch)
    check_writable(repo.record, force)
    protection.check_commit(repo, name)
    check_message(request.message)
    check_metadata(request.metadata)
    if request.source_metarange:
        return _commit_metarange(repo, name, request)
    deadline = Deadline(repo.clock, repo.settings.commit_seconds_max)
    arrival: list[Versioned] = []

    def read_branch() -> None:
        with suppress(NotFound, Unavailable):  # the turn finds out
            arrival.append(fresh(repo, name))

    def work(shared: _Shared) -> CommitEntry:
        request = shared.united()
        try:
            return _commit_staged(repo, name, request, deadline)
        except NoChanges:
            if not any(_are_taken(repo, name, seen) for seen in arrival):
                raise
        # The commit that took the rows does not have what these callers say.
        return _commit_staged(repo, name, request._replace(allow_empty=True), deadline)

    return in_turn(repo, name, deadline, turns.Call(work, _Shared(request), _unite, read_branch))


class _Shared(NamedTuple):
    """What the callers of one commit say: the request of their leader, with the metadata of all,
    and what each follower says besides, once."""

    request: CommitRequest
    further: tuple[str, ...] = ()

    def united(self) -> CommitRequest:
        if not self.further:
            return self.request
        return self.request._replace(message="\n".join((self.request.message, "", *self.further)))


def _unite(first: _Shared, more: _Shared) -> _Shared | None:
    """What both say; None if they need commits of their own, because they ask for it, contradict or
    exceed a limit together.  Pure."""
    ours, other = first.request, more.request
    is_own = any(each.allow_empty or each.once is not ABSENT for each in (ours, other))
    metadata = {**other.metadata, **ours.metadata}
    contradicts = any(metadata[key] != value for key, value in other.metadata.items())
    if is_own or contradicts or ours.created_ns != other.created_ns:
        return None
    line = f"{other.committer}: {other.message}"
    is_said = line in (f"{ours.committer}: {ours.message}", *first.further)
    united = _Shared(
        ours._replace(metadata=metadata), first.further if is_said else (*first.further, line)
    )
    try:
        check_message(united.united().message)
        check_metadata(metadata)
    except Invalid:
        return None
    return united


def _commit_staged(
    repo: OpenRepository,
    branch: BranchId,
    request: CommitRequest,
    deadline: Deadline,
) -> CommitEntry:
    """Run steps 1 to 8.  It reads the branch only after its turn began, so its result also serves
    the calls that waited then."""
    deadline.check("commit")
    first = fresh(repo, branch)
    earlier_swaps: tuple[SentSwap, ...] = ()
    if request.once is not ABSENT:  # an earlier attempt may have made the commit
        earlier = find_by_key(repo, request.once, first.branch.commit)
        if earlier is not ABSENT:
            return earlier
        earlier_swaps = sent_before(request.once)
        landed = _find_landed(repo, branch, list(earlier_swaps), first.branch)
        if landed is not None:
            return landed
    job.check_handover(repo, branch, first.branch)
    first = _run_prepare_hooks(repo, branch, request, first, deadline)
    if not request.allow_empty and nothing_staged(repo, first):
        again = fresh(repo, branch)
        if again.branch == first.branch:
            raise NoChanges(NO_CHANGES)
        first = again
    record = first.branch
    call = Call(repo, branch, request, deadline, record.staging, record.commit, earlier_swaps)
    if len(first.branch.sealed) >= limits.sealed_token_count_max:
        return _fold_sealed_first(call, first)
    return fold(call, seal(repo, branch, first, own=request.allow_empty))


def _are_taken(repo: OpenRepository, branch: BranchId, arrival: Versioned) -> bool:
    """Whether a commit that was made since `arrival` has the rows that were staged then."""
    now = fresh(repo, branch).branch
    left = [each for each in arrival.branch.tokens_newest_first if each != now.staging]
    if not left:
        return False
    try:
        sought = TokenSearch(left[0], arrival.branch.commit)
        return find_by_token(repo, branch, now, sought) is not ABSENT
    except NoChanges:
        return False


def _run_prepare_hooks(
    repo: OpenRepository,
    branch: BranchId,
    request: CommitRequest,
    first: Versioned,
    deadline: Deadline,
) -> Versioned:
    """Run the hooks of prepare-commit, which may still write to the branch; the record to begin
    with."""
    event = HookEvent(
        PREPARE,
        decides=first.branch.commit,
        branch=branch,
        message=request.message,
        committer=request.committer,
        metadata=request.metadata,
    )
    ran = repo.hooks.before(repo, event, deadline).run
    return fresh(repo, branch) if ran else first


def _fold_sealed_first(call: Call, first: Versioned) -> CommitEntry:
    """At the limit of sealed tokens, fold those tokens in before another one is sealed.

    Otherwise each failing commit of a branch would make its record longer.  The call makes one
    commit if the open token is empty, else two.  The first of two ignores `allow_empty` and does
    not carry the key of `once`, because it does not contain everything that the caller asked for.
    If the second fails, its error is raised, and the first stays.
    """
    repo, request, sealed = call.repo, call.request, first.branch.sealed
    bounded = call._replace(wanted=sealed[-1])  # without the rows of the open token
    if area.is_empty(repo.kv, first.branch.staging, repo.fanout):
        return fold(bounded, first)
    entry: CommitEntry | Literal[Absent.ABSENT] = ABSENT
    try:
        entry = fold(bounded._replace(request=_without_key(request)), first)
    except Contended:
        raise  # the tokens may still be there: another one would exceed the limit
    except (NoChanges, Conflict):
        pass  # the second fold finds out what happened to the tokens
    now = fresh(repo, call.branch)
    try:
        rest = call._replace(wanted=now.branch.staging, head_before=now.branch.commit)
        return fold(rest, seal(repo, call.branch, now, own=rest.request.allow_empty))
    except NoChanges:
        if entry is ABSENT:
            raise
        return entry


def _without_key(request: CommitRequest) -> CommitRequest:
    key = "" if request.once is ABSENT else request.once.key
    metadata = {name: value for name, value in request.metadata.items() if name != key}
    return request._replace(metadata=metadata, once=ABSENT, allow_empty=False)


# ---- steps 3 to 8 --------------------------------------------------------------------------------


class Draft(NamedTuple):
    """The result that one try puts on `base`.

    `made`: the new commit; None if nothing changes, so that the try only trims `tokens`.
    `rows`: the number of rows in `tokens`.  `pending`: what hooks leave to do after the landing.
    """

    base: CommitId
    tokens: tuple[StagingToken, ...]
    rows: int
    made: CommitEntry | None
    pending: Pending = NOTHING_PENDING

    @property
    def head(self) -> CommitId:
        """The branch's commit after the draft is installed."""
        return self.base if self.made is None else self.made.id


def fold(call: Call, seen: Versioned) -> CommitEntry:
    """Run steps 3 to 8 for all sealed tokens of the record `seen`."""
    repo, request = call.repo, call.request
    folding = scan(repo, seen.branch.sealed, call.deadline)
    if folding is ABSENT:
        description = request.message, request.metadata
        raise job.hand_over(repo, call.branch, seen.branch, description)
    return _land(call, seen, folding)


def fold_written(call: Call, seen: Versioned, folding: Folding) -> CommitEntry:
    """Run steps 4 to 8 for the oldest tokens of the branch, which a bulk job sealed and scanned."""
    unfolded = [token for token in folding.tokens if token in seen.branch.sealed]
    return _land(call, seen, folding._replace(tokens=tuple(unfolded)))


def _land(call: Call, seen: Versioned, folding: Folding) -> CommitEntry:
    """Run the tries; if the commit of one of them landed, tell the hooks."""
    drafts: list[Draft] = []
    with UnconfirmedWrite("commit") as unconfirmed:
        entry = _run_tries(call, seen, folding, unconfirmed, drafts)
    for draft in drafts:
        if draft.made is not None and draft.made.id == entry.id:
            call.repo.hooks.landed(call.repo, draft.pending)
    return entry


def _run_tries(
    call: Call,
    seen: Versioned,
    folding: Folding,
    unconfirmed: UnconfirmedWrite,
    drafts: list[Draft],
) -> CommitEntry:
    """Run the tries; append the draft of each one that made a new draft to `drafts`."""
    repo, branch, tokens = call.repo, call.branch, folding.tokens
    unanswered = list(call.earlier_swaps)
    unconfirmed.note(is_unconfirmed=bool(unanswered))
    for _ in range(limits.commit_round_count_max):
        landed = _find_landed(repo, branch, unanswered, seen.branch)
        if landed is not None:
            return landed
        unconfirmed.note(is_unconfirmed=bool(unanswered))
        call.deadline.check("commit")
        if not tokens and not call.request.allow_empty:
            return _find_or_raise(call, seen, drafts)
        base = seen.branch.commit
        if not drafts or (drafts[-1].base, drafts[-1].tokens) != (base, tokens):
            earlier = find_by_key(repo, call.request.once, base)
            if earlier is not ABSENT:
                return earlier
            draft = _build(call, base, folding._replace(tokens=tokens))
            drafts.append(draft._replace(pending=_run_gate_hooks(call, draft)))
            # Stop if the build took too long: garbage collection may condemn files that are older
            # than a day.
            call.deadline.check("commit")
        _check_still_open(call, is_pending=bool(unanswered))
        installed = _install(call, seen, drafts[-1], unanswered)
        if installed is not None:
            return installed
        unconfirmed.note(is_unconfirmed=bool(unanswered))
        seen = fresh_after(repo, branch, "commit", is_unconfirmed=bool(unanswered))
        result = _find_result(call, seen, drafts)
        if result is not ABSENT:
            return result
        tokens = tuple(token for token in tokens if token in seen.branch.sealed)
    landed = _find_landed(repo, branch, unanswered, seen.branch)
    if landed is not None:
        return landed
    raise given_up(branch, "commit", is_unknown=bool(unanswered))


def _install(
    call: Call, seen: Versioned, draft: Draft, unanswered: list[SentSwap]
) -> CommitEntry | None:
    """Step 7.  The commit, if the swap landed; else None, and the swap of a commit that got no
    answer is in `unanswered`.  Raises `NoChanges` if the draft only trims tokens, and has done so.

    A swap that only trims tokens is not looked for: it makes nothing that a reader sees.
    """
    record, swap = seen.branch, swap_over(seen.branch, draft.head)
    assert record.sealed[: len(draft.tokens)] == draft.tokens, "what is folded is the oldest sealed"
    if draft.made is not None and call.request.once is not ABSENT:
        _note(call, swap, is_pending=bool(unanswered))
    new = record._replace(
        rev=record.rev + 1,
        commit=draft.head,
        sealed=record.sealed[len(draft.tokens) :],
        changed_ns=call.repo.clock.now_ns(),
        # This decides the number of shards of later tokens, which falls over several commits.
        recent_rows=max(draft.rows, record.recent_rows // 2),
    )
    installed = try_swap(call.repo, call.branch, seen, new)
    if isinstance(installed, Versioned):
        if draft.made is None:
            raise NoChanges(NO_CHANGES)
        return draft.made
    if installed is None and draft.made is not None:
        unanswered.append(swap)
    return None


def _note(call: Call, swap: SentSwap, *, is_pending: bool) -> None:
    """Note the swap in the journal of the call, if it has one.  Raises `Contended` if another
    attempt has begun; `OutcomeUnknown` then, if `is_pending`: an earlier swap may still land."""
    try:
        note_swap(call.request.once, swap)
    except Contended as error:
        if is_pending:
            raise OutcomeUnknown(f"commit not confirmed: branch={call.branch}") from error
        raise


def _find_landed(
    repo: OpenRepository, branch: BranchId, unanswered: list[SentSwap], now: Branch
) -> CommitEntry | None:
    """The commit of an unanswered swap that landed; None if none is known to have landed.  Those
    that certainly did not, and never will, leave the list.

    Raises `OutcomeUnknown` if a hard reset may have taken a commit away: readers may have seen it,
    and another try could make it a second time.  Errors and cost: those of `judge_all`.
    """
    judged = judge_all(repo, unanswered, now)
    if isinstance(judged, CommitEntry):
        return judged
    if SwapState.UNKNOWN in judged:
        raise OutcomeUnknown(f"commit not confirmed; outcome unknown: branch={branch}")
    pairs = zip(list(unanswered), judged, strict=True)
    unanswered[:] = [swap for swap, outcome in pairs if outcome is SwapState.OPEN]
    return None


def _check_still_open(call: Call, *, is_pending: bool) -> None:
    """Raises `Refused` if a rule protects the branch by now: the rows stay staged."""
    doubt = f"commit not confirmed: branch={call.branch}"
    with protection.in_doubt(doubt, is_pending=is_pending):
        protection.check_commit(call.repo, call.branch)


def _build(call: Call, base_id: CommitId, folding: Folding) -> Draft:
    """Step 4, then the writes of steps 5 and 6, which must be durable before the swap."""
    repo, request = call.repo, call.request
    base, tokens = commit_of(repo, base_id), folding.tokens
    overlaid = folding.content(base.metarange, tokens)
    entry: CommitEntry | None = None
    if request.allow_empty:
        entry = _store_unique(call, _draft_commit(call, base_id, overlaid.metarange))
    elif overlaid.differs:
        entry = placed(repo, _draft_commit(call, base_id, overlaid.metarange))
    draft = Draft(base_id, tokens, overlaid.rows, entry)
    writes = trim_writes(repo, call.branch, draft.head, tokens)
    if entry is not None:
        writes += commits.writes_of(repo.record, *entry, repo.ids.stamp())
    with deferred(repo.kv):  # they count only after the swap
        repo.kv.set_many(writes)
    if entry is not None:
        repo.cache.put_commit(repo.record, entry.id, entry.commit)
    return draft


def _run_gate_hooks(call: Call, draft: Draft) -> Pending:
    """The hooks of pre-commit, which run once for each draft.  Errors: `HookFailed`."""
    if draft.made is None:
        return NOTHING_PENDING
    new = draft.made.id
    event = HookEvent(COMMIT, decides=new, commit=new, base=draft.base, branch=call.branch)
    return call.repo.hooks.before(call.repo, event, call.deadline)


def _draft_commit(call: Call, base_id: CommitId, metarange: MetarangeId) -> Commit:
    request = call.request
    return Commit(
        committer=request.committer,
        message=request.message,
        created_ns=given_or_now(call.repo, request.created_ns),
        metarange=metarange,
        metadata=request.metadata,
        parents=(base_id,),
    )


def _store_unique(call: Call, commit_: Commit) -> CommitEntry:
    """Store the record of a commit that no other caller makes.

    The id of a commit holds its time in whole seconds.  So two equal commits within one second have
    the same id, and two callers with `allow_empty` would share one commit.  The caller that stores
    the record second moves its time by one second.
    """
    for _ in range(limits.equal_commit_count_max):
        entry = placed(call.repo, commit_)
        write = commits.write_of(call.repo.record, *entry, call.repo.ids.stamp())
        if call.repo.kv.set_if(*write, ABSENT) is WRITTEN:
            return entry
        commit_ = commit_._replace(created_ns=commit_.created_ns + limits.SECOND_NS)
    raise Contended(
        f"too many equal commits within a minute; try again later: branch={call.branch}"
    )


def _find_result(
    call: Call, seen: Versioned, drafts: Sequence[Draft]
) -> CommitEntry | Literal[Absent.ABSENT]:
    """The walk of step 8 (docs/explanation/protocol.md): find the commit that contains what this
    call must commit, if such a commit exists now."""
    own_ids = {draft.made.id for draft in drafts if draft.made is not None}
    token = ABSENT if call.request.allow_empty else call.wanted
    sought = TokenSearch(token, call.head_before, own_ids)
    return find_by_token(call.repo, call.branch, seen.branch, sought)


def _find_or_raise(call: Call, seen: Versioned, drafts: Sequence[Draft]) -> CommitEntry:
    """Step 8 if none of our tokens is sealed any more: a commit has them, or a reset dropped them.

    Raises `NoChanges` if the last draft changed nothing, else `Conflict`.  Not for `allow_empty`:
    such a call then makes an empty commit on the present head.
    """
    result = _find_result(call, seen, drafts)
    if result is not ABSENT:
        return result
    if drafts and drafts[-1].made is None:  # the rows equal the base, so nothing was dropped
        raise NoChanges(NO_CHANGES)
    raise changes_lost(call.branch)


# ---- a given metarange ---------------------------------------------------------------------------


def _commit_metarange(
    repo: OpenRepository, branch: BranchId, request: CommitRequest
) -> CommitEntry:
    def draft_commit(head: CommitEntry, metarange: MetarangeId) -> Commit:
        protection.check_commit(repo, branch)
        if metarange == head.commit.metarange and not request.allow_empty:
            raise NoChanges(NO_CHANGES)
        return Commit(
            committer=request.committer,
            message=request.message,
            created_ns=given_or_now(repo, request.created_ns),
            metarange=metarange,
            metadata=request.metadata,
            parents=(head.id,),
        )

    source = request.source_metarange
    return adopt.land_metarange(repo, branch, source, draft_commit, request.once)
