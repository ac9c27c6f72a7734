"""Deletes many objects: one by one in drivers, and in batches of 1,000 for callers.

`OneByOne` is for drivers whose storage has no request for many deletions.  `delete_every` is for
the engine and for Spark.
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
    """`BulkDeletes` for a driver that can delete one object per request."""

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
        """Sends no request."""
        if not self.keeps_versions:
            raise Unsupported(f"the bucket keeps no versions: enable versioning first: {address=}")


def delete_every(blocks: BulkDeletes, addresses: Iterable[str]) -> int:
    """Delete the objects at these addresses, any version; return the number of addresses.

    Cost: one `delete_all` per 1,000.  Raises after the first batch of 1,000 with a failure.
    """
    rest, count = iter(addresses), 0
    while part := [Target(each) for each in islice(rest, limits.block_delete_count_max)]:
        blocks.delete_all(part)
        count += len(part)
    return count
