"""Reads blocks of a RocksDB block-based table: checksum, decompression, entries.

    stored    payload ‖ compression type (1 byte) ‖ masked CRC32C over both (4, little endian)
    payload   entries ‖ restart offsets (4 bytes each, little endian) ‖ their number (4 bytes)
    entry     varint shared ‖ varint unshared ‖ varint value length ‖ key from `shared` on ‖ value
    key       user key ‖ 8 bytes: type 1 ("set"), then the sequence number; in an index any type

No byte is used before its checksum was verified, and every length is checked against a bound before
memory is allocated for it.  Bytes that do not parse raise `Corrupt`.
"""

import struct
import sys
from array import array
from collections.abc import Iterator, Sequence
from copy import copy
from itertools import accumulate
from operator import itemgetter, lt
from struct import Struct

import cramjam
import google_crc32c

from graveler.core import limits
from graveler.core.errors import Corrupt
from graveler.core.identity import read_varint
from graveler.core.records import ABSENT, Absent, Record

TRAILER_LENGTH = 5
_INTERNAL = 8  # bytes of type and sequence number behind every user key
_SET = 1
_MASK = 0xA282EAD8
_NONE, _SNAPPY, _ZSTD = 0, 1, 7
_VARINT_BYTES_MAX = 10
_HEAD = 5  # an entry's first bytes, by which its decoded header is cached
_HEADS_MAX = 1 << 14
_RECORD_COST = 100  # bytes of memory that a record takes beside its key and value
_PAIR_COST = 140  # the same for one that is kept as a pair of bytes


def unseal(
    stored: bytes, prefixed: bool, length_max: int = limits.table_block_length_bytes_max
) -> bytes:
    """The payload of a stored block, checked and decompressed.  Raises `Corrupt`, also if it is
    longer than `length_max`.

    `prefixed`: a compressed payload, except Snappy, begins with its decompressed length (table
    version 2 and later).
    """
    return StoredBlock(stored, prefixed, length_max).payload()


class StoredBlock:
    """A stored block whose checksum is right.

    `length`: of its payload when it is decompressed, in bytes."""

    __slots__ = ("_kind", "_packed", "length")

    def __init__(
        self,
        stored: bytes,
        prefixed: bool,
        length_max: int = limits.table_block_length_bytes_max,
    ) -> None:
        """`prefixed`, `length_max`: see `unseal`.  Raises `Corrupt`."""
        body = stored[:-4]
        if (
            len(stored) < TRAILER_LENGTH
            or masked_crc(body) != struct.unpack_from("<I", stored, len(body))[0]
        ):
            raise Corrupt(f"block fails its checksum: length={len(stored)}")
        self._kind = body[-1]
        self._packed = memoryview(body)[:-1]
        self.length = self._unsealed_length(prefixed)
        if self.length > length_max:
            raise Corrupt(f"block states an impossible length: length={self.length}")

    def _unsealed_length(self, prefixed: bool) -> int:
        """The decompressed length; leaves the compressed bytes alone in `_packed`."""
        if self._kind == _NONE:
            return len(self._packed)
        if self._kind == _SNAPPY:
            try:
                length: int = cramjam.snappy.decompress_raw_len(self._packed)
            except (cramjam.DecompressionError, ValueError) as error:
                raise Corrupt("block does not decompress") from error
            return length
        if self._kind == _ZSTD and prefixed:
            length, start = read_varint(bytes(self._packed[:_VARINT_BYTES_MAX]), 0)
            self._packed = self._packed[start:]
            return length
        raise Corrupt(f"block has an unknown compression: type={self._kind}")

    def payload(self) -> bytes:
        """The payload.  Raises `Corrupt`."""
        room = bytearray(self.length)
        self.unseal_into(room)
        return bytes(room)

    def unseal_into(self, room: bytearray | memoryview) -> None:
        """Write the payload into `room`, which has exactly its length.  Raises `Corrupt`."""
        written = self.length
        try:
            if self._kind == _SNAPPY:
                written = cramjam.snappy.decompress_raw_into(self._packed, room)
            elif self._kind == _ZSTD:
                written = cramjam.zstd.decompress_into(self._packed, room)
            else:
                room[:] = self._packed
        except (cramjam.DecompressionError, ValueError) as error:
            raise Corrupt("block does not decompress") from error
        if written != self.length:
            raise Corrupt("block does not decompress to its length")


def masked_crc(body: bytes) -> int:
    """CRC32C, rotated and shifted, as tables store it."""
    crc: int = google_crc32c.value(body)
    return ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + _MASK) & 0xFFFFFFFF


class _HeaderCache(dict[bytes, tuple[int, int, int, int]]):
    """A cache from the first bytes of an entry to four offsets: begin and end of its key, begin of
    its value, and end of the entry.

    A table has few different headers, so nearly every entry costs one look-up instead of decoding
    three varints.  If the key is not stored whole, or the header is longer than `_HEAD`, the end is
    -1, which no entry has.
    """

    def __missing__(self, head: bytes) -> tuple[int, int, int, int]:
        shape = (0, 0, 0, -1)
        try:
            shared, at = read_varint(head, 0)
            unshared, at = read_varint(head, at)
            length, at = read_varint(head, at)
        except Corrupt:
            shared = -1
        if shared == 0 and unshared >= _INTERNAL:
            key_end = at + unshared - _INTERNAL
            shape = (at, key_end, key_end + _INTERNAL, key_end + _INTERNAL + length)
        if len(self) >= _HEADS_MAX:
            self.clear()
        self[head] = shape
        return shape


class _Shapes(dict[bytes, tuple[str, int]]):
    """A cache from an entry's first bytes to its length and its `struct` pattern of key, type and
    value."""

    def __missing__(self, head: bytes) -> tuple[str, int]:
        begin, end, value, after = _heads[head]
        shape = (f"{begin}x{end - begin}s1s{_INTERNAL - 1}x{after - value}s", after)
        if after < 0 or after > limits.table_block_length_bytes_max:
            shape = ("", 0)
        if len(self) >= _HEADS_MAX:
            self.clear()
        self[head] = shape
        return shape


_heads = _HeaderCache()
_shapes = _Shapes()


class Block:
    """One decompressed data block: its bytes and restart offsets.  Entries are parsed on demand;
    a block that is `parsed` keeps them."""

    __slots__ = ("_end", "_kept", "_raw", "_restarts")

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._end, self._restarts = _restarts_of(raw)
        self._kept: tuple[Record, ...] | Absent = ABSENT

    @property
    def cost(self) -> int:
        """The approximate memory that the block takes, in bytes."""
        cost = len(self._raw) + 4 * len(self._restarts) + 200
        if self._kept is ABSENT:
            return cost
        return cost + sum(len(key) + len(value) + _PAIR_COST for key, value in self._kept)

    @property
    def is_parsed(self) -> bool:
        """Whether it keeps its entries."""
        return self._kept is not ABSENT

    def parsed(self) -> "Block":
        """The same block, which keeps its entries.  Raises `Corrupt`."""
        block = copy(self)
        block._kept = tuple(self.records())
        return block

    def edges(self) -> tuple[bytes, bytes] | Absent:
        """The least and the greatest key; ABSENT if the block is empty.  Raises `Corrupt`.  Parses
        only these two entries, unless keys are shared."""
        last = len(self._restarts) - 1
        if last < 0:
            return ABSENT
        raw, at = self._raw, self._restarts[last]
        begin, end, _, after = _heads[raw[:_HEAD]]
        last_begin, last_end, _, last_after = _heads[raw[at : at + _HEAD]]
        if after < 0 or at + last_after != self._end:
            keys, _ = self.columns()
            return keys[0], keys[-1]
        return raw[begin:end], raw[at + last_begin : at + last_end]

    def get(self, key: bytes) -> bytes | Absent:
        """The value under `key`; ABSENT if there is none.  Raises `Corrupt`.  Parses only the
        entries that a binary search meets; so the order of the others is not checked."""
        raw, restarts, heads = self._raw, self._restarts, _heads
        low, high = 0, len(restarts)
        while low < high:
            middle = (low + high) >> 1
            at = restarts[middle]
            begin, end, value, after = heads[raw[at : at + _HEAD]]
            if after < 0:
                return self._get_replaying(key)
            here = raw[at + begin : at + end]
            if here < key:
                low = middle + 1
            elif here > key:
                high = middle
            else:
                if at + after > self._end or raw[at + end] != _SET:
                    raise Corrupt("block has an entry of an unknown kind")
                return raw[at + value : at + after]
        if low == high == 0 or self._is_whole(low - 1):
            return ABSENT
        return self._get_replaying(key)

    def _is_whole(self, index: int) -> bool:
        """Whether the entry at a restart ends where the next restart begins, so that no other entry
        lies between."""
        at = self._restarts[index]
        following = self._restarts[index + 1] if index + 1 < len(self._restarts) else self._end
        return at + _heads[self._raw[at : at + _HEAD]][3] == following

    def _get_replaying(self, key: bytes) -> bytes | Absent:
        for other, value in self.records():
            if other == key:
                return value
        return ABSENT

    def records(self) -> Sequence[Record]:
        """All entries as (user key, value), keys strictly increasing.  Raises `Corrupt`."""
        return list(zip(*self.columns(), strict=True)) if self._kept is ABSENT else self._kept

    def columns(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """All user keys, strictly increasing, and all values.  Raises `Corrupt`."""
        pair = self._whole_columns()
        if pair is None:
            records = list(replay(self._raw, self._end, user_types=(_SET,)))
            pair = (list(map(itemgetter(0), records)), list(map(itemgetter(1), records)))
        if not all(map(lt, pair[0], pair[0][1:])):
            raise Corrupt("block has keys out of order")
        return pair

    def _whole_columns(self) -> tuple[Sequence[bytes], Sequence[bytes]] | None:
        """All entries, if every key is stored whole; otherwise None.  The headers give one `struct`
        pattern that splits the whole block in one call."""
        raw, shapes = self._raw, _shapes
        if not self._restarts:
            return (), ()
        heads = [shapes[raw[at : at + _HEAD]] for at in self._restarts]
        patterns, lengths = zip(*heads, strict=True)
        starts = list(accumulate(lengths, initial=0))
        if starts.pop() != self._end or starts != self._restarts.tolist():
            return None
        pieces = Struct("".join(patterns)).unpack_from(raw)
        if set(pieces[1::3]) - {b"\1"}:
            return None
        return pieces[0::3], pieces[2::3]


def _layout(raw: bytes) -> tuple[int, "array[int]"]:
    """As `_restarts_of`; the offsets must increase."""
    end, restarts = _restarts_of(raw)
    if not all(map(lt, restarts, restarts[1:])):
        raise Corrupt("block has restarts out of order")
    return end, restarts


def _restarts_of(raw: bytes) -> tuple[int, "array[int]"]:
    """The end of the entries, and the restart offsets, which must start at 0.  Raises `Corrupt`."""
    if len(raw) < 4:
        raise Corrupt("block is too short")
    (count,) = struct.unpack_from("<I", raw, len(raw) - 4)
    end = len(raw) - 4 - 4 * count
    if end < 0 or not 0 < count <= limits.table_block_records_count_max:
        raise Corrupt(f"block has a wrong number of restarts: restarts={count}")
    restarts = array("I")
    restarts.frombytes(raw[end:-4])
    if sys.byteorder == "big":
        restarts.byteswap()
    if end == 0:
        return 0, array("I")
    if restarts[0] != 0 or restarts[-1] >= end:
        raise Corrupt("block has restarts out of order")
    return end, restarts


def replay(
    raw: bytes,
    end: int,
    user_types: Sequence[int],
    expanded_max: int = limits.table_block_expanded_bytes_max,
) -> Iterator[Record]:
    """The entries in sequence; each key is completed from the key before it.  Raises `Corrupt`.

    An entry of three bytes can repeat a key of any length, so the total size with whole keys is
    bounded too, by `expanded_max`.  `user_types`: the allowed types of internal keys; empty if keys
    are plain names.
    """
    key = b""
    at = expanded = 0
    while at < end:
        head = raw[at : at + 3]
        if head.isascii() and len(head) == 3:  # nearly all: each number is one byte
            shared, unshared, length = head
            at += 3
        else:
            shared, at = read_varint(raw, at)
            unshared, at = read_varint(raw, at)
            length, at = read_varint(raw, at)
        if shared > len(key) or at + unshared + length > end:
            raise Corrupt("block has an entry that overlaps")
        expanded += shared + unshared + length + _RECORD_COST
        if expanded > expanded_max:
            raise Corrupt(f"block expands to too much: expanded={expanded}")
        key = key[:shared] + raw[at : at + unshared]
        at += unshared
        if user_types and (len(key) < _INTERNAL or key[-_INTERNAL] not in user_types):
            raise Corrupt("block has an entry of an unknown kind")
        yield key[:-_INTERNAL] if user_types else key, raw[at : at + length]
        at += length


def index_entries(raw: bytes) -> Iterator[Record]:
    """The entries of an index block: (upper bound of a data block's user keys, its handle).  They
    are yielded one by one, so that a caller that checks them can stop early and save memory."""
    end, _ = _layout(raw)
    last: bytes | Absent = ABSENT
    most = limits.table_index_expanded_bytes_max
    for key, handle in replay(raw, end, range(256), most):
        if last is not ABSENT and key <= last:
            raise Corrupt("index has keys out of order")
        last = key
        yield key, handle


def plain_entries(raw: bytes) -> list[Record]:
    """The entries of a block whose keys are names: the metaindex or the properties."""
    end, _ = _layout(raw)
    return list(replay(raw, end, user_types=()))
