"""What the server does in the background, over the API: jobs of all kinds, imports, dumps.

    begin_import, begin_dump, begin_restore ──► id ──► …_status … ──► done, or an error

Each call is one request, a list one for each page, and raises the errors of `Session.call`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NotRequired, TypedDict

from graveler.client.commits import Message
from graveler.client.session import Session, below, checked, failure, having, listed, with_query

_PAGE: Final = 100  # servers refuse longer pages


class Progress(TypedDict):
    """How much is done, in `unit`, and how fast."""

    done: int
    unit: str
    per_second: float


class Job(TypedDict):
    """A job.  Times are in RFC 3339.  Its result is `commit_id` or `error`, if it has one."""

    id: str
    kind: str
    state: str
    create_time: str
    cancellable: bool
    update_time: NotRequired[str]
    attempts: NotRequired[int]
    branch: NotRequired[str]
    progress: NotRequired[Progress]
    waits_for: NotRequired[str]
    commit_id: NotRequired[str]
    error: NotRequired[dict[str, Any]]


def list_jobs(
    session: Session,
    repository: str,
    *,
    kind: str = "",
    state: str = "",
    amount: int | None = None,
) -> Iterator[Job]:
    """The jobs of a kind and in a state, the newest first.  Only Graveler lists jobs."""
    path = with_query(_jobs(repository), kind=kind, state=state)
    return listed(session, Job, path, amount=amount, page_max=_PAGE)


def get_job(session: Session, repository: str, id: str) -> Job:
    """One job.  Raises `NotFound`."""
    return checked(Job, session.call("GET", _jobs(repository, id)))


def cancel_job(session: Session, repository: str, id: str) -> None:
    """Cancel a job.  Raises `Conflict` if it has ended, or can no longer be cancelled."""
    session.call("DELETE", _jobs(repository, id))


def _jobs(repository: str, *id: str) -> str:
    return below("repositories", repository, "jobs", *id)


def _id(answer: Any) -> str:
    return str(having(answer, "id")["id"])


# ---- imports of objects in place -----------------------------------------------------------------

_SKIPPED: Final = "graveler.import.skipped"  # in the metadata of the commit


@dataclass(frozen=True, slots=True)
class ImportSource:
    """What to import: all objects below a prefix of a storage, or one object; and to which prefix
    or path of the branch."""

    url: str
    destination: str
    kind: Literal["common_prefix", "object"] = "common_prefix"


@dataclass(frozen=True, slots=True)
class ImportStatus:
    """How far an import is.  `skipped`: how many names it left out, with `examples`.  `answer`: the
    object of the API."""

    completed: bool
    objects: int
    commit: str = ""
    skipped: int = 0
    examples: list[str] = field(default_factory=list)
    answer: Mapping[str, Any] = field(default_factory=dict)


def begin_import(
    session: Session, repository: str, branch: str, source: ImportSource, message: Message
) -> str:
    """Begin an import and return its id.  What is below the destination is replaced.

    Raises `Invalid` for a source that the server may not read."""
    location = {"type": source.kind, "path": source.url, "destination": source.destination}
    body = {"paths": [location], "commit": message.body()}
    return _id(session.call("POST", _imports(repository, branch), body))


def import_status(session: Session, repository: str, branch: str, id: str) -> ImportStatus:
    """How far an import is.  Raises the error of an import that failed or was cancelled."""
    path = with_query(_imports(repository, branch), id=id)
    answer = having(session.call("GET", path), "completed")
    if "error" in answer:
        raise failure(400, str(having(answer["error"], "message")["message"]))
    commit = answer.get("commit")
    known = commit if isinstance(commit, dict) else {}
    metadata = known.get("metadata") or {}
    return ImportStatus(
        bool(answer["completed"]),
        int(answer.get("ingested_objects", 0)),
        str(known.get("id", "")),
        int(metadata.get(_SKIPPED, 0)),
        str(metadata.get(f"{_SKIPPED}.examples", "")).splitlines(),
        answer,
    )


def cancel_import(session: Session, repository: str, branch: str, id: str) -> None:
    """Cancel an import.  Raises `Conflict` if it has completed."""
    session.call("DELETE", with_query(_imports(repository, branch), id=id))


def _imports(repository: str, branch: str) -> str:
    return below("repositories", repository, "branches", branch, "import")


# ---- dumps of refs, and their restore into a bare repository -------------------------------------

TABLES: Final = ("commits_meta_range_id", "tags_meta_range_id", "branches_meta_range_id")


class Manifest(TypedDict):
    """The ids of the tables of a dump."""

    commits_meta_range_id: str
    tags_meta_range_id: str
    branches_meta_range_id: str


class DumpStatus(TypedDict):
    """How far a dump or a restore is.  `refs`: of a dump that is done."""

    id: str
    done: bool
    update_time: NotRequired[str]
    refs: NotRequired[Manifest]


def begin_dump(session: Session, repository: str) -> str:
    """Begin a dump, and return its id."""
    return _id(session.call("POST", below("repositories", repository, "dump")))


def dump_status(session: Session, repository: str, id: str) -> DumpStatus:
    """How far a dump is.  Raises the error of a dump that failed."""
    status = _status(session, below("repositories", repository, "dump"), id)
    if status["done"]:
        checked(Manifest, status.get("refs"))
    return status


def begin_restore(
    session: Session, repository: str, manifest: Manifest, *, force: bool = False
) -> str:
    """Begin to restore a dump into a bare repository, and return the id.  `force`: also
    into a read-only one.  Raises `Invalid` for a manifest that is none, and `Conflict` if the
    repository has refs."""
    body = {**manifest, **({"force": True} if force else {})}
    return _id(session.call("POST", below("repositories", repository, "restore"), body))


def restore_status(session: Session, repository: str, id: str) -> DumpStatus:
    """How far a restore is.  Raises the error of a restore that failed."""
    return _status(session, below("repositories", repository, "restore"), id)


def _status(session: Session, path: str, id: str) -> DumpStatus:
    answer = having(session.call("GET", with_query(path, task_id=id)))
    if answer.get("error"):
        raise failure(400, str(answer["error"]))
    return checked(DumpStatus, answer)
