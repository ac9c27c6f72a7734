"""A collection of garbage as a job: what one run of it does.

Each run goes on with what earlier ones have listed and read (engine/steps.py); what they have
condemned, or begun to delete, is on record.  For stepwise.py.
"""

import json
from collections.abc import Sequence

from graveler.clock import ulid
from graveler.engine import collect, condemned_lists, jobs, steps
from graveler.engine.candidates import Doomed
from graveler.engine.jobs import Ordered
from graveler.engine.ports import Ports
from graveler.engine.steps import Steps
from graveler.jobs import orders
from graveler.records import Job, Repository


def work(ports: Ports, repo: Repository, job: Job, order: Ordered, kept: Steps) -> None:
    """Collect, or only find out what would be; note totals, and where the lists stand.

    What jobs that have died left behind is removed.  Errors: those of `collect`."""
    dry_run = orders.is_dry_run(order)
    if not dry_run:
        steps.forget_ended(ports, repo)
    found = collect.collect(ports, repo, delete=not dry_run, steps=kept)
    folder = condemned_lists.folder(repo, found.run) if found.run else ""
    if dry_run:  # a list of its own for each run of the job, so that none is mixed of two
        id = ulid(ports.clock.now_ns(), ports.ids.stamp())
        folder = condemned_lists.rehearsed(ports, repo, id, found.condemned, found.deleted)
    result = {
        "run": found.run,
        "candidates": folder,
        "commits": found.commits,
        "commits_kept": found.kept,
        "condemned": _sum(found.condemned),
        "deleted": _sum(found.deleted),
    }
    jobs.note_result(ports, repo, job.id, json.dumps(result))


def _sum(doomed: Sequence[Doomed]) -> dict[str, int]:
    return {"count": len(doomed), "size_bytes": sum(each.size for each in doomed)}
