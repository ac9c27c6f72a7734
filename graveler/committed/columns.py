"""Adjacent records in columns: all keys, and all values.

Columns          keys and values
PackedColumns    the same without keys and values, which are read again from the stored chunk
Run              all columns of a range, and the hash of their records
Chunk            some adjacent records of a table

The records of one block in which every key is stored whole, parsed without an object for each.

block ──one `struct` call──► keys and values ──┬──► the bytes that enter the id of a range
                                               └──► the same block with some records changed
"""

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from itertools import accumulate
from operator import itemgetter, lt
from typing import NamedTuple, Protocol, TypeVar

from graveler.committed import seal
from graveler.committed.blocks import Block
from graveler.committed.seal import BEHIND_KEYS, BLOCK_LENGTH, compressed, head, restarts
from graveler.core import identity, limits
from graveler.core.errors import Corrupt
from graveler.core.records import ABSENT, TOMBSTONE, Absent, Record, StagedValue

# ---- columns ---------------------------------------------------------------------------------

T = TypeVar("T")

# A change inside some columns: (at, after, key, value).  If `after` is `at` + 1, the record at
# position `at` is replaced by one with this key and value, or removed if the value is TOMBSTONE.
# If `after` is `at`, the new record is inserted before that position.
Edit = tuple[int, int, bytes, StagedValue]


class Columns:
    """Some adjacent records, as a sequence of keys and a sequence of values.  Immutable.

    `count`: the number of records.  `first`, `last`: the least and the greatest key.  `chunk`: the
    stored chunk that holds exactly these records, if there is one."""

    def __init__(
        self, keys: Sequence[bytes], values: Sequence[bytes], chunk: "Chunk | Absent" = ABSENT
    ) -> None:
        self._keys = keys
        self._values = values
        self.chunk = chunk
        self.count = len(keys)
        self.first, self.last = (keys[0], keys[-1]) if keys else (b"", b"")
        self._found: tuple[int, int, Sequence[int]] | Absent = ABSENT  # see `hash_breaks`

    @classmethod
    def of(cls, records: Sequence[Record]) -> "Columns":
        """The same records, as columns."""
        return cls(list(map(itemgetter(0), records)), list(map(itemgetter(1), records)))

    @property
    def keys(self) -> Sequence[bytes]:
        """All keys, in order."""
        return self._keys

    @property
    def values(self) -> Sequence[bytes]:
        """The framed values, in the order of their keys."""
        return self._values

    @property
    def records(self) -> list[Record]:
        """The same records, as (key, value) pairs."""
        return list(zip(self.keys, self.values, strict=True))

    @cached_property
    def key_size(self) -> int:
        """The total length of all keys in bytes."""
        return sum(map(len, self.keys))

    @cached_property
    def size(self) -> int:
        """The logical size of the records: the total length of keys and framed values in bytes."""
        return self.key_size + sum(map(len, self.values))

    def id_pieces(self) -> Iterator[bytes]:
        """The bytes by which the records enter the id of their range."""
        return seal.joined(self.keys, self.values)

    def hash_breaks(self, seed: int, raggedness: int) -> Sequence[int]:
        """The positions of the keys after which the hash rule lets a range end.  They are kept,
        also when the columns are split, so that each key is hashed once."""
        if self._found is ABSENT or self._found[:2] != (seed, raggedness):
            found = identity.hash_breaks(self.keys, seed, raggedness)
            self._found = seed, raggedness, found
        return self._found[2]

    def split(self, at: int) -> tuple["Columns", "Columns"]:
        """The first `at` records, and the others."""
        head = Columns(self.keys[:at], self.values[:at])
        rest = Columns(self.keys[at:], self.values[at:])
        rest.key_size, rest.size = self.key_size - head.key_size, self.size - head.size
        if self._found is not ABSENT:
            seed, raggedness, found = self._found
            before = bisect_left(found, at)
            head._found = seed, raggedness, found[:before]
            rest._found = seed, raggedness, [each - at for each in found[before:]]
        return head, rest

    def changed(self, edits: "Sequence[Edit]") -> "Columns":
        """The records after `edits`, which must be in the order of their keys."""
        return Columns(
            edited(self.keys, edits, lambda key, _: key),
            edited(self.values, edits, lambda _, value: value),
        )

    def packed(self) -> "Columns":
        """The same records in the form that takes the least memory until they are written.  If
        there is a chunk, keys and values are read from it again when they are requested."""
        return self if self.chunk is ABSENT else PackedColumns(self, self.chunk)

    def unpacked(self) -> "Columns":
        """The same records with keys and values in memory."""
        return self


class PackedColumns(Columns):
    """The records of a stored chunk.  Keys and values are not kept: each access reads the chunk, so
    who needs both calls `unpacked` once."""

    def __init__(self, columns: Columns, chunk: "Chunk") -> None:
        super().__init__((), (), chunk)
        self._chunk = chunk
        self.first, self.last, self.count = columns.first, columns.last, columns.count
        self.key_size, self.size = columns.key_size, columns.size

    @property
    def keys(self) -> Sequence[bytes]:
        return self.unpacked().keys

    @property
    def values(self) -> Sequence[bytes]:
        return self.unpacked().values

    @property
    def records(self) -> list[Record]:
        return self._chunk.records()

    def packed(self) -> Columns:
        return self

    def unpacked(self) -> Columns:
        return self._chunk.columns()


class Run(list[Columns]):
    """The records of a range, while they are collected by `append`.  Columns that have a chunk are
    hashed when they are added, and then packed."""

    def __init__(self, columns: Iterable[Columns] = ()) -> None:
        super().__init__()
        self._digest = sha256()
        self._hashed = 0  # how many of the columns are in the digest
        for each in columns:
            self.append(each)

    def append(self, columns: Columns) -> None:
        """Add records behind all that were added before."""
        packed = columns.packed()
        super().append(columns)
        if packed is not columns:
            self._hash()
            self[-1] = packed

    def _hash(self) -> None:
        for columns in self[self._hashed :]:
            for piece in columns.id_pieces():
                self._digest.update(piece)
        self._hashed = len(self)

    def id(self, properties: Mapping[str, str]) -> str:
        """The id of a range of these records (`graveler.core.identity.file_id`)."""
        self._hash()
        digest = self._digest.copy()
        digest.update(identity.pairs(properties))
        return digest.hexdigest()


def edited(
    column: Sequence[T], edits: Sequence[Edit], element: Callable[[bytes, bytes], T]
) -> Sequence[T]:
    """A column of records after `edits`.  `element`: that of a new record."""
    result: list[T] = []
    done = 0
    for at, after, key, value in edits:
        result += column[done:at]
        if value is not TOMBSTONE:
            result.append(element(key, value))
        done = after
    result += column[done:]
    return result


class Chunk(Protocol):
    """Some adjacent records of a table."""

    @property
    def bound(self) -> bytes:
        """An upper bound: no key in this chunk is greater, and every key in the next chunk is."""
        ...

    @property
    def stored(self) -> bytes:
        """The stored bytes of the chunk.  Chunks with equal bytes hold equal records."""
        ...

    def records(self) -> list[Record]:
        """All records, in order.  Raises `Corrupt`."""
        ...

    def columns(self) -> Columns:
        """All records, as columns.  Raises `Corrupt`."""
        ...


# ---- whole -----------------------------------------------------------------------------------


_HEAD = 5  # an entry's first bytes, by which its decoded header is cached
_SHAPES_MAX = 1 << 14
_INTERNAL = len(BEHIND_KEYS)
_LENGTHS = range(BLOCK_LENGTH // 4, 2 * BLOCK_LENGTH)  # of a changed block that stays one block
_EDITED_SHARE = 4  # if more than 1/4 of the records change, new blocks cost less

NewChunk = Callable[[bytes, bytes], Chunk]  # from the last key and the stored bytes


def columns_of(payload: bytes, chunk: Chunk, new_chunk: NewChunk) -> Columns:
    """The records of a block.  `chunk`: where it is stored.  `new_chunk` makes the chunks of blocks
    that replace it.  Raises `Corrupt`."""
    whole = _parsed(payload, chunk, new_chunk)
    if whole is not None:
        return whole
    keys, values = Block(payload).columns()
    return Columns(keys, values, chunk)


class _Entries(NamedTuple):
    """The entries of a block, in columns.

    `starts`: where each entry begins, and at the end where the last one ends.  `lengths`: of the
    entries.  `key_marks`, `value_marks`: the bytes before each key and value in `id_pieces`.
    """

    payload: bytes
    starts: Sequence[int]
    lengths: Sequence[int]
    key_marks: Sequence[bytes]
    value_marks: Sequence[bytes]


class WholeColumns(Columns):
    """The records of a block whose keys are stored whole."""

    def __init__(
        self,
        entries: _Entries,
        keys: Sequence[bytes],
        values: Sequence[bytes],
        chunk: Chunk | Absent,
        new_chunk: NewChunk,
    ) -> None:
        super().__init__(keys, values, chunk)
        self.key_size = sum(map(len, keys))
        self.size = self.key_size + sum(map(len, values))
        self._entries = entries
        self._new_chunk = new_chunk

    def id_pieces(self) -> Iterator[bytes]:
        _, _, _, key_marks, value_marks = self._entries
        return seal.interleaved(key_marks, self.keys, value_marks, self.values)

    def packed(self) -> Columns:
        chunk = self.chunk
        if chunk is ABSENT:
            chunk = self._new_chunk(self.last, compressed(self._entries.payload))
        return PackedColumns(self, chunk)

    def changed(self, edits: Sequence[Edit]) -> Columns:
        """See `Columns`.  The result is one block, unless the block would be too short or too long
        (`_LENGTHS`), or many records change."""
        if len(edits) * _EDITED_SHARE > self.count:
            return super().changed(edits)
        editor = _Editor(self._entries, self.keys, self.values)
        for edit in edits:
            editor.apply(*edit)
        block = editor.block(self._new_chunk)
        return super().changed(edits) if block is None else block


class _Editor:
    """Makes the columns of a changed block.  The edits are applied in the order of their keys."""

    def __init__(self, entries: _Entries, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        self._old = entries
        self._pieces: list[bytes] = []  # of the new block
        self._done = 0  # up to this offset, the old block is copied or left out
        self._shift = 0  # records that the edits so far have added, less those that they removed
        self._keys, self._values = list(keys), list(values)
        self._lengths = list(entries.lengths)
        self._key_marks, self._value_marks = list(entries.key_marks), list(entries.value_marks)

    def apply(self, at: int, after: int, key: bytes, value: StagedValue) -> None:
        """See `Edit`."""
        starts = self._old.starts
        self._pieces.append(self._old.payload[self._done : starts[at]])
        self._done = starts[after]
        place = slice(at + self._shift, after + self._shift)
        if value is TOMBSTONE:
            del self._keys[place], self._values[place], self._lengths[place]
            del self._key_marks[place], self._value_marks[place]
            self._shift += at - after
            return
        first = head(len(key), len(value))
        self._pieces += (first, key, BEHIND_KEYS, value)
        self._values[place] = (value,)
        self._value_marks[place] = (seal.mark(len(value)),)
        self._lengths[place] = (len(first) + len(key) + _INTERNAL + len(value),)
        if at == after:
            self._keys[place] = (key,)
            self._key_marks[place] = (seal.mark(len(key)),)
            self._shift += 1

    def block(self, new_chunk: NewChunk) -> WholeColumns | None:
        """The changed block; None if its length is not one of `_LENGTHS`."""
        starts = list(accumulate(self._lengths, initial=0))
        if starts[-1] not in _LENGTHS:
            return None
        rest = self._old.payload[self._done : self._old.starts[-1]]
        payload = b"".join([*self._pieces, rest, restarts(starts[:-1])])
        entries = _Entries(payload, starts, self._lengths, self._key_marks, self._value_marks)
        return WholeColumns(entries, self._keys, self._values, ABSENT, new_chunk)


def _parsed(payload: bytes, chunk: Chunk, new_chunk: NewChunk) -> WholeColumns | None:
    """The records of a block; None if some key is not stored whole, or if the block is damaged or
    empty."""
    count = int.from_bytes(payload[-4:], "little")
    end = len(payload) - 4 - 4 * count
    if end <= 0 or not 0 < count <= limits.table_block_records_count_max:
        return None
    starts = struct.unpack_from(f"<{count}I", payload, end)
    shape_of = _shapes.__getitem__  # as a subscript of a subclass it is slower
    heads = [payload[at : at + _HEAD] for at in starts]
    patterns, lengths, key_marks, value_marks = zip(*map(shape_of, heads), strict=True)
    bounds = tuple(accumulate(lengths, initial=0))
    if bounds[-1] != end or bounds[:-1] != starts:
        return None
    pieces = struct.Struct("".join(patterns)).unpack_from(payload)
    keys = pieces[0::3]
    if set(pieces[1::3]) != {b"\1"} or not all(map(lt, keys, keys[1:])):
        return None
    entries = _Entries(payload, bounds, lengths, key_marks, value_marks)
    return WholeColumns(entries, keys, pieces[2::3], chunk, new_chunk)


class _Shapes(dict[bytes, tuple[str, int, bytes, bytes]]):
    """A cache from an entry's first bytes to its `struct` pattern of key, type and value, its
    length, and its two marks.  A length of 0 means that the entry cannot be parsed here."""

    def __missing__(self, first: bytes) -> tuple[str, int, bytes, bytes]:
        shape = ("", 0, b"", b"")
        lengths = _lengths(first)
        if lengths is not None:
            at, key, value = lengths
            pattern = f"{at}x{key}s1s{_INTERNAL - 1}x{value}s"
            length = at + key + _INTERNAL + value
            shape = (pattern, length, seal.mark(key), seal.mark(value))
        if len(self) >= _SHAPES_MAX:
            self.clear()
        self[first] = shape
        return shape


_shapes = _Shapes()


def _lengths(first: bytes) -> tuple[int, int, int] | None:
    """The lengths of an entry's head, key and value.  None if the key is not stored whole, if the
    head is longer than `first`, or if a length is impossible."""
    try:
        shared, at = identity.read_varint(first, 0)
        unshared, at = identity.read_varint(first, at)
        value, at = identity.read_varint(first, at)
    except Corrupt:
        return None
    if shared or unshared < _INTERNAL or unshared + value > limits.table_block_length_bytes_max:
        return None
    return at, unshared - _INTERNAL, value
