"""Files in memory, for tests of the table reader alone."""

from pathlib import Path
from typing import Any

import rocksdict

from graveler.committed import splice
from graveler.committed.cache import BudgetedCache
from graveler.committed.columns import Columns
from graveler.committed.table import SortedTable
from graveler.core.errors import Corrupt
from graveler.core.records import Record


class BytesFile:
    """A `Source` that remembers what was read."""

    def __init__(self, content: bytes, name: str = "file") -> None:
        self.content = content
        self.name = name
        self.reads: list[tuple[int, int]] = []

    @property
    def held(self) -> int:
        return len(self.content)

    def size(self) -> int:
        return len(self.content)

    def read(self, offset: int, length: int) -> bytes:
        self.reads.append((offset, length))
        raw = self.content[offset : offset + length]
        if offset < 0 or len(raw) != length:
            raise Corrupt("file is too short")
        return raw


def opened(content: bytes, cache_bytes: int = 0) -> SortedTable:
    """A table over bytes."""
    return SortedTable(BytesFile(content), BudgetedCache(cache_bytes))


def contents(table: SortedTable) -> list[Record]:
    """All records."""
    return [record for chunk in table.chunks() for record in chunk.records()]


def build_table(path: Path, records: list[Record]) -> None:
    """A table as the store writes it."""
    path.write_bytes(b"".join(splice.table(records)))


def stored_columns(records: list[Record], folder: Path) -> list[Columns]:
    """The records in stored blocks, so that a table of them is put together in memory."""
    build_table(folder / "source.sst", records)
    table = opened((folder / "source.sst").read_bytes())
    return [chunk.columns() for chunk in table.chunks()]


def table_options(compression: Any, block_size: int, restarts: tuple[int, int], bloom: int) -> Any:
    """RocksDB's options for a table; restart intervals of data blocks and of the index."""
    table = rocksdict.BlockBasedOptions()
    table.set_format_version(2)
    table.set_checksum_type(rocksdict.ChecksumType.crc32c())
    table.set_block_size(block_size)
    table.set_block_restart_interval(restarts[0])
    table.set_index_block_restart_interval(restarts[1])
    if bloom:
        table.set_bloom_filter(bloom, False)
    found = rocksdict.Options(raw_mode=True)
    found.set_compression_type(compression)
    found.set_block_based_table_factory(table)
    return found


def rocksdb_table(path: Path, records: list[Record], options: Any) -> bytes:
    """A table as RocksDB's own writer makes it."""
    table_writer = rocksdict.SstFileWriter(options)
    table_writer.open(str(path))
    for key, value in records:
        table_writer[key] = value
    table_writer.finish()
    return path.read_bytes()


def rocksdb_contents(folder: Path, file: Path) -> list[Record]:
    """What RocksDB reads from a table."""
    database = rocksdict.Rdict(str(folder), rocksdict.Options(raw_mode=True))
    try:
        database.ingest_external_file([str(file)])
        return list(database.items())  # type: ignore[arg-type]
    finally:
        database.close()
