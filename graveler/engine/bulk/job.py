"""Bulk jobs: ranges that a cluster writes into the repository's folder land as one commit.

What the cluster writes is invisible before the job lands, atomically and once, on the head as it is
then.  A job expires 11 hours after it began.  A commit with more rows than one process may scan is
handed over to such a job, which is named by the oldest token that it folds in.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from hmac import compare_digest
from math import inf
from typing import Any, Final, Literal, NamedTuple

from graveler.core import limits
from graveler.core.clock import Ids
from graveler.core.errors import (
    Conflict,
    HandedOver,
    Invalid,
    NoChanges,
    NotFound,
    OutcomeUnknown,
    Unavailable,
)
from graveler.core.ids import BranchId, JobId, parse_branch_id, parse_prefix
from graveler.core.records import (
    ABSENT,
    Absent,
    Branch,
    BreakParameters,
    CommitEntry,
    Job,
    JobState,
    without,
)
from graveler.engine import protection
from graveler.engine.bulk import streams
from graveler.engine.bulk.streams import Batch
from graveler.engine.commits.heads import commit_of, fresh
from graveler.engine.commits.seal import nothing_staged, seal
from graveler.engine.commits.search import NO_CHANGES, Once
from graveler.engine.jobs import record as jobs
from graveler.engine.jobs.record import BULK, JobOrder, NewJob
from graveler.engine.ports import OpenRepository, Ports, check_writable
from graveler.engine.repositories import repository
from graveler.engine.staged_rows import StagedToken, tokens_of
from graveler.refs import job_records as records

KIND: Final = BULK
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)
_ROUNDS: Final = 20  # attempts to swap the job record
_STEM: Final = "rows"


class Mode(StrEnum):
    """How the result of a job is applied to the head."""

    REPLACE = "replace"
    MERGE = "merge"
    COMMIT = "commit"
    PACK = "pack"
    SPLICE = "splice"

    @property
    def takes_prefix(self) -> bool:
        """Whether all entries that the job writes may have to lie below a prefix."""
        return self in (Mode.REPLACE, Mode.SPLICE)


@dataclass(frozen=True, slots=True)
class NewBulk:
    """The request of a bulk job.

    `id`: chosen by the client, so that a repeated request finds the same job.  `breaks`: where
    ranges must end instead; for *pack* only.  `message`, `metadata`: those of a commit that was
    handed over.  `purpose`: free text of the client; it detects an id that is used again for
    something else.  `batch`: the batch of a stream that the job lands.
    """

    mode: Mode
    prefix: str = ""
    id: str = ""
    breaks: BreakParameters | Literal[Absent.ABSENT] = ABSENT
    message: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    purpose: str = ""
    batch: Batch | Literal[Absent.ABSENT] = ABSENT

    def __str__(self) -> str:
        """The fields that distinguish it from another job with the same id."""
        batch = "" if self.batch is ABSENT else f" batch={self.batch}"
        return f"mode={self.mode} prefix={self.prefix!r:.200} purpose={self.purpose!r:.200}{batch}"


@dataclass(frozen=True, slots=True)
class Bulk:
    """A bulk job: its record, the commit that it builds on, and its request.

    `tokens`: the staging tokens, newest first, that the branch named when the job began; for
    *commit* only those that the job folds in.  `is_named`: a client chose the id.
    """

    job: Job
    base: CommitEntry
    new: NewBulk
    tokens: tuple[StagedToken, ...] = ()
    is_named: bool = False

    @property
    def mode(self) -> Mode:
        """How the result is applied to the head."""
        return self.new.mode

    @property
    def prefix(self) -> str:
        """The prefix of all paths that the job may change."""
        return self.new.prefix

    @property
    def expires_ns(self) -> int:
        """The job cannot land after this time."""
        return _expires_ns(self.job)

    @property
    def once(self) -> Once:
        """The idempotency key of the commit.  The id of a forgotten job may be used again, so the
        key of a job whose id a client chose contains the time of creation.
        """
        born = f"@{self.job.created_ns}" if self.is_named else ""
        return Once(jobs.MARK_KEY, f"{self.job.id}{born}", self.base.id)


# ---- begin, status, heartbeat, cancel ------------------------------------------------------------


def with_token(repo: OpenRepository, bulk: Bulk, holder: "Holder") -> str:
    """A fresh token of the job, for a caller that may begin it.  Empty for a job without a record.

    Errors: `Conflict` (it has too many), `Unavailable`, `Contended`.  Cost: 3 KV requests.
    """
    if bulk.job.ended:
        return ""
    new = issue_token(repo.ids, holder, jobs.ordered(repo, bulk.job.id))
    jobs.note_part(repo, bulk.job.id, new.name, new.value)
    return new.text


def begin(repo: OpenRepository, branch: str, new: NewBulk, *, force: bool = False) -> Bulk:
    """Record a job on the head of the branch; if an equal job with this id exists, return that one.

    If the batch of a stream has landed, return a job that is done, with the commit of the last
    batch; it has no record, or one of a job that was begun before and still runs.  The mode
    *commit* first seals what is staged: the job takes in everything that was acknowledged before,
    and writers continue.  A job without a purpose is equal to one with any purpose.

    Errors: `Invalid`, `NotFound`, `Refused`, `NoChanges` (nothing to commit), `Conflict` (the id is
    that of another job, perhaps of another branch; so much is sealed that an ordinary commit must
    come first; rows are staged on a branch that must be packed; a hard reset moved the branch
    behind the last batch), `OutcomeUnknown` (the same id may be begun again).  Cost: 2 KV requests,
    1 more with an id; 2 more if the job exists; with one shard packing 1 more, a commit 2; with a
    batch those of `streams.find_landed`.
    """
    name = parse_branch_id(branch)
    check_writable(repo.record, force)
    protection.check_commit(repo, name)
    _check_possible(new)
    job_id = JobId(new.id or repo.ids.unique(20))
    taken = records.find(repo.kv, repo.record, job_id) if new.id else ABSENT
    if taken is ABSENT:
        record = _begun_on(repo, name, new.mode)
        landed = _batch_landed(repo, name, record, new)
        if landed is not ABSENT:
            return landed
        begun = begin_on(repo, name, record, replace(new, id=job_id), is_named=bool(new.id))
        if begun is not ABSENT:
            return begun
        taken = records.get(repo.kv, repo.record, job_id)
    if (taken.job.kind, taken.job.branch) != (KIND, name):
        raise Conflict(
            f"another job has this id: use another id: id={job_id} "
            f"asked: branch={name} begun: branch={taken.job.branch} kind={taken.job.kind}"
        )
    known = status(repo, name, job_id)
    was = known.new
    same = _identity(was) == _identity(new)
    if not same or was.purpose not in ("", new.purpose):
        raise Conflict(
            f"another bulk job has this id: use another id: id={job_id} asked: {new} begun: {was}"
        )
    if new.batch is not ABSENT and known.job.state is JobState.RUNNING:
        landed = _batch_landed(repo, name, fresh(repo, name).branch, new)
        return known if landed is ABSENT else landed
    return known


def _check_possible(new: NewBulk) -> None:
    """Raises `Invalid` for a job that cannot be.  No request."""
    parse_prefix(new.prefix)
    if new.prefix and not new.mode.takes_prefix:
        raise Invalid("prefix invalid: only the modes replace and splice take a prefix")
    if (new.mode is Mode.PACK) != (new.breaks is not ABSENT):
        raise Invalid("breaks invalid: the mode pack needs them, and no other mode takes them")
    if new.breaks is not ABSENT:
        repository.check_breaks(new.breaks)
    if new.batch is not ABSENT:
        streams.check(new.batch)
        if new.mode in (Mode.COMMIT, Mode.PACK):
            raise Invalid(f"stream invalid: the mode {new.mode} lands no batches")
    if new.id and not _ID.fullmatch(new.id):
        raise Invalid(f"id must be 1 to 64 letters, digits, '-', '_', '.': id={new.id!r:.80}")


def _identity(new: NewBulk) -> tuple[object, ...]:
    return new.mode, new.prefix, new.breaks, new.batch


def _batch_landed(
    repo: OpenRepository, branch: BranchId, record: Branch, new: NewBulk
) -> Bulk | Literal[Absent.ABSENT]:
    """A job that is done, if the job's batch has landed; see `begin`."""
    if new.batch is ABSENT:
        return ABSENT
    landed = streams.find_landed(repo, branch, record, new.batch)
    if landed is ABSENT:
        return ABSENT
    now_ns, base = repo.clock.now_ns(), CommitEntry(record.commit, commit_of(repo, record.commit))
    job = Job(JobId(new.id), KIND, JobState.DONE, b"", now_ns, now_ns, branch=branch)
    return Bulk(job._replace(commit=landed.id), base, new)


def begin_on(
    repo: OpenRepository, branch: BranchId, record: Branch, new: NewBulk, *, is_named: bool = False
) -> Bulk | Literal[Absent.ABSENT]:
    """Record a job on a branch record that was read before.  A *commit* takes in the tokens that
    the record shows as sealed.

    ABSENT: the id is taken.  `is_named`: a client chose the id, and may use it again.

    Errors: `OutcomeUnknown`.  Cost: 1 KV request.
    """
    base, tokens = record.commit, tokens_of(record)
    if new.mode is Mode.COMMIT:
        tokens = tokens[1:]
    fields: dict[str, Any] = {"mode": new.mode, "prefix": new.prefix, "tokens": tokens}
    if new.message:
        fields |= {"message": new.message, "metadata": dict(new.metadata)}
    if new.purpose:
        fields["purpose"] = new.purpose
    if new.batch is not ABSENT:
        fields["batch"] = new.batch
    if new.breaks is not ABSENT:
        fields["breaks"] = new.breaks.as_json()
    if is_named:
        fields["named"] = True
    body = json.dumps(fields)
    stamp = repo.ids.stamp()
    job = jobs.begin(repo, NewJob(JobId(new.id), KIND, branch, body, base, stamp))
    if job.owner != stamp:
        return ABSENT
    entry = CommitEntry(base, commit_of(repo, base))
    return Bulk(job, entry, new, tuple(tokens), is_named)


def _begun_on(repo: OpenRepository, branch: BranchId, mode: Mode) -> Branch:
    """The branch record; for *commit* one in which everything that was staged is sealed."""
    seen = fresh(repo, branch)
    if mode is Mode.PACK and not nothing_staged(repo, seen):
        raise Conflict(f"the branch has uncommitted changes; commit or reset them: branch={branch}")
    if mode is not Mode.COMMIT:
        return seen.branch
    if nothing_staged(repo, seen):
        raise NoChanges(NO_CHANGES)
    if len(seen.branch.sealed) >= limits.sealed_token_count_max:
        raise Conflict(f"too many tokens are sealed; commit first: branch={branch}")
    return seal(repo, branch, seen, own=True).branch


def status(repo: OpenRepository, branch: str, job_id: str) -> Bulk:
    """The job as it is now.  Errors: `NotFound`.  Cost: 2 KV requests."""
    return seen(repo, branch, job_id).bulk


class StoredBulk(NamedTuple):
    """A job with the version of its record, and its order."""

    bulk: Bulk
    record: records.VersionedJob
    order: jobs.JobOrder


def seen(repo: OpenRepository, branch: str, job_id: str) -> StoredBulk:
    """The job with everything in its records.  Errors: `NotFound`.  Cost: 2 KV requests."""
    record = records.find(repo.kv, repo.record, JobId(job_id)) if _ID.fullmatch(job_id) else ABSENT
    if record is ABSENT or (record.job.kind, record.job.branch) != (KIND, branch):
        raise NotFound(f"bulk job not found: id={job_id:.80} branch={branch:.80}")
    order = jobs.ordered(repo, record.job.id)
    fields = json.loads(order.body)
    base = CommitEntry(order.since, commit_of(repo, order.since))
    tokens = tuple(StagedToken(*each) for each in fields["tokens"])
    bulk = Bulk(record.job, base, _asked(record.job, fields), tokens, fields.get("named", False))
    return StoredBulk(bulk, record, order)


def _asked(job: Job, fields: dict[str, Any]) -> NewBulk:
    breaks = BreakParameters.of_json(fields["breaks"]) if "breaks" in fields else ABSENT
    message, metadata = fields.get("message", ""), fields.get("metadata", {})
    purpose = fields.get("purpose", "")
    batch = Batch(*fields["batch"]) if "batch" in fields else ABSENT
    mode, prefix = Mode(fields["mode"]), fields["prefix"]
    return NewBulk(mode, prefix, job.id, breaks, message, metadata, purpose, batch)


def heartbeat(repo: OpenRepository, branch: str, job_id: str, progress: int = -1) -> Bulk:
    """Send a heartbeat; `progress`: how many rows are done (-1: unchanged).

    A job that is landing or has landed stays as it is.  Errors: `NotFound`; `Conflict` if the job
    cannot land any more: the cluster must stop; `Unavailable`.  Cost: 3 KV requests.
    """
    for _ in range(_ROUNDS):
        bulk, record, _ = seen(repo, branch, job_id)
        if bulk.job.state is JobState.DONE:
            return bulk
        check_alive(repo, bulk)
        if bulk.job.state is JobState.LANDING:
            return bulk
        done = bulk.job.progress if progress < 0 else progress
        beaten = bulk.job._replace(progress=done, updated_ns=repo.clock.now_ns())
        if records.put(repo.kv, repo.record, beaten, record, repo.ids.stamp()) is not ABSENT:
            return replace(bulk, job=beaten)
    raise Unavailable(f"heartbeat not recorded: the job's record kept changing: id={job_id}")


def cancel(repo: OpenRepository, branch: str, job_id: str) -> None:
    """Cancel a running job: it lands nothing, now or later.  Idempotent.

    Errors: `NotFound`; `Conflict` once it is landing or has landed; `Unavailable`.  Cost: 4 KV
    requests.
    """
    jobs.cancel(repo, status(repo, branch, job_id).job.id, KIND, branch)


def list_alive(repo: OpenRepository) -> list[Bulk]:
    """Jobs that may still land.  Cost: 1 KV request for each 1,000 jobs, 2 for each of them."""
    bulks = [
        status(repo, seen.job.branch, seen.job.id)
        for seen in records.list_all(repo.kv, repo.record)
        if seen.job.kind == KIND and not seen.job.ended
    ]
    return [each for each in bulks if not each.job.ended and not is_expired(repo, each)]


def is_expired(ports: Ports, bulk: Bulk) -> bool:
    """Whether the job's time has run out before it ended.  No request."""
    return not bulk.job.ended and not can_land(ports, bulk.job)


def can_land(ports: Ports, job: Job) -> bool:
    """Whether a bulk job may still land.  No request."""
    return not job.ended and ports.clock.now_ns() < _expires_ns(job)


def _expires_ns(job: Job) -> int:
    return job.created_ns + limits.import_seconds_max * limits.SECOND_NS


def check_alive(ports: Ports, bulk: Bulk) -> None:
    """Raises `Conflict` if the job cannot land any more.  No request."""
    job = bulk.job
    if job.ended:
        raise Conflict(f"bulk job has ended: id={job.id} state={job.state.name.lower()}")
    if is_expired(ports, bulk):
        raise Conflict(
            f"bulk job has expired: its limit is {limits.import_seconds_max} s: id={job.id}"
        )


# ---- landing -------------------------------------------------------------------------------------


def check_same(job: Job, request_id: str) -> None:
    """Raises `Conflict` if another request lands the job, or has landed it.  No request."""
    if job.owner != request_id.encode():
        raise Conflict(
            f"another request has finished the bulk job: id={job.id} commit={job.commit}"
        )


def note_landing(repo: OpenRepository, bulk: Bulk, request_id: str) -> None:
    """Enter the state *landing*: from now on nobody can cancel, and only this request may land the
    job.

    Idempotent.  Errors: `Conflict`, `Unavailable`.  Cost: 2 KV requests.
    """
    for _ in range(_ROUNDS):
        record = records.get(repo.kv, repo.record, bulk.job.id)
        if record.job.state in (JobState.LANDING, JobState.DONE):  # by a twin or an earlier round
            check_same(record.job, request_id)
            return
        check_alive(repo, replace(bulk, job=record.job))
        landing = record.job._replace(
            state=JobState.LANDING,
            owner=request_id.encode(),
            updated_ns=repo.clock.now_ns(),
        )
        if records.put(repo.kv, repo.record, landing, record, repo.ids.stamp()) is not ABSENT:
            return
    raise Unavailable(f"bulk job not landed: its record could not be stored: id={bulk.job.id}")


def note_done(repo: OpenRepository, job_id: JobId, landed: CommitEntry) -> None:
    """Record that the job has landed."""
    text = f"bulk job landed, and is not noted; ask again: id={job_id}"
    try:
        noted = jobs.finish(repo, job_id, jobs.Ending(JobState.DONE, landed=landed))
        noted = noted or jobs.status(repo, job_id).state is JobState.DONE
    except Unavailable as error:
        raise OutcomeUnknown(text) from error
    if not noted:
        raise OutcomeUnknown(text)


Said = tuple[str, Mapping[str, str]]  # the message and the metadata of a commit


def check_handover(repo: OpenRepository, branch: BranchId, record: Branch) -> None:
    """Raises `HandedOver` if a job waits for the sealed tokens of the record.

    No request if nothing is sealed or if rows have no limit; else 1 KV request.
    """
    if not record.sealed or repo.settings.commit_rows_max == inf:
        return
    last = _last_handover(repo, record)
    if last is not ABSENT and can_land(repo, last):
        raise _handed_over(repo, branch, last.id)


def hand_over(
    repo: OpenRepository, branch: BranchId, record: Branch, description: Said
) -> HandedOver:
    """Have a bulk job wait for the sealed tokens of a record; if one waits already, use that one.

    `description`: message and metadata of the commit that the job must make.  The returned error
    names the job, also for a repeated or another request.

    Errors: `OutcomeUnknown`, `Unavailable`.  Cost: 2 KV requests.
    """
    last = _last_handover(repo, record)
    if last is not ABSENT and can_land(repo, last):
        return _handed_over(repo, branch, last.id)
    job_id = jobs.next_id(repo, _handover_stem(record), last)
    # If two callers begin the job at the same time, one succeeds.  What the other one sealed in
    # addition stays staged.
    begin_on(repo, branch, record, NewBulk(Mode.COMMIT, "", job_id, ABSENT, *description))
    return _handed_over(repo, branch, job_id)


def _handover_stem(record: Branch) -> str:
    return f"{_STEM}-{record.sealed[0]}-"


def _last_handover(repo: OpenRepository, record: Branch) -> Job | Literal[Absent.ABSENT]:
    jobs = records.list_some(repo.kv, repo.record, _handover_stem(record))
    return jobs[-1].job if jobs else ABSENT


def _handed_over(repo: OpenRepository, branch: BranchId, job: JobId) -> HandedOver:
    return HandedOver(
        f"commit handed over: more than {repo.settings.commit_rows_max} uncommitted rows, which "
        f'Spark commits: graveler.spark.commit(lake, "{repo.id}/{branch}", '
        f'job="{job}"); nothing is committed yet, all stays staged: job={job}',
        job,
    )


# ---- tokens --------------------------------------------------------------------------------------


TOKEN_PREFIX: Final = "gbj_"  # tells a token of a job from one of a session
_TOKEN_LENGTH: Final = 40  # characters of five random bits
_TOKEN_PART: Final = "token-"


class Holder(NamedTuple):
    """The user for whom a token acts, and the epoch of the credential that it began the job with.
    What the user may no longer do, the token may not either."""

    user: str
    uid: str
    epoch: str


class NewToken(NamedTuple):
    """A token, and what is stored of it: the name and the value of a part of the job's order."""

    text: str
    name: str
    value: str

    def __repr__(self) -> str:
        return without(self, "text")


def issue_token(ids: Ids, holder: Holder, order: JobOrder) -> NewToken:
    """A fresh token for a job with this order.  Raises `Conflict` if the job has too many.  No
    request."""
    if sum(name.startswith(_TOKEN_PART) for name in order.parts) >= limits.bulk_tokens_count_max:
        raise Conflict(
            f"bulk job has {limits.bulk_tokens_count_max} tokens, and no more are issued: begin a "
            "job with another id"
        )
    text = TOKEN_PREFIX + ids.unique(_TOKEN_LENGTH)
    return NewToken(text, _TOKEN_PART + _hash(text), json.dumps(holder))


def holder_of(order: JobOrder, token: str) -> Holder | Literal[Absent.ABSENT]:
    """For whom a token acts; ABSENT if it is none of this job.  Compares in constant time."""
    found: Holder | Literal[Absent.ABSENT] = ABSENT
    name = _TOKEN_PART + _hash(token)
    for known, value in order.parts.items():
        if compare_digest(known.encode(), name.encode()):
            found = Holder(*json.loads(value))
    return found


def _hash(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
