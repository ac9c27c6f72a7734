"""Writing a DataFrame as a table: one commit names all of its files, or nothing lands.

    begin ──► tasks: rows ──► files of the format at fresh addresses ──► one result row a file
                                                                      │ collected: one attempt
                                                                      ▼ of each task
              driver: entries of exactly these files ──► ranges ──► finish: one commit

Each object is written once, at its final address; nothing is renamed and no folder is listed.  No
entry names the objects of an attempt that lost, so garbage collection removes them later.  For
users of the package.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType, TimestampType

from graveler.client import bulk
from graveler.client.bulk import BulkJob
from graveler.committed.reader import scan
from graveler.errors import Conflict, Invalid
from graveler.ids import MetarangeId, parse_prefix
from graveler.spark.cluster.heartbeat import beating, cancelled_on_error
from graveler.spark.cluster.places import Place, opened
from graveler.spark.core.check import Addresses
from graveler.spark.files.formats import check_types, format_of
from graveler.spark.files.store import STORED, Storing, storing, without_rows
from graveler.spark.lake import Lake, Target, parse_target, place_of
from graveler.spark.verbs.imports import ImportOptions, import_rows
from graveler.spark.verbs.land import begun

SaveMode = Literal["append", "overwrite", "error"]
_ROWS_MAX: Final = 5_000_000
_EPOCH: Final = "1970-01-01 00:00:00"
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
    partition_by: Sequence[str] = (),
    options: SaveOptions | None = None,
) -> Saved:
    """Write `df` as files below the folder `target`, "repository/branch/prefix", in one commit.

    `mode`:

    - *append*: add the files to the folder;
    - *overwrite*: replace everything in the folder;
    - *error*: fail if the folder has an entry.  What another writer commits there meanwhile stays
      beside the new files.

    `partition_by`: columns whose values stand in the paths and not in the files (`folders.py`).

    Errors: `Invalid` (target, mode, columns; no rows to append), `Unsupported` (the format, or a
    column type that it cannot hold), `NotFound`, `Refused`; `Conflict` (mode error: the folder has
    an entry; the branch has staged rows; the job was cancelled; the job's name belongs to another
    folder, mode, format or verb); the errors of the Spark job; `OutcomeUnknown` if the answer to
    the landing was lost.  After any error but `OutcomeUnknown`, no commit names any of the files.

    Cost: one put for each file; the driver holds a row for each file; then the cost of an import of
    these rows.
    """
    if mode not in ("append", "overwrite", "error"):
        raise Invalid(f'mode must be "append", "overwrite" or "error": {mode=}')
    chosen = options or SaveOptions()
    form = format_of(chosen.format)
    if chosen.rows_max < 1:
        raise Invalid(f"rows_max must be at least 1: rows_max={chosen.rows_max}")
    data = to_arrow_schema(_data_columns(df, partition_by))
    check_types(form, data)
    where = parse_target(target)
    verb = f"write {form.name}, {mode}"
    job = begun(lake, where, "replace" if mode == "overwrite" else "merge", chosen.id, verb)
    if job.commit:
        return Saved(job.commit, 0, job.progress)
    place = place_of(lake, job.storage_namespace, job.breaks)
    order = Storing(place, data, tuple(partition_by), chosen.rows_max, form.name)
    with cancelled_on_error(lake.session, where.repository, job, is_named=bool(chosen.id)):
        with beating(lake.session, where.repository, job, lambda: _NO_PROGRESS):
            if mode == "error":
                _check_empty(place, job, where)
            files = _stored(df, order)
            if not files and mode != "overwrite":
                raise Invalid("there are no rows: nothing to append")
            metarange = _linked(lake, files, job, where)
        rows = sum(row[-1] for row in files)
        bulk.heartbeat(lake.session, where.repository, job, rows)
        landing = bulk.Landing(metarange, job.id, chosen.message, chosen.metadata)
        commit = bulk.finish(lake.session, where.repository, job, landing)
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


def _check_empty(place: Place, job: BulkJob, where: Target) -> None:
    base, prefix = MetarangeId(job.base_metarange), parse_prefix(where.prefix)
    for key, _ in scan(opened(place).space, base, prefix=prefix):
        raise Conflict(
            f'the path is not empty; write with mode "append" or "overwrite": path={key!r:.200}'
        )


def _stored(df: DataFrame, order: Storing) -> list[tuple[Any, ...]]:
    """Run the tasks, and return a row for each file of the attempts that count."""
    # `mapInArrow` fails on some column names, so the columns are numbered.
    data = [_column(name).alias(f"data_{at}") for at, name in enumerate(order.schema.names)]
    folders = [f"folder_{at}" for at in range(len(order.folders))]
    for name, alias in zip(order.folders, folders, strict=True):
        data.append(_spelled(df, name).alias(alias))
    rows = df.select(*data)
    if folders:
        rows = rows.sortWithinPartitions(*folders)
    files = [tuple(row) for row in rows.mapInArrow(storing(order), STORED).collect()]
    if files or order.folders:
        return files
    return [tuple(row.values()) for row in without_rows(order).to_pylist()]


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


def _linked(
    lake: Lake, files: Sequence[tuple[Any, ...]], job: BulkJob, where: Target
) -> MetarangeId:
    """The metarange with an entry for each of these files and no other new entry."""
    rows = lake.spark.createDataFrame([row[:-1] for row in files], STORED.rpartition(",")[0])
    place = place_of(lake, job.storage_namespace, job.breaks)
    options = ImportOptions(prefix=where.prefix, addresses=Addresses.RELATIVE)
    if job.mode == "merge":
        options = replace(options, base=MetarangeId(job.base_metarange))
    return import_rows(rows, place, options).metarange
