"""Operations on pull requests, and on comments on them, which lakeFS does not have."""

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, UnsetType

from graveler.api import answers, shapes
from graveler.api.answers import Moment, Page, Shape
from graveler.api.operation import NOTHING, REPO, Body, Conditional, Query, Resource
from graveler.api.shapes import Paging
from graveler.auth.permissions import Permission
from graveler.core import limits
from graveler.core.errors import Conflict, Contended, Invalid, MergeConflict, Refused
from graveler.core.ids import parse_pull_id
from graveler.core.records import ABSENT, CommitEntry, PullRequest, PullState
from graveler.engine import comments, pulls
from graveler.engine.comments import CommentChanges, NewComment
from graveler.engine.ports import OpenRepository
from graveler.engine.pulls import NewPull, PullChanges
from graveler.http import permissions
from graveler.http.answers import NO_CONTENT, Answer
from graveler.http.dispatch import Runs
from graveler.http.permissions import REPO_ARN
from graveler.http.service import Call
from graveler.jobs.handover import run_or_enqueue
from graveler.jobs.orders import pull_asked
from graveler.refs.comments import Comment as CommentRecord
from graveler.refs.pulls import PullQuery

_pulls: Final = Resource("pulls")
_graveler: Final = Resource("graveler")

_PULLS: Final = REPO + "/pulls"
_PULL: Final = _PULLS + "/{pull_request}"
_COMMENTS: Final = _PULL + "/comments"
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


# ---- comments ------------------------------------------------------------------------------------

_Text = Annotated[str, Meta(max_length=limits.comment_length_bytes_max)]
_DIGITS_MAX: Final = 9


class CommentsQuery(Query, frozen=True):
    """Which page of the comments."""

    amount: Annotated[int, Meta(ge=1, le=limits.comments_page_count_max)] = (
        limits.comments_page_count_max
    )
    after: Annotated[str, Meta(description="next_offset of the previous page")] = ""


class CommentCreation(Body, frozen=True):
    """A new comment: on the whole request, on an object, or on a row of the object."""

    text: _Text
    path: Annotated[str, Meta(description="The object that it is about")] = ""
    row: Annotated[str, Meta(description="Which row of the object, in words")] = ""


class CommentUpdate(Body, frozen=True):
    """What to change.  The text: by its author alone."""

    text: _Text | UnsetType = UNSET
    resolved: bool | UnsetType = UNSET


class Comment(Shape, frozen=True):
    """A comment on a pull request."""

    id: Annotated[str, Meta(description="Its number in the request")]
    author: str
    user: Annotated[str, Meta(description="The account of the author, who alone may edit it")]
    text: str
    creation_date: Moment
    resolved: bool
    path: str | UnsetType = UNSET
    row: str | UnsetType = UNSET
    edit_date: Moment | UnsetType = UNSET
    resolved_by: str | UnsetType = UNSET


class CommentList(Page, frozen=True):
    """A page of comments, the oldest first."""

    results: list[Comment]


def _comment(record: CommentRecord) -> Comment:
    return Comment(
        id=f"{record.number}",
        author=record.author,
        user=record.user,
        text=record.text,
        creation_date=shapes.moment(record.created_ns),
        resolved=bool(record.resolved_by),
        path=record.path or UNSET,
        row=record.row or UNSET,
        edit_date=shapes.moment(record.edited_ns) if record.edited_ns else UNSET,
        resolved_by=record.resolved_by or UNSET,
    )


def _user(call: Call) -> str:
    """The account that asks."""
    assert call.account is not ABSENT, "the operation needs credentials"
    return call.account.user


def _number(text: str) -> int:
    """The number of a comment; 0, which no comment has, for what is none.  Pure."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX
    return int(text) if is_number else 0


@_graveler.get("listComments", _COMMENTS, CommentList, *_READ)
def list_comments(call: Call, query: CommentsQuery) -> Answer:
    """List the comments on a pull request, the oldest first."""
    after = _number(query.after)
    if query.after and not after:
        raise Invalid("after must be the number of a comment")
    found, more = comments.list_page(call.repo, call.arguments["pull_request"], after, query.amount)
    following = f"{found[-1].number}" if more else ""
    pagination = answers.pagination(len(found), following, limits.comments_page_count_max)
    return answers.json(CommentList(pagination, [_comment(each) for each in found]))


@_graveler.post("createComment", _COMMENTS, {201: Comment}, *_WRITE, errors=(Conflict, Refused))
def create_comment(call: Call, body: CommentCreation) -> Answer:
    """Comment on a pull request; 409: it has as many comments as it can have."""
    new = NewComment(body.text, call.committer, _user(call), body.path, body.row)
    made = comments.add(call.repo, call.arguments["pull_request"], new)
    return answers.json(_comment(made), 201)


@_graveler.patch(
    "updateComment", _COMMENTS + "/{comment}", NOTHING, *_WRITE, errors=(Contended, Refused)
)
def update_comment(call: Call, body: CommentUpdate) -> Answer:
    """Resolve a comment, or open it again, or replace the text of an own one."""
    changes = CommentChanges(
        call.committer,
        _user(call),
        ABSENT if body.text is UNSET else body.text,
        ABSENT if body.resolved is UNSET else body.resolved,
    )
    pull, number = call.arguments["pull_request"], _number(call.arguments["comment"])
    comments.update(call.repo, pull, number, changes)
    return NO_CONTENT
