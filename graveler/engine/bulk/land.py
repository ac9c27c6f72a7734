"""The end of a bulk job: what it wrote becomes one commit, however often the request is repeated.

The metarange is checked, put onto the current head, and landed with the job's idempotency key.  The
record says *landing* before the first swap, and by which request: from then on nobody can cancel,
and only the same request finishes the job.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from graveler.committed.apply import apply
from graveler.committed.diff import diff, first_difference
from graveler.committed.graft import follow, reapply, splice
from graveler.committed.reader import get_many
from graveler.core import limits
from graveler.core.errors import (
    Conflict,
    Contended,
    DirtyBranch,
    GravelerError,
    Invalid,
    NoChanges,
    OutcomeUnknown,
)
from graveler.core.ids import MetarangeId, StagingToken, parse_prefix
from graveler.core.records import ABSENT, Absent, Change, Commit, CommitEntry, JobState
from graveler.core.streams import Item, Prefixes, successor
from graveler.engine import protection
from graveler.engine.bulk import check, streams
from graveler.engine.bulk.job import (
    Bulk,
    Mode,
    check_alive,
    check_same,
    is_expired,
    note_done,
    note_landing,
    seen,
)
from graveler.engine.bulk.streams import BatchLanded
from graveler.engine.commits import commit, land
from graveler.engine.commits.heads import commit_of, fresh, fresh_after
from graveler.engine.commits.seal import Folding, Overlaid
from graveler.engine.commits.search import Once, SwapState, find_by_key, judge_all, sent_before
from graveler.engine.hooks import COMMIT
from graveler.engine.jobs import record
from graveler.engine.ports import Deadline, OpenRepository, check_message, check_metadata, keyspace
from graveler.refs.stream_marks import STREAM_KEY
from graveler.staging import area

_REQUEST_LENGTH_MAX = 128
_PATHS_BATCH = 1_000


@dataclass(frozen=True, slots=True)
class Finish:
    """What must land, and the content of the commit.

    `request_id`: the same for every attempt.  Only a *splice* has the others.  `replace`: prefixes
    that are emptied first.  `guard`: prefixes below which the head must equal the job's base.
    """

    metarange: str
    request_id: str
    message: str
    committer: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    replace: Sequence[str] = ()
    guard: Sequence[str] = ()


def finish(repo: OpenRepository, branch: str, job_id: str, order: Finish) -> CommitEntry:
    """Land what the job wrote as one commit; the same request, repeated, returns that commit.  If
    another job has landed the same batch of a stream, or a later one, return the commit of the last
    batch.

    Errors: `NotFound` (job, metarange or range); `Invalid` (metarange refused: see `check.check`);
    `Conflict` (uncommitted changes are in the way, see `_beside`; a guarded prefix has changed; a
    hard reset moved the branch behind the last batch of the stream; the job was cancelled, has
    expired or is finished by another request; what it had to commit was reset); `Contended`,
    `Unavailable`: nothing has landed, and the request may be repeated; `OutcomeUnknown`: only the
    same request, repeated, finds the outcome (also raised instead of a refusal if an earlier
    attempt may still land); `NoChanges`: a commit with the same content as its base.

    Cost: 12 KV requests on a clean branch with one shard, and 2 more if its head and the job's base
    are not in the cache of commits; with staged rows, a scan of each token, below the prefix or
    between the ranges that the job changed; for a batch those of `streams.find_landed` in each
    round; and those of `check.check` and of `_content_onto`.
    """
    check_message(order.message)
    check_metadata(order.metadata)
    if not 0 < len(order.request_id.encode()) <= _REQUEST_LENGTH_MAX:
        raise Invalid(f"request_id must have 1 to {_REQUEST_LENGTH_MAX} bytes")
    bulk, _, known_order = seen(repo, branch, job_id)
    _check_splice(bulk, order)
    once = record.journaled(repo, bulk.once, bulk.job.id, known_order)
    known = _known(repo, bulk, once, order)
    if known is not ABSENT:
        return known
    try:
        landed = _landed(repo, bulk, once, order)
    except BatchLanded as by_another:
        note_landing(repo, bulk, order.request_id)  # this request alone gets the answer again
        landed = by_another.entry
    except GravelerError as error:
        if bulk.job.state is not JobState.LANDING or isinstance(
            error, OutcomeUnknown | Contended | NoChanges
        ):
            raise
        if _have_all_lost(repo, bulk, once):
            raise
        raise OutcomeUnknown(f"{error}; an earlier attempt may still land") from error
    note_done(repo, bulk.job.id, landed)
    return landed


def find_landed(
    repo: OpenRepository, branch: str, job_id: str, order: Finish
) -> CommitEntry | Literal[Absent.ABSENT]:
    """The commit, if this request has landed the job; the job record then records it, too.

    Errors: `NotFound`, `Conflict` (another request has), `HistoryTooLong`, `OutcomeUnknown`,
    `Unavailable`.  Cost: 3 KV requests, and 1 for each commit made since the job began.
    """
    bulk = seen(repo, branch, job_id).bulk
    job = bulk.job
    if job.state not in (JobState.LANDING, JobState.DONE):
        return ABSENT
    check_same(job, order.request_id)
    if job.state is JobState.DONE:
        return CommitEntry(job.commit, commit_of(repo, job.commit))
    head = fresh(repo, job.branch).branch.commit
    landed = find_by_key(repo, bulk.once, head)
    if landed is not ABSENT:
        note_done(repo, job.id, landed)
    return landed


def _check_splice(bulk: Bulk, order: Finish) -> None:
    """Raises `Invalid` if the job may not replace or guard these prefixes.  No request."""
    for name, prefixes in (("replace", order.replace), ("guard", order.guard)):
        if prefixes and bulk.mode is not Mode.SPLICE:
            raise Invalid(f"{name} invalid: only the mode splice takes it: mode={bulk.mode}")
        if len(prefixes) > limits.bulk_splice_prefixes_count_max:
            raise Invalid(
                f"{name} invalid: at most {limits.bulk_splice_prefixes_count_max} prefixes; name "
                f"folders that hold several: count={len(prefixes)}"
            )
        for prefix in prefixes:
            parse_prefix(prefix, name)
            if not prefix.startswith(bulk.prefix):
                raise Invalid(
                    f"{name} invalid: it must lie below the job's prefix: {name}={prefix!r:.200} "
                    f"prefix={bulk.prefix!r:.200}"
                )


def _landed(repo: OpenRepository, bulk: Bulk, once: Once, order: Finish) -> CommitEntry:
    prefix = bulk.prefix.encode()
    base = bulk.base.commit.metarange
    written = check.check(repo, order.metarange, base, prefix)
    if bulk.mode is Mode.PACK:
        check.check_same(repo, written, base)
    replace = [bulk.prefix] if bulk.mode is Mode.REPLACE else order.replace
    replaced, guarded = _prefixes(replace), _prefixes(order.guard)
    work = _Work(repo, bulk, order, written, once, replaced, guarded)
    return _committed(work) if bulk.mode is Mode.COMMIT else _put_on(work)


def _known(
    repo: OpenRepository, bulk: Bulk, once: Once, order: Finish
) -> CommitEntry | Literal[Absent.ABSENT]:
    """The commit, if this request has landed the job before.  Raises `Conflict` if the job cannot
    land any more."""
    job = bulk.job
    if job.state is JobState.DONE:
        check_same(job, order.request_id)
        return CommitEntry(job.commit, commit_of(repo, job.commit))
    if job.state is JobState.LANDING:
        check_same(job, order.request_id)
        if is_expired(repo, bulk):
            landed = _landed_in_time(repo, bulk, once)
            if landed is not ABSENT:
                return landed
    check_alive(repo, bulk)
    return ABSENT


def _have_all_lost(repo: OpenRepository, bulk: Bulk, once: Once) -> bool:
    """Whether swaps were noted, and all of them are lost for certain."""
    sent = sent_before(once)
    with suppress(GravelerError):
        judged = judge_all(repo, sent, fresh(repo, bulk.job.branch).branch)
        return not isinstance(judged, CommitEntry) and set(judged) == {SwapState.LOST}
    return False


def _landed_in_time(
    repo: OpenRepository, bulk: Bulk, once: Once
) -> CommitEntry | Literal[Absent.ABSENT]:
    """The commit that an attempt landed before the job expired; ABSENT if none did, or will.

    Raises `OutcomeUnknown` if a hard reset may have taken it away, or if a swap that was sent just
    before the expiry may still land.
    """
    grace_ns = repo.settings.token_grace_seconds * limits.SECOND_NS
    may_land = repo.clock.now_ns() < bulk.expires_ns + grace_ns
    sent = sent_before(once)
    now = fresh_after(repo, bulk.job.branch, "bulk job", is_unconfirmed=bool(sent)).branch
    landed = find_by_key(repo, once, now.commit)
    if landed is not ABSENT:
        return landed
    judged = judge_all(repo, sent, now)
    if isinstance(judged, CommitEntry):
        return judged
    if SwapState.UNKNOWN in judged or (may_land and SwapState.OPEN in judged):
        raise OutcomeUnknown(
            f"bulk job has expired, and may have landed; outcome unknown: id={bulk.job.id}"
        )
    return ABSENT


@dataclass(frozen=True, slots=True)
class _Work:
    """One call of `finish`: unchanged through all its rounds."""

    repo: OpenRepository
    bulk: Bulk
    asked: Finish
    written: MetarangeId
    once: Once
    replaced: Prefixes
    guarded: Prefixes

    @property
    def deadline(self) -> Deadline:
        """No swap is sent after the job's expiry, nor after the time limit of a commit."""
        clock = self.repo.clock
        remaining = (self.bulk.expires_ns - clock.now_ns()) / limits.SECOND_NS
        return Deadline(clock, min(remaining, self.repo.settings.commit_seconds_max))

    @property
    def metadata(self) -> Mapping[str, str]:
        batch = self.bulk.new.batch
        mark = {} if batch is ABSENT else {STREAM_KEY: str(batch)}
        return {**self.asked.metadata, self.once.key: self.once.value, **mark}


def _prefixes(texts: Sequence[str]) -> Prefixes:
    return Prefixes(text.encode() for text in texts)


def _put_on(work: _Work) -> CommitEntry:
    """All modes but *commit*: no staged row may be in the way (`_beside`)."""

    repo, bulk = work.repo, work.bulk

    def build(head: CommitEntry) -> Commit:
        _check_guard(work, head)
        result = _content_onto(work, head.commit.metarange)
        protection.check_commit(repo, bulk.job.branch)
        note_landing(repo, bulk, work.asked.request_id)
        return Commit(
            committer=work.asked.committer,
            message=work.asked.message,
            created_ns=repo.clock.now_ns(),
            metarange=result,
            metadata=work.metadata,
            parents=(head.id,),
        )

    name, batch = bulk.job.branch, bulk.new.batch
    accompany = ABSENT if batch is ABSENT else streams.accompany(repo, name, batch)
    beside = _beside(work)
    terms = land.Terms(work.deadline, work.once, COMMIT, beside=beside, accompany=accompany)
    try:
        return land.land(repo, name, build, terms)
    except DirtyBranch as error:
        raise Conflict(str(error)) from error


def _check_guard(work: _Work, head: CommitEntry) -> None:
    """Raises `Conflict` if a guarded prefix of the head differs from the base.  Cost: that of
    `diff.first_difference`."""
    base = work.bulk.base
    changed = first_difference(
        keyspace(work.repo), base.commit.metarange, head.commit.metarange, work.guarded
    )
    if changed is not ABSENT:
        path = changed.decode(errors="replace")
        raise Conflict(
            "guard broken: a commit since the job's base has changed a guarded prefix; read again, "
            f"and begin another job: {path=} base={base.id} head={head.id}"
        )


def _beside(work: _Work) -> land.Beside | Literal[Absent.ABSENT]:
    """The staged rows that may stay.  In the way are those below replaced prefixes, those on the
    paths that a splice puts, and those on the paths that a merge changes, unless they say what
    lands there."""
    bulk, space = work.bulk, keyspace(work.repo)
    base = bulk.base.commit.metarange
    if bulk.mode is Mode.PACK:
        return ABSENT

    def has_obstacle(rows: Sequence[Item]) -> bool:
        keys = [key for key, _ in rows]
        new = get_many(space, work.written, keys)
        others = [(key, value) for key, value in rows if not land.says(value, new.get(key))]
        if bulk.mode is not Mode.MERGE:
            return any(key in new or key in work.replaced for key, _ in others)
        old = get_many(space, base, [key for key, _ in others])
        return any(old.get(key) != new.get(key) for key, _ in others)

    refs = {*space.metarange(work.written).ranges}
    firsts, ends = [*work.replaced], [successor(prefix) for prefix in work.replaced]
    if bulk.mode is Mode.MERGE:
        refs ^= {*space.metarange(base).ranges}
    firsts += [ref.min_key for ref in refs]
    ends += [ref.max_key + b"\0" for ref in refs]
    end = b"" if b"" in ends else max(ends, default=b"\0")
    return land.Beside(min(firsts, default=b""), end, has_obstacle)


def _committed(work: _Work) -> CommitEntry:
    """Commit: the tokens that the job has scanned leave the branch record in the same swap."""
    repo, bulk = work.repo, work.bulk
    name = bulk.job.branch
    scanned = tuple(each.token for each in reversed(bulk.tokens))

    def content(base: MetarangeId, tokens: tuple[StagingToken, ...]) -> Overlaid:
        if tokens != scanned:
            raise Conflict(
                "another commit has folded part of the scanned tokens; begin again: "
                f"id={bulk.job.id}"
            )
        result = _content_of_rows(repo, bulk, work.written, base)
        protection.check_commit(repo, name)
        note_landing(repo, bulk, work.asked.request_id)
        return result

    request = commit.CommitRequest(
        work.asked.message, work.asked.committer, work.metadata, once=work.once
    )
    call = commit.Call(
        repo,
        name,
        request,
        work.deadline,
        scanned[-1],
        bulk.base.id,
        earlier_swaps=sent_before(work.once),
    )
    now = fresh(repo, name)
    earlier = find_by_key(repo, work.once, now.branch.commit)
    if earlier is not ABSENT:
        return earlier
    try:
        return commit.fold_written(call, now, Folding(scanned, content))
    except NoChanges as error:
        ending = record.Ending(JobState.FAILED, str(error))
        record.finish(repo, bulk.job.id, ending)
        raise


def _content_onto(work: _Work, head: MetarangeId) -> MetarangeId:
    """The head with what the job wrote.  Cost: as `committed/graft.py` says; no KV request."""
    space, new, base = keyspace(work.repo), work.bulk.new, work.bulk.base.commit.metarange
    if new.breaks is not ABSENT:
        return follow(space._replace(breaks=new.breaks), base, work.written, head)
    if new.mode is Mode.MERGE:
        return reapply(space, base, work.written, head)
    return splice(space, head, work.written, work.replaced)


def _content_of_rows(
    repo: OpenRepository, bulk: Bulk, written: MetarangeId, head: MetarangeId
) -> Overlaid:
    """The head with all rows that the job has scanned.

    A row that equals the base changes nothing on the base, but it does on the head if the head has
    changed that path since.  Such rows are looked up.  Cost: that of `committed/graft.py`, and a KV
    request for each 1,000 paths on which the head differs from the base.
    """
    space, base = keyspace(repo), bulk.base.commit.metarange
    if head == base:
        return Overlaid(written, written != base, bulk.job.progress)
    tokens = [each.token for each in bulk.tokens]

    def staged() -> Iterator[Change]:
        moved = diff(space, base, head)
        while batch := [item.key for item in islice(moved, _PATHS_BATCH)]:
            rows = area.lookup_many(repo.kv, tokens, batch)
            yield from ((key, rows[key].value) for key in batch if key in rows)

    merged = reapply(space, base, written, head)
    result = apply(space, merged, staged()).metarange_id
    return Overlaid(result, result != head, bulk.job.progress)
