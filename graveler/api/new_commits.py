"""Commits and merges, also in the background: then the answer is the id of a job."""

from contextlib import suppress
from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, UnsetType, field

from graveler.api import answers, shapes
from graveler.api.answers import Error, Integer, Message, Moment, Pairs, Seconds, Shape
from graveler.api.errors import text_for
from graveler.api.object_writes import no_hook_runs
from graveler.api.operation import BRANCH, REPO, Body, Conditional, Query, Resource
from graveler.api.shapes import Commit, TaskCreation
from graveler.auth.permissions import Permission
from graveler.core.errors import Conflict, GravelerError, Invalid, PreconditionFailed, Refused
from graveler.core.ids import parse_metarange_id
from graveler.core.limits import SECOND_NS
from graveler.core.records import ABSENT, CommitEntry, Job, JobState
from graveler.engine.commits import commit as commits
from graveler.engine.commits import diff, log, merge
from graveler.engine.commits.commit import CommitRequest
from graveler.engine.commits.heads import commit_of
from graveler.engine.commits.merge import MergeRequest, Side
from graveler.engine.hooks import ACTIONS_FOLDER, NO_HOOKS
from graveler.engine.ports import OpenRepository
from graveler.http import errors, permissions
from graveler.http.answers import Answer, Headers
from graveler.http.dispatch import Runs
from graveler.http.permissions import BRANCH_ARN, REPO_ARN
from graveler.http.service import Call
from graveler.jobs import schedule
from graveler.jobs.handover import run_or_enqueue
from graveler.jobs.orders import COMMIT, JobRequest, commit_asked, merge_asked
from graveler.jobs.orders import MERGE as MERGE_KIND
from graveler.jobs.schedule import ask

_commits: Final = Resource("commits")
_refs: Final = Resource("refs")

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


@_commits.post(
    "commit",
    COMMITS,
    {201: Commit},
    *TO_COMMIT,
    conditional=COMMIT_SOMETIMES,
    errors=(Conflict, PreconditionFailed, Refused),
)
def commit(call: Call, query: CommitQuery, body: CommitCreation) -> Answer:
    """Commit the uncommitted changes.

    If the commit brings an action file and the deployment runs no hooks, the answer has the header
    `x-graveler-hooks: off`.
    """
    request, force, branch = commit_request(call, query, body), body.force, call.arguments["branch"]

    def direct(repo: OpenRepository) -> CommitEntry:
        return commits.commit(repo, branch, request, force=force)

    order = commit_asked(branch, request, force=force)
    entry = run_or_enqueue(call.scheduler, order, call.due, direct)
    return answers.json(shapes.commit(entry), 201, _hooks_off(call, entry))


def _hooks_off(call: Call, entry: CommitEntry) -> Headers:
    if call.ports.hooks is NO_HOOKS:
        with suppress(GravelerError):  # the commit is made, whatever cannot be read now
            if diff.brings_below(call.repo, entry, ACTIONS_FOLDER):
                return no_hook_runs(call)
    return ()


def commit_request(call: Call, query: CommitQuery, body: CommitCreation) -> CommitRequest:
    """The commit that the HTTP request asks for."""
    source = query.source
    if source:
        permissions.require(call, "fs:CreateMetaRange")
    return CommitRequest(
        message=body.message,
        committer=call.committer,
        metadata=body.metadata,
        allow_empty=body.allow_empty,
        source_metarange=source,
        created_ns=ABSENT if body.date is UNSET else body.date * SECOND_NS,
    )


@_refs.post(
    "mergeIntoBranch",
    MERGE,
    {200: MergeResult, 409: MergeResult},
    *TO_MERGE,
    errors=(PreconditionFailed, Refused),
)
def merge_into_branch(call: Call, body: Merge) -> Answer:
    """Merge a ref into a branch."""
    request, force = merge_request(call, body), body.force
    source, branch = call.arguments["sourceRef"], call.arguments["destinationBranch"]

    def direct(repo: OpenRepository) -> CommitEntry:
        merged = merge.merge(repo, source, branch, request, force=force)
        return CommitEntry(merged, commit_of(repo, merged))

    order = merge_asked(source, branch, request, force=force)
    entry = run_or_enqueue(call.scheduler, order, call.due, direct)
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


# ---- in the background ---------------------------------------------------------------------------

_STATUS: Final = "/async/{id}/status"


class TaskStatus(Shape, frozen=True, kw_only=True):
    """How far a task is."""

    task_id: str
    completed: bool
    update_time: Moment
    status_code: Integer | UnsetType = UNSET
    error: Error | UnsetType = UNSET


class CommitStatus(TaskStatus, frozen=True, kw_only=True):
    """How far a commit is."""

    waits_for: (
        Annotated[str, Meta(description="The bulk job that must commit these rows")] | UnsetType
    ) = UNSET
    result: Commit | UnsetType = UNSET


class MergeStatus(TaskStatus, frozen=True, kw_only=True):
    """How far a merge is."""

    result: MergeResult | UnsetType = UNSET


@_commits.post(
    "commitAsync",
    COMMITS + "/async",
    {202: TaskCreation},
    *TO_COMMIT,
    conditional=COMMIT_SOMETIMES,
    errors=(Refused,),
)
def commit_async(call: Call, query: CommitQuery, body: CommitCreation) -> Answer:
    """Begin a commit in the background."""
    request = commit_request(call, query, body)
    return _accepted(call, commit_asked(call.arguments["branch"], request, force=body.force))


@_refs.post(
    "mergeIntoBranchAsync", MERGE + "/async", {202: TaskCreation}, *TO_MERGE, errors=(Refused,)
)
def merge_async(call: Call, body: Merge) -> Answer:
    """Begin a merge in the background."""
    request = merge_request(call, body)
    source, branch = call.arguments["sourceRef"], call.arguments["destinationBranch"]
    return _accepted(call, merge_asked(source, branch, request, force=body.force))


def _accepted(call: Call, request: JobRequest) -> Answer:
    return answers.json(TaskCreation(ask(call.scheduler, request).id), 202)


@_commits.get(
    "commitAsyncStatus",
    COMMITS + _STATUS,
    CommitStatus,
    *TO_COMMIT,  # whoever may commit learns how it ended
    runs=Runs.POOL,
)
def commit_status(call: Call) -> Answer:
    """The status of a commit in the background, with the header of `commit` once it is made."""
    branch, id = call.arguments["branch"], call.arguments["id"]
    job, waits_for = schedule.standing(call.scheduler, COMMIT, id, branch)
    result: Commit | UnsetType = UNSET
    told: Headers = ()
    if job.state is JobState.DONE:
        entry = log.get_commit(call.repo, job.commit)
        result, told = shapes.commit(entry), _hooks_off(call, entry)
    shared = _shared(call, job, "commit")
    status = CommitStatus(**shared, waits_for=waits_for or UNSET, result=result)
    return answers.json(status, 200, told)


@_refs.get(
    "mergeIntoBranchAsyncStatus",
    MERGE + _STATUS,
    MergeStatus,
    *TO_MERGE,
    runs=Runs.POOL,
)
def merge_status(call: Call) -> Answer:
    """The status of a merge in the background."""
    branch, id = call.arguments["destinationBranch"], call.arguments["id"]
    job = schedule.status(call.scheduler, MERGE_KIND, id, branch)
    result = MergeResult(job.commit) if job.state is JobState.DONE else UNSET
    return answers.json(MergeStatus(**_shared(call, job, "mergeIntoBranch"), result=result))


def _shared(call: Call, job: Job, operation: str) -> dict[str, Any]:
    """The fields that both statuses have.

    `operation`: the synchronous operation whose error texts apply to a failure of the job.
    """
    shared: dict[str, Any] = {
        "task_id": job.id,
        "completed": job.ended,
        "update_time": shapes.moment(job.updated_ns),
    }
    if job.ended and job.state is not JobState.DONE:
        failure = schedule.failure(call.scheduler, job)
        shared["status_code"] = errors.status_of(failure)
        names = {"branch": job.branch, "destinationBranch": job.branch}
        shared["error"] = Error(text_for(failure, operation, names))
    return shared
