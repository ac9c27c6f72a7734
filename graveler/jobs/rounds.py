"""Rounds over all repositories: collections in turns, and jobs whose worker has gone silent.

One collection of a repository runs at a time, daily if it has a retention rule.  A job of a worker
that died is enqueued again.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Literal

from graveler.core import limits
from graveler.core.clock import ulid
from graveler.core.errors import Contended, GravelerError, Unsupported
from graveler.core.ids import JobId
from graveler.core.records import ABSENT, Absent, Job
from graveler.engine.gc import cluster, retention
from graveler.engine.janitor import in_turn
from graveler.engine.jobs import record
from graveler.engine.jobs.record import NewJob
from graveler.engine.ports import Ports
from graveler.jobs import collect
from graveler.jobs.orders import COLLECT, collect_asked
from graveler.jobs.queue import Queue
from graveler.jobs.schedule import Scheduler, enqueue, newest, revive, revive_silent, submit
from graveler.refs import job_records as records
from graveler.refs import job_records as turns
from graveler.refs.job_records import Turn

# ---- rota ------------------------------------------------------------------------------------

_LOG: Final = logging.getLogger("graveler.jobs")
_DAY_SECONDS: Final = limits.job_record_keep_seconds


def rehearse(scheduler: Scheduler) -> Job:
    """Order a dry run: it reports what would be condemned and deleted, and changes nothing.

    If a dry run is already running, return that one.  Errors: `Unavailable`.  Cost: 2 KV requests
    and a message.
    """
    request = collect_asked(dry_run=True)
    return submit(scheduler, request, newest(scheduler, request))


def order(scheduler: Scheduler) -> Job:
    """Order a collection that condemns and deletes; if one is already running, return that one.

    Errors: `Conflict` while a cluster collects, `Contended`, `Unavailable`.  Cost: 4 KV requests
    and a message.
    """
    job = _taken(scheduler, 0, _begun)
    assert job is not ABSENT, "whoever need not wait gets a job"
    return job


def order_daily(ports: Ports, queue: Queue, seconds: float) -> int:
    """Order a collection of every repository that has a retention rule and was not collected for a
    day; returns how many.

    At most `limits.collections_ordered_max`, and none after `seconds`.  A round begins at a random
    repository, so the repositories that are left over are reached in a later round.

    If a repository is too large for a worker, its job fails at once with that reason.  Errors of
    one repository are ignored; errors of the list of repositories are raised.

    Cost: the list of repositories; 1 KV request for each, 1 more for each that has a rule; `order`
    and 1 more for each that is due.
    """
    end = ports.clock.steady_seconds() + seconds
    count = 0
    for repo in in_turn(ports):
        if count >= limits.collections_ordered_max or ports.clock.steady_seconds() >= end:
            break
        scheduler = Scheduler(repo, queue)
        try:
            if retention.find_rule(repo) is not ABSENT:
                count += _taken(scheduler, limits.collect_period_seconds, _asked) is not ABSENT
        except GravelerError:
            continue
    return count


def _taken(
    scheduler: Scheduler, rest_seconds: int, begun: Callable[[Scheduler, JobId], Job]
) -> Job | Literal[Absent.ABSENT]:
    """The job of this turn; ABSENT if the last one was ordered less than `rest_seconds` ago."""
    repo = scheduler.repo
    for _ in range(limits.conditional_round_count_max):
        seen = turns.find_turn(repo.kv, repo.record)
        now_ns = repo.clock.now_ns()
        if seen is not ABSENT:
            age_seconds = (now_ns - seen.turn.ordered_ns) / limits.SECOND_NS
            cluster.refuse_held(seen.turn, now_ns)
            known = records.find(repo.kv, repo.record, seen.turn.job)
            if known is ABSENT and not seen.turn.until_ns and age_seconds < _DAY_SECONDS:
                # Ended jobs are kept for a day, so this one was never recorded: its orderer died.
                return begun(scheduler, seen.turn.job)
            if age_seconds < rest_seconds:
                return ABSENT
            if known is not ABSENT and not known.job.ended:
                revive(scheduler, known.job)
                return known.job
        turn = Turn(JobId(f"{COLLECT}-{ulid(now_ns, repo.ids.stamp())}"), now_ns)
        if turns.swap_turn(repo.kv, repo.record, turn, seen, repo.ids.stamp()):
            return begun(scheduler, turn.job)
    raise Contended(
        f"collection not started: other clients keep starting it; try again: repository={repo.id}"
    )


def _begun(scheduler: Scheduler, job_id: JobId) -> Job:
    job = _noted(scheduler, job_id)
    enqueue(scheduler, job)
    return job


def _asked(scheduler: Scheduler, job_id: JobId) -> Job:
    """Like `_begun`, unless the repository is too large for any worker: then the job fails with
    that reason, and no message is sent.
    """
    reason = collect.too_large(scheduler.repo)
    if not reason:
        return _begun(scheduler, job_id)
    job = _noted(scheduler, job_id)
    record.fail(scheduler.repo, job.id, Unsupported(reason), job.owner)
    _LOG.warning("garbage not collected: repository=%s %s", scheduler.repo.id, reason)
    return job


def _noted(scheduler: Scheduler, job_id: JobId) -> Job:
    new = NewJob(job_id, COLLECT, body=collect_asked(dry_run=False).body)
    return record.begin(scheduler.repo, new)


# ---- revive ----------------------------------------------------------------------------------


def revive_everywhere(ports: Ports, queue: Queue, seconds: float) -> int:
    """Enqueue every silent job again; returns how many jobs.

    No repository is begun after `seconds`.  Each round begins at a random repository, so that
    every repository is reached in time.

    Errors of one repository are ignored; errors of the list of repositories are raised.  Cost: the
    list of repositories, and `revive_silent` for each.
    """
    end = ports.clock.steady_seconds() + seconds
    count = 0
    for repo in in_turn(ports):
        if ports.clock.steady_seconds() >= end:
            break
        with suppress(GravelerError):
            count += revive_silent(Scheduler(repo, queue))
    return count
