"""Rules of garbage collection, and what a cluster that collects must wait for."""

from dataclasses import replace
from typing import Annotated, Final

from msgspec import Meta

from graveler.api import answers
from graveler.api.answers import Integer, Shape
from graveler.api.operation import NOTHING, REPO, Body, Resource
from graveler.auth.permissions import Permission
from graveler.core import limits
from graveler.core.errors import Code, Invalid, NotFound
from graveler.core.ids import parse_branch_id
from graveler.core.records import ABSENT
from graveler.engine.gc import retention
from graveler.http.answers import NO_CONTENT, Answer
from graveler.http.dispatch import Runs
from graveler.http.permissions import REPO_ARN
from graveler.http.service import Call

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
