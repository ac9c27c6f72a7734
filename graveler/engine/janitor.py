"""The janitor: deletes records and rows that nothing needs any more, after a grace period.

A token that no branch names is marked; its rows are deleted after a grace period, longer than any
operation takes, and again after another one, for late writers.  Every step is idempotent, so any
number of janitors may run.  A round ends at its time limit; each round over all repositories begins
at a random one, so that all are reached over time.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from math import inf
from typing import NamedTuple, TypeVar

from graveler.block import address
from graveler.block.adapter import Target
from graveler.core import limits
from graveler.core.errors import GravelerError, Refused
from graveler.core.ids import BranchId, StagingToken
from graveler.core.records import ABSENT, Job
from graveler.engine.jobs.record import BULK
from graveler.engine.objects.multipart import discard, is_over
from graveler.engine.ports import OpenRepository, Ports
from graveler.engine.pulls import close_all
from graveler.engine.repositories import repository
from graveler.refs import (
    action_runs,
    branches,
    cleanups,
    commits,
    lifecycle,
    stream_marks,
    uploads,
)
from graveler.refs import job_records as jobs
from graveler.refs import uploads as uploads_records
from graveler.refs.cleanups import PendingCleanup
from graveler.staging import area

T = TypeVar("T")
_SHARE_OF_ROWS = 0.75
_START_LENGTH = 2


class Swept(NamedTuple):
    """What one round did: counts, and whether it was completed."""

    marked: int = 0
    rows: int = 0
    tokens: int = 0
    folds: int = 0
    addresses: int = 0
    jobs: int = 0
    names: int = 0  # of deleted branches and tags
    uploads: int = 0  # in parts, completed long ago or expired
    checksums: int = 0  # of parts of such uploads
    runs: int = 0  # of actions
    streams: int = 0
    waiting: int = 0  # tokens that were visited and still have rows
    whole: bool = True


class _Round(NamedTuple):
    """A round over a repository, or a part of it, and when it ends by the steady clock."""

    repo: OpenRepository
    end_seconds: float

    def goes_on(self) -> bool:
        """Whether there is time left."""
        return self.repo.clock.steady_seconds() < self.end_seconds

    def old(self, records: Iterable[T], is_old: Callable[[T], bool]) -> list[T]:
        """The records for which `is_old` is true, as many as a round takes and has time to
        examine.
        """
        expired: list[T] = []
        count_max = self.repo.settings.sweep_records_count_max
        for record in records:
            if len(expired) == count_max or not self.goes_on():
                break
            if is_old(record):
                expired.append(record)
        return expired


def sweep(repo: OpenRepository, seconds: float = inf) -> Swept:
    """One round over a repository; it ends soon after `seconds`, between two requests.

    Cost: its clean-up, fold, address, job, branch, tag and upload records, the checksums of parts,
    its runs, and the rows; 1 block request and 1 KV request for each upload that has expired.
    Memory: a page of records, because a busy repository has hundreds of thousands.
    """
    begun = repo.clock.steady_seconds()
    swept, seen = Swept(), 0
    # Many rows must not starve the deletion of records, which has its own share of the time.
    rows = _Round(repo, begun + seconds * _SHARE_OF_ROWS)
    for pending in cleanups.list_cleanups(repo.kv, repo.record):
        if not rows.goes_on():
            break
        seen += 1
        swept = _tend(rows, pending, swept)
    whole = rows.goes_on()
    rest = _Round(repo, begun + seconds)
    return swept._replace(
        folds=_forget_folds(rest),
        addresses=_forget_addresses(rest),
        jobs=_forget_jobs(rest),
        names=_purge_names(rest),
        runs=_forget_runs(rest),
        streams=_forget_streams(rest),
        uploads=_forget_uploads(rest),
        checksums=_forget_checksums(rest),
        waiting=seen - swept.tokens,
        whole=whole and rest.goes_on(),
    )


def _tend(now: _Round, pending: PendingCleanup, swept: Swept) -> Swept:
    """One step for one clean-up record.  A record that changed meanwhile is left alone."""
    repo = now.repo
    token, cleanup = pending.token, pending.cleanup
    now_ns = repo.clock.now_ns()
    grace_ns = repo.settings.token_grace_seconds * limits.SECOND_NS
    if now_ns < cleanup.not_before_ns or _named(repo, cleanup.branch, token):
        return swept
    if not cleanup.marked_ns:
        marked = cleanup._replace(marked_ns=now_ns, passes=0)
        is_marked = cleanups.swap(repo.kv, repo.record, pending, marked, repo.ids.stamp())
        return swept._replace(marked=swept.marked + is_marked)
    if now_ns < cleanup.marked_ns + grace_ns * (cleanup.passes + 1):
        return swept
    dropped = area.drop(repo.kv, token, now.goes_on)
    swept = swept._replace(rows=swept.rows + dropped.rows)
    if not dropped.whole:
        return swept  # the record stays unchanged: the next round continues
    if cleanup.passes:
        cleanups.forget(repo.kv, repo.record, [token])
        return swept._replace(tokens=swept.tokens + 1)
    cleanups.swap(repo.kv, repo.record, pending, cleanup._replace(passes=1), repo.ids.stamp())
    return swept


def _named(repo: OpenRepository, branch: BranchId, token: StagingToken) -> bool:
    """Whether the branch record, read afresh, still names the token."""
    record = branches.find_live(repo.kv, repo.record, branch)
    return record is not ABSENT and token in record.branch.tokens_newest_first


def _forget_folds(now: _Round) -> int:
    horizon_ns = _horizon_ns(now, limits.fold_record_keep_seconds)
    old = now.old(
        commits.list_folds(now.repo.kv, now.repo.record),
        lambda each: each[1].created_ns < horizon_ns,
    )
    commits.forget_folds(now.repo.kv, now.repo.record, [key for key, _ in old])
    return len(old)


def _forget_addresses(now: _Round) -> int:
    """Forget upload addresses that expired one more lifetime ago, because a link may just be
    using one.
    """
    horizon_ns = _horizon_ns(now, limits.link_address_seconds)
    old = now.old(
        uploads.list_addresses(now.repo.kv, now.repo.record),
        lambda each: each[1].expires_ns < horizon_ns,
    )
    uploads.forget_address(now.repo.kv, now.repo.record, [address for address, _ in old])
    return len(old)


def _forget_jobs(now: _Round) -> int:
    horizon_ns = _horizon_ns(now, limits.job_record_keep_seconds)
    old = now.old(
        jobs.list_all(now.repo.kv, now.repo.record),
        lambda seen: _over_since_ns(seen.job) < horizon_ns,
    )
    jobs.forget(now.repo.kv, now.repo.record, [seen.job.id for seen in old])
    return len(old)


def _forget_streams(now: _Round) -> int:
    """Forget the marks of streams that have ended long ago."""
    repo = now.repo
    horizon_ns = _horizon_ns(now, limits.stream_mark_keep_seconds)
    marks = stream_marks.every(repo.kv, repo.record)
    old = now.old(marks, lambda each: each[1].landed_ns < horizon_ns)
    stream_marks.forget(repo.kv, repo.record, old)
    return len(old)


def _forget_runs(now: _Round) -> int:
    """Forget runs of actions that are old, or beyond the newest `hook_runs_max`, and their logs."""
    repo = now.repo
    horizon_ns = _horizon_ns(now, limits.hook_run_keep_seconds)
    numbered = enumerate(action_runs.every(repo.kv, repo.record))
    old = now.old(
        numbered,
        lambda each: each[0] >= repo.settings.hook_runs_max or each[1].ended_ns < horizon_ns,
    )
    logs = [
        Target(address.hook_log(repo.namespace, run.id, hook.id))
        for _, run in old
        for hook in run.hooks
    ]
    with suppress(Refused):
        for at in range(0, len(logs), limits.block_delete_count_max):
            repo.blocks.delete_all(logs[at : at + limits.block_delete_count_max])
    action_runs.forget(repo.kv, repo.record, [run for _, run in old])
    return len(old)


def _forget_uploads(now: _Round) -> int:
    """Forget uploads in parts that were completed long ago, and those that have expired."""
    repo = now.repo
    old = now.old(
        uploads_records.list_all(repo.kv, repo.record), lambda seen: is_over(repo, seen.upload)
    )
    for count, seen in enumerate(old):
        if not now.goes_on():
            return count
        with suppress(Refused):
            discard(repo, seen)
        uploads_records.forget(repo.kv, repo.record, [seen])
    return len(old)


def _forget_checksums(now: _Round) -> int:
    """Forget the checksums of parts that no completion may name any more."""
    repo, now_ns = now.repo, now.repo.clock.now_ns()
    old = now.old(
        uploads_records.checksum_expiries(repo.kv, repo.record), lambda each: each[1] < now_ns
    )
    uploads_records.forget_checksums(repo.kv, repo.record, [name for name, _ in old])
    return len(old)


def _purge_names(now: _Round) -> int:
    """Remove the records of deleted branches and tags."""
    repo = now.repo
    horizon_ns = _horizon_ns(now, limits.branch_purge_seconds)
    old = now.old(
        lifecycle.list_names(repo.kv, repo.record),
        lambda name: name.is_deleted and name.since_ns < horizon_ns,
    )
    for at in range(0, len(old), limits.kv_batch_count_max):
        if not now.goes_on():
            return at
        for branch in lifecycle.branches_of(old[at : at + limits.kv_batch_count_max]):
            close_all(repo, branch)  # of a deletion that did not end
        lifecycle.remove_names(repo.kv, repo.record, old[at : at + limits.kv_batch_count_max])
    return len(old)


def _over_since_ns(job: Job) -> float:
    """When the job ended, or expired as a bulk job; infinite if it may still continue."""
    if job.ended:
        return job.updated_ns
    if job.kind == BULK:
        return job.created_ns + limits.import_seconds_max * limits.SECOND_NS
    return inf


def _horizon_ns(now: _Round, seconds: int) -> int:
    return now.repo.clock.now_ns() - seconds * limits.SECOND_NS


class RoundResult(NamedTuple):
    """What a round did: repositories visited and failed, rows deleted, tokens that still wait, and
    whether it was completed.
    """

    repositories: int
    failed: int
    rows: int
    tokens_waiting: int
    whole: bool


def tend_all(ports: Ports, seconds: float) -> RoundResult:
    """Let the janitor sweep every repository, until soon after `seconds`.

    Errors of one repository are counted, not raised; errors of the list of repositories are raised.
    Cost: the list of repositories, and the sweep of each.
    """
    end = ports.clock.steady_seconds() + seconds
    tended = failed = rows = waiting = 0
    whole = True
    for repo in in_turn(ports):
        remaining = end - ports.clock.steady_seconds()
        whole = whole and remaining > 0
        if not whole:
            break
        try:
            swept = sweep(repo, remaining)
        except GravelerError:
            failed += 1
            continue
        tended += 1
        rows += swept.rows
        waiting += swept.waiting
        whole = swept.whole
    return RoundResult(tended, failed, rows, waiting, whole)


def in_turn(ports: Ports) -> Iterator[OpenRepository]:
    """All repositories, from a random one on, round to the one before it.

    For every round that may end before it has visited all.  Cost: 1 KV request for each page.
    """
    start = ports.ids.unique(_START_LENGTH)
    yield from repository.every(ports, start)
    for repo in repository.every(ports):
        if repo.id > start:
            return
        yield repo
