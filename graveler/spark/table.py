"""A table in a folder of a ref: what `branch.table("orders")` returns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, Final, Literal, NoReturn

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from graveler.core.errors import Invalid, NotFound, Unsupported
from graveler.lake import show
from graveler.lake.branch import Branch
from graveler.lake.dataset import is_data
from graveler.lake.errors import Raising
from graveler.lake.ref import Commit, Ref, name_of
from graveler.lake.show import Listing
from graveler.lake.snapshots import Snapshot
from graveler.spark import reads, rewrites, writes
from graveler.spark.bulk_jobs import JobTerms
from graveler.spark.lake import Lake, Pin, Target, parse_names, parse_target, pinned
from graveler.spark.landing import Base, Landed, Patch, land_patch, terms_of
from graveler.spark.reads import column_of
from graveler.spark.rewrites import MEBIBYTE, Where
from graveler.spark.table_schema import Definition, defined, store, stored_at
from graveler.spark.table_state import state_at
from graveler.spark.writes import ROWS_MAX, SaveMode, Writing, guard_of

Metadata = Mapping[str, str] | None
Names = str | Sequence[str]
_RENAME: Final = (
    "a column cannot be renamed: the files hold its values under the old name. Add the new column, "
    "and fill it with an upsert; or overwrite the table with df.withColumnRenamed(old, new)"
)


class Table(Raising):
    """A table: the data files in a folder of a ref, as rows of DataFrames.

    Making one sends no request, and the folder need not exist yet.  Reads see the committed files
    of the ref; the DataFrame stays at the commit that the ref had when it was made.  The verbs that
    write are those of a branch.  Each lands as one commit or not at all, and returns `Landed`.
    They take these keywords:

    - `message`, `metadata`: of the commit;
    - `job`: a name for the work, if it may be run again, as a scheduler does: what has landed under
      this name is not done again within a year, and the answer is its commit;
    - `format` (parquet, orc, csv, json) and `partition_by`: of a new table.  A table keeps them.

    Errors of all of them: `NotFound`, `Refused`, `Invalid`; `Conflict` (the folder has uncommitted
    changes; the job's name belongs to other work; others changed the same files again and again);
    `OutcomeUnknown` if the answer to the landing was lost; those of the Spark job.  After any error
    but `OutcomeUnknown` nothing has landed.
    """

    def __init__(self, lake: Lake, ref: Ref, path: str, format: str = "") -> None:
        self.lake, self.ref, self.format = lake, ref, format
        self.path = path.strip("/")

    @property
    def address(self) -> str:
        """REPOSITORY/REF/FOLDER."""
        return f"{self.ref.address}/{self.path}"

    # ---- reading -----------------------------------------------------------------------------

    def read(
        self,
        at: Ref | str = "",
        columns: Names | None = None,
        where: Where | None = None,
        *,
        schema: T.StructType | str | None = None,
    ) -> DataFrame:
        """The rows at the ref, or `at` another one: a branch, a tag, a commit, `main~2`.

        `columns`: only these, in this order.  `where`: only the rows for which it holds: SQL, a
        Column, or tuples that all hold, as pyarrow has them: [("day", ">=", "2026-11-01")].
        Tuples and simple SQL leave out files by their partition columns, row groups of Parquet by
        their footers, and rows before Spark has them (`reads.read`).  `schema`: instead of the
        table's.
        Errors: `NotFound` if there is no table; `Invalid`; in tasks `Corrupt` or `Unavailable`,
        wrapped by Spark.  Cost: 3 requests to the API; without a stored schema, tasks read those of
        the files."""
        pin = self._pin(at)
        known = stored_at(self.lake, pin)
        wanted = None if columns is None else parse_names(columns)
        struct = schema if schema is not None or known is None else known.struct
        try:
            return _filtered(self.lake, pin, self._format(known), wanted, where, struct)
        except NotFound:
            if known is None:
                raise
            empty = self.lake.spark.createDataFrame([], struct)
            return empty if wanted is None else empty.select(*map(column_of, wanted))

    def count(self, where: Where | None = None, at: Ref | str = "") -> int:
        """The number of rows, of those for which `where` holds.  Of Parquet only the ends of the
        files are read, and the columns that the conditions name.  Errors, other cost: as `read`."""
        if where is not None and not isinstance(where, str | list | tuple | set):
            return int(self.read(at, where=where).count())
        pin = self._pin(at)
        known = stored_at(self.lake, pin)
        struct = None if known is None else known.struct
        given = () if where is None else where
        reading = reads.parse_request(self.lake, self._format(known), None, struct, given)
        try:
            return reads.count_at(self.lake, pin, reading)
        except NotFound:
            if known is None:
                raise
            return 0

    def files(self, at: Ref | str = "") -> Listing[Any]:
        """The data files, as `graveler.Entry`: their paths, sizes and addresses.  A request for
        each 1,000."""
        commit = self._commit(at)
        prefix = self._prefix

        def fetch() -> Iterator[Any]:
            return (each for each in commit.list(prefix) if is_data(each.path[len(prefix) :]))

        names = ("path", "size", "modified")
        return Listing(
            fetch,
            f"files of {commit.repository.name}/{commit.name[:12]}/{self.path}",
            names,
            lambda each: (each.path, show.size(each.size), show.age(each.modified)),
        )

    def history(self, limit: int | None = None) -> Listing[Commit]:
        """The commits that changed the table, newest first."""
        return self.ref.log(limit, path=self._prefix)

    def diff(self, at: Ref | str, on: Names = (), columns: Names | None = None) -> DataFrame:
        """The rows that differ between `at`, the earlier ref, and this one.

        `on`: the columns of a key.  Then a row of the result has `type` (added, removed, changed),
        the key, and of each other column its value before, `left_…`, and after, `right_…`; a key
        must not be twice in the table.  Without `on`: `type` (added, removed) and the columns.
        `columns`: compare only these, and the key.  Only files that differ are read: a table that
        was compacted has no different rows.  Cost: as `read`, twice."""
        left, right = self._pin(at), self._pin("")
        return _difference(self.lake, left, right, parse_names(on), columns, self.format)

    def publish(self, *, name: str = "") -> Snapshot:
        """Publish the table as one of Delta Lake, for engines without Graveler.  See
        `graveler.Ref.publish`."""
        return self.ref.publish(self._prefix, name=name)

    @property
    def schema(self) -> "TableSchema":
        """The columns, the partition columns and the format, as the ref has them.  Raises
        `NotFound` if there is no table.  Cost: 3 requests to the API; without a stored schema,
        tasks read those of the files."""
        pin = self._pin("")
        state = state_at(self.lake, pin, self.format)
        if state.definition is None:
            raise NotFound(f"no table in this folder: {self.address}")
        return TableSchema(self, state.definition)

    def exists(self) -> bool:
        """Whether the ref has data files in the folder.  Two requests."""
        return bool(self.files())

    # ---- writing -----------------------------------------------------------------------------

    def append(
        self,
        df: DataFrame,
        *,
        merge_schema: bool = False,
        message: str = "",
        metadata: Metadata = None,
        job: str = "",
        format: str = "",
        partition_by: Names | None = None,
        rows_max: int = ROWS_MAX,
    ) -> Landed:
        """Add the rows; make the table if there is none.

        The rows must fit the table: their columns are the table's, with types that the table's
        types hold; columns that they lack are null.  Else `Invalid` names the columns.
        `merge_schema`: add the columns that the table does not have.  `rows_max`: in one file,
        which also ends at 256 MiB.  Cost: a Spark job; 4 requests to the API, one more for a job
        with a name; one put for each file, and 2."""
        terms = terms_of(f"Append to {self.path}", message, metadata, job)
        how = self._how(terms, format, partition_by, rows_max, merge_schema)
        return writes.append(self.lake, self._target, df, how)

    def overwrite(
        self,
        df: DataFrame,
        partitions: Literal["", "touched", "dynamic", "static"] = "",
        where: Where | None = None,
        *,
        message: str = "",
        metadata: Metadata = None,
        job: str = "",
        format: str = "",
        partition_by: Names | None = None,
        rows_max: int = ROWS_MAX,
    ) -> Landed:
        """Replace the table by the rows, its schema too; or a part of it.

        `partitions="touched"` (Spark's word is "dynamic"): replace the partitions that the rows
        fall into, also what others append to these meanwhile; the others stay.  Without rows
        nothing changes, and nothing lands: name what is to be empty by `where`.  "touched" is the
        default for a table with partitions while the session of `df` has
        `spark.sql.sources.partitionOverwriteMode=dynamic`; then "static" replaces all.
        `where`: replace the rows for which this holds; each of the new rows must meet it.  On
        partition columns alone, whole partitions go, and no other file is read.  If there is no
        table, the rows make it.
        For parts, the rows must fit the table, as for `append`.  `rows_max`: in one file.  Cost: as
        `append`; with `where` Spark keeps the rows of `df`, which it evaluates once, and if it
        names other columns, that of `delete` too."""
        terms = terms_of(f"Overwrite {self.path}", message, metadata, job)
        how = self._how(terms, format, partition_by, rows_max)
        if partitions not in ("", "touched", "dynamic", "static"):
            raise Invalid(
                f'partitions must be "touched" or "static", or where= names them: {partitions=!r}'
            )
        if partitions and where is not None:
            raise Invalid("give partitions= or where=, not both")
        if where is not None:
            return rewrites.overwrite_where(self.lake, self._target, df, where, how)
        if partitions in ("touched", "dynamic"):
            return writes.overwrite_touched(self.lake, self._target, df, how)
        is_dynamic = not partitions and writes.is_dynamic(df)
        return writes.overwrite(self.lake, self._target, df, how, is_dynamic=is_dynamic)

    def write(
        self,
        df: DataFrame,
        mode: SaveMode = "errorifexists",
        *,
        merge_schema: bool = False,
        message: str = "",
        metadata: Metadata = None,
        job: str = "",
        format: str = "",
        partition_by: Names | None = None,
        rows_max: int = ROWS_MAX,
    ) -> Landed:
        """Write as Spark's `save` does, by a mode: *append*; *overwrite*, as the verb, also under
        the session's `partitionOverwriteMode`; *errorifexists* (or *error*): raise `AlreadyExists`
        if the folder has a file; *ignore*: write nothing then."""
        terms = terms_of(f"Write {self.path}", message, metadata, job)
        how = self._how(terms, format, partition_by, rows_max, merge_schema)
        return writes.write(self.lake, self._target, df, mode, how)

    def upsert(
        self,
        df: DataFrame,
        on: Names,
        *,
        merge_schema: bool = False,
        message: str = "",
        metadata: Metadata = None,
        job: str = "",
        format: str = "",
        partition_by: Names | None = None,
        rows_max: int = ROWS_MAX,
    ) -> Landed:
        """Replace the rows that have the key of one of these rows, and add the others.

        `on`: the columns of the key; null equals null.  No key may be twice in `df`.  If the key
        has the partition columns, only the partitions of the rows are read.  The rest as for
        `append`; `rows` of the result are those of `df`.  Cost: Spark evaluates `df` once and keeps
        it; it reads the key of the files that may hold one, and writes anew those that do."""
        terms = terms_of(f"Upsert into {self.path}", message, metadata, job)
        how = self._how(terms, format, partition_by, rows_max, merge_schema)
        return rewrites.upsert(self.lake, self._target, df, parse_names(on), how)

    def delete(
        self, where: Where, *, message: str = "", metadata: Metadata = None, job: str = ""
    ) -> Landed:
        """Delete the rows for which `where` holds (as in `read`).

        On partition columns alone, whole partitions go.  Else the files that hold such rows are
        written anew without them.  `rows` of the result: how many went; if none, nothing lands.
        The bytes stay in the history, until a collection."""
        how = self._how(terms_of(f"Delete from {self.path}", message, metadata, job))
        return rewrites.delete(self.lake, self._target, where, how)

    def compact(
        self,
        target_mb: int = 256,
        where: Where | None = None,
        *,
        message: str = "",
        metadata: Metadata = None,
        job: str = "",
    ) -> Landed:
        """Join the small files of each partition into files of about `target_mb` MiB; no row
        changes.  `where`: only these partitions.  Files of at least three quarters of the target
        stay as they are.  `rows` of the result are those that moved; if none, nothing lands."""
        how = self._how(terms_of(f"Compact {self.path}", message, metadata, job))
        size = int(target_mb * MEBIBYTE)
        return rewrites.compact(self.lake, self._target, size, where, how)

    # ---- the rest ----------------------------------------------------------------------------

    @property
    def _prefix(self) -> str:
        return f"{self.path}/" if self.path else ""

    @property
    def _target(self) -> Target:
        if not isinstance(self.ref, Branch):
            raise Unsupported(
                f"only a branch can be written: {self.ref.address} is a {self.ref._word}"
            )
        if not self.path:
            raise Invalid(f"name the folder of the table: {self.ref.address}/FOLDER")
        return parse_target(self.address)

    def _how(
        self,
        terms: JobTerms,
        format: str = "",
        partition_by: Names | None = None,
        rows_max: int = ROWS_MAX,
        merges: bool = False,
    ) -> Writing:
        by = None if partition_by is None else parse_names(partition_by)
        return Writing(terms, format or self.format, by, merges, rows_max)

    def _commit(self, at: Ref | str) -> Commit:
        return (self.ref.repository.ref(name_of(at)) if at else self.ref).pin()

    def _pin(self, at: Ref | str) -> Pin:
        name = name_of(at) or self.ref.name
        return pinned(self.lake, f"{self.ref.repository.name}/{name}/{self.path}")

    def _format(self, known: Definition | None) -> str:
        return (known.format if known else "") or self.format or "parquet"

    def __repr__(self) -> str:
        return f"table {show.printable(self.address)}"

    def _repr_html_(self) -> str:
        schema = show.safe(lambda: self.schema, None)
        if schema is None:
            return show.paragraph(repr(self))
        files = show.safe(lambda: self.files().all(), [])
        size = show.size(sum(each.size for each in files))
        return show.rows_html(
            f"{self!r}: {len(files):,} files, {size}", ("column", "type", ""), schema._rows()
        )


class TableSchema(Raising):
    """The columns of a table, as its ref has them.  `struct`: as Spark's `StructType`, partition
    columns last."""

    def __init__(self, table: Table, definition: Definition) -> None:
        self._table, self._definition = table, definition

    @property
    def struct(self) -> T.StructType:
        """As a schema of Spark."""
        return self._definition.struct

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.struct.names)

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The partition columns."""
        return self._definition.partition_by

    @property
    def format(self) -> str:
        """The format of the files."""
        return self._definition.format

    def add(
        self,
        name: str | T.StructField,
        type: T.DataType | str = "",
        *,
        message: str = "",
        metadata: Metadata = None,
        job: str = "",
    ) -> Landed:
        """Add a column, `add("note", "string")` or `add("note string")`, which is null in the rows
        that are there.  Raises `Invalid` if the table has such a column.  No file is written anew;
        no Spark job."""
        table = self._table
        field = _field(table.lake, name, type)
        terms = terms_of(f"Add {field.name} to {table.path}", message, metadata, job)
        how = table._how(terms)

        def make(base: Base) -> Patch:
            state = state_at(table.lake, base.pin, how.format)
            known = state.definition
            if known is None:
                raise NotFound(f"no table in this folder: {table.address}")
            rewrites.check_typed(known, base.pin.prefix)
            if field.name.lower() in (each.lower() for each in known.struct.names):
                raise Invalid(f"the table has this column: {field.name} of={known.struct.names}")
            wider = T.StructType([*known.data.fields, field, *known.folders.fields])
            definition = defined(wider, known.partition_by, known.format)
            return Patch([store(base.pin.place, definition)], guard=[guard_of(state)])

        landed = land_patch(
            table.lake, table._target, f"add column {field.simpleString()}", how.terms, make
        )
        self._definition = table.schema._definition
        return landed

    def rename(self, old: str, new: str) -> NoReturn:
        """Refused: raises `Unsupported` with the reason and with what to do instead."""
        raise Unsupported(f"{_RENAME}: column={old} new={new}")

    def __eq__(self, other: object) -> bool:
        mine = other.struct if isinstance(other, TableSchema) else other
        return bool(self.struct == mine)

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[T.StructField]:
        return iter(self.struct.fields)

    def __len__(self) -> int:
        return len(self.struct.fields)

    def __getitem__(self, name: str) -> T.StructField:
        return self.struct[name]

    def _rows(self) -> list[tuple[str, str, str]]:
        by = self.partition_by
        return [
            (each.name, each.dataType.simpleString(), "partition" if each.name in by else "")
            for each in self.struct
        ]

    def __repr__(self) -> str:
        columns = ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in self.struct)
        by = f" partitioned by {', '.join(self.partition_by)}" if self.partition_by else ""
        return f"{columns} ({self.format}{by})"

    def _repr_html_(self) -> str:
        return show.rows_html(repr(self._table), ("column", "type", ""), self._rows())


def _field(lake: Lake, name: str | T.StructField, type: T.DataType | str) -> T.StructField:
    if isinstance(name, T.StructField):
        return T.StructField(name.name, name.dataType)
    if isinstance(type, T.DataType):
        return T.StructField(name, type)
    text = f"`{name.replace('`', '``')}` {type}" if type else name
    try:
        fields = lake.spark.createDataFrame([], text).schema.fields
    except Exception as error:  # each kind of session has its own
        first = str(error).strip().partition("\n")[0]
        raise Invalid(f"not a column and its type: {text!r:.200}: {first:.200}") from error
    if len(fields) != 1:
        raise Invalid(f"add one column at a time: {text!r:.200}")
    return fields[0]


def _filtered(
    lake: Lake,
    pin: Pin,
    format: str,
    columns: Sequence[str] | None,
    where: Where | None,
    schema: T.StructType | str | None,
) -> DataFrame:
    """The rows of a read.  `reads` leaves out what it can, and Spark the rest."""
    given = where if isinstance(where, str | list | tuple | set) else ()
    reading = reads.parse_request(lake, format, None, schema, given)
    if where is None or given is where:
        return reads.rows_at(lake, pin, replace(reading, columns=columns or ()))
    holds = rewrites.condition(where)
    if columns is None:
        return reads.rows_at(lake, pin, reading).where(holds)
    if reading.schema is not None:
        needed = [*columns, *rewrites.names_in(where, reading.schema.names)]
        reading = replace(reading, columns=tuple(dict.fromkeys(needed)))
    return reads.rows_at(lake, pin, reading).where(holds).select(*map(column_of, columns))


def _difference(
    lake: Lake, left: Pin, right: Pin, on: Sequence[str], columns: Names | None, format: str
) -> DataFrame:
    sides = rewrites.changed_files(lake, left, right, format)
    before, after = (side.frame for side in sides)
    names = [name for name in after.columns if name in before.columns]
    if columns is not None:
        chosen = (*on, *parse_names(columns))
        unknown = [name for name in chosen if name not in names]
        if unknown:
            raise Invalid(f"unknown columns: {','.join(unknown)} of={','.join(names)}")
        names = list(dict.fromkeys(chosen))
    missing = [name for name in on if name not in names]
    if missing:
        raise Invalid(f"on= must name columns of both sides: {','.join(missing)} of={names}")
    before, after = (frame.select(*map(column_of, names)) for frame in (before, after))
    if not on:
        gone, new = before.exceptAll(after), after.exceptAll(before)
        return _typed("removed", gone).unionByName(_typed("added", new))
    return _by_key(before, after, on, [name for name in names if name not in on])


def _typed(kind: str, frame: DataFrame) -> DataFrame:
    return frame.select(F.lit(kind).alias("type"), *map(column_of, frame.columns))


def _by_key(
    before: DataFrame, after: DataFrame, on: Sequence[str], others: Sequence[str]
) -> DataFrame:
    def side(frame: DataFrame, name: str) -> DataFrame:
        keys = [column_of(each).alias(f"_{name}_{at}") for at, each in enumerate(on)]
        values = [column_of(each).alias(f"{name}_{each}") for each in others]
        return frame.select(*keys, *values, F.lit(True).alias(f"_{name}"))

    same = _all(F.col(f"_left_{at}").eqNullSafe(F.col(f"_right_{at}")) for at in range(len(on)))
    both = side(before, "left").join(side(after, "right"), same, "full_outer")
    has_left, has_right = F.col("_left").isNotNull(), F.col("_right").isNotNull()
    kind = F.when(~has_left, "added").when(~has_right, "removed").otherwise("changed")
    keys = [
        F.when(has_right, F.col(f"_right_{at}")).otherwise(F.col(f"_left_{at}")).alias(name)
        for at, name in enumerate(on)
    ]
    equal = [column_of(f"left_{each}").eqNullSafe(column_of(f"right_{each}")) for each in others]
    unchanged = _all([has_left, has_right, *equal])
    sides = [column_of(f"{side}_{each}") for each in others for side in ("left", "right")]
    return both.where(~unchanged).select(kind.alias("type"), *keys, *sides)


def _all(conditions: Any) -> Column:
    return reduce(lambda one, other: one & other, conditions)
