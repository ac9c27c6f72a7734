"""Operations on branches, tags and refs."""

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, UnsetType, field

from graveler.api import answers, shapes
from graveler.api.answers import NO_CONTENT, PLAIN, Answer, Content, Shape
from graveler.api.operation import (
    BRANCH,
    BRANCH_ARN,
    REF,
    REPO,
    REPO_ARN,
    Body,
    Headers,
    Query,
    Runs,
    operation,
)
from graveler.api.queries import Force, ForceQuery, Paging
from graveler.api.service import Call
from graveler.api.shapes import Ref, RefList
from graveler.auth.permissions import Permission
from graveler.engine import names
from graveler.engine.commits import reset
from graveler.engine.names import PageQuery
from graveler.errors import (
    AlreadyExists,
    Conflict,
    Contended,
    Invalid,
    PreconditionFailed,
    Refused,
)
from graveler.ids import CommitId
from graveler.jobs import reset as prefix_reset
from graveler.records import ABSENT
from graveler.refs.names.resolve import Kind

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


class HeadHeaders(Headers, frozen=True):
    """Which head to replace."""

    if_match: str | UnsetType = field(default=UNSET, name="If-Match")


class TagCreation(Body, frozen=True):
    """A new tag."""

    id: str
    ref: str
    force: bool = False


@operation(
    "listBranches",
    "GET",
    REPO + "/branches",
    tag="branches",
    permissions=(Permission("fs:ListBranches", REPO_ARN),),
    answers={200: RefList},
)
def list_branches(call: Call, query: BranchPaging) -> Answer:
    """List branches."""
    page = PageQuery(query.prefix, query.after, query.count)
    views, more = names.list_branches(call.repo, page, show_hidden=query.show_hidden)
    return answers.page(
        [shapes.branch(view) for view in views], more, views[-1].id if views else ""
    )


@operation(
    "createBranch",
    "POST",
    REPO + "/branches",
    tag="branches",
    permissions=(Permission("fs:CreateBranch", REPO_ARN + "/branch/{name}"),),
    answers={201: Content.TEXT},
    errors=(AlreadyExists, Conflict, Contended, Refused),
    runs=Runs.POOL,
)
def create_branch(call: Call, body: BranchCreation) -> Answer:
    """Create a branch; the answer is the plain commit id."""
    commit = names.create_branch(
        call.repo, body.name, body.source, hidden=body.hidden, force=body.force
    )
    return Answer(201, PLAIN, commit.encode())


@operation(
    "getBranch",
    "GET",
    BRANCH,
    tag="branches",
    permissions=(Permission("fs:ReadBranch", BRANCH_ARN),),
    answers={200: Ref},
    runs=Runs.POINT,
)
def get_branch(call: Call) -> Answer:
    """Get a branch and its head."""
    view = names.get_branch(call.repo, call.arguments["branch"])
    return answers.json(shapes.branch(view))


@operation(
    "deleteBranch",
    "DELETE",
    BRANCH,
    tag="branches",
    permissions=(Permission("fs:DeleteBranch", BRANCH_ARN),),
    answers={204: Content.NOTHING},
    errors=(Contended, Refused),
    runs=Runs.POOL,
)
def delete_branch(call: Call, query: ForceQuery) -> Answer:
    """Delete a branch."""
    names.delete_branch(call.repo, call.arguments["branch"], force=query.force)
    return NO_CONTENT


@operation(
    "resetBranch",
    "PUT",
    BRANCH,
    tag="branches",
    permissions=(Permission("fs:RevertBranch", BRANCH_ARN),),
    answers={204: Content.NOTHING},
    errors=(Contended, Refused),
    runs=Runs.POOL,
)
def reset_branch(call: Call, body: ResetCreation) -> Answer:
    """Drop uncommitted changes: all, of one path, or under a prefix."""
    branch, force = call.arguments["branch"], body.force
    if body.type == "reset":
        reset.reset(call.repo, branch, force=force)
    elif body.type == "object":
        reset.reset_path(call.repo, branch, body.path, force=force)
    else:
        prefix_reset.attend(call.desk, branch, body.path, call.due, force=force)
    return NO_CONTENT


@operation(
    "hardResetBranch",
    "PUT",
    BRANCH + "/hard_reset",
    tag="branches",
    permissions=(Permission("fs:RevertBranch", BRANCH_ARN),),
    answers={204: Content.NOTHING},
    errors=(Contended, Refused, PreconditionFailed),
    runs=Runs.POOL,
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


@operation(
    "listTags",
    "GET",
    REPO + "/tags",
    tag="tags",
    permissions=(Permission("fs:ListTags", REPO_ARN),),
    answers={200: RefList},
)
def list_tags(call: Call, query: Paging) -> Answer:
    """List tags."""
    pairs, more = names.list_tags(call.repo, PageQuery(query.prefix, query.after, query.count))
    return answers.page(
        [Ref(name, commit) for name, commit in pairs], more, pairs[-1][0] if pairs else ""
    )


@operation(
    "createTag",
    "POST",
    REPO + "/tags",
    tag="tags",
    permissions=(Permission("fs:CreateTag", REPO_ARN + "/tag/{id}"),),
    answers={201: Ref},
    errors=(AlreadyExists, Conflict, Contended, Refused),
    runs=Runs.POOL,
)
def create_tag(call: Call, body: TagCreation) -> Answer:
    """Create a tag at a commit."""
    commit = names.create_tag(call.repo, body.id, body.ref, force=body.force)
    return answers.json(Ref(body.id, commit), 201)


@operation(
    "getTag",
    "GET",
    _TAG,
    tag="tags",
    permissions=(Permission("fs:ReadTag", _TAG_ARN),),
    answers={200: Ref},
    runs=Runs.POINT,
)
def get_tag(call: Call) -> Answer:
    """Get a tag."""
    name = call.arguments["tag"]
    return answers.json(Ref(name, names.get_tag(call.repo, name)))


@operation(
    "deleteTag",
    "DELETE",
    _TAG,
    tag="tags",
    permissions=(Permission("fs:DeleteTag", _TAG_ARN),),
    answers={204: Content.NOTHING},
    errors=(Contended, Refused),
    runs=Runs.POOL,
)
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


@operation(
    "getRef",
    "GET",
    REF,
    tag="graveler",
    permissions=(Permission("fs:ReadCommit", REPO_ARN),),
    answers={200: NamedRef},
)
def get_ref(call: Call) -> Answer:
    """What a ref expression names: its type, its commit, whether anything is uncommitted."""
    text = call.arguments["ref"]
    view = names.get_ref(call.repo, text)
    branch = view.branch or UNSET
    return answers.json(NamedRef(text, view.kind, view.commit, view.dirty, branch))
