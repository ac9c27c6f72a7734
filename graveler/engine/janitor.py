"""The janitor: deletes what is certainly needed by nobody, some time after that became certain.

    clean-up record, due ──► token named by its branch?  leave it
                             not named: mark ──grace──► delete rows ──grace──► again, forget record

A reader or a slow writer may hold a branch record from before its token was taken off; the grace is
longer than any operation may live.  A row that a late writer put after the first deletion goes with
the second.  Any number of janitors may run at once: every step may be repeated.
"""

from dataclasses import dataclass, replace
from math import inf

from graveler import limits
from graveler.engine.jobs import BULK
from graveler.engine.ports import Ports
from graveler.ids import BranchId, StagingToken
from graveler.records import ABSENT, Cleanup, Job, Repository
from graveler.refs import branches, cleanups, commits, jobs, uploads
from graveler.staging import area


@dataclass(frozen=True, slots=True)
class Swept:
    """What one round did; counts."""

    marked: int = 0
    rows: int = 0
    tokens: int = 0
    folds: int = 0
    addresses: int = 0
    jobs: int = 0
    waiting: int = 0  # tokens whose rows are not gone yet


def sweep(ports: Ports, repo: Repository) -> Swept:
    """One round over a repository.  Cost: its clean-up, fold, address and job records, and the
    rows."""
    swept = Swept()
    found = list(cleanups.list_cleanups(ports.kv, repo))
    for pending in found:
        swept = _tend(ports, repo, (pending.token, pending.cleanup), swept)
    return replace(
        swept,
        folds=_forget_folds(ports, repo),
        addresses=_forget_addresses(ports, repo),
        jobs=_forget_jobs(ports, repo),
        waiting=len(found) - swept.tokens,
    )


def _tend(
    ports: Ports, repo: Repository, item: tuple[StagingToken, Cleanup], swept: Swept
) -> Swept:
    token, cleanup = item
    now_ns = ports.clock.now_ns()
    grace_ns = ports.settings.token_grace_seconds * limits.SECOND_NS
    if now_ns < cleanup.not_before_ns or _named(ports, repo, cleanup.branch, token):
        return swept
    if not cleanup.marked_ns:
        marked = replace(cleanup, marked_ns=now_ns, passes=0)
        cleanups.put(ports.kv, repo, token, marked, ports.ids.stamp())
        return replace(swept, marked=swept.marked + 1)
    if now_ns < cleanup.marked_ns + grace_ns * (cleanup.passes + 1):
        return swept
    rows = area.drop(ports.kv, token)
    if cleanup.passes:
        cleanups.forget(ports.kv, repo, [token])
        return replace(swept, rows=swept.rows + rows, tokens=swept.tokens + 1)
    again = replace(cleanup, passes=1)
    cleanups.put(ports.kv, repo, token, again, ports.ids.stamp())
    return replace(swept, rows=swept.rows + rows)


def _named(ports: Ports, repo: Repository, branch: BranchId, token: StagingToken) -> bool:
    """Whether the branch's record, read afresh, still names the token."""
    found = branches.find(ports.kv, repo, branch)
    return found is not ABSENT and found.branch.live and token in found.branch.tokens_newest_first


def _forget_folds(ports: Ports, repo: Repository) -> int:
    horizon_ns = ports.clock.now_ns() - limits.fold_record_keep_seconds * limits.SECOND_NS
    old = [key for key, fold in commits.list_folds(ports.kv, repo) if fold.created_ns < horizon_ns]
    commits.forget_folds(ports.kv, repo, old)
    return len(old)


def _forget_addresses(ports: Ports, repo: Repository) -> int:
    """Addresses past their time by another whole span: one may just be in the middle of a link."""
    horizon_ns = ports.clock.now_ns() - limits.link_address_seconds * limits.SECOND_NS
    old = [
        address
        for address, note in uploads.list_all(ports.kv, repo)
        if note.expires_ns < horizon_ns
    ]
    uploads.forget(ports.kv, repo, old)
    return len(old)


def _forget_jobs(ports: Ports, repo: Repository) -> int:
    horizon_ns = ports.clock.now_ns() - limits.job_record_keep_seconds * limits.SECOND_NS
    old = [
        seen.job.id
        for seen in jobs.list_all(ports.kv, repo)
        if _over_since_ns(seen.job) < horizon_ns
    ]
    jobs.forget(ports.kv, repo, old)
    return len(old)


def _over_since_ns(job: Job) -> float:
    """When it ended; infinite if it may still go on.  Bulk jobs end with their time, too."""
    if job.ended:
        return job.updated_ns
    if job.kind == BULK:
        return job.created_ns + limits.import_seconds_max * limits.SECOND_NS
    return inf
