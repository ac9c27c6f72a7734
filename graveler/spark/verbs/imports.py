"""Import of a DataFrame: rows that name objects become ranges, which tasks write in parallel.

    rows ──first pass──► break keys, count, content of the paths ──► cuts
    rows ──second pass──► one task a bucket: ranges in the object store ──► result rows
    result rows ──driver──► other rows, or refused ones? ── else joined ──► one metarange

The ranges and the metarange are those that a single writer of the sorted rows makes.

Every value that is stored is of the second pass.  The first decides by the paths alone, so both
must have the same paths.  If results of an earlier attempt may be taken up, all columns must be the
same, because those results hold values of that attempt.

Readers see no change: a metarange that no commit names is garbage.  `land.py` then lands the
metarange.  For this package.
"""

from dataclasses import dataclass
from functools import reduce
from typing import Final, Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from graveler.errors import Conflict, Invalid
from graveler.ids import NO_METARANGE, MetarangeId, parse_prefix
from graveler.records import ABSENT, Absent, RangeRef
from graveler.spark.cluster.checkpoints import JobCheckpoints, fingerprint, finished
from graveler.spark.cluster.parallel import parallel_tasks
from graveler.spark.cluster.places import Place, opened
from graveler.spark.cluster.results import (
    BAD,
    NO_CONTENT,
    SAMPLES_MAX,
    SCHEMA,
    BadRows,
    Content,
    Part,
    RejectedRow,
    Report,
    parts_of,
    report_of,
)
from graveler.spark.core import cuts
from graveler.spark.core.check import NO_PATH, Addresses
from graveler.spark.core.columns import canonical
from graveler.spark.core.join import ROUNDS, Rounds, by_tasks, joined_over, sewing
from graveler.spark.core.tasks import TaskOrder, importing

OnBad = Literal["fail", "skip"]
_SAMPLES_EACH: Final = 10  # at least, from each task
_NO_BUCKET: Final = -1


@dataclass(frozen=True, slots=True)
class StoredImport:
    """What an import stored: a metarange, its ranges in key order, how many rows became entries,
    and a report of the rows that did not."""

    metarange: MetarangeId
    ranges: tuple[RangeRef, ...]
    count: int
    report: Report


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """`base`: the metarange onto which the rows are put; if the base has a path, the row replaces
    its entry.  Without a base the result has the rows only.  `tasks`: the least number of buckets,
    if there are enough break keys (0: Spark's number of partitions after a shuffle).  `job`: the
    name under which tasks leave checkpoints (`checkpoints.py`); `birth`: when the job began, in
    seconds.  `taken_up`: reuse the checkpoints that exist, if they are of the same input.
    `spare_rows`: see `cuts.survey`; `rounds`: how seams are tried (`join.py`)."""

    prefix: str = ""
    base: MetarangeId = NO_METARANGE
    addresses: Addresses = Addresses.FULL
    on_bad: OnBad = "fail"
    tasks: int = 0
    job: str = ""
    taken_up: bool = False
    birth: int = 0
    spare_rows: int = cuts.SPARE_ROWS
    rounds: Rounds = ROUNDS


def import_rows(df: DataFrame, place: Place, options: ImportOptions | None = None) -> StoredImport:
    """Store the rows of `df` as ranges and a metarange; `columns.py` lists the columns.

    Errors: `Invalid` (columns, prefix); `BadRows` with a report, unless `on_bad` is "skip";
    `Conflict` if the second pass over the input gave other rows than the first; those of the object
    store.  Cost: Spark evaluates `df` twice; one put for each range and one for the metarange.
    """
    chosen = options or ImportOptions()
    if chosen.on_bad not in ("fail", "skip"):
        raise Invalid(f'on_bad must be "fail" or "skip": on_bad={chosen.on_bad!r}')
    rows = canonical(df, parse_prefix(chosen.prefix))
    hashed = cuts.ROW if chosen.taken_up else cuts.PATH
    survey = cuts.survey(rows, place.breaks, hashed=hashed, spare_rows=chosen.spare_rows)
    at = cuts.chosen(survey, place.breaks, chosen.tasks or parallel_tasks(df.sparkSession))
    samples = max(_SAMPLES_EACH, SAMPLES_MAX // (len(at) + 1))
    checkpoints = _checkpoints(place, chosen, survey, at)
    done: dict[int, Part] = {}
    if checkpoints is not ABSENT and chosen.taken_up:
        done = finished(opened(place).blocks, checkpoints)
    order = TaskOrder(place, chosen.addresses, at, samples, chosen.base, checkpoints)
    nameless = _nameless(rows, survey.nameless, samples)
    if nameless:  # they have no place among the keys and would all go to one task
        rows = rows.where(F.col("path").isNotNull())
    spread = cuts.spread(cuts.with_ends(rows, place.breaks), at, done)
    rest = cuts.with_hashes(spread, hashed).mapInArrow(importing(order), SCHEMA)
    parts = sorted([*nameless, *done.values(), *parts_of(rest.collect())])
    report = report_of(parts)
    _check_same(survey, parts, report)
    if not report.is_clean and chosen.on_bad == "fail":
        raise BadRows(report)
    space = opened(place).space
    refs_of = {part.bucket: part.ranges for part in parts if part.ranges}
    sew = by_tasks(df.sparkSession, sewing(place))
    base = space.metarange(chosen.base).ranges
    refs = joined_over(sew, place.breaks, base, at, refs_of, chosen.rounds)
    stored = space.store.write_metarange(space.namespace, refs)
    return StoredImport(stored, refs, survey.count - report.count, report)


def _nameless(rows: DataFrame, count: int, samples: int) -> list[Part]:
    """The part that reports the rows without a path; an empty list if there are none."""
    if not count:
        return []
    seen = rows.where(F.col("path").isNull()).select("address").limit(samples).collect()
    rejected = tuple(RejectedRow(BAD, NO_PATH, "", row["address"] or "") for row in seen)
    return [Part(_NO_BUCKET, (), 0, {(BAD, NO_PATH): count}, rejected)]


def _checkpoints(
    place: Place, options: ImportOptions, survey: cuts.Survey, at: tuple[bytes, ...]
) -> JobCheckpoints | Literal[Absent.ABSENT]:
    if not options.job:
        return ABSENT
    if not options.taken_up:
        return JobCheckpoints(place.namespace, options.job, birth=options.birth)
    inputs = (place, options.base, options.addresses, options.prefix, survey, at)
    return JobCheckpoints(place.namespace, options.job, fingerprint(*inputs), options.birth)


def _check_same(survey: cuts.Survey, parts: list[Part], report: Report) -> None:
    """Each pass evaluates the input anew.  Both must give the same rows, in any order: by the
    columns of which the content is."""
    again = sum(part.taken for part in parts) + report.count
    content = reduce(Content.joined, (part.content for part in parts), NO_CONTENT)
    if (again, content) != (survey.count, survey.content):
        raise Conflict(
            "input changed between two reads; write it to a table first: "
            f"first={survey.count} second={again} same_content={content == survey.content}"
        )
