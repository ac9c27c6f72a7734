"""Objects as files for pyarrow, and the formats of text: CSV with a header, JSON by lines.

A column of text has the type that was asked for, or the one that the file's first block suggests.
A file is read one block at a time.  In CSV, nothing between commas is null; `""` is an empty text.
"""

import io
import json
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.json as pj

from graveler.block.adapter import BlockStore
from graveler.core.errors import Corrupt, Invalid

_BLOCK_BYTES: Final = 8 << 20
_LINE_BYTES_MAX: Final = 64 << 20
_UTC: Final = pa.timestamp("us", tz="UTC")


class Remote(io.RawIOBase):
    """An object of known size as a file for reading.  Each read is one request."""

    def __init__(self, blocks: BlockStore, address: str, size: int) -> None:
        super().__init__()
        self._blocks = blocks
        self._address = address
        self._size = size
        self._at = 0

    def reopened(self) -> "Remote":
        """Another file of the same object, at its beginning.  No request.  pyarrow's readers of
        text read ahead in a thread, which may still read after its reader is closed.  So two of
        them must not share a file, because a file has one position."""
        return Remote(self._blocks, self._address, self._size)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, begin + offset)
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        rest = max(0, self._size - self._at)
        length = rest if size is None or size < 0 else min(size, rest)
        if not length:
            return b""
        body = self._blocks.read(self._address, self._at, length)
        if len(body) != length:
            raise Corrupt(f"object is shorter than its entry states: address={self._address}")
        self._at += length
        return body


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with the columns of `schema`, cast to its types; null where a column is missing.  If
    `schema` has no columns, the batch is returned unchanged, because a batch without columns has no
    length."""
    arrays = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    if not arrays:
        return batch
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


# ---- CSV -----------------------------------------------------------------------------------------


def csv_types(file: Remote) -> pa.Schema:
    """The columns that the file's first block suggests."""
    with _csv(file.reopened(), pc.ConvertOptions(), is_one=False) as reader:
        schema = reader.schema
    if len(set(schema.names)) != len(schema.names):
        raise Invalid(f"columns must have different names: {schema.names}")
    return schema


def csv_rows(file: Remote, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of the file, with the columns of `schema`."""
    types = csv_types(file)
    names = [name for name in schema.names if name in types.names]
    kinds = {name: _csv_kind(types.field(name).type, schema.field(name).type) for name in names}
    # Without names, pyarrow would read every column; but the rows must be counted, so read one.
    options = pc.ConvertOptions(column_types=kinds, include_columns=names or types.names[:1])
    with _csv(file.reopened(), options, is_one=len(types.names) == 1) as reader:
        for batch in reader:
            yield conformed(batch, schema)


def _csv_kind(looks: pa.DataType, kind: pa.DataType) -> pa.DataType:
    """The type as which pyarrow reads a column: times with a zone and without one are two types."""
    is_plain = pa.types.is_timestamp(looks) and looks.tz is None
    return pa.timestamp("us") if kind == _UTC and is_plain else kind


def _csv(file: Remote, options: pc.ConvertOptions, *, is_one: bool) -> Any:
    options.null_values = [""]
    options.strings_can_be_null = True
    options.quoted_strings_can_be_null = False
    return pc.open_csv(
        pa.PythonFile(file, mode="r"),
        read_options=pc.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
        # In a file of one column, an empty line is a row.
        parse_options=pc.ParseOptions(newlines_in_values=True, ignore_empty_lines=not is_one),
        convert_options=options,
    )


# ---- JSON ----------------------------------------------------------------------------------------


def json_types(file: Remote) -> pa.Schema:
    """The columns that the file's first block suggests."""
    file.seek(0)
    for block in _blocks(file):
        schema: pa.Schema = _json(block, pa.schema([]), "infer").schema
        return schema
    return pa.schema([])


def json_rows(file: Remote, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of the file, with the columns of `schema`."""
    stored = pa.schema([(field.name, _json_kind(field.type)) for field in schema])
    file.seek(0)
    for block in _blocks(file):
        table = _json(block, stored, "ignore")
        if not schema.names:
            yield pa.record_batch([pa.nulls(table.num_rows)], ["none"])
            continue
        for batch in table.to_batches():
            yield conformed(batch, schema)


def _json(block: bytes, schema: pa.Schema, others: str) -> pa.Table:
    return pj.read_json(
        pa.BufferReader(block),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(block) + 1),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=others),
    )


def _json_kind(kind: pa.DataType) -> pa.DataType:
    """The type as which pyarrow reads a value: it reads dates as times."""
    if pa.types.is_date(kind):
        return pa.timestamp("s")
    if pa.types.is_list(kind):
        return pa.list_(_json_kind(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, _json_kind(each.type)) for each in kind])
    return kind


def _blocks(file: Remote) -> Iterator[bytes]:
    """Whole lines, as many as fit into a block; blocks of white space only are left out."""
    held = b""
    while read := file.read(_BLOCK_BYTES):
        whole, newline, rest = read.rpartition(b"\n")
        block, held = (held + whole + newline, rest) if newline else (b"", held + read)
        if len(held) > _LINE_BYTES_MAX:
            raise Corrupt(f"a line of JSON is longer than {_LINE_BYTES_MAX} bytes")
        if block.strip():
            yield block
    if held.strip():
        yield held


class JsonWriter:
    """Writes one object a line, with null for a missing value."""

    def __init__(self, sink: IO[bytes]) -> None:
        self._sink = sink

    def write_table(self, table: pa.Table) -> None:
        """Append rows."""
        for batch in table.to_batches():
            lines = [
                json.dumps(row, ensure_ascii=False, default=_json_text) for row in batch.to_pylist()
            ]
            self._sink.write(("\n".join(lines) + "\n").encode())

    def close(self) -> None:
        """Do nothing: no bytes follow the rows."""


def _json_text(value: Any) -> str:
    if isinstance(value, date | datetime):
        return value.isoformat()
    assert isinstance(value, Decimal), "other types were refused"
    return str(value)
