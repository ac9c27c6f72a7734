"""Builds tables from blocks of stored tables, and from new records between them.

Blocks that no change touches are reused byte for byte, so readers that compare ranges skip them.
The result has the format of RocksDB's writer (`table.py` draws it), every key whole.
"""

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, repeat
from operator import add
from typing import NamedTuple

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
)
from graveler.committed.table import StoredChunk
from graveler.committed.table_end import MAGIC, TableEnd
from graveler.core.identity import varint
from graveler.core.records import Record

_SMALL = 2 * 1024  # smaller stored blocks are rebuilt, so that small blocks do not pile up
_RECORD_LENGTH = len(BEHIND_KEYS) + 4  # in a block, beside key and value; roughly
_NO_MARKS: Mapping[str, str] = {}


class BuiltTable(NamedTuple):
    """A table in memory.  `content`: its bytes, in pieces.  `end`: what `read_end` would read."""

    content: list[bytes]
    end: TableEnd


def table(records: Sequence[Record], marks: Mapping[str, str] = _NO_MARKS) -> list[bytes]:
    """The bytes of a table of `records`, which must be in key order and may be empty.  `marks`:
    additional properties."""
    if records:
        return spliced([Columns.of(records)], marks).content
    return of_blocks((), 0, 0, 0, marks).content  # RocksDB's own writer refuses to make this one


def spliced(run: Sequence[Columns], marks: Mapping[str, str] = _NO_MARKS) -> BuiltTable:
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
) -> BuiltTable:
    """A table of the given blocks.

    `blocks`: for each block, its last key and its stored bytes.  Together they have `count`
    records, `size` bytes of keys and values, and `key_size` bytes of keys."""
    content: list[bytes] = []
    entries: list[Record] = []
    bounds: list[bytes] = []
    starts, ends = array("Q"), array("Q")
    offset = 0
    for last, stored in blocks:
        entries.append((last + BEHIND_KEYS, _handle(offset, stored)))
        content.append(stored)
        bounds.append(last)
        starts.append(offset)
        offset += len(stored)
        ends.append(offset)
    index = payload(entries)
    stored_index = compressed(index)
    counts = {
        b"rocksdb.data.size": offset,
        b"rocksdb.index.size": len(stored_index) - TRAILER_LENGTH,
        b"rocksdb.num.data.blocks": len(entries),
        b"rocksdb.num.entries": count,
        b"rocksdb.raw.key.size": key_size + len(BEHIND_KEYS) * count,
        b"rocksdb.raw.value.size": size - key_size,
    }
    properties = _properties(counts, marks)
    content += (stored_index, *_ending(offset, stored_index, sealed(properties, NONE)))
    length = sum(map(len, content))
    return BuiltTable(
        content, TableEnd(length, True, properties, count, index, bounds, starts, ends)
    )


def _blocks(run: Sequence[Columns]) -> Iterator[tuple[bytes, bytes]]:
    """Every block with its last key: stored blocks unchanged, new blocks for the records
    between."""
    keys: list[bytes] = []
    values: list[bytes] = []
    for columns in run:
        chunk = columns.chunk
        if (
            isinstance(chunk, StoredChunk)
            and chunk.is_current
            and (len(chunk.stored) >= _SMALL or columns.size >= 2 * _SMALL)
        ):
            yield from _new_blocks(keys, values)
            keys, values = [], []
            yield columns.last, chunk.stored
        else:
            new = columns.unpacked()
            keys += new.keys
            values += new.values
    yield from _new_blocks(keys, values)


def _new_blocks(keys: Sequence[bytes], values: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    for begin, end in block_bounds(keys, values):
        yield keys[end - 1], compressed(data_payload(keys[begin:end], values[begin:end]))


def block_bounds(keys: Sequence[bytes], values: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Where the blocks of these records begin and end.  A block ends at the first record with which
    it has reached its length."""
    lengths = map(add, map(len, keys), map(len, values))
    ends = list(accumulate(map(add, lengths, repeat(_RECORD_LENGTH)), initial=0))
    begin = 0
    while begin < len(keys):
        end = min(len(keys), bisect_left(ends, ends[begin] + BLOCK_LENGTH))
        yield begin, end
        begin = end


def _properties(counts: Mapping[bytes, int], marks: Mapping[str, str]) -> bytes:
    own = {name.encode(): text.encode() for name, text in marks.items()}
    known = {**_PROPERTIES, **{name: varint(count) for name, count in counts.items()}, **own}
    return payload(sorted(known.items()))


def _ending(offset: int, index: bytes, properties: bytes) -> tuple[bytes, bytes, bytes]:
    """Properties, metaindex and footer of a table whose index begins at `offset`."""
    at_properties = offset + len(index)
    entry = (b"rocksdb.properties", _handle(at_properties, properties))
    metaindex = sealed(payload([entry]), NONE)
    handles = _handle(at_properties + len(properties), metaindex) + _handle(offset, index)
    footer = b"\1" + handles.ljust(40, b"\0") + struct.pack("<IQ", 2, MAGIC)
    return properties, metaindex, footer


def _handle(offset: int, stored: bytes) -> bytes:
    """Where the payload of a stored block is in the file, encoded."""
    return varint(offset) + varint(len(stored) - TRAILER_LENGTH)


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
