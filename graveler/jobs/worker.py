"""The worker: takes a message, claims its job, runs it, and records how it ended.

    message ──claim──► work ──heartbeats──► done, failed
               │         ├─ out of time ───► release, enqueue again: another worker continues
               │         ├─ taken over ────► nothing more: the new owner has a message too
               │         ├─ outage ────────► release, raise: the message is delivered again
               │         └─ handed over ───► nothing more until a client asks for the job
               └─ another worker runs it, or it has ended ──► nothing

If a worker dies, the queue delivers its message again.  Its heartbeats end, so the next client that
asks for the job also enqueues it again.
"""

import logging
from contextlib import suppress
from math import inf
from typing import Final, NamedTuple

from graveler.core import limits
from graveler.core.errors import (
    Contended,
    GravelerError,
    HandedOver,
    HistoryTooLong,
    HookFailed,
    Internal,
    NotFound,
    OutcomeUnknown,
    StorageFull,
    Unavailable,
    Unsupported,
    explained,
)
from graveler.core.ids import JobId, RepositoryId
from graveler.core.records import Job, JobState
from graveler.engine.jobs import checkpoints, record
from graveler.engine.jobs.record import Claim, Ending, Heartbeat, Stopped, StopReason
from graveler.engine.ports import OpenRepository, Ports, open_repository
from graveler.events import intake
from graveler.events.intake import BatchJob
from graveler.jobs import purge
from graveler.jobs.kinds import find_landed, kind_of, settle
from graveler.jobs.queue import JobMessage, Message, PurgeMessage, Queue, announcing
from graveler.jobs.task import Landed, Task, beating
from graveler.refs import repositories

_PAUSE_SECONDS: Final = 1.0
_LASTING: Final = (HandedOver, HistoryTooLong, StorageFull)  # somebody must act first
_LOG = logging.getLogger("graveler.jobs")


class _End(NamedTuple):
    """How a job has ended.  `cause`: of its failure; empty if it is done.  `attempt`: 1 and up."""

    job: Job
    attempt: int
    cause: str = ""

    @property
    def failed(self) -> bool:
        return bool(self.cause)


def run(ports: Ports, queue: Queue, message: Message, seconds: float = inf) -> bool:
    """Run the job of a message, or a part of it: after `seconds` the message is enqueued again for
    the rest.

    Returns whether a job, or the commit of a batch, has failed.  The log has the cause.
    Errors: `Unavailable`, `Contended`: the message must be delivered again.
    """
    ports = announcing(ports, queue)
    if isinstance(message, BatchJob):
        return _run_batch(ports, message)
    if isinstance(message, PurgeMessage):
        purge.run(ports, message, seconds)
        return False
    until = ports.clock.steady_seconds() + seconds
    read_at = ports.cache.now()
    try:
        repo = open_repository(ports, repositories.get(ports.kv, RepositoryId(message.repository)))
    except NotFound:
        return False
    ports.cache.put_repository(repo.record, read_at)
    owner, job_id = ports.ids.stamp(), JobId(message.job)
    if record.claim(repo, job_id, owner) is not Claim.OURS:
        return False
    begun = ports.clock.steady_seconds()
    try:
        end = _run(repo, job_id, Heartbeat(repo, job_id, owner, until), owner)
        _log_end(message, end, ports.clock.steady_seconds() - begun)
        if kind_of(end.job).is_stepwise:
            with suppress(GravelerError):  # the next collection removes what stays
                checkpoints.forget(repo, job_id)
        return end.failed
    except Stopped as stopped:
        if stopped.why is StopReason.OUT_OF_TIME:
            record.release(repo, job_id, owner)
            queue.enqueue(message)
        elif stopped.why is StopReason.HANDED_OVER:
            with suppress(Unavailable, Contended):  # then one attempt too many is counted
                record.forget_runs(repo, job_id)
    except (Unavailable, Contended):  # the next delivery must not wait for the lease to run out
        with suppress(GravelerError):
            record.release(repo, job_id, owner)
        raise
    return False


def _log_end(message: JobMessage, end: _End, seconds: float) -> None:
    fields = {
        "repository": message.repository,
        "job": message.job,
        "kind": end.job.kind,
        "state": (JobState.FAILED if end.failed else JobState.DONE).name.lower(),
        "attempt": end.attempt,
        "seconds": round(seconds, 3),
    }
    if end.failed:
        fields["cause"] = end.cause
    _LOG.log(logging.WARNING if end.failed else logging.INFO, "job ended", extra=fields)


def _run_batch(ports: Ports, batch: BatchJob) -> bool:
    """Commit a batch.  If a bulk job must commit it, the batch waits for that job.  If a hook
    vetoes the commit, or cannot be reached, or the deployment does not support the commit, the
    batch waits for a later tick.  If the batch is given up, its objects stay uncommitted on the
    branch, for the next commit.  Returns whether the service could not make the commit.
    """
    try:
        intake.work(ports, batch)
    except HandedOver as handed:
        _LOG.info("batch waits for a cluster", extra={**batch._asdict(), "job": handed.job})
    except HookFailed as error:
        fields = {**batch._asdict(), "cause": explained(error)}
        _LOG.warning("batch waits, its hooks did not pass", extra=fields)
    except Unsupported as error:
        fields = {**batch._asdict(), "cause": explained(error)}
        _LOG.error("batch not committed", extra=fields)
        return True
    return False


def _run(repo: OpenRepository, job_id: JobId, pulse: Heartbeat, owner: bytes) -> _End:
    """Run a claimed job until it has ended.

    Errors: `Stopped`; `Unavailable`, `Contended`: the job has not ended.
    """
    job, order = record.status(repo, job_id), record.ordered(repo, job_id)
    task = Task(beating(repo, pulse.beat), job, order, pulse)
    end = _End(job, order.runs + 1)
    try:
        runs_before = kind_of(job).note_run(task)
    except Unsupported as error:
        return end._replace(cause=_give_up(task, error, owner))
    try:
        landed = _worked(task)
    except GravelerError as error:
        if _may_pass(task, error):
            with suppress(Unavailable, Contended):  # then one attempt too many is counted
                record.forget_runs(repo, job_id, left=runs_before)
            raise
        return end._replace(cause=_fail(task, error, owner))
    except Stopped:
        raise
    except Exception as error:
        _LOG.error("job failed: id=%s", job_id, exc_info=error)
        record.fail(repo, job_id, Internal("internal error"), owner)
        return end._replace(cause=explained(error))
    record.end(repo, job_id, Ending(JobState.DONE, landed=landed))
    return end


def _may_pass(task: Task, error: GravelerError) -> bool:
    """Whether a later run may do what this one could not.  A job that is old is not tried again:
    no job restarts for ever.

    Only collections and dumps may run much later than they were ordered: nobody writes what they
    read.  A copy or a reset that runs an hour late could undo what was written since."""
    if not isinstance(error, Unavailable | Contended) or isinstance(error, _LASTING):
        return False
    return kind_of(task.job).is_stepwise and task.age_seconds <= limits.job_seconds_max


def _give_up(task: Task, error: Unsupported, owner: bytes) -> str:
    """End a job that must not be started again.  If an earlier worker landed it and died before it
    recorded that, the job ends as done, else as failed.  Returns the cause of a failure.

    Errors: `Unavailable`: the worker could not determine what has landed.
    """
    repo, job_id = task.repo, task.job.id
    try:
        landed = find_landed(task)
    except HistoryTooLong as unknown:
        record.fail(repo, job_id, unknown, owner)
        return explained(unknown)
    except (Unavailable, Stopped):
        raise
    except Exception as broken:  # else the message would come back for ever
        _LOG.error("job given up: id=%s", job_id, exc_info=broken)
        record.fail(repo, job_id, error, owner)
        return explained(error)
    if landed is None:
        return _fail(task, error, owner)
    record.end(repo, job_id, Ending(JobState.DONE, landed=landed))
    return ""


def _fail(task: Task, error: GravelerError, owner: bytes) -> str:
    """End a job that failed.  If an attempt has noted a swap, find out what became of it first.
    Returns the cause; empty if the job has landed."""
    repo, job_id = task.repo, task.job.id
    outcome: Landed | GravelerError = error
    if not isinstance(error, OutcomeUnknown):
        try:
            outcome = settle(task.again(), error)
        except GravelerError as unknown:  # of the search: a landing may be there
            outcome = OutcomeUnknown(f"{error}; {unknown}")
    if isinstance(outcome, GravelerError):
        record.fail(repo, job_id, outcome, owner)
        return explained(error)
    record.end(repo, job_id, Ending(JobState.DONE, landed=outcome))
    return ""


def _worked(task: Task) -> Landed:
    """Do the work, and retry transient failures.  A retry finds by the idempotency key what has
    already landed, and by the noted swap what others may have taken away again.
    """
    kind = kind_of(task.job)
    for attempt in range(1, limits.job_attempt_count_max):
        try:
            return kind.work(task.again() if attempt > 1 else task)
        except (Unavailable, Contended) as error:
            _LOG.info("job goes on", extra={"job": task.job.id, "cause": explained(error)})
            task.repo.clock.sleep(attempt * _PAUSE_SECONDS)
            task.pulse.beat(always=True)
    return kind.work(task.again())
