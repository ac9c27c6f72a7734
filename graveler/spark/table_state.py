"""What a table is at a commit: as its folder says, or as its files do.

stored schema ──► the definition                    one request, no task
none          ──► the schemas of all files ──tasks──► united
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from graveler.core.errors import Corrupt, Invalid
from graveler.lake.folders import Layout
from graveler.spark.formats import format_of
from graveler.spark.lake import Lake, Pin
from graveler.spark.reads import layout_at, schemas_in_tasks, with_buckets
from graveler.spark.schemas import FileSchema, united
from graveler.spark.table_schema import Definition, stored_at


class TableState(NamedTuple):
    """A table at a commit: what it is, and its data files if the definition came from them."""

    definition: Definition | None
    layout: Layout = Layout({}, ())


def state_at(lake: Lake, pin: Pin, format: str = "") -> TableState:
    """The table at a commit.  `format`: of its files, if the folder does not say it.  Raises
    `Invalid` if the folder has files and they are no one table of this format.  Cost: that of
    `stored_at`; without a stored definition, the schemas of all files are read."""
    stored = stored_at(lake, pin)
    if stored is not None:
        return TableState(stored)
    found = layout_at(lake.spark, pin.place, pin.metarange, pin.prefix)
    if not found.files:
        return TableState(None)
    form = format_of(format or guessed_format([file.path for file in found.files]))
    schemas = schemas_in_tasks(lake.spark, with_buckets(pin.place, found.files), form, found.files)
    data = _united(schemas, form.name)
    clash = [name for name in data.names if name in found.columns]
    if clash:
        raise Invalid(f"the table's files hold a partition column: {','.join(clash)}")
    folders = from_arrow_schema(_arrow(found), prefer_timestamp_ntz=True)
    struct = T.StructType([*data.fields, *folders.fields])
    definition = Definition(struct, tuple(found.columns), form.name, is_stored=False)
    return TableState(definition, found)


def _united(schemas: Sequence[FileSchema], format: str) -> T.StructType:
    try:
        return united(schemas, format_of(format))
    except Corrupt as error:
        raise Invalid(
            "the table has a file of another format; append with the format of the table, or "
            f"write to another folder: format={format}: {error}"
        ) from error


def _arrow(found: Layout) -> Any:
    return pa.schema(list(found.columns.items()))


def guessed_format(paths: Sequence[str]) -> str:
    """The format that the names of files end with; parquet if they say nothing."""
    for path in paths:
        end = path.rpartition(".")[2].lower()
        if end in ("parquet", "orc", "csv", "json"):
            return end
    return "parquet"
