"""Import and land: the rows of a DataFrame become one commit on a branch, or nothing changes.

    begin (base, salt, break parameters) ──► ranges, written by the executors ──► finish: one commit
                └── heartbeats ──┘                    └─ failed: cancelled

*replace*: the rows replace everything below the prefix.  *merge*: the rows are put onto the
existing entries; paths without a row stay.  Commits and uncommitted changes of other writers
elsewhere in the branch also stay (docs/reference/bulk.md).  For users of the package.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from pyspark.sql import DataFrame

from graveler.client import bulk
from graveler.client.bulk import BulkJob
from graveler.client.session import below, with_query
from graveler.errors import Conflict, Invalid, Refused
from graveler.ids import NO_METARANGE, MetarangeId
from graveler.spark.cluster.checkpoints import JobCheckpoints, count
from graveler.spark.cluster.heartbeat import beating, cancelled_on_error
from graveler.spark.cluster.places import opened
from graveler.spark.cluster.results import BadRows as BadRows
from graveler.spark.cluster.results import Report
from graveler.spark.lake import Lake, Target, parse_target, place_of
from graveler.spark.verbs.imports import ImportOptions, OnBad, import_rows

Mode = Literal["replace", "merge"]
_MESSAGE = "Import objects"


@dataclass(frozen=True, slots=True)
class Imported:
    """The commit that landed, how many rows it contains, and a report of the rows that were left
    out."""

    commit: str
    count: int
    report: Report


@dataclass(frozen=True, slots=True)
class JobTerms:
    """The message and metadata of the commit (empty: the default), and the job's name if it may be
    run again.

    A job with a name is not cancelled when it fails.  A later call with the same name runs the same
    job on the same base, and lands it once.  If the job has landed, the call returns its commit.
    The name of a job of another verb, branch, folder or mode is a `Conflict`.  An import reuses
    what the attempt before has written.
    """

    message: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    id: str = ""


def import_(
    lake: Lake,
    df: DataFrame,
    target: str,
    mode: Mode = "replace",
    *,
    on_bad: OnBad = "fail",
    terms: JobTerms | None = None,
) -> Imported:
    """Land the rows of `df` below `target`, "repository/branch/prefix", as one commit.

    The rows name objects that lie elsewhere (path below the prefix, address, size, checksum, mtime,
    optionally metadata and content_type; see `columns.py`).  No object is copied.

    Errors: `Invalid` (target, mode, columns); `BadRows` with a report; `NotFound`; `Refused`;
    `Conflict` (the folder has staged rows; the job was cancelled or has expired; the input changed
    while it was read; the job's name belongs to another prefix, mode or verb); `OutcomeUnknown` if
    the answer to the landing was lost.  After any error but `OutcomeUnknown`, nothing has landed.

    A named job that has landed before is answered with its commit and an empty report.  While the
    job runs, its progress is the number of finished buckets; then the number of rows.
    """
    if mode not in ("replace", "merge"):
        raise Invalid(f'mode must be "replace" or "merge": mode={mode!r}')
    where, chosen = parse_target(target), terms or JobTerms()
    job = begun(lake, where, mode, chosen.id, "import")
    if job.commit:
        return Imported(job.commit, job.progress, Report())
    place = place_of(lake, job.storage_namespace, job.breaks)
    base = MetarangeId(job.base_metarange) if mode == "merge" else NO_METARANGE
    is_named, birth = bool(chosen.id), job.creation_date
    options = ImportOptions(
        where.prefix, base, on_bad=on_bad, job=job.id, taken_up=is_named, birth=birth
    )
    with cancelled_on_error(lake.session, where.repository, job, is_named=is_named):
        done = partial(
            count, opened(place).blocks, JobCheckpoints(place.namespace, job.id, birth=birth)
        )
        with beating(lake.session, where.repository, job, done):
            check_nothing_staged(lake, where, job)
            written = import_rows(df, place, options)
        bulk.heartbeat(lake.session, where.repository, job, written.count)
        message = chosen.message or _MESSAGE
        landing = bulk.Landing(written.metarange, job.id, message, chosen.metadata)
        commit = bulk.finish(lake.session, where.repository, job, landing)
    return Imported(commit, written.count, written.report)


def check_nothing_staged(lake: Lake, where: Target, job: BulkJob) -> None:
    """Raise `Conflict` before the work if the folder has uncommitted changes, because the landing
    may raise it after the work.  A job that was landing before is left to the landing, and so are
    callers who may not list.  Cost: one request to the API."""
    if job.state != "running":
        return
    diff = below("repositories", where.repository, "branches", where.branch, "diff")
    try:
        query = with_query(diff, amount=1, prefix=where.prefix)
        changes = lake.session.call("GET", query)["results"]
    except Refused:
        return
    for change in changes:
        raise Conflict(
            "the target has uncommitted changes; commit or reset them first: "
            f"branch={where.branch} path={change['path']!r:.200}"
        )


def begun(lake: Lake, where: Target, mode: Mode, id: str, verb: str) -> BulkJob:
    """A job on the head of the branch.  In the mode merge the metarange of the job is that of the
    whole branch, so the job has no prefix.  The folder and the `verb` stand in the job's
    purpose."""
    prefix = where.prefix if mode == "replace" else ""
    purpose = f"{verb} below {where.prefix!r}"
    return bulk.begin(
        *(lake.session, where.repository, where.branch, mode),
        prefix=prefix,
        id=id,
        purpose=purpose,
    )
