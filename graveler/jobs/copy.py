"""A copy of a long object as a job: what one attempt does, and what the client receives.

    request ──► job ──► copy bytes to an address of the attempt ──► record it ──► stage ──► done
                                                                        │
                                    another worker stages what was recorded, and copies nothing

The first recorded copy is staged once (engine/objects/rows.py), by any worker.  A worker that
stages late does not overwrite anything that was written since.
"""

import json
from math import inf

from graveler.core import limits
from graveler.core.errors import Conflict, NotFound
from graveler.core.records import ABSENT, Entry, Job, JobState
from graveler.core.wire import decode_entry, encode_entry
from graveler.engine.jobs import record
from graveler.engine.jobs.record import JobOrder
from graveler.engine.objects import copies, read, rows
from graveler.engine.objects.copies import CopySource
from graveler.engine.objects.rows import Intent
from graveler.engine.ports import OpenRepository
from graveler.jobs import handover, orders, schedule
from graveler.jobs.handover import Deadlines, unknown_unless_read
from graveler.jobs.orders import CopyOrder
from graveler.jobs.schedule import Scheduler
from graveler.jobs.task import DONE, Landed, Task


def is_too_long(entry: Entry, due: Deadlines) -> bool:
    """Whether a request with a time limit must leave the copy of these bytes to a worker."""
    return due.hand_over < inf and entry.size > limits.copy_in_request_bytes_max


def run_or_enqueue(scheduler: Scheduler, branch: str, order: CopyOrder, due: Deadlines) -> Entry:
    """Have the object copied by a job, and wait while there is time; returns the entry that was
    staged.

    An equal request joins the running job.  If the last job has ended and no client has received
    its result, the request returns that result: its failure, or the copy, if the source and the
    staged entry are unchanged.

    Errors: those of the job; `OutcomeUnknown`: it still runs, or the store does not answer.
    """
    request = orders.copy_asked(branch, order)
    known = schedule.newest(scheduler, request)
    if known is not ABSENT and known.ended and _still_holds(scheduler, known, order):
        return _deliver(scheduler, known)
    job = schedule.submit(scheduler, request, known)
    return _deliver(scheduler, handover.wait_for(scheduler, job, due.answer))


def _still_holds(scheduler: Scheduler, job: Job, copy: CopyOrder) -> bool:
    """Whether the result of a job is the answer to this request."""
    ordered = record.ordered(scheduler.repo, job.id)
    if ordered.delivered or job.state is not JobState.DONE:
        return not ordered.delivered
    result = _result(ordered)
    try:
        now = read.stat(scheduler.repo, job.branch, copy.path)
    except NotFound:
        return False
    return now == result and copy.there in (orders.copy_order(ordered).there, result)


def _deliver(scheduler: Scheduler, job: Job) -> Entry:
    with unknown_unless_read(job):
        ordered = record.ordered(scheduler.repo, job.id)
    schedule.note_delivered(scheduler, job)
    if job.state is not JobState.DONE:
        raise schedule.error_of(job, ordered)
    return _result(ordered)


def _result(order: JobOrder) -> Entry:
    return decode_entry(bytes.fromhex(order.result))


def work(task: Task) -> Landed:
    """Copy the bytes, or continue with a recorded copy, and stage the entry.

    Errors: those of `copies.bytes_copied` and `rows.write_once`; `Conflict` if the job is too old;
    `Stopped` if this worker must not run the job any longer.  Cost: those, and 8 KV requests.
    """
    repo, job, _, pulse = task
    order = record.ordered(repo, job.id)
    if _is_staged(repo, job, order):
        return DONE
    if task.age_seconds >= limits.job_seconds_max:  # collection may soon delete the copied bytes
        raise Conflict(f"copy given up: it took too long: id={job.id}")
    copy = orders.copy_order(order)
    if not order.intent:
        entry = copies.bytes_copied(repo, CopySource(repo, copy.source.path, copy.there))
        intent = rows.intend(repo, job.branch, copy.path)
        order = record.note_intent(
            repo, job.id, encode_entry(entry).hex(), json.dumps(rows.encoded(intent))
        )
    pulse.land(0)
    rows.write_once(
        repo,
        job.branch,
        copy.path,
        _result(order),
        _intent(order),
        lambda: pulse.beat(always=True),
        force=copy.force,
    )
    return DONE


def find(task: Task) -> Landed | None:
    """Whether an earlier attempt has staged the copy.  Errors and cost: those of
    `rows.is_written`."""
    return DONE if _is_staged(task.repo, task.job, task.order) else None


def _is_staged(repo: OpenRepository, job: Job, order: JobOrder) -> bool:
    if not order.intent:
        return False
    path = orders.copy_order(order).path
    return rows.is_written(repo, job.branch, path, _result(order), _intent(order))


def _intent(order: JobOrder) -> Intent:
    return rows.decoded(json.loads(order.intent))
