"""Writing a DataFrame as a table: one commit names all of its files, or nothing lands.

    begin ──► tasks: rows ──► files at fresh addresses ──► one result row a file ──► driver:
              entries of exactly these files ──► ranges ──► finish: one commit
Nothing is renamed and no folder is listed.  No entry names the objects of an attempt that lost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType, TimestampType

from graveler.arrow.scan import meeting
from graveler.committed.reader import scan
from graveler.core.errors import Conflict, Corrupt, Invalid
from graveler.core.ids import MetarangeId, parse_prefix
from graveler.core.records import RangeRef
from graveler.lake import bulk
from graveler.lake.bulk import BulkJob
from graveler.lake.folders import File, Layout, layout
from graveler.spark.bulk_jobs import (
    JobTerms,
    begin_job,
    cancelled_on_error,
    check_nothing_staged,
    heartbeats,
    land,
)
from graveler.spark.formats import check_types, format_of
from graveler.spark.import_columns import Addresses
from graveler.spark.imports import ImportOptions, import_rows
from graveler.spark.lake import Lake, Target, commit_at, parse_names, parse_target, place_of
from graveler.spark.places import Place, opened
from graveler.spark.reads import layout_at, schemas_in_tasks, with_buckets
from graveler.spark.schemas import FileSchema, check_fits, check_folders, united
from graveler.spark.store import STORED, Storing, storing, without_rows

SaveMode = Literal["append", "overwrite", "error", "errorifexists", "ignore"]
_MODES: Final = ("append", "overwrite", "error", "ignore")
_SPARK_NAMES: Final = {"errorifexists": "error", "default": "error"}
_ROWS_MAX: Final = 5_000_000
_EPOCH: Final = "1970-01-01 00:00:00"
_NOT_EMPTY: Final = 'the path is not empty; write with mode "append" or "overwrite"'
_NO_PROGRESS: Final = -1  # heartbeats leave the job's progress as it is


@dataclass(frozen=True, slots=True)
class SaveOptions:
    """How the files and the commit are written.

    `format`: parquet, orc, csv (with a header line) or json (one object a line).  `rows_max`: rows
    in one file; a file also ends at about 256 MiB.  `message`, `metadata`: of the commit.  `id`: a
    name for the job, if it may be run again (`JobTerms`).  One name stands for one write, whatever
    the rows: if the job of that name has landed, nothing is written again.
    """

    format: str = "parquet"
    rows_max: int = _ROWS_MAX
    message: str = "Write a table"
    metadata: Mapping[str, str] = field(default_factory=dict)
    id: str = ""


@dataclass(frozen=True, slots=True)
class Saved:
    """The commit that landed, the number of files that this call stored (0 if the job had landed
    before), and the number of rows in the write."""

    commit: str
    files: int
    rows: int


def write(
    lake: Lake,
    df: DataFrame,
    target: str,
    mode: SaveMode = "error",
    *,
    partition_by: str | Sequence[str] = (),
    merge_schema: bool = False,
    whole_branch: bool = False,
    options: SaveOptions | None = None,
) -> Saved:
    """Write `df` as files below the folder `target`, "repository/branch/prefix", in one commit.

    `mode`:

    - *append*: add the files to the folder.  The format, the partition columns and the types of
      all columns must be those of the table there (CSV has no types, JSON those that its values
      show); columns that the rows lack are null.  What others land meanwhile is checked too;
    - *overwrite*: replace everything in the folder;
    - *error* (or errorifexists): fail if the folder has an entry.  What another writer commits
      there meanwhile stays beside the new files;
    - *ignore*: write nothing if the folder has an entry; the answer has the commit of the branch.

    `partition_by`: columns whose values stand in the paths and not in the files (`folders.py`).
    `merge_schema`: add the columns that the table does not have.  `whole_branch`: let an overwrite
    without a folder replace everything on the branch.

    Errors: `Invalid` (target, mode, columns; the rows do not fit the table; no rows to append),
    `Unsupported` (the format, or a column type that it cannot hold), `NotFound`, `Refused`;
    `Conflict` (mode error: the folder has an entry; the folder has staged rows; the job was
    cancelled; the job's name belongs to another folder, mode, format or verb); the errors of the
    Spark job; `OutcomeUnknown` if the answer to the landing was lost.  After any error but
    `OutcomeUnknown`, no commit names any of the files, with one exception: two appends that do not
    fit each other and land at the same moment.  The later one raises `Conflict` and names its
    commit.

    Cost: an append first reads the schemas of the table's files (`read`), and before it lands those
    of files that others have landed; then one put for each file; the driver holds a row for each
    file; then the cost of an import of these rows.
    """
    chosen, names = options or SaveOptions(), parse_names(partition_by)
    fields, folders = _data_columns(df, names), StructType([df.schema[name] for name in names])
    how = _How(_mode(mode), fields, folders, merge_schema, chosen)
    _check_request(how, where := parse_target(target), whole_branch)
    verb = f"write {chosen.format}, {how.mode}"
    job = begin_job(lake, where, "replace" if how.mode == "overwrite" else "merge", chosen.id, verb)
    if job.commit:
        return Saved(job.commit, 0, job.progress)
    work = _Work(lake, where, job, place_of(lake, job.storage_namespace, job.breaks), how)
    with cancelled_on_error(lake.session, where.repository, job, is_named=bool(chosen.id)):
        return _landed(work, df)


class _How(NamedTuple):
    """How to write.  `fields`: the columns of the files; `folders`: the partition columns;
    `merges`: new columns may join the table."""

    mode: SaveMode
    fields: StructType
    folders: StructType
    merges: bool
    options: SaveOptions


class _Work(NamedTuple):
    """A write that has begun."""

    lake: Lake
    where: Target
    job: BulkJob
    place: Place
    how: _How

    @property
    def base(self) -> MetarangeId:
        """The entries before the write."""
        return MetarangeId(self.job.base_metarange)


def _check_request(how: _How, where: Target, whole_branch: bool) -> None:
    check_types(format_of(how.options.format), to_arrow_schema(how.fields))
    if how.options.rows_max < 1:
        raise Invalid(f"rows_max must be at least 1: rows_max={how.options.rows_max}")
    if how.mode == "overwrite" and not where.prefix and not whole_branch:
        raise Invalid(
            "an overwrite without a folder replaces everything on the branch: name a folder, or "
            f"pass whole_branch=True: branch={where.branch}"
        )


def _landed(work: _Work, df: DataFrame) -> Saved:
    lake, where, job, _, how = work
    with heartbeats(lake.session, where.repository, job, lambda: _NO_PROGRESS):
        check_nothing_staged(lake, where, job)
        path = b"" if how.mode in ("append", "overwrite") else _first_path(work)
        if path and how.mode == "ignore":
            bulk.cancel(lake.session, where.repository, job)
            return Saved(job.base_commit, 0, 0)
        if path:
            raise Conflict(f"{_NOT_EMPTY}: {path=!r:.200}")
        is_append, table = how.mode == "append", _Table()
        if is_append:
            table = _fitting(work, job.base_commit, table)
        files = _stored(df, work)
        metarange = _linked(work, files)
        if is_append and job.state == "running":  # no earlier run of the job has landed
            table = _fitting(work, where.branch, table, files)
    rows = sum(row[-1] for row in files)
    terms = JobTerms(how.options.message, how.options.metadata)
    commit = land(lake, where, job, (metarange, rows), terms)
    if is_append:
        _check_landed(work, commit, table, files)
    return Saved(commit, len(files), rows)


def _data_columns(df: DataFrame, partition_by: Sequence[str]) -> StructType:
    """The columns of the files.  Raises `Invalid`."""
    names = df.columns
    unknown = [name for name in partition_by if name not in names]
    if unknown or len(set(partition_by)) != len(partition_by):
        raise Invalid(
            "partition_by has an unknown or repeated column: "
            f"partition_by={list(partition_by)} of={names}"
        )
    if len(set(names)) != len(names):
        raise Invalid(f"columns must have different names: {names}")
    fields = [each for each in df.schema.fields if each.name not in partition_by]
    if not fields:
        raise Invalid("no column is left for the files: partition by fewer columns")
    return StructType(fields)


def _mode(mode: str) -> SaveMode:
    """The mode as this module calls it; Spark's spellings count.  Raises `Invalid`."""
    plain = str(mode).lower()
    for each in _MODES:
        if _SPARK_NAMES.get(plain, plain) == each:
            return each
    raise Invalid(f"mode must be one of {','.join(_MODES)}: {mode=}")


def _first_path(work: _Work) -> bytes:
    """The first path in the folder; empty if there is none."""
    prefix = parse_prefix(work.where.prefix)
    entries = scan(opened(work.place).space, work.base, prefix=prefix)
    return next((key for key, _ in entries), b"")


class _Table(NamedTuple):
    """A table at a commit: the ranges that hold its files, the files, and their different
    schemas."""

    commit: str = ""
    ranges: Sequence[RangeRef] = ()
    layout: Layout = Layout({}, ())
    schemas: Sequence[FileSchema] = ()


def _fitting(work: _Work, ref: str, seen: _Table, files: Sequence[tuple[Any, ...]] = ()) -> _Table:
    """The table at a ref.  Raises `Invalid` if readers could not read its files and the new ones as
    one table.  `seen`: the table at an earlier commit; `files`: the new files, once stored."""
    how, form = work.how, format_of(work.how.options.format)
    table = _table(work, ref, seen)
    if not table.layout.files:
        return table
    if list(table.layout.columns) != how.folders.names:
        raise Invalid(
            "the table has other partition columns: write with "
            f"partition_by={list(table.layout.columns)}: partition_by={how.folders.names}"
        )
    try:
        stored = united(table.schemas, form)
    except Corrupt as error:
        raise Invalid(
            "the table has a file of another format; append with the format of the table, or "
            f"write to another folder: format={form.name}: {error}"
        ) from error
    clash = [name for name in stored.names if name in how.folders.names]
    if clash:
        raise Invalid(f"the table's files hold a partition column: {','.join(clash)}")
    check_fits(stored, how.fields, form, how.merges)
    added = layout([File(row[0], "", 0) for row in files], "").files
    check_folders(table.layout, how.folders, added)
    return table


def _table(work: _Work, ref: str, seen: _Table) -> _Table:
    """Cost: one metarange if the folder has not changed; the schemas of new files alone if no file
    has gone."""
    spark, prefix = work.lake.spark, parse_prefix(work.where.prefix)
    commit = commit_at(work.lake, work.where.repository, ref)
    metarange = MetarangeId(commit["meta_range_id"])
    ranges = meeting(opened(work.place).space.metarange(metarange).ranges, prefix)
    if ranges == seen.ranges:
        return seen._replace(commit=commit["id"])
    known = layout_at(spark, work.place, metarange, work.where.prefix)
    addresses = {file.address for file in seen.layout.files}
    schemas = list(seen.schemas)
    if not addresses <= {file.address for file in known.files}:
        addresses, schemas = set(), []
    if others := [file for file in known.files if file.address not in addresses]:
        place, form = with_buckets(work.place, others), format_of(work.how.options.format)
        schemas += schemas_in_tasks(spark, place, form, others)
    return _Table(commit["id"], ranges, known, schemas)


def _check_landed(work: _Work, commit: str, seen: _Table, files: Sequence[Any]) -> None:
    """Raise `Conflict` if others landed between the last check and the landing, and readers cannot
    read their files and the new ones as one table."""
    (parent,) = commit_at(work.lake, work.where.repository, commit)["parents"]
    try:
        if parent != seen.commit:
            _fitting(work, parent, seen, files)
    except Invalid as error:
        raise Conflict(
            "the rows landed, but another write landed at the same moment and the two do not fit: "
            f"revert it: {commit=}: {error}"
        ) from error


def _stored(df: DataFrame, work: _Work) -> list[tuple[Any, ...]]:
    """Run the tasks, and return a row for each file of the attempts that count.  Without rows,
    store a file of the columns; but partitions cannot be appended to without rows (`Invalid`)."""
    how, options = work.how, work.how.options
    schema, names = to_arrow_schema(how.fields), tuple(how.folders.names)
    order = Storing(work.place, schema, names, options.rows_max, options.format)
    # `mapInArrow` fails on some column names, so the columns are numbered.
    data = [_column(name).alias(f"data_{at}") for at, name in enumerate(order.schema.names)]
    folders = [f"folder_{at}" for at in range(len(order.folders))]
    for name, alias in zip(order.folders, folders, strict=True):
        data.append(_spelled(df, name).alias(alias))
    rows = df.select(*data)
    if folders:
        rows = rows.sortWithinPartitions(*folders)
    files = [tuple(row) for row in rows.mapInArrow(storing(order), STORED).collect()]
    if not files and how.mode == "append" and names:
        raise Invalid("there are no rows: nothing to append")
    return files or [tuple(row.values()) for row in without_rows(order).to_pylist()]


def _spelled(df: DataFrame, name: str) -> Column:
    """The text of a value in a folder's name; a time is in UTC, whatever the session's time zone
    is."""
    column = _column(name)
    if isinstance(df.schema[name].dataType, TimestampType):
        seconds = F.unix_micros(column).cast("decimal(20,0)") / F.lit(1_000_000)
        zero = F.lit(0)
        since = F.make_dt_interval(zero, zero, zero, seconds.cast("decimal(18,6)"))
        return (F.lit(_EPOCH).cast("timestamp_ntz") + since).cast("string")
    return column.cast("string")


def _column(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


def _linked(work: _Work, files: Sequence[tuple[Any, ...]]) -> MetarangeId:
    """The metarange with an entry for each of these files and no other new entry."""
    spark = work.lake.spark
    rows = spark.createDataFrame([row[:-1] for row in files], STORED.rpartition(",")[0])
    options = ImportOptions(prefix=work.where.prefix, addresses=Addresses.RELATIVE)
    if work.job.mode == "merge":
        options = replace(options, base=work.base)
    return import_rows(rows, work.place, options).metarange
