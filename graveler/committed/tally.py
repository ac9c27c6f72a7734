"""The changes that a merge would make, with whole ranges where a range is all added or all removed.

A range that overlaps no range of another side holds only paths of its own.  A caller that counts
need not read it, because its metarange says how many records it has.
"""

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from graveler.committed.merge import Sides, region_differences, regions, settled, sides_of
from graveler.committed.ranges import Keyspace
from graveler.ids import MetarangeId
from graveler.records import Difference, RangeRef
from graveler.streams import successor


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
    for region in regions(sides_of(space, *trees)):
        refs = [ref for side in region for ref in side]
        if beyond and min(ref.min_key for ref in refs) >= beyond:
            return
        if max(ref.max_key for ref in refs) < first or settled(region) is region.destination:
            continue
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
