"""Requests that may outlive their connection: begun here, handed to the worker, waited for.

    begin here ──answer──► done
        │ hand_over_seconds
        ▼
    a job ──wait──► answer_seconds: 503, and the same request, asked again, joins the running job

The id of a job follows from what was asked for and counts up, so equal requests meet while one of
them runs; once it has ended and somebody was told, the next equal request is a new one.  What was
begun here is stopped before its swap is sent; once that was sent the outcome is unknown, and nobody
hands on what may have landed.  For the service.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import Final, Literal, NamedTuple

from graveler import errors
from graveler.engine.bulk import handover
from graveler.engine.commits.records import commit_of, fresh
from graveler.engine.jobs import record
from graveler.engine.jobs.record import Handed, NewJob
from graveler.engine.ports import Ports
from graveler.errors import (
    GravelerError,
    HandedOver,
    NoChanges,
    NotFound,
    OutcomeUnknown,
    Unavailable,
)
from graveler.ids import BranchId, StagingToken, parse_branch_id
from graveler.jobs import commit
from graveler.jobs.commit import Standing
from graveler.jobs.heartbeat import beating
from graveler.jobs.orders import COMMIT, Asked
from graveler.jobs.queue import JobMessage, Queue
from graveler.records import ABSENT, Absent, Branch, CommitEntry, Job, JobState, Repository
from graveler.refs.jobs import record as records

_POLL_SECONDS = 0.5
Seen = Job | Literal[Absent.ABSENT]
Direct = Callable[[Ports], CommitEntry]


class Patience(NamedTuple):
    """Seconds after which a request is handed to the worker, and after which it is answered at any
    rate.  Without bounds everything is done at once."""

    hand_over_seconds: float = inf
    answer_seconds: float = inf

    def since(self, arrived_seconds: float) -> "Due":
        """The times of a request that arrived at a time of the steady clock."""
        return Due(*(arrived_seconds + seconds for seconds in self))


class Due(NamedTuple):
    """Times of the steady clock at which a request is handed over, and answered."""

    hand_over: float
    answer: float


AT_ONCE: Final = Patience()


class _TimeUp(Unavailable):
    """What was begun here is to be handed over.  Where a swap was sent it becomes unknown."""


class Desk(NamedTuple):
    """Where requests come in."""

    ports: Ports
    repo: Repository
    queue: Queue


# ---- asked for at once ---------------------------------------------------------------------------


def attend(desk: Desk, asked: Asked, due: Due, direct: Direct) -> CommitEntry:
    """Do it now, if it can be done in time; else have it done, and wait as long as there is time.

    `direct` does it with the ports that it is given.  Errors: those of `direct` or of the job;
    `OutcomeUnknown`: it still runs; `HandedOver`: a cluster is to do it, and the same request, made
    again later, is told the result.  Cost beyond `direct`'s: 1 KV request, none without bounds of
    time and of rows.
    """
    has_bound = asked.kind == COMMIT and desk.ports.settings.commit_rows_max < inf
    if due.hand_over == inf and not has_bound:
        return direct(desk.ports)
    known = newest(desk, asked)
    if known is not ABSENT and not known.ended:
        known, waits_for = commit.standing(desk.ports, desk.repo, known)
        if not known.ended and not waits_for:
            return _joined(desk, known, asked, due.answer, direct)
    try:
        return direct(_until(desk.ports, due.hand_over))
    except HandedOver as handed:
        with suppress(Unavailable):  # then it is told as it is to one who did not ask before
            _note_handed(desk, asked, known, handed)
        raise
    except NoChanges:
        if known is ABSENT or known.state is not JobState.DONE or _was_told(desk, known):
            raise
        return _told(desk, known)  # whoever asked for it was not there any more
    except _TimeUp:
        return _waited(desk, submit(desk, asked, known), due.answer)


def _note_handed(desk: Desk, asked: Asked, known: Seen, handed: HandedOver) -> None:
    """Put on record, for the same request, what was handed over and no worker is to run."""
    if known is not ABSENT and not known.ended:
        return
    found = commit.staged(desk.ports, desk.repo, asked.branch)
    if found.tokens:
        new = _new_job(desk, asked, known, found.head)
        handed_to = Handed(found.tokens[0], handed.job)
        record.begin(desk.ports, desk.repo, replace(new, handed=handed_to))


def _until(ports: Ports, end: float) -> Ports:
    def check() -> None:
        if ports.clock.steady_seconds() >= end:
            raise _TimeUp("not done in time")

    return beating(ports, check)


def _joined(desk: Desk, known: Job, asked: Asked, answer: float, direct: Direct) -> CommitEntry:
    """The result of a job that ran already; it must hold what this request would have held."""
    wanted: Sequence[StagingToken] = ()
    if known.kind == COMMIT:
        wanted = commit.staged(desk.ports, desk.repo, known.branch).tokens
    revive(desk, known)
    made = _waited(desk, known, answer)
    if known.kind == COMMIT:
        left = _record(desk, known).tokens_newest_first
        whole = not any(token in left for token in wanted)
    else:  # the source of a merge may have moved on
        whole = asked.said.get("allow_empty", True)
    if whole:
        return made
    try:
        return direct(_until(desk.ports, answer))
    except NoChanges:
        return made


def _record(desk: Desk, job: Job) -> Branch:
    return fresh(desk.ports, desk.repo, BranchId(job.branch)).branch


def _waited(desk: Desk, job: Job, answer: float) -> CommitEntry:
    clock = desk.ports.clock
    while clock.steady_seconds() < answer:
        now = record.status(desk.ports, desk.repo, job.id)
        now, waits_for = commit.standing(desk.ports, desk.repo, now)
        if now.ended:
            return _told(desk, now)
        if waits_for:
            handover.check(desk.ports, desk.repo, BranchId(job.branch), _record(desk, job))
        clock.sleep(_POLL_SECONDS)
    raise OutcomeUnknown(
        f"{job.kind} still runs, and the same request joins it; outcome unknown: job={job.id}"
    )


def _told(desk: Desk, job: Job) -> CommitEntry:
    """The result of a job that has ended, or its error."""
    record.note_told(desk.ports, desk.repo, job.id)
    if job.state is not JobState.DONE:
        raise failure(desk, job)
    return CommitEntry(job.commit, commit_of(desk.ports, desk.repo, job.commit))


def _was_told(desk: Desk, job: Job) -> bool:
    return record.ordered(desk.ports, desk.repo, job.id).told


def failure(desk: Desk, job: Job) -> GravelerError:
    """The error that ended a job, of its kind.  Cost: 1 KV request."""
    name = record.ordered(desk.ports, desk.repo, job.id).error_kind
    kind = getattr(errors, name, errors.Internal)
    if kind is errors.RangeUnsatisfiable or not issubclass(kind, GravelerError):
        kind = errors.Internal
    found: GravelerError = kind(job.error)
    return found


# ---- asked for later -----------------------------------------------------------------------------


def newest(desk: Desk, asked: Asked) -> Seen:
    """The last job of the same request.  Cost: 1 KV request."""
    found = records.list_some(desk.ports.kv, desk.repo, asked.stem)
    return found[-1].job if found else ABSENT


def submit(desk: Desk, asked: Asked, known: Seen) -> Job:
    """Note a job and hand it to the worker; the running one of the same request, if there is one.

    `known`: what `newest` answered.  Errors: `NotFound`, `Unavailable`.  Cost: 2 KV requests and a
    message.
    """
    if known is not ABSENT and not known.ended:
        revive(desk, known)
        return known
    return begin(desk, asked, known)


def begin(desk: Desk, asked: Asked, known: Seen) -> Job:
    """As `submit`, beside a job that runs already."""
    since = ""
    if asked.branch:
        since = fresh(desk.ports, desk.repo, parse_branch_id(asked.branch)).branch.commit
    job = record.begin(desk.ports, desk.repo, _new_job(desk, asked, known, since))
    hand_on(desk, job)
    return job


def _new_job(desk: Desk, asked: Asked, known: Seen, since: str) -> NewJob:
    job_id = record.next_id(desk.ports, asked.stem, known)
    return NewJob(job_id, asked.kind, asked.branch, asked.body, since)


def hand_on(desk: Desk, job: Job) -> None:
    """Tell the worker of a job that is on record.  A message that cannot be sent is only late:
    whoever asks after the job when it has been silent for a while sends it again.  1 message."""
    with suppress(Unavailable):
        desk.queue.enqueue(JobMessage(desk.repo.id, job.id))


def status(desk: Desk, kind: str, job_id: str) -> Job:
    """A job of that kind as it is now; one that nobody runs is handed on again.  `NotFound`.

    Whoever sees that it is done has been told."""
    return standing(desk, kind, job_id).job


def standing(desk: Desk, kind: str, job_id: str) -> Standing:
    """As `status`, and what the job waits for."""
    job = record.status(desk.ports, desk.repo, job_id)
    if job.kind != kind:
        raise NotFound("not found")
    now = commit.standing(desk.ports, desk.repo, job) if kind == COMMIT else Standing(job, "")
    revive(desk, now.job)
    if now.job.state is JobState.DONE and not _was_told(desk, now.job):
        with suppress(Unavailable):  # then it is told once more than it need be
            record.note_told(desk.ports, desk.repo, job.id)
    return now


def revive(desk: Desk, job: Job) -> None:
    """Hand a job to the worker again if its runner has been silent for longer than its lease."""
    if record.is_silent(desk.ports, job):
        record.release(desk.ports, desk.repo, job.id, job.owner)
        hand_on(desk, job)


def revive_all(desk: Desk) -> int:
    """Hand on every job of a repository whose process is dead; how many.

    For a store that one process at a time can open, before it runs any."""
    found = record.free_all(desk.ports, desk.repo)
    for job in found:
        hand_on(desk, job)
    return len(found)


def revive_silent(desk: Desk) -> int:
    """Hand on every job of a repository whose runner has been silent for longer than its lease; how
    many.  Cost: 1 KV request for each 1,000 jobs, 2 and a message for each that is."""
    silent = [
        seen.job
        for seen in records.list_all(desk.ports.kv, desk.repo)
        if record.is_silent(desk.ports, seen.job)
    ]
    for job in silent:
        revive(desk, job)
    return len(silent)
