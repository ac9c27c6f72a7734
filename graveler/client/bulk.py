"""Bulk jobs, staged rows and roots of a collection, for a cluster that writes ranges itself.

    job = begin(session, "lake", "main", "replace", prefix="in/", id="load-1")
    ...   ranges and one metarange, written below job.storage_namespace with a role of one's own
    commit = finish(session, "lake", job, Landing(metarange, "load-1", "loaded"))

A job that is begun again by its id is the same job, and a finish with the same request id is the
same finish: whoever drives a job may die and begin anew.  Calls raise what `Session.ask` does.  For
whoever uses the package.
"""

from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlencode

from graveler import break_json
from graveler.client.session import Session, below
from graveler.errors import Conflict, Contended, Internal, Invalid, Unavailable
from graveler.records import TOMBSTONE, BreakParameters, StagedValue

Mode = Literal["replace", "merge", "commit"]  # and pack: begin_packing
_PAGE: Final = 10_000
_ALIVE: Final = ("running", "landing", "done")
_FINISH_ROUNDS: Final = 60
_PAUSE_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class StagingToken:
    """Where uncommitted rows stand; into a sealed one none is written any more."""

    token: str
    shards: int
    sealed: bool


@dataclass(frozen=True, slots=True)
class BulkJob:
    """A job as it was when the server answered.  Dates in seconds since 1970; after
    `expiration_date` it cannot land.  `commit` is empty until it has.  `message` and `metadata`: of
    a commit that was handed over, what it was to say."""

    id: str
    state: str
    branch: str
    mode: str
    prefix: str
    base_commit: str
    base_metarange: str
    storage_namespace: str
    breaks: BreakParameters
    staging_tokens: tuple[StagingToken, ...]
    creation_date: int
    expiration_date: int
    heartbeat_seconds: int
    progress: int
    commit: str = ""
    error: str = ""
    message: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Landing:
    """What is to land, and what the commit says.  `request_id`: the same for every attempt."""

    metarange: str
    request_id: str
    message: str
    metadata: Mapping[str, str] = field(default_factory=dict)


class StagedRow(NamedTuple):
    """One uncommitted change: the framed entry as ranges hold it, or a tombstone."""

    path: str
    value: StagedValue
    order: int


class Root(NamedTuple):
    """Something that no collection may delete: a relative address, a bulk job (what stands below
    `_graveler/jobs/<name>/` is in use), or a metarange.  `kept`: all that it names is, for good.

    `files`: the metarange and its ranges stay.  `objects`: what its entries name is `kept`; may not
    go before it was condemned for the undo period (`expiring`); may go once
    `collecting.sweep` was asked (`due`); was given up then (`gone`)."""

    kind: Literal["address", "job", "metarange"]
    name: str
    kept: bool
    files: bool
    objects: str


# ---- jobs ----------------------------------------------------------------------------------------


def begin(
    session: Session,
    repository: str,
    branch: str,
    mode: Mode,
    *,
    prefix: str = "",
    id: str = "",
    purpose: str = "",
) -> BulkJob:
    """Begin a job on the head of the branch; with an `id` that is known, that job as it is now:
    running, landing or done.  `purpose`: what it is for, in the caller's words.

    `Conflict`: the id is another job's, or that of one with another purpose, or of one that cannot
    land any more.  `Invalid`, `NotFound`, `Refused`.  `OutcomeUnknown`: begin it again by the same
    id.
    """
    body = {"mode": mode, "prefix": prefix, "id": id, "purpose": purpose}
    return _begun(session, repository, branch, body)


def begin_packing(
    session: Session, repository: str, branch: str, breaks: BreakParameters, *, id: str = ""
) -> BulkJob:
    """As `begin`, of a job that writes what its base says into ranges that end by `breaks`."""
    body = {"mode": "pack", "id": id, "breaks": break_json.told(breaks)}
    return _begun(session, repository, branch, body)


def _begun(session: Session, repository: str, branch: str, body: Mapping[str, Any]) -> BulkJob:
    job = _job(session.ask("POST", _jobs(repository, branch), body))
    if job.state not in _ALIVE:  # found out now, not after hours of work
        raise Conflict(f"bulk job cannot land: state={job.state} id={job.id}: use another id")
    return job


def status(session: Session, repository: str, job: BulkJob) -> BulkJob:
    """The job as it is now.  `NotFound` a day after it ended."""
    return _job(session.ask("GET", _jobs(repository, job.branch, job.id)))


def heartbeat(session: Session, repository: str, job: BulkJob, progress: int = -1) -> BulkJob:
    """Show that the job is alive, and how many rows are done (-1: as many as before).

    `Conflict`: it was cancelled or has expired, and its runner is to stop."""
    body = {} if progress < 0 else {"progress": progress}
    return _job(session.ask("PUT", _jobs(repository, job.branch, job.id), body))


def cancel(session: Session, repository: str, job: BulkJob) -> None:
    """Stop a job: nothing of it lands, now or later.  `Conflict`: it is landing, or has landed."""
    session.ask("DELETE", _jobs(repository, job.branch, job.id))


def finish(session: Session, repository: str, job: BulkJob, landing: Landing) -> str:
    """Land what the job wrote, all of it or nothing; the id of its commit, the same each time.

    A server that is busy, or that still works on it, is asked again for some minutes.  `NotFound`
    and `Invalid` name what is wrong with the metarange; `Conflict`: the branch has uncommitted
    changes (commit or reset them, and finish again), or the job cannot land any more.
    """
    body = {
        "metarange": landing.metarange,
        "request_id": landing.request_id,
        "message": landing.message,
        "metadata": dict(landing.metadata),
    }
    where = _jobs(repository, job.branch, job.id, "finish")
    for _ in range(_FINISH_ROUNDS):
        try:
            return _text(session.ask("PUT", where, body), "id")
        except (Contended, Unavailable):
            session.clock.sleep(_PAUSE_SECONDS)
    return _text(session.ask("PUT", where, body), "id")


# ---- what stands in the store --------------------------------------------------------------------


def staging_tokens(session: Session, repository: str, branch: str) -> tuple[StagingToken, ...]:
    """Where the branch's uncommitted rows stand, newest first: the first that knows a path
    decides."""
    found = session.ask("GET", _staged(repository, branch))
    return tuple(StagingToken(**each) for each in _results(found))


def staged_rows(
    session: Session, repository: str, branch: str, token: str, shard: int
) -> Iterator[StagedRow]:
    """The rows of one shard by path, tombstones included.  `NotFound` once the branch does not name
    the token any more.  One request for each 10,000 rows or 3 MiB."""
    where = _staged(repository, branch, token, str(shard))
    for row in _paged(session, where):
        value = b64decode(row["value"]) if "value" in row else TOMBSTONE
        yield StagedRow(row["path"], value, row["order"])


def roots(session: Session, repository: str) -> Iterator[Root]:
    """Everything in use, in the one order that is safe: list the storage before, and delete nothing
    unless this came to its end.  One request for each 10,000."""
    for root in _paged(session, below("repositories", repository, "gc", "roots")):
        kept = root["kept"]
        objects = root.get("objects", "kept" if kept else "expiring")
        yield Root(root["kind"], root["name"], kept, root.get("files", kept), objects)


def _paged(session: Session, where: str) -> Iterator[dict[str, Any]]:
    after, more = "", True
    while more:
        query = urlencode({"amount": _PAGE, "after": after})
        found = session.ask("GET", f"{where}?{query}")
        yield from _results(found)
        page = found["pagination"]
        following: str = page["next_offset"]
        more = page["has_more"] and following != after
        after = following


def _jobs(repository: str, branch: str, *job: str) -> str:
    return below("repositories", repository, "branches", branch, "bulk", *job)


def _staged(repository: str, branch: str, *token: str) -> str:
    return below("repositories", repository, "branches", branch, "staging", "tokens", *token)


_NOT_OURS: Final = "the server answers with something else: it is no Graveler, or another version"


def _results(said: Any) -> list[dict[str, Any]]:
    found = said.get("results") if isinstance(said, dict) else None
    if not isinstance(found, list):
        raise Internal(_NOT_OURS)
    return found


def _text(said: Any, name: str) -> str:
    found = said.get(name) if isinstance(said, dict) else None
    if not isinstance(found, str):
        raise Internal(_NOT_OURS)
    return found


def parsed_breaks(said: Any) -> BreakParameters:
    """Break parameters as the API tells them.  Raises `Internal`."""
    try:
        return break_json.parsed(said)
    except Invalid as error:
        raise Internal(_NOT_OURS) from error


def _job(said: Any) -> BulkJob:
    _text(said, "id")
    try:
        read = {
            "breaks": parsed_breaks(said["breaks"]),
            "staging_tokens": tuple(StagingToken(**each) for each in said["staging_tokens"]),
        }
        names = {each.name for each in fields(BulkJob)} & said.keys()
        return BulkJob(**{name: said[name] for name in names} | read)
    except (KeyError, TypeError, ValueError) as error:
        raise Internal(_NOT_OURS) from error
