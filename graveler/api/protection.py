"""Operations of branch protection rules; the `internal` ones are those of older clients."""

from typing import Annotated, Final

from msgspec import UNSET, Meta, UnsetType, field

from graveler import limits
from graveler.api import answers
from graveler.api.answers import NO_CONTENT, Answer, Content
from graveler.api.operation import REPO, REPO_ARN, Body, Headers, Runs, operation
from graveler.api.service import Call
from graveler.auth.permissions import Permission
from graveler.engine import protection
from graveler.errors import AlreadyExists, NotFound, PreconditionFailed
from graveler.records import ABSENT

_RULES: Final = REPO + "/settings/branch_protection"
_OLDER: Final = REPO + "/branch_protection"
_MAY_GET: Final = (Permission("branches:GetBranchProtectionRules", REPO_ARN),)
_MAY_SET: Final = (Permission("branches:SetBranchProtectionRules", REPO_ARN),)


class BranchProtectionRule(Body, frozen=True):
    """A rule that protects branches."""

    pattern: Annotated[
        str, Meta(max_length=limits.name_length_max, description="A glob of branch names")
    ]


BranchProtectionRules = Annotated[
    tuple[BranchProtectionRule, ...], Meta(max_length=limits.protection_rules_max)
]


class RulesHeaders(Headers, frozen=True):
    """Which rules to replace."""

    if_match: str | UnsetType = field(default=UNSET, name="If-Match")


@operation(
    "getBranchProtectionRules",
    "GET",
    _RULES,
    tag="repositories",
    permissions=_MAY_GET,
    answers={200: tuple[BranchProtectionRule, ...]},
    runs=Runs.POINT,
)
def get_rules(call: Call) -> Answer:
    """Get the branch protection rules."""
    return _get(call)


@operation(
    "setBranchProtectionRules",
    "PUT",
    _RULES,
    tag="repositories",
    permissions=_MAY_SET,
    answers={204: Content.NOTHING},
    errors=(PreconditionFailed,),
    runs=Runs.POOL,
)
def set_rules(call: Call, headers: RulesHeaders, body: BranchProtectionRules) -> Answer:
    """Replace the branch protection rules.

    They are replaced if they are those that `If-Match` names: their entity tag as `get_rules`
    answered it, the empty text for no rules.
    """
    patterns = [rule.pattern for rule in body]
    if_match = ABSENT if headers.if_match is UNSET else headers.if_match.strip('" ')
    protection.set_rules(call.repo, patterns, if_match)
    return NO_CONTENT


@operation(
    "internalGetBranchProtectionRules",
    "GET",
    _OLDER,
    tag="internal",
    permissions=_MAY_GET,
    answers={200: tuple[BranchProtectionRule, ...]},
    runs=Runs.POINT,
)
def get_older_rules(call: Call) -> Answer:
    """Get the branch protection rules, for older clients."""
    return _get(call)


@operation(
    "internalCreateBranchProtectionRule",
    "POST",
    _OLDER,
    tag="internal",
    permissions=_MAY_SET,
    answers={204: Content.NOTHING},
    errors=(AlreadyExists,),
    runs=Runs.POOL,
)
def add_rule(call: Call, body: BranchProtectionRule) -> Answer:
    """Add a branch protection rule, for older clients."""
    protection.add_rule(call.repo, body.pattern)
    return NO_CONTENT


@operation(
    "internalDeleteBranchProtectionRule",
    "DELETE",
    _OLDER,
    tag="internal",
    permissions=_MAY_SET,
    answers={204: Content.NOTHING},
    errors=(NotFound,),
    runs=Runs.POOL,
)
def remove_rule(call: Call, body: BranchProtectionRule) -> Answer:
    """Remove a branch protection rule, for older clients."""
    protection.remove_rule(call.repo, body.pattern)
    return NO_CONTENT


@operation(
    "createBranchProtectionRulePreflight",
    "GET",
    _OLDER + "/set_allowed",
    tag="internal",
    permissions=_MAY_SET,
    answers={204: Content.NOTHING},
    runs=Runs.LOOP,
)
def check_preflight(call: Call) -> Answer:
    """Whether the caller may set branch protection rules.

    The permission check before this endpoint decides.
    """
    assert call.repo.id == call.arguments["repository"], "the repository exists"
    return NO_CONTENT


def _get(call: Call) -> Answer:
    stored = protection.get_rules(call.repo)
    shape = tuple(BranchProtectionRule(pattern) for pattern in stored.patterns)
    return answers.json(shape, 200, (answers.text_header(b"etag", stored.tag),))
