"""Imports, which run as jobs, and rules by which new objects of a bucket become commits."""

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import force_setattr

from graveler.api import answers, shapes
from graveler.api.answers import Error, Integer, Moment, Shape
from graveler.api.new_commits import CommitCreation
from graveler.api.operation import BRANCH, NOTHING, REPO, Body, Query, Resource
from graveler.api.shapes import Commit
from graveler.auth.permissions import Permission
from graveler.core import limits
from graveler.core.errors import AlreadyExists, Conflict, Refused
from graveler.core.ids import NO_COMMIT
from graveler.core.records import Job, JobState
from graveler.engine import imports
from graveler.engine.commits import log
from graveler.engine.events import rules as event_rules
from graveler.engine.events.rules import NewRule
from graveler.engine.import_sources import spelled
from graveler.engine.imports import ImportPath, ImportRequest
from graveler.http import permissions
from graveler.http.answers import NO_CONTENT, Answer
from graveler.http.dispatch import Runs
from graveler.http.permissions import ARN, BRANCH_ARN, REPO_ARN
from graveler.http.service import Call
from graveler.jobs import schedule
from graveler.refs.event_rules import EventRule as RuleRecord

_import: Final = Resource("import")
_events: Final = Resource("events")

_IMPORT: Final = BRANCH + "/import"


class ImportLocation(Body, frozen=True):
    """What to import, and where to."""

    type: Literal["common_prefix", "object"]
    path: str
    destination: str

    def __post_init__(self) -> None:
        source = spelled(ImportPath(self.type, self.path, self.destination))
        force_setattr(self, "path", source.path)
        force_setattr(self, "destination", source.destination)

    @property
    def is_folder(self) -> bool:
        """Whether it names all objects below a prefix."""
        return self.type == "common_prefix"

    @property
    def is_object(self) -> bool:
        """Whether it names one object."""
        return self.type == "object"


class ImportCreation(Body, frozen=True):
    """A new import."""

    paths: Annotated[tuple[ImportLocation, ...], Meta(max_length=limits.import_paths_count_max)]
    commit: CommitCreation
    force: bool = False


class ImportCreationResponse(Shape, frozen=True):
    """The id of an import that was begun."""

    id: str


class ImportQuery(Query, frozen=True):
    """Which import."""

    id: str


class ImportStatus(Shape, frozen=True):
    """How far an import is."""

    completed: bool
    update_time: Moment
    ingested_objects: Integer
    error: Error | UnsetType = UNSET
    metarange_id: str | UnsetType = UNSET
    commit: Commit | UnsetType = UNSET


@_import.post(
    "importStart",
    _IMPORT,
    {202: ImportCreationResponse},
    ("fs:CreateCommit", BRANCH_ARN),
    ("fs:ImportFromStorage", ARN + "namespace/{paths[is_object].path}"),
    Permission("fs:ImportFromStorage", ARN + "namespace/{paths[is_folder].path}", below=True),
    ("fs:WriteObject", REPO_ARN + "/object/{paths[is_object].destination}"),
    Permission("fs:WriteObject", REPO_ARN + "/object/{paths[is_folder].destination}", True),
    Permission("fs:DeleteObject", REPO_ARN + "/object/{paths[is_folder].destination}", True),
    errors=(Refused,),
)
def import_start(call: Call, body: ImportCreation) -> Answer:
    """Import objects in place, as one commit."""
    branch, commit = call.arguments["branch"], body.commit
    paths = [ImportPath(each.type, each.path, each.destination) for each in body.paths]
    request = ImportRequest(paths, commit.message, call.committer, commit.metadata)
    job = imports.submit(call.repo, branch, request, owner=b"", force=body.force)
    schedule.enqueue(call.scheduler, job)
    return answers.json(ImportCreationResponse(job.id), 202)


@_import.get("importStatus", _IMPORT, ImportStatus, ("fs:ReadBranch", BRANCH_ARN), runs=Runs.POINT)
def import_status(call: Call, query: ImportQuery) -> Answer:
    """The progress of an import."""
    job = schedule.status(call.scheduler, imports.KIND, query.id, call.arguments["branch"])
    return answers.json(_status(call, job))


@_import.delete(
    "importCancel", _IMPORT, NOTHING, ("fs:ImportCancel", BRANCH_ARN), errors=(Conflict,)
)
def import_cancel(call: Call, query: ImportQuery) -> Answer:
    """Cancel an import."""
    imports.cancel(call.repo, call.arguments["branch"], query.id)
    return NO_CONTENT


def _status(call: Call, job: Job) -> ImportStatus:
    has_commit = job.commit != NO_COMMIT
    return ImportStatus(
        job.state is JobState.DONE,
        shapes.moment(job.updated_ns),
        job.progress,
        Error(job.error) if job.error else UNSET,
        job.metarange if has_commit else UNSET,
        shapes.commit(log.get_commit(call.repo, job.commit)) if has_commit else UNSET,
    )


# ---- event rules ---------------------------------------------------------------------------------

_RULES: Final = REPO + "/events/rules"
_RULE: Final = _RULES + "/{rule}"
_READ: Final = (Permission("fs:ReadRepository", REPO_ARN),)
_NEW: Final = NewRule("", "")

Objects = Annotated[int, Meta(ge=0, le=limits.event_batch_objects_max)]
Seconds = Annotated[int, Meta(ge=1, le=limits.event_batch_seconds_max)]


class EventRuleCreation(Body, frozen=True):
    """A new event rule."""

    branch: str
    bucket: str
    prefix: str = ""
    suffix: str = ""
    path: str = _NEW.path
    marker: str = ""
    objects: Objects = _NEW.objects_max
    seconds: Seconds = _NEW.seconds_max


class EventRule(Shape, frozen=True):
    """An event rule."""

    id: str
    branch: str
    bucket: str
    prefix: str
    suffix: str
    path: str
    objects: Objects
    seconds: Seconds
    marker: str
    committer: Annotated[
        str, Meta(description="Who created the rule. It works on when that user has no rights")
    ]
    creation_date: Integer


class EventRuleList(Shape, frozen=True):
    """All event rules of a repository."""

    results: list[EventRule]


@_events.get("listEventRules", _RULES, EventRuleList, *_READ)
def list_rules(call: Call) -> Answer:
    """List the event rules of a repository."""
    rules = event_rules.list_all(call.repo)
    return answers.json(EventRuleList([_shape(rule) for rule in rules]))


@_events.post(
    "createEventRule",
    _RULES,
    {201: EventRule},
    ("fs:UpdateRepository", REPO_ARN),
    ("fs:CreateCommit", REPO_ARN + "/branch/{branch}"),
    Permission("fs:WriteObject", REPO_ARN + "/object/", below=True),
    Permission("fs:ImportFromStorage", ARN + "namespace/s3://{bucket}/{prefix}", below=True),
    errors=(AlreadyExists, Refused),
)
def create_rule(call: Call, body: EventRuleCreation) -> Answer:
    """Create a rule: new objects of a bucket are staged on a branch and committed in batches."""
    scheme = call.service.settings.blockstore_type
    watched = f"{ARN}namespace/{scheme}://{body.bucket}/{body.prefix}"
    permissions.require_each(call, Permission("fs:ImportFromStorage", watched, below=True))
    new = NewRule(
        branch=body.branch,
        bucket=body.bucket,
        prefix=body.prefix,
        suffix=body.suffix,
        path=body.path,
        objects_max=body.objects,
        seconds_max=body.seconds,
        marker=body.marker,
        committer=call.committer,
    )
    return answers.json(_shape(event_rules.create(call.repo, new)), 201)


@_events.get("getEventRule", _RULE, EventRule, *_READ, runs=Runs.POINT)
def get_rule(call: Call) -> Answer:
    """Get an event rule."""
    return answers.json(_shape(event_rules.get(call.repo, call.arguments["rule"])))


@_events.delete(
    "deleteEventRule", _RULE, NOTHING, ("fs:UpdateRepository", REPO_ARN), errors=(Refused,)
)
def delete_rule(call: Call) -> Answer:
    """Delete an event rule."""
    event_rules.delete(call.repo, call.arguments["rule"])
    return NO_CONTENT


def _shape(rule: RuleRecord) -> EventRule:
    return EventRule(
        rule.id,
        rule.branch,
        rule.bucket,
        rule.prefix,
        rule.suffix,
        rule.path,
        rule.objects_max,
        rule.seconds_max,
        rule.marker,
        rule.committer,
        shapes.seconds(rule.created_ns),
    )
