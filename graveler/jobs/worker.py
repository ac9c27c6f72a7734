"""The worker: takes a message, claims its job, does it, notes how it ended.

    message ──claim──► work ──beats──► done, failed
               │         ├─ out of time ───► release, enqueue again: another goes on
               │         ├─ taken over ────► nothing more: whoever took over has a message too
               │         └─ handed over ───► nothing more until somebody asks after it
               └─ somebody runs it, or it is over ──► nothing

A worker that dies leaves its message, which is delivered again, and a record whose beats end, which
whoever asks after the job hands on again.  For the functions and the local service.
"""

import logging
from contextlib import suppress
from math import inf
from typing import Final

from graveler import limits
from graveler.engine.jobs import checkpoints, record
from graveler.engine.jobs.record import Claim, Ending, Pulse, Stopped, Why
from graveler.engine.ports import Ports
from graveler.errors import (
    Contended,
    GravelerError,
    HandedOver,
    HistoryTooLong,
    Internal,
    NotFound,
    Unavailable,
    Unsupported,
)
from graveler.events import intake
from graveler.events.intake import BatchJob
from graveler.ids import JobId, RepositoryId
from graveler.jobs import purge
from graveler.jobs.heartbeat import beating
from graveler.jobs.kinds import KINDS, STEPWISE, Landed, Task, find_landed
from graveler.jobs.queue import Message, PurgeMessage, Queue
from graveler.records import JobState, Repository
from graveler.refs.names import repositories

_PAUSE_SECONDS: Final = 1.0
_LOG = logging.getLogger("graveler.jobs")


def run(ports: Ports, queue: Queue, message: Message, seconds: float = inf) -> None:
    """Do what a message asks for, or part of it: after `seconds` the rest is enqueued again.

    Errors: `Unavailable`, after which the message is to be delivered again; what fails for another
    reason is noted in the job's record.
    """
    if isinstance(message, BatchJob):
        _run_batch(ports, message)
        return
    if isinstance(message, PurgeMessage):
        purge.run(ports, message, seconds)
        return
    until = ports.clock.steady_seconds() + seconds
    try:
        repo = repositories.get(ports.kv, RepositoryId(message.repository))
    except NotFound:
        return
    owner, job_id = ports.ids.stamp(), JobId(message.job)
    if record.claim(ports, repo, job_id, owner) is not Claim.OURS:
        return
    try:
        kind = _run(ports, repo, job_id, Pulse(ports, repo, job_id, owner, until), owner)
        if kind in STEPWISE:
            with suppress(GravelerError):  # what stays here, the next collection removes
                checkpoints.forget(ports, repo, job_id)
    except Stopped as stopped:
        if stopped.why is Why.OUT_OF_TIME:
            record.release(ports, repo, job_id, owner)
            queue.enqueue(message)
        elif stopped.why is Why.HANDED_OVER:
            with suppress(Unavailable, Contended):  # a run too many is counted
                record.forget_runs(ports, repo, job_id)
    except Unavailable:  # not begun: whoever is given the message next need not wait for the lease
        with suppress(Unavailable):
            record.release(ports, repo, job_id, owner)
        raise


def _run_batch(ports: Ports, batch: BatchJob) -> None:
    """Commit a batch.  One that a cluster is to commit waits for it; one that is given up leaves
    its objects uncommitted on the branch, for the next commit."""
    try:
        intake.work(ports, batch)
    except HandedOver as handed:
        _LOG.info("batch waits for a cluster: batch=%s job=%s", batch.batch, handed.job)
    except Unsupported as error:
        _LOG.error("batch given up: %s", error)


def _run(ports: Ports, repo: Repository, job_id: JobId, pulse: Pulse, owner: bytes) -> str:
    """The kind of the job, which has ended."""
    # A store that does not answer here has ended nothing: the message is delivered again.
    job, order = record.status(ports, repo, job_id), record.ordered(ports, repo, job_id)
    task = Task(beating(ports, pulse.beat), repo, job, order, pulse)
    if job.kind not in STEPWISE:  # those count for themselves
        try:
            record.note_run(ports, repo, job, order)
        except Unsupported as error:
            _give_up(task, error, owner)
            return job.kind
    try:
        landed = _worked(task)
    except GravelerError as error:
        record.fail(ports, repo, job_id, error, owner)
        return job.kind
    except Stopped:
        raise
    except Exception as error:
        _LOG.error("job failed: id=%s", job_id, exc_info=error)
        record.fail(ports, repo, job_id, Internal("internal error"), owner)
        return job.kind
    record.end(ports, repo, job_id, Ending(JobState.DONE, landed=landed))
    return job.kind


def _give_up(task: Task, error: Unsupported, owner: bytes) -> None:
    """End a job that is not begun once more.  The last worker may have landed it and died before
    it noted so: then it is done.  `Unavailable`: that could not be found out."""
    ports, repo, job_id = task.ports, task.repo, task.job.id
    try:
        landed = find_landed(task)
    except HistoryTooLong as unknown:
        record.fail(ports, repo, job_id, unknown, owner)
        return
    if landed is None:
        record.fail(ports, repo, job_id, error, owner)
    else:
        record.end(ports, repo, job_id, Ending(JobState.DONE, landed=landed))


def _worked(task: Task) -> Landed:
    """Again after failures that pass: what has landed already is found by its mark."""
    work = KINDS.get(task.job.kind)
    if work is None:
        raise Internal(f"job of an unknown kind: kind={task.job.kind}")
    for attempt in range(1, limits.job_attempt_count_max):
        try:
            return work(task)
        except (Unavailable, Contended) as error:
            _LOG.info("job goes on: id=%s error=%s", task.job.id, error)
            task.ports.clock.sleep(attempt * _PAUSE_SECONDS)
            task.pulse.beat(always=True)
    return work(task)
