"""What one attempt of each kind of job does, and how to find what an earlier attempt has landed."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final, Literal, NamedTuple

from graveler.core import limits
from graveler.core.errors import Conflict, GravelerError, NoChanges, NotFound, OutcomeUnknown
from graveler.core.ids import JobId
from graveler.core.records import ABSENT, Absent, CommitEntry, Job, JobState
from graveler.engine import dump, imports, pulls, restore
from graveler.engine.bulk import land
from graveler.engine.commits import merge
from graveler.engine.commits.heads import commit_of, fresh
from graveler.engine.commits.search import Once, Swaps, SwapState, judge_all
from graveler.engine.hooks import JOB_KIND
from graveler.engine.jobs import checkpoints, record
from graveler.engine.jobs.checkpoints import Steps
from graveler.engine.jobs.record import Heartbeat, JobOrder, Stopped, StopReason
from graveler.engine.ports import OpenRepository
from graveler.jobs import collect, commit, copy, hook_progress, orders, reset

_INTERRUPTED: Final = "interrupted: workers that ran it died, and it is not tried again"
_STEPWISE: Final = (limits.job_run_count_max, limits.job_seconds_max)
Landed = CommitEntry | Literal[Absent.ABSENT]


class Task(NamedTuple):
    """One attempt of a job."""

    repo: OpenRepository
    job: Job
    order: JobOrder
    pulse: Heartbeat


def _once(task: Task) -> Once:
    """The job's idempotency key, with the journal of its swaps."""
    key = record.once(task.job.id, task.order)
    return record.journaled(task.repo, key, task.job.id, task.order)


def _commit(task: Task) -> Landed:
    task.pulse.land(0)
    return commit.work(task.repo, task.job, task.order)


def _merge(task: Task) -> Landed:
    task.pulse.land(0)
    source, request, force = orders.merge_request(task.job, task.order)
    branch = task.job.branch
    request = replace(request, once=_once(task))
    merged = merge.merge(task.repo, source, branch, request, force=force)
    return CommitEntry(merged, commit_of(task.repo, merged))


def _pull(task: Task) -> Landed:
    task.pulse.land(0)
    return pulls.merge(task.repo, *orders.pull_request(task.order))


def _import(task: Task) -> Landed:
    request = imports.decode(task.order.body)
    age_ns = task.repo.clock.now_ns() - task.job.created_ns
    resumed = imports.ImportState(_once(task), max(0.0, age_ns / limits.SECOND_NS))
    branch = task.job.branch
    landed = imports.work(task.repo, branch, request, task.pulse, resumed)
    imports.note_time(task.repo)
    return landed


def _land(task: Task) -> Landed:
    task.pulse.land(0)
    job_id, finish = orders.land_request(task.order)
    return land.finish(task.repo, task.job.branch, job_id, finish)


def _hooks(task: Task) -> Landed:
    """Run a post-event.  If its change is not visible yet, the job waits; after
    `limits.hook_landing_seconds` it ends."""
    repo, job = task.repo, task.job
    if repo.hooks.after(repo, task.order.body, hook_progress.of(task.repo, task.job, task.pulse)):
        return ABSENT
    if repo.clock.now_ns() - job.created_ns > limits.hook_landing_seconds * limits.SECOND_NS:
        return ABSENT
    record.release(repo, job.id, job.owner)
    raise Stopped(StopReason.HANDED_OVER)


def _copy(task: Task) -> Landed:
    copy.work(task.repo, task.job, task.pulse)
    return ABSENT


def _reset(task: Task) -> Landed:
    reset.work(task.repo, task.job, task.pulse)
    return ABSENT


def _collect(task: Task) -> Landed:
    if not task.order.result:
        collect.work(task.repo, task.job, task.order, _steps(task))
    return ABSENT


def _dump(task: Task) -> Landed:
    if not task.order.result:
        tables = dump.dump(task.repo, _steps(task))
        record.note_result(task.repo, task.job.id, json.dumps(tables._asdict()))
    return ABSENT


def _steps(task: Task) -> Steps:
    task.pulse.land(task.job.progress)
    return checkpoints.opened(task.repo, task.job, task.pulse)


def _restore(task: Task) -> Landed:
    source, force = orders.restore_order(task.order)
    begun = task.job.state is JobState.LANDING
    task.pulse.land(task.job.progress)
    attempt = restore.Attempt(task.job.progress, begun, task.pulse.beat)
    restore.restore(task.repo, source, attempt, force=force)
    return ABSENT


# ---- what has landed before ----------------------------------------------------------------------


def find_landed(task: Task) -> Landed | None:
    """What an earlier attempt of the job landed before its worker died; None: nothing.

    Used before a job is given up.  Errors: `HistoryTooLong`, `Unavailable`.
    """
    kind = KINDS.get(task.job.kind)
    try:
        return kind.find(task) if kind else None
    except (Conflict, NoChanges, NotFound):  # the branch or bulk job is gone, or is not this one
        return None


def settle(task: Task, error: GravelerError) -> Landed | GravelerError:
    """What a job that failed ends with.  If attempts have noted swaps (for a pull request: those of
    any client), that is what they landed; and `OutcomeUnknown`, if one of them may have landed, or
    may still land.  Else the error.

    Errors: `Unavailable`, `HistoryTooLong`.  Cost: 1 KV request if the job lands a bulk job
    or a pull request; if swaps are noted also 1, and those of `find_landed` and of
    `search.judge_all`.
    """
    sent = _sent(task)
    if not sent and task.job.kind != orders.PULL:  # which has no note once it is merged
        return error
    landed = find_landed(task)
    if landed is not None:
        return landed
    if not sent:
        return error
    with suppress(NotFound):
        now = fresh(task.repo, task.job.branch).branch
        judged = judge_all(task.repo, sent, now)
        if isinstance(judged, CommitEntry):
            return judged
        if set(judged) == {SwapState.LOST}:
            return error
    return OutcomeUnknown(f"{error}; an earlier attempt may have landed, or may still land")


def _sent(task: Task) -> Swaps:
    """The last swaps that attempts have noted: in the job's order, in that of its bulk job, or in
    the record of its pull request."""
    order = task.order
    if task.job.kind == orders.PULL:
        with suppress(NotFound):
            return pulls.noted_swaps(task.repo, orders.pull_request(order))
        return ()
    if task.job.kind == orders.LAND:
        job_id, _ = orders.land_request(order)
        order = record.ordered(task.repo, JobId(job_id))
    return record.sent_of(order)


def _found(landed: Landed) -> CommitEntry | None:
    return None if landed is ABSENT else landed


def _find_commit(task: Task) -> CommitEntry | None:
    return _found(commit.find_landed(task.repo, task.job, task.order))


def _find_land(task: Task) -> CommitEntry | None:
    job_id, finish = orders.land_request(task.order)
    branch = task.job.branch
    return _found(land.find_landed(task.repo, branch, job_id, finish))


def _find_copy(task: Task) -> Landed | None:
    is_staged = copy.is_staged(task.repo, task.job, task.order)
    return ABSENT if is_staged else None


def _find_reset(task: Task) -> Landed | None:
    return ABSENT if reset.is_done(task.repo, task.job, task.order) else None


def _find_restore(task: Task) -> Landed | None:
    source, _ = orders.restore_order(task.order)
    return ABSENT if restore.is_complete(task.repo, source) else None


def _find_pull(task: Task) -> CommitEntry | None:
    return _found(pulls.find_merged(task.repo, orders.pull_request(task.order)))


def _find_result(task: Task) -> Landed | None:
    return ABSENT if task.order.result else None


def _give_up_collection(task: Task) -> Landed | None:
    if not task.order.result:
        collect.note_given_up(task.repo)
    return _find_result(task)


def _give_up_hooks(task: Task) -> None:
    """The run of a post-event is recorded, with the hooks that have answered: it is not lost."""
    progress = hook_progress.of(task.repo, task.job, task.pulse)
    task.repo.hooks.give_up(task.repo, task.order.body, progress, _INTERRUPTED)


# ---- the table -----------------------------------------------------------------------------------


class Kind(NamedTuple):
    """A kind of job.

    `work`: one attempt.  `find`: what an earlier attempt has landed; None: nothing.  `is_stepwise`:
    attempts continue from checkpoints, which are removed at the end; so there may be more of them,
    and much later.
    """

    work: Callable[[Task], Landed]
    find: Callable[[Task], Landed | None]
    is_stepwise: bool = False

    def note_run(self, task: Task) -> None:
        """Record that an attempt begins.  Errors and cost: those of `record.note_run`."""
        limit = _STEPWISE if self.is_stepwise else ()
        record.note_run(task.repo, task.job, task.order, *limit)


KINDS: Final[Mapping[str, Kind]] = {
    orders.COMMIT: Kind(_commit, _find_commit),
    orders.MERGE: Kind(_merge, _find_commit),
    orders.PULL: Kind(_pull, _find_pull),
    orders.IMPORT: Kind(_import, _find_commit),
    orders.COLLECT: Kind(_collect, _give_up_collection, is_stepwise=True),
    orders.DUMP: Kind(_dump, _find_result, is_stepwise=True),
    orders.LAND: Kind(_land, _find_land),
    orders.COPY: Kind(_copy, _find_copy),
    orders.RESTORE: Kind(_restore, _find_restore),
    orders.RESET: Kind(_reset, _find_reset),
    JOB_KIND: Kind(_hooks, _give_up_hooks),
}


def is_stepwise(kind: str) -> bool:
    """Whether attempts at a job of this kind continue from checkpoints."""
    return kind in KINDS and KINDS[kind].is_stepwise
