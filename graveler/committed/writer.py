"""Builds a metarange from sorted records and from ranges that are stored already.

    records ──► open run ──► (a break) ──► stored range ─┐
    range that nothing changed ──── by reference ────────┴─► references ──► metarange

While a run is open, the records of the next stored range join it, until a break falls on a boundary
that the old ranges have too.  So the result equals one pass over all records.

Decides where ranges end.  The first line that applies to a record decides:

    size < min_size                           the range continues
    size >= max_size                          the range ends
    hash of the key % raggedness == 0         the range ends; otherwise it continues

Sizes count keys and framed values, so every writer of a repository finds the same breaks in the
same records (docs/reference/format.md).
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, islice
from operator import add

from graveler.committed.columns import Columns, Run
from graveler.committed.ranges import Keyspace
from graveler.committed.reader import range_columns
from graveler.core.errors import Invalid
from graveler.core.identity import break_hash, break_seed
from graveler.core.ids import MetarangeId
from graveler.core.records import ABSENT, Absent, BreakParameters, RangeRef, Record

# ---- split -----------------------------------------------------------------------------------

NOWHERE = -1


class Splitter:
    """The break rule of one repository."""

    def __init__(self, breaks: BreakParameters) -> None:
        self._breaks = breaks
        self._seed = break_seed(breaks.salt)

    def is_hash_break(self, key: bytes) -> bool:
        """Whether the hash of `key` is a break: the range ends after `key` if it has at least
        `min_size` bytes."""
        return break_hash(key, self._seed) % self._breaks.raggedness == 0

    def closes(self, ref: RangeRef) -> bool:
        """Whether a range ends at a break of the rule, and not only because the records ended."""
        size, breaks = ref.size, self._breaks
        if size < breaks.min_size:
            return False
        return size >= breaks.max_size or self.is_hash_break(ref.max_key)

    def cut(self, columns: Columns, before: int) -> tuple[int, int]:
        """Where to cut `columns`, which continue a range of `before` bytes.

        Returns the position after the first record that ends the range, or NOWHERE; and the size of
        the range with all of `columns`."""
        breaks = self._breaks
        total = before + columns.size
        if total < breaks.min_size:
            return NOWHERE, total
        hits = columns.hash_breaks(self._seed, breaks.raggedness)
        least = max(breaks.min_size, breaks.max_size)
        if total < least and not (hits and breaks.min_size):
            return (hits[0] + 1 if hits else NOWHERE), total
        lengths = map(add, map(len, columns.keys), map(len, columns.values))
        sizes = list(accumulate(lengths, initial=before))  # before each record, and behind the last
        by_hash = next((at + 1 for at in hits if sizes[at + 1] >= breaks.min_size), len(sizes))
        cut = min(by_hash, bisect_left(sizes, least, 1))
        return (cut if cut < len(sizes) else NOWHERE), total


# ---- writer ----------------------------------------------------------------------------------


_BATCH = 4096
_AT_ONCE_COUNT = 2  # ranges after which a commit is one of many, and does not wait for each
_BEHIND_COUNT_MAX = 8
_BEHIND_BYTES_MAX = 16 << 20


class Assembler:
    """Collects the ranges of one metarange, in key order.  Memory: one open run, one more or 16 MiB
    of others that are being written, and the list of range references."""

    def __init__(self, space: Keyspace) -> None:
        self._space = space
        self._splitter = Splitter(space.breaks)
        self._refs: list[RangeRef] = []
        self._run = Run()
        self._size = 0
        self._written = 0  # ranges
        self._behind: deque[tuple[Callable[[], object], int]] = deque()  # perhaps not stored; size
        self._behind_size = 0
        self._reopen = False  # the last reference has no break at its end: its records ran out

    def add(self, records: Sequence[Record]) -> None:
        """Add records behind all that was added before.  Raises `Invalid` if they are out of
        order."""
        self.add_columns(Columns.of(records))

    def add_columns(self, columns: Columns) -> None:
        """As `add`.  If the records are one stored chunk, the store can reuse it."""
        if not columns.count:
            return
        if self._reopen:
            self._reopen_last()
        self._check_order(columns.first)
        rest = columns
        while rest.count:
            cut, size = self._splitter.cut(rest, self._size)
            if cut == NOWHERE:
                self._run.append(rest)
                self._size = size
                return
            if cut == rest.count:
                self._run.append(rest)
                self.close_run()
                return
            head, rest = rest.split(cut)
            self._run.append(head)
            self.close_run()

    def add_range(self, ref: RangeRef, *, is_last: bool) -> None:
        """Add a stored range behind all that was added before.  `is_last`: it is the last range of
        the metarange that it comes from."""
        if self._reopen:
            self._reopen_last()
        if not self._run:
            if self._refs and self._refs[-1].max_key >= ref.min_key:
                raise Invalid(f"write a metarange: ranges overlap: min_key={ref.min_key!r}")
            self._refs.append(ref)
            self._reopen = is_last and not self._splitter.closes(ref)
            return
        for columns in range_columns(self._space, ref):
            self.add_columns(columns)
        self.end_range(ref, is_last=is_last)

    def add_ranges(self, refs: Sequence[RangeRef]) -> None:
        """As `add_range` for adjacent ranges of a metarange, not the last one."""
        joined = 0
        while joined < len(refs) and not self.is_settled:
            self.add_range(refs[joined], is_last=False)
            joined += 1
        self.add_stored(refs[joined:])

    def add_stored(self, refs: Sequence[RangeRef]) -> None:
        """Add stored ranges behind all that was added before.  No record of the last one joins what
        follows.  Only if `is_settled`."""
        if refs and self._refs and self._refs[-1].max_key >= refs[0].min_key:
            raise Invalid(f"write a metarange: ranges overlap: min_key={refs[0].min_key!r}")
        self._refs += refs

    def end_range(self, ref: RangeRef, *, is_last: bool) -> None:
        """Call this after all records that replace the stored range `ref` were added.

        A stored range may end where this repository's rule sets no break.  Its old end is then
        kept, so that a change stays local.
        """
        if not is_last and not self._splitter.closes(ref):
            self.close_run()

    def close_run(self) -> None:
        """Store the open run, if there is one, as a range.  One `splice_range`; beyond the first
        ranges, it may end later."""
        if not self._run:
            return
        run, self._run, self._size = self._run, Run(), 0
        store, namespace = self._space.store, self._space.namespace
        self._written += 1
        begun: tuple[RangeRef, Callable[[], object]] | Absent = ABSENT
        if self._written > _AT_ONCE_COUNT:
            begun = store.write_behind(namespace, run)
        if begun is ABSENT:
            self._refs.append(store.splice_range(namespace, run))
            return
        ref, behind = begun
        self._refs.append(ref)
        self._behind.append((behind, ref.size))
        self._behind_size += ref.size
        self._await_all_but(_BEHIND_COUNT_MAX, _BEHIND_BYTES_MAX)

    def _await_all_but(self, count: int, size: int) -> None:
        """Return when at most `count` ranges of together `size` bytes are not stored yet."""
        while len(self._behind) > count or self._behind_size > size:
            behind, length = self._behind.popleft()
            self._behind_size -= length
            behind()

    @property
    def is_settled(self) -> bool:
        """Whether the ranges so far are final, so that the next stored range is added by
        reference."""
        return not self._run and not self._reopen

    def finish(self) -> tuple[RangeRef, ...]:
        """Store the open run and return all ranges, which are durable then."""
        self.close_run()
        self._await_all_but(0, 0)
        return tuple(self._refs)

    def _reopen_last(self) -> None:
        self._reopen = False
        for columns in range_columns(self._space, self._refs.pop()):
            self.add_columns(columns)

    def _check_order(self, key: bytes) -> None:
        if self._run:
            in_order = key > self._run[-1].last
        else:
            in_order = not self._refs or key > self._refs[-1].max_key
        if not in_order:
            raise Invalid(f"write a range: keys must be strictly increasing: key={key!r}")


def write(space: Keyspace, records: Iterable[Record]) -> MetarangeId:
    """Store sorted records as ranges, and return the id of the metarange over them.  Raises
    `Invalid` at a key that is not greater than the one before it.  Cost: one put per range, one
    for the metarange."""
    assembler = Assembler(space)
    for batch in batches(records):
        assembler.add(batch)
    return space.store.write_metarange(space.namespace, assembler.finish())


def batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    """The records in lists of 4,096."""
    iterator = iter(records)
    while batch := list(islice(iterator, _BATCH)):
        yield batch
