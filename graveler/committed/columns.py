"""Adjacent records in columns: all keys, and all values.

Columns          keys and values
PackedColumns    the same without keys and values, which are read again from the stored chunk
Run              all columns of a range, and the hash of their records
Chunk            some adjacent records of a table
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from operator import itemgetter
from typing import Protocol, TypeVar, overload

from graveler import identity
from graveler.committed import hash
from graveler.records import ABSENT, TOMBSTONE, Absent, Record, StagedValue

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
        return hash.joined(self.keys, self.values)

    def hash_breaks(self, seed: int, raggedness: int) -> Sequence[int]:
        """The positions of the keys after which the hash rule lets a range end."""
        return identity.hash_breaks(self.keys, seed, raggedness)

    def split(self, at: int) -> tuple["Columns", "Columns"]:
        """The first `at` records, and the others."""
        return (
            Columns(self.keys[:at], self.values[:at]),
            Columns(self.keys[at:], self.values[at:]),
        )

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


class PackedColumns(Columns):
    """The records of a stored chunk.  Keys and values are not kept: each access reads the chunk."""

    def __init__(self, columns: Columns, chunk: "Chunk") -> None:
        super().__init__((), (), chunk)
        self._chunk = chunk
        self.first, self.last, self.count = columns.first, columns.last, columns.count
        self.key_size, self.size = columns.key_size, columns.size

    @property
    def keys(self) -> Sequence[bytes]:
        return self._chunk.columns().keys

    @property
    def values(self) -> Sequence[bytes]:
        return self._chunk.columns().values

    @property
    def records(self) -> list[Record]:
        return self._chunk.records()

    def packed(self) -> Columns:
        return self


class Run(Sequence[Columns]):
    """The records of a range, while they are collected.  Columns that have a chunk are hashed when
    they are added, and then packed."""

    def __init__(self, columns: Iterable[Columns] = ()) -> None:
        self._columns: list[Columns] = []
        self._digest = sha256()
        self._hashed = 0  # how many of the columns are in the digest
        for each in columns:
            self.append(each)

    def append(self, columns: Columns) -> None:
        """Add records behind all that were added before."""
        packed = columns.packed()
        self._columns.append(columns)
        if packed is not columns:
            self._hash()
            self._columns[-1] = packed

    def _hash(self) -> None:
        for columns in self._columns[self._hashed :]:
            for piece in columns.id_pieces():
                self._digest.update(piece)
        self._hashed = len(self._columns)

    @overload
    def __getitem__(self, at: int) -> Columns: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Columns]: ...
    def __getitem__(self, at: int | slice) -> Columns | Sequence[Columns]:
        return self._columns[at]

    def __len__(self) -> int:
        return len(self._columns)

    def id(self, properties: Mapping[str, str]) -> str:
        """The id of a range of these records (`graveler.identity.file_id`)."""
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
