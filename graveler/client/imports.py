"""Imports of objects in place, over the API.

    begin ──► id ──► status … status ──► completed: a commit, or an error

Each call is one request and raises the errors of `Session.ask`.  Part of the public Python client.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from graveler.client.commits import Message
from graveler.client.refs import checked
from graveler.client.session import Session, below, failure, with_query

_SKIPPED: Final = "graveler.import.skipped"  # in the metadata of the commit


@dataclass(frozen=True, slots=True)
class Source:
    """What to import: all objects below a prefix of a storage, or one object; and to which prefix
    or path of the branch."""

    url: str
    destination: str
    kind: Literal["common_prefix", "object"] = "common_prefix"


@dataclass(frozen=True, slots=True)
class Status:
    """How far an import is.  `skipped`: how many names it left out, with `examples`.  `answer`: the
    object of the API."""

    completed: bool
    objects: int
    commit: str = ""
    skipped: int = 0
    examples: list[str] = field(default_factory=list)
    answer: Mapping[str, Any] = field(default_factory=dict)


def begin(session: Session, repository: str, branch: str, source: Source, message: Message) -> str:
    """Begin an import and return its id.  What is below the destination is replaced.

    Raises `Invalid` for a source that the server may not read."""
    location = {"type": source.kind, "path": source.url, "destination": source.destination}
    body = {"paths": [location], "commit": message.body()}
    answer = session.ask("POST", _imports(repository, branch), body)
    return str(checked(answer, "id")["id"])


def status(session: Session, repository: str, branch: str, id: str) -> Status:
    """How far an import is.  Raises the error of an import that failed or was cancelled."""
    path = with_query(_imports(repository, branch), id=id)
    answer = checked(session.ask("GET", path), "completed")
    if "error" in answer:
        raise failure(400, str(checked(answer["error"], "message")["message"]))
    commit = answer.get("commit")
    known = commit if isinstance(commit, dict) else {}
    metadata = known.get("metadata") or {}
    return Status(
        bool(answer["completed"]),
        int(answer.get("ingested_objects", 0)),
        str(known.get("id", "")),
        int(metadata.get(_SKIPPED, 0)),
        str(metadata.get(f"{_SKIPPED}.examples", "")).splitlines(),
        answer,
    )


def cancel(session: Session, repository: str, branch: str, id: str) -> None:
    """Cancel an import.  Raises `Conflict` if it has completed."""
    session.ask("DELETE", with_query(_imports(repository, branch), id=id))


def _imports(repository: str, branch: str) -> str:
    return below("repositories", repository, "branches", branch, "import")
