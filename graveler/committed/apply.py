"""Applies changes to a base: the new metarange shares every range that no change touches.

    change before or inside a range  ──► the range's records are merged with its changes
    no effective change in a range   ──► the range is added by reference
    change behind the last range     ──► joins the last range if that is still open, otherwise
                                         goes to new ranges

A change is effective if it deletes a record that exists, or writes a value whose identity differs
from the stored one.  Writing a value of equal identity keeps the stored record.  Deleting an absent
key does nothing.  For the engine, and for `merge.py`.
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
_PROBE_COUNT_MAX = 64  # up to so many changes are looked up first: perhaps none is effective


class ApplyResult(NamedTuple):
    """The new metarange, and how many paths it adds, changes and removes."""

    metarange_id: MetarangeId
    added: int
    changed: int
    removed: int

    @property
    def total(self) -> int:
        """The number of paths that differ from the base."""
        return self.added + self.changed + self.removed


def apply(
    space: Keyspace,
    base_id: MetarangeId,
    changes: Iterable[Change],
    *,
    replace: bool = False,
) -> ApplyResult:
    """Apply `changes`, strictly increasing by key, to a base.

    `replace`: a change of equal identity but other bytes is effective too; imports need this.
    Without any effective change the result is `base_id` itself.  Raises `Invalid` if keys are out
    of order.  Cost: a range with more than 64 changes is read; in a range with fewer, the changes
    are looked up first, and the range is read if one of them is effective.  A range with effective
    changes is written.  One put for the metarange.
    """
    refs = space.metarange(base_id).ranges
    assembler = Assembler(space)
    applier = Applier(space, assembler, Changes(changes), replace)
    applier.over(refs, is_tail=True)
    result = assembler.finish()
    if not applier.total:
        return ApplyResult(base_id, 0, 0, 0)
    stored = (
        space.store.write_metarange(space.namespace, result)
        if result or base_id != EMPTY_METARANGE
        else EMPTY_METARANGE
    )
    return ApplyResult(stored, applier.added, applier.changed, applier.removed)


class Changes:
    """A stream of changes in key order, taken batch by batch."""

    def __init__(self, changes: Iterable[Change]) -> None:
        self._changes = iter(changes)
        self._next: Change | None = next(self._changes, None)

    def has(self, bound: bytes) -> bool:
        """Whether the next change is at or below `bound`."""
        return self._next is not None and self._next[0] <= bound

    def take(self, bound: bytes | None) -> list[Change]:
        """The next changes at or below `bound`; None means no bound.  A full batch (4,096) means
        that there may be more."""
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
        """Put changes back, so that `take` returns them first."""
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
    """Merges changes into ranges, adds the result to an assembler, and counts the effective
    changes."""

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
        """The number of effective changes so far."""
        return self.added + self.changed + self.removed

    def over(self, refs: Sequence[RangeRef], *, is_tail: bool) -> None:
        """Add `refs` with all changes applied.  `is_tail`: `refs` include the last range of their
        metarange."""
        for at, ref in enumerate(refs):
            is_last = is_tail and at == len(refs) - 1
            if self._changes.has(ref.max_key) and not self._all_idle(ref):
                self._rewrite(ref, is_last=is_last)
            else:
                self._assembler.add_range(ref, is_last=is_last)
        while batch := self._changes.take(None):
            self._assembler.add(self._merged([], batch))

    def _all_idle(self, ref: RangeRef) -> bool:
        """Whether the changes up to the end of `ref` are few and none is effective.  If so, they
        are consumed."""
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
        idle: list[Columns] = []  # unchanged so far: the range may still be added by reference
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
        """`columns` with the changes up to their last key applied."""
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
        merged = dict(records)
        added = 0
        for key, value in changes:
            old = merged.get(key)
            if not self._differs(old, value):
                continue
            if value is TOMBSTONE:
                del merged[key]
                self.removed += 1
                continue
            if old is None:
                added += 1
            else:
                self.changed += 1
            merged[key] = value
        self.added += added
        return sorted(merged.items()) if added else list(merged.items())
