"""Pack: the head of a branch, written anew in ranges that end elsewhere; no entry changes.

    does it pay? ──► begin: base ──► the same records in other ranges (repack.py) ──► does it?
       └─ no: nothing is begun          finish: one commit, whose diff is empty ◄── yes ─┤
                                        the repository's break parameters, swapped       └─ no:
                                                                                       cancelled
Fewer and larger ranges cost readers fewer requests, and commits more bytes.  What others commit
meanwhile stays: it is put onto the packed ranges as they land (docs/bulk.md).  The commit and the
parameters are valid one without the other, as ranges may end anywhere.  For whoever uses the
package.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from graveler.client import break_parameters, bulk
from graveler.client.bulk import BulkJob
from graveler.engine.repositories.break_parameters import check
from graveler.errors import Invalid, PreconditionFailed
from graveler.records import BreakParameters, RangeRef
from graveler.spark.cluster.heartbeat import beating, cancelled_on_error
from graveler.spark.cluster.land import JobTerms
from graveler.spark.cluster.pins import pinned
from graveler.spark.cluster.places import Place
from graveler.spark.core.layouts import Layout, expected_ranges, layout_of, pays
from graveler.spark.core.repack import Repacked, ranges_of, repacked, stored_share
from graveler.spark.lake import Lake, Target, parse_target, place_of

_MESSAGE: Final = "Pack ranges"


class Packed(NamedTuple):
    """What the head was, how many ranges were expected, and what it is, which is what it was if
    nothing landed: `commit` is empty then.  `is_set`: whether the repository has the parameters."""

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
    """Write the head of "repository/branch" in ranges that end by `breaks`, if that leaves 70 of
    100 ranges at most; then have the repository's ranges end so from now on.

    `client.break_parameters.read` tells the present ones.  Whether it pays is estimated first, by
    the metarange alone; with `dry_run` that is all.  The parameters are swapped for those that were
    there when this began: if somebody else has set others meanwhile, theirs stay.

    Errors: `Invalid`, `NotFound`, `Refused`, `Conflict` (uncommitted changes: commit them first;
    somebody cancelled the job); `OutcomeUnknown` if the answer to the landing was lost.  Unless it
    is the last of these, nothing has landed.  A name in `terms` runs the job of that name again, if
    there is one: it is not cancelled when it fails, and lands once.
    """
    where, said = parse_target(branch), terms or JobTerms()
    if where.prefix:
        raise Invalid(f"a branch is packed as a whole: prefix={where.prefix!r:.200}")
    seen = break_parameters.read(lake.session, where.repository)
    check(breaks)
    before = _found(lake, where.repository, where.branch)
    expected = expected_ranges(before, breaks)
    if dry_run or not (said.id or pays(before.ranges, expected)):
        return Packed(before, expected, before)
    job = bulk.begin_packing(lake.session, where.repository, where.branch, breaks, id=said.id)
    if job.commit:
        place = place_of(lake, job.storage_namespace, job.breaks)
        before = _layout(place, ranges_of(place, job.base_metarange))
        expected = expected_ranges(before, job.breaks)
        after, commit = _found(lake, where.repository, job.commit), job.commit
    else:
        before, after, commit = _landed(lake, where, job, said)
    if not commit:
        return Packed(before, expected, before)
    return Packed(before, expected, after, commit, _set(lake, where, seen, breaks))


def _landed(lake: Lake, where: Target, job: BulkJob, said: JobTerms) -> tuple[Layout, Layout, str]:
    """What was, what is, and the commit; no commit if it does not pay."""
    place = place_of(lake, job.storage_namespace, job.breaks)
    refs = ranges_of(place, job.base_metarange)
    before = _layout(place, refs)
    expected = expected_ranges(before, place.breaks)
    with cancelled_on_error(lake.session, where.repository, job, is_named=bool(said.id)):
        with beating(lake.session, where.repository, job, lambda: 0):
            made: Repacked = repacked(lake.spark, place, refs, expected)
        after = _layout(place, made.ranges)
        if not pays(before.ranges, after.ranges):
            if not said.id:  # one with a name answers so again
                bulk.cancel(lake.session, where.repository, job)
            return before, after, ""
        bulk.heartbeat(lake.session, where.repository, job, after.entries)
        message = said.message or _MESSAGE
        landing = bulk.Landing(made.metarange, job.id, message, said.metadata)
        return before, after, bulk.finish(lake.session, where.repository, job, landing)


def _found(lake: Lake, repository: str, ref: str) -> Layout:
    found = pinned(lake, f"{repository}/{ref}")
    return _layout(found.place, found.ranges())


def _layout(place: Place, refs: Sequence[RangeRef]) -> Layout:
    return layout_of(refs, stored_share(place, refs))


def _set(lake: Lake, where: Target, seen: BreakParameters, wanted: BreakParameters) -> bool:
    try:
        break_parameters.swap(lake.session, where.repository, seen, wanted)
    except PreconditionFailed:
        return False
    return True
