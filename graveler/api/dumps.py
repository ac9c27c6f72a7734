"""Endpoints of dumps and restores of refs: synchronous, or as a job."""

import json
from collections.abc import Mapping
from typing import Any

from graveler.api import answers, shapes
from graveler.api.answers import Answer
from graveler.api.service import Call
from graveler.engine.dumps import dump, restore
from graveler.engine.jobs import record
from graveler.engine.ports import operation_deadline
from graveler.jobs import handover
from graveler.jobs.heartbeat import beating
from graveler.jobs.orders import DUMP, RESTORE
from graveler.jobs.requests import ask_dump, ask_restore
from graveler.records import Job, JobState
from graveler.refs.names.restores import DumpIds


def dump_submit(call: Call) -> Answer:
    return answers.json({"id": ask_dump(call.desk).id}, 202)


def dump_status(call: Call) -> Answer:
    job = handover.status(call.desk, DUMP, call.query["task_id"])
    shape = _status(job)
    if job.state is JobState.DONE:
        shape["refs"] = _refs(json.loads(record.ordered(call.repo, job.id).result))
    return answers.json(shape)


def dump_refs(call: Call) -> Answer:
    """Dump refs and commits within this request.

    The dump stops when the deadline of the request passes.  An unfinished dump does not count.
    """
    deadline = operation_deadline(call.repo)
    repo = beating(call.repo, lambda: deadline.check("dump"))
    return answers.json(_refs(dump.dump(repo)._asdict()), 201)


def restore_submit(call: Call) -> Answer:
    return answers.json({"id": ask_restore(call.desk, _dump(call), force=_force(call)).id}, 202)


def restore_status(call: Call) -> Answer:
    return answers.json(_status(handover.status(call.desk, RESTORE, call.query["task_id"])))


def restore_refs(call: Call) -> Answer:
    """Restore refs and commits within this request.

    The restore stops when the deadline of the request passes.  The same request, or a restore as a
    job, then continues it.
    """
    deadline = operation_deadline(call.repo)
    repo = beating(call.repo, lambda: deadline.check("restore"))
    restore.restore(repo, _dump(call), force=_force(call))
    return Answer(200)


def _dump(call: Call) -> DumpIds:
    kinds = ("commits", "tags", "branches")
    return restore.parse_ids(*(call.body[f"{kind}_meta_range_id"] for kind in kinds))


def _force(call: Call) -> bool:
    force: bool = call.body.get("force", False)
    return force


def _status(job: Job) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "id": job.id,
        "done": job.ended,
        "update_time": shapes.moment(job.updated_ns),
    }
    if job.error:
        shape["error"] = job.error
    return shape


def _refs(ids: Mapping[str, str]) -> dict[str, str]:
    return {f"{kind}_meta_range_id": ids[kind] for kind in ("commits", "tags", "branches")}
