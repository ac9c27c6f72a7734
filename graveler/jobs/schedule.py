"""The scheduler: puts jobs on record and on the queue, and tells how they stand.

The id of a job is a hash of the request and a counter, so equal requests join the same job.  A job
whose message was lost, or whose worker died, is enqueued again by whoever looks at it.
"""

import json
from contextlib import suppress
from dataclasses import replace
from typing import Literal, NamedTuple

from graveler.core import errors
from graveler.core.errors import Code, Contended, GravelerError, NotFound, Unavailable
from graveler.core.ids import BranchId, parse_branch_id
from graveler.core.records import ABSENT, Absent, Job, JobState
from graveler.engine import restore
from graveler.engine.commits.heads import fresh
from graveler.engine.commits.merge import message, parse_resolutions, source_of
from graveler.engine.jobs import record
from graveler.engine.jobs.record import JobOrder, NewJob
from graveler.engine.ports import OpenRepository, check_message, check_metadata, check_writable
from graveler.engine.protection import check_commit
from graveler.jobs import commit, join
from graveler.jobs.commit import JobStanding
from graveler.jobs.orders import COMMIT, DUMP, MERGE, JobRequest, restore_asked
from graveler.jobs.queue import JobMessage, Queue
from graveler.refs import job_records as records
from graveler.refs.lifecycle import DumpIds
from graveler.staging import area

Seen = Job | Literal[Absent.ABSENT]


class Scheduler(NamedTuple):
    """What every function here needs to accept a request."""

    repo: OpenRepository
    queue: Queue


def newest(scheduler: Scheduler, request: JobRequest) -> Seen:
    """The newest job of the same request.  Cost: 1 KV request."""
    listed = records.list_some(scheduler.repo.kv, scheduler.repo.record, request.stem)
    return listed[-1].job if listed else ABSENT


def submit(scheduler: Scheduler, request: JobRequest, known: Seen) -> Job:
    """Record a job and enqueue it; if a job of the same request still runs, return that one.

    `known`: the answer of `newest`.  Errors: `NotFound`, `Unavailable`.  Cost: 2 KV requests and a
    message; for a squash merge also that of its source.
    """
    if known is not ABSENT and not known.ended:
        revive(scheduler, known)
        return known
    return begin(scheduler, request, known)


def begin(scheduler: Scheduler, request: JobRequest, known: Seen) -> Job:
    """Like `submit`, but starts a new job even if a job of the same request runs."""
    since = ""
    if request.branch:
        since = fresh(scheduler.repo, parse_branch_id(request.branch)).branch.commit
    job = record.begin(scheduler.repo, new_job(scheduler, request, known, since))
    enqueue(scheduler, job)
    return job


def new_job(scheduler: Scheduler, request: JobRequest, known: Seen, since: str) -> NewJob:
    """The next job of a request; `since`: a head of its branch.  Cost: that of `join.parts_of`."""
    job_id = record.next_id(scheduler.repo, request.stem, known)
    branch = BranchId(request.branch)  # its record was read under this name, if it has one
    parts = join.parts_of(scheduler.repo, request)
    return NewJob(job_id, request.kind, branch, request.body, since, parts=parts)


def enqueue(scheduler: Scheduler, job: Job) -> None:
    """Enqueue a recorded job.

    If the message cannot be sent, the job is only late: the next client that asks for it after its
    lease has run out sends the message again.  Cost: 1 message.
    """
    with suppress(Unavailable):
        scheduler.queue.enqueue(JobMessage(scheduler.repo.id, job.id))


# ---- requests that do not wait -------------------------------------------------------------------


def ask(scheduler: Scheduler, request: JobRequest) -> Job:
    """Record a job and enqueue it.

    If an equal request already has a running job that will contain what this request would contain,
    that job is returned instead.  A merge takes the commit that its source names now.

    Errors: `Invalid`, `Refused`, `NotFound`, `Unavailable`.  Cost: 3 KV requests and a message; 1
    KV request more to resolve the source of a merge, 2 of a squash merge.
    """
    check_writable(scheduler.repo.record, request.fields["force"])
    if request.kind == COMMIT:
        check_commit(scheduler.repo, parse_branch_id(request.branch))
    check_message(request.fields["message"])
    check_metadata(request.fields["metadata"])
    if request.kind == MERGE:
        request = _settled(scheduler, request)
    known = newest(scheduler, request)
    if known is not ABSENT and not known.ended and known.kind == COMMIT:
        branch = fresh(scheduler.repo, known.branch).branch
        if not area.is_empty(scheduler.repo.kv, branch.staging, scheduler.repo.fanout):
            return begin(scheduler, request, known)
    return submit(scheduler, request, known)


def ask_dump(scheduler: Scheduler) -> Job:
    """Record a dump and enqueue it; if a dump waits for a worker, return that one instead.

    A dump that already runs is not joined: it may have read a branch before that branch moved to
    what this request must contain.  Errors: `NotFound`, `Unavailable`.  Cost: 2 KV requests and a
    message.
    """
    request = JobRequest(DUMP)
    known = newest(scheduler, request)
    if known is not ABSENT and known.state is JobState.LANDING:
        return begin(scheduler, request, known)
    return submit(scheduler, request, known)


def ask_restore(scheduler: Scheduler, dump: DumpIds, *, force: bool) -> Job:
    """Record a restore of refs and enqueue it; if the same restore still runs, return that one.

    Errors: those of `restore.check_bare`.  Cost: that of `restore.check_bare`, 3 KV requests and a
    message.
    """
    request = restore_asked(dump, force=force)
    known = newest(scheduler, request)
    if known is ABSENT or known.ended:
        restore.check_bare(scheduler.repo, dump, force=force)
    return submit(scheduler, request, known)


def _settled(scheduler: Scheduler, request: JobRequest) -> JobRequest:
    """The merge with its source resolved to a commit, and with a message that names the original
    source.
    """
    parse_resolutions(request.fields["strategy"], request.fields.get("resolutions", {}))
    source = request.fields["source"]
    text = request.fields["message"] or message(source, request.branch)
    source_id = source_of(scheduler.repo, source, parse_branch_id(request.branch)).id
    return replace(request, fields={**request.fields, "source": source_id, "message": text})


# ---- how a job stands, and how it ended ----------------------------------------------------------


def status(scheduler: Scheduler, kind: str, job_id: str, branch: str = "") -> Job:
    """A job of that kind, on that branch if the kind has branches, as it is now.

    If no worker runs the job, it is enqueued again.  If it is done, its result counts as received
    by a client.  Errors: `NotFound`.
    """
    return standing(scheduler, kind, job_id, branch).job


def standing(scheduler: Scheduler, kind: str, job_id: str, branch: str = "") -> JobStanding:
    """Like `status`, and the bulk job that the job waits for."""
    job = record.status(scheduler.repo, job_id)
    if (job.kind, job.branch) != (kind, branch):
        raise NotFound("not found", Code.JOB_NOT_FOUND, job=job_id)
    now = look(scheduler, job)
    if now.job.state is JobState.DONE and not is_delivered(scheduler, now.job):
        note_delivered(scheduler, job)
    return now


def look(scheduler: Scheduler, job: Job) -> JobStanding:
    """A job that was read before, as it is now, and the bulk job that it waits for.

    If no worker runs the job, it is enqueued again.  Its result does not count as received.
    """
    now = current(scheduler, job)
    revive(scheduler, now.job)
    return now


def current(scheduler: Scheduler, job: Job) -> JobStanding:
    """Like `look`, without a message.  Errors and cost: of a commit, those of `commit.standing`."""
    return commit.standing(scheduler.repo, job) if job.kind == COMMIT else JobStanding(job, "")


def failure(scheduler: Scheduler, job: Job) -> GravelerError:
    """The error that ended a job, of its original type and with its code.  Cost: 1 KV request."""
    return error_of(job, record.ordered(scheduler.repo, job.id))


def error_of(job: Job, order: JobOrder) -> GravelerError:
    """Like `failure`, with the job's order read before."""
    kind = getattr(errors, order.error_kind, errors.Internal)
    if kind is errors.RangeUnsatisfiable or not issubclass(kind, GravelerError):
        kind = errors.Internal
    error: GravelerError = kind(job.error)
    with suppress(ValueError):  # no code, or one that only a newer version knows
        error.code = Code(order.error_code)
        fields = json.loads(order.error_fields)
        error.fields = fields if isinstance(fields, dict) else {}
    return error


def note_delivered(scheduler: Scheduler, job: Job) -> None:
    """Record that a client receives the result.  Only once the answer is certain: else no client
    would receive it."""
    with suppress(Unavailable, Contended):  # then an equal request gets this result once more
        record.note_delivered(scheduler.repo, job.id)


def is_delivered(scheduler: Scheduler, job: Job) -> bool:
    """Whether a client has received the result.  Cost: 1 KV request."""
    return record.ordered(scheduler.repo, job.id).delivered


# ---- jobs whose worker is gone -------------------------------------------------------------------


def revive(scheduler: Scheduler, job: Job) -> None:
    """Enqueue a job again if it has sent no heartbeat for longer than its lease."""
    if record.is_silent(scheduler.repo, job):
        record.release(scheduler.repo, job.id, job.owner)
        enqueue(scheduler, job)


def revive_all(scheduler: Scheduler) -> int:
    """Enqueue every unfinished job of a repository after its process died; returns how many.

    Only for a store that one process at a time can open, before that process runs any job.
    """
    freed = record.free_all(scheduler.repo)
    for job in freed:
        enqueue(scheduler, job)
    return len(freed)


def revive_silent(scheduler: Scheduler) -> int:
    """Enqueue every job of a repository that has sent no heartbeat for longer than its lease;
    returns how many.

    Cost: 1 KV request for each 1,000 jobs, 2 and a message for each silent job.
    """
    silent = [
        seen.job
        for seen in records.list_all(scheduler.repo.kv, scheduler.repo.record)
        if record.is_silent(scheduler.repo, seen.job)
    ]
    for job in silent:
        revive(scheduler, job)
    return len(silent)
