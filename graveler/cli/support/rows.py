"""`graveler diff --rows`: rows and columns of Parquet and CSV files before and after.

    Parquet    from its footer, read by ranges; needs pyarrow
    CSV        the whole file, up to 64 MiB; the first row names the columns

What cannot be counted has no numbers, and a note says why.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from graveler.cli.support.invocation import Invocation
from graveler.cli.support.output import Column, field, plain
from graveler.core.errors import Corrupt, GravelerError, Invalid, Unsupported

if TYPE_CHECKING:
    from graveler.lake.ref import Ref

_CSV_BYTES_MAX: Final = 64 << 20
_FOOTER_BYTES_MAX: Final = 64 << 20  # of Parquet
_TAIL_BYTES, _MAGIC = 8, b"PAR1"  # how a file of Parquet ends: the length of its footer, and this
_SEPARATORS: Final = ",;\t|"
COLUMNS: Final = (
    field("type"),
    field("path"),
    Column("ROWS BEFORE", lambda row: _ours(row).get("rows_before"), "count"),
    Column("ROWS AFTER", lambda row: _ours(row).get("rows_after"), "count"),
    Column("COLUMNS", lambda row: _marks(row)),
)


class Table(NamedTuple):
    """What is known of a file."""

    rows: int
    columns: Mapping[str, str]  # name -> type; no types in CSV


def of(
    invocation: Invocation,
    repository: str,
    before: str,
    after: str,
    changes: Iterable[Mapping[str, Any]],
) -> Iterator[dict[str, Any]]:
    """The differences of two refs, with the rows and columns of tables under `graveler`.  Cost: for
    each Parquet or CSV file and side, one request for its size and one or a few for its content."""
    for change in changes:
        path, row = change["path"], dict[str, Any](change)
        if _kind(path):
            row["graveler"] = _difference(
                None if change["type"] == "added" else _table(invocation, repository, before, path),
                None
                if change["type"] == "removed"
                else _table(invocation, repository, after, path),
            )
        yield row


def _difference(before: Table | None, after: Table | None) -> dict[str, Any]:
    old = before.columns if before else {}
    new = after.columns if after else {}
    row: dict[str, Any] = {}
    if before:
        row["rows_before"] = before.rows
    if after:
        row["rows_after"] = after.rows
    if before and after:
        row["columns_added"] = [name for name in new if name not in old]
        row["columns_removed"] = [name for name in old if name not in new]
        row["columns_changed"] = [name for name in new if old.get(name, new[name]) != new[name]]
    return row


def _ours(row: Mapping[str, Any]) -> Mapping[str, Any]:
    table: Mapping[str, Any] = row.get("graveler", {})
    return table


def _marks(row: Mapping[str, Any]) -> str:
    kinds = (("+", "columns_added"), ("-", "columns_removed"), ("~", "columns_changed"))
    return " ".join(f"{mark}{name}" for mark, key in kinds for name in _ours(row).get(key, ()))


def _kind(path: str) -> str:
    ending = path.rpartition(".")[2].lower()
    return ending if ending in ("parquet", "csv", "tsv") else ""


def _table(invocation: Invocation, repository: str, ref: str, path: str) -> Table | None:
    """What one side has; nothing if it cannot be read as what its name says."""
    read = _parquet if _kind(path) == "parquet" else _csv
    try:
        return read(invocation.repo(repository).ref(ref), path)
    except ModuleNotFoundError:
        reason = "pyarrow is not installed: pip install pyarrow"
    except (GravelerError, csv.Error) as error:
        fields = error.fields if isinstance(error, GravelerError) else {}
        reason = str(fields.get("reason", "")) or str(error)
    invocation.output.note(f"not counted: {plain(path)} at {ref}: {plain(reason)}")
    return None


# ---- CSV -----------------------------------------------------------------------------------------


def _csv(ref: "Ref", path: str) -> Table:
    if ref.stat(path).size > _CSV_BYTES_MAX:
        raise Unsupported(f"larger than {_CSV_BYTES_MAX >> 20} MiB")
    text = ref.read_bytes(path).decode("utf-8-sig", "replace")
    first = text.partition("\n")[0]
    separator = max(_SEPARATORS, key=first.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    header = next(rows, [])
    return Table(sum(1 for row in rows if row), dict.fromkeys(header, ""))


# ---- Parquet -------------------------------------------------------------------------------------


def _parquet(ref: "Ref", path: str) -> Table:
    import pyarrow
    from pyarrow import parquet

    with ref.open(path, "rb") as opened:
        opened.seek(max(0, opened.seek(0, io.SEEK_END) - _TAIL_BYTES))
        tail = opened.read(_TAIL_BYTES)
        if tail.endswith(_MAGIC) and int.from_bytes(tail[:4], "little") > _FOOTER_BYTES_MAX:
            raise Invalid("its footer is too large")
        try:
            with parquet.ParquetFile(pyarrow.PythonFile(opened, mode="r")) as file:
                schema = file.schema_arrow
                types = map(str, schema.types)
                columns = dict(zip(schema.names, types, strict=True))
                return Table(file.metadata.num_rows, columns)
        except GravelerError:
            raise
        except (pyarrow.ArrowException, OSError) as error:
            raise Corrupt(f"it is not Parquet: {error}") from error
