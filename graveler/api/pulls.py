"""Operations on pull requests."""

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, UnsetType

from graveler.api import answers, shapes
from graveler.api.answers import Moment, Page, Shape
from graveler.api.operation import NOTHING, REPO, Body, Conditional, Resource
from graveler.api.shapes import Paging
from graveler.auth.permissions import Permission
from graveler.core import limits
from graveler.core.errors import Contended, MergeConflict, Refused
from graveler.core.ids import parse_pull_id
from graveler.core.records import ABSENT, CommitEntry, PullRequest, PullState
from graveler.engine import pulls
from graveler.engine.ports import OpenRepository
from graveler.engine.pulls import NewPull, PullChanges
from graveler.http import permissions
from graveler.http.answers import NO_CONTENT, Answer
from graveler.http.dispatch import Runs
from graveler.http.permissions import REPO_ARN
from graveler.http.service import Call
from graveler.jobs.handover import run_or_enqueue
from graveler.jobs.orders import pull_asked
from graveler.refs.pulls import PullQuery

_pulls: Final = Resource("pulls")

_PULLS: Final = REPO + "/pulls"
_PULL: Final = _PULLS + "/{pull_request}"
_READ: Final = (Permission("pr:ReadPullRequest", REPO_ARN),)
_WRITE: Final = (Permission("pr:WritePullRequest", REPO_ARN),)

# `closed` means every request that is not open any more, as clients use it.
_STATES: Final = {
    "open": (PullState.OPEN,),
    "closed": (PullState.CLOSED, PullState.MERGED),
    "merged": (PullState.MERGED,),
    "all": tuple(PullState),
}
_Title = Annotated[str, Meta(max_length=limits.pull_title_length_max)]
_Description = Annotated[str, Meta(max_length=limits.pull_description_length_bytes_max)]
_Status = Literal["open", "closed", "merged"]


class PullPaging(Paging, frozen=True):
    """Which page of the pull requests; `closed` includes the merged ones."""

    status: Literal["open", "closed", "merged", "all"] = "all"


class PullRequestCreation(Body, frozen=True):
    """A new pull request."""

    title: _Title
    source_branch: str
    destination_branch: str
    description: _Description = ""


class PullRequestBasic(Body, frozen=True):
    """What to change.  `merged` is set by a merge alone."""

    title: _Title | UnsetType = UNSET
    description: _Description | UnsetType = UNSET
    status: _Status | UnsetType = UNSET


class PullRequestCreationResponse(Shape, frozen=True):
    """The id of a new pull request."""

    id: str


class PullRequestShape(Shape, frozen=True):
    """A pull request.  In listings the description is empty: clients demand one, and all of them
    together would make a page too long."""

    status: _Status
    title: str
    id: str
    creation_date: Moment
    author: str
    source_branch: str
    destination_branch: str
    description: str
    merged_commit_id: str | UnsetType = UNSET
    closed_date: Moment | UnsetType = UNSET


class PullRequestsList(Page, frozen=True):
    """A page of pull requests, the newest first."""

    results: list[PullRequestShape]


class PullMergeResult(Shape, frozen=True):
    """The merge commit; of a conflict the first paths that both sides changed."""

    reference: str
    message: str | UnsetType = UNSET
    conflicts: list[str] | UnsetType = UNSET


def _shape(pull: PullRequest, *, in_list: bool = False) -> PullRequestShape:
    status: _Status = "open"
    if pull.state is not PullState.OPEN:
        status = "merged" if pull.state is PullState.MERGED else "closed"
    return PullRequestShape(
        status=status,
        title=pull.title,
        id=pull.id,
        creation_date=shapes.moment(pull.created_ns),
        author=pull.author,
        source_branch=pull.source,
        destination_branch=pull.destination,
        description="" if in_list else pull.description,
        merged_commit_id=pull.merged or UNSET,
        closed_date=shapes.moment(pull.closed_ns) if pull.closed_ns else UNSET,
    )


@_pulls.get("listPullRequests", _PULLS, PullRequestsList, ("pr:ListPullRequests", REPO_ARN))
def list_pull_requests(call: Call, query: PullPaging) -> Answer:
    """List pull requests, the newest first."""
    if query.after:
        parse_pull_id(query.after)
    order = PullQuery(_STATES[query.status], query.prefix, query.after, query.count)
    page = pulls.list_page(call.repo, order)
    lines = [_shape(pull, in_list=True) for pull in page.pulls]
    return answers.page(lines, bool(page.following), page.following)


@_pulls.post(
    "createPullRequest", _PULLS, {201: PullRequestCreationResponse}, *_WRITE, errors=(Refused,)
)
def create_pull_request(call: Call, body: PullRequestCreation) -> Answer:
    """Open a pull request."""
    new = NewPull(
        body.title, body.source_branch, body.destination_branch, call.committer, body.description
    )
    return answers.json(PullRequestCreationResponse(pulls.create(call.repo, new).id), 201)


@_pulls.get("getPullRequest", _PULL, PullRequestShape, *_READ, runs=Runs.POINT)
def get_pull_request(call: Call) -> Answer:
    """Get a pull request."""
    return answers.json(_shape(pulls.get(call.repo, call.arguments["pull_request"])))


@_pulls.patch("updatePullRequest", _PULL, NOTHING, *_WRITE, errors=(Contended, Refused))
def update_pull_request(call: Call, body: PullRequestBasic) -> Answer:
    """Replace the title, the description or the status of a pull request."""
    changes = PullChanges(
        ABSENT if body.title is UNSET else body.title,
        ABSENT if body.description is UNSET else body.description,
        ABSENT if body.status is UNSET else PullState[body.status.upper()],
    )
    pulls.update(call.repo, call.arguments["pull_request"], changes)
    return NO_CONTENT


@_pulls.put(
    "mergePullRequest",
    _PULL + "/merge",
    {200: PullMergeResult, 409: PullMergeResult},
    *_WRITE,
    ("fs:ReadCommit", REPO_ARN),
    conditional=(
        Conditional(
            "the request exists",
            Permission("fs:CreateCommit", REPO_ARN + "/branch/<its destination>"),
        ),
    ),
    errors=(Contended, Refused),
)
def merge_pull_request(call: Call) -> Answer:
    """Merge a pull request, once; a conflict leaves it open, and the answer names the paths."""
    pull = pulls.get(call.repo, call.arguments["pull_request"])
    # The path of the request does not name the branch, which a request never changes.
    permissions.require(call, "fs:CreateCommit", f"branch/{pull.destination}")

    def direct(repo: OpenRepository) -> CommitEntry:
        return pulls.merge(repo, pull.id, call.committer)

    try:
        order = pull_asked(pull.destination, pull.id, pull.opening, call.committer)
        entry = run_or_enqueue(call.scheduler, order, call.due, direct)
    except MergeConflict as error:
        conflict = PullMergeResult("", "update branch: conflict found", list(error.paths))
        return answers.json(conflict, 409)
    return answers.json(PullMergeResult(entry.id))
