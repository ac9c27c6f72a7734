"""Pull requests, over the API.

    create ──► open ──► merge ──► merged
                 │  └── a conflict: it stays open
                 └─────► close ──► closed

Each call is one request, a list one for each page, and raises the errors of `Session.call`.
"""

from collections.abc import Iterator
from typing import Any, Literal, NotRequired, TypedDict

from graveler.client.session import Session, below, checked, having, listed, with_query


class Pull(TypedDict):
    """A pull request.  Times are in RFC 3339.  In lists the description may be empty."""

    id: str
    status: Literal["open", "closed", "merged"]
    title: str
    source_branch: str
    destination_branch: str
    author: NotRequired[str]
    creation_date: NotRequired[str]
    description: NotRequired[str]
    closed_date: NotRequired[str]
    merged_commit_id: NotRequired[str]


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
    return listed(session, Pull, path, prefix=prefix, after=after, amount=amount)


def get(session: Session, repository: str, id: str) -> Pull:
    """One pull request.  Raises `NotFound`."""
    return checked(Pull, session.call("GET", _pulls(repository, id)))


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
    return str(having(session.call("POST", _pulls(repository), body), "id")["id"])


def merge(session: Session, repository: str, id: str) -> str:
    """Merge a pull request, and return the id of the commit.  Raises `Conflict` if paths conflict;
    it stays open, and nothing was changed."""
    answer = session.call("PUT", _pulls(repository, id, "merge"))
    return str(having(answer, "reference")["reference"])


def close(session: Session, repository: str, id: str) -> None:
    """Close an open pull request without a merge."""
    session.call("PATCH", _pulls(repository, id), {"status": "closed"})


def reopen(session: Session, repository: str, id: str) -> None:
    """Open a closed or merged pull request again."""
    session.call("PATCH", _pulls(repository, id), {"status": "open"})


def _pulls(repository: str, *id: str) -> str:
    return below("repositories", repository, "pulls", *id)
