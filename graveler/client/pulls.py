"""Pull requests, over the API.

    create ──► open ──► merge ──► merged
                 │  └── a conflict: it stays open
                 └─────► close ──► closed

Answers are the JSON objects of the API, as typed dictionaries.  A list is read page by page while
it is iterated.  Every other call is one request.  All calls raise the errors of `Session.ask`.
Part of the public Python client.
"""

from collections.abc import Iterator
from typing import Any, Literal, TypedDict, cast

from graveler.client.refs import checked, listed
from graveler.client.session import Session, below, with_query

Status = Literal["open", "closed", "merged"]


class _Pull(TypedDict):
    id: str
    status: Status
    title: str
    author: str
    creation_date: str
    source_branch: str
    destination_branch: str
    description: str


class Pull(_Pull, total=False):
    """A pull request.  Times are in RFC 3339.  In lists the description may be empty."""

    closed_date: str
    merged_commit_id: str


_FIELDS = ("id", "status", "title", "source_branch", "destination_branch")


def list_pulls(
    session: Session,
    repository: str,
    *,
    status: str = "all",
    prefix: str = "",
    after: str = "",
    amount: int | None = None,
) -> Iterator[Pull]:
    """The pull requests with a status (`closed`: also the merged ones), the newest first.
    `after`: the id of the last one that is known."""
    path = with_query(_pulls(repository), status=status)
    for item in listed(session, path, prefix, after, amount):
        yield cast(Pull, checked(item, *_FIELDS))


def get(session: Session, repository: str, id: str) -> Pull:
    """One pull request.  Raises `NotFound`."""
    return cast(Pull, checked(session.ask("GET", _pulls(repository, id)), *_FIELDS))


def create(
    session: Session,
    repository: str,
    source: str,
    destination: str,
    *,
    title: str,
    description: str = "",
) -> str:
    """Ask to merge the branch `source` into the branch `destination`; returns the id."""
    body: dict[str, Any] = {
        "title": title,
        "source_branch": source,
        "destination_branch": destination,
        **({"description": description} if description else {}),
    }
    return str(checked(session.ask("POST", _pulls(repository), body), "id")["id"])


def merge(session: Session, repository: str, id: str) -> str:
    """Merge a pull request, and return the id of the commit.  Raises `Conflict` if paths conflict;
    it stays open, and nothing was changed."""
    answer = session.ask("PUT", _pulls(repository, id, "merge"))
    return str(checked(answer, "reference")["reference"])


def close(session: Session, repository: str, id: str) -> None:
    """Close an open pull request without a merge."""
    session.ask("PATCH", _pulls(repository, id), {"status": "closed"})


def reopen(session: Session, repository: str, id: str) -> None:
    """Open a closed or merged pull request again."""
    session.ask("PATCH", _pulls(repository, id), {"status": "open"})


def _pulls(repository: str, *id: str) -> str:
    return below("repositories", repository, "pulls", *id)
