"""Job records: work that may outlive its request, and who runs it.

The process that runs a job and the caller that cancels it both change the record, so it changes by
compare-and-swap only.  For the engine.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from graveler import wire
from graveler.errors import NotFound, OutcomeUnknown
from graveler.ids import JobId
from graveler.kv.store import WRITTEN, Condition, Matches, Store
from graveler.records import ABSENT, Absent, Job, Repository
from graveler.refs import listing
from graveler.refs.space import JOBS, job_key, space


class VersionedJob(NamedTuple):
    """A job record and the version of its stored form."""

    job: Job
    version: bytes


def find(kv: Store, repository: Repository, job: JobId) -> VersionedJob | Literal[Absent.ABSENT]:
    """One request."""
    row = kv.get(space(repository), job_key(job))
    return ABSENT if row is ABSENT else VersionedJob(wire.decode_job(row.value), row.version)


def get(kv: Store, repository: Repository, job: JobId) -> VersionedJob:
    """Raises `NotFound`.  One request."""
    found = find(kv, repository, job)
    if found is ABSENT:
        raise NotFound("not found")
    return found


def put(
    kv: Store,
    repository: Repository,
    job: Job,
    seen: VersionedJob | Literal[Absent.ABSENT],
    stamp: bytes,
) -> VersionedJob | Literal[Absent.ABSENT]:
    """Store `job` over what was seen.  ABSENT: failed or unknown, read again.  One request."""
    condition: Condition = ABSENT if seen is ABSENT else Matches(seen.version)
    raw = wire.encode_job(job)
    try:
        outcome = kv.set_if(space(repository), job_key(job.id), raw, stamp, condition)
    except OutcomeUnknown:
        return ABSENT
    if outcome is WRITTEN:
        return VersionedJob(job, stamp)
    ours = outcome.current is not ABSENT and outcome.current.version == stamp
    return VersionedJob(job, stamp) if ours else ABSENT


def list_all(kv: Store, repository: Repository) -> Iterator[VersionedJob]:
    """Every job by id.  One request for each 1,000."""
    for _, row in listing.rows(kv, listing.Stretch(space(repository), JOBS)):
        yield VersionedJob(wire.decode_job(row.value), row.version)


def forget(kv: Store, repository: Repository, jobs: list[JobId]) -> None:
    """Remove the records of jobs that have ended.  One request for each 1,000."""
    if jobs:
        kv.delete(space(repository), [job_key(job) for job in jobs])
