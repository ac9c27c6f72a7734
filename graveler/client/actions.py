"""Runs of actions (hooks), over the API.

Answers are the JSON objects of the API, as typed dictionaries.  A list is read page by page while
it is iterated.  Every other call is one request.  All calls raise the errors of `Session.ask`.
Part of the public Python client.
"""

from collections.abc import Iterator
from typing import Final, Literal, TypedDict, cast

from graveler.client.exchange import Response
from graveler.client.refs import checked, listed
from graveler.client.session import Session, below, error_of, with_query

Status = Literal["completed", "failed"]
_RUN: Final = ("run_id", "branch", "event_type", "start_time", "status")
_HOOK: Final = ("hook_run_id", "action", "hook_id", "start_time", "status")


class Run(TypedDict):
    """The hooks of all actions that matched one event.  Times are in RFC 3339."""

    run_id: str
    branch: str
    commit_id: str
    event_type: str
    start_time: str
    end_time: str
    status: Status


class HookRun(TypedDict):
    """One hook of a run."""

    hook_run_id: str
    action: str
    hook_id: str
    start_time: str
    end_time: str
    status: Status


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
    for item in listed(session, path, "", after, amount):
        yield cast(Run, checked(item, *_RUN))


def are_off(session: Session, repository: str) -> bool:
    """Whether the deployment runs no hooks, so that action files have no effect.  One request."""
    path = with_query(_runs(repository), amount="1")
    return session.ask_with("x-graveler-hooks", "GET", path)[1] == "off"


def get(session: Session, repository: str, run: str) -> Run:
    """One run.  Raises `NotFound`."""
    return cast(Run, checked(session.ask("GET", _runs(repository, run)), *_RUN))


def list_hooks(session: Session, repository: str, run: str) -> Iterator[HookRun]:
    """The hooks that ran in a run; a hook that was skipped is not among them."""
    for item in listed(session, _runs(repository, run, "hooks")):
        yield cast(HookRun, checked(item, *_HOOK))


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
