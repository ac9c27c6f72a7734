"""Commit: what is staged on a branch becomes an immutable snapshot, whoever else commits meanwhile.

    staging: t3          staging: t4 (new)        staging: t4
    sealed:  t1 t2   ──► sealed:  t1 t2 t3   ──►  sealed:  (what came later)
    commit:  B           commit:  B               commit:  X = B overlaid by t1 t2 t3
             1 read          2 seal                        7 advance

    1 read    the branch record; nothing staged: say so
    2 seal    put a new staging token in place; nothing acknowledged enters t1 t2 t3 from now on
    3 scan    every sealed token completely; keep one delta for each (scanning.py).  Too many rows
              for one process: a bulk job is to do it (handover.py)
    4 build   base overlaid by the deltas, oldest first: ranges, then the metarange
    5/6 note  in one batch: the commit, what it folded in, and the clean-up intents
    7 advance compare-and-swap the record: this commit, without the tokens it folded in
    8 settle  where that failed: find out what happened, and go on from there

A commit is installed only by a swap of the exact record whose commit is the base that it was built
on and whose oldest sealed tokens are exactly the ones folded in.  Every failed swap means
*unknown*:
the record and its history tell.  The committer deletes nothing, ever: rows belong to the janitor,
orphaned ranges and commits to garbage collection.  A crash before 7 leaves sealed tokens that the
next commit folds in; readers see them all along.  Basis: the published design of lakeFS, corrected
(docs/protocol.md).
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

from graveler import limits
from graveler.engine.bulk import handover
from graveler.engine.commits import adopt
from graveler.engine.commits.messages import NO_CHANGES, check_message, check_metadata
from graveler.engine.commits.records import commit_of, fresh, lookup, swap
from graveler.engine.commits.scan import Folding as Folding
from graveler.engine.commits.scan import Overlaid as Overlaid
from graveler.engine.commits.scan import scan
from graveler.engine.commits.seal import Once as Once
from graveler.engine.commits.seal import history_until, made_once, nothing_staged, seal, trim_notes
from graveler.engine.ports import Deadline, Ports, Unconfirmed, check_writable, given_or_now
from graveler.errors import Conflict, Contended, NoChanges
from graveler.identity import commit_id
from graveler.ids import BranchId, CommitId, MetarangeId, StagingToken, parse_branch_id
from graveler.kv.store import WRITTEN, Write
from graveler.records import ABSENT, Absent, Branch, Commit, CommitEntry, Repository, Versioned
from graveler.refs.graph import commits, graph
from graveler.staging import area


class CommitRequest(NamedTuple):
    """What the author says.  `created_ns` ABSENT: now.  `once`: an idempotency key; if the branch
    has a commit with this key, that commit is the answer.  `source_metarange`: the commit has its
    content, and nothing may be staged.
    """

    message: str
    committer: str
    metadata: Mapping[str, str] = {}
    allow_empty: bool = False
    source_metarange: str = ""
    created_ns: int | Literal[Absent.ABSENT] = ABSENT
    once: Once | Literal[Absent.ABSENT] = ABSENT


class Attempt(NamedTuple):
    """One call of commit: the same through all its rounds.

    `wanted` is the token that was open when the call began, on the commit `since`: a later commit
    that folded it in (tokens are folded oldest first) holds all that this call must see committed.
    """

    ports: Ports
    repo: Repository
    branch: BranchId
    request: CommitRequest
    deadline: Deadline
    wanted: StagingToken
    since: CommitId


def commit(
    ports: Ports, repo: Repository, branch: str, request: CommitRequest, *, force: bool = False
) -> CommitEntry:
    """Fold all that was acknowledged on `branch` before the call into one commit; return it.

    If another committer folded it in meanwhile, that commit is returned; `allow_empty` always makes
    its own.  Errors: `NotFound`, `NoChanges`, `Refused`, `Conflict` (the branch was reset), and
    `Contended` or `Unavailable` (nothing lost: it stays staged); of the latter `HandedOver`: there
    is more than `commit_rows_max`, and the job that it names waits for a cluster.
    Cost with one shard and nobody else: 6 KV requests; nothing staged: 3.
    """
    name = parse_branch_id(branch)
    check_writable(repo, force)
    check_message(request.message)
    check_metadata(request.metadata)
    if request.source_metarange:
        return _commit_metarange(ports, repo, name, request)
    deadline = Deadline(ports.clock, ports.settings.commit_seconds_max)
    first = fresh(ports, repo, name)
    made = made_once(ports, repo, request.once, first.branch.commit)
    if made is not ABSENT:
        return made
    handover.check(ports, repo, name, first.branch)
    if not request.allow_empty and nothing_staged(ports, first):
        again = fresh(ports, repo, name)
        if again.branch == first.branch:
            raise NoChanges(NO_CHANGES)
        first = again
    call = Attempt(ports, repo, name, request, deadline, first.branch.staging, first.branch.commit)
    if len(first.branch.sealed) >= limits.sealed_token_count_max:
        return _folded_first(call, first)
    return _folded(call, first)


def _folded(call: Attempt, first: Versioned) -> CommitEntry:
    """Seal the open token of `first`, and fold in all that is sealed."""
    ports, repo, branch = call.ports, call.repo, call.branch
    return fold(call, seal(ports, repo, branch, first, own=call.request.allow_empty))


def _folded_first(call: Attempt, first: Versioned) -> CommitEntry:
    """At the bound of sealed tokens: fold those in before another one is sealed.

    Otherwise a branch whose commits keep failing would get a longer record with each of them.  One
    commit if nothing is in the open token, else two: the first has neither the mark of `once` nor
    the own commit of `allow_empty`, because it does not hold everything that was asked for.
    """
    ports, repo, request, sealed = call.ports, call.repo, call.request, first.branch.sealed
    oldest = call._replace(wanted=sealed[-1])
    if area.is_empty(ports.kv, first.branch.staging, ports.fanout):
        return fold(oldest, first)
    made: CommitEntry | Literal[Absent.ABSENT] = ABSENT
    with suppress(NoChanges, Conflict):  # the second fold finds out what became of them
        made = fold(oldest._replace(request=_without_mark(request)), first)
    now = fresh(ports, repo, call.branch)
    try:
        rest = call._replace(wanted=now.branch.staging, since=now.branch.commit)
        return _folded(rest, now)
    except NoChanges:
        if made is ABSENT:
            raise
        return made


def _without_mark(request: CommitRequest) -> CommitRequest:
    key = "" if request.once is ABSENT else request.once.key
    metadata = {name: value for name, value in request.metadata.items() if name != key}
    return request._replace(metadata=metadata, once=ABSENT, allow_empty=False)


# ---- steps 3 to 8 --------------------------------------------------------------------------------


class Draft(NamedTuple):
    """What a round wants on top of `base`: a commit, or (nothing changes) only to trim `tokens`,
    which have so many `rows`."""

    base: CommitId
    tokens: tuple[StagingToken, ...]
    rows: int
    made: CommitEntry | None

    @property
    def head(self) -> CommitId:
        """The branch's commit once the draft is installed."""
        return self.base if self.made is None else self.made.id


def fold(attempt: Attempt, sealed: Versioned) -> CommitEntry:
    """Steps 3 to 8 for all tokens that the record `sealed` shows as sealed."""
    with Unconfirmed("commit") as sent:
        return _rounds(attempt, sealed, _scanned(attempt, sealed.branch), sent)


def fold_written(attempt: Attempt, seen: Versioned, folding: Folding) -> CommitEntry:
    """Steps 4 to 8 for tokens that somebody else has sealed and scanned, the oldest of the
    branch."""
    with Unconfirmed("commit") as sent:
        left = [token for token in folding.tokens if token in seen.branch.sealed]
        return _rounds(attempt, seen, folding._replace(tokens=tuple(left)), sent)


def _scanned(attempt: Attempt, record: Branch) -> Folding:
    """Step 3."""
    ports, repo, request = attempt.ports, attempt.repo, attempt.request
    found = scan(ports, repo, record.sealed)
    if found is ABSENT:
        said = request.message, request.metadata
        raise handover.hand_over(ports, repo, attempt.branch, record, said)
    return found


def _rounds(
    attempt: Attempt, sealed: Versioned, folding: Folding, sent: Unconfirmed
) -> CommitEntry:
    ports, repo, branch = attempt.ports, attempt.repo, attempt.branch
    seen, tokens = sealed, folding.tokens
    drafts: list[Draft] = []
    for _ in range(limits.commit_round_count_max):
        attempt.deadline.check("commit")
        if not tokens and not attempt.request.allow_empty:
            return _taken(attempt, seen, drafts)
        base = seen.branch.commit
        if not drafts or (drafts[-1].base, drafts[-1].tokens) != (base, tokens):
            made = made_once(ports, repo, attempt.request.once, base)
            if made is not ABSENT:
                return made
            drafts.append(_build(attempt, base, folding._replace(tokens=tokens)))
            attempt.deadline.check("commit")  # files so old may be condemned
        if _advance(attempt, seen, drafts[-1]):
            return _answer(drafts[-1])
        sent.note()
        seen = fresh(ports, repo, branch)
        settled = _settled(attempt, seen, drafts)
        if settled is not None:
            return settled
        tokens = tuple(token for token in tokens if token in seen.branch.sealed)
    raise Contended(f"commit kept losing; try again: branch={branch}")


def _build(attempt: Attempt, base_id: CommitId, folding: Folding) -> Draft:
    """Step 4, then the notes of 5 and 6: durable before the swap that may make them matter."""
    ports, repo, request = attempt.ports, attempt.repo, attempt.request
    base, tokens = commit_of(ports, repo, base_id), folding.tokens
    overlaid = folding.content(base.metarange, tokens)
    made: CommitEntry | None = None
    notes: list[Write] = []
    if request.allow_empty:
        made = _claimed(attempt, _drawn(attempt, base_id, overlaid.metarange))
    elif overlaid.differs:
        commit_ = _drawn(attempt, base_id, overlaid.metarange)
        made = CommitEntry(commit_id(commit_), commit_)
        notes.append(commits.write_of(repo, made.id, commit_, ports.ids.stamp()))
    draft = Draft(base_id, tokens, overlaid.rows, made)
    notes += trim_notes(ports, repo, attempt.branch, draft.head, tokens)
    if notes:
        ports.kv.set_many(notes)
    if made is not None:
        ports.cache.put_commit(repo, made.id, made.commit)
    return draft


def _drawn(attempt: Attempt, base_id: CommitId, metarange: MetarangeId) -> Commit:
    request = attempt.request
    drawn = Commit(
        committer=request.committer,
        message=request.message,
        created_ns=given_or_now(attempt.ports, request.created_ns),
        metarange=metarange,
        metadata=request.metadata,
        parents=(base_id,),
    )
    return graph.positioned(lookup(attempt.ports, attempt.repo), drawn)


def _claimed(attempt: Attempt, drawn: Commit) -> CommitEntry:
    """A commit that nobody else is making.

    Two equal commits within a second share an id, and two callers who both asked for a commit of
    their own would take one for both.  Whoever stores the record second moves on by a second.
    """
    for _ in range(limits.equal_commit_count_max):
        entry = CommitEntry(commit_id(drawn), drawn)
        write = commits.write_of(attempt.repo, entry.id, drawn, attempt.ports.ids.stamp())
        if attempt.ports.kv.set_if(*write, ABSENT) is WRITTEN:
            return entry
        drawn = drawn._replace(created_ns=drawn.created_ns + limits.SECOND_NS)
    raise Contended(f"too many equal commits within a minute: branch={attempt.branch}")


def _advance(attempt: Attempt, seen: Versioned, draft: Draft) -> bool:
    """Step 7.  A small fold after a great one leaves half of what the branch knows of its size, so
    that its tokens shrink over some commits, not with the first."""
    record = seen.branch
    assert record.sealed[: len(draft.tokens)] == draft.tokens, "what is folded is the oldest sealed"
    wanted = record._replace(
        rev=record.rev + 1,
        commit=draft.head,
        sealed=record.sealed[len(draft.tokens) :],
        changed_ns=attempt.ports.clock.now_ns(),
        recent_rows=max(draft.rows, record.recent_rows // 2),
    )
    return swap(attempt.ports, attempt.repo, attempt.branch, seen, wanted) is not None


def _answer(draft: Draft) -> CommitEntry:
    if draft.made is None:
        raise NoChanges(NO_CHANGES)
    return draft.made


def _settled(attempt: Attempt, seen: Versioned, drafts: Sequence[Draft]) -> CommitEntry | None:
    """The walk of step 8 (docs/protocol.md): the commit that holds what this call must see
    committed, if there is one by now.

    Either one of the drafts (its swap landed, the answer was lost) or one whose fold lists the
    token that was open when the call began.  A fold recorded for a swap that then failed says
    nothing: the token must have left the record too.
    """
    ports, repo, branch = attempt.ports, attempt.repo, attempt.branch
    gone = attempt.wanted not in seen.branch.tokens_newest_first
    made = {draft.made.id for draft in drafts if draft.made is not None}
    for entry in history_until(ports, repo, seen.branch.commit, attempt.since):
        if entry.id in made:
            return entry
        if attempt.request.allow_empty or not gone:
            continue
        notes = commits.folds_of(ports.kv, repo, branch, entry.id)
        if any(attempt.wanted in note.tokens for note in notes):
            if entry.id == attempt.since:  # it said so already
                raise NoChanges(NO_CHANGES)
            return entry
    return None


def _taken(attempt: Attempt, seen: Versioned, drafts: Sequence[Draft]) -> CommitEntry:
    """Step 8 when nothing of ours is sealed any more: another commit has it, or a reset dropped
    it."""
    settled = _settled(attempt, seen, drafts)
    if settled is not None:
        return settled
    if drafts and drafts[-1].made is None:  # equal to what was there: nothing was dropped
        raise NoChanges(NO_CHANGES)
    raise Conflict(
        f"commit lost its changes: the branch was reset meanwhile: branch={attempt.branch}"
    )


# ---- a given metarange ---------------------------------------------------------------------------


def _commit_metarange(
    ports: Ports, repo: Repository, branch: BranchId, request: CommitRequest
) -> CommitEntry:
    def drawn(head: CommitEntry, metarange: MetarangeId) -> Commit:
        if metarange == head.commit.metarange and not request.allow_empty:
            raise NoChanges(NO_CHANGES)
        return Commit(
            committer=request.committer,
            message=request.message,
            created_ns=given_or_now(ports, request.created_ns),
            metarange=metarange,
            metadata=request.metadata,
            parents=(head.id,),
        )

    source = request.source_metarange
    return adopt.land_metarange(ports, repo, branch, source, drawn, request.once)
