"""The simulated collector, also as a job that is cut off and continued.

Each attempt of the job continues where the last one was cut off.  For tests only.
"""

from collections.abc import Iterator
from random import Random

from graveler.engine.gc import collect
from graveler.engine.jobs import checkpoints, record
from graveler.engine.jobs.record import Ending, Heartbeat, NewJob
from graveler.ids import JobId
from graveler.records import Job, JobState
from graveler.refs.jobs import record as records
from simulator.gc.objects import Keeper
from simulator.schedule import Call

_KIND = "gc"
_REQUESTS_MAX = 120


def drawn_cuts(random: Random) -> Iterator[int]:
    """After how many requests each attempt of a collector is cut off; 0: never."""
    while True:
        yield random.choice((0, random.randint(1, _REQUESTS_MAX)))


def collect_(keeper: Keeper, call: Call) -> collect.CollectionResult:
    """Run one collection: an attempt of the job that has not ended, or of a new job, or without a
    job."""
    if not keeper.by_steps:
        return collect.collect(keeper.opened, keeper.settings, delete=True)
    repo = keeper.opened
    job = _job(keeper)
    kept = checkpoints.opened(repo, job, Heartbeat(repo, job.id))
    found = collect.collect(repo, keeper.settings, delete=True, steps=kept)
    record.end(repo, job.id, Ending(JobState.DONE))
    checkpoints.forget(repo, job.id)
    return found


def _job(keeper: Keeper) -> Job:
    known = [seen.job for seen in records.list_some(keeper.ports.kv, keeper.repo, _KIND)]
    if known and not known[-1].ended:
        return known[-1]
    new = NewJob(JobId(f"{_KIND}-{len(known):06}"), _KIND)
    return record.begin(keeper.opened, new)
