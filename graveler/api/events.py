"""Operations of event rules: a repository stages and commits objects that arrive in a bucket."""

from typing import Annotated, Final

from msgspec import Meta

from graveler import limits
from graveler.api import answers, permits, shapes
from graveler.api.answers import NO_CONTENT, Answer, Content, Shape
from graveler.api.field_types import Integer
from graveler.api.operation import ARN, REPO, REPO_ARN, Body, Runs, operation
from graveler.api.service import Call
from graveler.auth.permissions import Permission
from graveler.engine.events import rules as event_rules
from graveler.engine.events.rules import NewRule
from graveler.errors import AlreadyExists, Refused
from graveler.refs.events.rules import EventRule as RuleRecord

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


@operation(
    "listEventRules",
    "GET",
    _RULES,
    tag="events",
    permissions=_READ,
    answers={200: EventRuleList},
)
def list_rules(call: Call) -> Answer:
    """List the event rules of a repository."""
    rules = event_rules.list_all(call.repo)
    return answers.json(EventRuleList([_shape(rule) for rule in rules]))


@operation(
    "createEventRule",
    "POST",
    _RULES,
    tag="events",
    permissions=(
        Permission("fs:UpdateRepository", REPO_ARN),
        Permission("fs:CreateCommit", REPO_ARN + "/branch/{branch}"),
        Permission("fs:WriteObject", REPO_ARN + "/object/", below=True),
        Permission("fs:ImportFromStorage", ARN + "namespace/s3://{bucket}/{prefix}", below=True),
    ),
    answers={201: EventRule},
    errors=(AlreadyExists, Refused),
    runs=Runs.POOL,
)
def create_rule(call: Call, body: EventRuleCreation) -> Answer:
    """Create a rule: new objects of a bucket are staged on a branch and committed in batches."""
    scheme = call.service.settings.blockstore_type
    watched = f"{ARN}namespace/{scheme}://{body.bucket}/{body.prefix}"
    permits.require_each(call, Permission("fs:ImportFromStorage", watched, below=True))
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


@operation(
    "getEventRule",
    "GET",
    _RULE,
    tag="events",
    permissions=_READ,
    answers={200: EventRule},
    runs=Runs.POINT,
)
def get_rule(call: Call) -> Answer:
    """Get an event rule."""
    return answers.json(_shape(event_rules.get(call.repo, call.arguments["rule"])))


@operation(
    "deleteEventRule",
    "DELETE",
    _RULE,
    tag="events",
    permissions=(Permission("fs:UpdateRepository", REPO_ARN),),
    answers={204: Content.NOTHING},
    errors=(Refused,),
    runs=Runs.POOL,
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
