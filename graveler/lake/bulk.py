"""Bulk jobs, staged rows and roots of a collection, for a cluster that writes ranges itself.

    job = begin(session, "lake", "main", "replace", prefix="in/", id="load-1")
    ...   the cluster writes ranges and one metarange below job.storage_namespace, with its own role
    commit = finish(session, "lake", job, Landing(metarange, "load-1", "loaded"))

Both ids are idempotency keys: `begin` with a known id returns the same job, and `finish` with the
same request id is the same finish.  So the program that drives a job may crash and start again.
Calls raise the errors of `Session.call`.
"""

from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final, Literal, NamedTuple

from graveler.core.errors import Conflict, Contended, Internal, Invalid, Unavailable
from graveler.core.records import TOMBSTONE, BreakParameters, StagedValue
from graveler.lake.session import NOT_GRAVELER, Session, below, having, paged, results_of

Mode = Literal["replace", "merge", "commit", "splice"]  # for the mode `pack`, see begin_packing
_PAGE: Final = 10_000
_ALIVE: Final = ("running", "landing", "done")
_FINISH_ROUNDS: Final = 60
_PAUSE_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class StagingToken:
    """A staging token, which holds staged rows.  A sealed token receives no more rows."""

    token: str
    shards: int
    sealed: bool


@dataclass(frozen=True, slots=True)
class BulkJob:
    """A bulk job as the server described it.

    Dates are in seconds since 1970.  After `expiration_date` the job cannot land.  `commit` is
    empty until the job has landed.  `token`: see `begin`; status and heartbeat do not return it.
    `stream`, `batch`: the batch that the job lands, if `stream` is
    not empty.  A job that `begin` returned because its batch had landed is `done`, and has no
    record.  If the job took over a commit that was too large for the
    server, `message` and `metadata` are those of that commit.
    """

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
    stream: str = ""
    batch: int = 0
    token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class NewEntry:
    """A path, and the object that it will point to.

    `physical_address`: the full address of the object, in the storage namespace of the job.
    `mtime`: seconds since 1970; None: when the job began.
    """

    path: str
    physical_address: str
    size_bytes: int
    checksum: str
    content_type: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    mtime: int | None = None

    def as_json(self) -> dict[str, Any]:
        """The entry as the API takes it."""
        fields = asdict(self)
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Landing:
    """The metarange to land, and the message and metadata of its commit.

    `entries`: up to 1,000 entries in place of a metarange, for a job of the mode *splice* or
    *replace*; the server writes their metarange.  The metarange is then empty.
    `request_id`: an idempotency key, the same for every attempt.  For a job of the mode *splice*:
    `replace`: prefixes that are emptied before the metarange's entries are put; `guard`: prefixes
    that no commit since the job's base may have changed.  Each lies below the job's prefix; a
    folder ends with a slash.  At most 10,000 of each.
    """

    metarange: str
    request_id: str
    message: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    replace: Sequence[str] = ()
    guard: Sequence[str] = ()
    entries: Sequence[NewEntry] = ()


class StagedRow(NamedTuple):
    """One uncommitted change: the framed entry, as in ranges, or a tombstone."""

    path: str
    value: StagedValue
    order: int


class Root(NamedTuple):
    """A root of a garbage collection: an address, bulk job or metarange that protects files.

    `kind`: a relative address; a bulk job (everything below `_graveler/jobs/<name>/` is in use); or
    a metarange.
    `kept`: everything that the root names stays permanently.
    `files`: the metarange and its ranges stay.
    `objects`: the state of the objects that the metarange's entries name:

        kept       stay
        expiring   may be deleted only after they were condemned for the undo period
        due        may be deleted after a call of `collections.sweep`
        gone       were given up by such a call
    """

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
    stream: str = "",
    batch: int = 0,
    on_rewind: Literal["fail", "accept"] = "fail",
    token: bool = False,
) -> BulkJob:
    """Begin a bulk job on the head of the branch.  If a job with this `id` exists, return that job
    in its present state: running, landing or done.  `purpose`: a free text of the caller.

    With a `stream`, the job lands the batch of this number, once on this branch.  If it or a later
    one has landed, the returned job is `done`, with the commit of the last batch: write nothing.
    `on_rewind`: what to do if a hard reset has moved the branch behind the last batch: raise
    `Conflict`, or land the batch on the branch as it is.

    `token`: ask for a token, with which `session_of` makes a session for this job alone.

    Errors: `Conflict` if the id belongs to another job, to a job with another purpose, or to one
    that cannot land any more.  `Invalid`, `NotFound`, `Refused`.  After `OutcomeUnknown`, begin
    again with the same id.
    """
    body: dict[str, Any] = {"mode": mode, "prefix": prefix, "id": id, "purpose": purpose}
    if stream:
        body |= {"stream": stream, "batch": batch, "on_rewind": on_rewind}
    if token:
        body["token"] = True
    return _begun(session, repository, branch, body)


def begin_packing(
    session: Session, repository: str, branch: str, breaks: BreakParameters, *, id: str = ""
) -> BulkJob:
    """As `begin`, for a job that rewrites the content of its base commit into ranges that end by
    the parameters `breaks`."""
    body = {"mode": "pack", "id": id, "breaks": breaks.as_json()}
    return _begun(session, repository, branch, body)


def _begun(session: Session, repository: str, branch: str, body: Mapping[str, Any]) -> BulkJob:
    job = _job(session.call("POST", _jobs(repository, branch), body))
    if job.state not in _ALIVE:  # fail now, not after hours of work
        raise Conflict(f"bulk job cannot land: state={job.state} id={job.id}: use another id")
    return job


def session_of(session: Session, job: BulkJob) -> Session:
    """A session that may send the heartbeat of this job, finish and cancel it, and nothing else,
    until the job expires.  It has no access key, so it may go to other machines.  Raises `Invalid`
    if the job was begun without `token`.  Sends nothing."""
    if not job.token:
        raise Invalid(f"bulk job has no token: begin it with token=True: id={job.id}")
    return replace(session, access_key_id="", secret_access_key="", token=job.token)


def status(session: Session, repository: str, job: BulkJob) -> BulkJob:
    """The present state of the job.  `NotFound` from a day after its end."""
    return _job(session.call("GET", _jobs(repository, job.branch, job.id)))


def heartbeat(session: Session, repository: str, job: BulkJob, progress: int = -1) -> BulkJob:
    """Send a heartbeat, and the number of rows done (-1: unchanged).

    `Conflict`: the job was cancelled or has expired; the cluster must stop."""
    body = {} if progress < 0 else {"progress": progress}
    return _job(session.call("PUT", _jobs(repository, job.branch, job.id), body))


def cancel(session: Session, repository: str, job: BulkJob) -> None:
    """Cancel a job: it never lands.  `Conflict`: it is landing or has landed."""
    session.call("DELETE", _jobs(repository, job.branch, job.id))


def finish(session: Session, repository: str, job: BulkJob, landing: Landing) -> str:
    """Land the job's metarange atomically and return the id of its commit.  Idempotent: every call
    returns the same commit.

    While the server is busy or still works on it, the call repeats the request for some minutes.
    Errors: `NotFound` and `Invalid` describe what is wrong with the metarange.  `Conflict`: the
    branch has uncommitted changes (commit or reset them, then finish again), a guarded prefix has
    changed (the text names a path; begin another job), or the job cannot land any more.
    """
    body: dict[str, Any] = {
        "request_id": landing.request_id,
        "message": landing.message,
        "metadata": dict(landing.metadata),
    }
    if landing.metarange:
        body["metarange"] = landing.metarange
    else:
        body["entries"] = [entry.as_json() for entry in landing.entries]
    if landing.replace or landing.guard:
        body |= {"replace": list(landing.replace), "guard": list(landing.guard)}
    where = _jobs(repository, job.branch, job.id, "finish")
    for _ in range(_FINISH_ROUNDS):
        try:
            return _id(session.call("PUT", where, body))
        except (Contended, Unavailable):
            session.clock.sleep(_PAUSE_SECONDS)
    return _id(session.call("PUT", where, body))


# ---- staged rows and roots -----------------------------------------------------------------------


def staging_tokens(session: Session, repository: str, branch: str) -> tuple[StagingToken, ...]:
    """The staging tokens of the branch, newest first.  For each path, the first token that has a
    row wins."""
    answer = session.call("GET", _staged(repository, branch))
    return tuple(StagingToken(**token) for token in results_of(answer))


def staged_rows(
    session: Session, repository: str, branch: str, token: str, shard: int
) -> Iterator[StagedRow]:
    """The staged rows of one shard in path order, including tombstones.  `NotFound` once the branch
    no longer names the token.  Cost: one request per 10,000 rows or 3 MiB."""
    where = _staged(repository, branch, token, str(shard))
    for row in paged(session, where, _PAGE):
        value = b64decode(row["value"]) if "value" in row else TOMBSTONE
        yield StagedRow(row["path"], value, row["order"])


def roots(session: Session, repository: str) -> Iterator[Root]:
    """All roots of the repository.  For safety, list the storage before this call, and delete
    nothing unless the iteration reached its end.  Cost: one request per 10,000 roots."""
    for root in paged(session, below("repositories", repository, "gc", "roots"), _PAGE):
        is_kept = root["kept"]
        objects = root.get("objects", "kept" if is_kept else "expiring")
        yield Root(root["kind"], root["name"], is_kept, root.get("files", is_kept), objects)


def _jobs(repository: str, branch: str, *job: str) -> str:
    return below("repositories", repository, "branches", branch, "bulk", *job)


def _staged(repository: str, branch: str, *token: str) -> str:
    return below("repositories", repository, "branches", branch, "staging", "tokens", *token)


def _id(answer: Any) -> str:
    return str(having(answer, "id")["id"])


def _job(answer: Any) -> BulkJob:
    having(answer, "id", "breaks", "staging_tokens")
    try:
        read = {
            "breaks": _breaks(answer["breaks"]),
            "staging_tokens": tuple(StagingToken(**token) for token in answer["staging_tokens"]),
        }
        names = {known.name for known in fields(BulkJob)} & answer.keys()
        return BulkJob(**{name: answer[name] for name in names} | read)
    except (KeyError, TypeError, ValueError) as error:
        raise Internal(NOT_GRAVELER) from error


# ---- break parameters: where the ranges of a repository end --------------------------------------
#
#     seen = read_breaks(session, "lake")
#     swap_breaks(session, "lake", seen, replace(seen, min_size=8 << 20))
#
# New ranges use the new parameters; `graveler.spark.pack` rewrites existing ranges.


def read_breaks(session: Session, repository: str) -> BreakParameters:
    """The current parameters.  Raises `NotFound` if the repository does not exist."""
    return _breaks(session.call("GET", below("repositories", repository, "settings", "breaks")))


def swap_breaks(
    session: Session, repository: str, seen: BreakParameters, new: BreakParameters
) -> None:
    """Set the parameters to `new` if they are still `seen` (compare-and-swap).  Idempotent.

    Errors: `PreconditionFailed` if another client has changed them; nothing was changed.
    `Invalid`, `NotFound`, `Refused`.  After `OutcomeUnknown`, read the parameters.
    """
    body = {"expected": seen.as_json(), "breaks": new.as_json()}
    session.call("PUT", below("repositories", repository, "settings", "breaks"), body)


def _breaks(answer: Any) -> BreakParameters:
    try:
        return BreakParameters.of_json(answer)
    except Invalid as error:
        raise Internal(NOT_GRAVELER) from error
