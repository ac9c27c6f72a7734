"""The table of kinds: what an attempt at a job does, and how to find what an earlier one landed.

A new job is one entry in `KINDS` and one function that takes a `Task`.  What readers see of its
progress is in `engine/jobs/overview.py`.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from graveler.core import limits
from graveler.core.errors import (
    Conflict,
    GravelerError,
    Internal,
    NoChanges,
    NotFound,
    OutcomeUnknown,
)
from graveler.core.ids import JobId
from graveler.core.records import ABSENT, CommitEntry, Job, JobState
from graveler.engine import dump, imports, pulls, restore
from graveler.engine.bulk import land
from graveler.engine.commits import merge
from graveler.engine.commits.heads import commit_of, fresh
from graveler.engine.commits.search import Swaps, SwapState, judge_all
from graveler.engine.hooks import JOB_KIND
from graveler.engine.jobs import record
from graveler.engine.jobs.record import Stopped, StopReason
from graveler.jobs import collect, commit, copy, orders, reset
from graveler.jobs.task import DONE, Landed, Task

_INTERRUPTED: Final = "interrupted: workers that ran it died, and it is not tried again"


def _commit(task: Task) -> Landed:
    task.pulse.land(0)
    return commit.work(task)


def _find_commit(task: Task) -> Landed | None:
    return _found(commit.find_landed(task))


def _merge(task: Task) -> Landed:
    task.pulse.land(0)
    source, request, force = orders.merge_request(task.job, task.order)
    request = request._replace(once=task.once())
    merged = merge.merge(task.repo, source, task.job.branch, request, force=force)
    return CommitEntry(merged, commit_of(task.repo, merged))


def _pull(task: Task) -> Landed:
    task.pulse.land(0)
    return pulls.merge(task.repo, *orders.pull_request(task.order))


def _find_pull(task: Task) -> Landed | None:
    return _found(pulls.find_merged(task.repo, orders.pull_request(task.order)))


def _import(task: Task) -> Landed:
    request = imports.decode(task.order.body)
    resumed = imports.ImportState(task.once(), max(0.0, task.age_seconds))
    landed = imports.work(task.repo, task.job.branch, request, task.pulse, resumed)
    imports.note_time(task.repo)
    return landed


def _land(task: Task) -> Landed:
    task.pulse.land(0)
    return land.finish(task.repo, task.job.branch, *orders.land_request(task.order))


def _find_land(task: Task) -> Landed | None:
    request = orders.land_request(task.order)
    return _found(land.find_landed(task.repo, task.job.branch, *request))


def _collect(task: Task) -> Landed:
    if not task.order.result:
        collect.work(task)
    return DONE


def _give_up_collection(task: Task) -> Landed | None:
    if not task.order.result:
        collect.note_given_up(task.repo)
    return _find_result(task)


def _dump(task: Task) -> Landed:
    if not task.order.result:
        tables = dump.dump(task.repo, task.steps())
        record.note_result(task.repo, task.job.id, json.dumps(tables._asdict()))
    return DONE


def _find_result(task: Task) -> Landed | None:
    return DONE if task.order.result else None


def _restore(task: Task) -> Landed:
    source, force = orders.restore_order(task.order)
    begun = task.job.state is JobState.LANDING
    task.pulse.land(task.job.progress)
    attempt = restore.Attempt(task.job.progress, begun, task.pulse.beat)
    restore.restore(task.repo, source, attempt, force=force)
    return DONE


def _find_restore(task: Task) -> Landed | None:
    source, _ = orders.restore_order(task.order)
    return DONE if restore.is_complete(task.repo, source) else None


def _hooks(task: Task) -> Landed:
    """Run a post-event.  If its change is not visible yet, the job waits; after
    `limits.hook_landing_seconds` it ends."""
    has_run = task.repo.hooks.after(task.repo, task.order.body, task.hook_progress())
    if has_run or task.age_seconds > limits.hook_landing_seconds:
        return DONE
    record.release(task.repo, task.job.id, task.job.owner)
    raise Stopped(StopReason.HANDED_OVER)


def _give_up_hooks(task: Task) -> None:
    """The run of a post-event is recorded, with the hooks that have answered: it is not lost."""
    task.repo.hooks.give_up(task.repo, task.order.body, task.hook_progress(), _INTERRUPTED)


def _found(landed: Landed) -> CommitEntry | None:
    return None if landed is ABSENT else landed


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

    def note_run(self, task: Task) -> int:
        """Record that an attempt begins.  Result, errors and cost: those of `record.note_run`."""
        stepwise = (limits.job_run_count_max, limits.job_seconds_max)
        limit = stepwise if self.is_stepwise else ()
        return record.note_run(task.repo, task.job, task.order, *limit)


KINDS: Final[dict[str, Kind]] = {
    orders.COMMIT: Kind(_commit, _find_commit),
    orders.MERGE: Kind(_merge, _find_commit),
    orders.PULL: Kind(_pull, _find_pull),
    orders.IMPORT: Kind(_import, _find_commit),
    orders.COLLECT: Kind(_collect, _give_up_collection, is_stepwise=True),
    orders.DUMP: Kind(_dump, _find_result, is_stepwise=True),
    orders.LAND: Kind(_land, _find_land),
    orders.COPY: Kind(copy.work, copy.find),
    orders.RESTORE: Kind(_restore, _find_restore),
    orders.RESET: Kind(reset.work, reset.find),
    JOB_KIND: Kind(_hooks, _give_up_hooks),
}


def _unknown(task: Task) -> Landed:
    raise Internal(f"job of an unknown kind: kind={task.job.kind}")


_UNKNOWN: Final = Kind(_unknown, lambda _: None)


def kind_of(job: Job) -> Kind:
    """The kind of a job; one whose work fails, if this version does not know it."""
    return KINDS.get(job.kind, _UNKNOWN)


# ---- what has landed before ----------------------------------------------------------------------


def find_landed(task: Task) -> Landed | None:
    """What an earlier attempt of the job landed before its worker died; None: nothing.

    Used before a job is given up.  Errors: `HistoryTooLong`, `Unavailable`.
    """
    try:
        return kind_of(task.job).find(task)
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
