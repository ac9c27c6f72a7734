"""Endpoints of jobs of all kinds: list, get, cancel."""

from typing import Any, Final

from graveler import limits
from graveler.api import answers, errors, shapes
from graveler.api.answers import NO_CONTENT, Answer
from graveler.api.service import Call
from graveler.engine.jobs import overview, record
from graveler.engine.jobs.overview import BATCH, FIRST, JobPlace, JobQuery, JobView, State
from graveler.errors import Conflict, Invalid, NotFound
from graveler.ids import NO_COMMIT
from graveler.jobs import handover
from graveler.jobs.orders import COLLECT, LAND
from graveler.records import Job

_SHOWN: Final = {COLLECT: "collection", LAND: "landing"}  # other kinds have their own names
_STORED: Final = {shown: stored for stored, shown in _SHOWN.items()}
_DIGITS_MAX: Final = 19


def list_jobs(call: Call) -> Answer:
    query = call.query
    kind = _STORED.get(query["kind"], query["kind"])
    page = overview.list_jobs(
        call.repo, JobQuery(kind, query["state"], _place(query["after"]), query["amount"])
    )
    results = [_shape(view) for view in page.jobs]
    following = _token(page.jobs[-1].job) if page.more else ""
    count_max = limits.jobs_page_count_max
    pagination = answers.pagination(len(results), following, count_max)
    return answers.json({"pagination": pagination, "results": results})


def get_job(call: Call) -> Answer:
    job = _found(call)
    now = job if job.kind == BATCH else handover.look(call.desk, job).job
    return answers.json(_shape(overview.view(call.repo, now)))


def cancel_job(call: Call) -> Answer:
    job = _found(call)
    if job.kind == BATCH:
        raise Conflict(f"a batch of events cannot be cancelled: id={job.id}")
    record.cancel_any(call.repo, job.id)
    return NO_CONTENT


def _found(call: Call) -> Job:
    id = call.arguments["id"]
    try:
        return record.status(call.repo, id)
    except NotFound:
        return overview.find_batch(call.repo, id)


def _token(job: Job) -> str:
    return f"{job.created_ns}-{job.id}"


def _place(token: str) -> JobPlace:
    if not token:
        return FIRST
    time, _, id = token.partition("-")
    if not (time.isascii() and time.isdecimal() and len(time) <= _DIGITS_MAX):
        raise Invalid("after invalid: it must be next_offset of a page before")
    return JobPlace(-int(time), id)


def _shape(view: JobView) -> dict[str, Any]:
    job, progress = view.job, view.progress
    shape: dict[str, Any] = {
        "id": job.id,
        "kind": _SHOWN.get(job.kind, job.kind),
        "state": view.state,
        "create_time": shapes.moment(job.created_ns),
        "update_time": shapes.moment(job.updated_ns),
        "cancellable": view.is_cancellable,
        "attempts": view.order.runs,
    }
    if job.branch:
        shape["branch"] = job.branch
    if progress is not None:
        shape["progress"] = progress._asdict()
    if view.order.handed.job and not job.ended:
        shape["waits_for"] = view.order.handed.job
    if job.commit != NO_COMMIT:
        shape["commit_id"] = job.commit
    if view.state in (State.FAILED, State.CANCELLED):
        error = handover.error_of(job, view.order)
        status, code = errors.status_of(error), error.code.value
        shape["error"] = {"message": str(error), "code": code, "status_code": status}
    return shape
