"""Jobs of all kinds, over the API: commits, merges, imports, dumps, collections …

Answers are the JSON objects of the API, as typed dictionaries.  A list is read page by page while
it is iterated.  Every other call is one request.  All calls raise the errors of `Session.ask`.
Only Graveler has these calls.  Part of the public Python client.
"""

from collections.abc import Iterator
from typing import Any, Final, TypedDict, cast

from graveler.client.refs import checked, listed
from graveler.client.session import Session, below, with_query

_PAGE: Final = 100  # servers refuse longer pages
_FIELDS: Final = ("id", "kind", "state", "create_time", "cancellable")


class Progress(TypedDict):
    """How much is done, in `unit`, and how fast."""

    done: int
    unit: str
    per_second: float


class _Job(TypedDict):
    id: str
    kind: str
    state: str
    create_time: str
    update_time: str
    cancellable: bool
    attempts: int


class Job(_Job, total=False):
    """A job.  Times are in RFC 3339.  Its result is `commit_id` or `error`, if it has one."""

    branch: str
    progress: Progress
    waits_for: str
    commit_id: str
    error: dict[str, Any]


def list_jobs(
    session: Session,
    repository: str,
    *,
    kind: str = "",
    state: str = "",
    amount: int | None = None,
) -> Iterator[Job]:
    """The jobs of a kind and in a state, the newest first."""
    path = with_query(_jobs(repository), kind=kind, state=state)
    for item in listed(session, path, amount=amount, page_max=_PAGE):
        yield cast(Job, checked(item, *_FIELDS))


def get(session: Session, repository: str, id: str) -> Job:
    """One job.  Raises `NotFound`."""
    return cast(Job, checked(session.ask("GET", _jobs(repository, id)), *_FIELDS))


def cancel(session: Session, repository: str, id: str) -> None:
    """Cancel a job.  Raises `Conflict` if it has ended, or can no longer be cancelled."""
    session.ask("DELETE", _jobs(repository, id))


def _jobs(repository: str, *id: str) -> str:
    return below("repositories", repository, "jobs", *id)
