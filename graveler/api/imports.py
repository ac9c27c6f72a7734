"""Endpoints of imports, and the worker that runs them in this process.

An import answers at once and runs in a thread of its own; its record says how far it is.  When the
process dies the record stays `running` until the next start, which fails it.
"""

from datetime import UTC, datetime
from typing import Any

from graveler.api import answers, shapes
from graveler.api.answers import NO_CONTENT, Answer
from graveler.api.service import Call, Service
from graveler.engine import history, importing, jobs, repository
from graveler.engine.importing import ImportPath, ImportRequest
from graveler.ids import NO_COMMIT
from graveler.limits import SECOND_NS, page_count_max
from graveler.records import Job, JobState


def import_start(call: Call) -> Answer:
    body, branch = call.body, call.arguments["branch"]
    made = body["commit"]
    paths = [ImportPath(each["type"], each["path"], each["destination"]) for each in body["paths"]]
    request = ImportRequest(paths, made["message"], call.committer, made.get("metadata", {}))
    job = importing.submit(
        call.ports,
        call.repo,
        branch,
        request,
        owner=call.service.settings.owner,
        force=body.get("force", False),
    )
    call.service.pools.imports.submit(importing.run, call.ports, call.repo, branch, request, job.id)
    return answers.json({"id": job.id}, 202)


def import_status(call: Call) -> Answer:
    job = importing.status(call.ports, call.repo, call.query["id"])
    return answers.json(_shape(call, job))


def import_cancel(call: Call) -> Answer:
    importing.cancel(call.ports, call.repo, call.query["id"])
    return NO_CONTENT


def _shape(call: Call, job: Job) -> dict[str, Any]:
    updated = datetime.fromtimestamp(job.updated_ns / SECOND_NS, UTC)
    shape: dict[str, Any] = {
        "completed": job.state is JobState.DONE,
        "update_time": updated.isoformat().replace("+00:00", "Z"),
        "ingested_objects": job.progress,
    }
    if job.error:
        shape["error"] = {"message": job.error}
    if job.commit != NO_COMMIT:
        shape["metarange_id"] = job.metarange
        shape["commit"] = shapes.commit(history.get_commit(call.ports, call.repo, job.commit))
    return shape


def fail_orphans(service: Service) -> int:
    """End the jobs of processes that have died; how many there were."""
    return _fail_all_but(service, service.settings.owner)


def cancel_running(service: Service) -> int:
    """End the jobs of this process, before it ends itself; how many there were."""
    return _fail_all_but(service, b"")


def _fail_all_but(service: Service, owner: bytes) -> int:
    count, after, more = 0, "", True
    while more:
        found, more = repository.list_page(service.ports, "", "", after, page_count_max)
        for repo in found:
            count += jobs.fail_orphans(service.ports, repo, owner)
            after = repo.id
    return count


ENDPOINTS = {
    "importStart": import_start,
    "importStatus": import_status,
    "importCancel": import_cancel,
}
