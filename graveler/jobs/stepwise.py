"""Collections and dumps as jobs: one attempt, which continues from the checkpoints of earlier ones.

    attempt ──checkpoints──► attempt ──checkpoints──► … ──► done

The job is given up after twelve attempts in a row without a new checkpoint, or if a second or later
attempt would begin more than eleven hours after the job was created.  An attempt that the stores
did not answer does not count.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from graveler import limits
from graveler.engine import dump as dumping
from graveler.engine.jobs import checkpoints, record
from graveler.engine.jobs.checkpoints import Steps
from graveler.engine.jobs.record import Heartbeat, JobOrder
from graveler.engine.ports import OpenRepository
from graveler.errors import Contended, Unavailable, Unsupported
from graveler.jobs import collect as collecting
from graveler.records import Job, JobState


def collect(repo: OpenRepository, job: Job, order: JobOrder, pulse: Heartbeat) -> None:
    """Run a collection of garbage.  Does nothing if an earlier attempt has recorded the result.

    Errors: `Unsupported` if the job is given up, `Stopped`, those of `collecting.work`.
    """
    if order.result:
        return
    try:
        steps = _begun(repo, job, pulse)
    except Unsupported:
        collecting.note_given_up(repo)
        raise
    with _discounting(repo, job, pulse):
        collecting.work(repo, job, order, steps)


def dump(repo: OpenRepository, job: Job, order: JobOrder, pulse: Heartbeat) -> None:
    """Run a dump of refs.  Does nothing if an earlier attempt has recorded the result.

    Errors: `Unsupported` if the job is given up, `Stopped`, those of `dump.dump`.
    """
    if order.result:
        return
    steps = _begun(repo, job, pulse)
    with _discounting(repo, job, pulse):
        tables = dumping.dump(repo, steps)
    record.note_result(repo, job.id, json.dumps(tables._asdict()))


def _begun(repo: OpenRepository, job: Job, pulse: Heartbeat) -> Steps:
    """Begin an attempt: the checkpoints so far.

    The progress of the job is the number of attempts since the last new checkpoint.  If no worker
    can advance the job, it must not be enqueued for ever.
    """
    now = record.status(repo, job.id)
    runs, age_ns = now.progress, repo.clock.now_ns() - now.created_ns
    is_old = now.state is JobState.LANDING and age_ns > limits.job_seconds_max * limits.SECOND_NS
    if runs >= limits.job_run_count_max or is_old:
        raise Unsupported(f"{job.kind} given up: no worker had enough time for it: {runs=}")
    pulse.land(runs)
    pulse.beat(runs + 1, always=True)
    with _discounting(repo, job, pulse):
        return checkpoints.opened(repo, now, pulse)


@contextmanager
def _discounting(repo: OpenRepository, job: Job, pulse: Heartbeat) -> Iterator[None]:
    """Do not count an attempt that ended because the stores did not answer."""
    try:
        yield
    except (Unavailable, Contended):
        with suppress(Unavailable):  # then one attempt too many is counted
            runs = record.status(repo, job.id).progress
            pulse.beat(max(runs - 1, 0), always=True)
        raise
