"""Dumps of the refs of a repository, and their restore into a bare one, over the API.

    begin_dump ──► id ──► dump_status … ──► done: the refs
    begin_restore ──► id ──► restore_status … ──► done

Each call is one request and raises the errors of `Session.ask`.  Part of the public Python client.
"""

from typing import Any, Final, TypedDict, cast

from graveler.client.refs import checked
from graveler.client.session import Session, below, failure, with_query

TABLES: Final = ("commits_meta_range_id", "tags_meta_range_id", "branches_meta_range_id")


class Manifest(TypedDict):
    """The ids of the tables of a dump."""

    commits_meta_range_id: str
    tags_meta_range_id: str
    branches_meta_range_id: str


class _Status(TypedDict):
    id: str
    done: bool
    update_time: str


class Status(_Status, total=False):
    """How far a dump or a restore is.  `refs`: of a dump that is done."""

    refs: Manifest


def begin_dump(session: Session, repository: str) -> str:
    """Begin a dump, and return its id."""
    return _id(session.ask("POST", _dump(repository)))


def dump_status(session: Session, repository: str, id: str) -> Status:
    """How far a dump is.  Raises the error of a dump that failed."""
    status = _status(session.ask("GET", with_query(_dump(repository), task_id=id)))
    if status["done"]:
        checked(checked(status, "refs")["refs"], *TABLES)
    return status


def begin_restore(
    session: Session, repository: str, manifest: Manifest, *, force: bool = False
) -> str:
    """Begin to restore refs and commits into a bare repository, and return the id.  `force`: also
    into a read-only one.  Raises `Invalid` for a manifest that is none, and `Conflict` if the
    repository has refs."""
    body = {**manifest, **({"force": True} if force else {})}
    return _id(session.ask("POST", _restore(repository), body))


def restore_status(session: Session, repository: str, id: str) -> Status:
    """How far a restore is.  Raises the error of a restore that failed."""
    return _status(session.ask("GET", with_query(_restore(repository), task_id=id)))


def _status(answer: Any) -> Status:
    status = checked(answer, "id", "done")
    if status.get("error"):
        raise failure(400, str(status["error"]))
    return cast(Status, status)


def _id(answer: Any) -> str:
    return str(checked(answer, "id")["id"])


def _dump(repository: str) -> str:
    return below("repositories", repository, "dump")


def _restore(repository: str) -> str:
    return below("repositories", repository, "restore")
