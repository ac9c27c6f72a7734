"""Three-way merge of keyspaces, path by path, by the identity of values.

    base b, source s, destination d; absence counts as an identity
    s = d → d     s = b → d     d = b → s     otherwise a conflict, or the side that a resolution
                                              of the path, or else the strategy, names

In a region of keys where two sides hold the same ranges, no range is opened.  Elsewhere the paths
on which source and base differ are looked up in the destination.

The changes that a merge would make, with whole ranges where a range is all added or all removed.

A range that overlaps no range of another side holds only paths of its own.  A caller that counts
need not read it, because its metarange says how many records it has.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from operator import attrgetter
from typing import Literal, NamedTuple

from graveler.committed.apply import Applier, Changes
from graveler.committed.diff import compare
from graveler.committed.ranges import Keyspace, Metarange, foreseen, max_key_of
from graveler.committed.reader import get_many_from
from graveler.committed.writer import Assembler
from graveler.core import limits
from graveler.core.identity import identity_of
from graveler.core.ids import MetarangeId
from graveler.core.records import ABSENT, TOMBSTONE, Absent, Change, Difference, RangeRef, Strategy
from graveler.core.streams import successor

# ---- merge -----------------------------------------------------------------------------------

_BATCH = 4096


class MergeResult(NamedTuple):
    """The merged metarange; or, if there are conflicts that nothing resolves, the destination's
    metarange and the first of these conflicts."""

    metarange_id: MetarangeId
    conflicts: tuple[Difference, ...] = ()


@dataclass(frozen=True)
class Resolutions:
    """Which side a conflict takes: that of the longest prefix of the path in `prefixes`; without
    one, that of `strategy`."""

    strategy: Strategy = ""
    prefixes: Mapping[bytes, Strategy] = field(default_factory=dict)

    @cached_property
    def _lengths(self) -> Sequence[int]:
        return sorted({len(prefix) for prefix in self.prefixes}, reverse=True)

    def of(self, key: bytes) -> Strategy:
        """The side that decides the path; empty: nothing does."""
        for length in self._lengths:
            side = self.prefixes.get(key[:length])
            if side is not None:
                return side
        return self.strategy


UNRESOLVED = Resolutions()


class Sides(NamedTuple):
    """The ranges of the three sides, in a whole keyspace or in one region."""

    base: Sequence[RangeRef]
    source: Sequence[RangeRef]
    destination: Sequence[RangeRef]


def merge(
    space: Keyspace,
    base_id: MetarangeId,
    source_id: MetarangeId,
    destination_id: MetarangeId,
    resolutions: Resolutions = UNRESOLVED,
) -> MergeResult:
    """Merge the changes from base to source into the destination.

    If there are conflicts that nothing resolves, the result is the destination and at most
    `limits.conflict_paths_reported_max` of them; no metarange is written.  If the result equals
    the destination or the source, its id is returned and no metarange is written.
    Cost: reads the ranges that changed on both sides, writes those whose paths change, and one put
    for the metarange.
    """
    if source_id in (destination_id, base_id):
        return MergeResult(destination_id)
    if destination_id == base_id:
        return MergeResult(source_id)
    sides = sides_of(space, base_id, source_id, destination_id)
    assembler = Assembler(space)
    conflicts: list[Difference] = []
    for region in foreseen(space, regions(sides), _opened, is_whole=True):
        if conflicts:
            break
        taken = settled(region)
        if taken is None:
            changes = _ResolvedChanges(space, region, resolutions, conflicts)
            applier = Applier(space, assembler, Changes(changes), replace=False)
            applier.over(region.destination, is_tail=is_tail(region.destination, sides))
            continue
        add_taken(assembler, taken, sides)
    if conflicts:
        room = limits.conflict_paths_reported_max
        left = (each for each in _conflicts(space, sides, b"", b"") if not resolutions.of(each.key))
        first = islice(left, room)
        return MergeResult(destination_id, tuple(first))
    result = assembler.finish()
    if result == tuple(sides.destination):
        return MergeResult(destination_id)
    if result == tuple(sides.source):
        return MergeResult(source_id)
    return MergeResult(space.store.write_metarange(space.namespace, result))


def differences(
    space: Keyspace,
    base_id: MetarangeId,
    source_id: MetarangeId,
    destination_id: MetarangeId,
    start: bytes = b"",
    prefix: bytes = b"",
) -> Iterator[Difference]:
    """The changes that a merge would make to the destination, in key order, without making them.

    `left` is the destination's value, `right` the source's.  The kind is `conflict` if both changed
    a path differently.  Paths on which the rule keeps the destination are left out."""
    sides = sides_of(space, base_id, source_id, destination_id)
    return _differences(space, sides, start, prefix)


def conflicts(
    space: Keyspace,
    base_id: MetarangeId,
    source_id: MetarangeId,
    destination_id: MetarangeId,
    start: bytes = b"",
    prefix: bytes = b"",
) -> Iterator[Difference]:
    """All conflicts, in key order."""
    sides = sides_of(space, base_id, source_id, destination_id)
    return _conflicts(space, sides, start, prefix)


def _conflicts(space: Keyspace, sides: Sides, start: bytes, prefix: bytes) -> Iterator[Difference]:
    return (each for each in _differences(space, sides, start, prefix) if each.kind == "conflict")


def _differences(
    space: Keyspace, sides: Sides, start: bytes, prefix: bytes
) -> Iterator[Difference]:
    for region in foreseen(space, _within(sides, start, prefix), _compared):
        yield from region_differences(space, region, start, prefix)


def region_differences(
    space: Keyspace, region: Sides, start: bytes = b"", prefix: bytes = b""
) -> Iterator[Difference]:
    """As `differences`, in one region whose destination `settled` does not take."""
    destination = Metarange.of(region.destination)
    unchanged = _equal(region.destination, region.base)
    changed = compare(space, region.base, region.source, start, prefix)
    if unchanged:
        yield from changed
        return
    while batch := list(islice(changed, _BATCH)):
        held = get_many_from(space, destination, [difference.key for difference in batch])
        for difference in batch:
            yield from _judged(difference, held.get(difference.key, ABSENT))


def _judged(difference: Difference, held: bytes | Absent) -> Iterator[Difference]:
    """Apply the rule to a path on which source and base differ.  `held`: the destination's value.
    Yields one difference between destination and source, or none if they agree."""
    base, source = _identity(difference.left), _identity(difference.right)
    destination = _identity(held)
    if source == destination:
        return
    if destination == base:
        yield difference._replace(left=held)
    else:
        yield Difference("conflict", difference.key, held, difference.right)


def _identity(value: bytes | Absent) -> bytes | Absent:
    return value if value is ABSENT else identity_of(value)


class _ResolvedChanges:
    """The changes that the merge of a region makes to the destination.  The first conflict that
    nothing resolves is added to `conflicts` and ends the stream."""

    def __init__(
        self,
        space: Keyspace,
        region: Sides,
        resolutions: Resolutions,
        conflicts: list[Difference],
    ) -> None:
        self._found = region_differences(space, region, b"", b"")
        self._resolutions = resolutions
        self._conflicts = conflicts

    def __iter__(self) -> Iterator[Change]:
        for difference in self._found:
            if difference.kind == "conflict":
                side = self._resolutions.of(difference.key)
                if side == "dest-wins":
                    continue
                if side == "":
                    self._conflicts.append(difference)
                    return
            yield difference.key, TOMBSTONE if difference.right is ABSENT else difference.right


def settled(region: Sides) -> Sequence[RangeRef] | None:
    """The side that the rule takes for all paths of a region, if two sides are equal; otherwise
    None."""
    if _equal(region.source, region.destination) or _equal(region.source, region.base):
        return region.destination
    if _equal(region.destination, region.base):
        return region.source
    return None


def _equal(left: Sequence[RangeRef], right: Sequence[RangeRef]) -> bool:
    return left is right or (
        len(left) == len(right)
        and all(
            one.id == two.id or (one.identity != b"" and one.identity == two.identity)
            for one, two in zip(left, right, strict=True)
        )
    )


def is_tail(refs: Sequence[RangeRef], sides: Sides) -> bool:
    """Whether the last of `refs` is the last range of any side."""
    return bool(refs) and any(side and side[-1].id == refs[-1].id for side in sides)


def add_taken(assembler: Assembler, refs: Sequence[RangeRef], sides: Sides) -> None:
    """Add the ranges that a region takes unchanged."""
    tails = {side[-1].id for side in sides if side}
    begin = 0
    for at in [at for at, ref in enumerate(refs) if ref.id in tails]:
        assembler.add_ranges(refs[begin:at])
        assembler.add_range(refs[at], is_last=True)
        begin = at + 1
    assembler.add_ranges(refs[begin:])


def regions(sides: Sides) -> Iterator[Sides]:
    """Groups of ranges, in key order, such that no range reaches into another group: the smallest
    ones, but adjacent ranges that all sides share are one group."""
    shared = set(map(_id_of, sides.base))
    shared.intersection_update(map(_id_of, sides.source))
    shared.intersection_update(map(_id_of, sides.destination))
    kept = [ref for ref in sides.destination if ref.id in shared]
    done = 0
    for group in _groups(Sides(*([ref for ref in side if ref.id not in shared] for side in sides))):
        begin = min(side[0].min_key for side in group if side)
        before = bisect_left(kept, begin, done, key=max_key_of)
        if done < before:
            yield Sides(*(kept[done:before],) * len(sides))
        done = before
        yield group
    if done < len(kept):
        yield Sides(*(kept[done:],) * len(sides))


def _within(sides: Sides, start: bytes, prefix: bytes) -> Iterator[Sides]:
    """The regions in which a merge may change the destination, with keys from `start` on that have
    `prefix`."""
    first, beyond = max(start, prefix), successor(prefix)
    for region in regions(sides):
        refs = [*chain(*region)]
        if beyond and min(ref.min_key for ref in refs) >= beyond:
            return
        if max(ref.max_key for ref in refs) >= first and settled(region) is not region.destination:
            yield region


def _opened(region: Sides) -> Sequence[RangeRef]:
    """The ranges that the merge of a region reads."""
    return _compared(region) if settled(region) is None else ()


def _compared(region: Sides) -> Sequence[RangeRef]:
    """The ranges that `region_differences` reads, mostly whole: those that base and source do not
    share, and those of the destination in which their keys are looked up."""
    shared = set(map(_id_of, region.base)).intersection(map(_id_of, region.source))
    changed = [ref for ref in (*region.base, *region.source) if ref.id not in shared]
    ends = sorted(ref.max_key for ref in changed)
    begins = sorted(ref.min_key for ref in changed)
    return changed + [
        ref
        for ref in region.destination
        if bisect_right(begins, ref.max_key) > bisect_left(ends, ref.min_key)  # it meets some
    ]


_id_of: Callable[[RangeRef], str] = attrgetter("id")


def _groups(sides: Sides) -> Iterator[Sides]:
    marked = sorted(
        ((ref.min_key, ref.max_key, at, ref) for at, side in enumerate(sides) for ref in side),
        key=lambda mark: mark[:3],
    )
    group: tuple[list[RangeRef], list[RangeRef], list[RangeRef]] = ([], [], [])
    end = b""
    for begin, last, at, ref in marked:
        if begin > end and any(group):
            yield Sides(*group)
            group = ([], [], [])
        group[at].append(ref)
        end = max(end, last)
    if any(group):
        yield Sides(*group)


def sides_of(
    space: Keyspace,
    base_id: MetarangeId,
    source_id: MetarangeId,
    destination_id: MetarangeId,
) -> Sides:
    """The ranges of three metaranges.  Raises `Gone`."""
    tables = (space.metarange(name).ranges for name in (base_id, source_id, destination_id))
    return Sides(*tables)


# ---- tally -----------------------------------------------------------------------------------


class WholeRange(NamedTuple):
    """All paths of a range are added to the destination, or removed from it."""

    kind: Literal["added", "removed"]
    ref: RangeRef


class Trees(NamedTuple):
    """The metaranges of the three sides of a merge."""

    base: MetarangeId
    source: MetarangeId
    destination: MetarangeId


def changes(
    space: Keyspace,
    trees: Trees,
    start: bytes,
    prefix: bytes,
    counts_whole: Callable[[RangeRef], bool],
) -> Iterator[Difference | WholeRange]:
    """The changes of `merge.differences`, in key order.

    A range that is all added or all removed, and lies within `start` and `prefix`, is yielded as a
    whole if `counts_whole` says so, and is not opened.  Every other such range is yielded path by
    path.
    """
    beyond = successor(prefix)
    first = max(start, prefix)

    def read_of(region: Sides) -> Sequence[RangeRef]:
        return () if _is_one_sided(region) else _compared(region)

    for region in foreseen(space, _within(sides_of(space, *trees), start, prefix), read_of):
        for part in _parts(region):
            ref = (*part.source, *part.base)[0]
            is_whole = ref.min_key >= first and not (beyond and ref.max_key >= beyond)
            if _is_one_sided(part) and is_whole and counts_whole(ref):
                yield WholeRange("added" if part.source else "removed", ref)
            else:
                yield from region_differences(space, part, start, prefix)


def _is_one_sided(region: Sides) -> bool:
    """Whether a region that is not settled for its destination has ranges of the source only, or
    none of the source: then its ranges are those of the base."""
    if region.source:
        return not region.base and not region.destination
    return settled(region) is region.source


def _parts(region: Sides) -> Iterator[Sides]:
    """A one-sided region range by range; any other region as it is."""
    if not _is_one_sided(region):
        yield region
    elif region.source:
        yield from (Sides((), (ref,), ()) for ref in region.source)
    else:
        yield from (Sides((ref,), (), (ref,)) for ref in region.base)
