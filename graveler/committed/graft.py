"""Ranges that somebody else has written, put into a keyspace that may have moved on meanwhile.

    replace_prefix   head    ──────┤old  old│old old├──────     what is below the prefix goes,
                     written       ┌new new new new new┐        the ranges written come by reference

    reapply          base ──changes──► written                  the changes go onto the head; where
                     base ──others'──► head                     nobody else was, ranges by reference

    follow           base ──other ranges──► written          the same content, otherwise cut; what
                     base ──others'──► head                  the head says otherwise goes onto it

Whole ranges of either side go in as they are.  Only a range that the prefix's edge cuts, or one of
a stretch that both sides changed, is read and written.  The result is what applying the same
records one after the other would give (`apply.py`), for a head whose ranges came from the same
breaks.
For the engine.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from graveler.committed.apply import Applier, Changes, apply
from graveler.committed.diff import compare
from graveler.committed.merge import Sides, is_tail, regions, sides_of
from graveler.committed.ranges import Columns, Keyspace
from graveler.committed.reader import range_columns
from graveler.committed.writer import Assembler
from graveler.errors import Invalid
from graveler.ids import MetarangeId
from graveler.records import ABSENT, TOMBSTONE, Change, RangeRef
from graveler.streams import successor

_Named = tuple[MetarangeId, tuple[RangeRef, ...]]


def replace_prefix(
    space: Keyspace, head_id: MetarangeId, written_id: MetarangeId, prefix: bytes
) -> MetarangeId:
    """The head, with the content of `written_id`, all of it below `prefix`, in place of what the
    head has there.

    Raises `Invalid` if a range of it lies elsewhere.  Cost: the head's ranges that an edge of the
    prefix cuts, two at most, and those behind each until an end agrees, are read and written; one
    put for the metarange, none if it is there already.
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
    """Raises `Invalid` if any of these ranges, which are in order, holds other keys."""
    for ref in (refs[0], refs[-1]) if refs else ():
        if not (ref.min_key.startswith(prefix) and ref.max_key.startswith(prefix)):
            raise Invalid(f"range does not lie below the prefix: range={ref.id} {prefix=}")


def _is_cut(ref: RangeRef, beyond: bytes) -> bool:
    """Whether a range begins before `beyond` and does not end there."""
    return beyond != b"" and ref.min_key < beyond <= ref.max_key


def _below_added(
    space: Keyspace, assembler: Assembler, ref: RangeRef, prefix: bytes
) -> list[Columns]:
    """Add the records of a range before `prefix`; what is left of it."""
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
    """The head, with every path on which `written_id` differs from the base as `written_id` has it.

    Values of equal identity but other bytes differ.  Cost: the ranges of stretches that changed on
    both sides are read, those whose paths change are written; one put for the metarange, none if it
    is there already.
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
        for ref in taken:
            assembler.add_range(ref, is_last=is_tail([ref], sides))
    head, written = (head_id, tuple(sides.destination)), (written_id, tuple(sides.source))
    return _stored(space, assembler, head, written)


def follow(
    space: Keyspace, base_id: MetarangeId, written_id: MetarangeId, head_id: MetarangeId
) -> MetarangeId:
    """What the head says, in the ranges of `written_id`, which says what the base says.

    Cost: the ranges in which head and base differ are read, those of `written_id` that hold such
    paths read and written; one put for the metarange.  None if the head is the base.
    """
    if head_id == base_id:
        return written_id
    base, head = space.metarange(base_id).ranges, space.metarange(head_id).ranges
    return apply(space, written_id, _changes(space, base, head), replace=True).metarange_id


def _settled(region: Sides) -> Sequence[RangeRef] | None:
    """The side that a region takes as it is: nobody else was there, or nothing was to be done."""
    base, written, head = ([ref.id for ref in side] for side in region)
    if written in (base, head):
        return region.destination
    return region.source if head == base else None


def _changes(
    space: Keyspace, base: Sequence[RangeRef], changed: Sequence[RangeRef]
) -> Iterator[Change]:
    for found in compare(space, base, changed, bytewise=True):
        yield found.key, TOMBSTONE if found.right is ABSENT else found.right


def _stored(space: Keyspace, assembler: Assembler, *known: _Named) -> MetarangeId:
    result = assembler.finish()
    for id, refs in known:
        if result == refs and id != "":
            return id
    return space.store.write_metarange(space.namespace, result)
