"""Requests that may outlive their connection: begun in the request, handed to a worker, waited for.

    begin here ──answer──► done
        │ hand_over_seconds
        ▼
    a job ──wait──► answer_seconds: 503; the same request, sent again, joins the running job

Work begun in the request is stopped before a slow request, never in its swap.  If a swap got no
confirmation and a later try is stopped, the outcome is unknown, and nothing is handed over.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from math import inf
from typing import Final, NamedTuple

from graveler.core.errors import (
    Contended,
    GravelerError,
    HandedOver,
    NoChanges,
    OutcomeUnknown,
    Unavailable,
)
from graveler.core.records import ABSENT, CommitEntry, Job, JobState
from graveler.engine.bulk import job as bulk_handover
from graveler.engine.commits.heads import commit_of, fresh
from graveler.engine.jobs import record
from graveler.engine.jobs.record import HandedCommit
from graveler.engine.ports import OpenRepository
from graveler.jobs import commit, join, schedule
from graveler.jobs.join import Joining
from graveler.jobs.orders import COMMIT, JobRequest
from graveler.jobs.schedule import Scheduler, Seen
from graveler.jobs.task import beating

_POLL_SECONDS = 0.5
Direct = Callable[[OpenRepository], CommitEntry]


class TimeLimits(NamedTuple):
    """Time limits of a request, in seconds: when it is handed to the worker, and when it must be
    answered.

    Without limits, everything is done in the request.
    """

    hand_over_seconds: float = inf
    answer_seconds: float = inf

    def since(self, arrived_seconds: float) -> "Deadlines":
        """The deadlines of a request that arrived at `arrived_seconds` of the steady clock."""
        return Deadlines(*(arrived_seconds + seconds for seconds in self))


class Deadlines(NamedTuple):
    """Times of the steady clock at which a request is handed over and at which it must be
    answered.
    """

    hand_over: float
    answer: float


AT_ONCE: Final = TimeLimits()


class TimeUp(Unavailable):
    """Work that was begun in the request must be handed over.  If an earlier swap of it got no
    confirmation, the outcome becomes unknown instead.
    """


class WaitingRequest(NamedTuple):
    """A request that waits: `direct` does its work, and it must be answered at `answer`."""

    request: JobRequest
    answer: float
    direct: Direct


# ---- requests that wait --------------------------------------------------------------------------


def run_or_enqueue(
    scheduler: Scheduler, request: JobRequest, due: Deadlines, direct: Direct
) -> CommitEntry:
    """Do the work in the request if there is time; else hand it to a worker and wait for the
    result.

    `direct` does the work with the repository that it is given.

    If an equal request already runs as a job, wait for that job, and do the work only if the job's
    result or error may not be that of this request (join.py).

    Errors: those of `direct` or of the job; `OutcomeUnknown`: the job still runs, or the store does
    not answer any more; `HandedOver`: a cluster must do the work, and the same request, sent again
    later, returns the result.  Cost beyond that of `direct`: 1 KV request; none if neither time nor
    rows are limited.  After a hand-over: 2 more KV requests and a message, 1 or more KV requests
    for each poll, and at most 4 at the end.  If the request joins a job: also those of
    `join.begin_joining` and of `join.find_whole` or `join.find_landed`, and those of `direct` if it
    does the work.  If there is nothing to do, and a job has ended: at most 5, and 1 for each commit
    since that is not cached.
    """
    has_bound = request.kind == COMMIT and scheduler.repo.settings.commit_rows_max < inf
    if due.hand_over == inf and not has_bound:
        return direct(scheduler.repo)
    waiting = WaitingRequest(request, due.answer, direct)
    known = schedule.newest(scheduler, request)
    if known is not ABSENT and not known.ended:
        with unknown_unless_read(known):
            known, waits_for = schedule.current(scheduler, known)
        if not known.ended and not waits_for:
            return _join(scheduler, known, waiting)
    try:
        return _work(scheduler, waiting, known, due.hand_over)
    except NoChanges:
        if known is ABSENT or not _is_owed(scheduler, known):
            raise
        return _deliver(scheduler, known)  # no client has received this result yet


def _note_handed(
    scheduler: Scheduler, request: JobRequest, known: Seen, handed: HandedOver
) -> None:
    """Record a job for a commit that was handed over, so that the same request finds the result.
    No worker runs this job.
    """
    if known is not ABSENT and not known.ended:
        return
    staged = commit.staged(scheduler.repo, request.branch)
    if staged.tokens:
        new = schedule.new_job(scheduler, request, known, staged.head)
        handed_to = HandedCommit(staged.tokens[0], handed.job)
        record.begin(scheduler.repo, new._replace(handed=handed_to))


def timed(repo: OpenRepository, end: float) -> OpenRepository:
    """The repository for work that must be handed over at `end`: it raises `TimeUp` before a slow
    request, and before hooks.  No request."""

    def check() -> None:
        if repo.clock.steady_seconds() >= end:
            raise TimeUp("not done in time")

    def defer() -> None:
        raise TimeUp("hooks run in a worker")

    timed = beating(repo, check)
    # The service behind a gateway sends no webhook: it answers in time, and reaches no other host.
    return timed if end == inf else replace(timed, hooks=repo.hooks.deferred(defer))


def _work(scheduler: Scheduler, waiting: WaitingRequest, known: Seen, end: float) -> CommitEntry:
    """Do the work in the request until `end`; else hand it to a worker and wait for the result.

    `known`: the newest job of the same request; it has ended, or waits for a bulk job.
    """
    try:
        return waiting.direct(timed(scheduler.repo, end))
    except HandedOver as handed:
        with suppress(Unavailable):  # then a repeated request is treated as a new one
            _note_handed(scheduler, waiting.request, known, handed)
        raise
    except TimeUp:
        return _deliver(
            scheduler,
            wait_for(scheduler, schedule.submit(scheduler, waiting.request, known), waiting.answer),
        )


def _join(scheduler: Scheduler, known: Job, waiting: WaitingRequest) -> CommitEntry:
    """Wait for a job of the same request that still runs, and return its result.

    If the result, or the error, may not be that of this request, do the work of the request then,
    once.  That work may be handed to a worker, too.
    """
    with unknown_unless_read(known):
        joining = join.begin_joining(scheduler.repo, waiting.request)
        schedule.revive(scheduler, known)
    ended = wait_for(scheduler, known, waiting.answer)
    outcome = _outcome(scheduler, ended)
    if isinstance(outcome, CommitEntry):
        with unknown_unless_read(known):  # the job has made a commit, whatever the own work makes
            entry = _complete(scheduler, waiting, ended, joining, outcome)
        schedule.note_delivered(scheduler, ended)
        return entry
    landed = join.find_landed(scheduler.repo, joining, ended, outcome)
    return _work(scheduler, waiting, ended, waiting.answer) if landed is ABSENT else landed


def _complete(
    scheduler: Scheduler, waiting: WaitingRequest, ended: Job, joining: Joining, done: CommitEntry
) -> CommitEntry:
    """The commit that has what the request must contain, after its job has made `done`."""
    try:
        whole = join.find_whole(scheduler.repo, joining, ended.id, done)
        return _work(scheduler, waiting, ended, waiting.answer) if whole is ABSENT else whole
    except NoChanges:
        settled = join.find_settled(scheduler.repo, joining, ended.id, done)
        if settled is ABSENT:
            raise
        return settled


def wait_for(scheduler: Scheduler, job: Job, answer: float) -> Job:
    """The job when it has ended.

    Errors: `OutcomeUnknown`: it still runs, or the store does not answer; `HandedOver`.  Cost of
    each poll: 1 KV request; of a commit, also that of `commit.standing`.
    """
    clock = scheduler.repo.clock
    while clock.steady_seconds() < answer:
        with unknown_unless_read(job):
            now, waits_for = schedule.current(scheduler, record.status(scheduler.repo, job.id))
            if now.ended:
                return now
            if waits_for:
                bulk_handover.check_handover(
                    scheduler.repo, job.branch, fresh(scheduler.repo, job.branch).branch
                )
        clock.sleep(_POLL_SECONDS)
    raise OutcomeUnknown(
        f"{job.kind} still runs, and the same request joins it; outcome unknown: job={job.id}"
    )


def _deliver(scheduler: Scheduler, job: Job) -> CommitEntry:
    """The result of a job that has ended, or its error.  Records that a client has received it."""
    outcome = _outcome(scheduler, job)
    schedule.note_delivered(scheduler, job)
    if isinstance(outcome, GravelerError):
        raise outcome
    return outcome


def _outcome(scheduler: Scheduler, job: Job) -> CommitEntry | GravelerError:
    """The result of a job that has ended, or its error, as a value."""
    with unknown_unless_read(job):
        if job.state is not JobState.DONE:
            return schedule.failure(scheduler, job)
        return CommitEntry(job.commit, commit_of(scheduler.repo, job.commit))


@contextmanager
def unknown_unless_read(job: Job) -> Iterator[None]:
    """A context for what follows once a job may have landed.

    An `Unavailable` or `Contended` that leaves the block changed nothing, but the job may have: it
    is raised as `OutcomeUnknown`, which names the job.  Other errors pass unchanged.
    """
    try:
        yield
    except (HandedOver, OutcomeUnknown):
        raise
    except (Unavailable, Contended) as error:
        raise OutcomeUnknown(
            f"{job.kind} runs or has ended, but its result is not known: {error}; outcome unknown: "
            f"job={job.id}"
        ) from error


def _is_owed(scheduler: Scheduler, job: Job) -> bool:
    """Whether a job has made a commit that no client has received yet, and that no reset took away.

    Errors: `NotFound`.  Cost: none if the job is not done, else 1 KV request; if no client has
    received the commit, also those of `join.is_in_history`.
    """
    if job.state is not JobState.DONE:
        return False
    with unknown_unless_read(job):
        if schedule.is_delivered(scheduler, job):
            return False
        return join.is_in_history(scheduler.repo, job.branch, job.commit)
