"""What the end of a table says: footer, properties and index.

    footer, 53 bytes   checksum kind 1 (CRC32C) ‖ varints: metaindex offset, length, index offset,
                       length ‖ zeros ‖ version (4, little endian) ‖ magic (8)
    footer, 48 bytes   the oldest form: the varints ‖ zeros ‖ magic (8)

The last 64 KiB of the file are read in one request, and more only if the index is longer.
"""

import struct
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from graveler.committed.blocks import (
    TRAILER_LENGTH,
    index_entries,
    plain_entries,
    unseal,
)
from graveler.core import limits
from graveler.core.errors import Corrupt
from graveler.core.identity import read_varint

MAGIC = 0x88E241B785F4CFF7
_MAGIC_OLDEST = 0xDB4775248B80FB57
_FOOTER_LENGTH = 53
_FOOTER_LENGTH_OLDEST = 48
_CRC32C = 1
TAIL_LENGTH = 64 * 1024

_PLAIN_PROPERTIES = {
    "rocksdb.block.based.table.index.type": b"\0\0\0\0",
    "rocksdb.comparator": b"leveldb.BytewiseComparator",
    "rocksdb.deleted.keys": b"\0",
    "rocksdb.merge.operands": b"\0",
    "rocksdb.num.range-deletions": b"\0",
    "rocksdb.external_sst_file.global_seqno": bytes(8),
}


class ByteSource(Protocol):
    """The bytes of a file."""

    @property
    def name(self) -> str:
        """The file's name: for messages, and unique among all tables that share a cache."""
        ...

    @property
    def held(self) -> int:
        """The number of bytes of the file that stay in memory as long as the source exists."""
        ...

    def size(self) -> int:
        """The length of the file in bytes."""
        ...

    def read(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset`.  Raises `Corrupt` if the file is shorter."""
        ...


class Handle(NamedTuple):
    """Where a block's payload is in the file."""

    offset: int
    length: int

    @property
    def end(self) -> int:
        """The end of the block, with its type and checksum."""
        return self.offset + self.length + TRAILER_LENGTH


@dataclass(frozen=True, slots=True)
class TableEnd:
    """What the end of a table says.

    `length`: of the file.  `is_prefixed`: whether compressed blocks begin with their length.
    `properties`: as they are stored.  `count`: of records; -1 if the properties do not state it.
    `index`: as it is stored.  `bounds`, `starts`, `ends`: of all data blocks.
    """

    length: int
    is_prefixed: bool
    properties: bytes
    count: int
    index: bytes
    bounds: Sequence[bytes]
    starts: Sequence[int]
    ends: Sequence[int]


def read_end(source: ByteSource) -> TableEnd:
    """Read the end of a table.  Raises `Corrupt`.  Cost: one request, and one more for an index
    that does not fit."""
    size = source.size()
    if not _FOOTER_LENGTH_OLDEST <= size <= limits.table_length_bytes_max:
        raise Corrupt(f"table has an impossible length: table={source.name} length={size}")
    start = max(0, size - TAIL_LENGTH)
    tail = _Tail(source, start, source.read(start, size - start))
    try:
        metaindex, handle, is_prefixed = _footer(tail.bytes)
        properties = _read_properties(tail, metaindex, is_prefixed)
        most = limits.table_index_expanded_bytes_max
        index = unseal(tail.block(handle, most), is_prefixed, most)
        blocks = _read_index(index, handle.offset)
    except Corrupt as error:
        raise Corrupt(f"{error}: table={source.name}") from error
    count = _checked_count(properties, source.name)
    return TableEnd(size, is_prefixed, properties, count, index, *blocks)


def _read_properties(tail: "_Tail", metaindex: Handle, is_prefixed: bool) -> bytes:
    for name, handle in plain_entries(unseal(tail.block(metaindex), is_prefixed)):
        if name == b"rocksdb.properties":
            return unseal(tail.block(_handle(handle, 0)[0]), is_prefixed)
    return b""


def properties_of(stored: bytes) -> Mapping[str, bytes]:
    """The properties of a table, from their stored form."""
    if not stored:
        return {}
    return {key.decode("latin-1"): value for key, value in plain_entries(stored)}


def _checked_count(stored: bytes, name: str) -> int:
    """The number of entries in the properties; -1 if they do not state it.  Raises `Corrupt` if the
    properties name a kind of table that cannot be read here: another kind of index, deletions, or
    a sequence number for the whole file."""
    known = properties_of(stored)
    for property_name, allowed in _PLAIN_PROPERTIES.items():
        if known.get(property_name, allowed) != allowed:
            raise Corrupt(f"table is of an unknown kind: table={name} property={property_name}")
    encoded = known.get("rocksdb.num.entries")
    if encoded is None:
        return -1
    count, _ = read_varint(encoded, 0)
    if count > limits.table_records_count_max:
        raise Corrupt(f"table states an impossible number of records: table={name}")
    return count


def length_told(tail: bytes) -> int:
    """The length of the file that ends with `tail`, computed from its footer.  Raises `Corrupt`.

    Index or metaindex is directly before the footer, so its handle gives the length.  If the file
    is damaged and the length wrong, blocks fail their checksums."""
    if len(tail) < _FOOTER_LENGTH_OLDEST:
        raise Corrupt(f"table has an impossible length: length={len(tail)}")
    metaindex, index, _ = _footer(tail)
    end = max(handle.offset + handle.length for handle in (metaindex, index)) + TRAILER_LENGTH
    (magic,) = struct.unpack_from("<Q", tail, len(tail) - 8)
    return end + (_FOOTER_LENGTH if magic == MAGIC else _FOOTER_LENGTH_OLDEST)


def _footer(tail: bytes) -> tuple[Handle, Handle, bool]:
    """The handles of metaindex and index, and whether compressed blocks begin with their
    length.  Raises `Corrupt`."""
    (magic,) = struct.unpack_from("<Q", tail, len(tail) - 8)
    if magic == _MAGIC_OLDEST:
        body, prefixed = tail[-_FOOTER_LENGTH_OLDEST:-8], False
    elif magic == MAGIC and len(tail) >= _FOOTER_LENGTH:
        footer = tail[-_FOOTER_LENGTH:]
        (version,) = struct.unpack_from("<I", footer, len(footer) - 12)
        if footer[0] != _CRC32C or version not in (1, 2):
            raise Corrupt(f"table has an unknown form: checksum={footer[0]} version={version}")
        body, prefixed = footer[1:-12], version == 2
    else:
        raise Corrupt("table has no footer")
    metaindex, at = _handle(body, 0)
    index, _ = _handle(body, at)
    return metaindex, index, prefixed


class _Tail:
    """The end of a file, which contains index and properties of most tables.  Other bytes are read
    on demand."""

    def __init__(self, source: ByteSource, start: int, tail: bytes) -> None:
        self._source = source
        self._start = start
        self.bytes = tail

    def block(self, handle: Handle, length_max: int = limits.table_block_length_bytes_max) -> bytes:
        """A block with its type and checksum."""
        length = handle.length + TRAILER_LENGTH
        if handle.offset + length > self._start + len(self.bytes):
            raise Corrupt("table has a block after its end")
        if length > length_max + TRAILER_LENGTH:
            raise Corrupt(f"table has a block that is too long: length={length}")
        if handle.offset >= self._start:
            begin = handle.offset - self._start
            return self.bytes[begin : begin + length]
        return self._source.read(handle.offset, length)


def _handle(raw: bytes, at: int) -> tuple[Handle, int]:
    offset, at = read_varint(raw, at)
    length, at = read_varint(raw, at)
    return Handle(offset, length), at


def _read_index(
    payload: bytes, end_max: int
) -> tuple[Sequence[bytes], Sequence[int], Sequence[int]]:
    """The bounds of all data blocks, and where the blocks begin and end; all before `end_max`.
    The numbers are in arrays to save memory: of a large repository, thousands of indexes stay in
    the cache."""
    bounds: list[bytes] = []
    starts, ends = array("Q"), array("Q")
    end = 0
    for bound, encoded in index_entries(payload):
        handle, _ = _handle(encoded, 0)
        if handle.offset < end or handle.offset + handle.length > end_max:
            raise Corrupt("table has blocks that overlap")
        if handle.length > limits.table_block_length_bytes_max:
            raise Corrupt(f"table has a block that is too long: length={handle.length}")
        end = handle.end
        bounds.append(bound)
        starts.append(handle.offset)
        ends.append(end)
    return bounds, starts, ends
