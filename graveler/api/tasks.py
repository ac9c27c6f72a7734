"""Endpoints of commits and merges, including the asynchronous ones.

An asynchronous request answers at once with the id of a job.  While the job runs, an equal request
gets the same id.
"""

from typing import Any

from graveler.api import answers, errors, shapes
from graveler.api.answers import Answer
from graveler.api.client_texts import text_for
from graveler.api.new_commits import commit_request, merge_request
from graveler.api.service import Call
from graveler.engine.commits import log
from graveler.jobs import handover
from graveler.jobs.orders import COMMIT, MERGE, JobRequest, commit_asked, merge_asked
from graveler.jobs.requests import ask
from graveler.records import CommitEntry, Job, JobState


def commit_async(call: Call) -> Answer:
    request, force = commit_request(call), call.body.get("force", False)
    return _accepted(call, commit_asked(call.arguments["branch"], request, force=force))


def merge_async(call: Call) -> Answer:
    request, force = merge_request(call), call.body.get("force", False)
    source, branch = call.arguments["sourceRef"], call.arguments["destinationBranch"]
    return _accepted(call, merge_asked(source, branch, request, force=force))


def _accepted(call: Call, request: JobRequest) -> Answer:
    return answers.json({"id": ask(call.desk, request).id}, 202)


def commit_status(call: Call) -> Answer:
    job, waits_for = handover.standing(call.desk, COMMIT, call.arguments["id"])
    shape = _shape(call, job, "commit")
    if waits_for:
        shape["waits_for"] = waits_for
    if job.state is JobState.DONE:
        shape["result"] = shapes.commit(_landed(call, job))
    return answers.json(shape)


def merge_status(call: Call) -> Answer:
    job = handover.status(call.desk, MERGE, call.arguments["id"])
    shape = _shape(call, job, "mergeIntoBranch")
    if job.state is JobState.DONE:
        shape["result"] = {"reference": job.commit}
    return answers.json(shape)


def _landed(call: Call, job: Job) -> CommitEntry:
    return log.get_commit(call.repo, job.commit)


def _shape(call: Call, job: Job, operation: str) -> dict[str, Any]:
    """The status of a job as JSON.

    `operation`: the synchronous operation whose error texts apply to a failure of the job.
    """
    shape: dict[str, Any] = {
        "task_id": job.id,
        "completed": job.ended,
        "update_time": shapes.moment(job.updated_ns),
    }
    if job.ended and job.state is not JobState.DONE:
        failure = handover.failure(call.desk, job)
        shape["status_code"] = errors.status_of(failure)
        names = {"branch": job.branch, "destinationBranch": job.branch}
        shape["error"] = {"message": text_for(failure, operation, names)}
    return shape
