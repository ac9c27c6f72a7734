"""Endpoints of imports.  An import answers at once and runs as a job that reports its progress."""

from typing import Any

from graveler.api import answers, shapes
from graveler.api.answers import NO_CONTENT, Answer
from graveler.api.service import Call
from graveler.engine.commits import log
from graveler.engine.imports import run
from graveler.engine.imports.run import ImportPath, ImportRequest
from graveler.ids import NO_COMMIT
from graveler.jobs import handover
from graveler.records import Job, JobState


def import_start(call: Call) -> Answer:
    body, branch = call.body, call.arguments["branch"]
    commit = body["commit"]
    paths = [ImportPath(each["type"], each["path"], each["destination"]) for each in body["paths"]]
    request = ImportRequest(paths, commit["message"], call.committer, commit.get("metadata", {}))
    force = body.get("force", False)
    job = run.submit(call.repo, branch, request, owner=b"", force=force)
    handover.hand_on(call.desk, job)
    return answers.json({"id": job.id}, 202)


def import_status(call: Call) -> Answer:
    job = handover.status(call.desk, run.KIND, call.query["id"])
    return answers.json(_shape(call, job))


def import_cancel(call: Call) -> Answer:
    run.cancel(call.repo, call.query["id"])
    return NO_CONTENT


def _shape(call: Call, job: Job) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "completed": job.state is JobState.DONE,
        "update_time": shapes.moment(job.updated_ns),
        "ingested_objects": job.progress,
    }
    if job.error:
        shape["error"] = {"message": job.error}
    if job.commit != NO_COMMIT:
        shape["metarange_id"] = job.metarange
        shape["commit"] = shapes.commit(log.get_commit(call.repo, job.commit))
    return shape
