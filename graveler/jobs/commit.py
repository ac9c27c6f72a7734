"""A commit as a job: what one run of it does, and what becomes of one that is handed over.

    commit ──HandedOver──► the job notes the newest token that holds something ──► nobody runs it
    asked after ──a commit has that token──► done, with that commit, whoever made it
                ──the branch still names it──► waits; a worker that is given it tries again

What a bulk job takes in may be less than what the request was to commit: then the worker's next try
commits the rest.  For kinds.py and handover.py.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from graveler import limits
from graveler.engine.bulk import handover
from graveler.engine.commits import commit
from graveler.engine.commits.records import fresh
from graveler.engine.commits.seal import made_once
from graveler.engine.jobs import record as jobs
from graveler.engine.jobs.record import Ending, Handed, Ordered, Stopped, Why
from graveler.engine.ports import Ports
from graveler.errors import Conflict, HandedOver, HistoryTooLong, NoChanges, NotFound
from graveler.ids import BranchId, CommitId, StagingToken
from graveler.jobs.orders import commit_request
from graveler.records import ABSENT, Absent, CommitEntry, Job, JobState, Repository
from graveler.staging import area


class Staged(NamedTuple):
    """The tokens of a branch that hold something, newest first, and its head."""

    tokens: Sequence[StagingToken]
    head: CommitId


def staged(ports: Ports, repo: Repository, branch: str) -> Staged:
    """What a commit is to take in now.  `NotFound`.  Cost: 1 KV request, and 1 a shard at most."""
    record = fresh(ports, repo, BranchId(branch)).branch
    if area.is_empty(ports.kv, record.staging, ports.fanout):
        return Staged(tuple(reversed(record.sealed)), record.commit)
    return Staged(record.tokens_newest_first, record.commit)


def work(ports: Ports, repo: Repository, job: Job, order: Ordered) -> CommitEntry:
    """Commit, or find out that what the job waits for is committed.

    Errors: those of `commit.commit` and of `handover.holder`; `Stopped` if a cluster is to do it,
    `Conflict` if none did so in time.
    """
    landed = _landed(ports, repo, job, order)
    if landed is not ABSENT:
        return landed
    request, force = commit_request(job, order)
    try:
        return commit.commit(ports, repo, job.branch, request, force=force)
    except HandedOver as handed:
        _note(ports, repo, job, order, handed)
        raise Stopped(Why.HANDED_OVER) from handed


def find_landed(
    ports: Ports, repo: Repository, job: Job, order: Ordered
) -> CommitEntry | Literal[Absent.ABSENT]:
    """The commit that an earlier run has landed, or that has what the job waits for.

    Errors: those of `handover.holder`.  Cost: 1 KV request, and 1 for each commit made since."""
    head = fresh(ports, repo, BranchId(job.branch)).branch.commit
    made = made_once(ports, repo, jobs.once(job.id, order), head)
    return made if made is not ABSENT else _landed(ports, repo, job, order)


def _note(
    ports: Ports, repo: Repository, job: Job, order: Ordered, handed_over: HandedOver
) -> None:
    age_seconds = (ports.clock.now_ns() - job.created_ns) / limits.SECOND_NS
    if age_seconds >= limits.import_seconds_max:
        raise Conflict(f"commit given up: no cluster has committed in time: id={job.id}")
    token = order.handed.token
    if not token:
        tokens = staged(ports, repo, job.branch).tokens
        token = tokens[0] if tokens else ""
    if token:
        jobs.note_handed(ports, repo, job.id, Handed(token, handed_over.job))


def _landed(
    ports: Ports, repo: Repository, job: Job, order: Ordered
) -> CommitEntry | Literal[Absent.ABSENT]:
    """The commit that has what the job waits for; ABSENT if there is none yet, or if it does not
    wait.  Errors and cost: those of `handover.holder`."""
    token = StagingToken(order.handed.token)
    if not token:
        return ABSENT
    return handover.holder(ports, repo, BranchId(job.branch), token, order.since)


class Standing(NamedTuple):
    """A job, and the bulk job that it waits for; empty if it runs or has ended."""

    job: Job
    waits_for: str


def standing(ports: Ports, repo: Repository, job: Job) -> Standing:
    """How it stands with a job; one whose commit somebody has made meanwhile is ended here.

    Errors: `Unavailable`.  Cost: none if it has ended, else 1 KV request; if it waits those of
    `handover.holder`, at its end 3 more.
    """
    if job.ended:
        return Standing(job, "")
    order = jobs.ordered(ports, repo, job.id)
    try:
        found = _landed(ports, repo, job, order)
    except (Conflict, HistoryTooLong, NoChanges, NotFound) as error:
        jobs.fail(ports, repo, job.id, error, job.owner)
        return Standing(jobs.status(ports, repo, job.id), "")
    if found is ABSENT:
        return Standing(job, order.handed.job)
    jobs.end(ports, repo, job.id, Ending(JobState.DONE, landed=found))
    return Standing(jobs.status(ports, repo, job.id), "")
