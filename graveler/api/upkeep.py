"""Endpoints of maintenance: the retention rule, and garbage collection.

A request for a collection answers at once, and the collection runs as a job.  By default the run is
a rehearsal: it changes nothing and reports what it would condemn and delete.  A collection that
runs on a cluster takes its turn here (`begin_turn`, a lease; `beat_turn`, its heartbeat) and
condemns commits here.
"""

import json
from typing import Any

from graveler import limits
from graveler.api import answers, shapes
from graveler.api.answers import NO_CONTENT, Answer
from graveler.api.service import Call
from graveler.engine.gc import cluster, cluster_turns, collect
from graveler.engine.jobs import record
from graveler.errors import Conflict, Invalid, NotFound
from graveler.jobs import handover, rota
from graveler.jobs.orders import COLLECT, is_dry_run
from graveler.records import Job
from graveler.refs.jobs.turn import Turn


def order_collection(call: Call) -> Answer:
    only_rehearsed = call.body.get("dry_run", True)
    job = rota.rehearse(call.desk) if only_rehearsed else rota.order(call.desk)
    return answers.json({"id": job.id}, 202)


def get_collection(call: Call) -> Answer:
    job = handover.status(call.desk, COLLECT, call.arguments["id"])
    return answers.json(_collection(call, job))


def undo_collection(call: Call) -> Answer:
    """Undo a run.  The id in the path is that of the job while its record exists, or that of the
    run."""
    collect.undo(call.repo, _run(call, call.arguments["id"]))
    return NO_CONTENT


def condemn_commits(call: Call) -> Answer:
    """Condemn commits for a run that a cluster names.

    With `metaranges`: the commits with these metaranges.  Without: all commits that retention does
    not keep, page by page.
    """
    body, amount = call.body, limits.collect_mark_count_max
    sizes = body.get("files", 0), body.get("size_bytes", 0)
    order = cluster.DeletionOrder(call.arguments["id"], *sizes, body.get("turn", ""))
    if "metaranges" in body:
        if "after" in body:
            raise Invalid("after is invalid together with metaranges: leave one out")
        done = cluster.condemn(call.repo, order, body["metaranges"])
    else:
        done = cluster.condemn_page(
            call.repo, order, body.get("after", ""), body.get("amount", amount)
        )
    return answers.json(done._asdict())


def sweep_collection(call: Call) -> Answer:
    run, undone, turn = call.arguments["id"], call.body["undone"], call.body.get("turn", "")
    cluster.sweep(call.repo, run, undone, turn)
    return NO_CONTENT


def begin_turn(call: Call) -> Answer:
    turn = cluster_turns.begin(call.repo, call.body["id"])
    return answers.json(_turn(turn), 201)


def beat_turn(call: Call) -> Answer:
    turn = cluster_turns.beat(call.repo, call.arguments["id"])
    return answers.json(_turn(turn))


def end_turn(call: Call) -> Answer:
    cluster_turns.end(call.repo, call.arguments["id"])
    return NO_CONTENT


def _turn(turn: Turn) -> dict[str, Any]:
    return {"id": turn.job, "until_time": shapes.moment(turn.until_ns)}


def _run(call: Call, id: str) -> str:
    try:
        job = handover.status(call.desk, COLLECT, id)
    except NotFound:
        return id
    result = record.ordered(call.repo, job.id).result
    run: str = json.loads(result)["run"] if result else ""
    if not run:
        raise Conflict(f"nothing to take back: the collection has condemned nothing: id={id}")
    return run


def _collection(call: Call, job: Job) -> dict[str, Any]:
    order = record.ordered(call.repo, job.id)
    shape: dict[str, Any] = {
        "id": job.id,
        "done": job.ended,
        "update_time": shapes.moment(job.updated_ns),
        "dry_run": is_dry_run(order),
    }
    if job.error:
        shape["error"] = {"message": job.error}
    elif job.ended:
        shape |= json.loads(order.result)
    return shape
