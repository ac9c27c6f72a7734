"""Endpoints for clusters: bulk jobs, staged rows of a branch, roots of a garbage collection.

The data itself never passes through this service.  A cluster writes ranges and objects to the
storage with its own role, and finally names one metarange.
"""

from base64 import b64encode
from typing import Any

from graveler import break_json, limits
from graveler.api import answers, shapes
from graveler.api.answers import NO_CONTENT, Answer
from graveler.api.service import Call
from graveler.engine.bulk import job as bulk
from graveler.engine.bulk import land
from graveler.engine.bulk import rows as staged_rows
from graveler.engine.bulk.job import Bulk, Mode, NewBulk
from graveler.engine.bulk.land import Finish
from graveler.engine.bulk.rows import StagedToken
from graveler.engine.gc import root_pages
from graveler.engine.ports import OpenRepository
from graveler.errors import Invalid
from graveler.ids import NO_COMMIT
from graveler.jobs.handover import attend
from graveler.jobs.orders import land_asked
from graveler.records import ABSENT, TOMBSTONE, CommitEntry, Staged


def begin(call: Call) -> Answer:
    body, branch = call.body, call.arguments["branch"]
    breaks = break_json.parsed(body["breaks"]) if "breaks" in body else ABSENT
    mode, prefix = Mode(body["mode"]), body.get("prefix", "")
    purpose = body.get("purpose", "")
    new = NewBulk(mode, prefix, body.get("id", ""), breaks, purpose=purpose)
    begun = bulk.begin(call.repo, branch, new, force=body.get("force", False))
    return answers.json(_shape(call, begun), 201)


def status(call: Call) -> Answer:
    return answers.json(_shape(call, bulk.status(call.repo, *_named(call))))


def beat(call: Call) -> Answer:
    progress = call.body.get("progress", -1)
    beaten = bulk.heartbeat(call.repo, *_named(call), progress)
    return answers.json(_shape(call, beaten))


def cancel(call: Call) -> Answer:
    bulk.cancel(call.repo, *_named(call))
    return NO_CONTENT


def finish(call: Call) -> Answer:
    body, (branch, job_id) = call.body, _named(call)
    landing = Finish(
        metarange=body["metarange"],
        request_id=body["request_id"],
        message=body["message"],
        committer=call.committer,
        metadata=body.get("metadata", {}),
    )

    def direct(repo: OpenRepository) -> CommitEntry:
        return land.finish(repo, branch, job_id, landing)

    landed = attend(call.desk, land_asked(branch, job_id, landing), call.due, direct)
    return answers.json(shapes.commit(landed), 201)


def _named(call: Call) -> tuple[str, str]:
    return call.arguments["branch"], call.arguments["id"]


def _shape(call: Call, bulk_job: Bulk) -> dict[str, Any]:
    job = bulk_job.job
    breaks = call.repo.record.breaks if bulk_job.new.breaks is ABSENT else bulk_job.new.breaks
    expired = bulk.is_expired(call.ports, bulk_job)
    shape: dict[str, Any] = {
        "id": job.id,
        "state": "expired" if expired else job.state.name.lower(),
        "branch": job.branch,
        "mode": bulk_job.mode,
        "prefix": bulk_job.prefix,
        "base_commit": bulk_job.base.id,
        "base_metarange": bulk_job.base.commit.metarange,
        "storage_namespace": call.repo.namespace,
        "breaks": break_json.told(breaks),
        "staging_tokens": [_token(each) for each in bulk_job.tokens],
        "creation_date": shapes.seconds(job.created_ns),
        "expiration_date": shapes.seconds(bulk_job.expires_ns),
        "update_time": shapes.moment(job.updated_ns),
        "heartbeat_seconds": limits.bulk_heartbeat_seconds,
        "progress": job.progress,
    }
    if bulk_job.new.message:
        shape["message"] = bulk_job.new.message
        shape["metadata"] = dict(bulk_job.new.metadata)
    if bulk_job.new.purpose:
        shape["purpose"] = bulk_job.new.purpose
    if job.error:
        shape["error"] = job.error
    if job.commit != NO_COMMIT:
        shape["commit"] = job.commit
    return shape


# ---- uncommitted rows ----------------------------------------------------------------------------


def tokens(call: Call) -> Answer:
    tokens_of_branch = staged_rows.tokens(call.repo, call.arguments["branch"])
    return answers.json({"results": [_token(each) for each in tokens_of_branch]})


def rows(call: Call) -> Answer:
    shard = call.arguments["shard"]
    if not (shard.isascii() and shard.isdecimal() and len(shard) <= 4):
        raise Invalid(f"shard must be a number: shard={shard!r:.80}")
    branch, token = call.arguments["branch"], call.arguments["token"]
    after, amount = call.query["after"], call.query["amount"]
    page = staged_rows.page(call.repo, branch, token, int(shard), after, amount)
    last = page.rows[-1][0] if page.rows else ""
    return answers.page([_row(path, staged) for path, staged in page.rows], page.more, last)


def _token(token: StagedToken) -> dict[str, Any]:
    return {"token": token.token, "shards": token.shards, "sealed": token.sealed}


def _row(path: str, staged: Staged) -> dict[str, Any]:
    shape: dict[str, Any] = {"path": path, "order": staged.order}
    if staged.value is not TOMBSTONE:
        shape["value"] = b64encode(staged.value).decode()
    return shape


# ---- roots of a garbage collection ---------------------------------------------------------------


def roots(call: Call) -> Answer:
    page = root_pages.page(call.repo, call.query["after"], call.query["amount"])
    shown = [root._asdict() for root in page.roots]
    return answers.page(shown, bool(page.following), page.following)
