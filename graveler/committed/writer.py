"""From sorted records, and ranges that exist already, to the metarange over them.

    records ──► open run ──► (a break) ──► stored range ─┐
    range that nothing changed ──── by reference ────────┴─► references ──► metarange

A range goes in by reference only while no run is open; else its records join the run, until a break
falls on an end that the old ranges have too, and copying goes on.  So the result is what one pass
over all records would have written, wherever the old ranges came from the same break parameters.
For this package and the engine.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from graveler.committed.ranges import Columns, Keyspace
from graveler.committed.reader import range_columns
from graveler.committed.split import NOWHERE, Splitter
from graveler.errors import Invalid
from graveler.ids import MetarangeId
from graveler.records import RangeRef, Record

_BATCH = 4096


class Assembler:
    """Collects the ranges of one metarange, in key order.  Memory: one open run."""

    def __init__(self, space: Keyspace) -> None:
        self._space = space
        self._splitter = Splitter(space.breaks)
        self._refs: list[RangeRef] = []
        self._run: list[Columns] = []
        self._size = 0
        self._reopen = False  # the last reference ends only because its side had no more records

    def add(self, records: Sequence[Record]) -> None:
        """Records that follow whatever came before.  Raises `Invalid` if they are out of order."""
        self.add_columns(Columns.of(records))

    def add_columns(self, columns: Columns) -> None:
        """As `add`; records that still are a chunk of the store need not be made again."""
        if not columns.keys:
            return
        if self._reopen:
            self._reopen_last()
        self._check_order(columns.keys[0])
        rest = columns
        while rest.keys:
            cut, size = self._splitter.cut(rest, self._size)
            if cut == NOWHERE:
                self._run.append(rest)
                self._size = size
                return
            if cut == len(rest.keys):
                self._run.append(rest)
                self.close_run()
                return
            head, rest = rest.split(cut)
            self._run.append(head)
            self.close_run()

    def add_range(self, ref: RangeRef, *, is_last: bool) -> None:
        """A stored range that follows whatever came before.  `is_last`: the metarange that it
        comes from has none behind it."""
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

    def end_range(self, ref: RangeRef, *, is_last: bool) -> None:
        """The records that took the place of `ref` are all in.  If that range did not end by the
        rule of this repository, its end is kept as it is, so that a change stays local."""
        if not is_last and not self._splitter.closes(ref):
            self.close_run()

    def close_run(self) -> None:
        """Store the open run, if there is one, as a range."""
        if self._run:
            self._refs.append(self._space.store.splice_range(self._space.namespace, self._run))
            self._run = []
            self._size = 0

    @property
    def is_settled(self) -> bool:
        """Whether what follows cannot change the ranges that are there: a stored range goes in by
        reference."""
        return not self._run and not self._reopen

    def finish(self) -> tuple[RangeRef, ...]:
        """All ranges, stored."""
        self.close_run()
        return tuple(self._refs)

    def _reopen_last(self) -> None:
        self._reopen = False
        for columns in range_columns(self._space, self._refs.pop()):
            self.add_columns(columns)

    def _check_order(self, key: bytes) -> None:
        if self._run:
            in_order = key > self._run[-1].keys[-1]
        else:
            in_order = not self._refs or key > self._refs[-1].max_key
        if not in_order:
            raise Invalid(f"write a range: keys must be strictly increasing: key={key!r}")


def write(space: Keyspace, records: Iterable[Record]) -> MetarangeId:
    """Store sorted records; the metarange over them.  Raises `Invalid` at a key that is not greater
    than the one before it.  Cost: one put a range, one for the metarange."""
    assembler = Assembler(space)
    for batch in batches(records):
        assembler.add(batch)
    return space.store.write_metarange(space.namespace, assembler.finish())


def batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Lists of some thousand records."""
    iterator = iter(records)
    while batch := list(islice(iterator, _BATCH)):
        yield batch
