"""Import: rows that name objects become one commit on a branch, or nothing changes.

    rows ──first pass──► break keys, count, content of the paths ──► cuts
    rows ──second pass──► one task a bucket: ranges ──► joined ──► one metarange ──► one commit
Every stored value is of the second pass, so both must see the same paths.  *replace*: the rows
replace the folder; *merge*: they are put onto it.  `delivered` reads rows of an S3 Inventory.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, Final, Literal

from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from graveler.committed.ranges import EMPTY_METARANGE
from graveler.core.errors import Conflict, GravelerError, Invalid
from graveler.core.ids import NO_METARANGE, MetarangeId, parse_prefix
from graveler.core.records import ABSENT, Absent, BreakParameters, RangeRef
from graveler.engine.repositories.repository import fitted_breaks
from graveler.lake import bulk
from graveler.spark import cuts
from graveler.spark.bulk_jobs import (
    Mode,
    begin_job,
    cancelled_on_error,
    check_nothing_staged,
    heartbeats,
    land,
)
from graveler.spark.import_columns import NO_PATH, Addresses, canonical
from graveler.spark.import_tasks import TaskOrder, importing
from graveler.spark.join import ROUNDS, Rounds, by_tasks, joined_over, sewing
from graveler.spark.lake import Lake, parse_target, place_of
from graveler.spark.landing import Landed, Watch, terms_of
from graveler.spark.places import Place, opened
from graveler.spark.tasks import (
    BAD,
    NO_DIGEST,
    SAMPLES_MAX,
    SCHEMA,
    JobCheckpoints,
    Part,
    RejectedRow,
    Report,
    RowDigest,
    count_checkpoints,
    fingerprint,
    finished_parts,
    parts_of,
    report_of,
    tasks_onto,
)
from graveler.spark.tasks import BadRows as BadRows

OnBad = Literal["fail", "skip"]


_MESSAGE = "Import objects"
_SAMPLES_EACH: Final = 10  # at least, from each task
_NO_BUCKET: Final = -1
MANIFEST: Final = "manifest.json"
_REQUIRED: Final = ("bucket", "key", "size", "lastmodifieddate", "etag")
_ONLY: Final = {"islatest": "true", "isdeletemarker": "false"}
_DATA: Final = "/data/"
_FORMATS: Final = {"csv": "csv", "orc": "orc", "parquet": "parquet"}


def import_(
    lake: Lake,
    df: DataFrame,
    target: str,
    mode: Mode = "replace",
    *,
    on_bad: OnBad = "fail",
    message: str = "",
    metadata: Mapping[str, str] | None = None,
    job: str = "",
) -> Landed:
    """Land the rows of `df` below `target`, "repository/branch/prefix", as one commit.

    The rows name objects that lie elsewhere (path below the prefix, address, size, checksum, mtime,
    optionally metadata and content_type; see `import_columns.py`).  No object is copied.
    `message`, `metadata`: of the commit.  `job`: a name for the work, if it may be run again.  The
    result has the number of rows that became entries, and a report of those that were left out.

    Errors: `Invalid` (target, mode, columns); `BadRows` with a report; `NotFound`; `Refused`;
    `Conflict` (the folder has staged rows; the job was cancelled or has expired; the input changed
    while it was read; the job's name belongs to another prefix, mode or verb); `OutcomeUnknown` if
    the answer to the landing was lost.  After any error but `OutcomeUnknown`, nothing has landed.

    A named job that has landed before is answered with its commit and an empty report.  While the
    job runs, its progress is the number of finished buckets; then the number of rows.
    """
    if mode not in ("replace", "merge"):
        raise Invalid(f'mode must be "replace" or "merge": mode={mode!r}')
    where, terms, watch = parse_target(target), terms_of(_MESSAGE, message, metadata, job), Watch()
    begun = begin_job(lake, where, mode, terms.id, "import")
    if begun.commit:
        return Landed(begun.commit, begun.progress, seconds=watch.seconds)
    place = place_of(lake, begun.storage_namespace, begun.breaks)
    base = MetarangeId(begun.base_metarange) if mode == "merge" else NO_METARANGE
    is_named, birth = bool(terms.id), begun.creation_date
    options = ImportOptions(
        where.prefix,
        base,
        on_bad=on_bad,
        job=begun.id,
        taken_up=is_named,
        birth=birth,
        fitted=begun.base_metarange in ("", EMPTY_METARANGE),
    )
    with cancelled_on_error(lake.session, where.repository, begun, is_named=is_named):
        done = partial(
            count_checkpoints,
            opened(place).blocks,
            JobCheckpoints(place.namespace, begun.id, birth=birth),
        )
        with heartbeats(lake, where, begun, "import", done):
            check_nothing_staged(lake, where, begun)
            written = import_rows(df, place, options)
        commit = land(lake, where, begun, (written.metarange, written.count), terms)
    if (
        written.breaks != begun.breaks
    ):  # else later commits write shorter ranges, which is right too
        with suppress(GravelerError):
            bulk.swap_breaks(lake.session, where.repository, begun.breaks, written.breaks)
    return Landed(commit, written.count, seconds=watch.seconds, report=written.report)


@dataclass(frozen=True, slots=True)
class StoredImport:
    """What an import stored: a metarange, its ranges in key order, how many rows became entries, a
    report of the rows that did not, and the parameters by which the ranges end."""

    metarange: MetarangeId
    ranges: tuple[RangeRef, ...]
    count: int
    report: Report
    breaks: BreakParameters


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """`base`: the metarange onto which the rows are put; if the base has a path, the row replaces
    its entry.  Without a base the result has the rows only.  `tasks`: the number of buckets is
    this or more, if there are enough break keys (0: by their number and the base, `tasks_onto`).
    `job`: the name under which tasks leave checkpoints; `birth`: when the job began, in seconds.
    `taken_up`: reuse the checkpoints that exist, if they are of the same input.
    `fitted`: choose the raggedness by the number of rows (`repository.fitted_breaks`).
    `spare_rows`: see `cuts.survey`; `rounds`: how seams are tried (`join.py`)."""

    prefix: str = ""
    base: MetarangeId = NO_METARANGE
    addresses: Addresses = Addresses.FULL
    on_bad: OnBad = "fail"
    tasks: int = 0
    job: str = ""
    taken_up: bool = False
    birth: int = 0
    fitted: bool = False
    spare_rows: int = cuts.SPARE_ROWS
    rounds: Rounds = ROUNDS


def import_rows(df: DataFrame, place: Place, options: ImportOptions | None = None) -> StoredImport:
    """Store the rows of `df` as ranges and a metarange.  Errors: `Invalid` (columns, prefix);
    `BadRows` with a report, unless `on_bad` is "skip"; `Conflict` if the second pass over the input
    gave other rows than the first; those of the object store."""
    chosen = options or ImportOptions()
    if chosen.on_bad not in ("fail", "skip"):
        raise Invalid(f'on_bad must be "fail" or "skip": on_bad={chosen.on_bad!r}')
    rows = canonical(df, parse_prefix(chosen.prefix))
    hashed = cuts.ROW if chosen.taken_up else cuts.PATH
    survey = cuts.survey(rows, place.breaks, hashed=hashed, spare_rows=chosen.spare_rows)
    if chosen.fitted:
        fitted = fitted_breaks(place.breaks, survey.count)
        survey, place = survey.with_longer_ranges(fitted), replace(place, breaks=fitted)
    space = opened(place).space
    base = space.metarange(chosen.base).ranges
    tasks = chosen.tasks or tasks_onto(df.sparkSession, survey.count, base, place.breaks)
    at = cuts.chosen(survey, place.breaks, tasks)
    samples = max(_SAMPLES_EACH, SAMPLES_MAX // (len(at) + 1))
    checkpoints = _checkpoints(place, chosen, survey, at)
    done: dict[int, Part] = {}
    if checkpoints is not ABSENT and chosen.taken_up:
        done = finished_parts(opened(place).blocks, checkpoints)
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
    refs_of = {part.bucket: part.ranges for part in parts if part.ranges}
    sew = by_tasks(df.sparkSession, sewing(place))
    refs = joined_over(sew, place.breaks, base, at, refs_of, chosen.rounds)
    stored = space.store.write_metarange(space.namespace, refs)
    return StoredImport(stored, refs, survey.count - report.count, report, place.breaks)


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
    """Raise `Conflict` unless both passes, which evaluate the input anew, saw equal rows."""
    again = sum(part.taken for part in parts) + report.count
    content = reduce(RowDigest.joined, (part.content for part in parts), NO_DIGEST)
    if (again, content) != (survey.count, survey.content):
        raise Conflict(
            "input changed between two reads; write it to a table first: "
            f"first={survey.count} second={again} same_content={content == survey.content}"
        )


@dataclass(frozen=True, slots=True)
class Delivery:
    """The content of a manifest: the Spark name of the format, the addresses of the files, and for
    CSV the columns."""

    format: str
    files: tuple[str, ...]
    file_schema: str = ""


def delivery(spark: SparkSession, manifest: str) -> Delivery:
    """The delivery whose `manifest.json` lies at a path that Spark can read.  The files are looked
    for in `data/` beside the manifest's folder, so a copy of the whole structure works too.  Raises
    `Invalid` if the path is not a `manifest.json` (a folder has the files of many deliveries),
    cannot be read, or holds no manifest."""
    folder, slash, name = manifest.rpartition("/")
    if name != MANIFEST or not slash:
        raise Invalid(
            f"name the {MANIFEST} of one delivery of the inventory; a folder has the files of "
            f"many, old ones too: source={manifest!r:.500}"
        )
    try:
        lines = spark.read.text(manifest, wholetext=True).collect()
    except PySparkException as error:
        first = str(error).partition("\n")[0]
        raise Invalid(f"the manifest cannot be read: {first:.500} source={manifest}") from error
    try:
        return _parsed(json.loads(lines[0]["value"]), folder.rpartition("/")[0])
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise Invalid(f"not a manifest of an S3 Inventory: source={manifest!r:.500}") from error


def _parsed(manifest: Any, folder: str) -> Delivery:
    """`folder`: the folder of the inventory's configuration."""
    files = []
    for file in manifest["files"]:
        before, data, rest = file["key"].rpartition(_DATA)
        if not before or not rest:
            raise ValueError(file["key"])
        files.append(folder + data + rest)
    kind = _FORMATS[manifest["fileFormat"].lower()]
    return Delivery(kind, tuple(files), manifest["fileSchema"] if kind == "csv" else "")


def delivered(spark: SparkSession, manifest: str, below: str = "") -> DataFrame:
    """The rows for `import_` of the delivery with this manifest; `below` as in `inventory`.
    Errors: those of `delivery` and `inventory`; `Invalid` if the delivery has no file, one is
    missing, or no key begins with `below`."""
    manifest_files = delivery(spark, manifest)
    if not manifest_files.files:
        raise Invalid(f"the delivery has no files: source={manifest}")
    try:
        rows = spark.read.format(manifest_files.format).load(list(manifest_files.files))
    except PySparkException as error:
        first = str(error).partition("\n")[0]
        raise Invalid(f"the delivery cannot be read: {first:.500} source={manifest}") from error
    below_rows = inventory(rows, below, file_schema=manifest_files.file_schema)
    if below and below_rows.isEmpty():
        raise Invalid(f"no key of the inventory begins with below={below!r}: source={manifest}")
    return below_rows


def inventory(df: DataFrame, below: str = "", *, file_schema: str = "") -> DataFrame:
    """The rows for `import_` from the files of one delivery, which Spark has read as `df`.
    `below`: only keys that begin with it; the paths do not contain it.  `file_schema`: for CSV, the
    `fileSchema` of the manifest ("Bucket, Key, Size, …").  Raises `Invalid` if columns are missing.
    A row without a size or time gets null there, and `import_` reports it as a bad row."""
    columns = file_schema.split(",") if file_schema else df.columns
    names = [name.strip().lower().replace("_", "") for name in columns]
    missing = [name for name in _REQUIRED if name not in names]
    if missing or len(names) != len(df.columns):
        raise Invalid(
            "not an inventory with size, last modified date and ETag (of CSV, give its manifest's "
            f"fileSchema): missing={','.join(missing)} found={','.join(df.columns)}"
        )
    rows = df.toDF(*names)
    for name, value in _ONLY.items():
        if name in names:
            rows = rows.where(F.lower(F.col(name).cast("string")) == value)
    if file_schema:
        rows = rows.withColumn("key", F.expr("url_decode(key)"))
    rows = rows.where(F.col("key").startswith(below)) if below else rows
    return rows.selectExpr(
        f"substring(key, {len(below) + 1}) AS path",
        "concat('s3://', bucket, '/', key) AS address",
        "try_cast(size AS bigint) AS size",
        "cast(etag AS string) AS checksum",
        "try_cast(lastmodifieddate AS timestamp) AS mtime",
    )
