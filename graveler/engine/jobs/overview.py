"""Jobs of all kinds in one shape: a page of them, newest first, and a single one.

Batches of arrived objects that wait for their commit count as jobs too; they have no job record.
"""

import json
from collections.abc import Iterator
from enum import StrEnum
from heapq import nsmallest
from itertools import chain
from typing import Final, NamedTuple

from graveler.core import limits
from graveler.core.errors import Code, NotFound
from graveler.core.ids import JobId, parse_branch_id
from graveler.core.records import Job, JobState
from graveler.engine.bulk.job import can_land
from graveler.engine.jobs import record
from graveler.engine.jobs.record import BULK, NO_ORDER, JobOrder
from graveler.engine.ports import OpenRepository, Ports, operation_deadline
from graveler.refs import arrivals, event_rules
from graveler.refs import job_records as records

BATCH: Final = "batch"
_UNITS: Final = {"import": "objects", BULK: "rows", "restore": "commits"}
# Their records are *landing* from the first attempt on, because no attempt of them can be
# cancelled; for a reader they run.
_LANDING_THROUGHOUT: Final = ("gc", "dump", "restore")


class State(StrEnum):
    """The state of a job, as readers see it.  `landing`: it runs, and decides its result."""

    QUEUED = "queued"
    RUNNING = "running"
    LANDING = "landing"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class Progress(NamedTuple):
    """How much is done: a number of `unit`, and how many in a second since the job was recorded."""

    done: int
    unit: str
    per_second: float


class JobView(NamedTuple):
    """A job, its order, and what follows from both."""

    job: Job
    order: JobOrder
    state: State

    @property
    def is_cancellable(self) -> bool:
        """Whether the job can be cancelled now."""
        is_open = self.job.state is JobState.RUNNING and self.state is not State.EXPIRED
        never = (BATCH, *record.NEVER_CANCELLED)
        return is_open and self.job.kind not in never and not self.order.handed.job

    @property
    def committer(self) -> str:
        """The committer of the commit that it is to make; empty for a job that names none."""
        try:
            asked = json.loads(self.order.body)
        except ValueError:
            return ""
        name = asked.get("committer", "") if isinstance(asked, dict) else ""
        return name if isinstance(name, str) else ""

    @property
    def progress(self) -> Progress | None:
        """None: a job of this kind does not count what it does."""
        job = self.job
        unit = _UNITS.get(job.kind, "")
        seconds = (job.updated_ns - job.created_ns) / limits.SECOND_NS
        rate = job.progress / seconds if seconds > 0 else 0.0
        return Progress(job.progress, unit, rate) if unit else None


class JobPlace(NamedTuple):
    """The place of a job in the list: newest first, then by id."""

    before_ns: int
    id: str


FIRST: Final = JobPlace(-(1 << 63), "")  # before every job


class JobQuery(NamedTuple):
    """Which jobs: of one kind, in one state (empty: any), behind a place of the list."""

    kind: str = ""
    state: str = ""
    after: JobPlace = FIRST
    amount: int = limits.jobs_page_count_max


class JobPage(NamedTuple):
    """Jobs, newest first.  `more`: further jobs follow."""

    jobs: tuple[JobView, ...]
    more: bool


def list_jobs(repo: OpenRepository, query: JobQuery) -> JobPage:
    """One page of the jobs that `query` selects.

    Errors: `Unavailable` after the deadline.  Cost: 1 KV request for each 1,000 jobs of the
    repository, 1 for each 1,000 event rules, 1 for their batches, and 1 for the orders of the page.
    """
    deadline = operation_deadline(repo)

    def selected() -> Iterator[Job]:
        for job in chain((seen.job for seen in _recorded(repo)), _batches(repo)):
            deadline.check("list of jobs")
            state = _state(repo, job)
            is_wanted = query.kind in ("", job.kind) and query.state in ("", state)
            if is_wanted and place_of(job) > query.after:
                yield job

    first = nsmallest(query.amount + 1, selected(), key=place_of)
    jobs = first[: query.amount]
    orders = record.orders_of(repo, [job.id for job in jobs])
    views = [JobView(job, orders.get(job.id, NO_ORDER), _state(repo, job)) for job in jobs]
    return JobPage(tuple(views), len(first) > len(jobs))


def place_of(job: Job) -> JobPlace:
    """The place of a job in the list.  Pure."""
    return JobPlace(-job.created_ns, job.id)


def view(repo: OpenRepository, job: Job) -> JobView:
    """A job that was read before, with its order.  Cost: 1 KV request, none for a batch."""
    order = NO_ORDER if job.kind == BATCH else record.ordered(repo, job.id)
    return JobView(job, order, _state(repo, job))


def find_batch(repo: OpenRepository, id: str) -> Job:
    """A batch that waits for its commit, as a job.  Raises `NotFound`.  Cost: 1 KV request for each
    1,000 event rules, and 1 for their batches."""
    for job in _batches(repo):
        if job.id == id:
            return job
    raise NotFound("not found", Code.JOB_NOT_FOUND, job=id)


def _recorded(repo: OpenRepository) -> Iterator[records.VersionedJob]:
    return records.list_all(repo.kv, repo.record)


def _batches(repo: OpenRepository) -> Iterator[Job]:
    now_ns = repo.clock.now_ns()
    by_id = {rule.id: rule for rule in event_rules.of_repository(repo.kv, repo.record)}
    for id, waiting in arrivals.batches_of_rules(repo.kv, repo.record, list(by_id)).items():
        branch = parse_branch_id(by_id[id].branch)
        for batch in waiting.closing:
            begun_ns, owner = batch.first_ns or now_ns, b"" if not batch.runs else b"worker"
            name = JobId(batch.batch)
            yield Job(name, BATCH, JobState.RUNNING, owner, begun_ns, begun_ns, branch=branch)


def _state(ports: Ports, job: Job) -> State:
    if job.kind == BULK and not job.ended and not can_land(ports, job):
        return State.EXPIRED
    if job.state is JobState.RUNNING:
        waits = not job.owner and job.kind != BULK
        return State.QUEUED if waits else State.RUNNING
    if job.state is JobState.LANDING and job.kind in _LANDING_THROUGHOUT:
        return State.RUNNING
    return State(job.state.name.lower())
