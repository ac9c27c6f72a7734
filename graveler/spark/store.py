"""One task of writing a table: its rows become files, each an object at a fresh address.

Rows come sorted by their folder, so only one file is open at a time.  A file is built in a scratch
file and put as a whole.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import IO, Any, Final

import pyarrow as pa
from pyspark import TaskContext

from graveler.block import bodies
from graveler.block.adapter import CREATE
from graveler.block.address import join, new_data_address
from graveler.core.clock import SystemClock, SystemIds
from graveler.lake.folders import folder
from graveler.spark.formats import format_of
from graveler.spark.places import Place, opened

STORED: Final = (
    "path string, address string, size bigint, checksum string, mtime bigint, rows bigint"
)
_GROUP_ROWS: Final = 131_072  # in a group of rows
_GROUP_BYTES: Final = 64 << 20
FILE_BYTES: Final = 256 << 20
_SEED_LENGTH: Final = 20


@dataclass(frozen=True, slots=True)
class Storing:
    """The instructions of a write, equal for every task.  They go to the executors, so they hold no
    secret.  `schema`: of the files; columns come in its order, under any names.  `folders`: the
    partition columns; their values come as text in the columns after those of the files.
    `rows_max`, `bytes_max`: after which a file ends.  `format`: a name in `formats.py`."""

    place: Place
    schema: pa.Schema
    folders: tuple[str, ...]
    rows_max: int
    format: str = "parquet"
    bytes_max: int = FILE_BYTES


def storing(order: Storing) -> Any:
    """The function for `mapInArrow`: it takes rows and returns one row of `STORED` for each
    file."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer: _File | None = None
        for batch in batches:
            for values, rows in _runs(batch, order):
                while rows.num_rows:
                    if writer is not None and (writer.is_full or writer.values != values):
                        yield writer.stored()
                        writer = None
                    if writer is None:
                        writer = _File(order, values)
                    rows = writer.take(rows)
        if writer is not None:
            yield writer.stored()

    return run


def copied(
    order: Storing, values: tuple[str | None, ...], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Store rows of one folder as files; return a row of `STORED` for each."""
    writer = _File(order, values)
    for rows in batches:
        while rows.num_rows:
            if writer.is_full:
                yield writer.stored()
                writer = _File(order, values)
            rows = writer.take(rows)
    yield writer.stored()


def without_rows(order: Storing) -> pa.RecordBatch:
    """Store a file that has columns and no rows, below the folders of nulls; return its row of
    `STORED`."""
    return _File(order, (None,) * len(order.folders)).stored()


def _runs(
    batch: pa.RecordBatch, order: Storing
) -> Iterator[tuple[tuple[str | None, ...], pa.RecordBatch]]:
    """Adjacent rows of one folder, with only the columns of the files."""
    count = len(order.folders)
    columns = [batch.column(at).cast(field.type) for at, field in enumerate(order.schema)]
    rows = pa.RecordBatch.from_arrays(columns, schema=order.schema)
    if not count:
        yield (), rows
        return
    folders = [batch.column(at) for at in range(batch.num_columns - count, batch.num_columns)]
    ends = [tuple(each[at].as_py() for each in folders) for at in (0, -1) if batch.num_rows]
    if ends and ends[0] == ends[1]:  # they are sorted
        yield ends[0], rows
        return
    begin = 0
    for values, run in groupby(zip(*(each.to_pylist() for each in folders), strict=True)):
        length = sum(1 for _ in run)
        yield values, rows.slice(begin, length)
        begin += length


class _File:
    """A file while it is written."""

    def __init__(self, order: Storing, values: tuple[str | None, ...]) -> None:
        self.values = values
        self._order = order
        self._scratch: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (`stored` closes it)
        self._writer = format_of(order.format).writer(self._scratch, order.schema)
        self._held: list[pa.RecordBatch] = []
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Whether the next row goes into another file."""
        return self._count >= self._order.rows_max or self._scratch.tell() >= self._order.bytes_max

    def take(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Write the rows that fit into this file; return the others."""
        taken = rows.slice(0, self._order.rows_max - self._count)
        self._held.append(taken)
        self._count += taken.num_rows
        held_bytes = sum(batch.nbytes for batch in self._held)
        if sum(batch.num_rows for batch in self._held) >= _GROUP_ROWS or held_bytes >= _GROUP_BYTES:
            self._flush()
        return rows.slice(taken.num_rows)

    def _flush(self) -> None:
        if self._held:
            self._writer.write_table(pa.Table.from_batches(self._held))
            self._held = []

    def stored(self) -> pa.RecordBatch:
        """End the file and put it into the object store; return its row of `STORED`."""
        self._flush()
        self._writer.close()
        ids, place = SystemIds(), self._order.place
        unique = ids.unique(_SEED_LENGTH)
        address = new_data_address(SystemClock().now_ns(), ids, unique.encode())
        with self._scratch:
            body, full = bodies.of_file(self._scratch), join(place.namespace, address)
            head = opened(place).blocks.put(full, body, CREATE)
        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        file = f"part-{task:05}-{unique}.{self._order.format}"
        return pa.RecordBatch.from_pylist(
            [
                {
                    "path": folder(self._order.folders, self.values) + file,
                    "address": address,
                    "size": head.size,
                    "checksum": head.etag,
                    "mtime": head.modified_ns // 1_000,
                    "rows": self._count,
                }
            ]
        )
