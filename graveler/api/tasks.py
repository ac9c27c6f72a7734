"""Endpoints of commits and merges that the caller does not wait for.

An order answers at once; the same order, given again while it runs, answers the same id.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from graveler.api import answers, errors, shapes
from graveler.api.answers import Answer
from graveler.api.commits import commit_request, merge_request
from graveler.api.service import Call
from graveler.engine import history, merge
from graveler.engine.heads import head_of
from graveler.engine.messages import check_message, check_metadata
from graveler.engine.ports import check_writable
from graveler.jobs import handing
from graveler.jobs.orders import COMMIT, MERGE, Asked, commit_asked, merge_asked
from graveler.records import CommitEntry, Job, JobState


def commit_async(call: Call) -> Answer:
    request, force = commit_request(call), call.body.get("force", False)
    _check(call, request.message, request.metadata, force=force)
    return _accepted(call, commit_asked(call.arguments["branch"], request, force=force))


def merge_async(call: Call) -> Answer:
    """Of the commit that the source is now."""
    request, force = merge_request(call), call.body.get("force", False)
    source, branch = call.arguments["sourceRef"], call.arguments["destinationBranch"]
    request = replace(request, message=request.message or merge.message(source, branch))
    _check(call, request.message, request.metadata, force=force)
    merge.parse_strategy(request.strategy)
    theirs = head_of(call.ports, call.repo, source).id
    return _accepted(call, merge_asked(theirs, branch, request, force=force))


def _check(call: Call, message: str, metadata: Mapping[str, str], *, force: bool) -> None:
    """What can be refused before anything is begun is."""
    check_writable(call.repo, force)
    check_message(message)
    check_metadata(metadata)


def _accepted(call: Call, asked: Asked) -> Answer:
    return answers.json({"id": handing.ask(call.desk, asked).id}, 202)


def commit_status(call: Call) -> Answer:
    job = handing.status(call.desk, COMMIT, call.arguments["id"])
    shape = _shape(call, job, "commit")
    if job.state is JobState.DONE:
        shape["result"] = shapes.commit(_landed(call, job))
    return answers.json(shape)


def merge_status(call: Call) -> Answer:
    job = handing.status(call.desk, MERGE, call.arguments["id"])
    shape = _shape(call, job, "mergeIntoBranch")
    if job.state is JobState.DONE:
        shape["result"] = {"reference": job.commit}
    return answers.json(shape)


def _landed(call: Call, job: Job) -> CommitEntry:
    return history.get_commit(call.ports, call.repo, job.commit)


def _shape(call: Call, job: Job, operation: str) -> dict[str, Any]:
    """`operation`: the one of which the same failure would be the answer."""
    shape: dict[str, Any] = {
        "task_id": job.id,
        "completed": job.ended,
        "update_time": shapes.moment(job.updated_ns),
    }
    if job.ended and job.state is not JobState.DONE:
        failure = handing.failure(call.desk, job)
        shape["status_code"] = errors.status_of(failure)
        shape["error"] = {"message": errors.text_for(failure, operation, {"branch": job.branch})}
    return shape


ENDPOINTS = {
    "commitAsync": commit_async,
    "commitAsyncStatus": commit_status,
    "mergeIntoBranchAsync": merge_async,
    "mergeIntoBranchAsyncStatus": merge_status,
}
