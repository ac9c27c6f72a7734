"""Reads one RocksDB block-based table from any bytes that can be read by offset.

    data blocks ‖ (filter) ‖ properties ‖ metaindex ‖ index … ‖ footer

A table is either correct or raises `Corrupt`: checksums, handles, bounds and order of keys, and
properties are checked.  A file that was collected and stored again may have other blocks than the
index of a table that stays open.  So a reader that meets `Corrupt` opens the file again:

    get, walk       go on in the file as it is now; they raise `Corrupt` only if that fails too
    chunks          raise `StoredAgain` if the file has other blocks now, otherwise `Corrupt`

Safe for any number of threads.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from graveler.committed.blocks import Block, StoredBlock, unseal
from graveler.committed.cache import BudgetedCache
from graveler.committed.columns import Columns, columns_of
from graveler.committed.remote import NEAR, TableWalk, far
from graveler.committed.table_end import ByteSource, TableEnd, properties_of, read_end
from graveler.core.errors import Corrupt, Unavailable
from graveler.core.records import ABSENT, Absent, Record

SPAN_LENGTH = 1024 * 1024
_TABLE_COST = 2_000  # bytes of memory: an open table, its source and its entry in a cache
_BLOCK_COST = 60  # bytes of memory: a block in an index, without the bytes of its bound

_KEPT_RECORD_COST = 370  # bytes of memory: a record in a cache, without its key and value

BlockCache = BudgetedCache[tuple[str, int], Block]  # by the layout of a table, and the number
RecordCache = BudgetedCache[tuple[str, bytes], bytes]
_NO_RECORDS: Final[RecordCache] = BudgetedCache(0)


class StoredAgain(Unavailable):
    """The file was collected and stored again with other blocks, after this table was opened.  It
    is open again: the next try reads it."""


class StoredChunk:
    """One data block with its stored bytes.  It is checked and decompressed when its records are
    requested.

    `table`: where it was read; ABSENT if it is not part of a file yet."""

    __slots__ = ("_table", "bound", "is_current", "stored")

    def __init__(
        self, bound: bytes, stored: bytes, prefixed: bool, table: "SortedTable | Absent" = ABSENT
    ) -> None:
        self.bound = bound
        self.stored = stored
        self.is_current = prefixed  # it can be reused in a table of the current version
        self._table = table

    def block(self) -> StoredBlock:
        """The block, checked.  Raises `Corrupt`, `StoredAgain`."""
        try:
            return StoredBlock(self.stored, self.is_current)
        except Corrupt:
            if self._table is not ABSENT:
                _check_current(self._table)
            raise

    def records(self) -> list[Record]:
        return list(Block(self.block().payload()).records())

    def columns(self) -> Columns:
        return columns_of(self.block().payload(), self, StoredChunk.replacing)

    @classmethod
    def replacing(cls, last: bytes, stored: bytes) -> "StoredChunk":
        """A block of the current version that is not part of a file yet."""
        return cls(last, stored, True)


class SortedTable:
    """An open table.  Its index is in memory; its blocks are read on demand through `cache`."""

    def __init__(
        self,
        source: ByteSource,
        cache: BlockCache,
        records: RecordCache = _NO_RECORDS,
        *,
        is_near: bool = False,
        reopen: "Reopen | Absent" = ABSENT,
        end: TableEnd | Absent = ABSENT,
    ) -> None:
        """`cache` and `records` are shared by many tables.  `records` keeps values for which
        look-ups had to read a block.  `is_near`: requests cost almost nothing, so walks read no
        further ahead than needed.  `reopen`: see `reopened`.  `end`: what `read_end` would
        read, if the caller knows it."""
        self._source = source
        self._reopen = reopen
        self._is_near = is_near
        self._cache = cache
        self._records = records
        end = read_end(source) if end is ABSENT else end
        self.length, self.count = end.length, end.count
        self.stored_properties, self._prefixed = end.properties, end.is_prefixed
        self._bounds, self._starts, self._ends = end.bounds, end.starts, end.ends
        # A file that was deleted and stored again has the same records, perhaps in other blocks.
        # If the indexes are equal, so are the records of each block: the name is the hash of all
        # records, and the bounds in the index divide them.
        self.layout = f"{source.name} {hash(end.index):x}"

    @property
    def marks(self) -> Mapping[str, str]:
        """The properties that lakeFS hashes into the ids of dumped refs."""
        known = properties_of(self.stored_properties)
        return {name: known[name].decode(errors="replace") for name in _MARKS if name in known}

    @property
    def cost(self) -> int:
        """The approximate memory that the open table takes, in bytes."""
        index = sum(map(len, self._bounds)) + _BLOCK_COST * len(self._bounds)
        return _TABLE_COST + len(self.stored_properties) + self._source.held + index

    def reopened(self) -> "SortedTable":
        """The file, opened again by whoever keeps this table open; this table if nobody does.
        Raises `NotFound`, `Corrupt`, and `WouldWait` on a thread that must not wait.  Cost: one
        request, if no other reader has opened the file again already."""
        return self if self._reopen is ABSENT else self._reopen(self)

    def get(self, key: bytes) -> bytes | Absent:
        """See `ranges.Table`.  Cost when it meets damage: one block more, and what `reopened`
        costs."""
        try:
            return self._value(key)
        except Corrupt:
            table = self.reopened()
            if table is self:
                raise
            return table._value(key)

    def _value(self, key: bytes) -> bytes | Absent:
        index = bisect_left(self._bounds, key)
        if index == len(self._bounds):
            return ABSENT
        block = self._cache.get((self.layout, index))
        if block is not None:
            return block.get(key)
        name = self._source.name
        value: bytes | Absent | None = self._records.get((name, key))
        if value is None:
            value = self.opened(index, self._stored(index)).get(key)
            if value is not ABSENT:
                cost = len(key) + len(value) + _KEPT_RECORD_COST
                self._records.put((name, key), value, cost)
        return value

    def chunks(self, start: bytes = b"", *, streaming: bool = True) -> Iterator["Chunk"]:
        first = bisect_left(self._bounds, start)
        if streaming:
            return self._streamed(first)
        return (
            CachedChunk(self._bounds[index], self, index)
            for index in range(first, len(self._bounds))
        )

    def _streamed(self, first: int) -> Iterator["Chunk"]:
        index = first
        while index < len(self._starts):
            for stored in _current_span(self, index, SPAN_LENGTH):
                yield StoredChunk(self._bounds[index], stored, self._prefixed, self)
                index += 1

    def walk(self, *, first: int, ahead: int) -> TableWalk:
        if self._is_near:
            return TableWalk(self, NEAR)
        return TableWalk(self, far(self._share(first), self._share(ahead)))

    def _share(self, records: int) -> int:
        """The stored length of this number of records: the average plus 1/8."""
        end = self._ends[-1] if self._ends else 0
        return end * records // max(1, self.count) * 9 // 8

    @property
    def blocks_count(self) -> int:
        """The number of data blocks."""
        return len(self._starts)

    def position(self, key: bytes) -> int:
        """The first block whose bound is not below `key`; the number of blocks if there is none."""
        return bisect_left(self._bounds, key)

    def _stored(self, index: int) -> bytes:
        """The stored bytes of a data block.  One request."""
        begin = self._starts[index]
        return self._source.read(begin, self._ends[index] - begin)

    def span(self, index: int, reach: int) -> list[bytes]:
        """The stored bytes of data blocks, from block `index` on: as many as fit in `reach` bytes,
        but at least one.  One request."""
        starts, ends = self._starts, self._ends
        begin = starts[index]
        after = max(index + 1, bisect_right(ends, begin + reach, index))
        raw = self._source.read(begin, ends[after - 1] - begin)
        return [raw[starts[at] - begin : ends[at] - begin] for at in range(index, after)]

    def cached(self, index: int) -> Block | None:
        """A data block, if it is cached.  From now on it stays parsed: readers of many records come
        back to it."""
        place = (self.layout, index)
        block = self._cache.get(place)
        if block is not None and not block.is_parsed:
            block = block.parsed()
            self._cache.put(place, block, block.cost)
        return block

    def opened(self, index: int, stored: bytes, *, is_cached: bool = True) -> Block:
        """A data block from its stored bytes, checked; cached if `is_cached`.  Raises `Corrupt`."""
        try:
            block = Block(unseal(stored, self._prefixed))
            self._check_bounds(index, block.edges())
        except Corrupt as error:
            raise Corrupt(f"{error}: table={self._source.name}") from error
        if is_cached:
            self._cache.put((self.layout, index), block, block.cost)
        return block

    def _block(self, index: int) -> Block:
        block = self._cache.get((self.layout, index))
        if block is not None:
            return block
        try:
            return self.opened(index, self._stored(index))
        except Corrupt:
            _check_current(self)
            raise

    def _check_bounds(self, index: int, edges: tuple[bytes, bytes] | Absent) -> None:
        if edges is ABSENT:
            return
        least, greatest = edges
        if (
            least > greatest
            or greatest > self._bounds[index]
            or (index and least <= self._bounds[index - 1])
        ):
            raise Corrupt(f"block has keys outside its bounds: block={index}")

    def block_columns(self, index: int) -> tuple[Sequence[bytes], Sequence[bytes]]:
        """The keys and values of a data block, which stays cached."""
        return self._block(index).columns()


class CachedChunk:
    """One data block that is read through the cache."""

    __slots__ = ("_index", "_table", "bound")

    def __init__(self, bound: bytes, table: SortedTable, index: int) -> None:
        self.bound = bound
        self._table = table
        self._index = index

    @property
    def stored(self) -> bytes:
        return _current_span(self._table, self._index, 0)[0]

    def records(self) -> list[Record]:
        return list(zip(*self._table.block_columns(self._index), strict=True))

    def columns(self) -> Columns:
        return Columns(*self._table.block_columns(self._index), self)


Chunk = StoredChunk | CachedChunk
Reopen = Callable[[SortedTable], SortedTable]

_MARKS = ("entity", "schema_name", "schema_definition")


def _check_current(table: SortedTable) -> None:
    """Open the file of `table` again, for later readers.  Raises `StoredAgain` if it has other
    blocks than `table`, and what `SortedTable.reopened` raises."""
    if table.reopened().layout != table.layout:
        raise StoredAgain(
            f"table was stored again with other blocks; try again: layout={table.layout}"
        )


def _current_span(table: SortedTable, index: int, reach: int) -> list[bytes]:
    """As `SortedTable.span`.  Raises `StoredAgain` if the file has other blocks than `table`: then
    it may be shorter."""
    try:
        return table.span(index, reach)
    except Corrupt:
        _check_current(table)
        raise
