"""Commit very many staged rows: Spark reads, sorts and writes them, and they land as one commit.

    begin: staging tokens are sealed ──► rows by shard (`staged_rows.py`) ──► cuts ──► one task a
    bucket: newest row of each path, put onto the base's ranges ──► one metarange ──► finish: one
    commit

The ranges are those of an ordinary commit.  Meanwhile writers continue on a fresh staging token.
The sealed tokens leave the branch in the same compare-and-swap that lands the commit
(docs/reference/bulk.md).  For users of the package.
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
from graveler.spark.cluster.places import Place, opened
from graveler.spark.core.overlay import overlaid
from graveler.spark.lake import Lake, parse_target, place_of
from graveler.spark.verbs import staged_rows
from graveler.spark.verbs.land import JobTerms
from graveler.spark.verbs.staged_rows import Table

_MESSAGE: Final = "Commit staged changes"
_LANDING: Final = "landing"


class Committed(NamedTuple):
    """The commit that landed, and how many staged rows it contains."""

    commit: str
    rows: int


def commit(lake: Lake, branch: str, terms: JobTerms | None = None, *, table: str = "") -> Committed:
    """Commit all staged rows that "repository/branch" acknowledged before the call.

    `terms.id`: a name for the job.  If a job with this name exists, the call runs it again.  Such a
    job is not cancelled when it fails, and lands once.  A commit that the service handed over is
    such a job: it commits what was staged at the hand-over, with the message and metadata of the
    original request unless `terms` replace them.

    `table`: the DynamoDB table of the deployment.  With it, the executors read the staged rows
    directly.  Without it, the driver copies the rows page by page from the API to the object store.

    Errors: `Invalid`, `NotFound`, `Refused`, `NoChanges`, `Conflict` (the branch was reset, or
    another commit took part of the rows: call again), `OutcomeUnknown`.  After any error but
    `OutcomeUnknown`, this call has landed nothing.  All rows stay staged; after `Conflict`, only
    those that neither the reset dropped nor the other commit contains.
    """
    where, chosen = parse_target(branch), terms or JobTerms()
    if where.prefix:
        raise Invalid(
            f"a commit covers a whole branch; give no prefix: prefix={where.prefix!r:.200}"
        )
    job = bulk.begin(lake.session, where.repository, where.branch, "commit", id=chosen.id)
    if job.commit:
        return Committed(job.commit, job.progress)
    place = place_of(lake, job.storage_namespace, job.breaks)
    with cancelled_on_error(lake.session, where.repository, job, is_named=bool(chosen.id)):
        with beating(lake.session, where.repository, job, lambda: 0):
            metarange, count = _written(lake, where.repository, job, place, table)
        bulk.heartbeat(lake.session, where.repository, job, count)
        message = chosen.message or job.message or _MESSAGE
        metadata = {**job.metadata, **chosen.metadata}
        landing = bulk.Landing(metarange, job.id, message, metadata)
        commit_id = bulk.finish(lake.session, where.repository, job, landing)
    return Committed(commit_id, count)


def _written(
    lake: Lake, repository: str, job: BulkJob, place: Place, table: str
) -> tuple[str, int]:
    """The metarange to land, and the number of rows in it."""
    base = MetarangeId(job.base_metarange)
    if job.state == _LANDING and not _is_staged(lake, repository, job):
        # An earlier attempt has landed.  `finish` then returns its commit and lands nothing else,
        # because the branch no longer names the tokens.
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
        store = Table(table, endpoint_url())
        yield staged_rows.from_table(lake.spark, staged_rows.shards_of(job), store)
        return
    names = staged_rows.spooled(lake.session, repository, job, place)
    try:
        yield staged_rows.from_pieces(lake.spark, place, names)
    finally:
        with suppress(GravelerError):  # garbage collection removes the rest after the job
            staged_rows.forget(place, names)
