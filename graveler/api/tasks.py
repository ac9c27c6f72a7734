"""Asynchronous commits and merges.

An asynchronous request answers at once with the id of a job.  While the job runs, an equal request
gets the same id.
"""

from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, UnsetType

from graveler.api import answers, errors, shapes
from graveler.api.answers import Answer, Error, Shape
from graveler.api.client_texts import text_for
from graveler.api.field_types import Integer, Moment
from graveler.api.new_commits import (
    COMMIT_SOMETIMES,
    COMMITS,
    MERGE,
    MERGE_BRANCH_ARN,
    TO_COMMIT,
    TO_MERGE,
    CommitCreation,
    CommitQuery,
    Merge,
    MergeResult,
    commit_request,
    merge_request,
)
from graveler.api.operation import BRANCH_ARN, Runs, operation
from graveler.api.service import Call
from graveler.api.shapes import Commit, TaskCreation
from graveler.auth.permissions import Permission
from graveler.engine.commits import log
from graveler.errors import Refused
from graveler.jobs import handover
from graveler.jobs.orders import COMMIT, JobRequest, commit_asked, merge_asked
from graveler.jobs.orders import MERGE as MERGE_KIND
from graveler.jobs.requests import ask
from graveler.records import Job, JobState

_STATUS: Final = "/async/{id}/status"


class TaskStatus(Shape, frozen=True, kw_only=True):
    """How far a task is."""

    task_id: str
    completed: bool
    update_time: Moment
    status_code: Integer | UnsetType = UNSET
    error: Error | UnsetType = UNSET


class CommitStatus(TaskStatus, frozen=True, kw_only=True):
    """How far a commit is."""

    waits_for: (
        Annotated[str, Meta(description="The bulk job that must commit these rows")] | UnsetType
    ) = UNSET
    result: Commit | UnsetType = UNSET


class MergeStatus(TaskStatus, frozen=True, kw_only=True):
    """How far a merge is."""

    result: MergeResult | UnsetType = UNSET


@operation(
    "commitAsync",
    "POST",
    COMMITS + "/async",
    tag="commits",
    permissions=TO_COMMIT,
    conditional=COMMIT_SOMETIMES,
    answers={202: TaskCreation},
    errors=(Refused,),
    runs=Runs.POOL,
)
def commit_async(call: Call, query: CommitQuery, body: CommitCreation) -> Answer:
    """Begin a commit in the background."""
    request = commit_request(call, query, body)
    return _accepted(call, commit_asked(call.arguments["branch"], request, force=body.force))


@operation(
    "mergeIntoBranchAsync",
    "POST",
    MERGE + "/async",
    tag="refs",
    permissions=TO_MERGE,
    answers={202: TaskCreation},
    errors=(Refused,),
    runs=Runs.POOL,
)
def merge_async(call: Call, body: Merge) -> Answer:
    """Begin a merge in the background."""
    request = merge_request(call, body)
    source, branch = call.arguments["sourceRef"], call.arguments["destinationBranch"]
    return _accepted(call, merge_asked(source, branch, request, force=body.force))


def _accepted(call: Call, request: JobRequest) -> Answer:
    return answers.json(TaskCreation(ask(call.desk, request).id), 202)


@operation(
    "commitAsyncStatus",
    "GET",
    COMMITS + _STATUS,
    tag="commits",
    permissions=(Permission("fs:ReadBranch", BRANCH_ARN),),
    answers={200: CommitStatus},
    runs=Runs.POOL,
)
def commit_status(call: Call) -> Answer:
    """The status of a commit in the background."""
    branch, id = call.arguments["branch"], call.arguments["id"]
    job, waits_for = handover.standing(call.desk, COMMIT, id, branch)
    result: Commit | UnsetType = UNSET
    if job.state is JobState.DONE:
        result = shapes.commit(log.get_commit(call.repo, job.commit))
    shared = _shared(call, job, "commit")
    return answers.json(CommitStatus(**shared, waits_for=waits_for or UNSET, result=result))


@operation(
    "mergeIntoBranchAsyncStatus",
    "GET",
    MERGE + _STATUS,
    tag="refs",
    permissions=(Permission("fs:ReadBranch", MERGE_BRANCH_ARN),),
    answers={200: MergeStatus},
    runs=Runs.POOL,
)
def merge_status(call: Call) -> Answer:
    """The status of a merge in the background."""
    branch, id = call.arguments["destinationBranch"], call.arguments["id"]
    job = handover.status(call.desk, MERGE_KIND, id, branch)
    result = MergeResult(job.commit) if job.state is JobState.DONE else UNSET
    return answers.json(MergeStatus(**_shared(call, job, "mergeIntoBranch"), result=result))


def _shared(call: Call, job: Job, operation: str) -> dict[str, Any]:
    """The fields that both statuses have.

    `operation`: the synchronous operation whose error texts apply to a failure of the job.
    """
    shared: dict[str, Any] = {
        "task_id": job.id,
        "completed": job.ended,
        "update_time": shapes.moment(job.updated_ns),
    }
    if job.ended and job.state is not JobState.DONE:
        failure = handover.failure(call.desk, job)
        shared["status_code"] = errors.status_of(failure)
        names = {"branch": job.branch, "destinationBranch": job.branch}
        shared["error"] = Error(text_for(failure, operation, names))
    return shared
