"""Three-way merge of keyspaces, path by path, by the identity of values.

    base b, source s, destination d; absence counts as an identity
    s = d → d     s = b → d     d = b → s     otherwise a conflict, or the side that a resolution
                                              of the path, or else the strategy, names

In a region of keys where two sides hold the same ranges, no range is opened.  Elsewhere the paths
on which source and base differ are looked up in the destination.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from graveler import limits
from graveler.committed.apply import Applier, Changes
from graveler.committed.diff import compare
from graveler.committed.ranges import Keyspace, Metarange
from graveler.committed.reader import get_many_from
from graveler.committed.writer import Assembler
from graveler.framing import identity_of
from graveler.ids import MetarangeId
from graveler.records import (
    ABSENT,
    TOMBSTONE,
    Absent,
    Change,
    Difference,
    RangeRef,
    Strategy,
)

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
    for region in regions(sides):
        if conflicts:
            break
        taken = settled(region)
        if taken is None:
            changes = _ResolvedChanges(space, region, resolutions, conflicts)
            applier = Applier(space, assembler, Changes(changes), replace=False)
            applier.over(region.destination, is_tail=is_tail(region.destination, sides))
            continue
        for ref in taken:
            assembler.add_range(ref, is_last=is_tail([ref], sides))
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
    for region in regions(sides):
        if settled(region) is region.destination:
            continue
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
    return len(left) == len(right) and all(
        one.id == two.id or (one.identity != b"" and one.identity == two.identity)
        for one, two in zip(left, right, strict=True)
    )


def is_tail(refs: Sequence[RangeRef], sides: Sides) -> bool:
    """Whether the last of `refs` is the last range of any side."""
    return bool(refs) and any(side and side[-1].id == refs[-1].id for side in sides)


def regions(sides: Sides) -> Iterator[Sides]:
    """The smallest groups of ranges, in key order, such that no range reaches into another
    group."""
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
