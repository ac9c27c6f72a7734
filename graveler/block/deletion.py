"""Deleting many objects: what drivers without a request for that do, and however many there are.

`OneByOne` is for drivers; `delete_every` for the engine, and for Spark.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Protocol

from graveler import limits
from graveler.block import bounds
from graveler.block.adapter import BulkDeletes, Target
from graveler.errors import GravelerError, Unsupported


class _Deletes(Protocol):
    def delete(self, address: str, version: str = "") -> None:
        """As `BlockStore.delete`."""
        ...


class OneByOne:
    """`BulkDeletes` of whoever can delete one."""

    keeps_versions = True

    def delete_all(self: _Deletes, targets: Sequence[Target]) -> None:
        bounds.check_targets(targets)
        failed: list[GravelerError] = []
        for target in targets:
            try:
                self.delete(*target)
            except GravelerError as error:
                failed.append(error)
        if failed:
            raise failed[0]

    def check_versions(self, address: str) -> None:
        """Nothing is asked."""
        if not self.keeps_versions:
            raise Unsupported(f"no versions are kept here: keep them first: {address=}")


def delete_every(blocks: BulkDeletes, addresses: Iterable[str]) -> int:
    """Remove whatever is at these addresses; how many they were.  Cost: a deletion of many for each
    1,000.  Raises at the first 1,000 of which any failed."""
    rest, count = iter(addresses), 0
    while part := [Target(each) for each in islice(rest, limits.block_delete_count_max)]:
        blocks.delete_all(part)
        count += len(part)
    return count
