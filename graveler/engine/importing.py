"""Import: objects that lie elsewhere become paths of a branch, without being copied, as one commit.

    submit   checks the sources, notes a job (running), answers at once
    run      in a worker: list the sources  →  one sorted change list  →  land it as a commit
    status   the job record: progress moves while it runs, and stays as it is once it has ended

Each destination prefix is replaced by what was found at its source.  Nothing passes through
staging.

    running ──► landing ──► done, failed            cancelled: an answer of success is a promise,
       └──────────────────► failed, cancelled       that nothing of it lands, now or later

A job ends once; whoever ends it second changes nothing.  It is landing from before the first swap
of the branch that may put its commit there, and cannot be cancelled from then on.  An import that
was cancelled, or failed before it was landing, leaves at most ranges that nothing names.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal

from graveler import limits
from graveler.block import address
from graveler.block.adapter import ListedObject
from graveler.committed import reader
from graveler.committed.apply import apply
from graveler.engine import landing
from graveler.engine.heads import fresh
from graveler.engine.messages import STRATEGY_KEY, check_message, check_metadata
from graveler.engine.ports import Deadline, Ports, check_writable, keyspace
from graveler.errors import Conflict, Contended, GravelerError, Invalid, NotFound, Unavailable
from graveler.ids import BranchId, JobId, parse_branch_id, parse_path, parse_prefix
from graveler.records import (
    ABSENT,
    TOMBSTONE,
    AddressType,
    Change,
    Commit,
    CommitEntry,
    Entry,
    Job,
    JobState,
    Repository,
)
from graveler.refs import jobs, repositories
from graveler.wire import encode_entry

KIND = "import"
DEFAULT_MESSAGE = "Import objects"
TIMESTAMP_KEY = ".lakefs.last.import.timestamp"
_HEARTBEAT_NS = limits.SECOND_NS
_JOB_ROUNDS = 20
_PAUSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class ImportPath:
    """One source.  `common_prefix`: all objects below a folder, to below `destination`; `object`:
    one object, to exactly `destination`."""

    kind: Literal["common_prefix", "object"]
    path: str
    destination: str


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """What to import, and what the commit says."""

    paths: Sequence[ImportPath]
    message: str
    committer: str
    metadata: Mapping[str, str] = field(default_factory=dict)


class _Cancelled(Exception):
    """Somebody asked this job to stop."""


# ---- starting, asking, cancelling ----------------------------------------------------------------


def submit(
    ports: Ports,
    repo: Repository,
    branch: str,
    request: ImportRequest,
    *,
    owner: bytes,
    force: bool = False,
) -> Job:
    """Note the job; `run` is to be called with its id.  Nothing of the branch changes here.

    Errors: `Invalid` (no sources, a source that may not be imported), `NotFound`, `Refused`.
    """
    name = parse_branch_id(branch)
    check_writable(repo, force)
    check_message(request.message)
    check_metadata(request.metadata)
    fresh(ports, repo, name)
    if not 1 <= len(request.paths) <= limits.import_paths_count_max:
        raise Invalid(f"paths: 1 to {limits.import_paths_count_max} sources are needed")
    for source in request.paths:
        _check_source(ports, source)
    now_ns = ports.clock.now_ns()
    job = Job(
        id=JobId(ports.ids.unique(20)),
        kind=KIND,
        state=JobState.RUNNING,
        owner=owner,
        created_ns=now_ns,
        updated_ns=now_ns,
        branch=name,
    )
    if jobs.put(ports.kv, repo, job, ABSENT, ports.ids.stamp()) is ABSENT:
        raise Unavailable("import not started: its record could not be stored; try again")
    return job


def _check_source(ports: Ports, source: ImportPath) -> None:
    """Raises `Invalid` for a source that this deployment may not read or that a repository owns."""
    if source.kind == "object":
        parse_path(source.destination, "destination")
    else:
        parse_prefix(source.destination, "destination")
    try:
        if source.kind == "object":
            address.split(source.path)
            ports.blocks.head(source.path)
        else:
            ports.blocks.list(_folder(source.path), "", 1)
    except (Invalid, NotFound) as error:
        raise Invalid(f"invalid import source: path={source.path[:200]}: {error}") from error
    after, more = "", True
    while more:
        page, more = repositories.list_page(ports.kv, "", "", after, limits.page_count_max)
        for other in page:
            if address.overlaps(other.namespace, source.path):
                raise Invalid(
                    f"invalid import source: it lies in a repository: path={source.path[:200]}"
                )
            after = other.id


def _folder(path: str) -> str:
    return path if path.endswith("/") else path + "/"


def status(ports: Ports, repo: Repository, job_id: str) -> Job:
    """The job as it is now.  `NotFound`."""
    return jobs.get(ports.kv, repo, JobId(job_id)).job


def cancel(ports: Ports, repo: Repository, job_id: str) -> None:
    """Stop a running job, once or often: it lands nothing, now or later.

    Errors: `NotFound`; `Conflict` once it is landing or has completed; `Unavailable`.
    """
    for _ in range(_JOB_ROUNDS):
        seen = jobs.get(ports.kv, repo, JobId(job_id))
        if seen.job.state in (JobState.DONE, JobState.FAILED):
            raise Conflict(f"import already completed: id={seen.job.id}")
        if seen.job.state is JobState.LANDING:
            raise Conflict(f"import cannot be cancelled any more: it is landing: id={seen.job.id}")
        if seen.job.cancel:
            return
        asked = replace(
            seen.job,
            cancel=True,
            state=JobState.CANCELLED,
            error="Canceled",
            updated_ns=ports.clock.now_ns(),
        )
        if jobs.put(ports.kv, repo, asked, seen, ports.ids.stamp()) is not ABSENT:
            return
    raise Unavailable("import could not be cancelled; try again")


def fail_orphans(ports: Ports, repo: Repository, owner: bytes) -> int:
    """End the running jobs of every process but `owner` as failed; how many there were.

    For a store that one process at a time can open: whoever ran them is dead.
    """
    count = 0
    for seen in jobs.list_all(ports.kv, repo):
        if not seen.job.ended and seen.job.owner != owner:
            message = "the process that ran it has ended"
            if _finish(ports, repo, seen.job.id, state=JobState.FAILED, error=message):
                count += 1
    return count


def _finish(
    ports: Ports,
    repo: Repository,
    job_id: JobId,
    *,
    state: JobState,
    error: str = "",
    landed: CommitEntry | None = None,
) -> bool:
    """End a running job; False if it had ended already."""
    for _ in range(_JOB_ROUNDS):
        seen = jobs.get(ports.kv, repo, job_id)
        if seen.job.ended:
            return False
        done = replace(seen.job, state=state, error=error, updated_ns=ports.clock.now_ns())
        if landed is not None:
            done = replace(done, commit=landed.id, metarange=landed.commit.metarange)
        if jobs.put(ports.kv, repo, done, seen, ports.ids.stamp()) is not ABSENT:
            return True
    return False


def _end(
    ports: Ports,
    repo: Repository,
    job_id: JobId,
    *,
    state: JobState,
    error: str = "",
    landed: CommitEntry | None = None,
) -> None:
    """As `_finish`, for whoever ran the job: a store that does not answer is asked again for a
    while.  What cannot be noted even so stays running until the next start."""
    for _ in range(_JOB_ROUNDS):
        with suppress(Unavailable):
            _finish(ports, repo, job_id, state=state, error=error, landed=landed)
            return
        ports.clock.sleep(_PAUSE_SECONDS)


# ---- running -------------------------------------------------------------------------------------


def run(ports: Ports, repo: Repository, branch: str, request: ImportRequest, job_id: JobId) -> None:
    """Do the work of a submitted job, and note how it ended; never raises for the work itself."""
    name = parse_branch_id(branch)
    try:
        landed = _imported(ports, repo, name, request, job_id)
    except _Cancelled:
        return
    except GravelerError as error:
        _end(ports, repo, job_id, state=JobState.FAILED, error=str(error))
        return
    except BaseException:
        _end(ports, repo, job_id, state=JobState.FAILED, error="internal error")
        raise
    _end(ports, repo, job_id, state=JobState.DONE, landed=landed)
    when = str(ports.clock.now_ns() // limits.SECOND_NS)
    with suppress(Unavailable, Contended):  # the import is done, whether its time is noted or not
        repositories.merge_metadata(ports.kv, repo, {TIMESTAMP_KEY: when}, ports.ids)


def _imported(
    ports: Ports, repo: Repository, branch: BranchId, request: ImportRequest, job_id: JobId
) -> CommitEntry:
    deadline = Deadline(ports.clock, limits.import_seconds_max)
    pulse = _Pulse(ports, repo, job_id)
    found: dict[bytes, bytes] = {}
    for source in request.paths:
        for key, entry in _listed(ports, source):
            found[key] = encode_entry(entry)
            pulse.beat(len(found))
        deadline.check("import")
    records = sorted(found.items())
    replaced = [
        parse_prefix(_below(source.destination), "destination")
        for source in request.paths
        if source.kind == "common_prefix"
    ]

    def build(head: CommitEntry) -> Commit:
        pulse.beat(len(records), always=True)
        space = keyspace(ports, repo)
        there = (
            key
            for prefix in _outermost(replaced)
            for key, _ in reader.scan(space, head.commit.metarange, b"", prefix)
        )
        applied = apply(space, head.commit.metarange, _changes(there, records), replace=True)
        pulse.land(len(records))
        return Commit(
            committer=request.committer,
            message=request.message or DEFAULT_MESSAGE,
            created_ns=ports.clock.now_ns(),
            metarange=applied.metarange_id,
            metadata={**request.metadata, STRATEGY_KEY: "source-wins"},
            parents=(head.id,),
        )

    return landing.land(ports, repo, branch, build, deadline)


def _below(destination: str) -> str:
    return destination if not destination or destination.endswith("/") else destination + "/"


def _outermost(prefixes: Sequence[bytes]) -> list[bytes]:
    """Sorted, without those that lie below another one."""
    outer: list[bytes] = []
    for prefix in sorted(set(prefixes)):
        if not outer or not prefix.startswith(outer[-1]):
            outer.append(prefix)
    return outer


def _changes(there: Iterator[bytes], records: Sequence[tuple[bytes, bytes]]) -> Iterator[Change]:
    """The imported records, and the deletion of every key `there` that is not among them."""
    old = next(there, None)
    for key, value in records:
        while old is not None and old < key:
            yield old, TOMBSTONE
            old = next(there, None)
        if old == key:
            old = next(there, None)
        yield key, value
    while old is not None:
        yield old, TOMBSTONE
        old = next(there, None)


def _listed(ports: Ports, source: ImportPath) -> Iterator[tuple[bytes, Entry]]:
    if source.kind == "object":
        head = ports.blocks.head(source.path)
        yield parse_path(source.destination), _entry(ListedObject(source.path, head))
        return
    folder, destination = _folder(source.path), _below(source.destination)
    after, more = "", True
    while more:
        page = ports.blocks.list(folder, after, limits.page_count_max)
        more = page.more and bool(page.lines)
        for line in page.lines:
            after = line.address
            relative = line.address[len(folder) :]
            if relative:
                yield parse_path(destination + relative), _entry(line)


def _entry(line: ListedObject) -> Entry:
    return Entry(
        address=line.address,
        size=line.head.size,
        checksum=line.head.etag,
        modified_ns=line.head.modified_ns,
        address_type=AddressType.FULL,
    )


class _Pulse:
    """Shows progress about once a second, and notices that the job was cancelled."""

    def __init__(self, ports: Ports, repo: Repository, job_id: JobId) -> None:
        self._ports = ports
        self._repo = repo
        self._job_id = job_id
        self._last_ns = 0

    def beat(self, progress: int, *, always: bool = False) -> None:
        """Raises `_Cancelled` if the job is not to run any more."""
        now_ns = self._ports.clock.now_ns()
        if not always and now_ns - self._last_ns < _HEARTBEAT_NS:
            return
        self._last_ns = now_ns
        seen = self._seen()
        self._put(replace(seen.job, progress=progress, updated_ns=now_ns), seen)

    def land(self, progress: int) -> None:
        """From here on nobody can cancel.  Raises `_Cancelled` if somebody did."""
        for _ in range(_JOB_ROUNDS):
            seen = self._seen()
            now_ns = self._ports.clock.now_ns()
            landing_ = replace(
                seen.job, state=JobState.LANDING, progress=progress, updated_ns=now_ns
            )
            if seen.job.state is JobState.LANDING or self._put(landing_, seen):
                return
        raise Unavailable(f"import not landed: its record could not be stored: id={self._job_id}")

    def _seen(self) -> jobs.VersionedJob:
        seen = jobs.get(self._ports.kv, self._repo, self._job_id)
        if seen.job.ended:
            raise _Cancelled
        return seen

    def _put(self, job: Job, seen: jobs.VersionedJob) -> bool:
        stamp = self._ports.ids.stamp()
        return jobs.put(self._ports.kv, self._repo, job, seen, stamp) is not ABSENT
