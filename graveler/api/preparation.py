"""Operations that lakeFS's Spark client calls before it deletes garbage (engine/gc/prepare.py)."""

import json
from typing import Final

from msgspec import UNSET, UnsetType

from graveler import limits
from graveler.api import answers, shapes
from graveler.api.answers import Answer, Error, Shape
from graveler.api.field_types import Integer, Moment
from graveler.api.operation import REPO, REPO_ARN, Body, Query, Runs, operation
from graveler.api.service import Call
from graveler.api.shapes import TaskCreation
from graveler.auth.permissions import Permission
from graveler.engine.gc import prepare
from graveler.engine.gc.prepare import PreparedCommits
from graveler.engine.jobs import record
from graveler.errors import Conflict, Refused
from graveler.jobs import handover
from graveler.jobs.orders import PREPARE
from graveler.jobs.requests import ask_prepare
from graveler.records import JobState

_COMMITS: Final = REPO + "/gc/prepare_commits"
_MAY_PREPARE: Final = (Permission("retention:PrepareGarbageCollectionCommits", REPO_ARN),)


class GarbageCollectionConfig(Shape, frozen=True):
    """`grace_period`: seconds; younger files must not be deleted."""

    grace_period: Integer


class GarbageCollectionPrepareResponse(Shape, frozen=True):
    """A run, and the addresses of its lists."""

    run_id: str
    gc_commits_location: str
    gc_addresses_location: str
    gc_commits_presigned_url: str | UnsetType = UNSET


class TaskQuery(Query, frozen=True):
    """Which task."""

    id: str


class PrepareGarbageCollectionCommitsStatus(Shape, frozen=True):
    """The status of a preparation."""

    task_id: str
    completed: bool
    update_time: Moment
    result: GarbageCollectionPrepareResponse | UnsetType = UNSET
    error: Error | UnsetType = UNSET


class PrepareGCUncommittedRequest(Body, frozen=True):
    """`continuation_token`: of the page before; empty: begin a run."""

    continuation_token: str = ""


class PrepareGCUncommittedResponse(Shape, frozen=True):
    """A run, and the folder of its addresses: empty if there are none so far."""

    run_id: str
    gc_uncommitted_location: str
    continuation_token: str | UnsetType = UNSET


@operation(
    "getGarbageCollectionConfig",
    "GET",
    "/config/garbage-collection",
    tag="internal",
    permissions=(Permission("fs:ReadConfig", "*"),),
    answers={200: GarbageCollectionConfig},
    runs=Runs.LOOP,
)
def get_config(call: Call) -> Answer:
    """Get the configuration of collections by a cluster."""
    return answers.json(GarbageCollectionConfig(limits.collect_min_age_seconds))


@operation(
    "prepareGarbageCollectionCommits",
    "POST",
    _COMMITS,
    tag="internal",
    permissions=_MAY_PREPARE,
    answers={201: GarbageCollectionPrepareResponse},
    errors=(Conflict, Refused),
    runs=Runs.POOL,
)
def prepare_commits(call: Call) -> Answer:
    """Store the list of commits whose content is in use."""
    return answers.json(_prepared(call, prepare.commits(call.repo)), 201)


@operation(
    "prepareGarbageCollectionCommitsAsync",
    "POST",
    _COMMITS + "/async",
    tag="internal",
    permissions=_MAY_PREPARE,
    answers={202: TaskCreation},
    runs=Runs.POOL,
)
def prepare_commits_async(call: Call) -> Answer:
    """Begin to store the list of commits whose content is in use."""
    return answers.json(TaskCreation(ask_prepare(call.desk).id), 202)


@operation(
    "prepareGarbageCollectionCommitsStatus",
    "GET",
    _COMMITS + "/status",
    tag="internal",
    permissions=_MAY_PREPARE,
    answers={200: PrepareGarbageCollectionCommitsStatus},
    runs=Runs.POOL,
)
def prepare_commits_status(call: Call, query: TaskQuery) -> Answer:
    """The status of a list of commits that was begun."""
    job = handover.status(call.desk, PREPARE, query.id)
    result: GarbageCollectionPrepareResponse | UnsetType = UNSET
    if job.state is JobState.DONE:
        fields = json.loads(record.ordered(call.repo, job.id).result)
        result = _prepared(call, PreparedCommits(**fields))
    error = Error(job.error) if job.error else UNSET
    updated = shapes.moment(job.updated_ns)
    status = PrepareGarbageCollectionCommitsStatus(job.id, job.ended, updated, result, error)
    return answers.json(status)


@operation(
    "prepareGarbageCollectionUncommitted",
    "POST",
    REPO + "/gc/prepare_uncommited",  # spelled as clients spell it
    tag="internal",
    permissions=(Permission("retention:PrepareGarbageCollectionUncommitted", REPO_ARN),),
    answers={201: PrepareGCUncommittedResponse},
    errors=(Refused,),
    runs=Runs.POOL,
)
def prepare_uncommitted(call: Call, body: PrepareGCUncommittedRequest) -> Answer:
    """Store a page of the addresses that uncommitted changes use."""
    page = prepare.uncommitted(call.repo, body.continuation_token)
    following = page.following or UNSET
    return answers.json(PrepareGCUncommittedResponse(page.run, page.folder, following), 201)


def _prepared(call: Call, lists: PreparedCommits) -> GarbageCollectionPrepareResponse:
    signed: str | UnsetType = UNSET
    if call.service.settings.presigns:
        seconds = limits.presign_seconds_max
        signed = call.absolute(call.ports.blocks.presign(lists.commits, "GET", seconds, "").url)
    return GarbageCollectionPrepareResponse(lists.run, lists.commits, lists.addresses, signed)
