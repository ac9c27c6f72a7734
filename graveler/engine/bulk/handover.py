"""Hand-over: a commit of more rows than one process may scan waits for a bulk job on a cluster.

    scan ──past commit_rows_max──► a bulk job on the sealed tokens ──► HandedOver, which names it
    next commit ──a job waits for what is sealed──► HandedOver at once: nothing sealed or scanned
    the job lands, is cancelled, or expires ──► commits continue

The job is named by the oldest token that it folds in.  Any commit that sees the token in the
branch record finds the job.  Once a commit has folded in the token, whoever made that commit, no
commit finds the job any more.

The head has not moved, and staged rows stay staged.  Rows moved from the open to a sealed token, as
in a commit that crashed.  Used by commit.py.  Jobs that wait for the outcome ask
`commits/search.py`.
"""

from collections.abc import Mapping
from math import inf
from typing import Final, Literal

from graveler.engine.bulk import job as bulk
from graveler.engine.bulk.job import Mode, NewBulk
from graveler.engine.jobs import record as jobs
from graveler.engine.ports import OpenRepository
from graveler.errors import HandedOver
from graveler.ids import BranchId, JobId
from graveler.records import ABSENT, Absent, Branch, Job
from graveler.refs.jobs import record as records

Said = tuple[str, Mapping[str, str]]  # the message and the metadata of a commit
_STEM: Final = "rows"


def check(repo: OpenRepository, branch: BranchId, record: Branch) -> None:
    """Raises `HandedOver` if a job waits for the sealed tokens of the record.

    No request if nothing is sealed or if rows have no limit; else 1 KV request.
    """
    if not record.sealed or repo.settings.commit_rows_max == inf:
        return
    last = _last(repo, record)
    if last is not ABSENT and bulk.can_land(repo, last):
        raise _handed_over(repo, branch, last.id)


def hand_over(
    repo: OpenRepository, branch: BranchId, record: Branch, description: Said
) -> HandedOver:
    """Have a bulk job wait for the sealed tokens of a record; if one waits already, use that one.

    `description`: message and metadata of the commit that the job must make.  The returned error
    names the job, also for a repeated or another request.

    Errors: `OutcomeUnknown`, `Unavailable`.  Cost: 2 KV requests.
    """
    last = _last(repo, record)
    if last is not ABSENT and bulk.can_land(repo, last):
        return _handed_over(repo, branch, last.id)
    job_id = jobs.next_id(repo, _stem(record), last)
    # If two callers begin the job at the same time, one succeeds.  What the other one sealed in
    # addition stays staged.
    bulk.begin_on(repo, branch, record, NewBulk(Mode.COMMIT, "", job_id, ABSENT, *description))
    return _handed_over(repo, branch, job_id)


def _stem(record: Branch) -> str:
    return f"{_STEM}-{record.sealed[0]}-"


def _last(repo: OpenRepository, record: Branch) -> Job | Literal[Absent.ABSENT]:
    jobs = records.list_some(repo.kv, repo.record, _stem(record))
    return jobs[-1].job if jobs else ABSENT


def _handed_over(repo: OpenRepository, branch: BranchId, job: JobId) -> HandedOver:
    return HandedOver(
        f"commit handed over: more than {repo.settings.commit_rows_max} uncommitted rows, which "
        f'Spark commits: graveler.spark.commit(lake, "{repo.id}/{branch}", '
        f'JobTerms(id="{job}")); nothing is committed yet, all stays staged: job={job}',
        job,
    )
