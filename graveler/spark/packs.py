"""Pack: write the head of a branch again in ranges of another size; no entry changes.

    base      ├r│r│r│r┤├r│r│r│r┤├r│r│r┤      stretches of whole ranges, a task each
    tasks     ├── r ──┤├── r ──┤├─ r ─┤      the same records, new ends (seams: `join.py`)
An estimate from the metarange decides whether packing pays before anything is begun.  Fewer ranges:
readers make fewer requests and commits write more bytes.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import ceil, exp
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession

from graveler.committed.ranges import totals
from graveler.committed.reader import range_columns
from graveler.committed.table import SPAN_LENGTH
from graveler.committed.table_end import TAIL_LENGTH
from graveler.committed.tiers import file_address
from graveler.committed.writer import Assembler, Splitter
from graveler.core.errors import Corrupt, Invalid, PreconditionFailed
from graveler.core.ids import MetarangeId
from graveler.core.records import BreakParameters, RangeRef
from graveler.engine.repositories.repository import check_breaks
from graveler.lake import bulk
from graveler.lake.bulk import BulkJob
from graveler.spark.bulk_jobs import JobTerms, cancelled_on_error, heartbeats, land
from graveler.spark.join import by_tasks, joined_over, sewing
from graveler.spark.lake import Lake, Target, parse_target, pinned, place_of
from graveler.spark.landing import terms_of
from graveler.spark.places import Place, opened
from graveler.spark.tasks import (
    RANGES,
    SCHEMA,
    Part,
    Task,
    each_row,
    in_tasks,
    parallel_tasks,
    parts_of,
    ref_of,
    row_of,
    rows_of,
)

CHANGES: Final = 1_000  # of a commit whose cost is estimated


_SHARE_MAX: Final = 0.7  # of the ranges that may remain
_MESSAGE: Final = "Pack ranges"
_BYTES_WANTED: Final = 256 << 20  # of keys and values in a stretch
_JOINED_MAX: Final = 16  # at least so many new ranges a stretch: the last may be read again
_LOOKED_AT: Final = 100
_READERS: Final = 8
_STRETCHES: Final = f"bucket int, ranges {RANGES}"


class Layout(NamedTuple):
    """The number of ranges and of the entries in them, the bytes of keys and values, and the bytes
    of the stored files.

    `read_requests`: requests to read everything with empty caches, as tasks do: the metarange, and
    of each range its tail and spans of 1 MiB.  `commit_requests`, `commit_bytes`: the average cost
    of a commit of `CHANGES` entries that are spread evenly.  Such a commit reads and writes the
    metarange and each range with a changed entry; each write is one request.  The bytes of files
    assume the compression of the files that were sampled.
    """

    ranges: int
    entries: int
    size: int
    stored_bytes: int
    read_requests: int
    commit_requests: int
    commit_bytes: int


def layout_of(refs: Sequence[RangeRef], share: float = 1.0, changes: int = CHANGES) -> Layout:
    """The layout of these ranges.  `share`: the bytes of the files for each byte of keys and
    values."""
    entries, size = totals(refs)
    reads = [_reads(ref.size * share) for ref in refs]
    touched = [1 - (1 - ref.count / entries) ** changes for ref in refs]
    requests = sum(chance * (each + 1) for chance, each in zip(touched, reads, strict=True))
    rewritten = sum(chance * ref.size for chance, ref in zip(touched, refs, strict=True))
    return Layout(
        ranges=len(refs),
        entries=entries,
        size=size,
        stored_bytes=round(size * share),
        read_requests=1 + sum(reads),
        commit_requests=2 + round(requests),
        commit_bytes=round(rewritten * share),
    )


def _reads(stored_bytes: float) -> int:
    return 1 + max(0, ceil((stored_bytes - TAIL_LENGTH) / SPAN_LENGTH))


def expected_ranges(now: Layout, breaks: BreakParameters) -> int:
    """How many ranges the same entries would have with other parameters; an estimate that reads
    nothing.  Beyond `min_size`, a range ends after each record with the same probability.  So the
    bytes until the end are distributed exponentially, and cut off at `max_size`."""
    if not now.entries:
        return 0
    until_break = breaks.raggedness * now.size / now.entries
    beyond = until_break * (1 - exp((breaks.min_size - breaks.max_size) / until_break))
    return max(1, round(now.size / max(1.0, breaks.min_size + beyond)))


def pays(before: int, after: int) -> bool:
    """Whether the reduction justifies writing all ranges again: at least 30 % fewer ranges."""
    return after <= before * _SHARE_MAX


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
    *,
    dry_run: bool = False,
    message: str = "",
    metadata: Mapping[str, str] | None = None,
    job: str = "",
) -> Packed:
    """Write the head of "repository/branch" in ranges that end by `breaks`, if at most 70 % of the
    ranges remain; then set `breaks` as the repository's parameters for future ranges.

    `client.bulk.read_breaks` returns the present ones.  The call first estimates from the
    metarange alone whether packing pays; with `dry_run` it does only that.  The parameters are set
    by compare-and-swap against those at the start of this call: if another client has set others
    meanwhile, those stay.

    `message`, `metadata`: of the commit.  `job`: a name for the work.  If a job with this name
    exists, the call runs it again.  Such a job is not cancelled when it fails, and lands once.

    Errors: `Invalid`, `NotFound`, `Refused`, `Conflict` (the branch has staged rows: commit them
    first; or the job was cancelled); `OutcomeUnknown` if the answer to the landing was lost.  After
    any error but `OutcomeUnknown`, nothing has landed.
    """
    where, terms = parse_target(branch), terms_of(_MESSAGE, message, metadata, job)
    if where.prefix:
        raise Invalid(
            f"packing covers a whole branch; give no prefix: prefix={where.prefix!r:.200}"
        )
    seen = bulk.read_breaks(lake.session, where.repository)
    check_breaks(breaks)
    before = _found(lake, where.repository, where.branch)
    expected = expected_ranges(before, breaks)
    if dry_run or not (job or pays(before.ranges, expected)):
        return Packed(before, expected, before)
    begun = bulk.begin_packing(lake.session, where.repository, where.branch, breaks, id=job)
    if begun.commit:
        place = place_of(lake, begun.storage_namespace, begun.breaks)
        before = _layout(place, ranges_of(place, begun.base_metarange))
        expected = expected_ranges(before, begun.breaks)
        after, commit = _found(lake, where.repository, begun.commit), begun.commit
    else:
        before, after, commit = _landed(lake, where, begun, terms)
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
        with heartbeats(lake, where, job, "pack", lambda: 0):
            layout: PackedTable = repacked(lake.spark, place, refs, expected)
        after = _layout(place, layout.ranges)
        if not pays(before.ranges, after.ranges):
            if not terms.id:  # a named job gives the same answer again
                bulk.cancel(lake.session, where.repository, job)
            return before, after, ""
        return before, after, land(lake, where, job, (layout.metarange, after.entries), terms)


def _found(lake: Lake, repository: str, ref: str) -> Layout:
    at = pinned(lake, f"{repository}/{ref}")
    return _layout(at.place, at.ranges())


def _layout(place: Place, refs: Sequence[RangeRef]) -> Layout:
    return layout_of(refs, stored_share(place, refs))


def _set(lake: Lake, where: Target, seen: BreakParameters, new: BreakParameters) -> bool:
    try:
        bulk.swap_breaks(lake.session, where.repository, seen, new)
    except PreconditionFailed:
        return False
    return True


class PackedTable(NamedTuple):
    """A metarange and its ranges."""

    metarange: MetarangeId
    ranges: tuple[RangeRef, ...]


def ranges_of(place: Place, metarange: str) -> tuple[RangeRef, ...]:
    """All ranges of a metarange.  One request."""
    return opened(place).space.metarange(MetarangeId(metarange)).ranges


def stored_share(place: Place, refs: Sequence[RangeRef]) -> float:
    """The bytes of the files of ranges for each byte of their keys and values, from an evenly
    spread sample.  One request for each sampled range, at most 100."""
    looked_at = refs[:: max(1, -(-len(refs) // _LOOKED_AT))]
    if not looked_at:
        return 1.0
    blocks = opened(place).blocks

    def length(ref: RangeRef) -> int:
        return blocks.head(file_address(place.namespace, ref.id)).size

    with ThreadPoolExecutor(_READERS, "lengths") as pool:
        lengths = list(pool.map(length, looked_at))
    return sum(lengths) / sum(ref.size for ref in looked_at)


def repacked(
    spark: SparkSession, place: Place, refs: Sequence[RangeRef], expected: int, tasks: int = 0
) -> PackedTable:
    """The records of `refs` in ranges that end by `place.breaks`.  `expected`: the approximate
    number of new ranges.  The ranges are those that a single writer of all the records makes.
    Raises `Corrupt` if the result has other records than `refs`."""
    count = tasks or parallel_tasks(spark)
    stretches = list(stretches_of(refs, place.breaks, expected, count))
    rows = [
        {"bucket": bucket, "ranges": list(map(row_of, held))}
        for bucket, held in enumerate(stretches)
    ]
    results = in_tasks(spark, rows, _STRETCHES, _repacking(place), SCHEMA, len(rows))
    parts = parts_of(results.collect())
    refs_of = {part.bucket: part.ranges for part in parts}
    cuts = [held[-1].max_key for held in stretches[:-1]]
    space = opened(place).space
    joined = joined_over(by_tasks(spark, sewing(place)), place.breaks, (), cuts, refs_of)
    if totals(joined) != totals(refs):
        raise Corrupt(f"packed ranges differ from their records: {totals(refs)=} {totals(joined)=}")
    return PackedTable(space.store.write_metarange(space.namespace, joined), joined)


def stretches_of(
    refs: Sequence[RangeRef], breaks: BreakParameters, expected: int, tasks: int
) -> Iterator[list[RangeRef]]:
    """The ranges in stretches of about equal size: `tasks` stretches if they are large enough.  If
    possible, a stretch ends at a key that may also be an end by the new parameters."""
    total = sum(ref.size for ref in refs)
    count = min(max(tasks, total // _BYTES_WANTED), max(1, expected // _JOINED_MAX))
    splitter, step = Splitter(breaks), total / max(1, count)
    held: list[RangeRef] = []
    size = 0
    for ref in refs:
        held.append(ref)
        size += ref.size
        if size >= 1.5 * step or (size >= step and splitter.is_hash_break(ref.max_key)):
            yield held
            held, size = [], 0
    if held:
        yield held


def _repacking(place: Place) -> Task:
    """The function for `mapInArrow`: it takes stretches and returns the rows of their parts."""

    def written(row: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        refs, space = list(map(ref_of, row["ranges"])), opened(place).space
        assembler = Assembler(space)
        for ref in refs:
            for columns in range_columns(space, ref):
                assembler.add_columns(columns)
        count = sum(ref.count for ref in refs)
        yield rows_of(Part(row["bucket"], assembler.finish(), count, {}, ()))

    return each_row(written)
