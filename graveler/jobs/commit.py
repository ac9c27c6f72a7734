"""A commit as a job: what one attempt does, and how a commit that was handed over ends.

commit ──HandedOver──► the job records the newest token with rows ──► no worker runs the job
client asks ──a commit has folded in that token──► done, with that commit, whoever made it
            ──the branch still names the token──► waits; a worker that gets the job retries
"""

from collections.abc import Sequence
from typing import NamedTuple

from graveler.core import limits
from graveler.core.errors import Conflict, HandedOver, HistoryTooLong, NoChanges, NotFound
from graveler.core.ids import BranchId, CommitId, StagingToken
from graveler.core.records import ABSENT, CommitEntry, Job, JobState
from graveler.engine.commits import commit, search
from graveler.engine.commits.heads import fresh
from graveler.engine.commits.search import find_by_key
from graveler.engine.jobs import record as jobs
from graveler.engine.jobs.record import Ending, HandedCommit, JobOrder, Stopped, StopReason
from graveler.engine.ports import OpenRepository
from graveler.jobs.orders import commit_request
from graveler.jobs.task import Landed, Task
from graveler.staging import area


class StagedTokens(NamedTuple):
    """The tokens of a branch that hold rows, newest first, and the head of the branch."""

    tokens: Sequence[StagingToken]
    head: CommitId


def staged(repo: OpenRepository, branch: str) -> StagedTokens:
    """What a commit must fold in now.  Errors: `NotFound`.  Cost: 1 KV request, and at most 1 for
    each shard.
    """
    record = fresh(repo, BranchId(branch)).branch
    if area.is_empty(repo.kv, record.staging, repo.fanout):
        return StagedTokens(tuple(reversed(record.sealed)), record.commit)
    return StagedTokens(record.tokens_newest_first, record.commit)


def work(task: Task) -> CommitEntry:
    """Commit, or find the commit that already contains what the job waits for.

    Errors: those of `commit.commit` and of `search.holder`; `Stopped` if a cluster must do it;
    `Conflict` if no cluster did so in time.
    """
    landed = _landed(task.repo, task.job, task.order)
    if landed is not ABSENT:
        return landed
    request, force = commit_request(task.job, task.order)
    request = request._replace(once=task.once())
    try:
        return commit.commit(task.repo, task.job.branch, request, force=force)
    except HandedOver as handed:
        _note(task, handed)
        raise Stopped(StopReason.HANDED_OVER) from handed


def find_landed(task: Task) -> Landed:
    """The commit that an earlier attempt has landed, or that contains what the job waits for.

    Errors: those of `search.holder`.  Cost: 1 KV request, those of `search.find_by_key`, and those
    of `search.holder`.
    """
    repo, job, order, _ = task
    head = fresh(repo, job.branch).branch.commit
    entry = find_by_key(repo, jobs.once(job.id, order), head)
    return entry if entry is not ABSENT else _landed(repo, job, order)


def _note(task: Task, handed_over: HandedOver) -> None:
    if task.age_seconds >= limits.import_seconds_max:
        raise Conflict(f"commit given up: no cluster committed it in time: id={task.job.id}")
    token = task.order.handed.token
    if not token:
        tokens = staged(task.repo, task.job.branch).tokens
        token = tokens[0] if tokens else ""
    if token:
        jobs.note_handed(task.repo, task.job.id, HandedCommit(token, handed_over.job))


def _landed(repo: OpenRepository, job: Job, order: JobOrder) -> Landed:
    """The commit that contains what the job waits for; ABSENT if there is none yet, or if the job
    does not wait.  Errors and cost: those of `search.holder`.
    """
    token = StagingToken(order.handed.token)
    if not token:
        return ABSENT
    return search.holder(repo, job.branch, token, order.since)


class JobStanding(NamedTuple):
    """A job, and the bulk job that it waits for; `waits_for` is empty if the job runs or has
    ended.
    """

    job: Job
    waits_for: str


def standing(repo: OpenRepository, job: Job) -> JobStanding:
    """The state of a commit job.  If its commit has been made meanwhile, the job is ended here.

    Errors: `Unavailable`.  Cost: none if the job has ended, else 1 KV request; if it waits, that of
    `search.holder` too, and 3 more at its end.
    """
    if job.ended:
        return JobStanding(job, "")
    order = jobs.ordered(repo, job.id)
    try:
        landed = _landed(repo, job, order)
    except (Conflict, HistoryTooLong, NoChanges, NotFound) as error:
        jobs.fail(repo, job.id, error, job.owner)
        return JobStanding(jobs.status(repo, job.id), "")
    if landed is ABSENT:
        return JobStanding(job, order.handed.job)
    jobs.end(repo, job.id, Ending(JobState.DONE, landed=landed))
    return JobStanding(jobs.status(repo, job.id), "")
