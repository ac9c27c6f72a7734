"""Endpoints of event rules: a repository stages and commits objects that arrive in a bucket."""

from typing import Any, Final

from graveler.api import answers, shapes
from graveler.api.answers import NO_CONTENT, Answer
from graveler.api.service import Call
from graveler.engine.events import rules as event_rules
from graveler.engine.events.rules import NewRule
from graveler.refs.events.rules import EventRule

_FIELDS: Final = {
    **{name: name for name in ("branch", "bucket", "prefix", "suffix", "path", "marker")},
    "objects": "objects_max",
    "seconds": "seconds_max",
}


def list_rules(call: Call) -> Answer:
    rules = event_rules.list_all(call.repo)
    return answers.json({"results": [_shape(rule) for rule in rules]})


def create_rule(call: Call) -> Answer:
    fields = {_FIELDS[name]: value for name, value in call.body.items() if name in _FIELDS}
    new = NewRule(**fields, committer=call.committer)
    return answers.json(_shape(event_rules.create(call.repo, new)), 201)


def get_rule(call: Call) -> Answer:
    return answers.json(_shape(event_rules.get(call.repo, call.arguments["rule"])))


def delete_rule(call: Call) -> Answer:
    event_rules.delete(call.repo, call.arguments["rule"])
    return NO_CONTENT


def _shape(rule: EventRule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "branch": rule.branch,
        "bucket": rule.bucket,
        "prefix": rule.prefix,
        "suffix": rule.suffix,
        "path": rule.path,
        "objects": rule.objects_max,
        "seconds": rule.seconds_max,
        "marker": rule.marker,
        "creation_date": shapes.seconds(rule.created_ns),
    }
