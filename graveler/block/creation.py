"""Creates many objects: one by one, in drivers and wrappers that have no cheaper way."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from graveler.block.adapter import CREATE, OVERWRITE, Mode, NewObject, ObjectHead
from graveler.errors import GravelerError


class _Puts(Protocol):
    def put(
        self,
        address: str,
        body: Iterable[bytes],
        mode: Mode = OVERWRITE,
        storage_class: str = "",
    ) -> ObjectHead:
        """As `BlockStore.put`."""
        ...


class CreatesOneByOne:
    """`BulkCreations` by one `put` for each object."""

    def create_many(self: _Puts, objects: Sequence[NewObject]) -> list[ObjectHead | GravelerError]:
        results: list[ObjectHead | GravelerError] = []
        for new in objects:
            try:
                results.append(self.put(new.address, new.body, CREATE, new.storage_class))
            except GravelerError as error:
                results.append(error)
        return results
