"""Operations on runs of actions."""

from typing import Annotated, Final, Literal

from msgspec import Meta

from graveler.api import answers, shapes
from graveler.api.answers import MediaType, Page, Shape
from graveler.api.operation import REPO, Query, Resource
from graveler.api.shapes import After, Amount, page_count
from graveler.auth.permissions import Permission
from graveler.core import limits
from graveler.core.errors import Code, Invalid
from graveler.core.ids import CommitId, is_hex64, parse_branch_id
from graveler.core.records import ABSENT
from graveler.engine.hooks import NO_HOOKS
from graveler.hooks import run_pages
from graveler.http.answers import Answer
from graveler.http.dispatch import Runs
from graveler.http.permissions import REPO_ARN
from graveler.http.service import Call
from graveler.refs.action_runs import ActionRun as RunRecord
from graveler.refs.action_runs import HookRun as HookRecord

_actions: Final = Resource("actions")

_RUNS: Final = REPO + "/actions/runs"
_RUN: Final = _RUNS + "/{run_id}"
_MAY_READ: Final = (Permission("ci:ReadAction", REPO_ARN),)
# The log has what the other side of a hook answered: no browser may run it here.
_LOG: Final = (
    (b"content-type", b"application/octet-stream"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"content-disposition", b"attachment"),
)

Status = Literal["completed", "failed"]


class ActionRun(Shape, frozen=True):
    """One run: the hooks of all actions that matched an event."""

    run_id: str
    branch: str
    commit_id: str
    event_type: str
    start_time: str
    end_time: str
    status: Status


class ActionRunList(Page, frozen=True):
    """A page of runs."""

    results: list[ActionRun]


class HookRun(Shape, frozen=True):
    """One hook of a run."""

    hook_run_id: str
    action: str
    hook_id: str
    start_time: str
    end_time: str
    status: Status


class HookRunList(Page, frozen=True):
    """A page of hooks."""

    results: list[HookRun]


class Following(Query, frozen=True):
    """Which page."""

    after: After = ""
    amount: Amount = limits.page_count_default

    @property
    def count(self) -> int:
        """The greatest number of lines on the page."""
        return page_count(self.amount)


class RunQuery(Following, frozen=True):
    """Which runs."""

    branch: Annotated[str, Meta(description="only runs of this branch")] = ""
    commit: Annotated[str, Meta(description="only runs of this commit")] = ""


@_actions.get("listRepositoryRuns", _RUNS, ActionRunList, *_MAY_READ)
def list_repository_runs(call: Call, query: RunQuery) -> Answer:
    """List the runs of actions of a repository, a branch or a commit, newest first.

    If the deployment runs no hooks, the answer has the header `x-graveler-hooks: off`.
    """
    if query.branch and query.commit:
        raise Invalid("branch and commit exclude each other", Code.FILTERS_CONFLICT)
    if query.commit and not is_hex64(query.commit):
        return answers.page([], False, "")
    branch = parse_branch_id(query.branch) if query.branch else ABSENT
    commit = CommitId(query.commit) if query.commit else ABSENT
    runs, more = run_pages.page(call.repo, branch, commit, query.after, query.count)
    page = answers.page([_run(run) for run in runs], more, runs[-1].id if runs else "")
    if call.ports.hooks is not NO_HOOKS:
        return page
    return page._replace(headers=(*page.headers, *answers.HOOKS_OFF))


@_actions.get("getRun", _RUN, ActionRun, *_MAY_READ, runs=Runs.POOL)
def get_run(call: Call) -> Answer:
    """Get a run of actions."""
    return answers.json(_run(run_pages.get(call.repo, call.arguments["run_id"])))


@_actions.get("listRunHooks", _RUN + "/hooks", HookRunList, *_MAY_READ, runs=Runs.POOL)
def list_run_hooks(call: Call, query: Following) -> Answer:
    """List the hooks that ran in a run; hooks that were skipped are not listed."""
    run = run_pages.get(call.repo, call.arguments["run_id"])
    if query.after and all(hook.id != query.after for hook in run.hooks):
        raise Invalid("after invalid: it must be next_offset of a page before")
    rest = [hook for hook in run.hooks if hook.id > query.after]
    hooks = rest[: query.count]
    more = len(rest) > len(hooks)
    return answers.page([_hook(hook) for hook in hooks], more, hooks[-1].id if hooks else "")


@_actions.get(
    "getRunHookOutput",
    _RUN + "/hooks/{hook_run_id}/output",
    MediaType.BYTES,
    *_MAY_READ,
    runs=Runs.POOL,
)
def get_run_hook_output(call: Call) -> Answer:
    """Get the log of a hook: what was sent, and what was answered."""
    arguments = call.arguments
    log = run_pages.output(call.repo, arguments["run_id"], arguments["hook_run_id"])
    return Answer(200, _LOG, log)


def _run(run: RunRecord) -> ActionRun:
    return ActionRun(
        run.id,
        run.branch,
        run.commit,
        run.event,
        shapes.moment(run.started_ns),
        shapes.moment(run.ended_ns),
        _status(run.passed),
    )


def _hook(hook: HookRecord) -> HookRun:
    return HookRun(
        hook.id,
        hook.action,
        hook.hook,
        shapes.moment(hook.started_ns),
        shapes.moment(hook.ended_ns),
        _status(hook.passed),
    )


def _status(passed: bool) -> Status:
    return "completed" if passed else "failed"
