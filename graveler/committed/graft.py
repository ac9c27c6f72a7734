"""Puts ranges that were written elsewhere into a keyspace whose head may have moved since.

    replace_prefix   head    ──────┤old  old│old old├──────     content below the prefix is removed,
                     written       ┌new new new new new┐        written ranges go in by reference

    reapply          base ──changes──► written                  the changes are applied to the head;
                     base ──others'──► head                     where only one side changed, ranges
                                                                go in by reference

    follow           base ──other ranges──► written          equal content in other ranges; the
                     base ──others'──► head                  head's changes are applied to it

Only ranges that an edge of the prefix cuts, and regions that both sides changed, are rewritten.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from graveler.committed.apply import Applier, Changes, apply
from graveler.committed.columns import Columns
from graveler.committed.diff import compare
from graveler.committed.merge import Sides, add_taken, is_tail, regions, sides_of
from graveler.committed.ranges import Keyspace
from graveler.committed.reader import range_columns
from graveler.committed.writer import Assembler
from graveler.core.errors import Invalid
from graveler.core.ids import MetarangeId
from graveler.core.records import ABSENT, TOMBSTONE, Change, RangeRef
from graveler.core.streams import successor

_Named = tuple[MetarangeId, tuple[RangeRef, ...]]


def replace_prefix(
    space: Keyspace, head_id: MetarangeId, written_id: MetarangeId, prefix: bytes
) -> MetarangeId:
    """The head, with its content below `prefix` replaced by the content of `written_id`.

    Raises `Invalid` if a range of `written_id` has keys outside `prefix`.  Cost: reads and writes
    the head's ranges that an edge of the prefix cuts (two at most), and those behind each until a
    boundary agrees; one put for the metarange, none if the result equals the head or `written_id`.
    """
    head, written = space.metarange(head_id).ranges, space.metarange(written_id).ranges
    check_below(written, prefix)
    beyond = successor(prefix)
    assembler = Assembler(space)
    above: list[Columns] = []
    for ref in head:
        if ref.max_key < prefix:
            assembler.add_range(ref, is_last=ref is head[-1])
        elif ref.min_key < prefix or _is_cut(ref, beyond):
            above += _below_added(space, assembler, ref, prefix)
    for ref in written:
        assembler.add_range(ref, is_last=ref is written[-1])
    for columns in above:
        cut = bisect_left(columns.keys, beyond) if beyond else len(columns.keys)
        assembler.add_columns(columns.split(cut)[1] if cut else columns)
    for ref in head:
        if _is_cut(ref, beyond):
            assembler.end_range(ref, is_last=ref is head[-1])
        elif beyond and ref.min_key >= beyond:
            assembler.add_range(ref, is_last=ref is head[-1])
    return _stored(space, assembler, (head_id, head), (written_id, written))


def check_below(refs: Sequence[RangeRef], prefix: bytes) -> None:
    """Raises `Invalid` if any of these ranges, which are in key order, has a key outside
    `prefix`."""
    for ref in (refs[0], refs[-1]) if refs else ():
        if not (ref.min_key.startswith(prefix) and ref.max_key.startswith(prefix)):
            raise Invalid(f"range does not lie below the prefix: range={ref.id} {prefix=}")


def _is_cut(ref: RangeRef, beyond: bytes) -> bool:
    """Whether a range begins before `beyond` and ends at or after it."""
    return beyond != b"" and ref.min_key < beyond <= ref.max_key


def _below_added(
    space: Keyspace, assembler: Assembler, ref: RangeRef, prefix: bytes
) -> list[Columns]:
    """Add the records of a range that sort before `prefix`, and return the others."""
    rest: list[Columns] = []
    for columns in range_columns(space, ref):
        cut = bisect_left(columns.keys, prefix)
        if cut == len(columns.keys):
            assembler.add_columns(columns)
        elif cut:
            head, tail = columns.split(cut)
            assembler.add_columns(head)
            rest.append(tail)
        else:
            rest.append(columns)
    return rest


def reapply(
    space: Keyspace, base_id: MetarangeId, written_id: MetarangeId, head_id: MetarangeId
) -> MetarangeId:
    """The head, with the value of `written_id` on every path on which `written_id` differs from the
    base.

    Values of equal identity but different bytes count as different.  Cost: reads the ranges of
    regions that both sides changed, and writes those whose paths change; one put for the
    metarange, none if the result equals the head or `written_id`.
    """
    if head_id == base_id:
        return written_id
    if written_id in (base_id, head_id):
        return head_id
    sides = sides_of(space, base_id, written_id, head_id)
    assembler = Assembler(space)
    for region in regions(sides):
        taken = _settled(region)
        if taken is None:
            changes = Changes(_changes(space, region.base, region.source))
            applier = Applier(space, assembler, changes, replace=True)
            applier.over(region.destination, is_tail=is_tail(region.destination, sides))
            continue
        add_taken(assembler, taken, sides)
    head, written = (head_id, tuple(sides.destination)), (written_id, tuple(sides.source))
    return _stored(space, assembler, head, written)


def follow(
    space: Keyspace, base_id: MetarangeId, written_id: MetarangeId, head_id: MetarangeId
) -> MetarangeId:
    """The content of the head, in the ranges of `written_id`, whose content equals the base's.

    Cost: reads the ranges in which head and base differ, reads and writes the ranges of
    `written_id` with such paths, and one put for the metarange.  No cost if the head is the base.
    """
    if head_id == base_id:
        return written_id
    base, head = space.metarange(base_id).ranges, space.metarange(head_id).ranges
    return apply(space, written_id, _changes(space, base, head), replace=True).metarange_id


def _settled(region: Sides) -> Sequence[RangeRef] | None:
    """The side whose ranges a region takes unchanged, because only one side changed them, or both
    are equal; None if both sides changed them."""
    base, written, head = ([ref.id for ref in side] for side in region)
    if written in (base, head):
        return region.destination
    return region.source if head == base else None


def _changes(
    space: Keyspace, base: Sequence[RangeRef], changed: Sequence[RangeRef]
) -> Iterator[Change]:
    for difference in compare(space, base, changed, bytewise=True):
        yield difference.key, TOMBSTONE if difference.right is ABSENT else difference.right


def _stored(space: Keyspace, assembler: Assembler, *known: _Named) -> MetarangeId:
    result = assembler.finish()
    for id, refs in known:
        if result == refs and id != "":
            return id
    return space.store.write_metarange(space.namespace, result)
