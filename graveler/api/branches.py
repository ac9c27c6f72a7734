"""Operations on branches, tags and refs, and on the protection of branches."""

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, UnsetType, field

from graveler.api import answers, shapes
from graveler.api.answers import PLAIN, MediaType, Shape
from graveler.api.operation import BRANCH, NOTHING, REF, REPO, Body, Query, RequestHeaders, Resource
from graveler.api.shapes import Force, ForceQuery, Paging, Ref, RefList
from graveler.auth.permissions import Permission
from graveler.core import limits
from graveler.core.errors import (
    AlreadyExists,
    Conflict,
    Contended,
    Invalid,
    NotFound,
    PreconditionFailed,
    Refused,
)
from graveler.core.ids import CommitId
from graveler.core.records import ABSENT
from graveler.engine import names, protection
from graveler.engine.commits import reset
from graveler.engine.names import PageQuery
from graveler.http.answers import NO_CONTENT, Answer, text_header
from graveler.http.dispatch import Runs
from graveler.http.permissions import BRANCH_ARN, REPO_ARN
from graveler.http.service import Call
from graveler.jobs import reset as prefix_reset
from graveler.refs.resolve import Kind

_branches: Final = Resource("branches")
_tags: Final = Resource("tags")
_graveler: Final = Resource("graveler")
_repositories: Final = Resource("repositories")
_internal: Final = Resource("internal")

_TAG: Final = REPO + "/tags/{tag}"
_TAG_ARN: Final = REPO_ARN + "/tag/{tag}"


class BranchPaging(Paging, frozen=True):
    """Which page of the branches."""

    show_hidden: bool = False


class BranchCreation(Body, frozen=True):
    """A new branch.  `hidden`: listings leave it out."""

    name: str
    source: str
    force: bool = False
    hidden: bool = False


class ResetCreation(Body, frozen=True):
    """What to drop: everything, one path, or everything under a prefix."""

    type: Literal["object", "common_prefix", "reset"]
    path: str = ""
    force: bool = False

    def __post_init__(self) -> None:
        if self.type != "reset" and not self.path:
            rule = f'property "path" is missing: type={self.type}'
            raise Invalid(f"request body has an error: {rule}")


class HardReset(Query, frozen=True, kw_only=True):
    """Where the head moves to."""

    ref: str
    force: Force = False


class HeadHeaders(RequestHeaders, frozen=True):
    """Which head to replace."""

    if_match: str | UnsetType = field(default=UNSET, name="If-Match")


class TagCreation(Body, frozen=True):
    """A new tag."""

    id: str
    ref: str
    force: bool = False


@_branches.get("listBranches", REPO + "/branches", RefList, ("fs:ListBranches", REPO_ARN))
def list_branches(call: Call, query: BranchPaging) -> Answer:
    """List branches."""
    page = PageQuery(query.prefix, query.after, query.count)
    views, more = names.list_branches(call.repo, page, show_hidden=query.show_hidden)
    return answers.page(
        [shapes.branch(view) for view in views], more, views[-1].id if views else ""
    )


@_branches.post(
    "createBranch",
    REPO + "/branches",
    {201: MediaType.TEXT},
    ("fs:CreateBranch", REPO_ARN + "/branch/{name}"),
    errors=(AlreadyExists, Conflict, Contended, Refused),
)
def create_branch(call: Call, body: BranchCreation) -> Answer:
    """Create a branch; the answer is the plain commit id."""
    commit = names.create_branch(
        call.repo, body.name, body.source, hidden=body.hidden, force=body.force
    )
    return Answer(201, PLAIN, commit.encode())


@_branches.get("getBranch", BRANCH, Ref, ("fs:ReadBranch", BRANCH_ARN), runs=Runs.POINT)
def get_branch(call: Call) -> Answer:
    """Get a branch and its head."""
    view = names.get_branch(call.repo, call.arguments["branch"])
    return answers.json(shapes.branch(view))


@_branches.delete(
    "deleteBranch", BRANCH, NOTHING, ("fs:DeleteBranch", BRANCH_ARN), errors=(Contended, Refused)
)
def delete_branch(call: Call, query: ForceQuery) -> Answer:
    """Delete a branch."""
    names.delete_branch(call.repo, call.arguments["branch"], force=query.force)
    return NO_CONTENT


@_branches.put(
    "resetBranch", BRANCH, NOTHING, ("fs:RevertBranch", BRANCH_ARN), errors=(Contended, Refused)
)
def reset_branch(call: Call, body: ResetCreation) -> Answer:
    """Drop uncommitted changes: all, of one path, or under a prefix."""
    branch, force = call.arguments["branch"], body.force
    if body.type == "reset":
        reset.reset(call.repo, branch, force=force)
    elif body.type == "object":
        reset.reset_path(call.repo, branch, body.path, force=force)
    else:
        prefix_reset.run_or_enqueue(call.scheduler, branch, body.path, call.due, force=force)
    return NO_CONTENT


@_branches.put(
    "hardResetBranch",
    BRANCH + "/hard_reset",
    NOTHING,
    ("fs:RevertBranch", BRANCH_ARN),
    errors=(Contended, Refused, PreconditionFailed),
)
def hard_reset_branch(call: Call, query: HardReset, headers: HeadHeaders) -> Answer:
    """Move the head of a clean branch.

    With `If-Match`, the id of a commit, it is moved only if it is that commit, or is already where
    it is to move to.
    """
    name, match = call.arguments["branch"], headers.if_match
    expected = ABSENT if match is UNSET else CommitId(match.strip('" '))
    reset.hard_reset(call.repo, name, query.ref, force=query.force, expected=expected)
    return NO_CONTENT


@_tags.get("listTags", REPO + "/tags", RefList, ("fs:ListTags", REPO_ARN))
def list_tags(call: Call, query: Paging) -> Answer:
    """List tags."""
    pairs, more = names.list_tags(call.repo, PageQuery(query.prefix, query.after, query.count))
    return answers.page(
        [Ref(name, commit) for name, commit in pairs], more, pairs[-1][0] if pairs else ""
    )


@_tags.post(
    "createTag",
    REPO + "/tags",
    {201: Ref},
    ("fs:CreateTag", REPO_ARN + "/tag/{id}"),
    errors=(AlreadyExists, Conflict, Contended, Refused),
)
def create_tag(call: Call, body: TagCreation) -> Answer:
    """Create a tag at a commit."""
    commit = names.create_tag(call.repo, body.id, body.ref, force=body.force)
    return answers.json(Ref(body.id, commit), 201)


@_tags.get("getTag", _TAG, Ref, ("fs:ReadTag", _TAG_ARN), runs=Runs.POINT)
def get_tag(call: Call) -> Answer:
    """Get a tag."""
    name = call.arguments["tag"]
    return answers.json(Ref(name, names.get_tag(call.repo, name)))


@_tags.delete("deleteTag", _TAG, NOTHING, ("fs:DeleteTag", _TAG_ARN), errors=(Contended, Refused))
def delete_tag(call: Call, query: ForceQuery) -> Answer:
    """Delete a tag."""
    names.delete_tag(call.repo, call.arguments["tag"], force=query.force)
    return NO_CONTENT


class NamedRef(Shape, frozen=True):
    """What a ref expression names."""

    id: str
    type: Kind
    commit_id: str
    dirty: bool
    branch: (
        Annotated[
            str, Meta(description="The branch with which the expression begins; absent: none")
        ]
        | UnsetType
    ) = UNSET


@_graveler.get("getRef", REF, NamedRef, ("fs:ReadCommit", REPO_ARN))
def get_ref(call: Call) -> Answer:
    """What a ref expression names: its type, its commit, whether anything is uncommitted."""
    text = call.arguments["ref"]
    view = names.get_ref(call.repo, text)
    branch = view.branch or UNSET
    return answers.json(NamedRef(text, view.kind, view.commit, view.dirty, branch))


# ---- protection ----------------------------------------------------------------------------------

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


class RulesHeaders(RequestHeaders, frozen=True):
    """Which rules to replace."""

    if_match: str | UnsetType = field(default=UNSET, name="If-Match")


@_repositories.get(
    "getBranchProtectionRules", _RULES, tuple[BranchProtectionRule, ...], *_MAY_GET, runs=Runs.POINT
)
def get_rules(call: Call) -> Answer:
    """Get the branch protection rules."""
    return _get(call)


@_repositories.put(
    "setBranchProtectionRules", _RULES, NOTHING, *_MAY_SET, errors=(PreconditionFailed,)
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


@_internal.get(
    "internalGetBranchProtectionRules",
    _OLDER,
    tuple[BranchProtectionRule, ...],
    *_MAY_GET,
    runs=Runs.POINT,
)
def get_older_rules(call: Call) -> Answer:
    """Get the branch protection rules, for older clients."""
    return _get(call)


@_internal.post(
    "internalCreateBranchProtectionRule", _OLDER, NOTHING, *_MAY_SET, errors=(AlreadyExists,)
)
def add_rule(call: Call, body: BranchProtectionRule) -> Answer:
    """Add a branch protection rule, for older clients."""
    protection.add_rule(call.repo, body.pattern)
    return NO_CONTENT


@_internal.delete(
    "internalDeleteBranchProtectionRule", _OLDER, NOTHING, *_MAY_SET, errors=(NotFound,)
)
def remove_rule(call: Call, body: BranchProtectionRule) -> Answer:
    """Remove a branch protection rule, for older clients."""
    protection.remove_rule(call.repo, body.pattern)
    return NO_CONTENT


@_internal.get(
    "createBranchProtectionRulePreflight",
    _OLDER + "/set_allowed",
    NOTHING,
    *_MAY_SET,
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
    return answers.json(shape, 200, (text_header(b"etag", stored.tag),))
