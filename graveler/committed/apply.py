"""Changes over a base: a new metarange that shares every range that no change touches.

    change below or inside a range ──► that range's records are merged with its changes
    nothing effective in a range   ──► the range by reference
    behind the last range          ──► the last one if it is still open, else new ranges

A change is effective if it deletes what is there, or if its identity differs from what is there;
writing what is there already keeps the older record, and deleting what is not there is nothing.
For the engine, and for `merge.py`.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from graveler.committed.ranges import EMPTY_METARANGE, Columns, Keyspace
from graveler.committed.reader import range_columns
from graveler.committed.writer import Assembler
from graveler.errors import Invalid
from graveler.framing import identity_of
from graveler.ids import MetarangeId
from graveler.records import TOMBSTONE, Change, RangeRef, Record, StagedValue

_BATCH = 4096
_PROBE_COUNT_MAX = 64  # so few changes are looked up first, lest a range be read for nothing


class Applied(NamedTuple):
    """The new metarange, and how many paths it adds, changes and removes."""

    metarange_id: MetarangeId
    added: int
    changed: int
    removed: int

    @property
    def total(self) -> int:
        """How many paths differ from the base."""
        return self.added + self.changed + self.removed


def apply(
    space: Keyspace,
    base_id: MetarangeId,
    changes: Iterable[Change],
    *,
    replace: bool = False,
) -> Applied:
    """Apply `changes`, strictly increasing by key, to a base.

    With `replace`, a change of equal identity but other bytes is effective too, as imports want.
    Without any effective change the result is `base_id` itself.  Raises `Invalid` at keys out of
    order.  Cost: the ranges that effective changes touch are read and written; changes without
    effect are looked up; one put for the metarange.
    """
    refs = space.metarange(base_id).ranges
    assembler = Assembler(space)
    applier = Applier(space, assembler, Changes(changes), replace)
    applier.over(refs, is_tail=True)
    result = assembler.finish()
    if not applier.total:
        return Applied(base_id, 0, 0, 0)
    stored = (
        space.store.write_metarange(space.namespace, result)
        if result or base_id != EMPTY_METARANGE
        else EMPTY_METARANGE
    )
    return Applied(stored, applier.added, applier.changed, applier.removed)


class Changes:
    """Changes in order, taken batch by batch."""

    def __init__(self, changes: Iterable[Change]) -> None:
        self._changes = iter(changes)
        self._next: Change | None = next(self._changes, None)

    def has(self, bound: bytes) -> bool:
        """Whether the next change is at or below `bound`."""
        return self._next is not None and self._next[0] <= bound

    def take(self, bound: bytes | None) -> list[Change]:
        """The next changes at or below `bound`; a full batch means that there may be more."""
        taken: list[Change] = []
        following = self._next
        while following is not None and (bound is None or following[0] <= bound):
            if len(taken) == _BATCH:
                break
            taken.append(following)
            following = next(self._changes, None)
            if following is not None and following[0] <= taken[-1][0]:
                raise Invalid(
                    f"apply changes: keys must be strictly increasing: key={following[0]!r}"
                )
        self._next = following
        return taken

    def give_back(self, changes: Sequence[Change]) -> None:
        """Take these again first."""
        if changes:
            self._changes = _chained(changes[1:], self._next, self._changes)
            self._next = changes[0]


def _chained(
    first: Sequence[Change], middle: Change | None, rest: Iterator[Change]
) -> Iterator[Change]:
    yield from first
    if middle is not None:
        yield middle
        yield from rest


class Applier:
    """Feeds an assembler with ranges and changes, and counts what took effect."""

    def __init__(
        self, space: Keyspace, assembler: Assembler, changes: Changes, replace: bool
    ) -> None:
        self._space = space
        self._assembler = assembler
        self._changes = changes
        self._replace = replace
        self.added = 0
        self.changed = 0
        self.removed = 0

    @property
    def total(self) -> int:
        """How many changes took effect."""
        return self.added + self.changed + self.removed

    def over(self, refs: Sequence[RangeRef], *, is_tail: bool) -> None:
        """All of `refs` with all changes.  `is_tail`: no range of theirs lies behind them."""
        for at, ref in enumerate(refs):
            is_last = is_tail and at == len(refs) - 1
            if self._changes.has(ref.max_key) and not self._all_idle(ref):
                self._rewrite(ref, is_last=is_last)
            else:
                self._assembler.add_range(ref, is_last=is_last)
        while batch := self._changes.take(None):
            self._assembler.add(self._merged([], batch))

    def _all_idle(self, ref: RangeRef) -> bool:
        """Whether the few changes up to the end of `ref` have no effect; they are gone then."""
        taken = self._changes.take(ref.max_key)
        if len(taken) <= _PROBE_COUNT_MAX:
            table = self._space.open(ref)
            if not any(self._differs(table.get(key), value) for key, value in taken):
                return True
        self._changes.give_back(taken)
        return False

    def _differs(self, old: object, new: StagedValue) -> bool:
        if not isinstance(old, bytes):
            return new is not TOMBSTONE
        if new is TOMBSTONE:
            return True
        if identity_of(old) == identity_of(new):
            return self._replace and old != new
        return True

    def _rewrite(self, ref: RangeRef, *, is_last: bool) -> None:
        before = self.total
        idle: list[Columns] = []  # unchanged so far: the range may still go by reference
        for columns in range_columns(self._space, ref):
            for merged in self._merged_with_all(columns):
                if self.total == before:
                    idle.append(merged)
                    continue
                for held in idle:
                    self._assembler.add_columns(held)
                idle.clear()
                self._assembler.add_columns(merged)
        if self.total == before:
            self._assembler.add_range(ref, is_last=is_last)
        else:
            self._assembler.end_range(ref, is_last=is_last)

    def _merged_with_all(self, columns: Columns) -> Iterator[Columns]:
        """`columns` with the changes up to their last key."""
        bound = columns.keys[-1]
        while self._changes.has(bound):
            batch = self._changes.take(bound)
            if len(batch) < _BATCH:
                before = self.total
                merged = self._merged(columns.records, batch)
                yield columns if self.total == before else Columns.of(merged)
                return
            head, columns = columns.split(bisect_right(columns.keys, batch[-1][0]))
            yield Columns.of(self._merged(head.records, batch))
        yield columns

    def _merged(self, records: list[Record], changes: Sequence[Change]) -> list[Record]:
        kept = dict(records)
        added = 0
        for key, value in changes:
            old = kept.get(key)
            if not self._differs(old, value):
                continue
            if value is TOMBSTONE:
                del kept[key]
                self.removed += 1
                continue
            if old is None:
                added += 1
            else:
                self.changed += 1
            kept[key] = value
        self.added += added
        return sorted(kept.items()) if added else list(kept.items())
