"""Puts ranges that were written elsewhere into a keyspace whose head may have moved since.

    reapply          base ──changes──► written                  the changes are applied to the head;
                     base ──others'──► head                     where only one side changed, ranges
                                                                go in by reference

    follow           base ──other ranges──► written          equal content in other ranges; the
                     base ──others'──► head                  head's changes are applied to it

    splice           head    ──┤old old├───┤old├───────      content below prefixes is removed, and
                     written   ┌new new┐     new     new      written records are put on top

Only ranges that an edge of a prefix cuts, and regions that both sides changed, are rewritten.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from itertools import groupby
from operator import itemgetter

from graveler.committed.apply import Applier, Changes, apply
from graveler.committed.diff import compare
from graveler.committed.merge import Sides, add_taken, is_tail, regions, sides_of
from graveler.committed.ranges import Keyspace, max_key_of, min_key_of
from graveler.committed.reader import range_columns
from graveler.committed.writer import Assembler
from graveler.core.errors import Invalid
from graveler.core.ids import MetarangeId
from graveler.core.records import ABSENT, TOMBSTONE, Change, RangeRef, Record
from graveler.core.streams import Prefixes, successor

_Named = tuple[MetarangeId, tuple[RangeRef, ...]]


def check_below(refs: Sequence[RangeRef], prefix: bytes) -> None:
    """Raises `Invalid` if any of these ranges, which are in key order, has a key outside
    `prefix`."""
    for ref in (refs[0], refs[-1]) if refs else ():
        if not (ref.min_key.startswith(prefix) and ref.max_key.startswith(prefix)):
            raise Invalid(f"range does not lie below the prefix: range={ref.id} {prefix=}")


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


def splice(
    space: Keyspace, head_id: MetarangeId, written_id: MetarangeId, replaced: Prefixes
) -> MetarangeId:
    """The head without its content below the prefixes `replaced`, and with every record of
    `written_id` put on top.

    Ranges of the head below one of the prefixes are dropped unopened.  Ranges that meet no range of
    the other side, and no edge of a prefix, go in by reference; also if many written ranges lie
    between records of one range.  Cost: reads and writes the other ranges, and those behind each
    until a boundary agrees; one put for the metarange, none if the result equals the head or
    `written_id`.
    """
    head, written = space.metarange(head_id).ranges, space.metarange(written_id).ranges
    dropped, touched = _met(head, written, replaced)
    kept = [ref for at, ref in enumerate(head) if at not in dropped]
    untouched = [ref for at, ref in enumerate(head) if at not in dropped and at not in touched]
    sides, assembler = Sides((), written, head), Assembler(space)
    for region in regions(Sides(untouched, [*untouched, *written], kept)):
        if region.base:
            add_taken(assembler, region.destination, sides)
        elif not region.destination:
            add_taken(assembler, region.source, sides)
        elif len(region.source) > len(region.destination):
            _put_between(space, assembler, region, replaced, sides)
        else:
            changes = Changes(_spliced(space, region, replaced))
            applier = Applier(space, assembler, changes, replace=True)
            applier.over(region.destination, is_tail=is_tail(region.destination, sides))
    return _stored(space, assembler, (head_id, head), (written_id, written))


def _met(
    head: Sequence[RangeRef], written: Sequence[RangeRef], replaced: Prefixes
) -> tuple[set[int], set[int]]:
    """The positions of the head's ranges that lie below one of the prefixes, and of those that an
    edge of a prefix cuts or that a written range overlaps."""
    dropped, touched = set[int](), set[int]()
    for prefix in replaced:
        beyond = successor(prefix)
        first = bisect_left(head, prefix, key=max_key_of)
        last = bisect_left(head, beyond, first, key=min_key_of) if beyond else len(head)
        for at in range(first, last):
            is_below = head[at].min_key.startswith(prefix) and head[at].max_key.startswith(prefix)
            (dropped if is_below else touched).add(at)
    for ref in written:
        first = bisect_left(head, ref.min_key, key=max_key_of)
        touched.update(range(first, bisect_right(head, ref.max_key, first, key=min_key_of)))
    return dropped, touched


_key_of: Callable[[Change], bytes] = itemgetter(0)


def _put_between(
    space: Keyspace, assembler: Assembler, region: Sides, replaced: Prefixes, sides: Sides
) -> None:
    """Add a region that has more written ranges than ranges of the head.  A written range that lies
    between two records that stay goes in by reference."""
    kept = Changes(
        record
        for ref in region.destination
        for columns in range_columns(space, ref)
        for record in columns.records
        if record[0] not in replaced
    )
    for ref in region.source:
        while batch := kept.take(ref.min_key):
            assembler.add(_records(batch if batch[-1][0] < ref.min_key else batch[:-1]))
        if kept.has(ref.max_key):
            records = dict[bytes, bytes]()
            while batch := kept.take(ref.max_key):
                records.update(_records(batch))
            for columns in range_columns(space, ref):
                records.update(columns.records)
            assembler.add(sorted(records.items()))
            assembler.end_range(ref, is_last=is_tail((ref,), sides))
        else:
            assembler.add_range(ref, is_last=is_tail((ref,), sides))
    while batch := kept.take(None):
        assembler.add(_records(batch))
    assembler.end_range(region.destination[-1], is_last=is_tail(region.destination, sides))


def _records(changes: Sequence[Change]) -> list[Record]:
    return [(key, value) for key, value in changes if value is not TOMBSTONE]


def _spliced(space: Keyspace, region: Sides, replaced: Prefixes) -> Iterator[Change]:
    """The changes of one region: deletions below the prefixes, and on top the written records."""
    removed = (
        (key, TOMBSTONE)
        for ref in region.destination
        if replaced.meet(ref.min_key, ref.max_key)
        for columns in range_columns(space, ref)
        for key in columns.keys
        if key in replaced
    )
    put = (
        record
        for ref in region.source
        for columns in range_columns(space, ref)
        for record in columns.records
    )
    changes: Iterator[Change] = merge(removed, put, key=_key_of)
    for _, same in groupby(changes, _key_of):
        *_, last = same
        yield last


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
