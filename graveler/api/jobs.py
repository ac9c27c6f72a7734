"""Operations on jobs of all kinds."""

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, UnsetType

from graveler.api import answers, shapes
from graveler.api.answers import Integer, Moment, Page, Shape
from graveler.api.operation import NOTHING, REPO, Query, Resource
from graveler.auth.permissions import Permission
from graveler.core import limits
from graveler.core.errors import Conflict, Invalid, NotFound
from graveler.core.ids import NO_COMMIT
from graveler.core.records import Job as JobRecord
from graveler.engine.jobs import overview, record
from graveler.engine.jobs.overview import BATCH, FIRST, JobPlace, JobQuery, JobView, State
from graveler.http import errors
from graveler.http.answers import NO_CONTENT, Answer
from graveler.http.dispatch import Runs
from graveler.http.permissions import REPO_ARN
from graveler.http.service import Call
from graveler.jobs import schedule
from graveler.jobs.orders import COLLECT, LAND

_graveler: Final = Resource("graveler")

_SHOWN: Final = {
    COLLECT: "collection",
    LAND: "landing",
}  # other kinds have their own names
_STORED: Final = {shown: stored for stored, shown in _SHOWN.items()}
_DIGITS_MAX: Final = 19
_JOBS: Final = REPO + "/jobs"
_READ: Final = (Permission("fs:ReadRepository", REPO_ARN),)

JobState = Literal["queued", "running", "landing", "done", "failed", "cancelled", "expired"]


class JobsQuery(Query, frozen=True):
    """Which page of the jobs."""

    kind: Annotated[str, Meta(description="only jobs of this kind")] = ""
    state: Annotated[Literal["", JobState], Meta(description="only jobs in this state")] = ""
    amount: Annotated[int, Meta(ge=1, le=limits.jobs_page_count_max)] = limits.jobs_page_count_max
    after: Annotated[str, Meta(description="next_offset of the previous page")] = ""


class JobProgress(Shape, frozen=True):
    """How much is done, and how fast."""

    done: Integer
    unit: Annotated[str, Meta(description="objects, rows or commits")]
    per_second: float


class JobError(Shape, frozen=True):
    """Why a job failed."""

    message: str
    code: str
    status_code: Integer


class Job(Shape, frozen=True):
    """A job of any kind."""

    id: str
    kind: Annotated[
        str,
        Meta(description="commit, merge, import, copy, bulk, landing, dump, collection, batch, …"),
    ]
    state: JobState
    create_time: Moment
    update_time: Moment
    cancellable: bool
    attempts: Integer
    branch: str | UnsetType = UNSET
    progress: JobProgress | UnsetType = UNSET
    waits_for: (
        Annotated[str, Meta(description="The bulk job that makes the commit")] | UnsetType
    ) = UNSET
    commit_id: Annotated[str, Meta(description="The commit that the job made")] | UnsetType = UNSET
    error: JobError | UnsetType = UNSET
    committer: (
        Annotated[str, Meta(description="Who ordered the commit that the job is to make")]
        | UnsetType
    ) = UNSET


class JobList(Page, frozen=True):
    """A page of jobs."""

    results: list[Job]


@_graveler.get("listJobs", _JOBS, JobList, *_READ)
def list_jobs(call: Call, query: JobsQuery) -> Answer:
    """List jobs of all kinds, newest first."""
    kind = _STORED.get(query.kind, query.kind)
    page = overview.list_jobs(
        call.repo, JobQuery(kind, query.state, _place(query.after), query.amount)
    )
    results = [_shape(view) for view in page.jobs]
    following = _token(page.jobs[-1].job) if page.more else ""
    count_max = limits.jobs_page_count_max
    pagination = answers.pagination(len(results), following, count_max)
    return answers.json(JobList(pagination, results))


@_graveler.get("getJob", _JOBS + "/{id}", Job, *_READ, runs=Runs.POOL)
def get_job(call: Call) -> Answer:
    """Get a job of any kind."""
    job = _found(call)
    now = job if job.kind == BATCH else schedule.look(call.scheduler, job).job
    return answers.json(_shape(overview.view(call.repo, now)))


@_graveler.delete(
    "cancelJob", _JOBS + "/{id}", NOTHING, ("fs:UpdateRepository", REPO_ARN), errors=(Conflict,)
)
def cancel_job(call: Call) -> Answer:
    """Cancel a job; 409: it has ended, is landing, or waits for a bulk job."""
    job = _found(call)
    if job.kind == BATCH:
        raise Conflict(f"a batch of events cannot be cancelled: id={job.id}")
    record.cancel_any(call.repo, job.id)
    return NO_CONTENT


def _found(call: Call) -> JobRecord:
    id = call.arguments["id"]
    try:
        return record.status(call.repo, id)
    except NotFound:
        return overview.find_batch(call.repo, id)


def _token(job: JobRecord) -> str:
    return f"{job.created_ns}-{job.id}"


def _place(token: str) -> JobPlace:
    if not token:
        return FIRST
    time, _, id = token.partition("-")
    if not (time.isascii() and time.isdecimal() and len(time) <= _DIGITS_MAX):
        raise Invalid("after invalid: it must be next_offset of a page before")
    return JobPlace(-int(time), id)


def _shape(view: JobView) -> Job:
    job, progress = view.job, view.progress
    waits = view.order.handed.job and not job.ended
    return Job(
        job.id,
        _SHOWN.get(job.kind, job.kind),
        view.state.value,
        shapes.moment(job.created_ns),
        shapes.moment(job.updated_ns),
        view.is_cancellable,
        view.order.runs,
        job.branch or UNSET,
        UNSET if progress is None else JobProgress(*progress),
        view.order.handed.job if waits else UNSET,
        UNSET if job.commit == NO_COMMIT else job.commit,
        _failure(view),
        view.committer or UNSET,
    )


def _failure(view: JobView) -> JobError | UnsetType:
    if view.state not in (State.FAILED, State.CANCELLED):
        return UNSET
    error = schedule.error_of(view.job, view.order)
    return JobError(str(error), error.code.value, errors.status_of(error))
