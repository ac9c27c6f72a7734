"""Rules of garbage collection, and what lakeFS's Spark client asks before it collects."""

import json
from dataclasses import replace
from typing import Annotated, Final

from msgspec import UNSET, Meta, UnsetType

from graveler import limits
from graveler.api import answers, shapes
from graveler.api.answers import Error, Integer, Moment, Shape
from graveler.api.operation import NOTHING, REPO, Body, Query, Resource
from graveler.api.shapes import TaskCreation
from graveler.auth.permissions import Permission
from graveler.engine.gc import prepare, retention
from graveler.engine.gc.prepare import PreparedCommits
from graveler.engine.jobs import record
from graveler.errors import Code, Conflict, Invalid, NotFound, Refused
from graveler.http.answers import NO_CONTENT, Answer
from graveler.http.dispatch import Runs
from graveler.http.permissions import REPO_ARN
from graveler.http.service import Call
from graveler.ids import parse_branch_id
from graveler.jobs import handover
from graveler.jobs.orders import PREPARE
from graveler.jobs.requests import ask_prepare
from graveler.records import ABSENT, JobState

_repositories: Final = Resource("repositories")
_internal: Final = Resource("internal")

_RULES: Final = REPO + "/settings/gc_rules"
_INTERNAL: Final = REPO + "/gc/rules"
_READ: Final = (Permission("retention:GetGarbageCollectionRules", REPO_ARN),)
_WRITE: Final = (Permission("retention:SetGarbageCollectionRules", REPO_ARN),)

Days = Annotated[int, Meta(ge=0, le=limits.retention_days_max)]


class GarbageCollectionRule(Body, Shape, frozen=True):
    """The days of one branch."""

    branch_id: str
    retention_days: Days


_Branches = Annotated[list[GarbageCollectionRule], Meta(max_length=limits.retention_branches_max)]


class GarbageCollectionRules(Body, Shape, frozen=True):
    """The days of the default rule, and of branches with a rule of their own."""

    branches: _Branches
    default_retention_days: Days


@_repositories.get("getGCRules", _RULES, GarbageCollectionRules, *_READ, runs=Runs.POINT)
def get_gc_rules(call: Call) -> Answer:
    """Get the retention rules."""
    return _read(call)


@_internal.get(
    "internalGetGarbageCollectionRules", _INTERNAL, GarbageCollectionRules, *_READ, runs=Runs.POINT
)
def internal_get_gc_rules(call: Call) -> Answer:
    """Get the retention rules."""
    return _read(call)


@_repositories.put("setGCRules", _RULES, NOTHING, *_WRITE)
def set_gc_rules(call: Call, body: GarbageCollectionRules) -> Answer:
    """Replace the retention rules."""
    return _replaced(call, body)


@_internal.post("internalSetGarbageCollectionRules", _INTERNAL, NOTHING, *_WRITE)
def internal_set_gc_rules(call: Call, body: GarbageCollectionRules) -> Answer:
    """Replace the retention rules."""
    return _replaced(call, body)


@_internal.get(
    "setGarbageCollectionRulesPreflight",
    _INTERNAL + "/set_allowed",
    NOTHING,
    *_WRITE,
    runs=Runs.LOOP,
)
def set_gc_rules_preflight(call: Call) -> Answer:
    """Check whether the caller may replace the retention rules."""
    return NO_CONTENT


@_repositories.delete("deleteGCRules", _RULES, NOTHING, *_WRITE)
def delete_gc_rules(call: Call) -> Answer:
    """Delete the retention rules."""
    retention.end_rule(call.repo)
    return NO_CONTENT


@_internal.delete("internalDeleteGarbageCollectionRules", _INTERNAL, NOTHING, *_WRITE)
def internal_delete_gc_rules(call: Call) -> Answer:
    """Delete the retention rules."""
    retention.end_rule(call.repo)
    return NO_CONTENT


def _read(call: Call) -> Answer:
    rule = retention.find_rule(call.repo)
    if rule is ABSENT:
        raise NotFound("retention rule not found", Code.RULE_NOT_FOUND)
    branches = [GarbageCollectionRule(name, days) for name, days in sorted(rule.branches.items())]
    return answers.json(GarbageCollectionRules(branches, rule.default_days))


def _replaced(call: Call, rules: GarbageCollectionRules) -> Answer:
    """Replace the days of the default rule and of the branches.

    The retention of unreachable commits is configured elsewhere and does not change.
    """
    branches = {parse_branch_id(rule.branch_id): rule.retention_days for rule in rules.branches}
    if len(branches) != len(rules.branches):
        raise Invalid("branches invalid: a branch may have only one rule")
    known = retention.get_rule(call.repo)
    days = rules.default_retention_days
    retention.set_rule(call.repo, replace(known, default_days=days, branches=branches))
    return NO_CONTENT


# ---- preparation ---------------------------------------------------------------------------------

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


@_internal.get(
    "getGarbageCollectionConfig",
    "/config/garbage-collection",
    GarbageCollectionConfig,
    ("fs:ReadConfig", "*"),
    runs=Runs.LOOP,
)
def get_config(call: Call) -> Answer:
    """Get the configuration of collections by a cluster."""
    return answers.json(GarbageCollectionConfig(limits.collect_min_age_seconds))


@_internal.post(
    "prepareGarbageCollectionCommits",
    _COMMITS,
    {201: GarbageCollectionPrepareResponse},
    *_MAY_PREPARE,
    errors=(Conflict, Refused),
)
def prepare_commits(call: Call) -> Answer:
    """Store the list of commits whose content is in use."""
    return answers.json(_prepared(call, prepare.commits(call.repo)), 201)


@_internal.post(
    "prepareGarbageCollectionCommitsAsync", _COMMITS + "/async", {202: TaskCreation}, *_MAY_PREPARE
)
def prepare_commits_async(call: Call) -> Answer:
    """Begin to store the list of commits whose content is in use."""
    return answers.json(TaskCreation(ask_prepare(call.scheduler).id), 202)


@_internal.get(
    "prepareGarbageCollectionCommitsStatus",
    _COMMITS + "/status",
    PrepareGarbageCollectionCommitsStatus,
    *_MAY_PREPARE,
    runs=Runs.POOL,
)
def prepare_commits_status(call: Call, query: TaskQuery) -> Answer:
    """The status of a list of commits that was begun."""
    job = handover.status(call.scheduler, PREPARE, query.id)
    result: GarbageCollectionPrepareResponse | UnsetType = UNSET
    if job.state is JobState.DONE:
        fields = json.loads(record.ordered(call.repo, job.id).result)
        result = _prepared(call, PreparedCommits(**fields))
    error = Error(job.error) if job.error else UNSET
    updated = shapes.moment(job.updated_ns)
    status = PrepareGarbageCollectionCommitsStatus(job.id, job.ended, updated, result, error)
    return answers.json(status)


@_internal.post(
    "prepareGarbageCollectionUncommitted",
    REPO + "/gc/prepare_uncommited",
    {201: PrepareGCUncommittedResponse},
    ("retention:PrepareGarbageCollectionUncommitted", REPO_ARN),
    errors=(Refused,),
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
