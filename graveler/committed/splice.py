"""Builds tables from blocks of stored tables, and from new records between them.

Blocks that no change touches are reused byte for byte, so readers that compare ranges skip them.
The result has the format of RocksDB's writer (`table.py` draws it), every key whole.
"""

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, repeat
from operator import add

from graveler.committed.blocks import TRAILER_LENGTH
from graveler.committed.columns import Columns
from graveler.committed.seal import (
    BEHIND_KEYS,
    BLOCK_LENGTH,
    NONE,
    compressed,
    data_payload,
    payload,
    sealed,
    varint,
)
from graveler.committed.table import StoredChunk
from graveler.committed.table_end import MAGIC, Handle
from graveler.core.records import Record

_SMALL = 2 * 1024  # smaller stored blocks are rebuilt, so that small blocks do not pile up
_RECORD_LENGTH = len(BEHIND_KEYS) + 4  # in a block, beside key and value; roughly
_NO_MARKS: Mapping[str, str] = {}


def table(records: Sequence[Record], marks: Mapping[str, str] = _NO_MARKS) -> list[bytes]:
    """The bytes of a table of `records`, which must be in key order and may be empty.  `marks`:
    additional properties."""
    return spliced([Columns.of(records)], marks) if records else _empty(marks)


def spliced(run: Sequence[Columns], marks: Mapping[str, str] = _NO_MARKS) -> list[bytes]:
    """As `table`, for the records of `run`, at least one.  Stored chunks are reused."""
    keys = sum(columns.key_size for columns in run)
    size = sum(columns.size for columns in run)
    return of_blocks(_blocks(run), sum(columns.count for columns in run), keys, size, marks)


def of_blocks(
    blocks: Iterable[tuple[bytes, bytes]],
    count: int,
    key_size: int,
    size: int,
    marks: Mapping[str, str] = _NO_MARKS,
) -> list[bytes]:
    """The bytes of a table of the given blocks.

    `blocks`: for each block, its last key and its stored bytes.  Together they have `count`
    records, `size` bytes of keys and values, and `key_size` bytes of keys."""
    content: list[bytes] = []
    entries: list[Record] = []
    offset = 0
    for last, stored in blocks:
        handle = Handle(offset, len(stored) - TRAILER_LENGTH)
        entries.append((last + BEHIND_KEYS, encoded_handle(handle)))
        content.append(stored)
        offset += len(stored)
    counts = {
        b"rocksdb.data.size": offset,
        b"rocksdb.num.data.blocks": len(entries),
        b"rocksdb.num.entries": count,
        b"rocksdb.raw.key.size": key_size + len(BEHIND_KEYS) * count,
        b"rocksdb.raw.value.size": size - key_size,
    }
    return content + _ending(entries, counts, offset, marks)


def _empty(marks: Mapping[str, str]) -> list[bytes]:
    """The bytes of a table without records, which RocksDB's own writer refuses to make."""
    return _ending([], {b"rocksdb.num.entries": 0}, 0, marks)


def _blocks(run: Sequence[Columns]) -> Iterator[tuple[bytes, bytes]]:
    """Every block with its last key: stored blocks unchanged, new blocks for the records
    between."""
    keys: list[bytes] = []
    values: list[bytes] = []
    for columns in run:
        chunk = columns.chunk
        if isinstance(chunk, StoredChunk) and chunk.is_current and not _is_small(columns, chunk):
            yield from _new_blocks(keys, values)
            keys, values = [], []
            yield columns.last, chunk.stored
        else:
            keys += columns.keys
            values += columns.values
    yield from _new_blocks(keys, values)


def _is_small(columns: Columns, chunk: StoredChunk) -> bool:
    return len(chunk.stored) < _SMALL and columns.size < 2 * _SMALL


def _new_blocks(keys: Sequence[bytes], values: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """A block ends at the first record with which it has reached its length."""
    lengths = map(add, map(len, keys), map(len, values))
    ends = list(accumulate(map(add, lengths, repeat(_RECORD_LENGTH)), initial=0))
    begin = 0
    while begin < len(keys):
        end = min(len(keys), bisect_left(ends, ends[begin] + BLOCK_LENGTH))
        yield keys[end - 1], compressed(data_payload(keys[begin:end], values[begin:end]))
        begin = end


def _ending(
    entries: Sequence[Record], counts: dict[bytes, int], offset: int, marks: Mapping[str, str]
) -> list[bytes]:
    """Index, properties, metaindex and footer of a table whose blocks end at `offset`."""
    index = compressed(payload(entries))
    counts = {**counts, b"rocksdb.index.size": len(index) - TRAILER_LENGTH}
    own = {name.encode(): text.encode() for name, text in marks.items()}
    known = {**_PROPERTIES, **_encoded(counts), **own}
    properties = sealed(payload(sorted(known.items())), NONE)
    at_properties = offset + len(index)
    metaindex = sealed(
        payload([(b"rocksdb.properties", _handle_of(at_properties, properties))]), NONE
    )
    handles = _handle_of(at_properties + len(properties), metaindex) + _handle_of(offset, index)
    footer = b"\1" + handles.ljust(40, b"\0") + struct.pack("<IQ", 2, MAGIC)
    return [index, properties, metaindex, footer]


def _handle_of(offset: int, stored: bytes) -> bytes:
    return encoded_handle(Handle(offset, len(stored) - TRAILER_LENGTH))


def _encoded(counts: dict[bytes, int]) -> dict[bytes, bytes]:
    return {name: varint(count) for name, count in counts.items()}


_PROPERTIES = {
    b"rocksdb.block.based.table.index.type": bytes(4),
    b"rocksdb.block.based.table.prefix.filtering": b"0",
    b"rocksdb.block.based.table.whole.key.filtering": b"1",
    b"rocksdb.column.family.id": b"\xff\xff\xff\xff\x07",
    b"rocksdb.comparator": b"leveldb.BytewiseComparator",
    b"rocksdb.compression": b"Snappy",
    b"rocksdb.creation.time": b"\0",
    b"rocksdb.deleted.keys": b"\0",
    b"rocksdb.external_sst_file.global_seqno": bytes(8),
    b"rocksdb.external_sst_file.version": b"\2\0\0\0",
    b"rocksdb.filter.size": b"\0",
    b"rocksdb.fixed.key.length": b"\0",
    b"rocksdb.format.version": b"\2",
    b"rocksdb.index.key.is.user.key": b"\0",
    b"rocksdb.index.value.is.delta.encoded": b"\0",
    b"rocksdb.merge.operands": b"\0",
    b"rocksdb.merge.operator": b"nullptr",
    b"rocksdb.num.range-deletions": b"\0",
    b"rocksdb.oldest.key.time": b"\0",
    b"rocksdb.prefix.extractor.name": b"nullptr",
    b"rocksdb.property.collectors": b"[]",
}


def encoded_handle(handle: Handle) -> bytes:
    """The encoded handle: where a block's payload is in the file."""
    return varint(handle.offset) + varint(handle.length)
