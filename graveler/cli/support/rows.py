"""`graveler diff --rows`: rows and columns of Parquet and CSV files before and after.

    Parquet    from its footer, read by ranges; needs pyarrow
    CSV        the whole file, up to 64 MiB; the first row names the columns

What cannot be counted has no numbers, and a note says why.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from graveler.cli.support.invocation import Invocation
from graveler.cli.support.output import Column, field, plain
from graveler.core.errors import Corrupt, GravelerError, Invalid, Unsupported
from graveler.lake import objects
from graveler.lake.session import Session

_CSV_BYTES_MAX: Final = 64 << 20
_FOOTER_BYTES_MAX: Final = 64 << 20  # of what pyarrow reads of one file
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
    session = invocation.session
    try:
        size = objects.stat(session, repository, ref, path).get("size_bytes", 0)
        return read(session, repository, ref, path, size)
    except ModuleNotFoundError:
        reason = "pyarrow is not installed: pip install pyarrow"
    except (GravelerError, csv.Error) as error:
        fields = error.fields if isinstance(error, GravelerError) else {}
        reason = str(fields.get("reason", "")) or str(error)
    invocation.output.note(f"not counted: {plain(path)} at {ref}: {plain(reason)}")
    return None


# ---- CSV -----------------------------------------------------------------------------------------


def _csv(session: Session, repository: str, ref: str, path: str, size: int) -> Table:
    if size > _CSV_BYTES_MAX:
        raise Unsupported(f"larger than {_CSV_BYTES_MAX >> 20} MiB")
    with objects.open_object(session, repository, ref, path) as answer:
        text = answer.read_all(_CSV_BYTES_MAX).decode("utf-8-sig", "replace")
    first = text.partition("\n")[0]
    separator = max(_SEPARATORS, key=first.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    header = next(rows, [])
    return Table(sum(1 for row in rows if row), dict.fromkeys(header, ""))


# ---- Parquet -------------------------------------------------------------------------------------


def _parquet(session: Session, repository: str, ref: str, path: str, size: int) -> Table:
    import pyarrow
    from pyarrow import parquet

    remote = _Remote(session, repository, ref, path, size)
    try:
        with parquet.ParquetFile(pyarrow.PythonFile(remote, mode="r")) as file:
            schema = file.schema_arrow
            types = map(str, schema.types)
            columns = dict(zip(schema.names, types, strict=True))
            return Table(file.metadata.num_rows, columns)
    except (pyarrow.ArrowException, OSError) as error:
        raise Corrupt(f"it is not Parquet: {error}") from error


class _Remote(io.RawIOBase):
    """An object as a file for reading; each read is one request of a range."""

    def __init__(self, session: Session, repository: str, ref: str, path: str, size: int) -> None:
        super().__init__()
        self._session = session
        self._place = (repository, ref, path)
        self._size = size
        self._position = 0
        self._rest = _FOOTER_BYTES_MAX

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, begin + offset)
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        left = max(0, self._size - self._position)
        length = left if size is None or size < 0 else min(size, left)
        if not length:
            return b""
        if length > self._rest:
            raise Invalid("its footer is too large")
        self._rest -= length
        start, end = self._position, self._position + length - 1
        with objects.open_object(self._session, *self._place, start=start, end=end) as answer:
            if start and answer.status != 206:
                raise Unsupported("the server sends no ranges")
            body = answer.read_all(length)
        self._position += len(body)
        return body
