"""Runs of actions (hooks), over the API.

Each call is one request, a list one for each page, and raises the errors of `Session.call`.
"""

from collections.abc import Iterator
from typing import Literal, NotRequired, TypedDict

from graveler.client.connections import Response
from graveler.client.session import Session, below, checked, error_of, listed, with_query


class Run(TypedDict):
    """The hooks of all actions that matched one event.  Times are in RFC 3339."""

    run_id: str
    branch: str
    event_type: str
    start_time: str
    status: Literal["completed", "failed"]
    commit_id: NotRequired[str]
    end_time: NotRequired[str]


class HookRun(TypedDict):
    """One hook of a run."""

    hook_run_id: str
    action: str
    hook_id: str
    start_time: str
    status: Literal["completed", "failed"]
    end_time: NotRequired[str]


def list_runs(
    session: Session,
    repository: str,
    *,
    branch: str = "",
    commit: str = "",
    after: str = "",
    amount: int | None = None,
) -> Iterator[Run]:
    """The runs of a repository, of a branch, or of a commit; the newest first.  Raises `Invalid`
    for a branch and a commit together."""
    path = with_query(_runs(repository), branch=branch, commit=commit)
    return listed(session, Run, path, after=after, amount=amount)


def are_off(session: Session, repository: str) -> bool:
    """Whether the deployment runs no hooks, so that action files have no effect."""
    answer = session.answer("GET", with_query(_runs(repository), amount="1"))
    return answer.says_that_hooks_are_off


def get(session: Session, repository: str, run: str) -> Run:
    """One run.  Raises `NotFound`."""
    return checked(Run, session.call("GET", _runs(repository, run)))


def list_hooks(session: Session, repository: str, run: str) -> Iterator[HookRun]:
    """The hooks that ran in a run; a hook that was skipped is not among them."""
    return listed(session, HookRun, _runs(repository, run, "hooks"))


def open_log(session: Session, repository: str, run: str, hook_run: str) -> Response:
    """The log of one hook of a run: what was sent, and what was answered.  Close it.  Raises
    `NotFound`."""
    answer = session.open("GET", _runs(repository, run, "hooks", hook_run, "output"))
    if answer.status != 200:
        with answer:
            raise error_of(answer)
    return answer


def _runs(repository: str, *rest: str) -> str:
    return below("repositories", repository, "actions", "runs", *rest)
