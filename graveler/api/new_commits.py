"""Operations that commit and merge.  Long ones are handed to the worker.

The operations revert and cherry-pick are in `commits.py`; they always run in the request.
"""

from typing import Annotated, Final

from msgspec import UNSET, Meta, UnsetType, field

from graveler.api import answers, permits, shapes
from graveler.api.answers import Answer, Shape
from graveler.api.field_types import Message, Pairs, Seconds
from graveler.api.operation import (
    BRANCH,
    BRANCH_ARN,
    REPO,
    REPO_ARN,
    Body,
    Conditional,
    Query,
    Runs,
    operation,
)
from graveler.api.service import Call
from graveler.api.shapes import Commit
from graveler.auth.permissions import Permission
from graveler.engine.commits import commit as commits
from graveler.engine.commits import merge
from graveler.engine.commits.commit import CommitRequest
from graveler.engine.commits.heads import commit_of
from graveler.engine.commits.merge import MergeRequest, Side
from graveler.engine.ports import OpenRepository
from graveler.errors import Conflict, Invalid, PreconditionFailed, Refused
from graveler.ids import parse_metarange_id
from graveler.jobs.handover import attend
from graveler.jobs.orders import commit_asked, merge_asked
from graveler.limits import SECOND_NS
from graveler.records import ABSENT, CommitEntry

COMMITS: Final = BRANCH + "/commits"
MERGE: Final = REPO + "/refs/{sourceRef}/merge/{destinationBranch}"
MERGE_BRANCH_ARN: Final = REPO_ARN + "/branch/{destinationBranch}"
TO_COMMIT: Final = (Permission("fs:CreateCommit", BRANCH_ARN),)
COMMIT_SOMETIMES: Final = (
    Conditional("`source_metarange` is given", Permission("fs:CreateMetaRange", REPO_ARN)),
)
TO_MERGE: Final = (
    Permission("fs:ReadCommit", REPO_ARN),
    Permission("fs:CreateCommit", MERGE_BRANCH_ARN),
)


class CommitQuery(Query, frozen=True):
    """What to commit."""

    source_metarange: (
        Annotated[str, Meta(description="commit this metarange instead")] | UnsetType
    ) = UNSET

    @property
    def source(self) -> str:
        """The metarange to commit; empty: what is uncommitted.  Raises `Invalid`.

        An empty value is refused.  A caller with an empty variable means no staged changes."""
        if self.source_metarange is UNSET:
            return ""
        metarange = parse_metarange_id(self.source_metarange, "source_metarange")
        if not metarange:
            raise Invalid("source_metarange invalid: it must be 64 hexadecimal digits, or absent")
        return metarange


class CommitCreation(Body, frozen=True):
    """A new commit."""

    message: Message
    metadata: Pairs = field(default_factory=dict)
    date: Seconds | UnsetType = UNSET
    allow_empty: bool = False
    force: bool = False


class Merge(Body, frozen=True):
    """How to merge."""

    message: Message = ""
    metadata: Pairs = field(default_factory=dict)
    strategy: str = ""
    force: bool = False
    allow_empty: bool = False
    squash_merge: bool = False
    resolutions: Annotated[
        dict[str, Side],
        Meta(
            description="The side that conflicts below a prefix take, before the strategy; the "
            "longest prefix of a path decides. lakeFS has no such field"
        ),
    ] = field(default_factory=dict)


class MergeResult(Shape, frozen=True):
    """The commit of a merge; empty: a conflict."""

    reference: str


@operation(
    "commit",
    "POST",
    COMMITS,
    tag="commits",
    permissions=TO_COMMIT,
    conditional=COMMIT_SOMETIMES,
    answers={201: Commit},
    errors=(Conflict, PreconditionFailed, Refused),
    runs=Runs.POOL,
)
def commit(call: Call, query: CommitQuery, body: CommitCreation) -> Answer:
    """Commit the uncommitted changes."""
    request, force, branch = commit_request(call, query, body), body.force, call.arguments["branch"]

    def direct(repo: OpenRepository) -> CommitEntry:
        return commits.commit(repo, branch, request, force=force)

    order = commit_asked(branch, request, force=force)
    entry = attend(call.desk, order, call.due, direct)
    return answers.json(shapes.commit(entry), 201)


def commit_request(call: Call, query: CommitQuery, body: CommitCreation) -> CommitRequest:
    """The commit that the HTTP request asks for."""
    source = query.source
    if source:
        permits.require(call, "fs:CreateMetaRange")
    return CommitRequest(
        message=body.message,
        committer=call.committer,
        metadata=body.metadata,
        allow_empty=body.allow_empty,
        source_metarange=source,
        created_ns=ABSENT if body.date is UNSET else body.date * SECOND_NS,
    )


@operation(
    "mergeIntoBranch",
    "POST",
    MERGE,
    tag="refs",
    permissions=TO_MERGE,
    answers={200: MergeResult, 409: MergeResult},
    errors=(PreconditionFailed, Refused),
    runs=Runs.POOL,
)
def merge_into_branch(call: Call, body: Merge) -> Answer:
    """Merge a ref into a branch."""
    request, force = merge_request(call, body), body.force
    source, branch = call.arguments["sourceRef"], call.arguments["destinationBranch"]

    def direct(repo: OpenRepository) -> CommitEntry:
        merged = merge.merge(repo, source, branch, request, force=force)
        return CommitEntry(merged, commit_of(repo, merged))

    order = merge_asked(source, branch, request, force=force)
    entry = attend(call.desk, order, call.due, direct)
    return answers.json(MergeResult(entry.id))


def merge_request(call: Call, body: Merge) -> MergeRequest:
    """The merge that the HTTP request asks for."""
    return MergeRequest(
        committer=call.committer,
        message=body.message,
        metadata=body.metadata,
        strategy=body.strategy,
        resolutions=body.resolutions,
        squash=body.squash_merge,
        allow_empty=body.allow_empty or body.force,
    )
