"""Creates many objects: one by one, in drivers and wrappers that have no cheaper way."""

from collections.abc import Sequence

from graveler.block.adapter import CREATE, BlockStore, NewObject, ObjectHead
from graveler.errors import GravelerError


class CreatesOneByOne:
    """`BulkCreations` by one `put` for each object."""

    def create_many(
        self: BlockStore, objects: Sequence[NewObject]
    ) -> list[ObjectHead | GravelerError]:
        results: list[ObjectHead | GravelerError] = []
        for new in objects:
            try:
                results.append(self.put(new.address, new.body, CREATE, new.storage_class))
            except GravelerError as error:
                results.append(error)
        return results
