"""A collection of garbage as a job: what one attempt does.

An attempt continues from the checkpoints of earlier ones, which hold what they listed and read
(engine/jobs/checkpoints.py).  What they condemned, or began to delete, is on record.
"""

import json
import logging
from typing import Final

from graveler.core import limits
from graveler.core.clock import ulid
from graveler.core.errors import GravelerError
from graveler.core.records import ABSENT
from graveler.engine.gc import cluster, collect, leftovers, notes
from graveler.engine.gc.listing import total_of
from graveler.engine.jobs import checkpoints, record
from graveler.engine.jobs.record import Stopped, StopReason
from graveler.engine.ports import OpenRepository
from graveler.jobs import orders
from graveler.jobs.task import Task
from graveler.refs import garbage
from graveler.refs.garbage import Size

_LOG: Final = logging.getLogger("graveler.jobs")


def work(task: Task) -> None:
    """Collect, or find out in a dry run what would be collected; record totals and the address of
    the lists.  If it is not a dry run, first remove the checkpoints of jobs that have ended or are
    no longer on record, and at the end a part of what jobs on Spark have left.

    Errors: those of `collect`; `Conflict` if a cluster collects.
    """
    repo, steps = task.repo, task.steps()
    dry_run = orders.is_dry_run(task.order)
    if not dry_run:
        cluster.check_no_turn(repo)
        checkpoints.forget_ended(repo)
    collected = collect.collect(repo, delete=not dry_run, steps=steps)
    size = Size(collected.files, collected.commits, repo.clock.now_ns())
    garbage.put_size(repo.kv, repo.record, size, repo.ids.stamp())
    folder = notes.list_folder(repo.record, collected.run) if collected.run else ""
    if dry_run:  # each attempt has its own list, so that no list mixes two attempts
        id = ulid(repo.clock.now_ns(), repo.ids.stamp())
        folder = notes.rehearsed(repo, id, collected.condemned, collected.deleted)
    result = {
        "run": collected.run,
        "candidates": folder,
        "commits": collected.commits,
        "commits_kept": collected.kept,
        "condemned": total_of(collected.condemned),
        "deleted": total_of(collected.deleted),
    }
    record.note_result(repo, task.job.id, json.dumps(result))
    if not dry_run:
        _remove_leftovers(repo)


def _remove_leftovers(repo: OpenRepository) -> None:
    """Remove a part of what jobs on Spark have left.  It only takes room, so no failure, and no
    lack of time, makes a collection that has ended begin again."""
    try:
        leftovers.remove(repo)
    except Stopped as stopped:
        if stopped.why is not StopReason.OUT_OF_TIME:
            raise
    except GravelerError as error:
        _LOG.warning("files of jobs on Spark stay: repository=%s %s", repo.id, error)


def note_given_up(repo: OpenRepository) -> None:
    """Record that no worker has enough time or memory for this repository.  2 KV requests."""
    known = garbage.find_size(repo.kv, repo.record)
    files, commits = (0, 0) if known is ABSENT else (known.files, known.commits)
    size = Size(files, commits, repo.clock.now_ns(), given_up=True)
    garbage.put_size(repo.kv, repo.record, size, repo.ids.stamp())


def too_large(repo: OpenRepository) -> str:
    """Why no worker can collect a repository, judged by its recorded size; empty: a worker may.

    A size that is older than `limits.collect_size_seconds` no longer counts: a cluster may have
    collected the repository since, which records no size.  1 KV request.
    """
    known = garbage.find_size(repo.kv, repo.record)
    if known is ABSENT:
        return ""
    age_seconds = (repo.clock.now_ns() - known.at_ns) / limits.SECOND_NS
    is_over = known.files > limits.collect_files_max or known.commits > limits.collect_commits_max
    if age_seconds >= limits.collect_size_seconds or not (is_over or known.given_up):
        return ""
    return (
        "too large for a worker: collect it on Spark (graveler.spark.collect): "
        f"files={known.files} commits={known.commits} given_up={known.given_up}"
    )
