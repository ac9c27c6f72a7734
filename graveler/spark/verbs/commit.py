"""Commit of very many uncommitted rows: read, sorted and written by Spark, landed as one commit.

    begin: what is staged is sealed ──► rows by shard (`rows.py`) ──► cuts ──► one task a bucket:
    newest row of each path, put onto the base's ranges ──► one metarange ──► finish: one commit

The ranges are those of an ordinary commit.  Writers go on meanwhile, into a fresh token; the tokens
leave the branch in the swap that lands the commit (docs/bulk.md).  For whoever uses the package.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from pyspark.sql import DataFrame

from graveler.client import bulk
from graveler.client.bulk import BulkJob
from graveler.errors import GravelerError, Invalid
from graveler.ids import MetarangeId
from graveler.settings import endpoint_url
from graveler.spark.cluster.heartbeat import beating, cancelled_on_error
from graveler.spark.cluster.land import JobTerms
from graveler.spark.cluster.places import Place, opened
from graveler.spark.core.overlay import overlaid
from graveler.spark.lake import Lake, parse_target, place_of
from graveler.spark.verbs import staged_rows
from graveler.spark.verbs.staged_rows import Table

_MESSAGE: Final = "Commit staged changes"
_LANDING: Final = "landing"


class Committed(NamedTuple):
    """The commit that landed, and how many uncommitted rows it took in."""

    commit: str
    rows: int


def commit(lake: Lake, branch: str, terms: JobTerms | None = None, *, table: str = "") -> Committed:
    """Commit all that was acknowledged on "repository/branch" before the call.

    A name in `terms` runs the job of that name again, if there is one: it is not cancelled when it
    fails, and lands once.  A commit that was handed over is such a job: what was staged by then is
    committed, and the commit says what it was to say unless `terms` say otherwise.  `table`: the
    DynamoDB table of the deployment, which the executors then read themselves; without it the
    driver carries the rows, page by page, from the API to the object store.  Errors: `Invalid`,
    `NotFound`, `Refused`, `NoChanges`, `Conflict` (the branch was reset, or others took in part of
    it: call again), `OutcomeUnknown`.  Unless it is the last of these nothing has landed, and all
    stays staged.
    """
    where, said = parse_target(branch), terms or JobTerms()
    if where.prefix:
        raise Invalid(f"a commit is of a whole branch: prefix={where.prefix!r:.200}")
    job = bulk.begin(lake.session, where.repository, where.branch, "commit", id=said.id)
    if job.commit:
        return Committed(job.commit, job.progress)
    place = place_of(lake, job.storage_namespace, job.breaks)
    with cancelled_on_error(lake.session, where.repository, job, is_named=bool(said.id)):
        with beating(lake.session, where.repository, job, lambda: 0):
            metarange, count = _written(lake, where.repository, job, place, table)
        bulk.heartbeat(lake.session, where.repository, job, count)
        message = said.message or job.message or _MESSAGE
        metadata = {**job.metadata, **said.metadata}
        landing = bulk.Landing(metarange, job.id, message, metadata)
        made = bulk.finish(lake.session, where.repository, job, landing)
    return Committed(made, count)


def _written(
    lake: Lake, repository: str, job: BulkJob, place: Place, table: str
) -> tuple[str, int]:
    """The metarange to land, and how many rows are in it."""
    base = MetarangeId(job.base_metarange)
    if job.state == _LANDING and not _is_staged(lake, repository, job):
        # A run before this one has landed: `finish` answers with its commit, and can land nothing
        # else, since the branch does not name the tokens any more.
        space = opened(place).space
        return base or space.store.write_metarange(space.namespace, ()), job.progress
    with _rows(lake, repository, job, place, table) as rows:
        return overlaid(rows, place, base)


def _is_staged(lake: Lake, repository: str, job: BulkJob) -> bool:
    named = {each.token for each in bulk.staging_tokens(lake.session, repository, job.branch)}
    return any(each.token in named for each in job.staging_tokens)


@contextmanager
def _rows(
    lake: Lake, repository: str, job: BulkJob, place: Place, table: str
) -> Iterator[DataFrame]:
    if table:
        there = Table(table, endpoint_url())
        yield staged_rows.from_table(lake.spark, staged_rows.shards_of(job), there)
        return
    names = staged_rows.spooled(lake.session, repository, job, place)
    try:
        yield staged_rows.from_pieces(lake.spark, place, names)
    finally:
        with suppress(GravelerError):  # what is left is garbage once the job has ended
            staged_rows.forget(place, names)
