"""Endpoints of dumps of refs: synchronous, or as a job."""

import json
from collections.abc import Mapping
from typing import Any

from graveler.api import answers, shapes
from graveler.api.answers import Answer
from graveler.api.service import Call
from graveler.engine.dumps import dump
from graveler.engine.jobs import record
from graveler.engine.ports import operation_deadline
from graveler.jobs import handover
from graveler.jobs.heartbeat import beating
from graveler.jobs.orders import DUMP
from graveler.jobs.requests import ask_dump
from graveler.records import JobState


def dump_submit(call: Call) -> Answer:
    return answers.json({"id": ask_dump(call.desk).id}, 202)


def dump_status(call: Call) -> Answer:
    job = handover.status(call.desk, DUMP, call.query["task_id"])
    shape: dict[str, Any] = {
        "id": job.id,
        "done": job.ended,
        "update_time": shapes.moment(job.updated_ns),
    }
    if job.error:
        shape["error"] = job.error
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


def _refs(ids: Mapping[str, str]) -> dict[str, str]:
    return {f"{kind}_meta_range_id": ids[kind] for kind in ("commits", "tags", "branches")}
