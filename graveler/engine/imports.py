"""Import: adds objects of other buckets and folders to a branch, as one commit, without a copy.

The objects of a source replace everything below its destination; staging is not used.  A job is set
to *landing* before the first swap that may put its commit on the branch: from then on it cannot be
cancelled.  Each attempt stores checkpoints of what it has listed, and the next continues there.
The commit carries the job's idempotency key, so it is made once.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from heapq import merge
from typing import Literal, NamedTuple

from graveler.committed import reader
from graveler.committed.apply import apply
from graveler.committed.ranges import EMPTY_METARANGE
from graveler.committed.reader import range_columns
from graveler.core import limits
from graveler.core.errors import Code, Contended, GravelerError, Invalid, NotFound, Unavailable
from graveler.core.ids import BranchId, JobId, parse_branch_id, parse_prefix
from graveler.core.records import (
    ABSENT,
    TOMBSTONE,
    Absent,
    Change,
    Commit,
    CommitEntry,
    Job,
    JobState,
    RangeRef,
    Record,
)
from graveler.engine import protection
from graveler.engine.commits import land
from graveler.engine.commits.heads import fresh
from graveler.engine.commits.merge import STRATEGY_KEY
from graveler.engine.commits.search import Once
from graveler.engine.hooks import COMMIT
from graveler.engine.import_sources import (
    NOTHING_SKIPPED,
    SkippedNames,
    below,
    check,
    one,
    pages,
)
from graveler.engine.import_sources import (
    ImportPath as ImportPath,
)
from graveler.engine.jobs import record
from graveler.engine.jobs.record import Ending, Heartbeat, NewJob, Stopped
from graveler.engine.ports import (
    Deadline,
    OpenRepository,
    check_message,
    check_metadata,
    check_writable,
    keyspace,
)
from graveler.engine.repositories import repository
from graveler.refs import job_records as records
from graveler.refs import repositories
from graveler.refs.job_records import Step

KIND = "import"
DEFAULT_MESSAGE = "Import objects"
TIMESTAMP_KEY = ".lakefs.last.import.timestamp"
SKIPPED_KEY = "graveler.import.skipped"  # in the commit's metadata: how many objects
SKIPPED_EXAMPLES_KEY = "graveler.import.skipped.examples"  # a line each


# ---- starting, asking, cancelling ----------------------------------------------------------------


class ImportRequest(NamedTuple):
    """The sources of an import, and the message, committer and metadata of its commit."""

    paths: Sequence[ImportPath]
    message: str
    committer: str
    metadata: Mapping[str, str] = {}


def encode(request: ImportRequest) -> str:
    """The request as text, for the record of a job."""
    return json.dumps(
        {
            "paths": [[each.kind, each.path, each.destination] for each in request.paths],
            "message": request.message,
            "committer": request.committer,
            "metadata": dict(request.metadata),
        }
    )


def decode(body: str) -> ImportRequest:
    """The request that `encode` wrote."""
    fields = json.loads(body)
    paths = [ImportPath(*each) for each in fields["paths"]]
    return ImportRequest(paths, fields["message"], fields["committer"], fields["metadata"])


class ImportState(NamedTuple):
    """The state of a job that several attempts may work on, one after the other.

    - `once`: the idempotency key of its commit; the value is the job's id.
    - `age_seconds`: the age of the job.
    - `spill_count`: how many records an attempt holds in memory before it stores a checkpoint.
    """

    once: Once
    age_seconds: float = 0.0
    spill_count: int = limits.import_spill_count


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
    steps = ABSENT if resumed is ABSENT else ListingSteps(repo, resumed)
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

    breaks = repo.record.breaks

    def build(head: CommitEntry) -> Commit:
        nonlocal breaks
        pulse.beat(len(records), always=True)
        is_first = head.commit.metarange in ("", EMPTY_METARANGE)
        breaks = repository.first_breaks(repo, len(records)) if is_first else repo.record.breaks
        chosen = replace(repo, record=replace(repo.record, breaks=breaks))
        space = keyspace(chosen, deadline.checking("import"))
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

    landed = land.land(repo, branch, build, land.Terms(deadline, once, COMMIT))
    repository.keep_breaks(repo, breaks)
    return landed


def _outermost(prefixes: Sequence[bytes]) -> list[bytes]:
    """The prefixes in order, without those that begin with another one."""
    outer: list[bytes] = []
    for prefix in sorted(set(prefixes)):
        if not outer or not prefix.startswith(outer[-1]):
            outer.append(prefix)
    return outer


def _changes(old_paths: Iterator[bytes], records: Iterable[Record]) -> Iterator[Change]:
    """The imported records, and a deletion for every key of `old_paths` that is not among them."""
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


# ---- records, in key order: some in memory, the rest in ranges -----------------------------------


_Ranked = tuple[bytes, int, bytes]


class ListingSteps:
    """The checkpoints of a job: `done` holds those of earlier attempts and of this one."""

    def __init__(self, repo: OpenRepository, resumed: ImportState) -> None:
        self._repo = repo
        self._job = JobId(resumed.once.value)
        self.spill_count = resumed.spill_count
        self.done = records.steps(repo.kv, repo.record, self._job)

    def add(self, step: Step) -> Step:
        """Store a checkpoint.  Return the one that counts: another attempt's, if that was first."""
        stamp = self._repo.ids.stamp()
        number = len(self.done)
        stored = records.add_step(self._repo.kv, self._repo.record, self._job, number, step, stamp)
        self.done.append(stored)
        return stored


class SourceRecords:
    """The records of all sources, in key order; may be iterated many times."""

    def __init__(
        self,
        repo: OpenRepository,
        pulse: Heartbeat,
        steps: ListingSteps | Literal[Absent.ABSENT] = ABSENT,
    ) -> None:
        self._ports = repo
        self._space = keyspace(repo)
        self._pulse = pulse
        self._steps = steps
        self._ranges: dict[int, list[RangeRef]] = {}
        self._memory: dict[int, dict[bytes, bytes]] = {}
        self._count = 0
        self.skipped = NOTHING_SKIPPED

    def __len__(self) -> int:
        """The number of listed records.

        If all records are in memory, a path of several sources counts once.
        """
        if self._ranges:
            return self._count
        return len(set().union(*self._memory.values()))

    def take(self, number: int, source: ImportPath) -> None:
        """List the source with this number, from its last checkpoint on.  Raises `Invalid` for one
        of which everything is skipped."""
        held = self._memory.setdefault(number, {})
        if source.kind == "object":
            key, value = one(self._ports, source)
            held[key] = value
            self._counted(1)
            return
        after = self._taken_up(number)
        skipped = NOTHING_SKIPPED
        while True:
            listed, is_over = after, True
            for page in pages(self._ports, source, after):
                listed = page.last
                held.update(page.records)
                skipped = skipped.plus(page.skipped)
                self._counted(len(page.records))
                if self._is_full(len(held)):
                    is_over = False
                    break
            # What is left of many sources must fit into memory as well.
            if is_over and not (held and self._is_full(sum(map(len, self._memory.values())))):
                if not held and number not in self._ranges:
                    _check_empty(source, skipped)
                self.skipped = self.skipped.plus(skipped)
                return
            after = self._spilled(number, listed, skipped)
            skipped = NOTHING_SKIPPED
            if is_over and after == listed:
                return

    def _is_full(self, count: int) -> bool:
        return self._steps is not ABSENT and count >= self._steps.spill_count

    def _counted(self, more: int) -> None:
        self._count += more
        self._pulse.beat(self._count)

    def _taken_up(self, number: int) -> str:
        """Read the checkpoints of a source; return the address to continue the listing behind."""
        after = ""
        for step in [] if self._steps is ABSENT else self._steps.done:
            if step.source == number:
                self._ranges.setdefault(number, []).append(step.found)
                self._count += step.found.count
                self._note_skipped(step)
                after = step.after
        return after

    def _note_skipped(self, step: Step) -> None:
        self.skipped = self.skipped.plus(SkippedNames(step.skipped, step.examples))

    def _spilled(self, number: int, after: str, skipped: SkippedNames) -> str:
        """Store the records in memory as a range with a checkpoint."""
        assert self._steps is not ABSENT, "only a job that others may run stores steps"
        held = self._memory[number]
        ref = self._space.store.write_range(self._space.namespace, sorted(held.items()))
        stored = self._steps.add(Step(number, after, ref, *skipped))
        if stored.source != number:  # of an attempt that was overtaken, and got as far as here
            raise Contended("another attempt of the import was at another source; begin again")
        self._note_skipped(stored)
        self._ranges.setdefault(number, []).append(stored.found)
        self._count += stored.found.count - len(held)
        held.clear()
        return stored.after

    def __iter__(self) -> Iterator[Record]:
        if len(self._memory) == 1:  # nothing to merge
            (number,) = self._memory
            for key, _, value in self._ranked(number):
                self._pulse.beat()
                yield key, value
            return
        last = b""
        ranked = merge(*(self._ranked(number) for number in self._memory))
        for count, (key, _, value) in enumerate(ranked):
            if count and key == last:
                continue
            last = key
            self._pulse.beat()
            yield key, value

    def _ranked(self, number: int) -> Iterator[_Ranked]:
        """The records of one source; in a merge, a later source sorts first among equal keys."""
        for ref in self._ranges.get(number, []):
            for columns in range_columns(self._space, ref):
                for key, value in columns.records:
                    yield key, -number, value
        for key, value in sorted(self._memory[number].items()):
            yield key, -number, value


def _check_empty(source: ImportPath, skipped: SkippedNames) -> None:
    """Raises `Invalid` for a source without records that has names, such as links to a disk that is
    not mounted: it is not empty, so the import must not remove what is below its destination."""
    if skipped.total:
        raise Invalid(
            f"invalid import source: none of its names can be imported: path={source.path[:200]} "
            f"names={skipped.total} first={skipped.examples[0]}"
        )
