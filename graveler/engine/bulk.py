"""Bulk jobs: ranges that a cluster writes into the repository's folder land as one commit.

    begin ──► running ──► (the cluster writes ranges and one metarange) ──► finish: landing ──► done
                 │ heartbeat: shows progress, and tells the driver of a cancellation
                 └─ cancel ──► cancelled          11 hours after it began: expired; neither can land

What is written is not seen before it lands, and lands whole or not at all, once.  The reference is
one apply after the other: *replace* puts the job's entries in place of all that the head has below
the prefix; *merge* puts every path that the job changed since its base onto the head.  Whoever else
has committed meanwhile keeps what they did elsewhere.

The job's record is that of `jobs.py`, but nobody here runs it.  Its owner is the request that
finishes it, and its commit bears its mark: a finish whose answer was lost is asked again, by any
process.  Nothing that it wrote is collected before it must have ended: files younger than a day
never are (collect.py).  For the service.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Literal, NamedTuple

from graveler import limits
from graveler.committed.grafting import reapply, replace_prefix
from graveler.engine import foreign, jobs, landing
from graveler.engine.heads import commit_of, fresh
from graveler.engine.jobs import BULK, Ending, NewJob, Ordered
from graveler.engine.messages import check_message, check_metadata
from graveler.engine.ports import Deadline, Ports, check_writable, keyspace
from graveler.engine.sealing import made_once
from graveler.engine.staged_rows import StagedToken, tokens_of
from graveler.errors import (
    Conflict,
    DirtyBranch,
    Invalid,
    NotFound,
    OutcomeUnknown,
    Unavailable,
)
from graveler.ids import JobId, MetarangeId, parse_branch_id, parse_prefix
from graveler.records import ABSENT, Absent, Commit, CommitEntry, Job, JobState, Repository
from graveler.refs import jobs as records

KIND: Final = BULK
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)
_REQUEST_LENGTH_MAX = 128
_ROUNDS = 20


class Mode(StrEnum):
    """How what a job wrote comes onto the head."""

    REPLACE = "replace"
    MERGE = "merge"


@dataclass(frozen=True, slots=True)
class NewBulk:
    """What is to be done.  `id`: chosen by the caller, so that the same job can be begun again."""

    mode: Mode
    prefix: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class Bulk:
    """A bulk job: its record, the commit that it builds on, what it is to do, and the staging
    tokens, newest first, that the branch named when it began."""

    job: Job
    base: CommitEntry
    mode: Mode
    prefix: str
    tokens: tuple[StagedToken, ...] = ()

    @property
    def expires_ns(self) -> int:
        """It cannot land later."""
        return self.job.created_ns + limits.import_seconds_max * limits.SECOND_NS


@dataclass(frozen=True, slots=True)
class Finish:
    """What is to land, and what the commit says.  `request_id`: the same for every attempt."""

    metarange: str
    request_id: str
    message: str
    committer: str
    metadata: Mapping[str, str] = field(default_factory=dict)


# ---- begin, ask, beat, cancel --------------------------------------------------------------------


def begin(
    ports: Ports, repo: Repository, branch: str, new: NewBulk, *, force: bool = False
) -> Bulk:
    """Note a job on the head of the branch; an equal one of that id, if there is one, as it is now.

    Errors: `Invalid`, `NotFound`, `Refused`, `Conflict` (the id is another job's), `OutcomeUnknown`
    (with the same id it may be begun again).  Cost: 2 KV requests, 1 more with an id; 3 more if it
    is there already.
    """
    name = parse_branch_id(branch)
    check_writable(repo, force)
    parse_prefix(new.prefix)
    if new.mode is Mode.MERGE and new.prefix:
        raise Invalid("prefix must be empty in the mode merge: the paths that were changed count")
    if new.id and not _ID.fullmatch(new.id):
        raise Invalid(f"id must be 1 to 64 letters, digits, '-', '_', '.': id={new.id!r:.80}")
    job_id = JobId(new.id or ports.ids.unique(20))
    if not new.id or records.find(ports.kv, repo, job_id) is ABSENT:
        record = fresh(ports, repo, name).branch
        base, tokens = record.commit, tokens_of(record)
        body = json.dumps({"mode": new.mode, "prefix": new.prefix, "tokens": tokens})
        stamp = ports.ids.stamp()
        asked = NewJob(job_id, KIND, name, body, base, stamp)
        job = jobs.begin(ports, repo, asked)
        if job.owner == stamp:
            built_on = CommitEntry(base, commit_of(ports, repo, base))
            return Bulk(job, built_on, new.mode, new.prefix, tuple(tokens))
    known = status(ports, repo, name, job_id)
    if (known.mode, known.prefix) != (new.mode, new.prefix):
        raise Conflict(f"another bulk job has this id: id={job_id} mode={known.mode}")
    return known


def status(ports: Ports, repo: Repository, branch: str, job_id: str) -> Bulk:
    """The job as it is now.  `NotFound`.  Cost: 2 KV requests."""
    return _seen(ports, repo, branch, job_id).bulk


class _Seen(NamedTuple):
    """A job with the version of its record, and its order."""

    bulk: Bulk
    record: records.VersionedJob
    order: Ordered


def _seen(ports: Ports, repo: Repository, branch: str, job_id: str) -> _Seen:
    found = records.find(ports.kv, repo, JobId(job_id)) if _ID.fullmatch(job_id) else ABSENT
    if found is ABSENT or (found.job.kind, found.job.branch) != (KIND, branch):
        raise NotFound(f"bulk job not found: id={job_id:.80} branch={branch:.80}")
    order = jobs.ordered(ports, repo, found.job.id)
    said = json.loads(order.body)
    base = CommitEntry(order.since, commit_of(ports, repo, order.since))
    tokens = tuple(StagedToken(*each) for each in said["tokens"])
    bulk = Bulk(found.job, base, Mode(said["mode"]), said["prefix"], tokens)
    return _Seen(bulk, found, order)


def heartbeat(ports: Ports, repo: Repository, branch: str, job_id: str, progress: int = -1) -> Bulk:
    """Show that the job is alive, and how many rows it has done (-1: as many as before).

    A job that is landing or has landed stays as it is.  Errors: `NotFound`; `Conflict` if it cannot
    land any more: its runner is to stop; `Unavailable`.  Cost: 3 KV requests.
    """
    for _ in range(_ROUNDS):
        bulk, record, _ = _seen(ports, repo, branch, job_id)
        if bulk.job.state is JobState.DONE:
            return bulk
        _check_alive(ports, bulk)
        if bulk.job.state is JobState.LANDING:
            return bulk
        done = bulk.job.progress if progress < 0 else progress
        beaten = replace(bulk.job, progress=done, updated_ns=ports.clock.now_ns())
        if records.put(ports.kv, repo, beaten, record, ports.ids.stamp()) is not ABSENT:
            return replace(bulk, job=beaten)
    raise Unavailable(f"heartbeat not noted: the job's record kept changing: id={job_id}")


def cancel(ports: Ports, repo: Repository, branch: str, job_id: str) -> None:
    """Stop a running job, once or often: it lands nothing, now or later.

    Errors: `NotFound`; `Conflict` once it is landing or has landed; `Unavailable`.  Cost: 4 KV
    requests.
    """
    jobs.cancel(ports, repo, status(ports, repo, branch, job_id).job.id, KIND)


def list_alive(ports: Ports, repo: Repository) -> list[Bulk]:
    """Jobs that may still land.  Cost: 1 KV request for each 1,000 jobs, 2 for each of them."""
    found = [
        status(ports, repo, seen.job.branch, seen.job.id)
        for seen in records.list_all(ports.kv, repo)
        if seen.job.kind == KIND and not seen.job.ended
    ]
    return [each for each in found if not each.job.ended and not is_expired(ports, each)]


def is_expired(ports: Ports, bulk: Bulk) -> bool:
    """Whether its time is over."""
    return not bulk.job.ended and ports.clock.now_ns() >= bulk.expires_ns


def _check_alive(ports: Ports, bulk: Bulk) -> None:
    job = bulk.job
    if job.ended:
        raise Conflict(f"bulk job has ended: id={job.id} state={job.state.name.lower()}")
    if is_expired(ports, bulk):
        raise Conflict(f"bulk job has expired: it had {limits.import_seconds_max} s: id={job.id}")


# ---- finish --------------------------------------------------------------------------------------


def finish(ports: Ports, repo: Repository, branch: str, job_id: str, asked: Finish) -> CommitEntry:
    """Land what the job wrote as one commit; the same request, asked again, is answered with it.

    Errors: `NotFound` (job, metarange or range), `Invalid` (metarange refused: `foreign.check` says
    what is checked), `Conflict` (the branch has uncommitted changes; the job was cancelled, has
    expired or is finished by another request), `Contended`, `Unavailable`: the request may be made
    again, and nothing has landed; `OutcomeUnknown`: only the same request tells.
    Cost: 9 KV requests on a clean branch with one shard, 1 more if the head has moved; and those of
    `foreign.check` and of `grafting`.
    """
    check_message(asked.message)
    check_metadata(asked.metadata)
    if not 0 < len(asked.request_id.encode()) <= _REQUEST_LENGTH_MAX:
        raise Invalid(f"request_id must have 1 to {_REQUEST_LENGTH_MAX} bytes")
    bulk, _, order = _seen(ports, repo, branch, job_id)
    known = _known(ports, repo, bulk, order, asked)
    if known is not ABSENT:
        return known
    prefix = bulk.prefix.encode() if bulk.mode is Mode.REPLACE else b""
    metarange = foreign.check(ports, repo, asked.metarange, bulk.base.commit.metarange, prefix)
    once = jobs.once(bulk.job.id, order)

    def build(head: CommitEntry) -> Commit:
        result = _onto(ports, repo, bulk, metarange, head.commit.metarange)
        _note_landing(ports, repo, bulk, asked)
        return Commit(
            committer=asked.committer,
            message=asked.message,
            created_ns=ports.clock.now_ns(),
            metarange=result,
            metadata={**asked.metadata, once.key: once.value},
            parents=(head.id,),
        )

    left = (bulk.expires_ns - ports.clock.now_ns()) / limits.SECOND_NS
    deadline = Deadline(ports.clock, min(left, ports.settings.commit_seconds_max))
    try:
        name = parse_branch_id(branch)
        landed = landing.land(ports, repo, name, build, landing.Terms(deadline, once))
    except DirtyBranch as error:
        raise Conflict(str(error)) from error
    _note_done(ports, repo, bulk.job.id, landed)
    return landed


def _note_done(ports: Ports, repo: Repository, job_id: JobId, landed: CommitEntry) -> None:
    """It has landed; its mark tells so to whoever asks again, if this cannot be noted."""
    try:
        noted = jobs.finish(ports, repo, job_id, Ending(JobState.DONE, landed=landed))
        noted = noted or jobs.status(ports, repo, job_id).state is JobState.DONE
    except Unavailable as error:
        raise OutcomeUnknown(
            f"bulk job landed, and is not noted; ask again: id={job_id}"
        ) from error
    if not noted:
        raise OutcomeUnknown(f"bulk job landed, and is not noted; ask again: id={job_id}")


def _known(
    ports: Ports, repo: Repository, bulk: Bulk, order: Ordered, asked: Finish
) -> CommitEntry | Literal[Absent.ABSENT]:
    """The commit, if the request has landed it before.  Raises `Conflict` if it cannot any more."""
    job = bulk.job
    if job.state is JobState.DONE:
        _check_same(job, asked)
        return CommitEntry(job.commit, commit_of(ports, repo, job.commit))
    if job.state is JobState.LANDING:
        _check_same(job, asked)
        if is_expired(ports, bulk):
            head = fresh(ports, repo, parse_branch_id(job.branch)).branch.commit
            landed = made_once(ports, repo, jobs.once(job.id, order), head)
            if landed is not ABSENT:
                return landed
    _check_alive(ports, bulk)
    return ABSENT


def _check_same(job: Job, asked: Finish) -> None:
    if job.owner != asked.request_id.encode():
        raise Conflict(f"bulk job is finished by another request: id={job.id} commit={job.commit}")


def _onto(
    ports: Ports, repo: Repository, bulk: Bulk, written: MetarangeId, head: MetarangeId
) -> MetarangeId:
    space = keyspace(ports, repo)
    if bulk.mode is Mode.REPLACE:
        return replace_prefix(space, head, written, bulk.prefix.encode())
    return reapply(space, bulk.base.commit.metarange, written, head)


def _note_landing(ports: Ports, repo: Repository, bulk: Bulk, asked: Finish) -> None:
    """From here on nobody can cancel, and only this request may land it."""
    for _ in range(_ROUNDS):
        seen = records.get(ports.kv, repo, bulk.job.id)
        if seen.job.state is JobState.LANDING:
            _check_same(seen.job, asked)
            return
        if seen.job.state is JobState.DONE:  # by a twin of this request, which the next round finds
            _check_same(seen.job, asked)
            return
        _check_alive(ports, replace(bulk, job=seen.job))
        landing_job = replace(
            seen.job,
            state=JobState.LANDING,
            owner=asked.request_id.encode(),
            updated_ns=ports.clock.now_ns(),
        )
        if records.put(ports.kv, repo, landing_job, seen, ports.ids.stamp()) is not ABSENT:
            return
    raise Unavailable(f"bulk job not landed: its record could not be stored: id={bulk.job.id}")
