"""Collections and dumps as jobs: one run of them, which goes on where the last one was.

    run ──steps──► run ──steps──► … ──► done        given up: twelve runs in a row without a step,
                                                    or a run that would begin after eleven hours

For kinds.py.
"""

import json

from graveler import limits
from graveler.engine.dumps import dump as dumping
from graveler.engine.jobs import checkpoints, record
from graveler.engine.jobs.checkpoints import Steps
from graveler.engine.jobs.record import Ordered, Pulse
from graveler.engine.ports import Ports
from graveler.errors import Unsupported
from graveler.jobs import collect as collecting
from graveler.records import Job, JobState, Repository


def collect(ports: Ports, repo: Repository, job: Job, order: Ordered, pulse: Pulse) -> None:
    """Nothing is left to do if an earlier run has noted its result.

    Errors: `Unsupported` if it is given up, `Stopped`, those of `collecting.work`."""
    if order.result:
        return
    try:
        kept = _begun(ports, repo, job, pulse)
    except Unsupported:
        collecting.note_given_up(ports, repo)
        raise
    collecting.work(ports, repo, job, order, kept)


def dump(ports: Ports, repo: Repository, job: Job, order: Ordered, pulse: Pulse) -> None:
    """Nothing is left to do if an earlier run has noted its result.

    Errors: `Unsupported` if it is given up, `Stopped`, those of `dump.dump`."""
    if order.result:
        return
    made = dumping.dump(ports, repo, _begun(ports, repo, job, pulse))
    record.note_result(ports, repo, job.id, json.dumps(made._asdict()))


def _begun(ports: Ports, repo: Repository, job: Job, pulse: Pulse) -> Steps:
    """The steps so far.  The progress of the job is the number of runs since one has added a step:
    what no worker gets any further is not handed on for ever."""
    now = record.status(ports, repo, job.id)
    runs, age_ns = now.progress, ports.clock.now_ns() - now.created_ns
    is_old = now.state is JobState.LANDING and age_ns > limits.job_seconds_max * limits.SECOND_NS
    if runs >= limits.job_run_count_max or is_old:
        raise Unsupported(f"{job.kind} given up: no worker had time enough for it: {runs=}")
    pulse.land(runs)
    pulse.beat(runs + 1, always=True)
    return checkpoints.opened(ports, repo, now, pulse)
