"""Operations on the retention rule of a repository, under the two paths that clients know."""

from dataclasses import replace
from typing import Annotated, Final

from msgspec import Meta

from graveler import limits
from graveler.api import answers
from graveler.api.answers import NO_CONTENT, Answer, Content, Shape
from graveler.api.operation import REPO, REPO_ARN, Body, Runs, operation
from graveler.api.service import Call
from graveler.auth.permissions import Permission
from graveler.engine.gc import retention
from graveler.errors import Code, Invalid, NotFound
from graveler.ids import parse_branch_id
from graveler.records import ABSENT

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


@operation(
    "getGCRules",
    "GET",
    _RULES,
    tag="repositories",
    permissions=_READ,
    answers={200: GarbageCollectionRules},
    runs=Runs.POINT,
)
def get_gc_rules(call: Call) -> Answer:
    """Get the retention rules."""
    return _read(call)


@operation(
    "internalGetGarbageCollectionRules",
    "GET",
    _INTERNAL,
    tag="internal",
    permissions=_READ,
    answers={200: GarbageCollectionRules},
    runs=Runs.POINT,
)
def internal_get_gc_rules(call: Call) -> Answer:
    """Get the retention rules."""
    return _read(call)


@operation(
    "setGCRules",
    "PUT",
    _RULES,
    tag="repositories",
    permissions=_WRITE,
    answers={204: Content.NOTHING},
    runs=Runs.POOL,
)
def set_gc_rules(call: Call, body: GarbageCollectionRules) -> Answer:
    """Replace the retention rules."""
    return _replaced(call, body)


@operation(
    "internalSetGarbageCollectionRules",
    "POST",
    _INTERNAL,
    tag="internal",
    permissions=_WRITE,
    answers={204: Content.NOTHING},
    runs=Runs.POOL,
)
def internal_set_gc_rules(call: Call, body: GarbageCollectionRules) -> Answer:
    """Replace the retention rules."""
    return _replaced(call, body)


@operation(
    "setGarbageCollectionRulesPreflight",
    "GET",
    _INTERNAL + "/set_allowed",
    tag="internal",
    permissions=_WRITE,
    answers={204: Content.NOTHING},
    runs=Runs.LOOP,
)
def set_gc_rules_preflight(call: Call) -> Answer:
    """Check whether the caller may replace the retention rules."""
    return NO_CONTENT


@operation(
    "deleteGCRules",
    "DELETE",
    _RULES,
    tag="repositories",
    permissions=_WRITE,
    answers={204: Content.NOTHING},
    runs=Runs.POOL,
)
def delete_gc_rules(call: Call) -> Answer:
    """Delete the retention rules."""
    retention.end_rule(call.repo)
    return NO_CONTENT


@operation(
    "internalDeleteGarbageCollectionRules",
    "DELETE",
    _INTERNAL,
    tag="internal",
    permissions=_WRITE,
    answers={204: Content.NOTHING},
    runs=Runs.POOL,
)
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
