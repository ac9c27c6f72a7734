"""Applies changes to a base: the new metarange shares every range that no change touches.

    change before or inside a range  ──► the range's records are merged with its changes
    no effective change in a range   ──► the range is added by reference
    change behind the last range     ──► joins the last range if that is still open, otherwise
                                         goes to new ranges

A change is effective if it deletes a record that exists, or writes a value whose identity differs
from the stored one.  If many ranges change, processes or threads rewrite most of them, if the store
has some; the result is the same.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from operator import eq, itemgetter, lt, ne
from typing import NamedTuple

from graveler.committed.columns import Columns, Edit
from graveler.committed.ranges import (
    EMPTY_METARANGE,
    Keyspace,
    Rewrite,
    Rewriting,
    Rewritten,
    max_key_of,
)
from graveler.committed.reader import range_columns
from graveler.committed.writer import Assembler
from graveler.core.errors import Invalid
from graveler.core.identity import identity_of
from graveler.core.ids import MetarangeId
from graveler.core.records import ABSENT, TOMBSTONE, Absent, Change, RangeRef, StagedValue

_BATCH = 4096
_PROBE_COUNT_MAX = 64  # up to so many changes are looked up first: perhaps none is effective
_ALONE_COUNT = 3  # ranges that are rewritten here before further ones are handed over
_HANDED_BYTES_MAX = 4 << 20  # of the changes of one range that is handed over
_HANDED_RANGES_MAX = 8  # that are handed over at a time; their changes stay in memory here


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


def rewritten(space: Keyspace, rewrite: Rewrite) -> Rewritten | Absent:
    """Apply changes to one range that is not the last one of its metarange.

    Returns the ranges that take its place.  ABSENT if they depend on the records behind it: its
    last records, which have no break, join the next range.  Errors and cost: those of `apply`,
    without the metarange."""
    assembler = Assembler(space)
    applier = Applier(space, assembler, Changes(rewrite.changes), rewrite.replace)
    applier.over((rewrite.ref,), is_tail=False)
    if not assembler.is_settled:
        return ABSENT
    return Rewritten(assembler.finish(), applier.added, applier.changed, applier.removed)


class Changes:
    """A stream of changes in key order, taken batch by batch.  Reads at most one batch ahead."""

    def __init__(self, changes: Iterable[Change]) -> None:
        self._source = iter(changes)
        self._ready: list[Change] = []  # read from the source; taken up to `_at`
        self._at = 0
        self._last: bytes | Absent = ABSENT
        self._read_on()

    def has(self, bound: bytes) -> bool:
        """Whether the next change is at or below `bound`."""
        return self._at < len(self._ready) and self._ready[self._at][0] <= bound

    def first_of(self, refs: Sequence[RangeRef], begin: int) -> int:
        """The first of `refs`, from `begin` on, that does not end before the next change; the
        number of `refs` if there is none."""
        if self._at == len(self._ready):
            return len(refs)
        return bisect_left(refs, self._ready[self._at][0], begin, key=max_key_of)

    def take(self, bound: bytes | None) -> list[Change]:
        """The next changes at or below `bound`; None means no bound.  A full batch (4,096) means
        that there may be more."""
        if len(self._ready) - self._at <= _BATCH and (bound is None or self._ends_below(bound)):
            self._read_on()
        ready, begin = self._ready, self._at
        end = min(len(ready), begin + _BATCH)
        if bound is not None:
            end = bisect_right(ready, bound, begin, end, key=_key)
        self._at = end
        return ready[begin:end]

    def give_back(self, changes: Sequence[Change]) -> None:
        """Let the next `take` begin with these changes, which were the last ones to be taken."""
        self._ready[: self._at] = changes
        self._at = 0

    def _ends_below(self, bound: bytes) -> bool:
        return bool(self._ready) and self._ready[-1][0] <= bound

    def _read_on(self) -> None:
        """Read a batch.  Raises `Invalid` if it is out of order."""
        batch = list(islice(self._source, _BATCH))
        keys = [] if self._last is ABSENT else [self._last]
        keys += map(_key, batch)
        if not all(map(lt, keys, keys[1:])):
            wrong = next(right for left, right in pairwise(keys) if left >= right)
            raise Invalid(f"apply changes: keys must be strictly increasing: key={wrong!r}")
        self._ready = self._ready[self._at :] + batch
        self._at = 0
        self._last = keys[-1] if keys else ABSENT


_key: Callable[[Change], bytes] = itemgetter(0)


class _Pending(NamedTuple):
    """Ranges that wait to be added: unchanged ones, or one with changes that are applied
    elsewhere."""

    refs: Sequence[RangeRef]
    changes: Sequence[Change] = ()
    rewriting: Rewriting | Absent = ABSENT

    def abandon(self) -> None:
        """Nobody takes it back."""
        if self.rewriting is not ABSENT:
            self.rewriting.abandon()


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
        self._rewritten = 0  # ranges that were rewritten here
        self._is_alone = False  # nobody else rewrites ranges
        self._pending: deque[_Pending] = deque()  # behind what the assembler has, in key order
        self._under_way = 0  # those of them that are rewritten elsewhere
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
        try:
            at = 0
            while at < len(refs):
                untouched = min(self._changes.first_of(refs, at), len(refs) - is_tail)
                if at < untouched:
                    self._keep(refs[at:untouched])
                    at = untouched
                else:
                    self._add(refs[at], is_last=is_tail and at == len(refs) - 1)
                    at += 1
            self._take_back(0)
        finally:
            for each in self._pending:  # after an error
                each.abandon()
        while batch := self._changes.take(None):
            self._assembler.add_columns(self._merged(Columns((), ()), batch))

    def _keep(self, refs: Sequence[RangeRef]) -> None:
        """Add ranges without changes, or let them wait for those before them."""
        if self._pending:
            self._pending.append(_Pending(refs))
        else:
            self._assembler.add_ranges(refs)

    def _add(self, ref: RangeRef, *, is_last: bool) -> None:
        """Add a range with the next changes applied, or let it wait for those before it."""
        is_changed = self._changes.has(ref.max_key)
        if is_changed and not is_last and self._hand_over(ref):
            return
        self._take_back(0)
        if not is_changed or self._all_idle(ref):
            self._assembler.add_range(ref, is_last=is_last)
        else:
            self._rewritten += 1
            self._rewrite(ref, is_last=is_last)

    def _hand_over(self, ref: RangeRef) -> bool:
        """Let a range be rewritten elsewhere; False if it has to be done here."""
        if self._is_alone or self._rewritten < _ALONE_COUNT:
            return False
        if not self._pending and not self._assembler.is_settled:  # its records join what is open
            return False
        changes = self._taken(ref.max_key)
        if changes is ABSENT:
            return False
        if changes[-1] == (ref.max_key, TOMBSTONE):  # what is left of it joins the next range
            self._changes.give_back(changes)
            return False
        space, rewrite = self._space, Rewrite(ref, changes, self._replace)
        space.check()
        rewriting = space.store.begin_rewrite(space.namespace, space.breaks, rewrite)
        if rewriting is ABSENT:
            self._is_alone = True
            self._changes.give_back(changes)
            return False
        self._pending.append(_Pending((ref,), changes, rewriting))
        self._under_way += 1
        self._take_back(_HANDED_RANGES_MAX)
        return True

    def _taken(self, bound: bytes) -> list[Change] | Absent:
        """All changes at or below `bound`.  ABSENT, and none is taken, if they are too many."""
        changes: list[Change] = []
        size = 0
        while self._changes.has(bound):
            batch = self._changes.take(bound)
            changes += batch
            size += sum(len(key) + (0 if new is TOMBSTONE else len(new)) for key, new in batch)
            if size > _HANDED_BYTES_MAX:
                self._changes.give_back(changes)
                return ABSENT
        return changes

    def _take_back(self, count: int) -> None:
        """Add what was handed over, until at most `count` ranges are elsewhere."""
        while self._pending and (self._under_way > count or not count):
            each = self._pending.popleft()
            if each.rewriting is ABSENT:
                self._assembler.add_ranges(each.refs)
                continue
            self._under_way -= 1
            done: Rewritten | Absent = ABSENT
            if self._assembler.is_settled:
                done = each.rewriting.result(self._space.check)
            else:
                each.abandon()
            if done is ABSENT:
                self._redo(each)
            else:
                self._assembler.add_stored(done.refs)
                self._count(done.added, done.changed, done.removed)

    def _redo(self, pending: _Pending) -> None:
        changes = Changes(pending.changes)
        applier = Applier(self._space, self._assembler, changes, self._replace)
        applier.over(pending.refs, is_tail=False)
        self._count(applier.added, applier.changed, applier.removed)

    def _count(self, added: int, changed: int, removed: int) -> None:
        self.added += added
        self.changed += changed
        self.removed += removed

    def _all_idle(self, ref: RangeRef) -> bool:
        """Whether the changes up to the end of `ref` are few and none is effective.  If so, they
        are consumed."""
        taken = self._changes.take(ref.max_key)
        if len(taken) <= _PROBE_COUNT_MAX:
            table = self._space.open(ref)
            if not any(_differs(table.get(key), new, self._replace) for key, new in taken):
                return True
        self._changes.give_back(taken)
        return False

    def _rewrite(self, ref: RangeRef, *, is_last: bool) -> None:
        before = self.total
        idle: list[Columns] = []  # unchanged so far: the range may still be added by reference
        is_idle = True
        for columns in range_columns(self._space, ref):
            for merged in self._merged_with_all(columns):
                if is_idle and self.total == before:
                    idle.append(merged)
                    continue
                is_idle = False
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
        bound = columns.last
        while self._changes.has(bound):
            batch = self._changes.take(bound)
            if len(batch) < _BATCH:
                yield self._merged(columns, batch)
                return
            head, columns = columns.split(bisect_right(columns.keys, batch[-1][0]))
            yield self._merged(head, batch)
        yield columns

    def _merged(self, columns: Columns, changes: Sequence[Change]) -> Columns:
        """`columns` with the changes applied; the same object if none is effective."""
        merged, *counts = _merged(columns, changes, self._replace)
        self._count(*counts)
        return merged


class _Effect(NamedTuple):
    """Columns with changes, and how many of them were effective."""

    columns: Columns
    added: int = 0
    changed: int = 0
    removed: int = 0


def _merged(columns: Columns, changes: Sequence[Change], replace: bool) -> _Effect:
    keys, values = columns.keys, columns.values
    if not keys:  # behind the last range, where a branch grows: nothing to search
        new_records = [(key, new) for key, new in changes if new is not TOMBSTONE]
        return _Effect(Columns.of(new_records) if new_records else columns, len(new_records))
    if len(changes) == len(keys) and all(map(eq, keys, map(_key, changes))):
        news = [new for _, new in changes if new is not TOMBSTONE]
        if len(news) == len(keys):
            return _replaced(columns, news, replace)
    edits: list[Edit] = []
    at, count = 0, len(keys)
    for key, new in changes:
        at = bisect_left(keys, key, at)
        if at < count and keys[at] == key:
            if _differs(values[at], new, replace):
                edits.append((at, at + 1, key, new))
        elif new is not TOMBSTONE:
            edits.append((at, at, key, new))
    if not edits:
        return _Effect(columns)
    removed = sum(value is TOMBSTONE for _, _, _, value in edits)
    added = sum(at == after for at, after, _, _ in edits)
    return _Effect(columns.changed(edits), added, len(edits) - removed - added, removed)


def _replaced(columns: Columns, news: list[bytes], replace: bool) -> _Effect:
    """As `_merged`, for a new value of each record: without a search, in half the time."""
    keys, values = columns.keys, columns.values
    if replace:
        differs = [_differs(old, new, replace) for old, new in zip(values, news, strict=True)]
    else:  # the same without a call for each pair
        differs = list(map(ne, map(identity_of, values), map(identity_of, news)))
    if not any(differs):
        return _Effect(columns)
    if all(differs):
        return _Effect(Columns(keys, news), changed=len(news))
    edits: list[Edit] = [
        (at, at + 1, key, new)
        for at, (is_other, key, new) in enumerate(zip(differs, keys, news, strict=True))
        if is_other
    ]
    return _Effect(columns.changed(edits), changed=len(edits))


def _differs(old: bytes | Absent, new: StagedValue, replace: bool) -> bool:
    if old is ABSENT:
        return new is not TOMBSTONE
    if new is TOMBSTONE:
        return True
    if identity_of(old) == identity_of(new):
        return replace and old != new
    return True
