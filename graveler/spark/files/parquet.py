"""Parquet files in an object store, read by pyarrow through the port `BlockStore`.

For this package.
"""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from graveler.block.adapter import BlockStore
from graveler.errors import Corrupt

_ROWS: Final = 65_536  # in a batch


class Remote(io.RawIOBase):
    """An object of known size as a file for reading.  Each read is one request."""

    def __init__(self, blocks: BlockStore, address: str, size: int) -> None:
        super().__init__()
        self._blocks = blocks
        self._address = address
        self._size = size
        self._at = 0

    def reopened(self) -> "Remote":
        """Another file of the same object, at its beginning.  No request.

        pyarrow's readers of text read ahead in a thread, which may still read after its reader is
        closed.  So two of them must not share a file, because a file has one position.
        """
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


@contextmanager
def parquet(blocks: BlockStore, address: str, size: int) -> Iterator[Any]:
    """An open Parquet file.  Raises `Corrupt` for what pyarrow cannot read.  Cost: one request for
    the file's end, and one or a few for each row group."""
    try:
        with pq.ParquetFile(
            pa.PythonFile(Remote(blocks, address, size), mode="r"),
            pre_buffer=True,
            coerce_int96_timestamp_unit="us",
        ) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        raise Corrupt(f"file is not Parquet, or is damaged: {address=}: {error}") from error


def groups_between(file: Any, start: int, stop: int) -> list[int]:
    """The row groups that begin within these bytes, so each split has its own groups."""
    groups = []
    for number in range(file.num_row_groups):
        column = file.metadata.row_group(number).column(0)
        begin = column.data_page_offset
        if column.dictionary_page_offset is not None:
            begin = min(begin, column.dictionary_page_offset)
        if start <= begin < stop:
            groups.append(number)
    return groups


def batches_of(file: Any, groups: Sequence[int], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of some groups with the columns of `schema`, cast to its types; null where the file
    lacks a column.  Raises `Corrupt` unless the number of rows is the one in the file's
    metadata."""
    names = [name for name in schema.names if name in file.schema_arrow.names]
    expected = sum(file.metadata.row_group(number).num_rows for number in groups)
    count = 0
    if not names:  # no column of the file is wanted
        while count < expected:
            length = min(_ROWS, expected - count)
            yield conformed(pa.record_batch([pa.nulls(length)], ["none"]), schema)
            count += length
        return
    for batch in file.iter_batches(batch_size=_ROWS, row_groups=list(groups), columns=names):
        count += batch.num_rows
        yield conformed(batch, schema)
    if count != expected:
        raise Corrupt(f"file states a wrong number of rows: rows={count} expected={expected}")


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with the columns of `schema`, cast to its types; null where a column is missing.  If
    `schema` has no columns, the batch is returned unchanged, because a batch without columns has no
    length.
    """
    arrays = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    if not arrays:
        return batch
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
