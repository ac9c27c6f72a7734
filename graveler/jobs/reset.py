"""A reset of a prefix as a job: what one attempt does, and what the client receives.

    attempt ──► fill a token with committed values ──► note it ──► swap ──► done
                                                          │
              the next attempt finds the noted token ─────┴──► in the branch, or committed: done
                                                               the branch is as before: again
                                                               else nobody knows: failed

A reset that was made is not made again: a later one would drop what clients staged since.
"""

import json
from collections.abc import Callable
from math import inf
from typing import NamedTuple

from graveler.core.errors import Conflict, NoChanges
from graveler.core.ids import StagingToken
from graveler.core.records import ABSENT, Job, JobState
from graveler.engine.commits import reset
from graveler.engine.commits.heads import fresh
from graveler.engine.commits.search import holder
from graveler.engine.jobs import record
from graveler.engine.jobs.record import JobOrder
from graveler.engine.ports import OpenRepository
from graveler.jobs import handover, orders, schedule
from graveler.jobs.handover import Deadlines, TimeUp, unknown_unless_read
from graveler.jobs.schedule import Scheduler
from graveler.jobs.task import DONE, Landed, Task

Direct = Callable[[OpenRepository], None]


class _ResetNote(NamedTuple):
    """A swap that may have landed: the token that it names, and the revision that it replaces."""

    token: StagingToken
    revision: int


def run_or_enqueue(
    scheduler: Scheduler, branch: str, prefix: str, due: Deadlines, *, force: bool
) -> None:
    """Reset a prefix in the request if there is time; else have a worker do it, and wait.

    A request that joins a running job resets again afterwards, because the job may have made its
    swap before this request arrived.

    Errors: those of `reset.reset_prefix`, or of the job; `OutcomeUnknown`: the job still runs, or
    the store does not answer.
    Cost beyond that of the reset: 1 KV request; none if time is not limited.
    """

    def direct(repo: OpenRepository) -> None:
        reset.reset_prefix(repo, branch, prefix, force=force)

    if due.hand_over == inf or not prefix:  # a reset of everything is one swap
        direct(scheduler.repo)
        return
    request = orders.reset_asked(branch, prefix, force=force)
    known = schedule.newest(scheduler, request)
    if known is not ABSENT and not known.ended:
        schedule.revive(scheduler, known)
        _wait_for(scheduler, known, due.answer)
        direct(handover.timed(scheduler.repo, due.answer))
        return
    try:
        direct(handover.timed(scheduler.repo, due.hand_over))
    except TimeUp:
        _wait_for(scheduler, schedule.submit(scheduler, request, known), due.answer)


def _wait_for(scheduler: Scheduler, job: Job, answer: float) -> None:
    ended = handover.wait_for(scheduler, job, answer)
    if ended.state is not JobState.DONE:
        with unknown_unless_read(job):
            error = schedule.failure(scheduler, ended)
        raise error


def work(task: Task) -> Landed:
    """Reset the prefix, unless an earlier attempt did.

    Errors: those of `reset.reset_prefix` and `find`; `Stopped` if this worker must not run the
    job any longer.  Cost: those, 3 KV requests, and 2 for each try.
    """
    repo, job = task.repo, task.job
    task.pulse.land(0)
    order = record.ordered(repo, job.id)
    if _is_made(repo, job, order):
        return DONE

    def note(token: StagingToken, revision: int) -> None:
        record.note_result(repo, job.id, json.dumps(_ResetNote(token, revision)))

    prefix, force = orders.reset_request(order)
    reset.reset_prefix(repo, job.branch, prefix, force=force, note=note)
    return DONE


def find(task: Task) -> Landed | None:
    """Whether an earlier attempt of this job made the reset.

    Errors: `Conflict` if nobody knows; those of `holder`.  Cost: none if no attempt sent a swap,
    else 1 KV request and those of `holder`.
    """
    return DONE if _is_made(task.repo, task.job, task.order) else None


def _is_made(repo: OpenRepository, job: Job, order: JobOrder) -> bool:
    if not order.result:
        return False
    sent = _ResetNote(*json.loads(order.result))
    now = fresh(repo, job.branch).branch
    has_lost = now.rev == sent.revision + 1 and sent.token not in now.tokens_newest_first
    if now.rev == sent.revision or has_lost:
        return False
    try:
        holder(repo, job.branch, sent.token, order.since)
    except NoChanges:
        return True
    except Conflict as lost:
        raise Conflict(
            "reset not repeated: its worker died, and the branch changed; look at its uncommitted "
            f"changes, and reset again if need be: branch={job.branch}"
        ) from lost
    return True
