"""From the ranges of all tasks to one metarange: what a single writer of all records would make.

A task begins and ends at a cut.  Where a range ended only because its task did, it is read again
with what follows, until an end agrees with one that is there already; from then on ranges go in as
they are.  With `min_size` 0 every cut is an end, and nothing is read.  Runs in the driver; memory
and time grow with the ranges.  For this package.
"""

from collections.abc import Sequence

from graveler.committed.ranges import Keyspace
from graveler.committed.writer import Assembler
from graveler.ids import MetarangeId
from graveler.records import RangeRef


def joined(space: Keyspace, refs: Sequence[RangeRef]) -> tuple[RangeRef, ...]:
    """The ranges of all of the records of `refs`, which are in key order.

    Raises `Invalid` if ranges overlap, `Corrupt` if one that must be read again is damaged.  Cost:
    none where every range ends by the rule; else a read and a write for each until ends agree.
    """
    assembler = Assembler(space)
    for ref in refs:
        assembler.add_range(ref, is_last=True)
    return assembler.finish()


def metarange(space: Keyspace, refs: Sequence[RangeRef]) -> MetarangeId:
    """Store the metarange over ranges in order.  One put."""
    return space.store.write_metarange(space.namespace, refs)
