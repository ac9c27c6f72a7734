"""Changes of rows: the files that hold them are read, written anew without them, and replaced.

    where, keys ──► files that may hold such rows ──tasks──► those that do ──tasks──► new files
    compaction: small files of a folder ──one task a new file──► a file of the wanted size
A landing guards the files that it read, so no row of others is lost and none that was removed comes
back: if one has changed, the work begins again (`landing.py`).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from graveler.arrow.conditions import Condition, parse_conditions
from graveler.core.errors import Invalid, NotFound
from graveler.lake.folders import File, layout, value_of
from graveler.spark.formats import Stretch, format_of
from graveler.spark.lake import Lake, Pin, Target
from graveler.spark.landing import Base, Landed, Patch, StoredFile, land_patch, prefixes_of
from graveler.spark.places import opened
from graveler.spark.reads import Split, column_of, listed, reading_tasks, with_buckets
from graveler.spark.store import STORED, Storing, copied
from graveler.spark.table_schema import Definition
from graveler.spark.table_state import TableState, state_at
from graveler.spark.tasks import each_row, in_tasks
from graveler.spark.writes import (
    Writing,
    check_columns,
    guard_of,
    in_partitions,
    joined,
    ordered,
    schema_file,
    stored_folders,
    stored_rows,
    verb,
)

MEBIBYTE: Final = 1 << 20
_FILES: Final = "file int, address string, size bigint, partition array<string>"
_BINS: Final = "partition array<string>, files array<struct<address:string,size:bigint>>"
_FILE: Final = "_graveler_file"  # the column that says from which file a row comes
_FULL: Final = 0.75  # of the target: such files stay as they are
_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], Column]]] = {
    **{"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
}
Where: TypeAlias = str | Column | Sequence[Any]


class _Found(NamedTuple):
    """A table at the base of a landing: what it is, its data files with the values in their paths,
    and all paths in its folder, relative to it."""

    state: TableState
    definition: Definition
    files: Sequence[File]
    paths: Sequence[str]
    pin: Pin

    def relative(self, files: Iterable[File]) -> list[str]:
        """The paths of files, relative to the table's folder."""
        return [file.path[len(self.pin.prefix) :] for file in files]

    def prefixes(self, files: Sequence[File]) -> list[str]:
        """Prefixes of these files and of nothing else."""
        gone = self.relative(files)
        return prefixes_of(gone, sorted(set(self.paths) - set(gone)))


def _found(lake: Lake, base: Base, format: str, state: TableState | None = None) -> _Found:
    """The table at the base; `state`: of it, if it is known.  Raises `NotFound` if there is none,
    `Invalid` if its files cannot be written anew."""
    found = _at(lake, base.pin, format, state)
    check_typed(found.definition, base.pin.prefix)
    return found


def check_typed(definition: Definition, prefix: str) -> None:
    """Raise `Invalid` if the types of the columns are only guessed."""
    if not (definition.is_stored or format_of(definition.format).is_typed):
        raise Invalid(
            "the folder has text without a schema, so its values cannot be written anew as they "
            f"are: overwrite it once, with the types that you want: {prefix=}"
        )


def _at(lake: Lake, pin: Pin, format: str, state: TableState | None = None) -> _Found:
    state = state or state_at(lake, pin, format)
    if state.definition is None:
        raise NotFound(f"no table in this folder: prefix={pin.prefix!r} commit={pin.commit}")
    rows = listed(lake.spark, pin.place, pin.metarange, pin.prefix)
    entries = sorted(File(*row) for row in rows)
    found = layout(entries, pin.prefix)
    names = tuple(found.columns)
    if found.files and names != state.definition.partition_by:
        raise Invalid(
            "the files lie in folders of other columns than the table has: "
            f"folders={list(names)} table={list(state.definition.partition_by)}"
        )
    paths = [file.path[len(pin.prefix) :] for file in entries]
    return _Found(state, state.definition, found.files, paths, pin)


# ---- conditions ----------------------------------------------------------------------------------


def condition(where: Where) -> Column:
    """A condition as Spark's: SQL, a Column, or tuples that all hold.  Raises `Invalid`."""
    if isinstance(where, str):
        if not where.strip():
            raise Invalid("where is empty: to change all rows, use overwrite")
        return F.expr(where)
    if not isinstance(where, list | tuple | set):
        return where
    if not where:
        raise Invalid("where is empty: to change all rows, use overwrite")
    return reduce(and_, map(_holding, parse_conditions(where)))


def _holding(condition: Condition) -> Column:
    column, operator = column_of(condition.column), condition.operator
    if not condition.values:
        return column.isNull() if operator == "is" else column.isNotNull()
    values = list(map(_literal, condition.values))
    if operator not in ("in", "not in"):
        return _COMPARISONS[operator](column, F.lit(values[0]))
    if any(isinstance(each, Column) for each in values):  # `isin` would compare them as texts
        among = reduce(or_, (column == each for each in values))
    else:
        among = column.isin(values)
    return among if operator == "in" else ~among


def _literal(value: Any) -> Any:
    """The value; a time without a zone as text in UTC, because Python would take the zone of this
    machine.  Spark casts the text to the type of the column, perhaps one without a zone."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return F.lit(f"{value.isoformat(sep=' ')}Z")
    return value


def names_in(where: Where, known: Sequence[str]) -> list[str]:
    """Those of the known columns that a condition may use: of SQL and of a Column, all whose names
    occur in its text."""
    if isinstance(where, list | tuple | set):
        by_name = {name.lower(): name for name in known}
        names = dict.fromkeys(each.column for each in parse_conditions(where))
        unknown = [name for name in names if name.lower() not in by_name]
        if unknown:
            raise Invalid(f"unknown columns: {','.join(unknown)} of={','.join(known)}")
        return [by_name[name.lower()] for name in names]
    text = str(where)
    return [name for name in known if re.search(_word(name), text, re.IGNORECASE)]


def _word(name: str) -> str:
    spelled = re.escape(name.replace("`", "``"))
    return rf"(?<!\w){spelled}(?!\w)"


def _in_folders(lake: Lake, found: _Found, where: Where) -> list[File] | None:
    """The files of the partitions for which a condition holds; None if it uses other columns than
    those of the partitions."""
    by = found.definition.partition_by
    used = names_in(where, found.definition.struct.names)
    if not by or not used or not set(used) <= set(by):
        return None
    return _of_partitions(lake, found, condition(where))


def _of_partitions(lake: Lake, found: _Found, holds: Column) -> list[File]:
    """The files of the partitions for which a condition on their values holds; a small job."""
    kinds = [field.type for field in to_arrow_schema(found.definition.folders)]
    values = sorted({file.values for file in found.files}, key=repr)
    if not values:
        return []
    rows = [
        (at, *(value_of(text, kind) for text, kind in zip(each, kinds, strict=True)))
        for at, each in enumerate(values)
    ]
    schema = T.StructType([T.StructField(_FILE, T.IntegerType()), *found.definition.folders])
    frame = lake.spark.createDataFrame(rows, schema).where(holds).select(_FILE)
    kept = {values[row[0]] for row in frame.collect()}
    return [file for file in found.files if file.values in kept]


# ---- rows of known files -------------------------------------------------------------------------


class _Scan(NamedTuple):
    """The instructions of a scan of whole files; they hold no secret."""

    place: Any
    format: str
    data: pa.Schema
    folders: pa.Schema


def scanned(
    lake: Lake, pin: Pin, definition: Definition, files: Sequence[File], columns: Sequence[str] = ()
) -> DataFrame:
    """The rows of these files, with the number of the file in the column `_FILE`.  `columns`: only
    these of the table."""
    names = [each for each in definition.struct.names if not columns or each in columns]
    every = to_arrow_schema(definition.struct)
    chosen = [every.field(name) for name in names]
    by = definition.partition_by
    place = with_buckets(pin.place, files)
    scan = _Scan(
        place,
        definition.format,
        pa.schema([field for field in chosen if field.name not in by]),
        pa.schema([every.field(name) for name in by]),
    )
    fields = [T.StructField(_FILE, T.IntegerType()), *(definition.struct[name] for name in names)]
    rows = [
        {"file": at, "address": file.address, "size": file.size, "partition": list(file.values)}
        for at, file in enumerate(files)
    ]
    run = each_row(lambda row: _scan(scan, names, row))
    splits = [Split(file.address, file.size, 0, max(1, file.size), []) for file in files]
    tasks = reading_tasks(lake.spark, splits)
    return in_tasks(lake.spark, rows, _FILES, run, T.StructType(fields), tasks)


def _scan(scan: _Scan, names: Sequence[str], row: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    constants = {
        field.name: pa.scalar(value_of(text, field.type), field.type)
        for field, text in zip(scan.folders, row["partition"], strict=True)
    }
    stretch = Stretch(row["address"], row["size"], 0, max(1, row["size"]))
    for batch in format_of(scan.format).rows(opened(scan.place).blocks, stretch, scan.data):
        count = batch.num_rows
        arrays = [pa.repeat(pa.scalar(row["file"], pa.int32()), count)]
        arrays += [
            pa.repeat(constants[name], count) if name in constants else batch.column(name)
            for name in names
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=[_FILE, *names])


class Side(NamedTuple):
    """The rows of one side of a comparison that lie in files which the other side does not have."""

    definition: Definition
    frame: DataFrame


def changed_files(lake: Lake, left: Pin, right: Pin, format: str) -> tuple[Side, Side]:
    """The rows of both sides in files that only one side has, or that differ."""
    found = [_at(lake, pin, format) for pin in (left, right)]
    known = [{(each.path, each.address, each.size) for each in side.files} for side in found]
    sides = []
    for side, others in zip(found, reversed(known), strict=True):
        files = [file for file in side.files if (file.path, file.address, file.size) not in others]
        frame = scanned(lake, side.pin, side.definition, files).drop(_FILE)
        sides.append(Side(side.definition, frame))
    return sides[0], sides[1]


# ---- verbs ---------------------------------------------------------------------------------------


def delete(lake: Lake, where: Target, rows: Where, how: Writing) -> Landed:
    """See `Table.delete`."""
    condition(rows)  # raises before a job begins

    def make(base: Base) -> Patch | None:
        found = _found(lake, base, how.format)
        whole = _in_folders(lake, found, rows)
        gone, files, count = _without(lake, found, rows, whole, how)
        if not gone:
            return None
        return Patch(
            files, found.prefixes(gone), [*found.prefixes(gone), guard_of(found.state)], count
        )

    return land_patch(lake, where, verb(how, "delete"), how.terms, make)


def overwrite_where(lake: Lake, where: Target, df: DataFrame, rows: Where, how: Writing) -> Landed:
    """See `Table.overwrite`."""
    check_columns(df)
    holds = condition(rows)
    with _kept(df):
        others = df.where(~F.coalesce(holds, F.lit(False))).limit(1).collect()
        if others:
            raise Invalid(
                "a row does not meet the condition, so the next overwrite with it would not "
                f"replace the row: {others[0]!r:.300}"
            )
        return _overwritten(lake, where, df, rows, how)


@contextmanager
def _kept(df: DataFrame) -> Iterator[None]:
    """Let Spark compute the rows once.  A cache of the caller stays."""
    level = df.storageLevel
    if level.useMemory or level.useDisk:
        yield
        return
    df.persist()
    try:
        yield
    finally:
        df.unpersist()


def _overwritten(lake: Lake, where: Target, df: DataFrame, rows: Where, how: Writing) -> Landed:
    def make(base: Base) -> Patch:
        state = state_at(lake, base.pin, how.format)
        if state.definition is None:  # nothing to replace: the rows make the table
            definition = joined(state, df, how)
            added = stored_rows(df, base.pin.place, definition, how.rows_max, is_empty=False)
            return Patch([*added, *schema_file(base, state, definition, added)], guard=[""])
        found = _found(lake, base, how.format, state)
        definition = joined(state, df, how)
        whole = _in_folders(lake, found, rows)
        gone, kept, _ = _without(lake, found, rows, whole, how, counts=False)
        added = stored_rows(df, base.pin.place, definition, how.rows_max, is_empty=False)
        more = schema_file(base, found.state, definition, added)
        guard = [*found.prefixes(gone), guard_of(found.state)]
        count = sum(file.rows for file in added)
        return Patch([*kept, *added, *more], found.prefixes(gone), guard, count)

    return land_patch(lake, where, verb(how, "overwrite where"), how.terms, make)


def _without(
    lake: Lake,
    found: _Found,
    rows: Where,
    whole: list[File] | None,
    how: Writing,
    counts: bool = True,
) -> tuple[list[File], list[StoredFile], int]:
    """The files that hold rows for which the condition holds, files with the other rows of these,
    and how many rows go."""
    holding = F.coalesce(condition(rows), F.lit(False))
    definition, pin = found.definition, found.pin
    if whole is not None:
        count = 0
        if counts and whole:
            count = scanned(lake, pin, definition, whole, definition.data.names[:1]).count()
        return whole, [], count
    if not found.files:
        return [], [], 0
    used = names_in(rows, definition.struct.names)
    frame = scanned(lake, pin, definition, found.files, used)
    counted = frame.where(holding).groupBy(_FILE).count().collect()
    numbers = {row[0]: row[1] for row in counted}
    gone = [file for at, file in enumerate(found.files) if at in numbers]
    if not gone:
        return [], [], 0
    rest = scanned(lake, pin, definition, gone).where(~holding).drop(_FILE)
    files = stored_rows(rest, pin.place, definition, how.rows_max, is_empty=False)
    return gone, files, sum(numbers.values())


def upsert(lake: Lake, where: Target, df: DataFrame, on: Sequence[str], how: Writing) -> Landed:
    """See `Table.upsert`."""
    check_columns(df)
    missing = [name for name in on if name not in df.columns]
    if not on or missing:
        raise Invalid(
            f"on= must name the columns of the key: on={list(on)} missing={missing} of={df.columns}"
        )
    with _kept(df):
        counts = df.groupBy(*map(column_of, on)).count()
        total, most = counts.agg(F.sum("count"), F.max("count")).collect()[0]
        if (most or 0) > 1:
            twice = counts.where("count > 1").limit(1).collect()[0]
            raise Invalid(f"the rows have a key twice: {twice!r:.300}")
        return _upserted(lake, where, df, on, how, int(total or 0))


def _upserted(
    lake: Lake, where: Target, df: DataFrame, on: Sequence[str], how: Writing, total: int
) -> Landed:
    def make(base: Base) -> Patch | None:
        if not total:
            return None
        state = state_at(lake, base.pin, how.format)
        definition = joined(state, df, how)
        gone: list[File] = []
        kept: list[StoredFile] = []
        guard = [""]
        if state.definition is not None:
            found = _found(lake, base, how.format, state)
            candidates, guard = _candidates(lake, found, df, on)
            gone, kept = _replaced(lake, found, candidates, df, on, how)
        added = stored_rows(df, base.pin.place, definition, how.rows_max, is_empty=False)
        more = schema_file(base, state, definition, added)
        replaced = found.prefixes(gone) if gone else []
        return Patch([*kept, *added, *more], replaced, [guard_of(state), *guard], total)

    return land_patch(lake, where, verb(how, f"upsert on {','.join(on)}"), how.terms, make)


def _candidates(
    lake: Lake, found: _Found, df: DataFrame, on: Sequence[str]
) -> tuple[Sequence[File], list[str]]:
    """The files that may hold keys of the rows, and the prefixes in which others must not write:
    the partitions of the rows if the key has the partition columns, else the table."""
    by = found.definition.partition_by
    if not by or not set(by) <= set(on):
        return found.files, [""]
    spelled = stored_folders(df, found.definition)
    folders = {row[0] for row in spelled.distinct().collect()}
    files = in_partitions(found.definition, folders, found.files)
    folders |= {path.rpartition("/")[0] + "/" for path in found.relative(files)}
    return files, sorted(folders)


def _replaced(
    lake: Lake,
    found: _Found,
    candidates: Sequence[File],
    df: DataFrame,
    on: Sequence[str],
    how: Writing,
) -> tuple[list[File], list[StoredFile]]:
    """Those of the files that hold keys of the rows, and files with their other rows."""
    if not candidates:
        return [], []
    definition, pin = found.definition, found.pin
    keys = df.select(*(column_of(name).alias(f"_key_{at}") for at, name in enumerate(on)))

    def matching() -> Column:
        same = [column_of(name).eqNullSafe(F.col(f"_key_{at}")) for at, name in enumerate(on)]
        whole = same[0]
        for each in same[1:]:
            whole = whole & each
        return whole

    frame = scanned(lake, pin, definition, candidates, on)
    hits = frame.join(keys, matching(), "left_semi").select(_FILE).distinct().collect()
    numbers = {row[0] for row in hits}
    gone = [file for at, file in enumerate(candidates) if at in numbers]
    if not gone:
        return [], []
    rest = scanned(lake, pin, definition, gone)
    rest = rest.join(keys, matching(), "left_anti").drop(_FILE)
    return gone, stored_rows(rest, pin.place, definition, how.rows_max, is_empty=False)


# ---- compaction ----------------------------------------------------------------------------------


def compact(
    lake: Lake, where: Target, target_bytes: int, rows: Where | None, how: Writing
) -> Landed:
    """See `Table.compact`."""
    if target_bytes < MEBIBYTE:
        raise Invalid(f"target_mb must be at least 1: bytes={target_bytes}")

    def make(base: Base) -> Patch | None:
        found = _found(lake, base, how.format)
        files: Sequence[File] = found.files
        if rows is not None:
            chosen = _in_folders(lake, found, rows)
            if chosen is None:
                raise Invalid(
                    "a compaction takes whole partitions: where= may name partition columns only: "
                    f"of={','.join(found.definition.partition_by) or 'none'}"
                )
            files = chosen
        bins = bins_of(files, target_bytes)
        if not bins:
            return None
        gone = [file for each in bins for file in each]
        return Patch(
            _copied(lake, found, bins, target_bytes),
            found.prefixes(gone),
            [*found.prefixes(gone), guard_of(found.state)],
        )

    return land_patch(lake, where, verb(how, "compact"), how.terms, make)


def bins_of(files: Sequence[File], target_bytes: int) -> list[list[File]]:
    """The files of each partition that are far from full, in groups that make one file each.  A
    file alone stays."""
    folders: dict[tuple[str | None, ...], list[File]] = {}
    for file in files:
        if file.size < _FULL * target_bytes:
            folders.setdefault(file.values, []).append(file)
    bins: list[list[File]] = []
    for small in folders.values():
        held: list[File] = []
        size = 0
        for file in sorted(small, key=lambda each: each.size, reverse=True):
            if held and size + file.size > target_bytes:
                bins.append(held)
                held, size = [], 0
            held.append(file)
            size += file.size
        bins.append(held)
    return [each for each in bins if len(each) > 1]


def _copied(
    lake: Lake, found: _Found, bins: Sequence[Sequence[File]], target_bytes: int
) -> list[StoredFile]:
    """One task copies the rows of a group into a file; no row passes the JVM."""
    definition = found.definition
    place = with_buckets(found.pin.place, [file for each in bins for file in each])
    order = ordered(found.pin.place, definition, definition.struct.names, 1 << 62)
    order = replace(order, bytes_max=2 * target_bytes)
    rows = [
        {
            "partition": list(each[0].values),
            "files": [{"address": file.address, "size": file.size} for file in each],
        }
        for each in bins
    ]
    run = each_row(lambda row: _copy(place, order, row))
    frame = in_tasks(lake.spark, rows, _BINS, run, STORED, len(rows))
    return [StoredFile(*row) for row in frame.collect()]


def _copy(place: Any, order: Storing, row: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    form, blocks = format_of(order.format), opened(place).blocks
    batches = (
        batch
        for file in row["files"]
        for batch in form.rows(
            blocks, Stretch(file["address"], file["size"], 0, max(1, file["size"])), order.schema
        )
    )
    yield from copied(order, tuple(row["partition"]), batches)
