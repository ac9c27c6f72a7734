"""Import: objects that lie elsewhere become paths of a branch, without being copied, as one commit.

    submit   checks the sources, notes a job (running), answers at once
    run      in a worker: list the sources  →  one sorted change list  →  land it as a commit
    status   the job record: progress moves while it runs, and stays as it is once it has ended

Each destination prefix is replaced by what was found at its source.  Nothing passes through
staging.

    running ──► landing ──► done, failed            cancelled: an answer of success is a promise,
       └──────────────────► failed, cancelled       that nothing of it lands, now or later

It is landing from before the first swap of the branch that may put its commit there, and cannot be
cancelled from then on.  What was listed is stored step by step (found.py), so that another runner
goes on where this one was; the commit bears the job's mark and is made once.  An import that was
cancelled, or failed before it was landing, leaves at most ranges that nothing names.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Literal

from graveler import limits
from graveler.committed import reader
from graveler.committed.apply import apply
from graveler.engine.commits import land
from graveler.engine.commits.messages import STRATEGY_KEY, check_message, check_metadata
from graveler.engine.commits.records import fresh
from graveler.engine.imports.records import Found, Resumed, Steps
from graveler.engine.imports.sources import ImportPath, ImportRequest, below, check, decode, encode
from graveler.engine.jobs import record
from graveler.engine.jobs.record import Ending, NewJob, Pulse, Stopped
from graveler.engine.ports import Deadline, Ports, check_writable, keyspace
from graveler.errors import Contended, GravelerError, Invalid, NotFound, Unavailable
from graveler.ids import JobId, parse_branch_id, parse_prefix
from graveler.records import (
    ABSENT,
    TOMBSTONE,
    Absent,
    Change,
    Commit,
    CommitEntry,
    Job,
    JobState,
    Record,
    Repository,
)
from graveler.refs.names import repositories

__all__ = [
    "ImportPath",
    "ImportRequest",
    "Resumed",
    "cancel",
    "decode",
    "note_time",
    "run",
    "status",
    "submit",
    "work",
]

KIND = "import"
DEFAULT_MESSAGE = "Import objects"
TIMESTAMP_KEY = ".lakefs.last.import.timestamp"


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
    head = fresh(ports, repo, name).branch.commit
    if not 1 <= len(request.paths) <= limits.import_paths_count_max:
        raise Invalid(f"paths: 1 to {limits.import_paths_count_max} sources are needed")
    for source in request.paths:
        check(ports, source)
    new = NewJob(JobId(ports.ids.unique(20)), KIND, name, encode(request), head, owner)
    return record.begin(ports, repo, new)


def status(ports: Ports, repo: Repository, job_id: str) -> Job:
    """The job as it is now.  `NotFound`."""
    job = record.status(ports, repo, job_id)
    if job.kind != KIND:
        raise NotFound("not found")
    return job


def cancel(ports: Ports, repo: Repository, job_id: str) -> None:
    """Stop a running import, once or often: it lands nothing, now or later.

    Errors: `NotFound`; `Conflict` once it is landing or has completed; `Unavailable`.
    """
    record.cancel(ports, repo, job_id, KIND)


# ---- running -------------------------------------------------------------------------------------


def run(ports: Ports, repo: Repository, branch: str, request: ImportRequest, job_id: JobId) -> None:
    """Do the work of a submitted job, and note how it ended; never raises for the work itself."""
    try:
        landed = work(ports, repo, branch, request, Pulse(ports, repo, job_id))
    except Stopped:
        return
    except GravelerError as error:
        record.end(ports, repo, job_id, Ending(JobState.FAILED, str(error)))
        return
    except BaseException:
        record.end(ports, repo, job_id, Ending(JobState.FAILED, "internal error"))
        raise
    record.end(ports, repo, job_id, Ending(JobState.DONE, landed=landed))
    note_time(ports, repo)


def note_time(ports: Ports, repo: Repository) -> None:
    """Say in the repository's metadata that an import has just ended."""
    when = str(ports.clock.now_ns() // limits.SECOND_NS)
    with suppress(Unavailable, Contended):  # the import is done, whether its time is noted or not
        repositories.merge_metadata(ports.kv, repo, {TIMESTAMP_KEY: when}, ports.ids)


def work(
    ports: Ports,
    repo: Repository,
    branch: str,
    request: ImportRequest,
    pulse: Pulse,
    resumed: Resumed | Literal[Absent.ABSENT] = ABSENT,
) -> CommitEntry:
    """List, build and land.  A job that others may run as well says so by `resumed`.

    Errors: `Stopped`, those of the sources and of `landing.land`.
    """
    once = ABSENT if resumed is ABSENT else resumed.once
    spent = 0.0 if resumed is ABSENT else resumed.age_seconds
    steps = ABSENT if resumed is ABSENT else Steps(ports, repo, resumed)
    deadline = Deadline(ports.clock, limits.import_seconds_max - spent)
    name = parse_branch_id(branch)
    records = Found(ports, repo, pulse, steps)
    for number, source in enumerate(request.paths):
        records.take(number, source)
        deadline.check("import")
    replaced = [
        parse_prefix(below(source.destination), "destination")
        for source in request.paths
        if source.kind == "common_prefix"
    ]
    mark = {} if once is ABSENT else {once.key: once.value}

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
            metadata={**request.metadata, **mark, STRATEGY_KEY: "source-wins"},
            parents=(head.id,),
        )

    return land.land(ports, repo, name, build, land.Terms(deadline, once))


def _outermost(prefixes: Sequence[bytes]) -> list[bytes]:
    """Sorted, without those that lie below another one."""
    outer: list[bytes] = []
    for prefix in sorted(set(prefixes)):
        if not outer or not prefix.startswith(outer[-1]):
            outer.append(prefix)
    return outer


def _changes(there: Iterator[bytes], records: Iterable[Record]) -> Iterator[Change]:
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
