"""The range store of production: ranges and metaranges as RocksDB tables, which lakeFS can open.

Format: table version 2, CRC32C, every key whole, Snappy, 16 KiB blocks.  The name of a file is the
hash of its records, never of its bytes.  A write holds one range in memory, where its table is
built (`splice.py`); then `files` makes it durable.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Literal, NamedTuple, TypeVar

from graveler.committed import seal, splice
from graveler.committed.cache import BudgetedCache, CacheFigures
from graveler.committed.columns import Columns, Run
from graveler.committed.ranges import (
    EMPTY_METARANGE,
    METARANGE_PROPERTIES,
    NO_RANGES,
    RANGE_PROPERTIES,
    Metarange,
    Rewrite,
    Rewriters,
    Rewriting,
    Rewritten,
    Waiters,
    check_ranges,
    check_run,
    ref_of,
)
from graveler.committed.splice import BuiltTable
from graveler.committed.table import (
    BlockCache,
    RecordCache,
    SortedTable,
    StoredAgain,
)
from graveler.committed.table_end import TAIL_LENGTH, ByteSource, TableEnd
from graveler.committed.tiers import TableFiles
from graveler.core import wire
from graveler.core.errors import Corrupt
from graveler.core.identity import pairs
from graveler.core.ids import MetarangeId, RangeId, is_hex64
from graveler.core.records import ABSENT, Absent, BreakParameters, RangeRef, Record
from graveler.kv.store import PromptThreads

T = TypeVar("T")

_RANGE_COST = 400  # approximate bytes of memory of a decoded range reference


class SstRangeStore:
    """See `ranges.RangeStore`, and `kv.store.Prompt`.  Four caches, each within its budget in
    bytes: blocks, records that were looked up, open tables (their indexes), and decoded metaranges.
    Safe for any number of threads."""

    def __init__(
        self,
        files: TableFiles,
        block_cache_bytes: int = 300 << 20,
        table_cache_bytes: int = 64 << 20,
        record_cache_bytes: int = 0,
        *,
        is_near: bool = False,
        rewriters: Rewriters | Absent = ABSENT,
        waiters: Waiters | Absent = ABSENT,
    ) -> None:
        """`is_near`: the files are on this machine, so requests cost almost nothing.  `rewriters`:
        what rewrites ranges of this store beside a commit.  `waiters`: that wait for the files
        while many ranges are written."""
        self._waiters = waiters
        self._files = files
        self._is_near = is_near
        self._rewriters = rewriters
        self._prompt = PromptThreads()
        self._decoding: set[tuple[str, str]] = set()  # metaranges that a look-up decodes now
        self._blocks: BlockCache = BudgetedCache(block_cache_bytes)
        self._records: RecordCache = BudgetedCache(record_cache_bytes)
        self._tables: BudgetedCache[tuple[str, str], SortedTable] = BudgetedCache(table_cache_bytes)
        self._metaranges: BudgetedCache[tuple[str, str], Metarange] = BudgetedCache(
            table_cache_bytes
        )
        self._encoding = MetarangeBlocks(table_cache_bytes // 2)

    @property
    def caches(self) -> Mapping[str, CacheFigures]:
        """What the caches have done so far: `blocks`, `records`, `tables` and `metaranges`."""
        return {
            "blocks": self._blocks.figures,
            "records": self._records.figures,
            "tables": self._tables.figures,
            "metaranges": self._metaranges.figures,
        }

    def forbid_waiting(self, thread: int) -> None:
        """See `Prompt`.  A look-up may still read one block of an open table."""
        self._prompt.add(thread)

    def allow_waiting(self, thread: int) -> None:
        """See `Prompt`."""
        self._prompt.discard(thread)

    def open_range(self, namespace: str, range_id: RangeId) -> SortedTable:
        table = self._tables.get((namespace, range_id))
        return self._kept(namespace, range_id) if table is None else table

    def expect(self, namespace: str, refs: Iterable[RangeRef]) -> None:
        self._files.expect(namespace, ((ref.id, ref.size) for ref in refs))

    def _kept(self, namespace: str, name: str) -> SortedTable:
        self._prompt.check()
        return self._opened(namespace, name, self._files.open(namespace, name))

    def _opened(
        self, namespace: str, name: str, source: ByteSource, end: TableEnd | Absent = ABSENT
    ) -> SortedTable:
        table = SortedTable(
            source,
            self._blocks,
            self._records,
            is_near=self._is_near,
            reopen=partial(self._reopened, namespace, name),
            end=end,
        )
        self._tables.put((namespace, name), table, table.cost)
        return table

    def _reopened(self, namespace: str, name: str, failed: SortedTable) -> SortedTable:
        """The table, opened again unless another reader has done so since `failed` was opened."""
        table = self._tables.get((namespace, name))
        if table is not None and table is not failed:
            return table
        self._tables.forget((namespace, name))
        return self._kept(namespace, name)

    def find_range(
        self, namespace: str, metarange_id: MetarangeId, key: bytes
    ) -> RangeRef | Absent:
        place = (namespace, metarange_id)
        metarange = self._metaranges.get(place)
        if metarange is not None:
            return metarange.first_from(key)
        if metarange_id == EMPTY_METARANGE:
            return ABSENT
        table = self._tables.get(place)
        is_wanted_again = table is not None
        if table is None:
            table = self._kept(namespace, metarange_id)
        is_kept_whole = is_wanted_again and self._metaranges.fits(_metarange_cost(table.count))
        is_taken_whole = table.length <= TAIL_LENGTH or is_kept_whole
        # While one look-up decodes all of a metarange, others do not decode it, too.
        if not is_taken_whole or place in self._decoding:
            return _read_current(table, lambda current: _first_from(current, key))
        # The metarange is short, or is used again: read all of it.
        return self._read_noted(namespace, metarange_id).first_from(key)

    def _read_noted(self, namespace: str, metarange_id: MetarangeId) -> Metarange:
        """As `read_metarange`; meanwhile the metarange is one of those that are being decoded."""
        self._prompt.check()  # before the note: it may be another thread's
        place = (namespace, metarange_id)
        self._decoding.add(place)
        try:
            return self.read_metarange(namespace, metarange_id)
        finally:
            self._decoding.discard(place)

    def read_metarange(self, namespace: str, metarange_id: MetarangeId) -> Metarange:
        if metarange_id == EMPTY_METARANGE:
            return NO_RANGES
        key = (namespace, metarange_id)
        metarange = self._metaranges.get(key)
        if metarange is None:
            metarange = self._decoded(namespace, metarange_id)
            self._metaranges.put(key, metarange, _metarange_cost(len(metarange.ranges)))
            self._tables.forget(key)
        return metarange

    def _decoded(self, namespace: str, metarange_id: MetarangeId) -> Metarange:
        self._prompt.check()
        table = self._tables.get((namespace, metarange_id))
        if table is None:
            table = SortedTable(self._files.open(namespace, metarange_id), self._blocks)
        return _read_current(table, lambda current: _decoded(current, metarange_id))

    def write_range(self, namespace: str, records: Sequence[Record]) -> RangeRef:
        return self.splice_range(namespace, [Columns.of(records)])

    def splice_range(self, namespace: str, run: Sequence[Columns]) -> RangeRef:
        ref, build = self._prepared(run)
        self._store(namespace, ref, build)
        return ref

    def write_behind(
        self, namespace: str, run: Sequence[Columns]
    ) -> tuple[RangeRef, Callable[[], object]] | Literal[Absent.ABSENT]:
        """See `ranges.RangeStore`.  ABSENT without `waiters`."""
        if self._waiters is ABSENT:
            return ABSENT
        ref, build = self._prepared(run)
        return ref, self._waiters.begin(partial(self._store, namespace, ref, build))

    def _prepared(self, run: Sequence[Columns]) -> tuple[RangeRef, Callable[[], BuiltTable]]:
        """The reference of a range, and the function that makes its table.  Raises as
        `write_range`."""
        check_run(run)
        run = run if isinstance(run, Run) else Run(run)
        return ref_of(RangeId(run.id(RANGE_PROPERTIES)), run), partial(splice.spliced, run)

    def _store(self, namespace: str, ref: RangeRef, build: Callable[[], BuiltTable]) -> None:
        built = build()
        if self._put(namespace, ref.id, built.content):
            written = self._files.written(namespace, ref.id, built.content)
            if written is not ABSENT:  # readers and the next commit need it
                self._opened(namespace, ref.id, written, built.end)

    def _put(self, namespace: str, name: str, content: Sequence[bytes]) -> bool:
        """See `TableFiles.put`.  An open table of this name may be of a file that was collected."""
        is_written = self._files.put(namespace, name, content)
        self._tables.forget((namespace, name))
        return is_written

    def begin_rewrite(
        self, namespace: str, breaks: BreakParameters, rewrite: Rewrite
    ) -> Rewriting | Absent:
        if self._rewriters is ABSENT:
            return ABSENT
        begun = self._rewriters.begin(namespace, breaks, rewrite)
        return ABSENT if begun is ABSENT else _Rewriting(begun, self, namespace, rewrite.ref)

    def forget(self, namespace: str, refs: Sequence[RangeRef]) -> None:
        """Open these ranges anew: another process has stored them, perhaps again."""
        for ref in refs:
            self._tables.forget((namespace, ref.id))

    def write_metarange(self, namespace: str, ranges: Sequence[RangeRef]) -> MetarangeId:
        check_ranges(ranges)
        metarange_id, content = self._encoding.encoded(ranges)
        self._put(namespace, metarange_id, content)
        self._metaranges.put(
            (namespace, metarange_id), Metarange.of(ranges), _metarange_cost(len(ranges))
        )
        return metarange_id


class _Rewriting:
    """See `Rewriting`."""

    def __init__(
        self, begun: Rewriting, store: SstRangeStore, namespace: str, ref: RangeRef
    ) -> None:
        self._begun = begun
        self._ref = ref
        self._store = store
        self._namespace = namespace

    def result(self, check: Callable[[], None]) -> Rewritten | Absent:
        done = self._begun.result(check)
        if done is not ABSENT:
            self._store.forget(self._namespace, [ref for ref in done.refs if ref != self._ref])
        return done

    def abandon(self) -> None:
        self._begun.abandon()


def _metarange_cost(count: int) -> int:
    """The approximate memory of a decoded metarange of `count` ranges, in bytes."""
    return _RANGE_COST * (1 + count)


def _read_current(table: SortedTable, read: Callable[[SortedTable], T]) -> T:
    """What `read` returns for the table; if its file was stored again, for the file as it is
    now."""
    try:
        return read(table)
    except StoredAgain:
        return read(table.reopened())


def _decoded(table: SortedTable, metarange_id: MetarangeId) -> Metarange:
    """All ranges of a metarange's table.  Raises `Corrupt`, `StoredAgain`."""
    records = [record for chunk in table.chunks() for record in chunk.records()]
    refs: list[RangeRef] = []
    if seal.file_id(records, {**METARANGE_PROPERTIES, **table.marks}) != metarange_id:
        raise Corrupt(f"metarange does not hash to its id: metarange={metarange_id}")
    for record in records:
        ref = _decoded_ref(record)
        if refs and refs[-1].max_key >= ref.min_key:
            raise Corrupt(f"metarange has ranges out of order: metarange={metarange_id}")
        refs.append(ref)
    return Metarange.of(refs)


def _first_from(table: SortedTable, key: bytes) -> RangeRef | Absent:
    """The first range of a metarange's table that does not end before `key`; ABSENT if there is
    none.  Usually reads one block."""
    for chunk in table.chunks(key, streaming=False):
        records = chunk.records()
        at = bisect_left(records, (key, b""))
        if at < len(records):
            return _decoded_ref(records[at])
    return ABSENT


def _decoded_ref(record: Record) -> RangeRef:
    ref = wire.decode_range(record[1])
    if not is_hex64(ref.id):  # it names a file: no other text may reach an address
        raise Corrupt("metarange names a range by something that is not an id")
    if ref.max_key != record[0] or ref.min_key > ref.max_key:
        raise Corrupt(f"metarange names a range by a wrong key: range={ref.id}")
    return ref


# ---- metaranges ----------------------------------------------------------------------------------


_SMALL = seal.BLOCK_LENGTH // 2  # shorter blocks join what is encoded beside them


class _Block(NamedTuple):
    """Adjacent ranges of a metarange.  `hashed`: the bytes by which they enter its id.  `stored`:
    their block in its file.  `key_size`, `size`: of their records, in bytes."""

    refs: tuple[RangeRef, ...]
    hashed: bytes
    stored: bytes
    key_size: int
    size: int

    @property
    def cost(self) -> int:
        """The approximate memory that the block takes, in bytes."""
        references = _RANGE_COST * len(self.refs) + 2 * self.key_size
        return len(self.hashed) + len(self.stored) + references


class EncodedMetarange(NamedTuple):
    """The id of a metarange, and the bytes of its file, in pieces."""

    id: MetarangeId
    content: list[bytes]


class MetarangeBlocks:
    """The blocks of recent metaranges, within a budget in bytes.  A block is used again only for
    equal ranges, so an id is that of one pass over all of them.  Safe for any number of threads."""

    def __init__(self, budget: int) -> None:
        self._recent: BudgetedCache[RangeId, _Block] = BudgetedCache(budget)  # by its first range

    def encoded(self, ranges: Sequence[RangeRef]) -> EncodedMetarange:
        """The metarange over `ranges`, which must be in order and apart."""
        blocks = list(self._blocks(tuple(ranges)))
        digest = sha256()
        for block in blocks:
            digest.update(block.hashed)
        digest.update(pairs(METARANGE_PROPERTIES))
        table = splice.of_blocks(
            ((block.refs[-1].max_key, block.stored) for block in blocks),
            len(ranges),
            sum(block.key_size for block in blocks),
            sum(block.size for block in blocks),
        )
        return EncodedMetarange(MetarangeId(digest.hexdigest()), table.content)

    def _blocks(self, ranges: tuple[RangeRef, ...]) -> Iterator[_Block]:
        new: list[RangeRef] = []
        at = 0
        while at < len(ranges):
            known = self._recent.get(ranges[at].id)
            if known is None or ranges[at : at + len(known.refs)] != known.refs:
                new.append(ranges[at])
                at += 1
                continue
            if new:
                yield from self._new_blocks(new)
                new.clear()
            yield known
            at += len(known.refs)
        yield from self._new_blocks(new)

    def _new_blocks(self, refs: Sequence[RangeRef]) -> Iterator[_Block]:
        records = [wire.encode_range(ref) for ref in refs]
        keys, values = [key for key, _ in records], [value for _, value in records]
        for begin, end in splice.block_bounds(keys, values):
            some, framed = keys[begin:end], values[begin:end]
            key_size = sum(map(len, some))
            block = _Block(
                tuple(refs[begin:end]),
                b"".join(seal.joined(some, framed)),
                seal.compressed(seal.data_payload(some, framed)),
                key_size,
                key_size + sum(map(len, framed)),
            )
            if block.size >= _SMALL:
                self._recent.put(block.refs[0].id, block, block.cost)
            yield block
