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
from typing import Protocol, TypeVar

from graveler.committed import seal
from graveler.committed.blocks import Block, read_varint
from graveler.committed.seal import BEHIND_KEYS
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


def columns_of(payload: bytes, chunk: Chunk) -> Columns:
    """The records of a block.  `chunk`: where it is stored.  Raises `Corrupt`."""
    whole = _parsed(payload, chunk)
    if whole is not None:
        return whole
    keys, values = Block(payload).columns()
    return Columns(keys, values, chunk)


class WholeColumns(Columns):
    """The records of a block whose keys are stored whole.  `marks`: the bytes before each key, and
    those before each value, in `id_pieces`."""

    def __init__(
        self,
        keys: Sequence[bytes],
        values: Sequence[bytes],
        marks: tuple[Sequence[bytes], Sequence[bytes]],
        chunk: Chunk,
    ) -> None:
        super().__init__(keys, values, chunk)
        self._marks = marks

    def id_pieces(self) -> Iterator[bytes]:
        key_marks, value_marks = self._marks
        return seal.interleaved(key_marks, self.keys, value_marks, self.values)


def _parsed(payload: bytes, chunk: Chunk) -> WholeColumns | None:
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
    return WholeColumns(keys, pieces[2::3], (key_marks, value_marks), chunk)


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
        shared, at = read_varint(first, 0)
        unshared, at = read_varint(first, at)
        value, at = read_varint(first, at)
    except Corrupt:
        return None
    if shared or unshared < _INTERNAL or unshared + value > limits.table_block_length_bytes_max:
        return None
    return at, unshared - _INTERNAL, value
