"""Pull requests: questions whether a branch may be merged.

create ──► open ──► merge ──► merged
             │  └── a conflict: it stays open
             └─────► close ──► closed
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from graveler.core.errors import NotFound
from graveler.lake.answers import Record, moment_of, told
from graveler.lake.errors import Raising
from graveler.lake.ref import Commit, Ref, name_of
from graveler.lake.session import found, having, with_query
from graveler.lake.show import Listing

if TYPE_CHECKING:
    from graveler.lake.repository import Repository

_COMMENTS_PAGE: Final = 100


@dataclass(frozen=True)
class PullRequest(Record):
    """A request to merge a branch.  In lists the description may be empty."""

    id: str
    status: Literal["open", "closed", "merged"]
    title: str
    source: str
    destination: str
    author: str = ""
    description: str = ""
    created: datetime | None = None
    closed: datetime | None = None
    merged_commit: str = ""


@dataclass(frozen=True)
class Comment(Record):
    """A comment on a pull request.  `id`: its number in the request.  `path`: the object that it is
    about, `row`: which row of it; both may be empty.  `edited`: when its text was replaced."""

    id: str
    author: str
    text: str
    created: datetime | None = None
    path: str = ""
    row: str = ""
    resolved: bool = False
    resolved_by: str = ""
    edited: datetime | None = None


class PullRequests(Raising):
    """The pull requests of a repository."""

    def __init__(self, repository: "Repository") -> None:
        self._repository = repository

    def _call(self, method: str, *id: str, body: Any = None) -> Any:
        return self._repository._call(method, "pulls", *id, body=body)

    def create(
        self, source: Ref | str, target: Ref | str, title: str, description: str = ""
    ) -> PullRequest:
        """Ask to merge a branch into another one.  Two requests."""
        body = {
            "title": title,
            "source_branch": name_of(source),
            "destination_branch": name_of(target),
            **({"description": description} if description else {}),
        }
        try:
            made = self._call("POST", body=body)
        except NotFound as error:  # the server does not say which
            error.args = (f"{error}: {body['source_branch']} or {body['destination_branch']}",)
            raise
        return self.get(str(having(made, "id")["id"]))

    def get(self, id: str) -> PullRequest:
        """One pull request.  One request."""
        return _pull(self._call("GET", id))

    def list(
        self,
        status: Literal["open", "closed", "merged", "all"] = "open",
        *,
        prefix: str = "",
        after: str = "",
        limit: int | None = None,
    ) -> Listing[PullRequest]:
        """The pull requests, the newest first.  `closed`: the merged ones too.  `prefix`: of their
        ids; `after`, `limit`: only what follows this id, and so many.  A request for each 1,000."""
        path = with_query(self._repository._path("pulls"), status=status)
        session = self._repository.lake.session

        def fetch() -> Iterator[PullRequest]:
            return map(_pull, found(session, path, prefix=prefix, after=after, amount=limit))

        return Listing(
            fetch,
            f"pull requests of {self._repository.name}",
            ("id", "status", "title", "source", "target"),
            lambda each: (each.id, each.status, each.title, each.source, each.destination),
        )

    def merge(self, pull: PullRequest | str) -> Commit:
        """Merge it.  Raises `Conflict`; it stays open then.  One request."""
        answer = self._call("PUT", _id(pull), "merge")
        return Commit(self._repository, str(having(answer, "reference")["reference"]))

    def close(self, pull: PullRequest | str) -> None:
        """Close it without a merge.  One request."""
        self._call("PATCH", _id(pull), body={"status": "closed"})

    def reopen(self, pull: PullRequest | str) -> None:
        """Open a closed or merged one again.  One request."""
        self._call("PATCH", _id(pull), body={"status": "open"})

    def comments(self, pull: PullRequest | str) -> Listing[Comment]:
        """The comments on it, the oldest first.  A request for each 100."""
        path = self._repository._path("pulls", _id(pull), "comments")
        session = self._repository.lake.session
        return Listing(
            lambda: map(_comment, found(session, path, page_max=_COMMENTS_PAGE)),
            f"comments on the pull request {_id(pull)}",
            ("id", "author", "about", "text", "resolved"),
            lambda each: (each.id, each.author, each.path, each.text, str(each.resolved)),
        )

    def comment(
        self, pull: PullRequest | str, text: str, *, path: str = "", row: str = ""
    ) -> Comment:
        """Comment on it, on the object `path` of it, or on a row of the object.  Raises `Conflict`
        if it has as many comments as it can have.  One request."""
        asked = {"text": text, "path": path, "row": row}
        body = {name: value for name, value in asked.items() if value or name == "text"}
        return _comment(self._call("POST", _id(pull), "comments", body=body))

    def resolve(
        self, pull: PullRequest | str, comment: Comment | str, resolved: bool = True
    ) -> None:
        """Mark a comment as resolved, or as open again.  One request."""
        self._change_comment(pull, comment, {"resolved": resolved})

    def edit(self, pull: PullRequest | str, comment: Comment | str, text: str) -> None:
        """Replace the text of an own comment.  One request."""
        self._change_comment(pull, comment, {"text": text})

    def _change_comment(
        self, pull: PullRequest | str, comment: Comment | str, body: dict[str, Any]
    ) -> None:
        id = comment.id if isinstance(comment, Comment) else comment
        self._call("PATCH", _id(pull), "comments", id, body=body)

    def __iter__(self) -> Iterator[PullRequest]:
        yield from self.list()

    def __repr__(self) -> str:
        return repr(self.list())

    def _repr_html_(self) -> str:
        return self.list()._repr_html_()


def _id(pull: PullRequest | str) -> str:
    return pull.id if isinstance(pull, PullRequest) else pull


def _pull(answer: Any) -> PullRequest:
    having(answer, "id", "status", "title", "source_branch", "destination_branch")
    pull = PullRequest(
        answer["id"],
        answer["status"],
        answer["title"],
        answer["source_branch"],
        answer["destination_branch"],
        answer.get("author", ""),
        answer.get("description", ""),
        moment_of(answer.get("creation_date")),
        moment_of(answer.get("closed_date")),
        answer.get("merged_commit_id", ""),
    )
    return told(pull, answer)


def _comment(answer: Any) -> Comment:
    having(answer, "id", "author", "text", "creation_date", "resolved")
    comment = Comment(
        answer["id"],
        answer["author"],
        answer["text"],
        moment_of(answer["creation_date"]),
        answer.get("path", ""),
        answer.get("row", ""),
        answer["resolved"],
        answer.get("resolved_by", ""),
        moment_of(answer.get("edit_date")),
    )
    return told(comment, answer)
