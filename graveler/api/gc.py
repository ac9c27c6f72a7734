"""Operations on garbage collections."""

import json
from dataclasses import replace
from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, UnsetType

from graveler.api import answers, shapes
from graveler.api.answers import Error, Integer, Moment, Shape, matching
from graveler.api.operation import NOTHING, REPO, Body, Resource
from graveler.api.shapes import TaskCreation
from graveler.auth.permissions import Permission
from graveler.core import limits
from graveler.core.errors import Code, Conflict, Invalid, NotFound
from graveler.core.ids import MetarangeId, parse_branch_id
from graveler.core.records import ABSENT, Job
from graveler.engine.gc import cluster, collect, retention
from graveler.engine.jobs import record
from graveler.http.answers import NO_CONTENT, Answer
from graveler.http.dispatch import Runs
from graveler.http.permissions import REPO_ARN
from graveler.http.service import Call
from graveler.jobs import rounds, schedule
from graveler.jobs.orders import COLLECT, is_dry_run
from graveler.refs.job_records import Turn

_retention: Final = Resource("retention")

_RUNS: Final = REPO + "/gc/runs"
_TURNS: Final = REPO + "/gc/turns"
_MAY_COLLECT: Final = (Permission("retention:CollectGarbage", REPO_ARN),)

Count = Annotated[int, Meta(ge=0, le=2**63 - 1, extra_json_schema={"format": "int64"})]
TurnId = Annotated[str, Meta(description="The id of the caller's turn; 409 without it")]


# ---- collections ---------------------------------------------------------------------------------


class CollectionOrder(Body, frozen=True):
    """What a collection does."""

    dry_run: bool = True


class FileCount(Shape, frozen=True):
    """Files, and their bytes."""

    count: Integer
    size_bytes: Integer


class CollectionStatus(Shape, frozen=True):
    """How far a collection is."""

    id: str
    done: bool
    update_time: Moment
    dry_run: bool
    error: Error | UnsetType = UNSET
    run: str | UnsetType = UNSET
    candidates: (
        Annotated[
            str, Meta(description="The folder with the lists of files, one JSON object a line")
        ]
        | UnsetType
    ) = UNSET
    commits: Integer | UnsetType = UNSET
    commits_kept: Integer | UnsetType = UNSET
    condemned: FileCount | UnsetType = UNSET
    deleted: FileCount | UnsetType = UNSET


@_retention.post("orderCollection", _RUNS, {202: TaskCreation}, *_MAY_COLLECT, errors=(Conflict,))
def order_collection(call: Call, body: CollectionOrder) -> Answer:
    """Begin a collection; with `dry_run`, the default, it deletes nothing."""
    job = rounds.rehearse(call.scheduler) if body.dry_run else rounds.order(call.scheduler)
    return answers.json(TaskCreation(job.id), 202)


@_retention.get("getCollection", _RUNS + "/{id}", CollectionStatus, *_MAY_COLLECT, runs=Runs.POOL)
def get_collection(call: Call) -> Answer:
    """The status of a collection."""
    job = schedule.status(call.scheduler, COLLECT, call.arguments["id"])
    return answers.json(_collection(call, job))


@_retention.delete("undoCollection", _RUNS + "/{id}", NOTHING, *_MAY_COLLECT, errors=(Conflict,))
def undo_collection(call: Call) -> Answer:
    """Undo a collection run, before its files are deleted.

    The id in the path is that of the job while its record exists, or that of the run.
    """
    collect.undo(call.repo, _run(call, call.arguments["id"]))
    return NO_CONTENT


# ---- collections on a cluster --------------------------------------------------------------------


class Condemnation(Body, frozen=True):
    """What a cluster condemns."""

    metaranges: (
        Annotated[
            tuple[
                Annotated[
                    str,
                    matching(
                        "^[0-9a-f]{64}$",
                        description="A metarange that the list of roots does not keep",
                    ),
                ],
                ...,
            ],
            Meta(max_length=limits.collect_condemn_count_max),
        ]
        | UnsetType
    ) = UNSET
    after: (
        Annotated[
            str, Meta(description="`following` of the previous call; for calls without metaranges")
        ]
        | UnsetType
    ) = UNSET
    amount: Annotated[int, Meta(ge=1, le=limits.collect_mark_count_max)] = (
        limits.collect_mark_count_max
    )
    files: Count = 0
    size_bytes: Count = 0
    turn: TurnId = ""


class Condemned(Shape, frozen=True):
    """What was condemned."""

    metaranges: list[
        Annotated[
            str, Meta(description="A metarange whose content may be deleted after the undo period")
        ]
    ]
    undone: Annotated[
        int,
        Meta(
            description="The number of runs that were undone before",
            extra_json_schema={"format": "int64"},
        ),
    ]
    following: Annotated[
        str, Meta(description="The continuation token of the next call; empty after the last page")
    ]


class CollectionSweep(Body, frozen=True):
    """What a cluster is about to delete."""

    undone: Count
    turn: TurnId = ""


class CollectionTurnCreation(Body, frozen=True):
    """A new turn."""

    id: Annotated[str, Meta(description="A new id: 1 to 64 letters and digits")]


class CollectionTurn(Shape, frozen=True):
    """The turn of a collection, and when it ends without a heartbeat."""

    id: str
    until_time: Moment


@_retention.post(
    "condemnCommits", _RUNS + "/{id}/condemned", Condemned, *_MAY_COLLECT, errors=(Conflict,)
)
def condemn_commits(call: Call, body: Condemnation) -> Answer:
    """Condemn commits without retention, for a collection that runs on a cluster.

    With `metaranges`: these metaranges and the commits that have them, if retention does not keep
    them; also a metarange that no commit has.  Without: all commits that retention does not keep,
    page by page.
    """
    order = cluster.DeletionOrder(call.arguments["id"], body.files, body.size_bytes, body.turn)
    if body.metaranges is not UNSET:
        if body.after is not UNSET:
            raise Invalid("after is invalid together with metaranges: leave one out")
        done = cluster.condemn(call.repo, order, [MetarangeId(id) for id in body.metaranges])
    else:
        after = "" if body.after is UNSET else body.after
        done = cluster.condemn_page(call.repo, order, after, body.amount)
    return answers.json(Condemned(**done._asdict()))


@_retention.put(
    "sweepCollection", _RUNS + "/{id}/sweeping", NOTHING, *_MAY_COLLECT, errors=(Conflict,)
)
def sweep_collection(call: Call, body: CollectionSweep) -> Answer:
    """Announce that a cluster deletes the files of a run; 409: it must not."""
    cluster.sweep(call.repo, call.arguments["id"], body.undone, body.turn)
    return NO_CONTENT


@_retention.post(
    "beginCollectionTurn", _TURNS, {201: CollectionTurn}, *_MAY_COLLECT, errors=(Conflict,)
)
def begin_turn(call: Call, body: CollectionTurnCreation) -> Answer:
    """Begin the turn of a collection on a cluster; 409: another collection is running."""
    return answers.json(_turn(cluster.begin_turn(call.repo, body.id)), 201)


@_retention.put(
    "beatCollectionTurn", _TURNS + "/{id}", CollectionTurn, *_MAY_COLLECT, errors=(Conflict,)
)
def beat_turn(call: Call) -> Answer:
    """Send the heartbeat of a turn; 409: the collection must delete nothing more."""
    return answers.json(_turn(cluster.beat_turn(call.repo, call.arguments["id"])))


@_retention.delete("endCollectionTurn", _TURNS + "/{id}", NOTHING, *_MAY_COLLECT)
def end_turn(call: Call) -> Answer:
    """End the turn of a collection on a cluster."""
    cluster.end_turn(call.repo, call.arguments["id"])
    return NO_CONTENT


def _turn(turn: Turn) -> CollectionTurn:
    return CollectionTurn(turn.job, shapes.moment(turn.until_ns))


def _run(call: Call, id: str) -> str:
    try:
        job = schedule.status(call.scheduler, COLLECT, id)
    except NotFound:
        return id
    result = record.ordered(call.repo, job.id).result
    run: str = json.loads(result)["run"] if result else ""
    if not run:
        raise Conflict(f"nothing to take back: the collection has condemned nothing: id={id}")
    return run


def _collection(call: Call, job: Job) -> CollectionStatus:
    order = record.ordered(call.repo, job.id)
    error = Error(job.error) if job.error else UNSET
    result = json.loads(order.result) if job.ended and not job.error else {}
    times = job.id, job.ended, shapes.moment(job.updated_ns)
    return CollectionStatus(*times, is_dry_run(order), error, **_result(result))


def _result(result: dict[str, Any]) -> dict[str, Any]:
    """The fields of a status that the result of a collection has."""
    return result | {
        name: FileCount(**result[name]) for name in ("condemned", "deleted") if name in result
    }


# ---- rules ---------------------------------------------------------------------------------------


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


class GarbageCollectionConfig(Shape, frozen=True):
    """`grace_period`: seconds; younger files must not be deleted."""

    grace_period: Integer


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
