"""Import: adds objects of other buckets and folders to a branch, as one commit, without a copy.

    submit   checks the sources, stores a job (running), returns at once
    run      in a worker: list the sources  →  one sorted change list  →  land it as a commit
    status   the job record: progress changes while the job runs, and stays after it has ended

The objects of a source replace everything below its destination prefix.  Staging is not used.  A
source that does not exist fails the job.  What is no object, or has a name that no path can have,
is skipped: the commit's metadata has the number and the first names.

    running ──► landing ──► done, failed            cancelled: after a successful cancellation,
       └──────────────────► failed, cancelled       nothing of the import lands, now or later

The job is set to *landing* before the first swap that may put its commit on the branch.  From then
on it cannot be cancelled.  Each attempt stores checkpoints of what it has listed (`records.py`),
and the next attempt continues from them.  The commit carries the job's idempotency key, so it is
made once.  An import that is cancelled, or fails before it is landing, leaves at most ranges that
nothing references.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Literal

from graveler import limits
from graveler.committed import reader
from graveler.committed.apply import apply
from graveler.engine import protection
from graveler.engine.commits import land
from graveler.engine.commits.heads import fresh
from graveler.engine.commits.messages import STRATEGY_KEY, check_message, check_metadata
from graveler.engine.hooks import COMMIT
from graveler.engine.imports.records import ImportState, SourceRecords, Steps
from graveler.engine.imports.sources import ImportPath, ImportRequest, below, check, decode, encode
from graveler.engine.jobs import record
from graveler.engine.jobs.record import Ending, Heartbeat, NewJob, Stopped
from graveler.engine.ports import Deadline, OpenRepository, check_writable, keyspace
from graveler.errors import Code, Contended, GravelerError, Invalid, NotFound, Unavailable
from graveler.ids import BranchId, JobId, parse_branch_id, parse_prefix
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
)
from graveler.refs.names import repositories

__all__ = [
    "ImportPath",
    "ImportRequest",
    "ImportState",
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
SKIPPED_KEY = "graveler.import.skipped"  # in the commit's metadata: how many objects
SKIPPED_EXAMPLES_KEY = "graveler.import.skipped.examples"  # a line each


# ---- starting, asking, cancelling ----------------------------------------------------------------


def submit(
    repo: OpenRepository, branch: str, request: ImportRequest, *, owner: bytes, force: bool = False
) -> Job:
    """Check the request and store the job.  A worker must then call `run` with the job's id.

    The branch does not change here.
    Errors: `Invalid` (no sources, a source that may not be imported), `NotFound`, `Refused`.
    """
    name = parse_branch_id(branch)
    check_writable(repo.record, force)
    protection.check_commit(repo, name)
    check_message(request.message)
    check_metadata(request.metadata)
    head = fresh(repo, name).branch.commit
    if not 1 <= len(request.paths) <= limits.import_paths_count_max:
        raise Invalid(f"paths invalid: give 1 to {limits.import_paths_count_max} sources")
    for source in request.paths:
        check(repo, source)
    new = NewJob(JobId(repo.ids.unique(20)), KIND, name, encode(request), head, owner)
    return record.begin(repo, new)


def status(repo: OpenRepository, job_id: str) -> Job:
    """The job, read from the store now.  `NotFound`."""
    job = record.status(repo, job_id)
    if job.kind != KIND:
        raise NotFound("not found", Code.JOB_NOT_FOUND, job=job_id)
    return job


def cancel(repo: OpenRepository, branch: str, job_id: str) -> None:
    """Cancel a running import: nothing of it lands, now or later.  The call may be repeated.

    Errors: `NotFound`, also for a job on another branch; `Conflict` if the job is landing or has
    completed; `Unavailable`.  Cost: 2 KV requests.
    """
    record.cancel(repo, job_id, KIND, branch)


# ---- running -------------------------------------------------------------------------------------


def run(repo: OpenRepository, branch: BranchId, request: ImportRequest, job_id: JobId) -> None:
    """Do the work of a submitted job, and store its result or its error.

    A `GravelerError` of the work is stored, not raised.  Any other exception is stored as "internal
    error" and raised.
    """
    try:
        landed = work(repo, branch, request, Heartbeat(repo, job_id))
    except Stopped:
        return
    except GravelerError as error:
        record.end(repo, job_id, Ending(JobState.FAILED, str(error)))
        return
    except BaseException:
        record.end(repo, job_id, Ending(JobState.FAILED, "internal error"))
        raise
    record.end(repo, job_id, Ending(JobState.DONE, landed=landed))
    note_time(repo)


def note_time(repo: OpenRepository) -> None:
    """Store the time of the last import, which is now, in the repository's metadata."""
    when = str(repo.clock.now_ns() // limits.SECOND_NS)
    with suppress(Unavailable, Contended):  # the import is done even if its time is not stored
        repositories.merge_metadata(repo.kv, repo.record, {TIMESTAMP_KEY: when}, repo.ids)


def work(
    repo: OpenRepository,
    branch: BranchId,
    request: ImportRequest,
    pulse: Heartbeat,
    resumed: ImportState | Literal[Absent.ABSENT] = ABSENT,
) -> CommitEntry:
    """List the sources, build the metarange, and land the commit.

    `resumed`: the state of a job that other attempts may work on too; ABSENT: there is one attempt.
    Errors: `Stopped`, those of the sources and of `land.land`.
    """
    once = ABSENT if resumed is ABSENT else resumed.once
    spent = 0.0 if resumed is ABSENT else resumed.age_seconds
    steps = ABSENT if resumed is ABSENT else Steps(repo, resumed)
    deadline = Deadline(repo.clock, limits.import_seconds_max - spent)
    records = SourceRecords(repo, pulse, steps)
    for number, source in enumerate(request.paths):
        records.take(number, source)
        deadline.check("import")
    replaced = [
        parse_prefix(below(source.destination), "destination")
        for source in request.paths
        if source.kind == "common_prefix"
    ]
    own = {} if once is ABSENT else {once.key: once.value}
    if records.skipped.total:
        own[SKIPPED_KEY] = str(records.skipped.total)
        own[SKIPPED_EXAMPLES_KEY] = "\n".join(records.skipped.examples)

    def build(head: CommitEntry) -> Commit:
        pulse.beat(len(records), always=True)
        space = keyspace(repo, deadline.checking("import"))
        old_paths = (
            key
            for prefix in _outermost(replaced)
            for key, _ in reader.scan(space, head.commit.metarange, b"", prefix)
        )
        applied = apply(space, head.commit.metarange, _changes(old_paths, records), replace=True)
        protection.check_commit(repo, branch)  # the last moment before nobody can cancel
        pulse.land(len(records))
        return Commit(
            committer=request.committer,
            message=request.message or DEFAULT_MESSAGE,
            created_ns=repo.clock.now_ns(),
            metarange=applied.metarange_id,
            metadata={**request.metadata, **own, STRATEGY_KEY: "source-wins"},
            parents=(head.id,),
        )

    return land.land(repo, branch, build, land.Terms(deadline, once, COMMIT))


def _outermost(prefixes: Sequence[bytes]) -> list[bytes]:
    """The prefixes in order, without those that begin with another one."""
    outer: list[bytes] = []
    for prefix in sorted(set(prefixes)):
        if not outer or not prefix.startswith(outer[-1]):
            outer.append(prefix)
    return outer


def _changes(old_paths: Iterator[bytes], records: Iterable[Record]) -> Iterator[Change]:
    """The imported records, and a deletion for every key of `old_paths` that is not among them.

    `old_paths` and `records` are in key order, and so is the result.
    """
    old, rest = next(old_paths, None), iter(records)
    for key, value in rest:
        while old is not None and old < key:
            yield old, TOMBSTONE
            old = next(old_paths, None)
        if old == key:
            old = next(old_paths, None)
        yield key, value
        if old is None:
            break
    yield from rest
    while old is not None:
        yield old, TOMBSTONE
        old = next(old_paths, None)
