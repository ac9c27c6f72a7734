"""Pull requests and comments on them, over the API.

    create ──► open ──► merge ──► merged
                 │  └── a conflict: it stays open
                 └─────► close ──► closed

Each call is one request, a list one for each page, and raises the errors of `Session.call`.
"""

from collections.abc import Iterator
from typing import Any, Final, Literal, NotRequired, TypedDict

from graveler.client.session import Session, below, checked, having, listed, with_query

_COMMENTS_PAGE: Final = 100


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


class Comment(TypedDict):
    """A comment on a pull request.  `id`: its number in the request.  `path`, `row`: the object,
    and the row of it, that it is about.  Times are in RFC 3339."""

    id: str
    author: str
    text: str
    creation_date: str
    resolved: bool
    path: NotRequired[str]
    row: NotRequired[str]
    edit_date: NotRequired[str]
    resolved_by: NotRequired[str]


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


def comments(session: Session, repository: str, id: str) -> Iterator[Comment]:
    """The comments on a pull request, the oldest first.  Raises `NotFound`."""
    path = _pulls(repository, id, "comments")
    return listed(session, Comment, path, page_max=_COMMENTS_PAGE)


def comment(
    session: Session, repository: str, id: str, text: str, *, path: str = "", row: str = ""
) -> Comment:
    """Comment on a pull request, on an object of it, or on a row of the object; returns the
    comment.  Raises `Conflict` if it has as many as it can have."""
    body = {"text": text, **({"path": path} if path else {}), **({"row": row} if row else {})}
    return checked(Comment, session.call("POST", _pulls(repository, id, "comments"), body))


def resolve(
    session: Session, repository: str, id: str, comment: str, resolved: bool = True
) -> None:
    """Mark a comment as resolved, or as open again."""
    path = _pulls(repository, id, "comments", comment)
    session.call("PATCH", path, {"resolved": resolved})


def edit(session: Session, repository: str, id: str, comment: str, text: str) -> None:
    """Replace the text of an own comment."""
    session.call("PATCH", _pulls(repository, id, "comments", comment), {"text": text})


def _pulls(repository: str, *id: str) -> str:
    return below("repositories", repository, "pulls", *id)
