"""Pack: write the head of a branch again in ranges of another size; no entry changes.

    does it pay? ──► begin: base ──► the same records in other ranges (repack.py) ──► does it?
       └─ no: nothing is begun          finish: one commit, whose diff is empty ◄── yes ─┤
                                        the repository's break parameters, swapped       └─ no:
                                                                                       cancelled

With fewer and larger ranges, readers make fewer requests and commits write more bytes.  Commits
that land meanwhile are kept: `finish` puts their changes onto the packed ranges
(docs/reference/bulk.md).  The commit is valid without the new parameters and
the parameters without the commit, because readers do not depend on where a range ends.  For users
of the package.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from graveler.client import break_parameters, bulk
from graveler.client.bulk import BulkJob
from graveler.engine.repositories.repository import check_breaks
from graveler.errors import Invalid, PreconditionFailed
from graveler.records import BreakParameters, RangeRef
from graveler.spark.cluster.heartbeat import beating, cancelled_on_error
from graveler.spark.cluster.pins import pinned
from graveler.spark.cluster.places import Place
from graveler.spark.core.layouts import Layout, expected_ranges, layout_of, pays
from graveler.spark.core.repack import PackedTable, ranges_of, repacked, stored_share
from graveler.spark.lake import Lake, Target, parse_target, place_of
from graveler.spark.verbs.land import JobTerms

_MESSAGE: Final = "Pack ranges"


class Packed(NamedTuple):
    """The layout before, the expected number of ranges, and the layout after.

    If nothing landed, `commit` is empty and `after` equals `before`.  `is_set`: whether the
    repository has the new parameters.
    """

    before: Layout
    expected_ranges: int
    after: Layout
    commit: str = ""
    is_set: bool = False


def pack(
    lake: Lake,
    branch: str,
    breaks: BreakParameters,
    terms: JobTerms | None = None,
    *,
    dry_run: bool = False,
) -> Packed:
    """Write the head of "repository/branch" in ranges that end by `breaks`, if at most 70 % of the
    ranges remain; then set `breaks` as the repository's parameters for future ranges.

    `client.break_parameters.read` returns the present ones.  The call first estimates from the
    metarange alone whether packing pays; with `dry_run` it does only that.  The parameters are set
    by compare-and-swap against those at the start of this call: if another client has set others
    meanwhile, those stay.

    `terms.id`: a name for the job.  If a job with this name exists, the call runs it again.  Such a
    job is not cancelled when it fails, and lands once.

    Errors: `Invalid`, `NotFound`, `Refused`, `Conflict` (the branch has staged rows: commit them
    first; or the job was cancelled); `OutcomeUnknown` if the answer to the landing was lost.  After
    any error but `OutcomeUnknown`, nothing has landed.
    """
    where, chosen = parse_target(branch), terms or JobTerms()
    if where.prefix:
        raise Invalid(
            f"packing covers a whole branch; give no prefix: prefix={where.prefix!r:.200}"
        )
    seen = break_parameters.read(lake.session, where.repository)
    check_breaks(breaks)
    before = _found(lake, where.repository, where.branch)
    expected = expected_ranges(before, breaks)
    if dry_run or not (chosen.id or pays(before.ranges, expected)):
        return Packed(before, expected, before)
    job = bulk.begin_packing(lake.session, where.repository, where.branch, breaks, id=chosen.id)
    if job.commit:
        place = place_of(lake, job.storage_namespace, job.breaks)
        before = _layout(place, ranges_of(place, job.base_metarange))
        expected = expected_ranges(before, job.breaks)
        after, commit = _found(lake, where.repository, job.commit), job.commit
    else:
        before, after, commit = _landed(lake, where, job, chosen)
    if not commit:
        return Packed(before, expected, before)
    return Packed(before, expected, after, commit, _set(lake, where, seen, breaks))


def _landed(lake: Lake, where: Target, job: BulkJob, terms: JobTerms) -> tuple[Layout, Layout, str]:
    """The layout before, the layout after, and the commit; an empty commit id if packing does not
    pay."""
    place = place_of(lake, job.storage_namespace, job.breaks)
    refs = ranges_of(place, job.base_metarange)
    before = _layout(place, refs)
    expected = expected_ranges(before, place.breaks)
    with cancelled_on_error(lake.session, where.repository, job, is_named=bool(terms.id)):
        with beating(lake.session, where.repository, job, lambda: 0):
            layout: PackedTable = repacked(lake.spark, place, refs, expected)
        after = _layout(place, layout.ranges)
        if not pays(before.ranges, after.ranges):
            if not terms.id:  # a named job gives the same answer again
                bulk.cancel(lake.session, where.repository, job)
            return before, after, ""
        bulk.heartbeat(lake.session, where.repository, job, after.entries)
        message = terms.message or _MESSAGE
        landing = bulk.Landing(layout.metarange, job.id, message, terms.metadata)
        return before, after, bulk.finish(lake.session, where.repository, job, landing)


def _found(lake: Lake, repository: str, ref: str) -> Layout:
    at = pinned(lake, f"{repository}/{ref}")
    return _layout(at.place, at.ranges())


def _layout(place: Place, refs: Sequence[RangeRef]) -> Layout:
    return layout_of(refs, stored_share(place, refs))


def _set(lake: Lake, where: Target, seen: BreakParameters, new: BreakParameters) -> bool:
    try:
        break_parameters.swap(lake.session, where.repository, seen, new)
    except PreconditionFailed:
        return False
    return True
